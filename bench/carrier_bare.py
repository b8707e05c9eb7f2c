"""A bare client of a bus in a burst: the carrier alone, one event a message as JSON, and a loop that connects again."""

import asyncio
import json
import time
from collections.abc import Awaitable

from bench.carrier_judge import Came, Left
from bench.carrier_trouble import Burst, Scene
from holdfast.carriers.addresses import bus_address, carrier_of
from holdfast.carriers.carrier import BusCarrier, BusMessage
from holdfast.language.lanes import exactly
from holdfast.model.errors import TransportError

LANE = ("bench",)
_TOGETHER = 256
_AGAIN_S = 0.1
_QUIET_S = 5.0  # after the last message nothing more comes


class _Rider:
    """Whatever happens, it goes on: connects again, and subscribes again."""

    def __init__(self, address: str, came: Came | None = None, per_s: int = 0) -> None:
        self._new = carrier_of(bus_address(address))
        self._came = came
        self._per_s = per_s
        self.heard_s = time.monotonic()
        self._down = asyncio.Event()
        self.carrier: BusCarrier | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._connect()
        self._task = asyncio.create_task(self._stay_connected())

    async def _connect(self) -> None:
        self._down.clear()
        carrier = self._new()
        await carrier.connect(self)
        if self._came is not None:
            await carrier.subscribe([exactly(LANE)])
        self.carrier = carrier

    async def _stay_connected(self) -> None:
        while True:
            await self._down.wait()
            if self.carrier is not None:
                await self.carrier.close()
            self.carrier = None
            while self.carrier is None:
                await asyncio.sleep(_AGAIN_S)
                try:
                    await self._connect()
                except TransportError:
                    continue

    def on_message(self, message: BusMessage) -> Awaitable[None] | None:
        assert self._came is not None
        self._came.numbers.append(json.loads(message.payload)["n"])
        self.heard_s = time.monotonic()
        self._came.last_s = time.perf_counter()
        if self._per_s and len(self._came.numbers) % (self._per_s // 100) == 0:
            return asyncio.sleep(0.01)
        return None

    def on_dropped(self, messages: int) -> None: ...

    def on_down(self, reason: str) -> None:
        self._down.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self.carrier is not None:
            await self.carrier.close()


async def bare_burst(scene: Scene, burst: Burst) -> tuple[Left, list[Came]]:
    left, fast, slow = Left(), Came(), Came()
    riders = [_Rider(scene.through_proxy if burst.troubled else scene.address, fast)]
    if burst.slow_per_s:
        riders.append(_Rider(scene.through_proxy, slow, burst.slow_per_s))
    publisher = _Rider(scene.address)
    for each in (*riders, publisher):
        await each.start()
    try:
        await _publish(publisher, burst.events, left, scene)
        await scene.cut_over.wait()
        while (quiet_s := time.monotonic() - max(each.heard_s for each in riders)) < _QUIET_S:
            if not burst.troubled and len(fast.numbers) >= burst.events:
                break
            await asyncio.sleep(min(0.005, quiet_s + 0.001))
    finally:
        for each in (*riders, publisher):
            await each.close()
    return left, [fast, slow] if burst.slow_per_s else [fast]


async def _publish(publisher: _Rider, events: int, left: Left, scene: Scene) -> None:
    for first in range(0, events, _TOGETHER):
        while publisher.carrier is None:
            await asyncio.sleep(0.01)
        numbers = range(first, min(first + _TOGETHER, events))
        messages = [BusMessage(LANE, json.dumps(event(number)).encode()) for number in numbers]
        left.messages += len(messages)
        left.bytes += sum(len(each.payload) for each in messages)
        try:
            await publisher.carrier.publish(messages)
        except TransportError:
            publisher.on_down("")  # these are gone, as in most programs
            publisher.carrier = None
        scene.on_published(first, numbers[-1] + 1)
        await asyncio.sleep(0)


def event(number: int) -> dict[str, object]:
    """About a hundred bytes as JSON."""
    return {"n": number, "site": f"s{number % 7}", "kind": "reading", "temp": 20.5 + number % 9, "unit": "celsius"}
