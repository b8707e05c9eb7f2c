"""Whether two trees of the source simulate the same: `python -m tests.sim.compare_traces OTHER [--seeds 60]`.

OTHER is a tree, or what `--tell` printed in one.

A change for the sake of speed must not change what happens. So each tree runs the same scenarios in a process of its
own: those of the swarm, of every kind, and presets with each mechanism, cut short. Then every table of their traces is
compared, and the numbers of the run with them. It names the scenarios and tables that differ.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path

import pyarrow.parquet as pq

from holdfast.books.trace import TraceWriter
from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from holdfast.network.provenance import about_run
from holdfast.network.schema import Network
from holdfast.sim import swarm_scenarios as swarm
from holdfast.sim.simulator import Simulation

_HEALED_US = 6_000_000  # when the swarm mends everything
_FIFO = {"reliability.recovery": "end-to-end", "reliability.order": "fifo"}
_STYLES = ("push", "subscriber-pull", "publisher-pull", "combined-pull", "random-pull", "reconcile")
_PRESETS: list[tuple[str, float, dict[str, object]]] = [
    ("quickstart", 3.0, {}),
    ("demo-12", 60.0, {}),
    ("demo-12", 60.0, _FIFO),
    ("wan-12", 2.0, {}),
    ("wan-12", 3.0, _FIFO),
    ("wan-12", 3.0, {"reliability.recovery": "none", "reliability.order": "fifo"}),
    ("wan-12", 2.0, {"reliability.recovery": "end-to-end", "reliability.scheme": "srm"}),
    ("wan-12", 2.0, {"reliability.hops": "retransmission"}),
    ("wan-46", 1.0, {"reliability.hops": "hybrid"}),
    ("epidemic-100", 0.5, {}),
    ("epidemic-100", 0.5, {"reliability.hops": "nack"}),
    *[("epidemic-100", 0.4, {"reliability.gossip": style}) for style in _STYLES],
    *[("epidemic-100", 0.4, {"reliability.gossip": s, "reliability.gossip_transfer": "direct"}) for s in _STYLES],
]

Scenario = tuple[str, Callable[[], Network], bool]  # its name, how to draw it, whether everything is mended halfway


def scenarios(seeds: int) -> Iterator[Scenario]:
    kinds = {
        "plain": swarm.scenario,
        "reliable": swarm.reliable_scenario,
        "gossiping": swarm.gossiping_scenario,
        "hopping": swarm.hopping_scenario,
        "replicating": swarm.replicating_scenario,
    }
    for preset, seconds, settings in _PRESETS:
        name = " ".join([preset, *map(str, settings.values())])
        yield name, lambda p=preset, s=settings, d=seconds: parse_text(preset_text(p), p, {**s, "duration_s": d}), False
    for seed in range(seeds):
        for kind, draw in kinds.items():
            yield f"swarm {seed} {kind}", lambda draw=draw, seed=seed: draw(seed), True


def digests(draw: Callable[[], Network], healed: bool, express: bool) -> dict[str, str]:
    """Of each table of the trace, and of the outcome."""
    network = draw()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        simulation = Simulation(network, None, TraceWriter(run, about_run(network, "sim", 1)), express)
        if healed:
            simulation.at(_HEALED_US, simulation.heal)
        outcome = simulation.run()
        found = {"outcome": _digest(outcome.as_json())}
        for table in sorted(run.rglob("*.parquet")):
            found[table.relative_to(run).as_posix()] = _digest(pq.read_table(table).to_pydict())
    return found


def _digest(value: object) -> str:
    return blake2b(repr(value).encode(), digest_size=8).hexdigest()


def tell(seeds: int) -> None:
    """One line for each scenario: its name and the digests."""
    for name, draw, healed in scenarios(seeds):
        try:
            found = digests(draw, healed, express=False)
        except Exception as problem:  # some scenarios are refused, or fail: then they must do so in both trees
            found = {"raised": repr(problem)}
        print(json.dumps([name, found]), flush=True)


def told_by(other: Path, seeds: int) -> Iterator[str]:
    """The lines of a file, or those that this module prints with the source of a tree."""
    if other.is_file():
        yield from other.read_text().splitlines()
        return
    words = [sys.executable, __file__, "--seeds", str(seeds), "--tell"]
    environment = {**os.environ, "PYTHONPATH": str(other / "src")}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout is not None
        yield from running.stdout


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("other", type=Path, nargs="?", default=Path(__file__).parents[2])
    words.add_argument("--seeds", type=int, default=60)
    words.add_argument("--tell", action="store_true", help="print the digests of this tree, and compare nothing")
    given = words.parse_args()
    if given.tell:
        tell(given.seeds)
        return 0
    differ = compared = 0
    for lines in zip(told_by(given.other, given.seeds), told_by(Path(__file__).parents[2], given.seeds), strict=False):
        (name, was), (same_name, now) = map(json.loads, lines)
        assert name == same_name
        compared += 1
        if was != now:
            differ += 1
            tables = sorted(each for each in {**was, **now} if was.get(each) != now.get(each))
            print(f"{name}: {', '.join(tables)}", flush=True)
    print(f"{compared} scenarios compared, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
