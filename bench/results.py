"""What a run found, as plain data: rows, ratios, checks, the machine. One JSON object, written and read here.

Times on a shared machine mean little; ratios within one run mean much more. So a later run is compared with
the saved one by its ratios alone, and one that fell far is pointed out as a
possible regression.
"""

import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.live_index import Churn, LiveMatch, Parsing
from bench.live_runs import LiveRun
from bench.memory import Memory
from bench.rounds import Row
from bench.workloads import REPOSITORY


def saved_at(name: str) -> Path:
    return REPOSITORY / "bench" / "results" / f"{name}.json"


SAVED = saved_at("matching")
FALL_MAX = 0.30  # a ratio may fall this far before it is pointed out: noise moves ratios, but rarely so much

LIBRARIES = ("numpy", "numba", "pyarrow", "duckdb", "polars", "sqlglot")


@dataclass(frozen=True)
class Check:
    name: str
    sense: str  # "at least" or "less than"
    target: float
    unit: str
    measured: float

    @property
    def holds(self) -> bool:
        return self.measured >= self.target if self.sense == "at least" else self.measured < self.target

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"holds": self.holds}


@dataclass
class Results:
    quick: bool
    rounds: int
    rows: list[Row] = field(default_factory=list)
    index: list[dict[str, Any]] = field(default_factory=list)  # Holdfast's preparation, per workload
    live: LiveMatch | None = None
    runs: list[LiveRun] = field(default_factory=list)
    churn: Churn | None = None
    parsing: list[Parsing] = field(default_factory=list)
    memory: Memory | None = None
    left_out: list[str] = field(default_factory=list)

    def ratios(self) -> dict[str, float]:
        """How many times as fast Holdfast was, by what it was compared with."""
        found = batch_ratios(self.rows)
        if self.live is not None:
            found[f"live match at {self.live.subscriptions:,}: scan"] = self.live.ratio
        for each in self.parsing:
            if each.ratio is not None:
                found[f"parse {each.texts}: sqlglot"] = each.ratio
        return found

    def checks(self) -> list[Check]:
        ratios = batch_ratios(self.rows)
        found = []
        for name, subscriptions, peer, target in _BATCH_TARGETS:
            for row in self.rows:
                if (row.workload, row.subscriptions, row.contestant) == (name, subscriptions, peer):
                    measured = ratios[ratio_name(row)]
                    title = f"batch, {name} {subscriptions:,}: {row.label if row.threads > 1 else peer}"
                    found.append(Check(title, "at least", target, "x", measured))
        return found + self._live_checks() + self._run_checks() + self._memory_checks()

    def _run_checks(self) -> list[Check]:
        found = []
        for each in self.runs:
            name = f"{each.workload} {each.subscriptions:,}"
            found.append(Check(f"{name}, runs of 64", "less than", each.run_limit_us, "us", each.run_us))
            found.append(Check(f"{name}, single events", "less than", each.single_limit_us, "us", each.single_us))
        return found

    def _live_checks(self) -> list[Check]:
        found = []
        if self.live is not None:
            name = f"live match at {self.live.subscriptions:,}: scan"
            found.append(Check(name, "at least", 100, "x", self.live.ratio))
        if self.churn is not None:
            name = f"add and remove at {self.churn.subscriptions:,}, while matching"
            found.append(Check(name, "at least", 20_000, "/s", self.churn.pairs_per_second))
        for parsing in self.parsing[:1]:  # the others are shown, and show where the parser is slower
            found.append(Check(f"parse {parsing.texts}", "at least", 50_000, "/s", parsing.parse_per_second))
            if parsing.ratio is not None:
                found.append(Check(f"parse {parsing.texts}: sqlglot", "at least", 15, "x", parsing.ratio))
        return found

    def _memory_checks(self) -> list[Check]:
        if self.memory is None:
            return []
        name = f"{self.memory.subscriptions:,} subscriptions"
        return [
            Check(f"{name}: memory", "less than", 1024, "MiB", self.memory.peak_growth_mib),
            Check(f"{name}: time", "less than", 60, "s", self.memory.seconds),
        ]

    def as_dict(self) -> dict[str, Any]:
        return {
            "benchmark": "matching",
            "date": datetime.now(UTC).date().isoformat(),
            "quick": self.quick,
            "rounds": self.rounds,
            "machine": machine(),
            "rows": [row.as_dict() for row in self.rows],
            "index": self.index,
            "live": None if self.live is None else asdict(self.live) | {"ratio": self.live.ratio},
            "runs": [asdict(each) for each in self.runs],
            "churn": None if self.churn is None else asdict(self.churn),
            "parsing": [asdict(each) | {"ratio": each.ratio} for each in self.parsing],
            "memory": None if self.memory is None else asdict(self.memory) | {"seconds": self.memory.seconds},
            "ratios": self.ratios(),
            "checks": [check.as_dict() for check in self.checks()],
            "left_out": self.left_out,
        }


