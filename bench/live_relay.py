"""The raw limit: a bare relay over TCP that decodes 64 events a frame, looks at two attributes and sends on.

No protocol, no tables, no accounts: what Python can do at most with events as events. It does push back, because a
relay that loses events would have no speed.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

PER_FRAME = 64

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[dict[str, Any]]).decode
_SUBSCRIBE = b"S"


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


class Framed(asyncio.Protocol):
    def __init__(self, on_frame: Callable[["Framed", bytes], None]) -> None:
        self._on_frame = on_frame
        self._held = bytearray()
        self.room = asyncio.Event()
        self.room.set()
        self.on_writable: Callable[[Framed], None] = lambda this: None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=2**20)

    def data_received(self, data: bytes) -> None:
        self._held += data
        at, held = 0, self._held
        while len(held) - at >= 4:
            end = at + 4 + int.from_bytes(held[at : at + 4], "big")
            if end > len(held):
                break
            self._on_frame(self, bytes(memoryview(held)[at + 4 : end]))
            at = end
        del held[:at]

    def pause_writing(self) -> None:
        self.room.clear()
        self.on_writable(self)

    def resume_writing(self) -> None:
        self.room.set()
        self.on_writable(self)


async def dial(address: str, on_frame: Callable[[Framed, bytes], None]) -> Framed:
    place = urlsplit(address)
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(lambda: Framed(on_frame), place.hostname, place.port)
    return protocol


class RawPublisher:
    def __init__(self, connection: Framed) -> None:
        self._connection = connection
        self._batch: list[dict[str, Any]] = []

    @classmethod
    async def connect(cls, address: str) -> "RawPublisher":
        return cls(await dial(address, lambda this, frame: None))

    async def publish(self, event: dict[str, Any]) -> None:
        self._batch.append(event)
        if len(self._batch) == PER_FRAME or "sent" in event:  # where the delay counts, nothing waits for others
            await self.flush()

    async def flush(self) -> None:
        if self._batch:
            self._connection.transport.write(framed(_encode(self._batch)))
            self._batch = []
        await (asyncio.sleep(0) if self._connection.room.is_set() else self._connection.room.wait())


async def subscribe(address: str, on: Callable[[int, float | None], None]) -> None:
    ready = asyncio.Event()

    def on_frame(this: Framed, frame: bytes) -> None:
        if frame == _SUBSCRIBE:
            ready.set()
            return
        events = _decode(frame)
        on(len(events), events[0].get("sent"))

    connection = await dial(address, on_frame)
    connection.transport.write(framed(_SUBSCRIBE))
    await ready.wait()


async def serve(address: str) -> None:
    subscribers: list[Framed] = []
    publishers: list[Framed] = []

    def on_writable(_: Framed) -> None:
        full = any(not each.room.is_set() for each in subscribers)
        for each in publishers:
            if full:
                each.transport.pause_reading()
            else:
                each.transport.resume_reading()

    def on_frame(this: Framed, frame: bytes) -> None:
        if frame == _SUBSCRIBE:
            this.on_writable = on_writable
            subscribers.append(this)
            this.transport.write(framed(_SUBSCRIBE))
            return
        if this not in publishers:
            publishers.append(this)
        wanted = [each for each in _decode(frame) if each["class"] == "stock" and each["currency"] != "XXX"]
        data = framed(_encode(wanted))
        for each in subscribers:
            if not each.transport.is_closing():
                each.transport.write(data)

    place = urlsplit(address)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Framed(on_frame), place.hostname, place.port)
    print(f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()
