"""The sending side of a link: what waits for a neighbour, and what an injected fault does to it.

A link of a client with a session (`stream`) outlives its connection: without one it only collects, and goes on where it
was when there is another. Whoever loses events because it takes them too slowly is told so in their place.

A live run on one machine can show what a wide-area run would: with an impairment, each message is lost, delayed or
doubled as the network file says before it goes to the outbox.
"""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from holdfast.model.errors import InputError, PeerError
from holdfast.model.limits import FRAME_BYTES_MAX
from holdfast.model.messages import Batch, NodeKind, Publish
from holdfast.net.clock import Clock
from holdfast.net.counters import Counters
from holdfast.net.outbox import BYTES_MAX, Outbox
from holdfast.net.stream import WINDOW_BYTES, SessionStream
from holdfast.net.wire import Wire
from holdfast.wire.codec import FRAME_BYTES, MESSAGES, decode_frame_untrusted, is_event
from holdfast.wire.signals import LEVEL, STATEMENTS, Mark, Missed, encode_signal

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
        stream: SessionStream | None = None,
        pushes_back: bool = False,
        has_session: bool = False,
        level: int = 0,
        repairs: bool = False,
    ) -> None:
        self.name = name
        self.level = level  # of the messages that the far end knows
        self.repairs = repairs  # both ends number what they send, and name what they cannot repair
        self.stream = stream  # None: the link ends with its wire
        self.queue_bytes = bytes_max
        self.pushes_back = pushes_back  # when more than this waits, others are held up before anything is dropped
        self.replaces = replaces  # the far end is the replica of this broker
        self.kind = kind
        self.wire = wire
        self.reliable = wire.reliable  # which every wire of a link is, or none
        self.outbox = Outbox(wire.frame_aim, wire.frame_max, counters, bytes_max)
        self.writable = True  # the wire takes more, and the window of the stream is open
        self.wire_writable = True
        self.ended = False
        self.lossless = False  # at the far end, or behind it, is somebody who is to lose nothing
        self.asked_to_wait = False  # as our own neighbour, for such a one
        self.waited_for = pushes_back  # not while it is away, or has taken nothing for too long
        self.dirty = False  # waits for the next flush
        self.skew_us = 0  # how far the clock of the far end is ahead of ours
        self.sent = self.received = self.lost = self.repairs_sent = 0  # messages: in all, by injected faults, again
        self._pushed_back = self._slowed = False
        self._clock = clock
        self._counters = counters
        self.impairment = impairment
        self._lossy_control = lossy_control
        self._delayed: list[tuple[int, int, bytes]] = []
        self._order = 0
        self._timer: asyncio.TimerHandle | None = None
        self._progress_us = 0  # when it last took something, while it has no room
        self._backlog_since_us: int | None = None  # since when not everything has left at once
        self._missed_events = self._missed_since_us = self._missed_until_us = 0  # dropped and not told
        self._waiters: list[asyncio.Future[None]] = []  # for room
        if has_session:
            self.outbox.on_dropped = self._on_dropped
        self._set_limit()

    def _set_limit(self) -> None:
        # Who is waited for has room for the frame that is being handled when the others are held up.
        self.outbox.bytes_max = self.queue_bytes + (FRAME_BYTES_MAX if self.waited_for else 0)

    @property
    def waiting(self) -> int:
        return len(self.outbox) + len(self._delayed)

    @property
    def accepts_batches(self) -> bool:
        """Not where events can be lost, because each is to have a fate of its own."""
        return self.wire.reliable and self.impairment is None

    @property
    def takes_statements(self) -> bool:
        """Whether a batch may state that it is all: nothing is lost here, and the far end knows what that means."""
        return self.accepts_batches and self.level >= STATEMENTS

    @property
    def hears_outages(self) -> bool:
        """Whether the far end knows of outages that last, and of brokers that are reached."""
        return self.level >= LEVEL

    @property
    def held_up(self) -> bool:
        """Whether we do not read from it for now."""
        return self._pushed_back or self._slowed

    def hold_up(self, held_up: bool) -> None:
        """To push back."""
        self._pushed_back = held_up
        self._pause_or_resume()

    def slow_down(self, wire: Wire, slowed: bool) -> None:
        """Because it has spent its budget on this wire."""
        if wire is self.wire and not self.ended:
            self._slowed = slowed
            self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        if self.held_up:
            self.wire.pause()
        else:
            self.wire.resume()

    def check_fits(self, size: int) -> None:
        """An InputError for an event of so many bytes that no datagram can hold it on its way."""
        most = self.wire.frame_max - _ADDED_BYTES
        if size > most:
            raise InputError(f"event too large: {size} bytes; the limit over UDP is {most}")

    def send(self, frame: bytes) -> None:
        """Hand a frame over to the wire, and keep it until it is acknowledged."""
        self.wire.send(frame)
        stream = self.stream
        if stream is not None:
            stream.keep(frame)
            if stream.kept_bytes >= WINDOW_BYTES:
                self._update_writable()

    def flush(self) -> None:
        """Hand over frames as long as the wire takes them."""
        self.dirty = False
        outbox = self.outbox
        while self.writable:
            if self._missed_events:
                self._report_missed()
            frame = outbox.next_frame() if outbox.waiting_bytes else None
            if frame is None:
                self._backlog_since_us = None
                return
            self.send(frame)

    def mark(self) -> None:
        """Tell a client up to when it has everything that came for it, if that is now."""
        if self.stream is not None and self.writable and self._backlog_since_us is None and not len(self.outbox):
            self.wire.send(encode_signal(Mark(self._clock.now_us())))

    # Room ----------------------------------------------------------------------------------------

    @property
    def blocked_s(self) -> float:
        """For how long it has not taken anything."""
        return 0.0 if self.writable else (self._clock.now_us() - self._progress_us) / 1e6

    def set_writable(self, writable: bool) -> None:
        """The wire takes more, or has enough."""
        self.wire_writable = writable
        self._update_writable()

    def on_ack(self, received: int) -> None:
        if self.stream is None:
            raise PeerError("unexpected acknowledgement")
        self.stream.on_ack(received)
        if not self.writable:
            self._progress_us = self._clock.now_us()
            self._update_writable()

    def _update_writable(self) -> None:
        writable = self.wire_writable and (self.stream is None or self.stream.has_window)
        if self.writable and not writable:
            self._progress_us = self._clock.now_us()
            self._backlog_since_us = self._backlog_since_us or self._progress_us
        gained, self.writable = writable and not self.writable, writable
        if gained:
            if self.pushes_back and not self.waited_for:
                self.waited_for = True
                self._set_limit()
            self.flush()
            self._wake()

    def push_back(self) -> None:
        """From now on hold others up rather than drop its events."""
        self.lossless = self.pushes_back = self.waited_for = True
        self._set_limit()

    def stop_waiting(self) -> None:
        """Hold nobody up for it any more until it takes something: from now on its oldest events are dropped."""
        self.waited_for = False
        self._set_limit()

    def _on_dropped(self, events: int) -> None:
        self._missed_until_us = self._clock.now_us()
        if not self._missed_events:
            self._missed_since_us = self._backlog_since_us or self._missed_until_us
        self._missed_events += events

    def _report_missed(self) -> None:
        missed = Missed(self._missed_events, self._missed_since_us, self._missed_until_us)
        self._missed_events = 0
        self.send(encode_signal(missed))

    # One connection after another ----------------------------------------------------------------

    def disconnect(self) -> None:
        """The wire is gone, and the session goes on without one; what may wait is no less than before."""
        self.set_writable(False)
        self.waited_for = False

    def connect(self, wire: Wire, received: int) -> None:
        """There is another wire, and the far end has so many frames; nothing is sent before `go_on`."""
        assert self.stream is not None
        self.stream.on_ack(received)
        self.wire = wire
        self._slowed = False

    def go_on(self) -> None:
        """Send again what the far end lacks, and then what waits."""
        assert self.stream is not None
        for frame in self.stream.kept:
            self.wire.send(frame)
        self._pause_or_resume()
        self.set_writable(True)

    def end_session(self) -> None:
        """The link ends with this wire: nothing has to be kept, so no window is in the way of what waits."""
        self.stream = None
        self._update_writable()

    def unacknowledged(self) -> list[Publish | Batch]:
        """Take out the publications that the far end may not have: for another one, as this one has no use for them."""
        if self.ended:
            self._counters.unsent -= self.outbox.messages
        frames = [] if self.stream is None else [each for each in self.stream.kept if each[1] == MESSAGES]
        while (frame := self.outbox.next_frame()) is not None:
            frames.append(frame)
        messages = (each for frame in frames for each in decode_frame_untrusted(frame))
        # A statement alone is about events that were acknowledged here, and that another broker does not have.
        return [each for each in messages if isinstance(each, Publish) or (isinstance(each, Batch) and each.seqs)]

    async def drained(self, bytes_max: int) -> None:
        """Wait until no more than this waits, or the wire is gone."""
        while self.outbox.waiting_bytes > bytes_max and not self.ended:
            if self.writable:
                await asyncio.sleep(0)  # it will be written when the loop turns
            else:
                await self.room()

    async def room(self) -> None:
        """Wait until the wire takes more, or the link is gone."""
        while not self.writable and not self.ended:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def end(self) -> None:
        """The link is gone: what still waits is counted as unsent."""
        if self.ended:
            return
        self.ended = True
        self._wake()
        if self._timer is not None:
            self._timer.cancel()
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
