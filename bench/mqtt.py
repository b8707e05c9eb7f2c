"""Clients of MQTT at Holdfast, Mosquitto and RabbitMQ: events a second for each quality of service, and CPU time.

All brokers have the same clients (bench/mqtt_load.py): one publisher, and subscribers in a process of their own. They
take turns, round after round, because the machine is shared; a row is the median of its rounds. Broker, publisher and
subscribers share two cores, so the CPU time that a broker takes for an event says more than how many came through.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from bench.beside_peers import concluded
from bench.command import keep, options
from bench.mqtt_load import IN_FLIGHT, PAYLOAD_BYTES, Publisher
from bench.mqtt_paho import through_paho
from bench.mqtt_systems import IN_MEMORY, ON_DISK, SYSTEMS, MqttServer
from bench.results import Check, load, machine, saved_at
from bench.rounds import say

LIBRARIES = ("msgspec", "uvloop", "paho-mqtt")
ROUND_S = 0.3  # that a turn should take
PATIENCE_S = 60.0  # until a broker that acknowledges nothing more is given up
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


@dataclass(frozen=True)
class Part:
    """Rows that are measured in one go, by brokers of their own: so a part is a few minutes, and is saved by itself."""

    systems: Mapping[str, type[MqttServer]]
    cells: Callable[[type[MqttServer]], list[Cell]]
    prepare: Callable[[MqttServer], None]


def _all_qos(kind: type[MqttServer], name: str, topic: str, subscribers: int, lowest: int = 0) -> list[Cell]:
    return [Cell(name, topic, qos, subscribers) for qos in range(lowest, kind.qos_max + 1)]


def _one(kind: type[MqttServer]) -> list[Cell]:
    paho = [Cell("1 subscriber, Paho", "paho", qos, 1, paho=True) for qos in (0, 1)]
    return _all_qos(kind, "1 subscriber", "one", 1) + paho


def _many(kind: type[MqttServer]) -> list[Cell]:
    hundred = _all_qos(kind, "100 subscribers", "hundred", 100)
    return hundred + _all_qos(kind, "1,000 subscribers", "thousand", 1_000)


def _prepare_many(server: MqttServer) -> None:
    server.subscribe("hundred", ["hundred"], 100)
    server.subscribe("thousand", ["thousand"], 1_000)


def _filters(kind: type[MqttServer]) -> list[Cell]:
    filters = [Cell(f"{FILTERS:,} filters", "many/0", 0, 1)]
    return [*filters, Cell(f"{FILTERS:,} conditions", "json/a", 0, 1, _JSON)] if kind.has_conditions else filters


def _prepare_filters(server: MqttServer) -> None:
    server.subscribe("many", [f"many/{number}" for number in range(FILTERS)], 1)
    if server.has_conditions:
        server.subscribe("json", ["json/#?price > 5"], 1)
        server.subscribe("others", [f"json/#?price > {1_000 + number}" for number in range(FILTERS - 1)], 1)


PARTS = {
    "one": Part(IN_MEMORY, _one, lambda server: server.subscribe("one", ["one"], 1)),
    "disk": Part(
        ON_DISK,
        lambda kind: _all_qos(kind, "1 subscriber", "one", 1, lowest=1),
        lambda server: server.subscribe("one", ["one"], 1),
    ),
    "many": Part(IN_MEMORY, _many, _prepare_many),
    "filters": Part(IN_MEMORY, _filters, _prepare_filters),
}


async def turn(server: MqttServer, cell: Cell, count: int) -> tuple[float, float]:
    """Seconds until all subscribers had all events, and CPU seconds of the broker."""
    if cell.paho:
        return await asyncio.to_thread(through_paho, server, cell.topic, cell.payload, cell.qos, count)
    server.expect(cell.topic, count * cell.subscribers)
    async with Publisher(server.port, "publisher") as publisher:
        cpu_s, began_s = server.cpu_s(), time.monotonic()
        async with asyncio.timeout(PATIENCE_S):
            await publisher.publish(cell.topic, cell.payload, cell.qos, count)
        last_s = await asyncio.to_thread(server.arrived)
    return last_s - began_s, server.cpu_s() - cpu_s


Found = dict[tuple[str, Cell], list[tuple[float, float]]]
Rows = list[dict[str, Any]]


def fitting(server: MqttServer, cell: Cell) -> int:
    """How many events take about as long as a turn should: by small steps, because the first few may be gathered."""
    count = COUNT_MIN
    while (took_s := uvloop.run(turn(server, cell, count))[0]) < ROUND_S / 2 and count < COUNT_MAX:
        count = min(COUNT_MAX, count * 3)
    return max(COUNT_MIN, min(COUNT_MAX, int(count / took_s * ROUND_S) // 20 * 20))


def measure(part: Part, names: list[str], rounds: int, folder: Path) -> Found:
    """Events a second and CPU seconds for each, by broker and cell, round by round."""
    servers: dict[str, MqttServer] = {}
    counts: dict[tuple[str, Cell], int] = {}
    found: Found = {}
    try:
        for number, name in enumerate(names):
            say(f"starting {name}")
            server = servers[name] = part.systems[name](folder / str(number))
            server.start()
            part.prepare(server)
            for cell in part.cells(part.systems[name]):
                counts[name, cell], found[name, cell] = fitting(server, cell), []
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for (name, cell), count in counts.items():
                took_s, cpu_s = uvloop.run(turn(servers[name], cell, count))
                found[name, cell].append((count / took_s, cpu_s / count))
        return found
    finally:
        for server in servers.values():
            server.stop()


def rows_of(part: str, found: Found) -> Rows:
    return [
        {
            "part": part,
            "system": name,
            "cell": cell.name,
            "qos": cell.qos,
            "events_per_second": median(rate for rate, _ in each),
            "deliveries_per_second": median(rate for rate, _ in each) * cell.subscribers,
            "slowest": min(rate for rate, _ in each),
            "fastest": max(rate for rate, _ in each),
            "broker_cpu_us": median(cpu_s for _, cpu_s in each) * 1e6,
            "rates": [rate for rate, _ in each],
        }
        for (name, cell), each in found.items()
    ]


_STORED = "holdfast, stored"
_GOALS = (  # what, who, to whom, with which quality, at least
    ("QoS 0, one subscriber: Holdfast to Mosquitto", "holdfast", "mosquitto", 0, 1 / 3),
    ("QoS 1 on disk: Holdfast to Mosquitto that saves each change", _STORED, "mosquitto, each change", 1, 1.0),
    ("QoS 1 on disk: Holdfast to Mosquitto that saves every second", _STORED, "mosquitto, each second", 1, 1.0),
    ("QoS 1 on disk: Holdfast to RabbitMQ", _STORED, "rabbitmq, durable queues", 1, 1.0),
)


def checks(rows: Rows) -> Iterator[Check]:
    """Ratios are those of each round."""
    rates = {(row["system"], row["qos"]): row["rates"] for row in rows if row["cell"] == "1 subscriber"}
    for title, ours, theirs, qos, target in _GOALS:
        if (ours, qos) in rates and (theirs, qos) in rates:
            each = zip(rates[ours, qos], rates[theirs, qos], strict=True)
            yield Check(title, "at least", target, "x", float(median(mine / other for mine, other in each)))


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


def merged(new: Rows, saved: Mapping[str, Any] | None) -> Rows:
    """The parts that were measured now, and of those that were not, what was saved."""
    now = {row["part"] for row in new}
    both = [*(row for row in (saved or {}).get("rows", ()) if row["part"] not in now), *new]
    return sorted(both, key=lambda row: list(PARTS).index(row["part"]))


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
    lines = _shown([row for row in rows if row["part"] != "disk"], list(IN_MEMORY))
    lines += ["", *_shown([row for row in rows if row["part"] == "disk"], list(ON_DISK)), ""]
    for each in data["checks"]:
        verdict = "holds" if each["holds"] else "does NOT hold"
        lines.append(
            f"- {each['name']}: {each['measured']:.2f} x, target {each['sense']} {each['target']:.2g} x: {verdict}"
        )
    return "\n".join(lines + [f"- left out: {each}" for each in data["left_out"]])


def section(data: dict[str, Any]) -> str:
    return f"""## MQTT

