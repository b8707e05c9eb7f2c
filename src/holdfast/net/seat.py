"""A client that lives in its broker's process, for somebody who speaks another protocol: all subscriptions, one queue.

To the broker it is a client like any other: it says hello over a wire, its publications are acknowledged when the
broker has them, and with a store what it is to get is kept until it is done with. An event for several of its
subscriptions stands in the queue once.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from holdfast.model.messages import Publication
from holdfast.net.address import Address
from holdfast.net.client import Client
from holdfast.net.clock import Clock
from holdfast.net.durable import DurableInbox
from holdfast.net.losses import Growing
from holdfast.net.session import open_session
from holdfast.net.signing import UNSIGNED, Signing
from holdfast.net.subscription import QUEUE_MAX, Delivery, Inbox, WhenFull
from holdfast.net.tls import TlsFiles
from holdfast.net.wire import Accept, Wire
from holdfast.net.witness import NO_WITNESS, NewWitness, SeatWitness
from holdfast.protocol.effects import (
    Acknowledged,
    Begin,
    Delivered,
    DeliveredBatch,
    GroupDone,
    Incident,
    Lost,
    SubscribeCall,
    UnsubscribeCall,
)
from holdfast.protocol.hops.settings import HopSettings
from holdfast.protocol.settings import BEST_EFFORT, Guarantees, ProtocolSettings

Dial = Callable[[Address, Accept, TlsFiles | None], Awaitable[Wire]]
_HERE = Address("tcp", "this process", 0)


class Matched(Delivery, frozen=True, gc=False):
    """An event, and the subscriptions that it is for."""

    subscriptions: tuple[str, ...] = ()
    shared: str = ""  # the one of these that is shared with a group


class HeldInbox(DurableInbox):
    """A queue of a durable client whose owner says what it is done with, in the order in which it was taken."""

    def __init__(
        self, events_max: int, on_look: Callable[[bool], None], on_first: Callable[[DurableInbox], None]
    ) -> None:
        super().__init__(events_max, on_look, on_first)
        self._taken: deque[Delivery] = deque()

    def look(self) -> None:
        """Asking for the next one says nothing about those before it."""

    @property
    def undone(self) -> Delivery | None:
        first = self._taken[0] if self._taken else self._items[0] if self._items else None
        return None if isinstance(first, Matched) and first.shared else first  # a group's is none of the broker's

    def take_one(self) -> Delivery:
        one = self._items.popleft()
        self._taken.append(one)
        return one

    def finish(self, count: int) -> None:
        """So many more of those that were taken are done with."""
        for _ in range(count):
            self._taken.popleft()
        self.done += count
        self._on_look(True)


class SeatInbox(Inbox):
    """A queue in memory: when it is too long the oldest are dropped, but none that a group waits for."""

    def _drop(self, oldest: Delivery) -> None:
        if isinstance(oldest, Matched) and oldest.shared:
            self._items.appendleft(oldest)
        else:
            super()._drop(oldest)

    def forget(self, shared: str) -> None:
        """Who else shares this subscription gets what waits here."""
        self._items = deque([each for each in self._items if not (isinstance(each, Matched) and each.shared == shared)])


WhenStored = Callable[[list[Any]], None]  # the same object each time, where answers are to come together


class Seat(Client):
    def __init__(
        self,
        name: str,
        dial: Dial,
        settings: ProtocolSettings,
        clock: Clock,
        hops: HopSettings,
        publishes: str = "",  # a condition on all that it will publish, where the network routes by advertisements
        when_full: WhenFull = "drop-oldest",  # its queue, where the broker stores nothing
        guarantees: Guarantees = BEST_EFFORT,
        new_witness: NewWitness | None = None,  # of all that happens here
        signing: Signing = UNSIGNED,
    ) -> None:
        counted = new_witness is not None
        promises: dict[str, Any] = {"hops": hops, "guarantees": guarantees, "signing": signing}
        super().__init__([_HERE], name, None, settings, clock, tallied=counted, **promises)
        self._witness: SeatWitness = NO_WITNESS if new_witness is None else new_witness(self)
        self._reach = dial
        self._publishes = publishes
        self._when_full = when_full
        self.queue: Inbox
        self.on_put: Callable[[], None] = lambda: None  # something stands in the queue
        self.on_loss: Callable[[str], None] = lambda why: None  # something is lost that nobody can be told of but here
        self._shares: Counter[str] = Counter()  # of each shared subscription, events that are done with
        self._taken: deque[str] = deque()  # of what was taken and is not done with, what each was shared by, or ""
        self._to_call: deque[tuple[int, WhenStored, Any]] = deque()  # by sequence number
        self._confirming: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Seat":
        await super().__aenter__()
        if self._publishes:
            self.advertise(self._publishes)
        if self._durable is None:
            self.queue = SeatInbox(QUEUE_MAX, self._when_full, self._on_level, self._on_overflow)
        else:
            most = self._hops.handover.handed_out_max
            self.queue = self._durable.inbox_of(lambda on_look, on_first: HeldInbox(most, on_look, on_first))
        return self

    async def _dial(self, address: Address) -> None:
        await open_session(address, self, reach=self._reach)

    @property
    def is_durable(self) -> bool:
        """Whether its broker stores events."""
        return self._durable is not None

    def begin(self) -> None:
        """All that is wanted has been subscribed to: a broker that stores events may hand over what it has kept."""
        if self._durable is not None:
            self.driver.give(Begin())

    async def leave(self, for_good: bool) -> None:
        """Leave the broker, which keeps what it has for us, or forgets it."""
        self._named = not for_good
        for id_ in self._inboxes if for_good else ():
            self._witness.on_unsubscribed(id_, self._clock.now_us())
        if not for_good and self.is_durable:
            self._witness.on_left(self._clock.now_us())
        if self._confirming is not None:
            self._confirming.cancel()
        await self.close(in_haste=not (for_good and self.lingers))

    @property
    def has_begun(self) -> bool:
        return self._entered

    @property
    def is_over(self) -> bool:
        return self._closed

    @property
    def lingers(self) -> bool:
        """Whether it stays some seconds when it leaves for good, so that others can ask for its last events."""
        return self._guarantees.recovery is not None and not self.is_durable

    # Subscribing ---------------------------------------------------------------------------------

    def want(self, id_: str, condition: str, group: str = "", window: int = 0) -> None:
        """Subscribe to a condition in its canonical form; of a group, to so many at a time."""
        self._inboxes[id_] = self.queue
        if group:
            self._shares[id_] = 0
        else:
            self._denials.on_subscribed(id_, condition)
        self._witness.on_subscribed(id_, condition, group, self._clock.now_us())
        self.driver.give(SubscribeCall(id_, condition, group, window))

    def unwant(self, id_: str, lasts: bool = False) -> None:
        """Unsubscribe; where the subscription of a group `lasts`, the group waits for us if it has nobody else."""
        self._witness.on_unsubscribed(id_, self._clock.now_us())
        if self._shares.pop(id_, None) is None:
            self._unsubscribe(id_)
            return
        del self._inboxes[id_]
        self._taken = deque(["" if each == id_ else each for each in self._taken])
        if isinstance(self.queue, SeatInbox):
            self.queue.forget(id_)
        self.driver.give(UnsubscribeCall(id_, lasts))

    def past(self, condition: str, last: int, since_us: int) -> AsyncIterator[list[Delivery]]:
        """What the broker has kept of it, part by part; a PastRefusedError when it keeps none."""
        return self._past_reader.read(condition, (last, since_us))

    async def told(self) -> None:
        """Wait until the broker knows what we want."""
        await self._ping()

    def take(self) -> "Matched":
        """The next event of the queue."""
        one = self.queue.take_one()
        assert isinstance(one, Matched)
        self._taken.append(one.shared)
        return one

    def finish(self, count: int) -> None:
        """So many more of the events that were taken from the queue are done with."""
        taken = [self._taken.popleft() for _ in range(count)]
        finished = Counter(taken) if self._shares else {}
        for id_ in finished.keys() & self._shares.keys():
            self._shares[id_] += finished[id_]
            self.driver.give(GroupDone(id_, self._shares[id_]))
        if isinstance(self.queue, HeldInbox):
            self.queue.finish(count)

    def _on_overflow(self) -> Growing:
        self.on_loss(f"more than {QUEUE_MAX:,} events wait for it: the oldest are dropped")
        return self._overflow("any")

    def on_lost(self, lost: Lost, now_us: int) -> None:
        super().on_lost(lost, now_us)
        self._witness.on_lost(lost, now_us)
        self.on_loss(f"{lost.events or 'some'} events are lost: {lost.reason}")

    def on_delivered(self, delivered: Delivered, now_us: int) -> None:
        self._put(delivered.publication, delivered.subscriptions, now_us)
        self._witness.on_delivered(delivered, now_us)

    def on_delivered_batch(self, delivered: DeliveredBatch, now_us: int) -> None:
        for publication, ids in zip(delivered.publications, delivered.subscriptions, strict=True):
            self._put(publication, tuple(ids), now_us)
        self._witness.on_delivered_batch(delivered, now_us)

    def _put(self, publication: Publication, ids: tuple[str, ...], now_us: int) -> None:
        shared = ids[0] if ids[0] in self._shares else ""  # such an event comes for this subscription alone
        self.queue.put(Matched(publication, "original", now_us, 0, ids, shared))
        self.on_put()

    # Publishing ----------------------------------------------------------------------------------

    def next_handover(self) -> tuple[int, int]:
        """The stream and number under which the next publication is handed over, if it is alone in its message."""
        self.driver.flush()
        stream, seq = self._machine.handed_over
        return stream, seq + 1

    def send_now(self) -> None:
        """Let what was published leave, so that no later publication comes into its message."""
        self.driver.flush()

    def when_stored(self, seq: int, call: WhenStored, what: Any) -> None:
        """Call this when the broker has everything up to this number: with a store, on its disk.

        It gets all that the broker has of what it was to be called with, in one list.
        """
        self._to_call.append((seq, call, what))
        if self._durable is None and self._confirming is None:
            self._confirming = asyncio.create_task(self._confirm())

    async def all_stored(self) -> None:
        """Until the broker has all that was published, and who waited for that was called."""
        if self._durable is not None:
            await self._durable.stored()
        elif self._confirming is not None:
            await asyncio.wait([self._confirming])

    async def _confirm(self) -> None:
        while self._to_call:
            upto = self._machine.last_seq
            await self._ping()
            self._call(upto)
        self._confirming = None

    def on_published(self, publication: Publication, now_us: int) -> None:
        self._witness.on_published(publication, now_us)

    def on_incident(self, incident: Incident, now_us: int) -> None:
        self._witness.on_incident(incident, now_us)

    def on_acknowledged(self, acknowledged: Acknowledged, now_us: int) -> None:
        super().on_acknowledged(acknowledged, now_us)
        self._witness.on_acknowledged(acknowledged, now_us)
        self._call(acknowledged.last)

    def _call(self, upto: int) -> None:
        waiting = self._to_call
        stored: list[Any] = []
        while waiting and waiting[0][0] <= upto:
            _, call, what = waiting.popleft()
            stored.append(what)
            if not waiting or waiting[0][1] is not call or waiting[0][0] > upto:
                call(stored)
                stored = []
