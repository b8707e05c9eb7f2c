"""Frames over TCP and TLS: each behind its length in four bytes, many written at once.

TLS is TCP with a context; nothing else differs. Frames that come together are handed on in slices, so that timers and
other connections get their turn however long it takes to handle them.
"""

import asyncio
import errno
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import cast

from holdfast.model.errors import MisuseError, PeerError, TransportError
from holdfast.model.limits import FRAME_BYTES_MAX, MESSAGES_BYTES_MAX
from holdfast.net.accepting import Acceptor, bound
from holdfast.net.address import Address
from holdfast.net.half_open import HalfOpen
from holdfast.net.slices import SLICES
from holdfast.net.wire import CLOSED, Accept, Paused, Receiver, Refused
from holdfast.trust.certificate import Certificate
from holdfast.trust.identity import Principal

FRAME_AIM = MESSAGES_BYTES_MAX  # some 400 small events: past this, larger writes gain nothing
_BUFFER_BYTES_MAX = 1024 * 1024  # about to go to the kernel; more waits in the outbox, where it can be dropped
_DIAL_S = 5.0  # no answer after this long is no broker
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)  # OpenSSL's numbers: signed by itself, or by somebody who is not trusted
_BACKLOG = 1_024  # many clients dial at once when a broker comes back
_LENGTH_BYTES = 4
_TCP_INFO_BYTES = 104  # up to `tcpi_total_retrans`, the last that we look at
_LINUX = sys.platform == "linux"


class TcpWire(asyncio.Protocol):
    reliable = True
    frame_aim = FRAME_AIM
    frame_max = FRAME_BYTES_MAX
    vouched: Principal | None = None

    def __init__(self, accept: Accept, now_s: Callable[[], float] = monotonic) -> None:
        self.far = "?"
        self.certificate: Certificate = {}
        self._accept = accept
        self._now_s = now_s  # not that of the event loop, which may stand still while a callback runs
        self.heard_s = self._now_s()
        self._receiver: Receiver
        self._transport: asyncio.Transport
        self._held = bytearray()  # what has come and is not handed on: the beginning of a frame, or all while paused
        self._needed = _LENGTH_BYTES  # bytes of `_held` below which there is no point in looking
        self._paused = False
        self._sliced = False  # the rest of what has come is handed on when the event loop turns
        self._closing = False  # nothing more is read or written
        self._lost = False  # and the transport must not be touched any more

    # What asyncio calls --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_BUFFER_BYTES_MAX)
        self._socket = transport.get_extra_info("socket")
        self.certificate = transport.get_extra_info("peercert") or {}
        name = transport.get_extra_info("peername")
        self.far = f"{name[0]}:{name[1]}" if name else "?"
        self._receiver = self._accept(self)

    def data_received(self, data: bytes) -> None:
        self.heard_s = self._now_s()
        if self._held or self._paused:
            self._held += data
            self._look()
        elif int.from_bytes(data[:_LENGTH_BYTES], "big") == len(data) - _LENGTH_BYTES and not self._closing:
            # One frame and nothing else, as when little happens: the way of an event on its own should be short.
            self._receiver.on_frame(memoryview(data)[_LENGTH_BYTES:])
        else:
            done = self._hand_on(data)
            if done < len(data):
                self._held += memoryview(data)[done:]

    def pause_writing(self) -> None:
        self._receiver.on_writable(False)

    def resume_writing(self) -> None:
        self._receiver.on_writable(True)

    def connection_lost(self, problem: Exception | None) -> None:
        self._closing = self._lost = True
        self._receiver.on_closed(_why(problem))

    # Reading -------------------------------------------------------------------------------------

    def _look(self) -> None:
        if len(self._held) >= self._needed and not self._paused and not self._sliced:
            held, self._held = self._held, bytearray()
            done = self._hand_on(held)
            self._held = held[done:] if done else held

    def _hand_on(self, data: bytes | bytearray) -> int:
        """Hand on the whole frames at the start of the data; how many bytes they were."""
        view, at, size = memoryview(data), 0, len(data)
        self._needed = _LENGTH_BYTES
        end_s = SLICES.end_s(self._now_s())
        while size - at >= _LENGTH_BYTES and not self._paused and not self._closing:
            length = int.from_bytes(view[at : at + _LENGTH_BYTES], "big")
            if length > FRAME_BYTES_MAX:
                self._receiver.on_bad(PeerError(f"frame too large: {length} bytes, the limit is {FRAME_BYTES_MAX}"))
                self.abort()
                return size
            end = at + _LENGTH_BYTES + length
            if end > size:
                self._needed = _LENGTH_BYTES + length
                break
            self._receiver.on_frame(view[at + _LENGTH_BYTES : end])
            at = end
            if at < size and self._now_s() >= end_s and not self._closing:
                self._slice()
                break
        return size if self._closing else at

    def _slice(self) -> None:
        """Go on when the event loop has turned, and read nothing before that."""
        self._sliced = True
        if not self._paused:
            self._transport.pause_reading()
        SLICES.go_on_later(self, self._now_s(), self._next_slice)

    def _next_slice(self) -> None:
        self._sliced = False
        if not self._closing:
            if not self._paused:
                self._transport.resume_reading()
            self._look()

    # The wire ------------------------------------------------------------------------------------

    @property
    def unanswered_s(self) -> float:
        """Linux tells what is under way, and when the other host last confirmed anything, be it that it has no room.

        So a host that is gone is told from one whose process is stopped or reads nothing, and no timeout of TCP itself
        is needed: that ends connections whose other end only does not read.
        """
        unacknowledged, last_ack_ms = self._kernel_info(24, 56)
        return last_ack_ms / 1e3 if unacknowledged else 0.0

    @property
    def round_trip_us(self) -> int:
        """As the kernel has it, from acknowledgements; 0 where that cannot be known."""
        return self._kernel_info(68, 100)[0]

    @property
    def retransmitted(self) -> int:
        """Segments that the kernel had to send again since the connection began."""
        return self._kernel_info(68, 100)[1]

    def _kernel_info(self, *places: int) -> tuple[int, ...]:
        """Numbers of Linux's `struct tcp_info`; 0 for each where there is none."""
        if self._lost or not _LINUX:
            return (0,) * len(places)
        try:
            info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        except OSError:  # it is being closed
            return (0,) * len(places)
        return tuple(int.from_bytes(info[at : at + 4], sys.byteorder) for at in places)

    def send(self, frame: bytes) -> None:
        if len(frame) > FRAME_BYTES_MAX:
            raise MisuseError(f"frame too large: {len(frame)} bytes, the limit is {FRAME_BYTES_MAX}")
        if not self._closing:
            self._transport.writelines((len(frame).to_bytes(_LENGTH_BYTES, "big"), frame))

    def pause(self) -> None:
        if not self._paused and not self._closing:
            self._paused = True
            if not self._sliced:
                self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused and not self._closing:
            self._paused = False
            if not self._sliced:
                self._transport.resume_reading()
                asyncio.get_running_loop().call_soon(self._look)  # later, so that the caller is not called back

    def close(self) -> None:
        self._closing = True
        if not self._lost:
            self._transport.close()

    def abort(self) -> None:
        self._closing = True
        if not self._lost:
            with suppress(AttributeError):  # the first releases of Python 3.11 trip over a TLS transport that is gone
                self._transport.abort()


