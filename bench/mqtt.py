"""Clients of MQTT at Holdfast, Mosquitto and RabbitMQ: events a second for each quality of service, and CPU time.

All brokers have the same clients (bench/mqtt_load.py): one publisher, and subscribers in a process of their own. They
take turns, round after round, because the machine is shared; a row is the median of its rounds. Broker, publisher and
subscribers share two cores, so the CPU time that a broker takes for an event says more than how many came through.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from bench.beside_peers import asked, concluded, taking_part
from bench.mqtt_load import IN_FLIGHT, PAYLOAD_BYTES, Publisher
from bench.mqtt_paho import through_paho
from bench.mqtt_systems import IN_MEMORY, ON_DISK, SYSTEMS, WITH_MANY, MqttServer
from bench.results import Check, machine
from bench.rounds import say

LIBRARIES = ("msgspec", "uvloop", "paho-mqtt")
ROUND_S = 0.3  # that a turn should take
COUNT_MIN, COUNT_MAX = 40, 40_000  # events a turn
FILTERS = 10_000  # of which one matches
_JSON = b'{"price": 7.5, "symbol": "IBM"}' + b" " * (PAYLOAD_BYTES - 31)


@dataclass(frozen=True)
class Cell:
    name: str
    topic: str
    qos: int
    subscribers: int
    payload: bytes = b"x" * PAYLOAD_BYTES
    paho: bool = False


def cells_of(name: str) -> list[Cell]:
    kind = SYSTEMS[name]
    if kind.on_disk:
        return [Cell("1 subscriber", "one", qos, 1) for qos in (1, 2) if qos <= kind.qos_max]
    if kind.many:
        filters = [Cell(f"{FILTERS:,} filters", "many/0", 0, 1)]
        return [*filters, Cell(f"{FILTERS:,} conditions", "json/a", 0, 1, _JSON)] if "holdfast" in name else filters
    found = [
        Cell(f"{many:,} subscriber{'s' * (many > 1)}", topic, qos, many)
        for many, topic in ((1, "one"), (100, "hundred"), (1_000, "thousand"))
        for qos in range(kind.qos_max + 1)
    ]
    return [
        *found,
        Cell("1 subscriber, Paho", "paho", 0, 1, paho=True),
        Cell("1 subscriber, Paho", "paho", 1, 1, paho=True),
    ]


def prepare(name: str, server: MqttServer) -> None:
    if not server.many:
        server.subscribe("one", ["one"], 1)
    if not server.many and not server.on_disk:
        server.subscribe("hundred", ["hundred"], 100)
        server.subscribe("thousand", ["thousand"], 1_000)
    if server.many:
        server.subscribe("many", [f"many/{number}" for number in range(FILTERS)], 1)
    if server.many and "holdfast" in name:
        server.subscribe("json", ["json/#?price > 5"], 1)
        server.subscribe("others", [f"json/#?price > {1_000 + number}" for number in range(FILTERS - 1)], 1)


async def turn(server: MqttServer, cell: Cell, count: int) -> tuple[float, float]:
    """Seconds until all subscribers had all events, and CPU seconds of the broker."""
    if cell.paho:
        return await asyncio.to_thread(through_paho, server, cell.topic, cell.payload, cell.qos, count)
    server.expect(cell.topic, count * cell.subscribers)
    async with Publisher(server.port, "publisher") as publisher:
        cpu_s, began_s = server.cpu_s(), time.monotonic()
        await publisher.publish(cell.topic, cell.payload, cell.qos, count)
        last_s = await asyncio.to_thread(server.arrived)
    return last_s - began_s, server.cpu_s() - cpu_s


def measure(names: list[str], rounds: int, folder: Path) -> dict[tuple[str, Cell], list[tuple[float, float]]]:
    """Events a second and CPU seconds for each, by broker and cell, round by round."""
    servers: dict[str, MqttServer] = {}
    counts: dict[tuple[str, Cell], int] = {}
    found: dict[tuple[str, Cell], list[tuple[float, float]]] = {}
    try:
        for number, name in enumerate(names):
            say(f"starting {name}")
            server = servers[name] = SYSTEMS[name](folder / str(number))
            server.start()
            prepare(name, server)
            for cell in cells_of(name):
                count, found[name, cell] = COUNT_MIN, []
                for _ in range(2):
                    took_s, _ = uvloop.run(turn(server, cell, count))
                    count = max(COUNT_MIN, min(COUNT_MAX, int(count / took_s * ROUND_S) // 20 * 20))
                counts[name, cell] = count
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for (name, cell), count in counts.items():
                took_s, cpu_s = uvloop.run(turn(servers[name], cell, count))
                found[name, cell].append((count / took_s, cpu_s / count))
        return found
    finally:
        for server in servers.values():
            server.stop()


Rows = list[dict[str, Any]]


def rows_of(found: dict[tuple[str, Cell], list[tuple[float, float]]]) -> Rows:
    return [
        {
            "system": name,
            "cell": cell.name,
            "qos": cell.qos,
            "on_disk": SYSTEMS[name].on_disk,
            "many": SYSTEMS[name].many,
            "events_per_second": median(rate for rate, _ in each),
            "deliveries_per_second": median(rate for rate, _ in each) * cell.subscribers,
            "slowest": min(rate for rate, _ in each),
            "fastest": max(rate for rate, _ in each),
            "broker_cpu_us": median(cpu_s for _, cpu_s in each) * 1e6,
            "rates": [rate for rate, _ in each],
        }
        for (name, cell), each in found.items()
    ]


def checks(rows: Rows) -> Iterator[Check]:
    """Ratios are those of each round."""

    def ratio(ours: str, theirs: str, qos: int) -> float | None:
        rates = [
            next(
                (
                    row["rates"]
                    for row in rows
                    if (row["system"], row["cell"], row["qos"]) == (name, "1 subscriber", qos)
                ),
                None,
            )
            for name in (ours, theirs)
        ]
        if rates[0] is None or rates[1] is None:
            return None
        return float(median(mine / other for mine, other in zip(*rates, strict=True)))

    for title, ours, theirs, qos, target in (
        ("QoS 0, one subscriber: Holdfast to Mosquitto", "holdfast", "mosquitto", 0, 1 / 3),
        ("QoS 1 on disk: Holdfast to Mosquitto with persistence", "holdfast, stored", "mosquitto, persistent", 1, 1.0),
        ("QoS 1 on disk: Holdfast to RabbitMQ", "holdfast, stored", "rabbitmq, durable queues", 1, 1.0),
    ):
        measured = ratio(ours, theirs, qos)
        if measured is not None:
            yield Check(title, "at least", target, "x", measured)


def as_data(rows: Rows, left_out: list[str], rounds: int) -> dict[str, Any]:
    return {
        "benchmark": "mqtt",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(LIBRARIES),
        "servers": {name: version for name, kind in SYSTEMS.items() if (version := kind.version())},
        "rounds": rounds,
        "rows": rows,
        "checks": [each.as_dict() for each in checks(rows)],
        "left_out": left_out,
    }


def _shown(rows: Rows, names: list[str]) -> list[str]:
    lines = [f"| | QoS | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
    for cell, qos in dict.fromkeys((row["cell"], row["qos"]) for row in rows):
        shown = []
        for name in names:
            row = next((r for r in rows if (r["system"], r["cell"], r["qos"]) == (name, cell, qos)), None)
            each = "-" if row is None else f"{row['deliveries_per_second']:,.0f} ({row['broker_cpu_us']:,.0f} µs)"
            shown.append(each)
        lines.append(f"| {cell} | {qos} | {' | '.join(shown)} |")
    return lines


def table(data: dict[str, Any]) -> str:
    rows = data["rows"]
    lines = _shown([row for row in rows if not row["on_disk"] and not row["many"]], list(IN_MEMORY))
    lines += ["", *_shown([row for row in rows if row["many"]], list(WITH_MANY))]
    lines += ["", *_shown([row for row in rows if row["on_disk"]], list(ON_DISK)), ""]
    for each in data["checks"]:
        verdict = "holds" if each["holds"] else "does NOT hold"
        lines.append(
            f"- {each['name']}: {each['measured']:.2f} x, target {each['sense']} {each['target']:.2g} x: {verdict}"
        )
    return "\n".join(lines + [f"- left out: {each}" for each in data["left_out"]])


def section(data: dict[str, Any]) -> str:
    return f"""## MQTT

`./run bench mqtt --save` ({data["date"]}, {data["rounds"]} rounds, in turns). Deliveries a second, and in brackets the
CPU time of the broker for each event. One publisher with {IN_FLIGHT} events of {PAYLOAD_BYTES} bytes on their way; the
same lean client for all brokers, and Paho where it says so, where Paho is what limits. Broker, publisher and
subscribers share two cores. Of 10,000 filters or conditions one matches. RabbitMQ grants no quality above 1.

In the last table subscribers have sessions that last. Holdfast acknowledges an event when it is synced to disk.
Mosquitto acknowledges at once and saves what it has every second, without a sync; RabbitMQ syncs at its leisure.

{table(data)}
"""


def main() -> int:
    given = asked("mqtt", __doc__, SYSTEMS)
    able, left_out = taking_part(given, SYSTEMS)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        data = as_data(rows_of(measure(able, given.rounds, Path(folder))), left_out, given.rounds)
    return concluded(given, data, table, section)


if __name__ == "__main__":
    sys.exit(main())
