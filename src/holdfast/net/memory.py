"""Frames between two ends in one process: how a client that lives in its broker's process is connected to it.

Both ends are wires like any other, so that the broker makes no difference between this client and one that dials. A
frame is handed on when the event loop turns, in slices, as on TCP.
"""

import asyncio
from collections import deque
from time import monotonic

from holdfast.model.errors import MisuseError
from holdfast.model.limits import FRAME_BYTES_MAX
from holdfast.net.slices import SLICES
from holdfast.net.tcp import FRAME_AIM
from holdfast.net.wire import CLOSED, Accept, Receiver
from holdfast.trust.certificate import Certificate
from holdfast.trust.identity import Principal

_WAITING_BYTES_MAX = 1024 * 1024  # handed over and not yet received: as many as a socket may hold


class MemoryWire:
    reliable = True
    frame_aim = FRAME_AIM
    frame_max = FRAME_BYTES_MAX
    unanswered_s = 0.0  # the other end is as alive as we are

    def __init__(self, far: str, vouched: Principal | None) -> None:
        self.far = far
        self.certificate: Certificate = {}
        self.vouched = vouched
        self.heard_s = monotonic()
        self.other: MemoryWire
        self.receiver: Receiver
        self._loop = asyncio.get_running_loop()
        self._frames: deque[bytes] = deque()  # that have come
        self._waiting_bytes = 0  # in them
        self._full = False  # and the other end was told
        self._paused = self._due = False
        self._closing = False  # nothing more is sent or handed on
        self._ended = ""  # the other end has closed, and why
        self._told = False  # that it is closed

    def send(self, frame: bytes) -> None:
        if len(frame) > FRAME_BYTES_MAX:
            raise MisuseError(f"frame too large: {len(frame)} bytes, the limit is {FRAME_BYTES_MAX}")
        if not self._closing:
            self.other._take(frame)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._look_soon()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self.other._end(CLOSED)
            self._loop.call_soon(self._tell, CLOSED)

    def abort(self) -> None:
        if not self._told:
            self._closing = True
            self.other._frames.clear()
            self.other._end(CLOSED)
            self._loop.call_soon(self._tell, CLOSED)

    # What the other end does ---------------------------------------------------------------------

    def _take(self, frame: bytes) -> None:
        if self._closing:
            return
        self._frames.append(frame)
        self._waiting_bytes += len(frame)
        if self._waiting_bytes > _WAITING_BYTES_MAX and not self._full:
            self._full = True
            self._loop.call_soon(self._tell_writable)
        self._look_soon()

    def _end(self, reason: str) -> None:
        self._ended = self._ended or reason
        self._look_soon()

    # Handing on ----------------------------------------------------------------------------------

    def _look_soon(self) -> None:
        if not self._due:
            self._due = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._due = False
        end_s = SLICES.end_s(monotonic())
        while self._frames and not self._paused and not self._closing:
            frame = self._frames.popleft()
            self._waiting_bytes -= len(frame)
            self.heard_s = monotonic()
            self.receiver.on_frame(frame)
            if self._frames and monotonic() >= end_s:
                self._due = True
                SLICES.go_on_later(self, monotonic(), self._look)
                break
        if self._full and self._waiting_bytes <= _WAITING_BYTES_MAX // 2:
            self._full = False
            self._loop.call_soon(self._tell_writable)
        if self._ended and (not self._frames or self._closing):
            self._closing = True
            self._tell(self._ended)

    def _tell_writable(self) -> None:
        """The other end learns whether we take more."""
        if not self.other._told and not self.other._closing:
            self.other.receiver.on_writable(not self._full)

    def _tell(self, reason: str) -> None:
        if not self._told:
            self._told = True
            self._frames.clear()
            self.receiver.on_closed(reason)


def joined(far: str, accept: Accept, near: Accept, vouched: Principal | None = None) -> MemoryWire:
    """Connect two ends: the wire of who dials.

    Who accepts is told where the other is, for people, and who it is, if that is known already.
    """
    wires = MemoryWire(far, vouched), MemoryWire("here", None)
    wires[0].other, wires[1].other = wires[1], wires[0]
    wires[0].receiver = accept(wires[0])
    wires[1].receiver = near(wires[1])
    return wires[1]
