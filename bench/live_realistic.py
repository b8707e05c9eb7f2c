"""A broker with conditions as people have them: 10,000, each matching about 1 % of the events, of 20 subscribers.

    python -m bench.live_realistic [--save]

Each subscriber wants 500 conditions; beside them the same 20 subscribers want one condition that matches every event.
What counts is the broker alone: how many events it forwards in a second of its own CPU time. So the publisher, which
has recovery, is ours, and the subscribers do nothing but count what comes: ours match every event again, and a broker
that waits for them spends its time on heartbeats. They must get as many events as NumPy finds for them.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import msgspec
import numpy as np

from bench.command import keep
from bench.live_bare import greeted
from bench.live_events import MATCHING, SYMBOLS, events, stream
from bench.live_relay import Framed, framed
from bench.live_systems import Holdfast
from bench.results import Check, load, saved_at
from bench.rounds import Disagreement, say
from holdfast.protocol.tables import SentTable
from holdfast.wire.codec import count_in, decode_frame_untrusted, encode_message, is_event, kind_of_encoded
from holdfast.wire.codec import framed as frame_of

SUBSCRIBERS = 20
CONDITIONS = 10_000
EVENTS = 40_960  # of a turn: twenty times all different ones
_WAIT_S = 120
_ROUNDS = 5


def conditions(count: int) -> list[tuple[str, Any]]:
    """Conditions, and which of the different events each matches."""
    if count == 1:
        return [(MATCHING, np.ones(len(events()), bool))]
    rng = Random(9)
    columns = {name: np.array([each[name] for each in events()]) for name in events()[0]}
    return [_SHAPES[number % len(_SHAPES)](rng, columns) for number in range(count)]


def of_each(given: list[Any]) -> list[list[Any]]:
    """What is each subscriber's; of one, everybody's."""
    return [given if len(given) == 1 else given[at::SUBSCRIBERS] for at in range(SUBSCRIBERS)]


def _symbols(rng: Random, columns: dict[str, Any]) -> tuple[str, Any]:
    names = [f"S{each:03}" for each in rng.sample(range(SYMBOLS), 5)]
    return f"symbol IN ({', '.join(map(repr, names))})", np.isin(columns["symbol"], names)


def _prices(rng: Random, columns: dict[str, Any]) -> tuple[str, Any]:
    exchange, low = rng.choice(["NYSE", "XETRA", "LSE"]), rng.randrange(1, 480)
    inside = (columns["price"] >= low) & (columns["price"] <= low + 15)
    return f"exchange = '{exchange}' AND price BETWEEN {low} AND {low + 15}", inside & (columns["exchange"] == exchange)


def _group(rng: Random, columns: dict[str, Any]) -> tuple[str, Any]:
    start, below = f"S{rng.randrange(5)}", rng.randrange(20, 50)
    alike = np.char.startswith(columns["symbol"], start) & (columns["open"] < below)
    return f"symbol LIKE '{start}%' AND open < {below} AND currency <> 'EUR'", alike & (columns["currency"] != "EUR")


def _corner(rng: Random, columns: dict[str, Any]) -> tuple[str, Any]:
    high, low, volume = rng.randrange(350, 450), rng.randrange(50, 150), rng.randrange(700_000, 900_000)
    inside = (columns["high"] > high) & (columns["low"] < low) & (columns["volume"] > volume)
    return f"high > {high} AND NOT (low >= {low} OR volume <= {volume}) AND halted = FALSE", inside


_SHAPES = (_symbols, _prices, _group, _corner)


class Turns:
    """A broker with its publisher and subscribers, kept from turn to turn."""

    def __init__(self, count: int, folder: Path) -> None:
        self.count = count
        self.cpu_rates: list[float] = []
        self.rates: list[float] = []
        wanted = [np.any(each, axis=0) for each in of_each([matching for _, matching in conditions(count)])]
        self.deliveries = sum(int(np.count_nonzero(each)) for each in wanted) * EVENTS // len(events())
        self._broker = Holdfast(folder)
        self._broker.start()
        assert self._broker.process is not None
        self._pid = self._broker.process.pid
        self._workers = [self._worker(role) for role in ("sub", "pub")]

    def _worker(self, role: str) -> "subprocess.Popen[str]":
        task = json.dumps({"role": role, "address": self._broker.address, "count": self.count})
        command = [sys.executable, "-m", "bench.live_realistic", task]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._line(worker)
        return worker

    def _line(self, worker: "subprocess.Popen[str]") -> str:
        assert worker.stdout is not None
        line = worker.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended with {worker.wait()}")
        return line

    def turn(self) -> None:
        subscribers, publisher = self._workers
        used_s, began_s = self._used_s(), time.monotonic()
        for each, word in ((subscribers, self.deliveries), (publisher, EVENTS)):
            assert each.stdin is not None
            each.stdin.write(f"{word}\n")
            each.stdin.flush()
        self._line(publisher)
        got = int(self._line(subscribers))
        if got != self.deliveries:
            raise Disagreement(f"{self.count:,} conditions: {got:,} deliveries, NumPy counts {self.deliveries:,}")
        self.cpu_rates.append(EVENTS / (self._used_s() - used_s))
        self.rates.append(EVENTS / (time.monotonic() - began_s))

    def _used_s(self) -> float:
        threads = Path(f"/proc/{self._pid}/task").iterdir()  # in nanoseconds, where getrusage counts in hundredths
        return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9

    def stop(self) -> None:
        for each in self._workers:
            each.kill()
            each.communicate()
        self._broker.stop()

    def row(self) -> dict[str, Any]:
        return {
            "conditions": self.count,
            "subscribers": SUBSCRIBERS,
            "deliveries_per_event": self.deliveries / EVENTS,
            "events_per_cpu_second": median(self.cpu_rates),
            "events_per_second": median(self.rates),
        }


def realistic(rounds: int) -> dict[str, Any]:
    """A row with one condition, a row with many, and how the broker's throughput compares."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        turns: list[Turns] = []
        try:
            for count in (1, CONDITIONS):
                say(f"{SUBSCRIBERS} subscribers, {count:,} realistic conditions")
                turns.append(Turns(count, Path(folder) / str(count)))
                turns[-1].turn()  # compiles the index
            for each in turns:
                each.cpu_rates.clear()
                each.rates.clear()
            for _ in range(rounds):
                for each in turns:
                    each.turn()
            one, many = turns
            share = median(b / a for a, b in zip(one.cpu_rates, many.cpu_rates, strict=True))
            date = datetime.now(UTC).date().isoformat()
            return {"date": date, "rows": [one.row(), many.row()], "share": share}
        finally:
            for each in turns:
                each.stop()


