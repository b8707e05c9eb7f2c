"""Datagrams made by hand."""

import asyncio
import socket

from holdfast.net import datagram
from holdfast.net.address import Address


class RawDatagrams:
    """A socket that talks to a broker over UDP, and opens a wire if it is asked to."""

    def __init__(self, address: Address) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.connect((address.host, address.port))
        self.nonce = b"01234567"
        self.cookie = b""

    def __enter__(self) -> "RawDatagrams":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.send(data)

    async def receive(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self.socket, 2**16)

    def waiting(self) -> list[bytes]:
        """What has come and was not received."""
        found = []
        while True:
            try:
                found.append(self.socket.recv(2**16))
            except BlockingIOError:
                return found

    async def open(self) -> None:
        self.send(datagram.opening(self.nonce))
        self.cookie = datagram.cookie_in(memoryview(await self.receive()))

    def first(self, frame: bytes) -> None:
        self.send(datagram.first(self.nonce, self.cookie, frame))

    def tagged(self, frame: bytes) -> None:
        self.send(datagram.head(self.cookie[: datagram.TAG_BYTES]) + frame)
