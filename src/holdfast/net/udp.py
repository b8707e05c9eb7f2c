"""Frames as datagrams: several messages in each, nothing repeated, nothing put back in order.

One socket serves everybody who dials us; whose datagram it is says the address it came from. A wire begins with a
signal (the hello); anything else from a stranger is answered with a short refusal, so that whoever has been forgotten
greets again after its next heartbeat. A wire has no end of its own: the session ends it when the other side says so or
falls silent.
"""

import asyncio
import socket
import ssl
from collections import deque
from contextlib import suppress
from time import monotonic
from types import MappingProxyType
from typing import Any

from holdfast.model.errors import MisuseError, TransportError
from holdfast.net.address import Address
from holdfast.net.tcp import why_not
from holdfast.net.wire import Accept, Receiver
from holdfast.trust.certificate import Certificate
from holdfast.wire.signals import SIGNAL, Refusal, encode_signal

FRAME_AIM = 1_400  # fits an Ethernet packet with room for tunnels, so that no datagram is cut up on its way
FRAME_MAX = 65_000  # the protocol's limit is 65,507
_RECEIVE_BUFFER_BYTES = 4 * 2**20  # a burst of some thousand datagrams; the kernel grants what it allows
_DATAGRAMS_PER_TURN = 64  # read before others get their turn
_WIRES_MAX = 10_000  # per socket: addresses can be forged, so there has to be a bound

_NO_SESSION = encode_signal(Refusal("greet first", ""))  # without words it is shorter than any message of a session


class UdpWire:
    reliable = False
    frame_aim = FRAME_AIM
    frame_max = FRAME_MAX
    unanswered_s = 0.0
    certificate: Certificate = MappingProxyType({})

    def __init__(self, port: "_Port", remote: Any, accept: Accept) -> None:
        self.heard_s = monotonic()
        self.far = f"{remote[0]}:{remote[1]}"
        self.remote = remote
        self._port = port
        self.open = True
        self.receiver: Receiver = accept(self)

    def send(self, frame: bytes) -> None:
        if len(frame) > FRAME_MAX:
            raise MisuseError(f"frame too large: {len(frame)} bytes, the limit is {FRAME_MAX}")
        if self.open:
            self._port.send(self, frame)

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
        self._listening = True
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(2**16))
        self._unsent: deque[tuple[UdpWire, bytes]] = deque()  # at most one frame a wire: then there is no room
        self._loop.add_reader(sock, self._on_readable)

    def connect(self, remote: Any, accept: Accept) -> UdpWire:
        wire = self._wires[remote] = UdpWire(self, remote, accept)
        return wire

    # Reading -------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        for _ in range(_DATAGRAMS_PER_TURN):
            if self._socket.fileno() < 0:
                return
            try:
                size, remote = self._socket.recvfrom_into(self._buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as problem:
                self._on_error(problem)
                return
            wire = self._wires.get(remote)
            frame = self._buffer[:size]
            if wire is None:
                wire = self._on_unknown(remote, frame)
            if wire is not None:
                wire.heard_s = monotonic()
                wire.receiver.on_frame(frame)

    def _on_unknown(self, remote: Any, frame: memoryview) -> UdpWire | None:
        if self._accept is None or not self._listening:
            return None
        if len(frame) > 2 and frame[1] == SIGNAL and len(self._wires) < _WIRES_MAX:
            return self.connect(remote, self._accept)
        if len(frame) >= len(_NO_SESSION):  # never more than was sent: forged addresses gain nothing
            with suppress(OSError):
                self._socket.sendto(_NO_SESSION, remote)
        return None

    def _on_error(self, problem: OSError) -> None:
        if self._accept is None:
            for wire in list(self._wires.values()):
                self.forget(wire, why_not(problem))

    # Writing -------------------------------------------------------------------------------------

    def send(self, wire: UdpWire, frame: bytes) -> None:
        if self._unsent:
            self._keep(wire, frame)
            return
        try:
            if self._accept is None:
                self._socket.send(frame)
            else:
                self._socket.sendto(frame, wire.remote)
        except (BlockingIOError, InterruptedError):
            self._keep(wire, frame)
        except OSError as problem:
            self._loop.call_soon(self.forget, wire, why_not(problem))  # not within the sender's own call

    def _keep(self, wire: UdpWire, frame: bytes) -> None:
        if not self._unsent:
            self._loop.add_writer(self._socket, self._on_writable)
        self._unsent.append((wire, frame))
        wire.receiver.on_writable(False)

    def _on_writable(self) -> None:
        waiting, self._unsent = self._unsent, deque()
        self._loop.remove_writer(self._socket)
        for wire, frame in waiting:
            wire.send(frame)
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
