"""The matching benchmark: Holdfast and its peers on the same conditions and the same events, in one run.

    python -m bench.matching [--json] [--quick] [--only NAME] [--save | --redraw] [--workloads DIR]

Workloads, contestants, the live side and memory are in the modules beside this one; here they are put
together, checked against their targets and printed. Exit code 1: a check failed, or contestants disagree
about the pairs.
"""

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

from bench import chart, live_index, live_runs, workloads
from bench.contestants import Contestant, HoldfastBatch, NumpyScan, ScanEach, warm_up
from bench.fleet import fleet
from bench.memory import memory, supported
from bench.naive import Naive
from bench.report import plain
from bench.results import Results, load, regressions, save, with_part
from bench.rounds import Disagreement, Entry, compare, say, settle
from bench.workloads import SEED, Workload, load_stock

SHORT_ROUNDS = 10  # of what takes a fraction of a second and has a target in absolute time: churn and parsing
OTHER_PARTS = ("live", "runs", "churn", "parse", "memory")


@dataclass(frozen=True)
class Plan:
    rounds: int  # at least
    seconds: float  # a workload gets more rounds while they took less than this
    events: int
    batch: tuple[tuple[str, int], ...]
    scan_tests: int  # conditions that the scan evaluates in a round, which says how many events it gets
    live_events: int
    live_scan_events: int
    run_events: int
    runs: tuple[int, ...]  # conditions
    texts: int  # parsed in each round
    changes: int  # adds, and removes, in each round of churn
    million: int | None  # subscriptions in the memory check; None leaves it out


FULL = Plan(
    rounds=3,
    seconds=20,
    events=50_000,
    batch=(
        ("stock", 1_000),
        ("stock", 10_000),
        ("stock", 100_000),
        ("equality", 100_000),
        ("ranges", 10_000),
        ("strings", 2_000),
        ("strings", 10_000),
    ),
    scan_tests=200_000,
    live_events=5_000,
    live_scan_events=100,
    run_events=4_096,
    runs=(1_000, 10_000, 100_000),
    texts=3_000,
    changes=2_000,
    million=1_000_000,
)
QUICK = Plan(
    rounds=3,
    seconds=0,
    events=10_000,
    batch=(("stock", 1_000), ("stock", 10_000), ("equality", 20_000), ("ranges", 2_000), ("strings", 500)),
    scan_tests=100_000,
    live_events=1_000,
    live_scan_events=20,
    run_events=1_024,
    runs=(1_000,),
    texts=1_000,
    changes=1_000,
    million=None,
)