def check(found: dict[str, Any]) -> Check:
    name = "the broker's throughput: 10,000 realistic conditions, to one"
    return Check(name, "at least", 0.5, "x", found["share"])


def _keep(found: dict[str, Any]) -> None:
    """Beside what the live bench has saved: it compares itself with itself, within its own turns."""
    from bench.live_report import section

    saved, checked = load(saved_at("live")), check(found).as_dict()
    assert saved is not None
    others = [each for each in saved["checks"] if each["name"] != checked["name"]]
    keep({**saved, "realistic": found, "checks": [*others, checked]}, section)


# The workers ---------------------------------------------------------------------------------------------------


async def _lines() -> Any:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("ready", flush=True)
    while line := await reader.readline():
        yield int(line)


async def _publish(address: str) -> None:
    import holdfast

    async with holdfast.connect(address, recovery=True) as client:
        async for count in _lines():
            for event in stream(count):
                await client.publish(event)
            await client.flush()
            print("published", flush=True)


async def _subscribe(address: str, count: int) -> None:
    got = known = 0
    messages_of = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode

    def on_frame(this: Framed, frame: bytes) -> None:
        nonlocal got, known
        for each in map(bytes, messages_of(memoryview(frame)[2:])):
            if is_event(each):
                got += count_in(each)
            elif kind_of_encoded(each) == "Heartbeat":
                known += any(version for version, _ in decode_frame_untrusted(frame_of([each]))[0].heard)

    for at, mine in enumerate(of_each([text for text, _ in conditions(count)])):
        connection = await greeted(address, f"desk{at}", on_frame)
        for each in SentTable("subscriptions", 1).change(mine, (), 0):
            connection.transport.write(framed(frame_of([encode_message(each)])))
    while known < SUBSCRIBERS:
        await asyncio.sleep(0.05)
    async for expected in _lines():
        end_s = time.monotonic() + _WAIT_S
        while got < expected and time.monotonic() < end_s:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)  # what comes twice comes now
        print(got, flush=True)
        got = 0


def main() -> int:
    from holdfast.net.event_loop import run

    if sys.argv[1:] and sys.argv[1].startswith("{"):
        task = json.loads(sys.argv[1])
        publishes = task["role"] == "pub"
        run(_publish(task["address"]) if publishes else _subscribe(task["address"], task["count"]))
        return 0
    found = realistic(_ROUNDS)
    if "--save" in sys.argv:
        _keep(found)
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