def _why(problem: Exception | None) -> str:
    if problem is None:
        return CLOSED
    if isinstance(problem, ssl.SSLError):
        return f"TLS: {problem.reason or problem}".replace("_", " ").lower().replace("tls", "TLS", 1)
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror.lower()
    return str(problem) or type(problem).__name__


class TcpListener:
    def __init__(self, server: Acceptor, address: Address) -> None:
        self._server = server
        self.address = address

    def renew(self, context: ssl.SSLContext) -> None:
        self._server.context = context

    def close(self) -> None:
        self._server.close()


async def listen(
    address: Address,
    accept: Accept,
    context: ssl.SSLContext | None,
    half_open: HalfOpen,
    refused: Refused | None = None,
    paused: Paused | None = None,
) -> TcpListener:
    """With a context, `refused` learns who has failed the TLS handshake, and why.

    `paused` learns why nobody is accepted for a second.
    """
    on_refused, on_paused = refused or (lambda far, why: None), paused or (lambda why: None)
    try:
        server = Acceptor(
            await bound(address.host, address.port, _BACKLOG),
            context,
            lambda: TcpWire(accept),
            half_open,
            lambda far, problem: on_refused(far, _why(problem)),
            lambda problem: on_paused(why_not(problem)),
        )
    except OSError as problem:
        raise TransportError(f"cannot listen on {address}: {why_not(problem)}") from None
    return TcpListener(server, Address(address.scheme, address.host, server.port))


async def dial(address: Address, accept: Accept, context: ssl.SSLContext | None) -> TcpWire:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_DIAL_S):
            _, wire = await loop.create_connection(lambda: TcpWire(accept), address.host, address.port, ssl=context)
    except TimeoutError:
        raise TransportError(f"cannot reach {address}: no answer within {_DIAL_S:g} s") from None
    except OSError as problem:
        plain = "; is it a broker that speaks plain tcp://?" if context is not None and not str(problem) else ""
        raise TransportError(f"cannot reach {address}: {why_not(problem)}{plain}") from None
    return wire


def why_not(problem: OSError) -> str:
    """An error of the operating system in a few words."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        unknown = problem.verify_code in _UNKNOWN_AUTHORITY
        hint = "; name the authority that has signed it: --ca FILE, ca= in Python" if unknown else ""
        return f"bad certificate: {problem.verify_message}{hint}"
    if isinstance(problem, ssl.SSLError):
        return f"TLS failed: {(problem.reason or str(problem)).replace('_', ' ').lower()}"
    if isinstance(problem, socket.gaierror):
        return "there is no such host"
    words = {
        errno.EADDRINUSE: "the port is in use",
        errno.ECONNREFUSED: "connection refused; is the broker running?",
        errno.EADDRNOTAVAIL: "this machine has no such address",
        errno.EACCES: "not allowed; ports below 1024 need privileges",
    }
    text = str(problem)
    for number, meaning in words.items():
        if problem.errno == number or f"[Errno {number}]" in text:  # several attempts come as one text
            return meaning
    return (problem.strerror or text).lower() or CLOSED
