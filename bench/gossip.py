"""Where the time goes in a run with gossip: the network of paper 001, combined pull, a tenth lost on every link.

One run is timed as it is; a second, shorter one runs under Python's profiler, which slows small functions down more
than large ones, so of it only shares are told, by the room of the tree in which the time was spent. CPU time.
"""

import cProfile
import pstats
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import holdfast
from bench.command import options, told
from bench.results import machine
from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from holdfast.network.schema import Network
from holdfast.sim.simulator import Simulation

PROFILED_S = 5.0
_PACKAGE = Path(holdfast.__file__).parent
_TWO_DEEP = "protocol"  # the room whose rooms are told apart


def network_of(seconds: float) -> Network:
    settings = {
        "duration_s": seconds,
        "reliability.gossip": "combined-pull",
        "reliability.gossip_transfer": "direct",
        "links.lossy_control": False,
    }
    return parse_text(preset_text("epidemic-100"), "epidemic-100", settings)


def room_of(file: str) -> str:
    path = Path(file)
    if not path.is_relative_to(_PACKAGE):
        return "libraries"
    parts = path.relative_to(_PACKAGE).parts[:-1]
    return "/".join(parts[: 2 if parts[0] == _TWO_DEEP else 1])


def shares(seconds: float) -> dict[str, float]:
    profiler = cProfile.Profile(builtins=False)  # what C functions take is their caller's
    profiler.runcall(Simulation(network_of(seconds), 1).run)
    spent: Counter[str] = Counter()
    for (file, _, _), (_, _, own_s, _, _) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        spent[room_of(file)] += own_s
    whole = sum(spent.values())
    return {room: own_s / whole for room, own_s in spent.most_common() if own_s / whole >= 0.005}


def measure(seconds: float) -> dict[str, Any]:
    Simulation(network_of(0.5), 1).run()  # what is compiled is compiled, or loaded
    began = time.process_time()
    outcome = Simulation(network_of(seconds), 1).run()
    took_s = time.process_time() - began
    return {
        "benchmark": "gossip",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "seconds": seconds,
        "took_s": took_s,
        "transmissions": outcome.transmissions,
        "delivery_ratio": outcome.delivered / outcome.owed,
        "shares": shares(min(seconds, PROFILED_S)),
    }


def section(data: dict[str, Any]) -> str:
    made, rate = data["machine"], data["transmissions"] / data["took_s"]
    rows = "\n".join(f"| `{room}` | {100 * share:.1f} % |" for room, share in data["shares"].items())
    return f"""## A simulated run with gossip

`./run bench gossip --save`, {data["date"]}, {made["processor"]}, Python {made["python"]}: 100 brokers, combined pull, a
tenth lost on every link, {data["seconds"]:g} simulated seconds, seed 1. It takes {data["took_s"]:.0f} s of CPU time for
{data["transmissions"]:,} transmissions, {rate:,.0f} a second. Brokers that gossip remember every event, so none of
it goes the way of compiled code that a run without recovery takes. Where a profiled run of
{min(data["seconds"], PROFILED_S):g} s spends its time:

| room | share |
|---|--:|
{rows}
"""


def main() -> int:
    words = options("gossip", __doc__)
    words.add_argument("--seconds", type=float, default=25.0, help="simulated seconds, as in the paper")
    given = words.parse_args()
    data = measure(given.seconds)
    told(given, data, section)
    return 0


if __name__ == "__main__":
    sys.exit(main())
