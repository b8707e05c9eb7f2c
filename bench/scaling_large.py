"""A hundred subscribers at each broker, up to a million of them: how long the simulator takes, and how much memory.

One process each, both through their express lanes, 60 simulated seconds or fewer.
What it takes is told apart: the network made from its file, the nodes built, the two seconds in which tables spread,
and the rest, which is the same every second.
"""

import time
from itertools import pairwise
from typing import Any

from bench.scaling_cells import MECHANISMS, Size, network_of
from bench.sim_workloads import peak_mib
from holdfast.sim.simulator import Simulation

SECONDS = 60
SIZES = {1_000: 10, 10_000: 100, 100_000: 1_000, 1_000_000: 10_000}  # subscribers -> brokers
NAMES = ("best effort", "nack")
TARGET_S, TARGET_MIB = 3_600, 16 * 1_024
_SETUP_US = 2_000_000


def run(name: str, subscribers: int, heartbeat_s: float, seconds: int) -> dict[str, Any]:
    size = Size(SIZES[subscribers], subscribers, conditions=70, publishers=10, rate=1)
    marks, began_s = [time.process_time()], time.perf_counter()
    network = network_of(MECHANISMS[name], size, seconds * 1_000_000, _SETUP_US, heartbeat_s, all_subscribe=True)
    marks.append(time.process_time())
    simulation = Simulation(network, 1)
    marks.append(time.process_time())

    def each_second(now_us: int) -> None:
        if now_us == _SETUP_US:
            marks.append(time.process_time())

    outcome = simulation.run(each_second)
    marks.append(time.process_time())
    parts = [after - before for before, after in pairwise(marks)]
    return {
        "mechanism": name,
        "subscribers": subscribers,
        "brokers": SIZES[subscribers],
        "heartbeat_s": heartbeat_s,
        "seconds": seconds,
        **dict(zip(("read_s", "build_s", "setup_s", "rest_s"), parts, strict=True)),
        "cpu_s": sum(parts),
        "wall_s": time.perf_counter() - began_s,
        "mib": peak_mib(),
        "published": outcome.published,
        "delivered": outcome.delivered,
        "delivery_ratio": outcome.delivery_ratio,
        "messages": sum(each["sent"] for each in outcome.messages.values()),
    }


def expected(rows: list[dict[str, Any]], name: str, heartbeat_s: float, subscribers: int) -> dict[str, float] | None:
    """What a larger network takes in 60 s, by how the two largest measured ones differ."""
    known = [row for row in rows if row["mechanism"] == name and row["heartbeat_s"] == heartbeat_s]
    known = sorted([row for row in known if row["subscribers"] < subscribers], key=lambda row: row["subscribers"])
    if len(known) < 2:
        return None
    small, large = known[-2:]
    beyond = (subscribers - large["subscribers"]) / (large["subscribers"] - small["subscribers"])
    whole_s, least_s = _whole_s(large), _whole_s(small)
    return {
        "cpu_s": whole_s + beyond * (whole_s - least_s),
        "mib": large["mib"] + beyond * (large["mib"] - small["mib"]),
    }


def _whole_s(row: dict[str, Any]) -> float:
    """CPU time of 60 simulated seconds."""
    start_s: float = row["cpu_s"] - row["rest_s"]
    setup_s = _SETUP_US / 1e6
    return start_s + row["rest_s"] * (SECONDS - setup_s) / (row["seconds"] - setup_s)
