"""A subscriber that is far too slow for its publisher: is everything accounted for, and what does it cost whom?

Once with a broker that drops the oldest events of a slow neighbour, once with one that pushes back. Either way every
event is delivered or counted as dropped, and the delay says how far behind the subscriber was.
"""

import asyncio
import time
from typing import Any

from bench.live_events import MATCHING, stream
from holdfast.carriers.connecting import connect
from holdfast.net.address import parse_address
from holdfast.net.node import BrokerNode
from holdfast.net.settings import NodeSettings

EVENTS = 50_000
PAYLOAD = bytes(500)
QUEUE_BYTES = 2**20  # some 1,500 of these events
BATCH, PAUSE_S = 100, 0.01  # 10,000 events a second at most


async def overload() -> dict[str, Any]:
    return {
        "oldest dropped": await _overloaded(push_back=False),
        "pushed back": await _overloaded(push_back=True),
    }


async def _overloaded(push_back: bool) -> dict[str, Any]:
    address = parse_address("tcp://127.0.0.1:0")
    broker = BrokerNode(NodeSettings("b1", (address,), queue_bytes=QUEUE_BYTES, push_back=push_back))
    await broker.start()
    listening = str(broker.listening[0])
    delays_s: list[float] = []
    async with connect(listening) as publisher, connect(listening) as subscriber:
        slow = subscriber.subscribe(MATCHING, queue_max=1_000, when_full="push-back")
        await subscriber.flush()

        async def read() -> None:
            while batch := await slow.batch(BATCH):
                delays_s.extend(each.delay for each in batch)
                await asyncio.sleep(PAUSE_S)

        reading = asyncio.create_task(read())
        began_s = time.monotonic()
        for event in stream(EVENTS):
            await publisher.publish(event, payload=PAYLOAD)
        await publisher.flush()
        took_s = time.monotonic() - began_s
        end_s = time.monotonic() + 60
        while len(delays_s) + slow.dropped + broker.counters.dropped < EVENTS and time.monotonic() < end_s:
            await asyncio.sleep(0.05)
        reading.cancel()
    await broker.stop()
    dropped = broker.counters.dropped
    return {
        "published": EVENTS,
        "published_per_second": EVENTS / took_s,
        "delivered": len(delays_s),
        "dropped_by_broker": dropped,
        "dropped_by_client": slow.dropped,
        "lost_without_a_trace": EVENTS - len(delays_s) - dropped - slow.dropped,
        "delay_max_ms": 1_000 * max(delays_s, default=0.0),
    }
