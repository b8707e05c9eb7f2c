"""A lean client of MQTT 3.1.1 to load brokers with: it keeps to the protocol, and spends little on each packet.

A client of Python that people use takes as long for an event as some of the brokers; this one writes packets that were
made before, and counts those that come. `bench/mqtt.py` has rows with Paho, too, to show what an application gets.
"""

import asyncio
import json
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import cast

import uvloop

IN_FLIGHT = 2_000  # publications of quality 1 and 2 that wait for their acknowledgement: a disk takes its time
PAYLOAD_BYTES = 100
_CONNACK, _PUBLISH, _PUBACK, _PUBREC, _PUBREL, _PUBCOMP, _SUBACK = 2, 3, 4, 5, 6, 7, 9
_CLIENTS_MAX = 100  # that connect at the same time


def _text(text: str) -> bytes:
    return struct.pack("!H", len(text.encode())) + text.encode()


def _length(size: int) -> bytes:
    out = bytearray()
    while True:
        size, digit = divmod(size, 128)
        out.append(digit | (128 if size else 0))
        if not size:
            return bytes(out)


def connect_packet(client_id: str, clean: bool) -> bytes:
    body = _text("MQTT") + bytes([4, 2 if clean else 0, 0, 0]) + _text(client_id)
    return b"\x10" + _length(len(body)) + body


def subscribe_packet(number: int, filters: list[str], qos: int) -> bytes:
    body = struct.pack("!H", number) + b"".join(_text(each) + bytes([qos]) for each in filters)
    return b"\x82" + _length(len(body)) + body


def publish_packet(topic: str, payload: bytes, qos: int, number: int) -> bytes:
    body = _text(topic) + (struct.pack("!H", number) if qos else b"") + payload
    return bytes([0x30 | qos << 1]) + _length(len(body)) + body


class Line(asyncio.Protocol):
    """One connection; whoever uses it says what becomes of a packet."""

    def __init__(self, on_packet: Callable[["Line", int, bytes], None]) -> None:
        self._on_packet = on_packet
        self._rest = b""
        self.writable = asyncio.Event()
        self.writable.set()
        self.answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.out = bytearray()  # what is written when the packets at hand are handled

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at, end = 0, len(data)
        while at + 2 <= end:
            size, shift, start = data[at + 1] & 127, 7, at + 2
            while data[start - 1] & 128 and start < end:
                size |= (data[start] & 127) << shift
                shift, start = shift + 7, start + 1
            if data[start - 1] & 128 or start + size > end:
                break
            self._on_packet(self, data[at], data[start : start + size])
            at = start + size
        self._rest = data[at:]
        if self.out:
            self.transport.write(bytes(self.out))
            self.out.clear()

    async def asked(self, packet: bytes) -> int:
        """Write a packet that is answered; the first byte of the answer."""
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(packet)
        return await asyncio.wait_for(self.answer, 60)

    def answered(self, first: int) -> None:
        if not self.answer.done():
            self.answer.set_result(first)


async def connected(
    port: int, client_id: str, on_packet: Callable[[Line, int, bytes], None], clean: bool = True
) -> Line:
    _, line = await asyncio.get_running_loop().create_connection(lambda: Line(on_packet), "127.0.0.1", port)
    assert await line.asked(connect_packet(client_id, clean)) >> 4 == _CONNACK
    return line


class Publisher:
    """Publishes as fast as acknowledgements come, or as the connection takes it."""

    def __init__(self, port: int, name: str) -> None:
        self._port, self._name = port, name
        self._acknowledged = asyncio.Event()
        self._in_flight = 0

    async def __aenter__(self) -> "Publisher":
        self._line = await connected(self._port, self._name, self._on_packet)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._line.transport.write(b"\xe0\x00")
        self._line.transport.close()

    def _on_packet(self, line: Line, first: int, body: bytes) -> None:
        kind = first >> 4
        if kind == _PUBREC:
            line.out += b"\x62\x02" + body[:2]
        elif kind in (_PUBACK, _PUBCOMP):
            self._in_flight -= 1
            self._acknowledged.set()
        else:
            line.answered(first)

    async def publish(self, topic: str, payload: bytes, qos: int, count: int) -> None:
        """So many events, until all are acknowledged."""
        line = self._line
        if not qos:
            some = publish_packet(topic, payload, 0, 0) * 20
            for _ in range(count // 20):
                line.transport.write(some)
                await (line.writable.wait() if not line.writable.is_set() else asyncio.sleep(0))
            return
        for number in range(count):
            line.transport.write(publish_packet(topic, payload, qos, number % 65_535 + 1))
            self._in_flight += 1
            while self._in_flight >= IN_FLIGHT:
                self._acknowledged.clear()
                await self._acknowledged.wait()
        while self._in_flight:
            self._acknowledged.clear()
            await self._acknowledged.wait()


class Subscribers:
    """All subscribers of one broker, in a process of their own: told what to expect, it says when that has come."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._came: Counter[bytes] = Counter()  # by topic
        self._expected: tuple[bytes, int] = b"", 0
        self._complete = asyncio.Event()
        self._lines: list[Line] = []

    def _on_packet(self, line: Line, first: int, body: bytes) -> None:
        kind = first >> 4
        if kind == _PUBLISH:
            size = body[0] << 8 | body[1]
            topic = body[2 : 2 + size]
            qos = first >> 1 & 3
            if qos:
                line.out += (b"\x40\x02" if qos == 1 else b"\x50\x02") + body[2 + size : 4 + size]
            self._came[topic] += 1
            if topic == self._expected[0] and self._came[topic] >= self._expected[1]:
                self.last_s = time.monotonic()
                self._complete.set()
        elif kind == _PUBREL:
            line.out += b"\x70\x02" + body[:2]
        else:
            line.answered(first)

    async def subscribe(self, name: str, filters: list[str], clients: int, clean: bool) -> None:
        slots = asyncio.Semaphore(_CLIENTS_MAX)

        async def one(number: int) -> None:
            async with slots:
                line = await connected(self._port, f"{name}-{number}", self._on_packet, clean)
                for at in range(0, len(filters), 500):
                    packet = subscribe_packet(at + 1, filters[at : at + 500], 2)
                    assert await line.asked(packet) >> 4 == _SUBACK
                self._lines.append(line)

        await asyncio.gather(*map(one, range(clients)))

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        print("ready", flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            told = json.loads(line)
            if "filters" in told:
                await self.subscribe(told["name"], told["filters"], told["clients"], told["clean"])
                print("ready", flush=True)
                continue
            topic = told["topic"].encode()
            self._came[topic] = 0
            self._complete.clear()
            self._expected = topic, told["count"]
            print("ready", flush=True)
            try:
                await asyncio.wait_for(self._complete.wait(), told["patience_s"])
                print(json.dumps({"last_s": self.last_s}), flush=True)
            except TimeoutError:
                print(json.dumps({"came": self._came[topic]}), flush=True)


if __name__ == "__main__":
    uvloop.run(Subscribers(int(sys.argv[1])).run())
