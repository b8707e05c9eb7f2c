"""A client of MQTT at its broker: its session and its seat, with or without a connection.

While it is connected, what stands in the queue of its seat is delivered as fast as it acknowledges. Without a
connection the queue waits in memory; where the broker stores events the seat is given up, so that the broker keeps them
as it does for any client that is away.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Protocol

from holdfast.language.parser import parse
from holdfast.model.errors import MisuseError
from holdfast.model.messages import Publication
from holdfast.mqtt.connection import Connection, Done, Effect
from holdfast.mqtt.events import publish_of, topic_of
from holdfast.mqtt.notes import Notes
from holdfast.mqtt.replays import Round
from holdfast.mqtt.retained import Retained, Search
from holdfast.mqtt.session import NO_TOKEN, MqttSession, MqttSubscription
from holdfast.net.clock import Clock
from holdfast.net.departures import Departures
from holdfast.net.mqtt_past import PastOf, Replay
from holdfast.net.mqtt_trust import Guest
from holdfast.net.seat import Matched, Seat
from holdfast.net.slices import SLICES
from holdfast.net.subscription import QUEUE_MAX
from holdfast.trust.identity import ANONYMOUS, Principal

_AT_ONCE_MAX = 64  # events whose notes are written together, which takes a few milliseconds
_REPEATS_MAX = 2 * QUEUE_MAX  # that are recognised: what is new and waits is in the queue, or stored by the broker


class ClientLine(Protocol):
    """Where a client's connection is written to."""

    machine: Connection
    guest: Guest | None  # who it is, once it was let in

    def perform(self, effects: list[Effect]) -> None: ...
    async def drained(self) -> None: ...
    def end(self, reason: int, why: str) -> None: ...


