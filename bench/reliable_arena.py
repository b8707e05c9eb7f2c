"""The brokers, the publisher and the subscribers of one contestant of `bench reliable`, each a process of its own.

An arena is kept from turn to turn; one in which a turn did not end well is taken down and made anew, so that what is
left of it does not count against the next. Nothing here waits without a limit: a process that does not answer in time
is one that did not finish, and what came by then is judged.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.live_systems import Server
from bench.reliable_work import Numbers, Verdict, judged, work

MODES: dict[str, dict[str, Any]] = {
    "best effort": {},
    "recovery": {"recovery": True},
    "fifo": {"recovery": True, "order": "fifo"},
    "strict": {"recovery": True, "order": "strict"},
}
START_S = 60.0  # for a process on a busy machine
GRACE_S = 10.0  # beyond the limit of a turn, for a worker whose loop is busy just then
SETTLE_S = 1.5  # in which subscriptions pass through all brokers
LATE_S = 0.2  # after the last that was owed, for one that comes twice
WARM_UP = 1_000  # events before the first turn

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Silent(Exception):
    """A process did not answer in time, or has ended."""


class Worker:
    """A process that is told things as lines of JSON and answers in the same way."""

    def __init__(self, task: dict[str, Any], module: str = "bench.reliable_worker") -> None:
        command = [sys.executable, "-m", module, json.dumps(task)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._read = b""

    def on_batch(self, **line: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
        except BrokenPipeError as error:
            raise Silent("a worker has ended") from error

    def answer(self, until_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        while b"\n" not in self._read:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, until_s - time.monotonic()))
            more = os.read(self._process.stdout.fileno(), 65_536) if ready else b""
            if not more:
                raise Silent("a worker has ended" if ready else "a worker did not answer")
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


class Brokers(Server):
    """Holdfast's brokers in a row, each a process."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder)
        self._count = count
        self._processes: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        addresses: list[str] = []
        for number in range(1, self._count + 1):
            more = ["--id", f"b{number}", "--listen", "tcp://127.0.0.1:0", "--push-back"]
            more += ["--peer", f"b{number - 1}={addresses[-1]}"] if addresses else []
            self._spawn([sys.executable, "-c", "from holdfast.cli import main; main()", "broker", *more], quiet=False)
            assert self.process is not None
            self._processes.append(self.process)
            addresses.append(self._first_word_starting("tcp://"))
        self.first, self.last = addresses[0], addresses[-1]

    def cpu_s(self) -> float:
        return sum(cpu_s(each.pid) for each in self._processes)

    def stop(self) -> None:
        for each in self._processes:
            each.kill()
            each.communicate()
        self._processes.clear()


def cpu_s(process: int) -> float:
    """Processor seconds that a process has used, by the system's account."""
    try:
        numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(numbers[11]) + int(numbers[12])) / _TICKS_PER_S


@dataclass(frozen=True)
class Shape:
    work: str
    subscribers: int
    brokers: int

    @property
    def name(self) -> str:
        many = "s" if self.subscribers > 1 else ""
        row = "one broker" if self.brokers == 1 else f"{self.brokers} brokers in a row"
        return f"{self.work}, {self.subscribers} subscriber{many}, {row}"


@dataclass
class Turn:
    """What one contestant did with one burst, or with a steady stream."""

    events: int
    finished: bool = False
    took_s: float = 0.0  # from the first event published to the last delivery
    verdict: Verdict = field(default_factory=Verdict)
    named: Counter[str] = field(default_factory=Counter)  # what losses() said: reasons, and how many events
    dropped: int = 0  # by a full queue of the application
    problems: list[str] = field(default_factory=list)
    p50_ms: float | None = None
    p99_ms: float | None = None
    cpu_us: dict[str, float] = field(default_factory=dict)  # an event, by who used it; of several, all together


