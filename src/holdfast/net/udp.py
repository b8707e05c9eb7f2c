"""Frames as datagrams: several messages in each, nothing repeated, nothing put back in order.

One socket serves everybody who dials us; whose datagram it is says the address it came from, and a tag that only the
two ends know (`datagram`). A wire begins when an address has answered a cookie. Whoever has been forgotten is told so
and greets again after its next heartbeat. A wire has no end of its own: the session ends it when the other side says so
or falls silent.
"""

import asyncio
import socket
import ssl
from collections import deque
from contextlib import suppress
from secrets import token_bytes
from time import monotonic
from types import MappingProxyType
from typing import Any

from holdfast.model.errors import MisuseError, TransportError
from holdfast.net import datagram
from holdfast.net.address import Address
from holdfast.net.slices import SLICES
from holdfast.net.tcp import why_not
from holdfast.net.wire import Accept, Receiver
from holdfast.trust.certificate import Certificate
from holdfast.trust.cookie import NONCE_BYTES, Cookies
from holdfast.trust.identity import Principal
from holdfast.wire.codec import VERSION
from holdfast.wire.signals import Refusal, encode_signal

FRAME_AIM = 1_400  # fits an Ethernet packet with room for tunnels, so that no datagram is cut up on its way
FRAME_MAX = 65_000  # the protocol's limit is 65,507
_RECEIVE_BUFFER_BYTES = 4 * 2**20  # a burst of some thousand datagrams; the kernel grants what it allows
_DATAGRAMS_PER_TURN = 64  # read before others get their turn
_WIRES_MAX = 10_000  # per socket, apart from those of TCP
_WAITING_MAX = 8  # frames; a greeting is one

_NO_SESSION = encode_signal(Refusal("greet first", ""))
_TOO_OLD = encode_signal(Refusal("version", "0.3 needed"))  # shorter than any greeting of theirs


class UdpWire:
    reliable = False
    frame_aim = FRAME_AIM
    frame_max = FRAME_MAX
    unanswered_s = 0.0
    certificate: Certificate = MappingProxyType({})
    vouched: Principal | None = None

    def __init__(self, port: "_Port", remote: Any, accept: Accept, nonce: bytes, cookie: bytes = b"") -> None:
        """With a cookie it was dialled by the other end, whose address is known to be its own; otherwise we dial."""
        self.heard_s = monotonic()
        self.far = f"{remote[0]}:{remote[1]}"
        self.remote = remote
        self.nonce = nonce
        self._cookie = cookie
        self._waiting: deque[bytes] = deque(maxlen=_WAITING_MAX)  # our greeting, until there is a cookie to go with it
        self._dials = not cookie
        tags = (cookie[: datagram.TAG_BYTES], nonce)
        self._head_in, self._head_out = map(datagram.head, tags if cookie else (nonce, b""))
        self._answered = bool(cookie)  # both ends know the tags
        self._port = port
        self.open = True
        self.receiver: Receiver = accept(self)

    def send(self, frame: bytes) -> None:
        if len(frame) > FRAME_MAX:
            raise MisuseError(f"frame too large: {len(frame)} bytes, the limit is {FRAME_MAX}")
        if not self.open:
            return
        if self._answered:
            self._port.send(self, self._head_out + frame)
        elif self._cookie:
            self._port.send(self, datagram.first(self.nonce, self._cookie, frame))
        else:
            self._waiting.append(frame)
            self._port.send(self, datagram.opening(self.nonce))

    def on_datagram(self, data: memoryview) -> bool:
        """Take what has come from the other end's address; False when it is not from that end."""
        if data[: datagram.HEAD_BYTES] == self._head_in:
            self._answered = True
            self.receiver.on_frame(data[datagram.HEAD_BYTES :])
        elif self._dials and not self._answered and data[0] == datagram.COOKIE:
            if datagram.nonce_of(data) == self.nonce:
                self._cookie = datagram.cookie_in(data)
                self._head_out = datagram.head(self._cookie[: datagram.TAG_BYTES])
                waiting, self._waiting = self._waiting, deque()
                for frame in waiting:
                    self.send(frame)
        elif self._dials and self._answered and data == datagram.reset(memoryview(self._head_out)):
            self.receiver.on_frame(_NO_SESSION)
        elif not self._dials and data[0] == datagram.FIRST and datagram.nonce_of(data) == self.nonce:
            self.receiver.on_frame(datagram.frame_of_first(data))
        else:
            return False
        self.heard_s = monotonic()
        return True

    def pause(self) -> None:
        """Datagrams cannot be held up: whoever is too slow has to drop them."""

    def resume(self) -> None: ...

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        self._port.forget(self, "closed")


