"""The small interface behind which TCP, TLS and UDP lie.

A wire carries frames, whole, to one other node. What arrives is handed to a receiver by plain calls: no task, no queue
and no copy in between. `holdfast.testing.transports` holds the rules as checks that any implementation can be put to.
"""

import ssl
from collections.abc import Callable
from typing import Protocol

from holdfast.model.errors import PeerError
from holdfast.net.address import Address
from holdfast.trust.certificate import Certificate
from holdfast.trust.identity import Principal

CLOSED = "closed by the other end"  # the reason when there is no better one


class Receiver(Protocol):
    """Who is told what happens on a wire. `on_closed` is the last call, and comes exactly once."""

    def on_frame(self, frame: bytes | memoryview) -> None:
        """A frame has come; it may be looked at only during the call."""

    def on_writable(self, writable: bool) -> None:
        """The wire takes more now, or has enough: what is sent all the same is kept, without a bound."""

    def on_bad(self, problem: PeerError) -> None:
        """What came is no frame."""

    def on_closed(self, reason: str) -> None: ...


class Wire(Protocol):
    far: str  # where the other end is, for people
    reliable: bool  # everything arrives, once and in order, until the wire breaks
    frame_aim: int  # the size up to which messages are put together
    frame_max: int  # a larger frame is our own mistake: MisuseError
    certificate: Certificate  # of the other end, checked by TLS; empty where there is none
    vouched: Principal | None  # who the other end is, where this process knows; None: it has to prove it
    heard_s: float  # when anything last came, by `time.monotonic`: also a part of a frame

    @property
    def unanswered_s(self) -> float:
        """For how long the other end's host has not confirmed what we send; 0 where that cannot be known."""

    def send(self, frame: bytes) -> None: ...

    def pause(self) -> None:
        """Hand on nothing more for now, and let the other end feel it if the transport can."""

    def resume(self) -> None: ...

    def close(self) -> None:
        """Send what was handed over already, then close."""

    def abort(self) -> None:
        """Close now."""


Accept = Callable[[Wire], Receiver]
Refused = Callable[[str, str], None]  # who has failed a TLS handshake, and why
Paused = Callable[[str], None]  # why nobody is accepted for a second


class Listener(Protocol):
    address: Address  # with the port that was really taken

    def renew(self, context: ssl.SSLContext) -> None:
        """Take new wires with these certificates; for a listener with TLS."""

    def close(self) -> None:
        """Take no new wires. Those that are open live on."""
