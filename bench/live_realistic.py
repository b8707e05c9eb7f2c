"""A broker with conditions as people have them: 10,000, each matching about 1 % of the events, of 20 subscribers.

    python -m bench.live_realistic [--rounds N]

Publisher and subscribers have recovery. Each subscriber wants 500 conditions; beside them the same 20 subscribers want
one condition that matches every event, so that nearly as much is sent to them. What counts is the broker alone: how
many events it forwards in a second of its own CPU time. The subscribers share one process and match every event again,
which takes longer than the broker does. Both must get as many deliveries as NumPy counts.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import numpy as np

from bench.live_events import MATCHING, SYMBOLS, events, stream
from bench.live_systems import Holdfast
from bench.rounds import Disagreement, say

SUBSCRIBERS = 20
CONDITIONS = 10_000
EVENTS = 10_240  # of a turn: five times all different ones
_WAIT_S = 120


def conditions(count: int) -> list[tuple[str, int]]:
    """Conditions, and how many of the different events each matches."""
    if count == 1:
        return [(MATCHING, len(events()))]
    rng = Random(9)
    columns = {name: np.array([each[name] for each in events()]) for name in events()[0]}
    found = []
    for number in range(count):
        text, matching = _SHAPES[number % len(_SHAPES)](rng, columns)
        found.append((text, int(np.count_nonzero(matching))))
    return found


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
        given = conditions(count)
        copies = SUBSCRIBERS if count == 1 else 1
        self.deliveries = copies * sum(matching for _, matching in given) * EVENTS // len(events())
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
            return {"rows": [one.row(), many.row()], "share": share}
        finally:
            for each in turns:
                each.stop()


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
    import holdfast

    texts = [text for text, _ in conditions(count)]
    clients = [await holdfast.connect(address, recovery=True).__aenter__() for _ in range(SUBSCRIBERS)]
    got = 0

    async def read(subscription: Any) -> None:
        nonlocal got
        while batch := await subscription.batch():
            got += len(batch)

    wanted = [texts if count == 1 else texts[at::SUBSCRIBERS] for at in range(SUBSCRIBERS)]
    reading = []
    for client, mine in zip(clients, wanted, strict=True):
        subscriptions = [client.subscribe(each, queue_max=100_000, when_full="push-back") for each in mine]
        reading += [asyncio.create_task(read(each)) for each in subscriptions]
        await client.flush()
    async for expected in _lines():
        end_s = time.monotonic() + _WAIT_S
        while got < expected and time.monotonic() < end_s:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)  # what comes twice comes now
        print(got, flush=True)
        got = 0
    assert reading


def main() -> int:
    from holdfast.net.event_loop import run

    if sys.argv[1:] and sys.argv[1].startswith("{"):
        task = json.loads(sys.argv[1])
        publishes = task["role"] == "pub"
        run(_publish(task["address"]) if publishes else _subscribe(task["address"], task["count"]))
        return 0
    rounds = int(sys.argv[2]) if sys.argv[1:] else 3
    print(json.dumps(realistic(rounds), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