class Bench:
    def __init__(self, plan: Plan, only: str | None, folder: Path) -> None:
        self._plan, self._only, self._folder = plan, only, folder
        self._stock: ModuleType | None = load_stock(folder)
        self.results = Results(quick=plan is QUICK, rounds=plan.rounds)
        self._peers = self._installed_peers()

    def run(self) -> Results:
        if any(self._wanted(name) for name, _ in self._plan.batch):
            say("warming up")
            warm_up()
        for name, subscriptions in self._plan.batch:
            if self._wanted(name) and self._has_stock(f"batch, {name} {subscriptions:,}", name):
                self._batch(name, subscriptions)
        if self._wanted("live") and self._has_stock("live match against scan"):
            say("live match against scan")
            work = self._work("stock", 10_000, self._plan.live_events)
            self.results.live = live_index.live_match(work, self._plan.live_scan_events, self._plan.rounds)
        if self._wanted("runs") and self._has_stock("runs and single events beside batches"):
            self._runs()
        if self._wanted("churn") and self._has_stock("add and remove while matching"):
            self._churn()
        if self._wanted("parse"):
            self._parse()
        if self._wanted("memory"):
            self._memory()
        return self.results

    def _wanted(self, part: str) -> bool:
        return self._only in (None, part)

    def _has_stock(self, what: str, name: str = "stock") -> bool:
        if name == "stock" and self._stock is None:
            self.results.left_out.append(f"{what} (no {self._folder.name}/stock.py; see --workloads)")
            return False
        return True

    def _has_naive(self, subscriptions: int) -> bool:
        if (self._folder / "naive_kernel.py").is_file():
            return True
        missing = f"{self._folder.name}/naive_kernel.py"
        self.results.left_out.append(f"naive, stock {subscriptions:,} (no {missing}; see --workloads)")
        return False

    def _installed_peers(self) -> list[list[Callable[[], Contestant]]]:
        """For each peer and thread setting its shapes; a peer that is not installed is left out and named."""
        peers: list[list[Callable[[], Contestant]]] = []
        try:
            from bench import duckdb_peer

            for threads in (1, None):
                peers.append([partial(duckdb_peer.DuckDB, shape, threads) for shape in duckdb_peer.SHAPES])
        except ImportError:
            self.results.left_out.append("duckdb (not installed)")
        try:
            from bench import polars_peer

            peers.append([partial(polars_peer.Polars, shape) for shape in polars_peer.SHAPES])
        except ImportError:
            self.results.left_out.append("polars (not installed)")
        return peers

    def _work(self, name: str, subscriptions: int, events: int, seed: int = SEED) -> Workload:
        if name == "stock":
            assert self._stock is not None
            return workloads.stock(self._stock, events, subscriptions, seed)
        if name == "fleet":
            return fleet(events, subscriptions, seed)
        return workloads.OURS[name](events, subscriptions, seed)

    def _batch(self, name: str, subscriptions: int) -> None:
        work = self._work(name, subscriptions, self._plan.events)
        events = self._plan.events
        say(f"{name} {subscriptions:,}: preparing")
        holdfast = HoldfastBatch(threads=1)
        holdfast.prepare(work)
        self.results.index.append({
            "workload": name,
            "subscriptions": subscriptions,
            "add_seconds": holdfast.add_seconds,
            "compile_seconds": holdfast.compile_seconds,
        })  # fmt: skip
        few = work.part(min(events, max(5, self._plan.scan_tests // subscriptions)), subscriptions)
        scan = ScanEach()
        scan.prepare(few)
        with ExitStack() as opened:
            entries = [Entry(holdfast.with_threads(2), work)]
            if name == "stock" and self._has_naive(subscriptions):
                naive = opened.enter_context(closing(Naive(self._folder)))
                naive.prepare(work)
                naive.run()  # compiles its kernel
                entries.append(Entry(naive, work))
            entries.append(settle(work, [NumpyScan]))
            entries += [settle(work, shapes) for shapes in self._peers]
            entries.append(Entry(scan, few))
            say(f"{name} {subscriptions:,}: rounds of {len(entries) + 1} contestants")
            self.results.rows += compare(work, holdfast, entries, self._plan.rounds, self._plan.seconds)

    def _runs(self) -> None:
        for name in ("stock", "fleet", "wide"):
            for subscriptions in self._plan.runs:
                say(f"runs and single events, {name} {subscriptions:,}")
                work = self._work(name, subscriptions, self._plan.run_events)
                self.results.runs.append(live_runs.live_run(work, self._plan.rounds))

    def _churn(self) -> None:
        say("add and remove while matching")
        work = self._work("stock", 10_000, self._plan.live_events)
        new = self._work("stock", self._plan.changes * SHORT_ROUNDS, 1, SEED + 1)
        self.results.churn = live_index.churn(work, new.texts, SHORT_ROUNDS)

    def _parse(self) -> None:
        parse_one: Callable[[str], object] | None = None
        try:
            import sqlglot

            parse_one = sqlglot.parse_one
        except ImportError:
            self.results.left_out.append("sqlglot (not installed)")
        for name in ("stock", "equality", "ranges", "strings"):
            if self._has_stock("parse stock", name):
                say(f"parse {name}")
                work = self._work(name, self._plan.texts * SHORT_ROUNDS, 1, SEED + 2)
                self.results.parsing.append(live_index.parsing(name, work.texts, SHORT_ROUNDS, parse_one))

    def _memory(self) -> None:
        if self._plan.million is None:
            self.results.left_out.append("memory (not in a quick run)")
        elif not supported():
            self.results.left_out.append("memory (needs Linux's /proc)")
        elif self._has_stock("memory"):
            say(f"memory with {self._plan.million:,} subscriptions")
            self.results.memory = memory(self._folder, self._plan.million)


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if options.redraw:
        chart.regenerate()
        return 0
    bench = Bench(QUICK if options.quick else FULL, options.only, options.workloads)
    try:
        results = bench.run()
    except Disagreement as problem:
        print(json.dumps({"error": str(problem)}) if options.json else f"error: {problem}")
        return 1
    data = results.as_dict()
    warnings: list[str] = []
    if options.save and results.left_out:
        print("not saved, because something was left out", file=sys.stderr)
    elif options.save:
        before = load() if options.only else None
        save(data if before is None else with_part(before, data, options.only))
        chart.regenerate()
    else:
        saved = load()
        warnings = regressions(data["ratios"], saved["ratios"]) if saved is not None else []
    if options.json:
        print(json.dumps(data | {"regressions": warnings}, indent=2))
    else:
        print(plain(data), *warnings, sep="\n")
    refused = options.save and bool(results.left_out)
    return 0 if all(check.holds for check in results.checks()) and not refused else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="bench.matching", description=__doc__.splitlines()[0])
    names = sorted({name for name, _ in FULL.batch})
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, under a minute; never saved")
    parser.add_argument(
        "--only", choices=[*names, *OTHER_PARTS], help="run this part alone; with --save, beside the saved others"
    )
    parser.add_argument("--redraw", action="store_true", help="chart and page from what was saved, no run")
    parser.add_argument("--save", action="store_true", help="keep the results, and redraw chart and page")
    parser.add_argument(
        "--workloads", type=Path, default=workloads.SHARED, metavar="DIR",
        help="folder with stock.py and naive_kernel.py (default: ../shared/workloads beside the repository)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.save and options.quick:
        parser.error("a quick run is not saved: leave out --quick")
    return options


if __name__ == "__main__":
    sys.exit(main())
