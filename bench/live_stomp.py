"""As much of STOMP as publishing events as headers, and subscribing with selectors, needs."""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

_TOPIC = "/topic/stock"


class Stomp:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._receipts: dict[str, asyncio.Event] = {}
        self._number = 0
        self._unflushed = 0

    @classmethod
    async def connect(cls, address: str, on_message: Callable[[dict[str, str]], None]) -> "Stomp":
        place = urlsplit(address)
        this = cls(*await asyncio.open_connection(place.hostname, place.port, limit=2**24))
        this._write("CONNECT", {"accept-version": "1.1", "host": "localhost", "heart-beat": "0,0"})
        answer = await this._reader.readuntil(b"\0")
        assert b"CONNECTED" in answer, answer
        this._reading = asyncio.create_task(this._read(on_message))  # type: ignore[attr-defined]
        return this

    def _write(self, command: str, headers: dict[str, Any]) -> None:
        text = "".join(f"{name}:{value}\n" for name, value in headers.items())
        self._writer.write(f"{command}\n{text}\n\0".encode())

    async def _read(self, on_message: Callable[[dict[str, str]], None]) -> None:
        while True:
            frame = (await self._reader.readuntil(b"\0")).decode().strip("\n\0")
            command, *lines = frame.split("\n")
            headers = dict(line.split(":", 1) for line in lines if ":" in line)
            if command == "MESSAGE":
                on_message(headers)
            elif command == "RECEIPT":
                self._receipts[headers["receipt-id"]].set()
            elif command == "ERROR":
                raise RuntimeError(frame)

    async def _receipt(self, command: str, headers: dict[str, Any]) -> None:
        self._number += 1
        name = f"r{self._number}"
        done = self._receipts[name] = asyncio.Event()
        self._write(command, {**headers, "receipt": name})
        await self._writer.drain()
        await done.wait()

    async def subscribe(self, selectors: list[str]) -> None:
        for number, selector in enumerate(selectors):
            self._number += 1
            headers = {"destination": _TOPIC, "id": f"s{self._number}", "ack": "auto", "selector": selector}
            if number == len(selectors) - 1:
                await self._receipt("SUBSCRIBE", headers)
            else:
                self._write("SUBSCRIBE", headers)

    async def publish(self, event: dict[str, Any]) -> None:
        self._write("SEND", {"destination": _TOPIC, **event})
        self._unflushed += 1
        if self._unflushed == 64 or "sent" in event:
            self._unflushed = 0
            await self._writer.drain()

    async def flush(self) -> None:
        await self._receipt("SEND", {"destination": "/topic/other"})
