"""A peer made by hand, which does what no client of ours would."""

import asyncio
import socket
from types import TracebackType

from holdfast.model.messages import Message
from holdfast.net.address import Address
from holdfast.net.tls import TlsFiles
from holdfast.wire.codec import decode_frame_untrusted, encode_message, framed
from holdfast.wire.signals import Hello, Signal, decode_signal_untrusted, encode_signal


class RawPeer:
    def __init__(self, address: Address, tls: TlsFiles | None = None) -> None:
        self._address = address
        self._tls = tls
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> "RawPeer":
        # A small buffer, so that little is under way to somebody who does not read.
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (self._address.host, self._address.port))
        context = None if self._tls is None else self._tls.for_dialling()
        host = None if context is None else self._address.host
        self.reader, self.writer = await asyncio.open_connection(
            sock=sock, limit=2**16, ssl=context, server_hostname=host
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.transport.abort()

    def send(self, frame: bytes) -> None:
        self.writer.write(len(frame).to_bytes(4, "big") + frame)

    def signal(self, signal: Signal) -> None:
        self.send(encode_signal(signal))

    def say(self, *messages: Message) -> None:
        self.send(framed([encode_message(each) for each in messages]))

    async def frame(self) -> bytes:
        """The next frame; IncompleteReadError when the connection is closed."""
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(length)

    async def heard_signal(self) -> Signal:
        return decode_signal_untrusted(await self.frame())

    async def heard(self) -> list[Message]:
        """The messages of the next frame that has any."""
        while True:
            frame = await self.frame()
            if frame[1] == 0:
                return decode_frame_untrusted(frame)

    async def closed(self) -> bool:
        """Wait for the end; whatever comes before is dropped."""
        try:
            while await self.reader.read(2**16):
                pass
        except ConnectionError:
            pass
        return True

    async def greet(self, name: str = "raw", epoch: int = 1) -> Signal:
        self.signal(Hello(name, "client", epoch))
        return await self.heard_signal()
