"""Sockets on which clients of MQTT connect: TCP, TLS and WebSocket."""

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.model.errors import TransportError
from holdfast.model.extras import extras_named
from holdfast.net.accepting import Acceptor, bound
from holdfast.net.address import ENCRYPTED, Address
from holdfast.net.half_open import HalfOpen
from holdfast.net.mqtt_door import Door
from holdfast.net.mqtt_line import GREETING_S, MqttLine
from holdfast.net.tcp import TcpListener, why_not
from holdfast.net.tls import TlsFiles
from holdfast.net.wire import Paused, Refused
from holdfast.trust.certificate import Certificate

if TYPE_CHECKING:
    from holdfast.mqtt.websocket import WebSocket

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

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, socket: "WebSocket") -> None:
        super().__init__(reader, writer)
        self._socket = socket
        self._early = b""  # what came behind the handshake

    async def opened(self) -> bool:
        try:
            async with asyncio.timeout(GREETING_S):
                while not self._socket.is_open and not self._socket.closed:
                    self._early = await self._fed()
        except (EOFError, TimeoutError, OSError):
            return False
        return self._socket.is_open

    async def read(self) -> bytes:
        carried, self._early = self._early, b""
        try:
            while not carried and not self._socket.closed:
                carried = await self._fed()
        except EOFError:
            return b""
        return carried

    async def _fed(self) -> bytes:
        """What one piece of the stream carries, which may be nothing; an EOFError at the end."""
        data = await super().read()
        if not data:
            raise EOFError
        carried, answers = self._socket.feed_untrusted(data)
        if answers:
            super().write(answers)
        return carried

    def write(self, data: bytes) -> None:
        super().write(self._socket.framed(data))


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


def _web_sockets(address: Address, door: Door) -> "Callable[[], WebSocket] | None":
    """For an address that asks for them; a MissingExtraError when the library is not there."""
    if address.scheme not in ("ws", "wss"):
        return None
    with extras_named():
        from holdfast.mqtt.websocket import WebSocket  # noqa: PLC0415
    return lambda: WebSocket(address.path, door.settings.packet_bytes_max)


def _protocols(address: Address, door: Door, half_open: HalfOpen) -> Callable[[], asyncio.Protocol]:
    new_socket = _web_sockets(address, door)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        stream = PlainStream(reader, writer)
        if new_socket is not None:
            stream = WebStream(reader, writer, new_socket())
        half_open.enter(stream, stream.far, stream.abort)
        try:
            if await stream.opened():
                await MqttLine(stream, door, lambda: half_open.leave(stream)).serve()
        finally:
            half_open.leave(stream)
            stream.close()

    return lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(_READ_BYTES), serve)
