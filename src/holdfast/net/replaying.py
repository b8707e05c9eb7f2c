"""A subscription that begins with what its broker has kept: who asks for it, and the queue that it goes into.

The past is asked for part by part, no faster than the application reads. What comes live meanwhile is held back
(`protocol.replay`). When the broker or its history is another one than before, reading begins anew, and what was handed
out already is left out. What the broker keeps no longer, or refuses, is told in `losses`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import count

from holdfast.model.errors import HoldfastError, InputError, MisuseError, PeerError, TransportError
from holdfast.model.messages import Deliver, Publication
from holdfast.model.warn_once import warn_once
from holdfast.net.losses import Growing
from holdfast.net.subscription import Delivery, Inbox, WhenFull
from holdfast.protocol.effects import Lost
from holdfast.protocol.parts import WHY_UNVERIFIED
from holdfast.protocol.replay import Replay
from holdfast.protocol.settings import ProtocolSettings
from holdfast.wire.codec import decode_frame_untrusted
from holdfast.wire.signals import AskPast, Past

LAST_MAX = 1_000_000  # a broker goes back through as many; the same for clients of MQTT
_PART_MAX = 1_000  # events asked for at once
_ANSWER_S = 30.0  # a broker whose disk does not answer for so long is asked again
_UNKNOWN = -1  # where the history ends
_OTHER = "while {} read its broker's history that was replaced by another, which need not have the same"
_GONE = "the broker keeps no longer what {} had still to read of its history"

Queue = tuple[int, WhenFull, Callable[[Inbox], None], Callable[[], Growing]]  # how long it may be, and what then
Since = datetime | timedelta | float | None  # a moment, or how long ago


def checked_start(last: int | None, since: Since, now_us: int, is_durable: bool) -> tuple[int, int] | None:
    """With how many of the last events a subscription begins (0: all), and since when; None: with the next one.

    An InputError or MisuseError when it cannot be.
    """
    if last is None and since is None:
        return None
    if is_durable:
        raise MisuseError("last and since are not for durable clients, whose broker keeps what they have not read")
    if last is not None and (isinstance(last, bool) or not isinstance(last, int) or not 1 <= last <= LAST_MAX):
        raise InputError(f"last is {last!r}; it must be a whole number of events from 1 to {LAST_MAX:,}")
    if isinstance(since, datetime):
        moment = since if since.tzinfo is not None else since.astimezone()
        return last or 0, max(0, int((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)))
    ago_s = since.total_seconds() if isinstance(since, timedelta) else since
    if ago_s is None:
        return last or 0, 0
    if isinstance(ago_s, bool) or not isinstance(ago_s, int | float) or not 0 <= ago_s < float("inf"):
        raise InputError(f"since is {since!r}; it must be a moment (datetime), or how many seconds ago")
    return last or 0, max(0, now_us - int(ago_s * 1e6))


class PastRefusedError(HoldfastError):
    """A broker keeps no history for a condition."""


class ReplayInbox(Inbox):
    """The queue of a subscription that begins in the past."""

    def __init__(
        self,
        queue_max: int,
        when_full: WhenFull,
        on_level: Callable[[Inbox], None],
        on_overflow: Callable[[], Growing],
        settings: ProtocolSettings,
        on_lost: Callable[[Delivery, str], None],
        is_ordered: Callable[[Delivery], bool] | None,
    ) -> None:
        super().__init__(queue_max, when_full, on_level, on_overflow)
        self.replay: Replay[Delivery] = Replay(settings, queue_max, on_lost, is_ordered)
        self.most = queue_max
        self._room = asyncio.Event()

    def put(self, delivery: Delivery) -> None:
        for each in self.replay.on_live((delivery,)):
            super().put(each)

    def put_all(self, deliveries: list[Delivery]) -> None:
        if new := self.replay.on_live(deliveries):
            self.hand_out(new)

    def hand_out(self, deliveries: list[Delivery]) -> None:
        if len(self._items) + len(deliveries) > self._cap:
            for each in deliveries:
                super().put(each)
        else:
            super().put_all(deliveries)

    def take(self, count: int) -> list[Delivery]:
        self._room.set()
        return super().take(count)

    def take_one(self) -> Delivery:
        self._room.set()
        return super().take_one()

    def close(self) -> None:
        super().close()
        self._room.set()

    @property
    def held(self) -> int:
        return self.replay.held

    @property
    def is_replaying(self) -> bool:
        return not (self.replay.is_live or self.closed)

    async def hand_out_slowly(self, deliveries: list[Delivery]) -> None:
        """As there is room for them, however many they are."""
        for at in range(0, len(deliveries), self.most):
            some = deliveries[at : at + self.most]
            await self.room(some.__len__)
            self.hand_out(some)

    async def room(self, events: Callable[[], int]) -> None:
        """Until so many more have room, or all have been read."""
        while self._items and len(self._items) + events() > self._max and not self.closed:
            self._room.clear()
            await self._room.wait()


class PastReader:
    """Reads a broker's history into the queues of a client's subscriptions."""

    def __init__(
        self,
        ask: Callable[[AskPast], Awaitable[Past]],
        now_us: Callable[[], int],
        on_lost: Callable[[Lost, int], None],
        opened: Callable[[Publication], Publication | None],
    ) -> None:
        self._opened = opened  # an event of the history without its proof; None when that is wrong
        self._ask = ask  # a broker; a TransportError when the connection breaks
        self._now_us = now_us
        self._on_lost = on_lost
        self._tokens = count(1)
        self._turn = asyncio.Lock()  # a broker answers one question of a client at a time
        self._tasks: set[asyncio.Task[None]] = set()

    def inbox(self, queue: Queue, settings: ProtocolSettings, name: str, keeps_order: bool) -> ReplayInbox:
        """For a subscription of the client of this name, whose live events come in their publishers' order, or not."""

        def lose(event: Delivery, reason: str) -> None:
            self._on_lost(Lost(event.source, event.seq, event.seq, reason), self._now_us())

        def is_ordered(event: Delivery) -> bool:
            return event.publication.record is not None and event.source != name

        return ReplayInbox(*queue, settings, lose, is_ordered if keeps_order else None)

    def begin(self, condition: str, inbox: Inbox, start: tuple[int, int] | None) -> None:
        """Read into the queue of a subscription, if that begins in the past."""
        if start is not None and isinstance(inbox, ReplayInbox):
            reading = asyncio.create_task(self._read(condition, inbox, *start))
            self._tasks.add(reading)
            reading.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for each in self._tasks:
            each.cancel()

    async def _read(self, condition: str, inbox: ReplayInbox, last: int, since_us: int) -> None:
        """All of it, then what was held back."""
        replay, log, lo, end = inbox.replay, "", 0, _UNKNOWN
        again = _UNKNOWN  # from where on there are events that were to come live first
        part = min(_PART_MAX, inbox.most)
        while not inbox.closed:
            await inbox.room(lambda: part)
            if end == _UNKNOWN:
                replay.on_end_asked()
                lo, again = lo if again == _UNKNOWN else again, _UNKNOWN
            # The last so many as of the beginning are as many more now as have come since.
            start = min(last + replay.came, LAST_MAX) if last else 0, since_us
            try:
                past, events = await self._part(condition, start, (log, lo), part, end == _UNKNOWN)
            except (TransportError, TimeoutError):  # what came live meanwhile may be lost, and is in the history
                end = _UNKNOWN
                continue
            if past.refused:
                warn_once(f"no history for {condition}: {past.refused}")
                self._lose(f"no history for {condition}: {past.refused}", since_us)
                return inbox.hand_out(replay.give_up())
            if past.gone:
                self._lose(_GONE.format(condition), since_us, past.gone)
            if log and past.log != log:  # it need not have what the former one had, and what was let go for its sake
                self._lose(_OTHER.format(condition), since_us)
            await inbox.hand_out_slowly(replay.on_past(events, is_first=past.log != log))
            if replay.skipped and again == _UNKNOWN:
                again = lo
            log, lo, end = past.log, past.next, past.end if end == _UNKNOWN else end
            while lo >= end > _UNKNOWN:
                await inbox.room(lambda: min(replay.held, inbox.most))
                followed = replay.on_end_reached(inbox.most)
                if followed is None:
                    end = _UNKNOWN
                elif replay.is_live:
                    return inbox.hand_out(followed)
                else:
                    await inbox.hand_out_slowly(followed)

    async def read(self, condition: str, start: tuple[int, int]) -> AsyncIterator[list[Delivery]]:
        """What the broker has when it is asked, part by part; a PastRefusedError when it keeps none.

        For whoever holds back by itself what comes live meanwhile, and knows what it had before.
        """
        log, lo, end = "", 0, _UNKNOWN
        while end == _UNKNOWN or lo < end:
            try:
                past, events = await self._part(condition, start, (log, lo), _PART_MAX, end == _UNKNOWN)
            except TimeoutError:
                continue
            if past.refused:
                raise PastRefusedError(past.refused)
            if past.gone:
                self._lose(_GONE.format(condition), start[1], past.gone)
            log, lo, end = past.log, past.next, past.end if end == _UNKNOWN else end
            yield events

    def _lose(self, reason: str, since_us: int, events: int = 0) -> None:
        now_us = self._now_us()
        self._on_lost(Lost("", 0, 0, reason, since_us, now_us, events), now_us)

    async def _part(
        self, condition: str, start: tuple[int, int], at: tuple[str, int], most: int, ends: bool
    ) -> tuple[Past, list[Delivery]]:
        """The broker's answer, and the events in it; a TransportError or TimeoutError when there is none."""
        (last, since_us), (log, lo) = start, at
        async with self._turn, asyncio.timeout(_ANSWER_S):
            past = await self._ask(AskPast(next(self._tokens), condition, since_us, last, log, lo, most, ends=ends))
        try:
            return past, self._deliveries(past)
        except PeerError as problem:
            return Past(past.token, refused=f"the broker's answer cannot be read: {problem}"), []

    def _deliveries(self, past: Past) -> list[Delivery]:
        messages = decode_frame_untrusted(past.frame) if past.frame else []
        now_us = self._now_us()
        found: list[Delivery] = []
        for each in messages:
            if isinstance(each, Deliver):
                opened = self._opened(each.publication)
                if opened is None:
                    came = each.publication
                    self._on_lost(Lost(came.source, came.seq, came.seq, WHY_UNVERIFIED), now_us)
                else:
                    found.append(Delivery(opened, each.via, now_us))
        return found
