"""How fast the simulator runs each mechanism: transmissions for each second of CPU time, beside another commit's.

Each run is a process of its own, so that its memory is its own as well: `python -m bench.sim_workloads NAME SEED` runs
one and prints what it took. With the source of another tree in front of the path, the same file measures that tree.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from holdfast.sim.simulator import Simulation

STYLES = ("push", "subscriber-pull", "publisher-pull", "combined-pull", "random-pull", "reconcile")


class Workload(NamedTuple):
    preset: str
    seconds: float  # simulated
    settings: dict[str, object]
    target: float  # times as fast as commit 63062b5
    express: bool = True  # events may take the express lane, where the network has one


def _gossip(style: str) -> Workload:
    settings = {"gossip": style, "gossip_transfer": "direct"}
    about = {f"reliability.{name}": value for name, value in settings.items()}
    return Workload("epidemic-100", 2.0, {**about, "links.lossy_control": False}, 4)


WORKLOADS = {
    "best effort, every message through a machine": Workload("epidemic-100", 4.0, {}, 3, express=False),
    'hops = "nack"': Workload("epidemic-100", 2.0, {"reliability.hops": "nack"}, 4),
    **{f"gossip, {style}": _gossip(style) for style in STYLES},
    "end-to-end, fifo": Workload("wan-12", 8.0, {"reliability.recovery": "end-to-end", "reliability.order": "fifo"}, 8),
}


def run(name: str, seed: int) -> dict[str, float]:
    preset, seconds, settings, _, express = WORKLOADS[name]
    network = parse_text(preset_text(preset), preset, {**settings, "duration_s": seconds})
    began = time.process_time()
    outcome = Simulation(network, seed, express=express).run()
    took_s = time.process_time() - began
    return {"rate": outcome.transmissions / took_s, "mib": peak_mib()}


def peak_mib() -> float:
    """The most memory that this process had; `getrusage` would count what its parent had when it started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def run_with(tree: Path, name: str, seed: int) -> dict[str, float]:
    """The same in another process, with the source of this tree."""
    words = [sys.executable, __file__, name, str(seed)]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    told = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, float] = json.loads(told)
    return found


def measure(rounds: int, other: Path | None, saved: dict[str, Any], names: Iterable[str] = WORKLOADS) -> dict[str, Any]:
    """What each of these workloads takes; the other tree in alternation, or else what was saved of it."""
    trees = {"now": Path(__file__).parents[1], **({} if other is None else {"was": other})}
    rows: dict[str, Any] = {}
    for name in names:
        workload = WORKLOADS[name]
        found: dict[str, list[dict[str, float]]] = {which: [] for which in trees}
        for seed in range(1, rounds + 1):
            for which, tree in trees.items():
                found[which].append(run_with(tree, name, seed))
        row = {which: _median(each) for which, each in found.items()}
        if other is None and name in saved:
            row["was"] = saved[name]["was"]
        made = {"seconds": workload.seconds, "target": workload.target, "date": datetime.now(UTC).date().isoformat()}
        rows[name] = {**row, **made}
        print(f"{name}: {row['now']['rate']:,.0f}/s", file=sys.stderr)
    return rows


def _median(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: median([each[key] for each in runs]) for key in runs[0]}


def table(rows: dict[str, Any]) -> str:
    head = "| | transmissions/s | at 63062b5 | ratio | wanted | holds | MiB | at 63062b5 |"
    lines = [head, "|---|--:|--:|--:|--:|---|--:|--:|"]
    for name, row in rows.items():
        now, was = row["now"], row.get("was")
        before, holds, mib = ["", ""], "", ""
        if was is not None:
            ratio = now["rate"] / was["rate"]
            before, mib = [f"{was['rate']:,.0f}", f"{ratio:.2f}"], f"{was['mib']:.0f}"
            holds = "yes" if ratio >= row["target"] else "no"
        cells = [name, f"{now['rate']:,.0f}", *before, f"{row['target']:g}", holds, f"{now['mib']:.0f}", mib]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]))))
