"""A publisher or a subscriber of one system, as a process of its own.

    python -m bench.live_worker '{"system": "holdfast", "role": "sub", "address": "tcp://127.0.0.1:7001"}'

It prints `ready`, then does what the lines on its standard input say, `go COUNT RATE` (rate 0: as fast as it can), and
answers each with a line of JSON. Times are those of the machine's monotonic clock, which all processes share.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from itertools import islice
from typing import Any, Protocol

from bench.live_events import MATCHING, condition, events, others, stream

_MANY = 1_000  # events in one call of `publish_many`


class Publisher(Protocol):
    async def publish(self, event: dict[str, Any]) -> None: ...
    async def flush(self) -> None: ...


class Tally:
    """What a subscriber counts, in whatever thread its client calls; the time is taken at once."""

    def __init__(self) -> None:
        self.count = 0
        self.wanted = 0
        self.last_s = 0.0
        self.delays_us: list[float] = []
        self._done = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def on(self, number: int, sent_s: float | None = None) -> None:
        """So many events have come; if known, when one was sent."""
        self.count += number
        if sent_s is not None:
            self.delays_us.append((time.monotonic() - sent_s) * 1e6)
        if self.count >= self.wanted > 0:
            self.last_s = time.monotonic()
            self._loop.call_soon_threadsafe(self._done.set)

    async def run(self) -> dict[str, Any]:
        await asyncio.wait_for(self._done.wait(), 120)
        delays = sorted(self.delays_us)
        found = {"count": self.count, "last_s": self.last_s}
        if delays:
            found |= {"p50_us": delays[len(delays) // 2], "p99_us": delays[len(delays) * 99 // 100]}
        return found

    def expect(self, wanted: int) -> None:
        self.count, self.wanted, self.delays_us = 0, wanted, []
        self._done.clear()


async def lines() -> AsyncIterator[str]:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("ready", flush=True)
    while line := await reader.readline():
        yield line.decode()


async def publish_all(publisher: Publisher) -> None:
    async for line in lines():
        _, count, rate = line.split()
        work = stream(int(count))
        began_s = time.monotonic()
        if not float(rate):
            for event in work:
                await publisher.publish(event)
        else:
            for number, event in enumerate(work):
                due_s = began_s + number / float(rate)
                await asyncio.sleep(max(0, due_s - time.monotonic()))
                await publisher.publish({**event, "sent": time.monotonic()})
        await publisher.flush()
        print(json.dumps({"began_s": began_s, "ended_s": time.monotonic()}), flush=True)


async def answer_all(tally: Tally) -> None:
    async for line in lines():
        _, count, _ = line.split()
        tally.expect(int(count))
        print("counting", flush=True)
        print(json.dumps(await tally.run()), flush=True)


# Holdfast ------------------------------------------------------------------------------------------------------


async def holdfast_pub(task: dict[str, Any]) -> None:
    import holdfast

    async with holdfast.connect(task["address"]) as client:
        await publish_all(client)  # type: ignore[arg-type]  # publish also gives the event's number


async def holdfast_sub(task: dict[str, Any]) -> None:
    import holdfast

    tally = Tally()
    async with holdfast.connect(task["address"]) as client:
        subscription = client.subscribe(MATCHING, queue_max=100_000, when_full="push-back")

        async def read() -> None:
            while batch := await subscription.batch():
                if "sent" in batch[0].event:
                    for each in batch:
                        tally.on(1, float(str(each.event["sent"])))
                else:
                    tally.on(len(batch))

        reading = asyncio.create_task(read())
        await client.flush()
        await answer_all(tally)
        reading.cancel()


async def holdfast_many_pub(task: dict[str, Any]) -> None:
    import holdfast

    async with holdfast.connect(task["address"]) as client:
        async for line in lines():
            _, count, _ = line.split()
            work = stream(int(count))
            began_s = time.monotonic()
            while some := list(islice(work, _MANY)):
                await client.publish_many(some)
            await client.flush()
            print(json.dumps({"began_s": began_s, "ended_s": time.monotonic()}), flush=True)


async def holdfast_hold(task: dict[str, Any]) -> None:
    import holdfast

    async with holdfast.connect(task["address"]) as client:
        held = [client.subscribe(condition(*each)) for each in others(task["count"])]
        await client.flush()
        async for _ in lines():
            pass
        assert len(held) == task["count"]


# Holdfast's broker alone ---------------------------------------------------------------------------------------


async def holdfast_bare_pub(task: dict[str, Any]) -> None:
    from bench.live_bare import BarePublisher

    await publish_all(await BarePublisher.connect(task["address"]))


async def holdfast_bare_sub(task: dict[str, Any]) -> None:
    from bench.live_bare import subscribe

    tally = Tally()
    await subscribe(task["address"], f"bare-subscriber-{os.getpid()}", tally.on)
    await answer_all(tally)


# The raw limit: a bare relay -----------------------------------------------------------------------------------


async def raw_pub(task: dict[str, Any]) -> None:
    from bench.live_relay import RawPublisher

    await publish_all(await RawPublisher.connect(task["address"]))


async def raw_sub(task: dict[str, Any]) -> None:
    from bench.live_relay import subscribe

    tally = Tally()
    await subscribe(task["address"], tally.on)
    await answer_all(tally)


async def raw_broker(task: dict[str, Any]) -> None:
    from bench.live_relay import serve

    await serve(task["address"])


# NATS ----------------------------------------------------------------------------------------------------------


async def nats_pub(task: dict[str, Any]) -> None:
    import msgspec
    import nats

    encode = msgspec.msgpack.Encoder().encode
    connection = await nats.connect(task["address"])

    class Nats:
        async def publish(self, event: dict[str, Any]) -> None:
            await connection.publish("stock", encode(event))

        async def flush(self) -> None:
            await connection.flush(60)

    await publish_all(Nats())


async def nats_sub(task: dict[str, Any]) -> None:
    import msgspec
    import nats

    decode = msgspec.msgpack.Decoder(dict).decode
    connection = await nats.connect(task["address"])
    tally = Tally()

    async def on_message(message: Any) -> None:
        tally.on(1, decode(message.data).get("sent"))

    await connection.subscribe("stock", cb=on_message, pending_msgs_limit=10**9, pending_bytes_limit=10**12)
    await connection.flush()
    await answer_all(tally)


# ActiveMQ over STOMP -------------------------------------------------------------------------------------------


async def activemq_pub(task: dict[str, Any]) -> None:
    from bench.live_stomp_py import StompPyPublisher

    await publish_all(StompPyPublisher(task["address"]))


async def activemq_sub(task: dict[str, Any]) -> None:
    from bench.live_stomp_py import consume

    tally = Tally()
    connection = consume(task["address"], MATCHING, tally.on)
    await answer_all(tally)
    connection.disconnect()


async def activemq_hold(task: dict[str, Any]) -> None:
    from bench.live_stomp import Stomp

    stomp = await Stomp.connect(task["address"], lambda headers: None)
    await stomp.subscribe([condition(*each) for each in others(task["count"])])
    async for _ in lines():
        pass


async def activemq_bare_pub(task: dict[str, Any]) -> None:
    from bench.live_stomp import Stomp

    await publish_all(await Stomp.connect(task["address"], lambda headers: None))


async def activemq_bare_sub(task: dict[str, Any]) -> None:
    from bench.live_stomp import Stomp

    tally = Tally()

    def on_message(headers: dict[str, str]) -> None:
        tally.on(1, float(headers["sent"]) if "sent" in headers else None)

    stomp = await Stomp.connect(task["address"], on_message)
    await stomp.subscribe([MATCHING])
    await answer_all(tally)


# RabbitMQ's headers exchange -----------------------------------------------------------------------------------


async def rabbitmq_pub(task: dict[str, Any]) -> None:
    from bench.live_rabbit import RabbitPublisher

    await publish_all(RabbitPublisher(task["address"]))


async def rabbitmq_sub(task: dict[str, Any]) -> None:
    from bench.live_rabbit import consume

    tally = Tally()
    consume(task["address"], {"class": "stock"}, tally.on)
    await answer_all(tally)


async def rabbitmq_hold(task: dict[str, Any]) -> None:
    from bench.live_rabbit import bind_others

    held = bind_others(task["address"], others(task["count"]))
    async for _ in lines():
        pass
    held.close()


ROLES: dict[str, Callable[[dict[str, Any]], Coroutine[Any, Any, None]]] = {
    name: found for name, found in globals().items() if name.endswith(("_pub", "_sub", "_hold", "_broker"))
}
SAME_ROLES = {"raw-uvloop": "raw", "holdfast-many_sub": "holdfast_sub", "activemq-bare_hold": "activemq_hold"}


def role_of(system: str, role: str) -> Callable[[dict[str, Any]], Coroutine[Any, Any, None]]:
    """A system that differs only in its event loop or at one end shares the rest with another."""
    name = f"{SAME_ROLES.get(system, system)}_{role}"
    return ROLES[SAME_ROLES.get(name, name).replace("-", "_")]


def main() -> None:
    from holdfast.net.event_loop import run

    task = json.loads(sys.argv[1])
    work = role_of(task["system"], task["role"])(task)
    if task["system"] == "raw":
        asyncio.run(work)
    else:
        run(work)


if __name__ == "__main__":
    assert events()
    main()
