"""Holdfast's clients over a bus in a burst: recovery and strict order, and what they were told is lost."""

import asyncio
import time
from math import inf

from bench.carrier_bare import event
from bench.carrier_judge import Came, Left, Named
from bench.carrier_trouble import Burst, Scene
from holdfast.carriers.carrier import BusCarrier, BusMessage
from holdfast.carriers.client import BusClient
from holdfast.carriers.connecting import connect
from holdfast.carriers.memory import MemoryBus
from holdfast.net.subscription import Subscription

_TOGETHER = 256
_IDLE_S = 20.0  # without anything new: what has not come by then does not count as delivered


class _Counted:
    """A carrier, and what leaves over it."""

    def __init__(self, carrier: BusCarrier, left: Left) -> None:
        self._carrier, self._left = carrier, left
        self.has_headers, self.prefixes, self.payload_max = carrier.has_headers, carrier.prefixes, carrier.payload_max
        self.connect, self.subscribe, self.unsubscribe = carrier.connect, carrier.subscribe, carrier.unsubscribe
        self.flush, self.close = carrier.flush, carrier.close

    async def publish(self, messages: list[BusMessage]) -> None:
        self._left.messages += len(messages)
        self._left.bytes += sum(len(each.payload) for each in messages)
        await self._carrier.publish(messages)


def _client(address: str, left: Left, recovers: bool = True, bus: MemoryBus | None = None) -> BusClient:
    how = {"recovery": "end-to-end", "order": "strict"} if recovers else {}
    client = connect(address, space="bench", **how)  # type: ignore[arg-type]
    assert isinstance(client, BusClient)
    made = client._new_carrier
    client._new_carrier = lambda where: _Counted(made(where) if bus is None else bus.connection(), left)
    return client


async def holdfast_burst(scene: Scene, burst: Burst) -> tuple[Left, list[Came]]:
    left, all_came = Left(), [Came(), Came()] if burst.slow_per_s else [Came()]
    speeds = (0, burst.slow_per_s)[: len(all_came)]
    address = scene.through_proxy if burst.troubled else scene.address
    clients = [_client(address, left) for _ in all_came]
    publisher = _client(scene.address, left)
    async with publisher:
        for each in clients:
            await each.__aenter__()
        try:
            subscriptions = [each.subscribe("n >= 0", queue_max=10_000, when_full="push-back") for each in clients]
            for each in clients:
                await each.flush()
            readers = [
                asyncio.create_task(_read(one, came, burst.events, speed, scene))
                for one, came, speed in zip(subscriptions, all_came, speeds, strict=True)
            ]
            for first in range(0, burst.events, _TOGETHER):
                numbers = range(first, min(first + _TOGETHER, burst.events))
                await publisher.publish_many([event(number) for number in numbers])
                left.times_us |= dict.fromkeys(numbers, time.time_ns() // 1_000)
                scene.on_published(first, numbers[-1] + 1)
                await asyncio.sleep(0)
            await scene.cut_over.wait()
            await asyncio.gather(*readers)
            for each, came in zip(clients, all_came, strict=True):
                losses = each.losses().take()
                came.named = [Named(loss.first, loss.last, loss.since_us, loss.until_us) for loss in losses]
        finally:
            for each in clients:
                await each.close(in_haste=True)
        await publisher.close(in_haste=True)
    return left, all_came


async def _read(
    subscription: Subscription, came: Came, events: int, per_s: int = 0, scene: Scene | None = None
) -> None:
    while len(came.numbers) < events:
        try:
            async with asyncio.timeout(_IDLE_S):
                deliveries = await subscription.batch(per_s // 100 or 10_000)
        except TimeoutError:
            return
        came.numbers += [each.publication.attributes["n"] for each in deliveries]  # type: ignore[misc]
        came.last_s = time.perf_counter()
        repaired_s = [each.delay for each in deliveries if each.via == "repair"]
        came.repaired_s += repaired_s
        healed_s = scene.healed_s if scene is not None and scene.healed_s else inf
        came.reachable_s += [min(each, came.last_s - healed_s) for each in repaired_s if came.last_s >= healed_s]
        if per_s:
            await asyncio.sleep(len(deliveries) / per_s)


async def overhead(events: int, loss_ratio: float) -> tuple[int, int]:
    """Bytes on a bus that loses some messages: with recovery, and of the same events without it."""
    found = []
    for recovers in (True, False):
        left, bus = Left(), MemoryBus(seed=1, loss_ratio=loss_ratio if recovers else 0.0)
        subscriber, publisher = (_client("nats://nowhere:1", left, recovers, bus) for _ in range(2))
        async with subscriber, publisher:
            came = Came()
            mine = subscriber.subscribe("n >= 0", queue_max=events)
            await subscriber.flush()
            for first in range(0, events, 50):
                await publisher.publish_many([event(number) for number in range(first, first + 50)])
                await asyncio.sleep(0.001)
            await _read(mine, came, events)
            await publisher.close(in_haste=True)
            await subscriber.close(in_haste=True)
        assert len(came.numbers) == events
        found.append(left.bytes)
    return found[0], found[1]
