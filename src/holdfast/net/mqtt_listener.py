"""Sockets on which clients of MQTT connect: TCP, TLS and WebSocket."""

import asyncio
import ssl
from collections.abc import Callable

from holdfast.model.errors import PeerError, TransportError
from holdfast.mqtt.websocket import HEAD_BYTES_MAX, Frames, HandshakeRefused, framed, handshake_untrusted
from holdfast.net.accepting import Acceptor, bound
from holdfast.net.address import ENCRYPTED, Address
from holdfast.net.half_open import HalfOpen
from holdfast.net.mqtt_door import Door
from holdfast.net.mqtt_line import GREETING_S, MqttLine
from holdfast.net.tcp import TcpListener, why_not
from holdfast.net.tls import TlsFiles
from holdfast.net.wire import Paused, Refused
from holdfast.trust.certificate import Certificate

_BACKLOG = 1_024  # many clients dial at once when a broker comes back
_READ_BYTES = 64 * 1024
_BUFFER_BYTES = 128 * 1024  # read and not handled, or written and not sent, before one side waits


class PlainStream:
    """Bytes as they come."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        far = writer.get_extra_info("peername")
        self.far = f"{far[0]}:{far[1]}" if far else "?"
        self.certificate: Certificate = writer.get_extra_info("peercert") or {}

    async def opened(self) -> bool:
        """Whether the client may go on."""
        return True

    async def read(self) -> bytes:
        """What has come; empty at the end."""
        return await self._reader.read(_READ_BYTES)

    def write(self, data: bytes) -> None:
        if not self._writer.transport.is_closing():  # uvloop raises an error, in whoever takes leave of a lost client
            self._writer.write(data)

    async def drained(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()


class WebStream(PlainStream):
    """Bytes in the frames of a WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, bytes_max: int) -> None:
        super().__init__(reader, writer)
        self._path = path
        self._frames = Frames(bytes_max)

    async def opened(self) -> bool:
        try:
            async with asyncio.timeout(GREETING_S):
                head = await self._reader.readuntil(b"\r\n\r\n")
            super().write(handshake_untrusted(head, self._path))
        except HandshakeRefused as problem:
            super().write(problem.answer)
            return False
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError):
            return False
        return True

    async def read(self) -> bytes:
        while not self._frames.closed:
            data = await super().read()
            if not data:
                return b""
            carried, answers = self._frames.feed_untrusted(data)
            if answers:
                super().write(answers)
            if carried:
                return carried
        return b""

    def write(self, data: bytes) -> None:
        super().write(framed(data))


class _DoorListener(TcpListener):
    def __init__(self, server: Acceptor, address: Address, door: Door) -> None:
        super().__init__(server, address)
        self._door = door

    def close(self) -> None:
        super().close()
        self._door.close()


async def listen_for_mqtt(
    address: Address, door: Door, tls: TlsFiles | None, half_open: HalfOpen, refused: Refused, paused: Paused
) -> TcpListener:
    context = (tls or TlsFiles()).for_listening() if address.scheme in ENCRYPTED else None
    try:
        server = Acceptor(
            await bound(address.host, address.port, _BACKLOG),
            context,
            _protocols(address, door, half_open),
            half_open,
            lambda far, problem: refused(far, _why(problem)),
            lambda problem: paused(why_not(problem)),
        )
    except OSError as problem:
        raise TransportError(f"cannot listen on {address}: {why_not(problem)}") from None
    return _DoorListener(server, Address(address.scheme, address.host, server.port, address.path), door)


def _why(problem: Exception) -> str:
    return why_not(problem) if isinstance(problem, OSError | ssl.SSLError) else str(problem)


def _protocols(address: Address, door: Door, half_open: HalfOpen) -> Callable[[], asyncio.Protocol]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        stream = PlainStream(reader, writer)
        if address.scheme in ("ws", "wss"):
            stream = WebStream(reader, writer, address.path, door.settings.packet_bytes_max)
        half_open.enter(stream, stream.far, stream.abort)
        try:
            if await stream.opened():
                await MqttLine(stream, door, lambda: half_open.leave(stream)).serve()
        except PeerError:
            pass  # it is no WebSocket
        finally:
            half_open.leave(stream)
            stream.close()

    limit = max(HEAD_BYTES_MAX, _READ_BYTES)
    return lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(limit), serve)