class ClientPlace:
    def __init__(
        self,
        session: MqttSession,
        new_seat: Callable[[Principal], Seat],
        clock: Clock,
        topic: str,
        write: Callable[[Notes], Awaitable[None]],
        shared_max: int,
        departures: Departures,
    ) -> None:
        self.session = session
        self.identity: Principal = ANONYMOUS  # of whoever has sat here last in this process
        self.seat: Seat | None = None
        self.line: ClientLine | None = None
        self._new_seat = new_seat
        self._clock = clock
        self._topic = topic
        self._write = write  # notes, until they are safe
        self._departures = departures
        self._shared_max = shared_max  # events of a group that the client has and has not acknowledged
        self._token = 0  # of the last event taken from the queue
        self._done_to = 0  # all up to here are done with,
        self._done: set[int] = set()  # and these
        self._replays: deque[Replay] = deque()
        self._found: Round | None = None  # whose retained events were all found, and some still wait in `_replays`
        self._searches: dict[str, tuple[MqttSubscription, Search, Round]] = {}  # for retained events, by subscription
        self._repeats: dict[tuple[str, str, int], None] = {}  # found again after a crash: filter, source and number
        self._past = PastOf(self._clock.now_us, topic)
        self._pumping: asyncio.Task[None] | None = None
        self._stirred = asyncio.Event()  # there may be something to deliver, or room for it

    # Coming and going ----------------------------------------------------------------------------

    async def sit(self, identity: Principal, afresh: bool) -> None:
        """Take a seat, and want again what the session wants; afresh, nothing that the broker may have kept."""
        self.identity = identity
        if self.seat is not None:
            await self._join_groups(self.seat)
            return
        await self._departures.end(self.session.name)
        seat = self._new_seat(identity)
        seat.on_put = self._stirred.set
        await seat.__aenter__()
        if afresh and seat.is_durable:
            await seat.forget()
        self.seat = seat
        self._token = self._done_to = 0
        self._done.clear()
        self.session.begin_tokens()
        for id_, wanted in self.session.subscriptions.items():
            seat.want(id_, wanted.condition, wanted.group, self._shared_max)
        seat.begin()
        await seat.told()

    async def _join_groups(self, seat: Seat) -> None:
        for id_, wanted in self.session.subscriptions.items():
            if wanted.group:
                seat.want(id_, wanted.condition, wanted.group, self._shared_max)
        await seat.told()

    async def _leave_groups(self, lasts: bool) -> None:
        """Other members get what this one has not acknowledged; where its session lasts, it joins again."""
        shared = [id_ for id_, wanted in self.session.subscriptions.items() if wanted.group]
        if shared and self.seat is not None:
            for id_ in shared:
                self.seat.unwant(id_, lasts)
            self.on_done(self.session.forget_shared())
            await self.seat.told()

    def search_again(self, retained: Retained) -> None:
        """The broker was killed before the client had all that was retained for its subscriptions."""
        for name, round_ in self.session.rounds.items():
            wanted = self.session.subscriptions[name]
            self._searches[name] = wanted, retained.search(wanted.topic_filter), round_

    def start(self) -> None:
        """The client knows that it is connected."""
        assert self.line is not None and self.seat is not None
        self._pumping = asyncio.create_task(self._pump(self.line))

    async def detach(self) -> None:
        """The connection is gone, and the session stays."""
        self._stop_pumping()
        if self.seat is not None:
            with suppress(MisuseError):
                await self.seat.all_stored()  # what the broker does not have by now, it never gets over this connection
            if self.seat is None:  # the broker has stopped meanwhile
                return
        self.session.left_us = self._clock.now_us()
        self.session.note_session()
        await self.safe()
        await self._leave_groups(lasts=True)
        if self.seat is not None and self.seat.is_durable:
            seat, self.seat = self.seat, None
            await seat.leave(for_good=False)

    async def forget(self) -> None:
        """The session is over."""
        self._stop_pumping()
        if self.seat is None:  # the broker keeps something for it
            await self.sit(self.identity, afresh=True)
        await self._leave_groups(lasts=False)
        assert self.seat is not None
        seat, self.seat = self.seat, None
        if seat.lingers:
            self._departures.begin(seat)
        else:
            await seat.leave(for_good=True)
        self.session.note_end()
        await self.safe()

    async def close(self) -> None:
        """The broker stops: sessions that last are kept by its store, if it has one."""
        self._stop_pumping()
        seat, self.seat = self.seat, None
        if seat is not None:
            await seat.leave(for_good=not self.session.expiry_s)

    def _stop_pumping(self) -> None:
        self.line = None
        self._replays = deque([each for each in self._replays if each[3].lasts])
        self._past.stop()
        if self._pumping is not None:
            self._pumping.cancel()
            self._pumping = None

    # Subscribing ---------------------------------------------------------------------------------

    async def want(self, wanted: Sequence[MqttSubscription], retained: Retained) -> None:
        """Subscribe; retained events follow as each subscription asks for them."""
        seat, known = self.seat, self.session.subscriptions
        assert seat is not None
        searches: list[MqttSubscription] = []
        pasts: list[MqttSubscription] = []
        for each in wanted:
            id_ = each.asked.filter
            before = known.get(id_)
            if before is None or before.condition != each.condition:
                if before is not None:
                    seat.unwant(id_)
                seat.want(id_, each.condition, each.group, self._shared_max)
            known[id_] = each
            retains = each.asked.retain_handling
            if not each.group and (retains == 0 or (retains == 1 and before is None)):
                if each.past is None:
                    self.session.begin_round(id_, self._clock.now_us())
                    searches.append(each)
                else:
                    pasts.append(each)
        self.session.note_session()
        await self.safe()
        await seat.told()
        for each in searches:
            name = each.asked.filter
            self._searches.pop(name, None)  # who asks again and again does not get all of them
            self._searches[name] = each, retained.search(each.topic_filter), self.session.rounds[name]
        await self._past.ask(pasts, seat, self._stirred.set)

    def replay(self) -> None:
        """The client knows that it has subscribed."""
        self._past.let_go()
        self._stirred.set()

    def _look_for_replays(self, line: ClientLine) -> list[Effect]:
        """Find more of them, if there are none; what the client is to be told meanwhile."""
        released: list[Effect] = []
        if not self._replays:
            if self._found is not None:
                round_, self._found = self._found, None
                released = line.machine.on_given_up(self.session.on_read(round_))
            self._replays += self._past.take() or self._find()
        return released

    def _find(self) -> list[Replay]:
        """Retained events, of the first subscription that is to begin with them."""
        if not self._searches:
            return []
        name, (wanted, search, round_) = next(iter(self._searches.items()))
        found = search.look(self._clock.now_us())
        if search.is_over:
            del self._searches[name]
            self._found = round_
        holds = parse(wanted.condition).matches if found else None
        return [
            (topic, each, wanted, round_)
            for topic, each in found
            if holds is not None and holds(each.attributes) and not (round_.is_resumed and self._had(each, name))
        ]

    def _had(self, event: Publication, name: str) -> bool:
        """Whether it came as a new event after all; if not, it need not come once more."""
        if self.session.has_had((event.source, event.seq)):
            return True
        self._repeats[name, event.source, event.seq] = None
        if len(self._repeats) > _REPEATS_MAX:
            del self._repeats[next(iter(self._repeats))]
        return False

    def unwant(self, names: tuple[str, ...]) -> None:
        for each in names:
            self._searches.pop(each, None)
            self.session.end_round(each)
            if self.session.subscriptions.pop(each, None) is not None and self.seat is not None:
                self.seat.unwant(each)
        self.session.note_session()

    async def safe(self) -> None:
        """Until all notes of the session are."""
        await self._write(self.session.notes())

    # Delivering ----------------------------------------------------------------------------------

    def on_done(self, tokens: Iterable[int]) -> None:
        """The client has these events."""
        self._done.update(each for each in tokens if each > self._done_to)
        before = self._done_to
        while self._done_to + 1 in self._done:
            self._done_to += 1
            self._done.remove(self._done_to)
        if self._done_to > before and self.seat is not None:
            self.seat.finish(self._done_to - before)
        self._stirred.set()

    async def _pump(self, line: ClientLine) -> None:
        assert self.seat is not None
        seat, queue = self.seat, self.seat.queue
        end_s = SLICES.end_s(monotonic())
        while True:
            if released := self._look_for_replays(line):
                await self._send(line, released)
            if line.machine.has_room and self._replays:
                await self._send(line, self._replay(line))
            elif not line.machine.has_room or not (self._is_searching or (queue and not self._past.is_reading)):
                self._stirred.clear()
                await self._stirred.wait()
                end_s = SLICES.end_s(monotonic())
            elif not self._is_searching:
                await self._send(line, self._deliveries(seat, line))
            await line.drained()
            if monotonic() >= end_s:  # a client that reads as fast as we write never lets us wait
                await SLICES.deliver_on()
                end_s = SLICES.end_s(monotonic())

    @property
    def _is_searching(self) -> bool:
        return bool(self._searches) or self._found is not None

    def _replay(self, line: ClientLine) -> list[Effect]:
        topic, event, wanted, round_ = self._replays.popleft()
        packet, key = publish_of(event, topic, self._clock.now_us()), round_.key(event.source, event.seq)
        return line.machine.deliver(packet, [wanted], NO_TOKEN, key, round_ if round_.lasts else None)

    def lose(self, why: str) -> None:
        """The client does not get an event; it has no other way to learn of it than whoever runs the broker."""
        if self.seat is not None:
            self.seat.on_loss(why)

    async def _send(self, line: ClientLine, effects: list[Effect]) -> None:
        await self.safe()
        line.perform(effects)

    def _deliveries(self, seat: Seat, line: ClientLine) -> list[Effect]:
        """As many as the client takes now: their notes are written together."""
        effects: list[Effect] = []
        for _ in range(_AT_ONCE_MAX):
            if not seat.queue or not line.machine.has_room:
                break
            effects += self._delivery(seat.take(), line)
        return effects

    def _delivery(self, one: Matched, line: ClientLine) -> list[Effect]:
        event = one.publication
        self._token += 1
        now_us = self._clock.now_us()
        if event.lifetime_us is not None and event.expired(now_us):
            return [Done((self._token,))]
        topic = topic_of(event, self._topic)
        wanted = self.session.chosen(one.subscriptions, topic, event.source == self.session.name)
        wanted = self._past.without_repeats(event, wanted)
        packet = publish_of(event, topic, now_us)
        source = f"{event.source} {one.shared} {self._token}" if one.shared else event.source  # others may have it too
        return line.machine.deliver(packet, wanted, self._token, (source, event.seq))
