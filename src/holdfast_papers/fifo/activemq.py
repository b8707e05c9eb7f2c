"""ActiveMQ, the paper's example of guaranteed delivery and order: what it delivers in order, and at what cost.

A real server of one broker, where one is installed. Events are persistent, subscriptions on the topic durable, and
subscribers acknowledge what they have taken. Each subscriber has a connection and a thread of its own. A second run
gives one subscriber's events to several threads, as consumers of one queue: the server then keeps the order of each
thread's share, and nobody that of the whole.

The client speaks just enough STOMP for this, so that the processor time is the server's and not a library's. Time is
counted after a part of the events has passed, when Java has compiled what it runs.
"""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit

from holdfast.carriers.servers import ActiveMq
from holdfast.pipeline.sweep.progress import Watch
from holdfast_papers.live import kept_runs
from holdfast_papers.study import Runs, Scale

SUBSCRIBERS = 4  # as many as those of the live brokers
THREADS = 4  # that share one subscriber's events
EVENTS = 40_000
_WARM = 40_000  # events before the clock starts
_SENT_TOGETHER = 100  # events until the publisher waits for the server's receipt
_TAKEN_TOGETHER = 50  # events that one acknowledgement covers
_PATIENCE_S = 120.0
_ROUNDS: dict[Scale, int] = {"quick": 5, "paper": 10}
_TICKS = os.sysconf("SC_CLK_TCK")


class _Storing(ActiveMq):
    options = "persistent=true&useJmx=false"


def missing() -> str:
    """Why ActiveMQ cannot be measured here; empty when it can."""
    return ActiveMq.missing()


def cells(scale: Scale) -> int:
    return 0 if missing() else 2 * _ROUNDS[scale]


def rows(scale: Scale, out: Path, watch: Watch | None = None) -> Runs:
    """None where there is no ActiveMQ."""
    if missing():
        return Runs([])
    names = [f"{kind}-{seed}" for seed in range(1, _ROUNDS[scale] + 1) for kind in ("topic", "queue")]
    return kept_runs(names, _measure, out / "tables" / "activemq", 1, watch)


def throughputs(runs: Runs) -> list[float]:
    """Deliveries for each second of processor time, server and clients together, by round."""
    topics = runs.of(kind="topic")
    return [done / spent for done, spent in zip(topics.column("delivered"), topics.column("cpu_s"), strict=True)]


def _measure(name: str, file: Path) -> dict[str, Any]:
    kind, seed = name.rsplit("-", 1)
    folder = file.with_suffix("")
    server = _Storing(folder)
    try:
        server.start()
        found = _Run(server, is_topic=kind == "topic").result()
    finally:
        server.kill()
        rmtree(folder, ignore_errors=True)
    return {"kind": kind, "seed": int(seed), **found}


class _Run:
    def __init__(self, server: ActiveMq, is_topic: bool) -> None:
        assert server.process is not None
        self._server_pid = server.process.pid
        self._address = server.address
        self._to = "/topic/events" if is_topic else "/queue/events"
        books = [_Book() for _ in range(SUBSCRIBERS)] if is_topic else [_Book()] * THREADS
        self._takers = [_Taker(self._address, self._to, number, book) for number, book in enumerate(books)]
        self._books = list(dict.fromkeys(books))
        self._publisher = _Stomp(self._address, "publisher")

    def result(self) -> dict[str, Any]:
        for taker in self._takers:
            taker.start()
        self._publish(0, _WARM)
        self._await(_WARM)
        spent_s = self._cpu_s()
        self._publish(_WARM, _WARM + EVENTS)
        self._await(_WARM + EVENTS)
        spent_s = self._cpu_s() - spent_s
        for taker in self._takers:
            taker.close()
        self._publisher.close()
        delivered = sum(each.taken for each in self._books) - _WARM * len(self._books)
        return {
            "owed": EVENTS * len(self._books),
            "delivered": delivered,
            "taken": sum(each.taken for each in self._books),  # with those before the clock started
            "violations": sum(each.violations for each in self._books),
            "cpu_s": spent_s,
        }

    def _publish(self, first: int, end: int) -> None:
        for start in range(first, end, _SENT_TOGETHER):
            last = min(start + _SENT_TOGETHER, end) - 1
            for number in range(start, last + 1):
                headers = {"destination": self._to, "persistent": "true", "kind": "a", "price": 120, "number": number}
                self._publisher.write("SEND", headers | ({"receipt": number} if number == last else {}))
            self._publisher.flush()
            next(self._publisher.frames)  # the receipt: all of them are stored

    def _await(self, events: int) -> None:
        end_s = time.monotonic() + _PATIENCE_S
        while any(each.taken < events for each in self._books) and time.monotonic() < end_s:
            time.sleep(0.01)

    def _cpu_s(self) -> float:
        fields = Path(f"/proc/{self._server_pid}/stat").read_text().rpartition(")")[2].split()
        return time.process_time() + (int(fields[11]) + int(fields[12])) / _TICKS


class _Book:
    """What one subscriber has taken: an event that comes behind a later one violates the order."""

    def __init__(self) -> None:
        self.taken = 0
        self.violations = 0
        self._latest = -1
        self._lock = Lock()

    def take(self, number: int) -> None:
        with self._lock:
            self.taken += 1
            self.violations += number < self._latest
            self._latest = max(self._latest, number)


class _Taker(Thread):
    def __init__(self, address: str, destination: str, number: int, book: _Book) -> None:
        super().__init__(daemon=True)
        self._book = book
        self._stomp = _Stomp(address, f"taker-{number}")
        headers = {"destination": destination, "id": number, "ack": "client", "receipt": "ready"}
        durable = {"activemq.subscriptionName": f"taker-{number}"} if destination.startswith("/topic/") else {}
        self._stomp.write("SUBSCRIBE", headers | durable)
        self._stomp.flush()
        next(self._stomp.frames)

    def run(self) -> None:
        for taken, frame in enumerate(self._stomp.frames, 1):
            self._book.take(int(frame["number"]))
            if taken % _TAKEN_TOGETHER == 0:
                self._stomp.write("ACK", {"id": frame["ack"]})
                self._stomp.flush()

    def close(self) -> None:
        self._stomp.close()


class _Stomp:
    """One connection: frames out, and the headers of what comes in."""

    def __init__(self, address: str, client: str) -> None:
        place = urlsplit(address)
        self._socket = socket.create_connection((place.hostname or "", place.port or 0))
        self._out = bytearray()
        self.frames = self._read()
        self.write("CONNECT", {"accept-version": "1.2", "host": "localhost", "heart-beat": "0,0", "client-id": client})
        self.flush()
        next(self.frames)

    def write(self, command: str, headers: dict[str, object]) -> None:
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        self._out += f"{command}\n{lines}\n\0".encode()

    def flush(self) -> None:
        self._socket.sendall(self._out)
        self._out.clear()

    def _read(self) -> Iterator[dict[str, str]]:
        left = b""
        while chunk := self._receive():
            *whole, left = (left + chunk).split(b"\0")
            for frame in whole:
                command, *lines = frame.decode().strip("\n").split("\n")
                if command == "ERROR":
                    raise RuntimeError(f"ActiveMQ: {frame.decode()}")
                yield dict(line.split(":", 1) for line in lines if ":" in line)

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(65_536)
        except OSError:  # closed by us, from another thread
            return b""

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