# Workload, subscriptions, whom Holdfast on as many threads is compared with, how many times as fast it must be.
_BATCH_TARGETS = (
    ("stock", 1_000, "naive", 4),
    ("stock", 10_000, "naive", 4),
    ("stock", 100_000, "naive", 8),
    ("ranges", 10_000, "numpy", 10),
    ("stock", 1_000, "duckdb", 1),
    ("stock", 1_000, "polars", 1),
    ("equality", 100_000, "duckdb", 1),
    ("equality", 100_000, "polars", 1),
)


def ratio_name(row: Row) -> str:
    return f"{row.workload} {row.subscriptions:,} x {row.events:,}: {row.label}"


def batch_ratios(rows: list[Row]) -> dict[str, float]:
    """Like with like: whoever used several threads is compared with Holdfast on several."""

    def class_of(row: Row) -> tuple[str, int, bool]:
        return row.workload, row.subscriptions, row.threads > 1

    ours = {class_of(row): row.seconds for row in rows if row.contestant == "holdfast"}
    others = [row for row in rows if row.contestant != "holdfast" and class_of(row) in ours]
    return {ratio_name(row): row.seconds / ours[class_of(row)] for row in others}


def regressions(now: Mapping[str, float], saved: Mapping[str, float]) -> list[str]:
    """One line for each ratio that both runs have and that fell too far."""
    return [
        f"regression? {name}: {now[name]:.1f}x, saved {saved[name]:.1f}x"
        for name in saved
        if name in now and now[name] < saved[name] * (1 - FALL_MAX)
    ]


def machine(libraries: Iterable[str] = LIBRARIES) -> dict[str, Any]:
    """What the numbers depend on, and nothing that names the machine."""
    versions = {}
    for library in libraries:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "libraries": versions,
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def load(path: Path = SAVED) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    saved: dict[str, Any] = json.loads(path.read_text())
    return saved


def save(results: dict[str, Any], path: Path = SAVED) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")


def with_part(saved: dict[str, Any], new: dict[str, Any], part: str) -> dict[str, Any]:
    """What was saved, with one part of it measured anew: a batch workload, or what `OTHER_PARTS` of the bench names.

    Parts take turns among their own contestants, so one may be of another day; the page then names that day.
    """
    joined = {**saved, "ratios": {**saved["ratios"], **new["ratios"]}, "machine": new["machine"]}
    for key in ("rows", "index"):
        joined[key] = [each for each in saved[key] if each["workload"] != part] + new[key]
    for key in ("live", "runs", "churn", "parsing", "memory"):
        joined[key] = new[key] or saved.get(key)
    fresh = {each["name"] for each in new["checks"]}
    joined["checks"] = [each for each in saved["checks"] if each["name"] not in fresh] + new["checks"]
    joined["dates"] = {**saved.get("dates", {}), part: new["date"]}
    return joined