class _Port:
    """A socket and the wires that share it."""

    def __init__(self, sock: socket.socket, accept: Accept | None) -> None:
        self._socket = sock
        self._accept = accept  # None: dialled, and connected to the only wire
        self._wires: dict[Any, UdpWire] = {}
        self._cookies = Cookies()
        self._listening = True
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(2**16))
        self._unsent: deque[tuple[UdpWire, bytes]] = deque()  # at most one datagram a wire: then there is no room
        self._loop.add_reader(sock, self._on_readable)

    def connect(self, remote: Any, accept: Accept) -> UdpWire:
        wire = self._wires[remote] = UdpWire(self, remote, accept, token_bytes(NONCE_BYTES))
        return wire

    # Reading -------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        end_s = SLICES.end_s(monotonic())
        for _ in range(_DATAGRAMS_PER_TURN):
            if self._socket.fileno() < 0:
                return
            if monotonic() >= end_s:
                self._loop.remove_reader(self._socket)
                SLICES.go_on_later(self, monotonic(), self._read_on)
                return
            try:
                size, remote = self._socket.recvfrom_into(self._buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as problem:
                self._on_error(problem)
                return
            if size > datagram.HEAD_BYTES - 1:
                data, wire = self._buffer[:size], self._wires.get(remote)
                if (wire is None or not wire.on_datagram(data)) and self._accept is not None and self._listening:
                    self._on_stranger(remote, data, wire, self._accept)

    def _read_on(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._on_readable)
            self._on_readable()

    def _on_stranger(self, remote: Any, data: memoryview, known: UdpWire | None, accept: Accept) -> None:
        """Answer with no more than was sent, and remember nobody who has not shown that the address is its own."""
        if data[0] == datagram.FIRST:
            nonce, cookie = datagram.nonce_of(data), datagram.cookie_in(data)
            if not self._cookies.is_valid(cookie, remote, nonce):
                self._answer(remote, data, datagram.with_cookie(nonce, self._cookies.of(remote, nonce)))
            elif known is not None or len(self._wires) < _WIRES_MAX:
                if known is not None:  # another process has the address now
                    self.forget(known, "its address is used by another connection")
                wire = self._wires[remote] = UdpWire(self, remote, accept, nonce, cookie)
                wire.receiver.on_frame(datagram.frame_of_first(data))
        elif datagram.asks_for_cookie(data):
            nonce = datagram.nonce_of(data)
            self._answer(remote, data, datagram.with_cookie(nonce, self._cookies.of(remote, nonce)))
        elif data[0] == datagram.TAGGED and known is None:
            self._answer(remote, data, datagram.reset(data))
        elif data[0] == VERSION and known is None:
            self._answer(remote, data, _TOO_OLD)

    def _answer(self, remote: Any, data: memoryview, answer: bytes) -> None:
        if len(answer) <= len(data):  # a forged address gains nothing
            with suppress(OSError):
                self._socket.sendto(answer, remote)

    def _on_error(self, problem: OSError) -> None:
        if self._accept is None:
            for wire in list(self._wires.values()):
                self.forget(wire, why_not(problem))

    # Writing -------------------------------------------------------------------------------------

    def send(self, wire: UdpWire, data: bytes) -> None:
        if self._unsent:
            self._keep(wire, data)
            return
        try:
            if self._accept is None:
                self._socket.send(data)
            else:
                self._socket.sendto(data, wire.remote)
        except (BlockingIOError, InterruptedError):
            self._keep(wire, data)
        except OSError as problem:
            self._loop.call_soon(self.forget, wire, why_not(problem))  # not within the sender's own call

    def _keep(self, wire: UdpWire, data: bytes) -> None:
        if not self._unsent:
            self._loop.add_writer(self._socket, self._on_writable)
        self._unsent.append((wire, data))
        wire.receiver.on_writable(False)

    def _on_writable(self) -> None:
        waiting, self._unsent = self._unsent, deque()
        self._loop.remove_writer(self._socket)
        for wire, data in waiting:
            if wire.open:
                self.send(wire, data)
        for wire in dict.fromkeys(wire for wire, _ in waiting):
            if wire.open and not any(each is wire for each, _ in self._unsent):
                wire.receiver.on_writable(True)

    # The end -------------------------------------------------------------------------------------

    def forget(self, wire: UdpWire, reason: str) -> None:
        if wire.open:
            wire.open = False
            del self._wires[wire.remote]
            self._loop.call_soon(wire.receiver.on_closed, reason)
            self._shut()

    def stop(self) -> None:
        self._listening = False
        self._shut()

    def _shut(self) -> None:
        """Give the socket back once nobody uses it."""
        if (self._accept is None or not self._listening) and not self._wires and self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            if self._unsent:
                self._loop.remove_writer(self._socket)
            self._socket.close()


class UdpListener:
    def __init__(self, port: _Port, address: Address) -> None:
        self._port = port
        self.address = address

    def renew(self, context: ssl.SSLContext) -> None:
        raise AssertionError("datagrams have no TLS")

    def close(self) -> None:
        self._port.stop()


async def _open(address: Address) -> tuple[socket.socket, Any]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)
    family, kind, protocol, _, place = found[0]
    sock = socket.socket(family, kind, protocol)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    return sock, place


async def listen(address: Address, accept: Accept) -> UdpListener:
    try:
        sock, place = await _open(address)
        try:
            sock.bind(place)
        except OSError:
            sock.close()
            raise
    except OSError as problem:
        raise TransportError(f"cannot listen on {address}: {why_not(problem)}") from None
    port = sock.getsockname()[1]
    return UdpListener(_Port(sock, accept), Address("udp", address.host, port))


async def dial(address: Address, accept: Accept) -> UdpWire:
    """A wire to that address; nothing has been said yet, so nobody may be there."""
    try:
        sock, place = await _open(address)
        try:
            sock.connect(place)
        except OSError:
            sock.close()
            raise
    except OSError as problem:
        raise TransportError(f"cannot reach {address}: {why_not(problem)}") from None
    return _Port(sock, None).connect(sock.getpeername(), accept)
