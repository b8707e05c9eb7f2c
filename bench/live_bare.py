"""Our broker fed like the raw relay: a publisher with ready-made frames of 64 events, a subscriber that only decodes.

What is left is the broker's own speed. Both speak our protocol by hand: greeting, table, heartbeats, nothing else.
"""

import asyncio
from collections.abc import Callable
from itertools import cycle
from typing import Any

from bench.live_events import MATCHING, events
from bench.live_relay import PER_FRAME, Framed, dial, framed
from holdfast.model.messages import Batch, Delta, Heartbeat
from holdfast.wire.codec import decode_frame_untrusted, encode_message
from holdfast.wire.codec import framed as frame_of
from holdfast.wire.signals import LEVEL, SIGNAL, Hello, encode_signal

_BEAT = framed(frame_of([encode_message(Heartbeat(1, ((0, 0), (0, 0)), kind="client"))]))
_BEAT_S = 1.0


async def greeted(address: str, name: str, on_frame: Callable[[Framed, bytes], None]) -> Framed:
    welcome = asyncio.Event()

    def on_any(this: Framed, frame: bytes) -> None:
        if frame[1] == SIGNAL:
            welcome.set()
        else:
            on_frame(this, frame)

    connection = await dial(address, on_any)
    connection.transport.write(framed(encode_signal(Hello(name, "client", 1, level=LEVEL))))
    await welcome.wait()
    _beat(connection)
    return connection


def _beat(connection: Framed) -> None:
    if connection.transport.is_closing():
        return
    connection.transport.write(_BEAT)
    asyncio.get_running_loop().call_later(_BEAT_S, _beat, connection)


class BarePublisher:
    def __init__(self, connection: Framed, name: str) -> None:
        self._connection = connection
        made = events()
        runs = [
            Batch(tuple(range(at, at + PER_FRAME)), name, (1,) * PER_FRAME, tuple(made[at : at + PER_FRAME]), (), 0)
            for at in range(0, len(made), PER_FRAME)
        ]
        self._frames = cycle([framed(frame_of([encode_message(run)])) for run in runs])
        self._count = 0

    @classmethod
    async def connect(cls, address: str) -> "BarePublisher":
        return cls(await greeted(address, "bare-publisher", lambda this, frame: None), "bare-publisher")

    async def publish(self, event: dict[str, Any]) -> None:
        self._count += 1
        if self._count % PER_FRAME == 0:
            self._connection.transport.write(next(self._frames))
            await self.flush()

    async def flush(self) -> None:
        await (asyncio.sleep(0) if self._connection.room.is_set() else self._connection.room.wait())


async def subscribe(address: str, name: str, on: Callable[[int], None]) -> None:
    known = asyncio.Event()

    def on_frame(this: Framed, frame: bytes) -> None:
        messages = decode_frame_untrusted(frame)
        on(sum(len(each.seqs) for each in messages if type(each) is Batch))
        if any(isinstance(each, Heartbeat) and each.heard[0][0] for each in messages):
            known.set()  # the broker has our table

    connection = await greeted(address, name, on_frame)
    connection.transport.write(framed(frame_of([encode_message(Delta("subscriptions", 1, (MATCHING,), ()))])))
    await known.wait()
