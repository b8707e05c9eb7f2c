"""The live network's speed: one publisher, one broker, one or four subscribers over TCP, beside others in the same run.

Every contestant carries the same events (bench/live_events.py), with its own Python client, in processes of their own.
They take turns, round after round, because the machine is shared and noisy; a row is the median of its rounds, and a
ratio the median of the rounds' ratios. With many subscriptions in the broker, one matches every event and the others
none, but whether they do has to be found out from the content. NATS filters by subject only, and the raw relay has
no subscriptions at all: it is the limit of what Python can do with events as events. `bare` is our broker fed in the
way of that relay, with ready-made frames instead of our clients, so that the two can be compared as brokers.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.live_events import stream
from bench.live_systems import SYSTEMS, Server
from bench.report import aligned
from bench.results import Check, load, machine, save
from bench.rounds import say
from bench.workloads import REPOSITORY

SAVED = REPOSITORY / "bench" / "results" / "live.json"
LIBRARIES = ("msgspec", "uvloop", "nats-py", "pika")

ROUND_S = 1.0  # that a contestant's turn should take
FIRST = {"holdfast": 32_000, "bare": 64_000, "raw": 96_000, "nats": 19_200, "activemq": 1_920, "rabbitmq": 512}  # whole frames
COUNT_MIN, COUNT_MAX = 128, 1_000_000
DELAY_RATE, DELAY_EVENTS = 1_000, 2_000  # a second, and in all


@dataclass(frozen=True)
class Case:
    system: str
    subscribers: int
    subscriptions: int

    @property
    def name(self) -> str:
        many = f", {self.subscriptions:,} subscriptions" if self.subscriptions > 1 else ""
        return f"{self.system}, {self.subscribers} subscriber{'s' if self.subscribers > 1 else ''}{many}"


CASES = [
    Case(system, subscribers, subscriptions)
    for system, shapes in {
        "holdfast": [(1, 1), (4, 1), (1, 1_000), (1, 10_000)],
        "bare": [(1, 1), (4, 1)],
        "raw": [(1, 1), (4, 1)],
        "nats": [(1, 1), (4, 1)],
        "activemq": [(1, 1), (1, 1_000), (1, 10_000)],
        "rabbitmq": [(1, 1), (1, 1_000), (1, 10_000)],
    }.items()
    for subscribers, subscriptions in shapes
]
WITH_DELAY = {Case(system, 1, 1) for system in ("holdfast", "nats", "activemq", "rabbitmq")}


@dataclass
class Found:
    """What one case measured, a number a round."""

    rates: list[float] = field(default_factory=list)  # deliveries a second
    p50_us: list[float] = field(default_factory=list)
    p99_us: list[float] = field(default_factory=list)


class Worker:
    def __init__(self, case: Case, role: str, address: str, count: int = 0) -> None:
        task = {"system": case.system, "role": role, "address": address, "count": count}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.live_worker", json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended with {self._process.wait()}")
        return line.strip()

    def go(self, count: int, rate: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"go {count} {rate}\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.line())
        return found

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


class Arena:
    """A server and its workers, kept from round to round."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case = case
        self.found = Found()
        self._count = FIRST[case.system]
        self._server: Server = SYSTEMS[case.system](folder)
        self._workers: list[Worker] = []

    def start(self) -> None:
        case = self.case
        self._server.start()
        address = self._server.address
        self._subscribers = [self._worker("sub", address) for _ in range(case.subscribers)]
        if case.subscriptions > 1:
            self._worker("hold", address, case.subscriptions - 1)
        self._publisher = self._worker("pub", address)
        for each in self._workers:
            each.line()

    def _worker(self, role: str, address: str, count: int = 0) -> Worker:
        self._workers.append(Worker(self.case, role, address, count))
        return self._workers[-1]

    def _measure(self, count: int, rate: float) -> tuple[float, list[dict[str, Any]]]:
        for each in self._subscribers:
            each.go(count, rate)
            each.line()
        self._publisher.go(count, rate)
        began_s = self._publisher.answer()["began_s"]
        answers = [each.answer() for each in self._subscribers]
        took_s = max(each["last_s"] for each in answers) - began_s
        return count * len(answers) / took_s, answers

    def warm_up(self) -> None:
        for _ in range(2):
            rate, _ = self._measure(self._count, 0)
            wanted = int(rate / self.case.subscribers * ROUND_S)
            self._count = max(COUNT_MIN, min(COUNT_MAX, wanted // 64 * 64))

    def turn(self) -> None:
        rate, _ = self._measure(self._count, 0)
        self.found.rates.append(rate)
        if self.case in WITH_DELAY:
            _, (answer,) = self._measure(DELAY_EVENTS, DELAY_RATE)
            self.found.p50_us.append(answer["p50_us"])
            self.found.p99_us.append(answer["p99_us"])

    def stop(self) -> None:
        for each in self._workers:
            each.stop()
        self._server.stop()


def measure(cases: list[Case], rounds: int, folder: Path) -> dict[Case, Found]:
    arenas: list[Arena] = []
    try:
        for number, case in enumerate(cases):
            say(f"starting {case.name}")
            arenas.append(Arena(case, folder / str(number)))
            arenas[-1].start()
            arenas[-1].warm_up()
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for arena in arenas:
                arena.turn()
        return {arena.case: arena.found for arena in arenas}
    finally:
        for arena in arenas:
            arena.stop()


# Overload ------------------------------------------------------------------------------------------------------


async def overload(count: int) -> dict[str, int]:
    """A subscriber that is far too slow, where slow ones lose the oldest: is everything accounted for?"""
    from holdfast.net.address import parse_address
    from holdfast.net.client import connect
    from holdfast.net.node import BrokerNode, NodeSettings

    broker = BrokerNode(NodeSettings("b1", (parse_address("tcp://127.0.0.1:0"),), queue_bytes=2**20))
    await broker.start()
    address = str(broker.listening[0])
    delivered = 0
    async with connect(address) as publisher, connect(address) as subscriber:
        slow = subscriber.subscribe("class = 'stock'", queue_max=1_000, when_full="push-back")
        await subscriber.flush()

        async def read() -> None:
            nonlocal delivered
            while batch := await slow.batch(100):
                delivered += len(batch)
                await asyncio.sleep(0.005)  # 20,000 a second at most

        reading = asyncio.create_task(read())
        for event in stream(count):
            await publisher.publish(event, payload=bytes(500))
        await publisher.flush()
        while delivered + slow.dropped + broker.counters.dropped < count:
            await asyncio.sleep(0.05)
        reading.cancel()
        dropped = broker.counters.dropped
    await broker.stop()
    return {"published": count, "delivered": delivered, "dropped_by_broker": dropped, "dropped_by_client": slow.dropped}


# Results -------------------------------------------------------------------------------------------------------


def ratio(found: dict[Case, Found], ours: Case, other: Case) -> float | None:
    if ours not in found or other not in found:
        return None
    return median(a / b for a, b in zip(found[ours].rates, found[other].rates, strict=True))


TARGETS = [
    (Case("holdfast", 1, 1), Case("activemq", 1, 1), 8.0),
    (Case("holdfast", 1, 1_000), Case("activemq", 1, 1_000), 10.0),
    (Case("holdfast", 1, 10_000), Case("activemq", 1, 10_000), 60.0),
    (Case("holdfast", 1, 1), Case("nats", 1, 1), 1.0),
    (Case("holdfast", 4, 1), Case("nats", 4, 1), 1.0),
    (Case("holdfast", 1, 1), Case("raw", 1, 1), 0.5),
    (Case("holdfast", 4, 1), Case("raw", 4, 1), 0.5),
    (Case("bare", 1, 1), Case("raw", 1, 1), 0.5),
    (Case("bare", 4, 1), Case("raw", 4, 1), 0.5),
]


def checks(found: dict[Case, Found], lost: dict[str, int]) -> list[Check]:
    made = []
    for ours, other, target in TARGETS:
        measured = ratio(found, ours, other)
        if measured is not None:
            made.append(Check(f"deliveries/s: {ours.name} to {other.name}", "at least", target, "x", measured))
    ours, theirs = Case("holdfast", 1, 1), Case("activemq", 1, 1)
    if ours in found and theirs in found:
        share = median(found[ours].p50_us) / median(found[theirs].p50_us)
        made.append(Check("p50 delay at 1,000 events/s: holdfast to activemq", "less than", 0.5, "x", share))
    silent = lost["published"] - lost["delivered"] - lost["dropped_by_broker"] - lost["dropped_by_client"]
    made.append(Check("lost without a trace under overload", "less than", 1, "events", silent))
    return made


def as_data(found: dict[Case, Found], left_out: list[str], lost: dict[str, int], rounds: int) -> dict[str, Any]:
    rows = [
        {
            **asdict(case),
            "deliveries_per_second": median(each.rates),
            "slowest": min(each.rates),
            "fastest": max(each.rates),
            "p50_us": median(each.p50_us) if each.p50_us else None,
            "p99_us": median(each.p99_us) if each.p99_us else None,
        }
        for case, each in found.items()
    ]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "rounds": rounds,
        "rows": rows,
        "overload": lost,
        "checks": [each.as_dict() for each in checks(found, lost)],
        "left_out": left_out,
    }


def plain(data: dict[str, Any]) -> str:
    head = ["system", "subscribers", "subscriptions", "deliveries/s", "slowest", "fastest", "p50 delay", "p99 delay"]
    rows = [
        [
            row["system"],
            str(row["subscribers"]),
            f"{row['subscriptions']:,}",
            *[f"{row[name]:,.0f}" for name in ("deliveries_per_second", "slowest", "fastest")],
            *["" if row[name] is None else f"{row[name] / 1000:.2f} ms" for name in ("p50_us", "p99_us")],
        ]
        for row in data["rows"]
    ]
    lost = data["overload"]
    parts = [
        f"Live, median of {data['rounds']} interleaved rounds; delays at {DELAY_RATE:,} events/s",
        aligned(head, rows, right=set(range(1, 8))),
        f"overload: {lost['published']:,} published, {lost['delivered']:,} delivered, "
        f"{lost['dropped_by_broker']:,} dropped by the broker and {lost['dropped_by_client']:,} by the client, counted",
        aligned(
            ["check", "target", "measured", "holds"],
            [
                [
                    each["name"],
                    f"{each['sense']} {each['target']:g} {each['unit']}",
                    f"{each['measured']:,.2f}",
                    "yes" if each["holds"] else "NO",
                ]
                for each in data["checks"]
            ],
            right={1, 2},
        ),
        *[f"left out: {each}" for each in data["left_out"]],
    ]
    return "\n\n".join(parts)


def main() -> int:
    options = argparse.ArgumentParser(prog="bench.live", description=(__doc__ or "").splitlines()[0])
    options.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", action="append", choices=sorted(SYSTEMS), help="leave out the others")
    options.add_argument("--save", action="store_true", help="keep the results")
    given = options.parse_args()
    left_out = [f"{name}: {why}" for name, kind in SYSTEMS.items() if (why := kind.missing())]
    able = [name for name, kind in SYSTEMS.items() if not kind.missing() and name in (given.only or SYSTEMS)]
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        found = measure([case for case in CASES if case.system in able], given.rounds, Path(folder))
    lost = asyncio.run(overload(100_000))
    data = as_data(found, left_out, lost, given.rounds)
    print(json.dumps(data, indent=2) if given.json else plain(data))
    if given.save and not given.only:
        save(data, SAVED)
        assert load(SAVED) is not None
    return 0 if all(each["holds"] for each in data["checks"]) else 1


if __name__ == "__main__":
    sys.exit(main())