class Arena:
    def __init__(
        self, shape: Shape, mode: str, folder: Path, more: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """`more` promises of the publisher (`pub`) and of the subscribers (`sub`) than the mode has."""
        self.shape, self.mode, self._more = shape, mode, more or {}
        self._work = work(shape.work, shape.subscribers)
        self._folder = folder
        self._began = 0
        self._workers: list[Worker] = []
        self._brokers: Brokers | None = None

    def start(self) -> None:
        self._began += 1
        self._next = 0  # number of the next event
        shape = self.shape
        self._brokers = Brokers(self._folder / str(self._began), shape.brokers)
        self._brokers.start()
        task: dict[str, Any] = {"work": shape.work, "subscribers": shape.subscribers}
        sub, pub = {**task, "role": "sub", "address": self._brokers.last}, {**task, "role": "pub"}
        for each in (sub, pub):
            each["promises"] = {**MODES[self.mode], **self._more.get(each["role"], {})}
        self._workers = [Worker({**sub, "number": number}) for number in range(shape.subscribers)]
        self._workers.append(Worker({**pub, "address": self._brokers.first}))
        *self._subscribers, self._publisher = self._workers
        until_s = time.monotonic() + START_S
        for each in self._workers:
            each.answer(until_s)
        time.sleep(SETTLE_S)
        if not self.turn(WARM_UP, START_S).finished:
            raise Silent("the events before the first turn did not come")

    def stop(self) -> None:
        for each in self._workers:
            each.stop()
        self._workers = []
        if self._brokers is not None:
            self._brokers.stop()
            self._brokers = None

    def turn(self, count: int, limit_s: float, rate: float = 0) -> Turn:
        """Publish so many events; over when all that is owed has come, or at the limit."""
        turn = Turn(count)
        try:
            if self._brokers is None:
                self.start()
            first, self._next = self._next, self._next + count
            owed = [self._work.owed(number, first, count) for number in range(self.shape.subscribers)]
            self._run(turn, first, rate, time.monotonic() + limit_s, owed)
        except Silent as problem:
            turn.problems.append(str(problem))
        turn.finished = turn.verdict.whole and not turn.problems
        if not turn.finished:
            self.stop()
        return turn

    def _run(self, turn: Turn, first: int, rate: float, until_s: float, owed: list[list[Numbers]]) -> None:
        assert self._brokers is not None
        patience_s = until_s + GRACE_S
        for each, wanted in zip(self._subscribers, owed, strict=True):
            each.on_batch(wanted=sum(map(len, wanted)), until_s=until_s)
            each.answer(patience_s)
        cpu_before_s, began_s = self._brokers.cpu_s(), time.monotonic()
        self._publisher.on_batch(first=first, count=turn.events, rate=rate, until_s=until_s)
        published: dict[str, Any] = {"began_s": began_s, "cpu_s": 0.0, "problem": "the publisher did not answer"}
        with suppress(Silent):
            published = self._publisher.answer(patience_s)
        turn.problems += [published["problem"]] if published["problem"] else []
        last_s = published["began_s"]
        for each in self._subscribers:
            with suppress(Silent):
                last_s = max(last_s, each.answer(patience_s)["last_s"])
        turn.took_s = last_s - published["began_s"]
        used_s = {"publisher": published["cpu_s"], "brokers": self._brokers.cpu_s() - cpu_before_s, "subscribers": 0.0}
        time.sleep(LATE_S)
        for number, (each, wanted) in enumerate(zip(self._subscribers, owed, strict=True)):
            try:
                report, came = self._report(each, patience_s)
            except Silent:
                turn.problems.append(f"subscriber {number + 1} did not answer, what it got is not known")
                report, came = {}, [wanted[0][:0]] * len(wanted)
            turn.verdict += judged(wanted, [numbers[numbers >= first] for numbers in came])
            turn.named += Counter(report.get("named"))
            turn.dropped += report.get("dropped", 0)
            used_s["subscribers"] += report.get("cpu_s", 0.0)
            if "p50_ms" in report:
                turn.p50_ms = max(turn.p50_ms or 0.0, report["p50_ms"])
                turn.p99_ms = max(turn.p99_ms or 0.0, report["p99_ms"])
        turn.cpu_us = {who: 1e6 * each / turn.events for who, each in used_s.items()}

    def _report(self, subscriber: Worker, until_s: float) -> tuple[dict[str, Any], list[Numbers]]:
        file = self._folder / "came.npz"
        subscriber.on_batch(report=str(file))
        while "named" not in (report := subscriber.answer(until_s)):  # it may be late with its last answer
            continue
        with np.load(file) as kept:
            return report, np.split(kept["numbers"], np.cumsum(kept["lengths"])[:-1])
