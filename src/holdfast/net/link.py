"""The sending side of a connection: what waits for a neighbour, and what an injected fault does to it.

A live run on one machine can show what a wide-area run would: with an impairment, each message is lost, delayed or
doubled as the network file says before it goes to the outbox.
"""

import asyncio
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Protocol

from holdfast.model.errors import InputError
from holdfast.model.messages import NodeKind, Scalar
from holdfast.net.clock import Clock
from holdfast.net.counters import Counters
from holdfast.net.outbox import BYTES_MAX, Outbox
from holdfast.net.wires import Wire
from holdfast.wire.codec import FRAME_BYTES, encode_message, is_event

_ADDED_BYTES = 5_000  # what brokers and recovery may add to an event: names, numbers in 500 classes, earlier ones
_DELAYED_MAX = 100_000  # messages on an injected delay: a second at 100,000 a second


class Impairment(Protocol):
    """One direction of a link that loses and delays; the simulator's links are such."""

    def arrivals_us(self, size: int, now_us: int, may_be_lost: bool) -> tuple[int, ...]: ...


class Link:
    def __init__(
        self,
        name: str,
        kind: NodeKind,
        wire: Wire,
        clock: Clock,
        counters: Counters,
        bytes_max: int = BYTES_MAX,
        impairment: Impairment | None = None,
        lossy_control: bool = True,
        replaces: str | None = None,
    ) -> None:
        self.name = name
        self.replaces = replaces  # the far end is the replica of this broker
        self.kind = kind
        self.wire = wire
        self.outbox = Outbox(wire.frame_aim, wire.frame_max, counters, bytes_max)
        self.room = True
        self.ended = False
        self.dirty = False  # waits for the next flush
        self.held_up = False  # we do not read from it for now, to push back
        self._clock = clock
        self._counters = counters
        self.impairment = impairment
        self._lossy_control = lossy_control
        self._delayed: list[tuple[int, int, bytes]] = []
        self._order = 0
        self._timer: asyncio.TimerHandle | None = None
        self._blocked_since_s = 0.0
        self._waiters: list[asyncio.Future[None]] = []  # for room

    @property
    def waiting(self) -> int:
        return len(self.outbox) + len(self._delayed)

    @property
    def takes_runs(self) -> bool:
        """Not where events can be lost, because each is to have a fate of its own."""
        return self.wire.reliable and self.impairment is None

    def hold_up(self, held_up: bool) -> None:
        self.held_up = held_up
        if held_up:
            self.wire.pause()
        else:
            self.wire.resume()

    def check_fits(self, attributes: Mapping[str, Scalar], payload: bytes) -> None:
        """An InputError for an event that no datagram can hold on its way; for wires that send such."""
        size, most = len(encode_message(attributes)) + len(payload), self.wire.frame_max - _ADDED_BYTES
        if size > most:
            raise InputError(f"an event of {size} bytes; over UDP it may have {most}, over TCP a payload of 2**20")

    def flush(self) -> None:
        """Hand over frames as long as the wire takes them."""
        self.dirty = False
        outbox, wire = self.outbox, self.wire
        while self.room:
            frame = outbox.next_frame()
            if frame is None:
                return
            wire.send(frame)

    @property
    def blocked_s(self) -> float:
        """For how long the wire has not taken anything."""
        return 0.0 if self.room else asyncio.get_running_loop().time() - self._blocked_since_s

    def set_room(self, room: bool) -> None:
        if self.room and not room:
            self._blocked_since_s = asyncio.get_running_loop().time()
        self.room = room
        if room:
            self.flush()
            self._wake()

    async def drained(self, bytes_max: int) -> None:
        """Wait until no more than this waits, or the wire is gone."""
        while self.outbox.waiting_bytes > bytes_max and not self.ended:
            if self.room:
                await asyncio.sleep(0)  # it will be written when the loop turns
            else:
                waiter = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
                await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def end(self) -> None:
        """The wire is gone: what still waits is counted as unsent."""
        self.ended = True
        self._wake()
        if self._timer is not None:
            self._timer.cancel()
        self.outbox.end_run()
        self._counters.unsent += self.outbox.messages + len(self._delayed)
        self._delayed.clear()

    # Injected faults -----------------------------------------------------------------------------

    def may_lose(self, encoded: bytes) -> bool:
        """Whether the impairment is free to lose this message."""
        return self._lossy_control or is_event(encoded)

    def impair(self, encoded: bytes, later: Callable[["Link"], None]) -> bool:
        """Let the impairment decide; False when the message is lost. `later` is called when it reaches the outbox."""
        assert self.impairment is not None
        now_us = self._clock.now_us()
        arrivals = self.impairment.arrivals_us(len(encoded) + FRAME_BYTES, now_us, self.may_lose(encoded))
        if not arrivals or len(self._delayed) >= _DELAYED_MAX:
            return False
        for arrives_us in arrivals:
            self._order += 1
            heappush(self._delayed, (arrives_us, self._order, encoded))
        self._arm(now_us, later)
        return True

    def _arm(self, now_us: int, later: Callable[["Link"], None]) -> None:
        due_us = self._delayed[0][0]
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0, due_us - now_us) / 1e6, self._release, later)

    def _release(self, later: Callable[["Link"], None]) -> None:
        self._timer = None
        now_us = self._clock.now_us()
        while self._delayed and self._delayed[0][0] <= now_us:
            self.outbox.put(heappop(self._delayed)[2])
        later(self)
        if self._delayed:
            self._arm(now_us, later)