`./run bench mqtt --save` ({data["date"]}, {data["rounds"]} rounds, in turns). Deliveries a second, and in brackets the
CPU time of the broker for each event. One publisher with {IN_FLIGHT:,} events of {PAYLOAD_BYTES} bytes on their way.
The same lean client for all brokers, and Paho where it says so, where Paho is what limits. Broker, publisher and
subscribers share two cores. Of 10,000 filters or conditions one matches. RabbitMQ grants no quality above 1.

In the last table subscribers have sessions that last. Holdfast acknowledges an event when it is synced to disk.
Mosquitto acknowledges at once, and saves and syncs all that it has, either after each turn in which something has
changed, or every second, and then `kill -9` loses up to a second of what it has acknowledged. RabbitMQ has durable
queues.

{table(data)}
"""


def main() -> int:
    words = options("mqtt", __doc__)
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--part", action="append", choices=list(PARTS), help="leave out the others")
    given = words.parse_args()
    if given.save and given.rounds < 5:
        words.error("--save needs at least 5 rounds")
    left_out = [f"{name}: {why}" for name, kind in SYSTEMS.items() if (why := kind.missing())]
    rows: Rows = []
    for name in given.part or PARTS:
        able = [each for each, kind in PARTS[name].systems.items() if not kind.missing()]
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
            rows += rows_of(name, measure(PARTS[name], able, given.rounds, Path(folder)))
        if given.save and not left_out:  # each part when it is done: the next may be stopped
            keep(as_data(merged(rows, load(saved_at("mqtt"))), left_out, given.rounds), section)
    data = load(saved_at("mqtt")) if given.save and not left_out else None
    return concluded(given, data or as_data(rows, left_out, given.rounds), table, section)


if __name__ == "__main__":
    sys.exit(main())
