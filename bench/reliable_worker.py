"""A publisher or a subscriber of Holdfast for `bench reliable`, as a process of its own.

    python -m bench.reliable_worker '{"role": "sub", "address": "tcp://127.0.0.1:7001", "work": "stock", ...}'

It prints `{"ready": ...}`, then does what each line of JSON on its standard input says and answers with one. Nothing
waits longer than until the time that the line names: then what came by then is the answer. Times are those of the
machine's monotonic clock, which all processes share.
"""

import asyncio
import json
import sys
import time
from array import array
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import holdfast
from bench.reliable_work import Work, work
from holdfast.model.errors import TransportError
from holdfast.net.client import Client
from holdfast.net.subscription import Subscription

TICK_S = 0.001  # a steady publisher sends what is due in steps of this


def say(**found: Any) -> None:
    print(json.dumps(found), flush=True)


async def tasks() -> AsyncIterator[dict[str, Any]]:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    say(ready=True)
    while line := await reader.readline():
        yield json.loads(line)


def client_of(task: dict[str, Any]) -> Client:
    return holdfast.connect(task["address"], **task["promises"])


# The publisher -------------------------------------------------------------------------------------------------


async def publish(task: dict[str, Any]) -> None:
    given = work(task["work"], task["subscribers"])
    async with client_of(task) as client:
        async for line in tasks():
            await _burst(client, given, line)


async def _burst(client: Client, given: Work, line: dict[str, Any]) -> None:
    first, count, rate = line["first"], line["count"], line["rate"]
    cpu_s, began_s, published, problem = time.process_time(), time.monotonic(), 0, ""
    try:
        async with asyncio.timeout(line["until_s"] - began_s):
            for number in range(first, first + count):
                event = given.event(number)
                if rate:
                    await _due(began_s + (number - first) / rate)
                    event["sent"] = time.monotonic()
                await client.publish(event)
                published += 1
            await client.flush()
    except TimeoutError:
        problem = f"not published by then: {count - published} of {count}" if published < count else "flush hung"
    except TransportError as error:
        problem = str(error)
    cpu_s = time.process_time() - cpu_s
    say(began_s=began_s, ended_s=time.monotonic(), published=published, problem=problem, cpu_s=cpu_s)


async def _due(due_s: float) -> None:
    while (left_s := due_s - time.monotonic()) > 0:
        await asyncio.sleep(max(left_s, TICK_S))


# The subscriber ------------------------------------------------------------------------------------------------


class Came:
    """What has come: the events' numbers for each subscription, as they came."""

    def __init__(self, subscriptions: list[Subscription]) -> None:
        self.subscriptions = subscriptions
        self.numbers = [array("q") for _ in subscriptions]
        self.delays_s: list[float] = []
        self.wanted = self.count = 0
        self.last_s = 0.0
        self.enough = asyncio.Event()
        self.readers = [asyncio.create_task(self._read(i)) for i in range(len(subscriptions))]

    async def _read(self, which: int) -> None:
        subscription, numbers = self.subscriptions[which], self.numbers[which]
        while batch := await subscription.batch():
            events: list[Any] = [each.publication.attributes for each in batch]
            numbers.extend([each["seq"] for each in events])
            self.last_s = time.monotonic()
            if "sent" in events[-1]:
                self.delays_s += [self.last_s - each["sent"] for each in events if "sent" in each]
            self.count += len(events)
            if self.count >= self.wanted:
                self.enough.set()

    def expect(self, wanted: int) -> None:
        for each in self.numbers:
            del each[:]
        self.delays_s, self.wanted, self.count, self.last_s = [], wanted, 0, 0.0
        self.enough.clear()

    def keep(self, file: str) -> None:
        lengths = [len(each) for each in self.numbers]
        numbers = [np.frombuffer(each, np.int64) for each in self.numbers if each]
        np.savez(Path(file), lengths=lengths, numbers=np.concatenate([np.empty(0, np.int64), *numbers]))


async def subscribe(task: dict[str, Any]) -> None:
    conditions = work(task["work"], task["subscribers"]).conditions[task["number"]]
    async with client_of(task) as client:
        came = Came([client.subscribe(each, when_full="push-back") for each in conditions])
        await client.flush()
        cpu_s = 0.0
        async for line in tasks():
            if "report" in line:
                came.keep(line["report"])
                say(**_report(client, came), cpu_s=time.process_time() - cpu_s)
                continue
            came.expect(line["wanted"])
            cpu_s = time.process_time()
            say(counting=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(came.enough.wait(), line["until_s"] - time.monotonic())
            say(enough=came.enough.is_set(), last_s=came.last_s)


def named(client: Client) -> Counter[str]:
    """What `losses()` says: reasons, and how many events; an entry without numbers counts as one."""
    found = Counter[str]()
    for each in client.losses().take():
        found[each.reason] += each.last - each.first + 1
    return found


def _report(client: Client, came: Came) -> dict[str, Any]:
    delays = sorted(came.delays_s)
    found: dict[str, Any] = {
        "named": named(client),
        "dropped": sum(each.dropped for each in came.subscriptions),
    }
    if delays:
        found |= {"p50_ms": 1_000 * delays[len(delays) // 2], "p99_ms": 1_000 * delays[len(delays) * 99 // 100]}
    return found


if __name__ == "__main__":
    from holdfast.net.event_loop import run

    given = json.loads(sys.argv[1])
    run(publish(given) if given["role"] == "pub" else subscribe(given))
