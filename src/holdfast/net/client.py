"""The client API: publish events, subscribe to those that a condition describes.

    async with holdfast.connect("tcp://127.0.0.1:7001", name="desk-1") as client:
        await client.publish({"symbol": "IBM", "price": 119.5})
        async for delivery in client.subscribe("symbol = 'IBM' AND price < 120"):
            print(delivery.event)

A lost connection is dialled again, at the same broker or the next of a list. A broker that is found again in time goes
on where it was; otherwise subscriptions are told anew, and `losses` says from when until when events may have been
missed. Publishing waits while there is no connection or too much is waiting to be sent, so nothing is dropped on
the way to the broker.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import count
from random import Random

from msgspec.structs import astuple

from holdfast.language.parser import parse
from holdfast.matching.index import Index
from holdfast.model.errors import MisuseError, TransportError
from holdfast.model.messages import AttributeValue, Publication
from holdfast.net.accounting import Account, Missing
from holdfast.net.address import Address
from holdfast.net.advertisement import Advertisement
from holdfast.net.attachment import CLOSE_S, Attachment
from holdfast.net.client_driver import ClientDriver
from holdfast.net.clock import Clock
from holdfast.net.confirmations import Confirmations
from holdfast.net.deadline import check_timeout, counted, within
from holdfast.net.driver import Application
from holdfast.net.durable import NEEDS_STORE, Durable, new_inbox
from holdfast.net.group_inbox import SharedSubscriptions
from holdfast.net.link import Link
from holdfast.net.losses import Growing, Loss, Losses
from holdfast.net.publish_many import check_events, publish_many
from holdfast.net.replaying import PastReader, Since, checked_start
from holdfast.net.session import Session
from holdfast.net.setup import made_up_name, parsed_condition
from holdfast.net.signing import UNSIGNED, Signing
from holdfast.net.subscription import QUEUE_MAX, Delivery, Inbox, Subscription, WhenFull, put_each
from holdfast.net.tls import TlsFiles
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Acknowledged,
    AdvertiseCall,
    Delivered,
    DeliveredBatch,
    Incident,
    Lost,
    SubscribeCall,
    UnsubscribeCall,
)
from holdfast.protocol.hops.settings import BASIC, HopSettings
from holdfast.protocol.settings import BEST_EFFORT, Guarantees, ProtocolSettings
from holdfast.protocol.stack import new_client
from holdfast.wire.event_encoding import encoded_event, sendable_lifetime_us, sendable_payload
from holdfast.wire.signals import Refusal, Welcome

_AHEAD_BYTES_MAX = 256 * 1024  # published and not yet written: a few frames, so that writing never waits for us
_LINGER_S = 10.0  # how long leaving waits for those who may have lost our last events: 5.4 s of digests, and answers
_LINGER_LOOK_S = 0.05


class Client(Attachment):
    """A node that publishes and subscribes at one broker, and goes to the next one when that is gone."""

    def __init__(
        self,
        addresses: Sequence[Address],
        name: str | None,
        tls: TlsFiles | None,
        settings: ProtocolSettings,
        clock: Clock | None = None,
        first_seq: int | None = None,
        observer: Application | None = None,
        tallied: bool = False,
        guarantees: Guarantees = BEST_EFFORT,
        hops: HopSettings = BASIC,
        token: str | None = None,
        signing: Signing = UNSIGNED,
    ) -> None:
        super().__init__(addresses, name or made_up_name(tls, token), tls, settings, clock or Clock(), token)
        # A name that was given may have been used before, and then its numbers are taken: count from the time of day.
        self._first_seq = first_seq if first_seq is not None else 1 if name is None else self._clock.now_us()
        self._observer = observer
        self._tallied = tallied
        self._guarantees = guarantees
        self._hops = hops
        self._signing = signing
        self._named = name is not None and observer is None  # another process may go on under this name
        self._durable: Durable | None = None
        self._losses = Losses()
        self._flushed = 0  # the number of the last publication that the broker is known to have handled
        self._asked = 0  # and of the last one when somebody last waited for that
        self._ids = count(1)
        self._inboxes: dict[str, Inbox] = {}
        self._full: set[Inbox] = set()
        self._past_reader = PastReader(self._ask_past, self._clock.now_us, self.on_lost, self._opened)

    # Coming and going ------------------------------------------------------------------------------

    async def __aenter__(self) -> "Client":
        if self._entered or self._closed:
            raise MisuseError("a client can be entered only once; call connect again")
        epoch = self._clock.now_us()
        rng = Random(f"{epoch}/{self.name}/heartbeat")
        confirms = self._observer is None  # the application reads what comes
        machine = self._machine = new_client(
            self.name,
            self._settings,
            ConditionBook(),
            Index,
            epoch,
            rng,
            self._first_seq,
            self._guarantees,
            self._hops,
            batches=self._observer is None and not self._tallied,
            confirms=confirms,
            groups=True,
            **self._signing.parts(),
        )
        self.driver = ClientDriver(machine, self._clock, self.counters, self, self._tallied)
        self._confirmations = Confirmations(machine, self.driver)
        if self._hops.durable:
            self._durable = Durable(machine, self.driver, self._inboxes, self._hops.handover if confirms else None)
        self._shared = SharedSubscriptions(self.driver.give, self._durable)
        lossless, repairs = self._guarantees != BEST_EFFORT, self._hops.hops == "nack"
        await self._enter(epoch, lossless, self._hops.durable, repairs)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(in_haste=kind is not None)

    async def close(self, in_haste: bool = False, *, timeout: float | None = None) -> None:
        """Wait until the broker has everything, and with recovery until others know of our last events; then leave.

        `in_haste` skips the wait, which takes a few seconds at most. With a `timeout` (seconds) it waits so long, and
        what the broker has not confirmed by then is an error: the client is closed all the same.
        """
        check_timeout(timeout)
        if self._closed:
            return
        try:
            if in_haste or not (self._owes or (timeout is not None and self._keeps)):
                return
            if timeout is not None:
                limit = timeout if self._wanted.is_set() else 0  # while it is detached, waiting is of no use
                return await within(limit, self._finish(), self._why_unfinished)
            with suppress(TimeoutError, TransportError):
                async with asyncio.timeout(CLOSE_S):
                    await self.flush()
                async with asyncio.timeout(_LINGER_S):
                    await self._announced()
        finally:  # also when whoever waits for it is cancelled: our name must not stay taken
            await self._leave()

    @property
    def _keeps(self) -> bool:
        """Whether it has events that the broker may not have got."""
        unstored = self._durable is not None and self._durable.unacknowledged > 0
        return self._returning.owes or bool(self._unsent) or unstored

    async def _finish(self) -> None:
        await self.flush()
        await self._announced()

    async def _announced(self) -> None:
        """Until, with recovery, others know of our last events."""
        while not self._machine.has_announced:
            await asyncio.sleep(_LINGER_LOOK_S)

    def _why_unfinished(self) -> str:
        count = counted(self._unconfirmed)
        return f"the client is closed, and {count} that the broker has not confirmed may not have left it"

    def __repr__(self) -> str:
        where = f"connected to {self.broker}" if self.broker else "closed" if self._closed else "not connected"
        return f"<Client {self.name}, {where}, {len(self._inboxes)} subscriptions>"

    async def _leave(self) -> None:
        self._past_reader.close()
        if self._durable is not None:  # whoever waits for a broker to store something learns that it will not
            self._durable.close()
        try:
            await self._exit()
        finally:
            self._losses.close()
            if self._durable is not None:
                self._durable.end()
            for inbox in self._inboxes.values():
                inbox.close()

    def _on_leaving(self) -> None:
        if self._closed:
            self._shared.leave(lasts=self._durable is not None and self._named)
        if self._durable is not None:
            self._durable.leave(for_good=self._closed and not self._named)

    def on_welcome(self, session: Session, welcome: Welcome) -> Link | Refusal:
        if self._durable is not None and welcome.stores is False:  # an older broker, which does not refuse us itself
            return Refusal("not here", f"{welcome.node} stores no events, {NEEDS_STORE}")
        return super().on_welcome(session, welcome)

    def on_refused(self, session: Session, refusal: Refusal) -> None: ...

    async def forget(self) -> None:
        """End all subscriptions of a durable client for good: its broker erases what it keeps; `close` does not."""
        if self._durable is None:
            raise MisuseError("forget() needs a durable client: connect(..., durable=True)")
        await self._connection()
        for id_, inbox in list(self._inboxes.items()):
            inbox.close()
            self._unsubscribe(id_)
        self._durable.forget(stays=True)
        await self.flush()

    # Publishing ----------------------------------------------------------------------------------

    async def publish(
        self,
        event: Mapping[str, object],
        payload: bytes | bytearray | memoryview = b"",
        lifetime: float | timedelta | None = None,
        *,
        timeout: float | None = None,
    ) -> int:
        """Send an event; its number. A lifetime (seconds) says how long it is worth delivering.

        Returns when the event is on its way, not when anybody has it; see `flush`. With a `timeout` (seconds) it is
        not sent at all when it cannot be in that time, for want of a connection or of room: a TimedOutError.
        """
        if timeout is not None:
            return await within(timeout, self.publish(event, payload, lifetime), self._why_unpublished)
        lifetime_us = None if lifetime is None else sendable_lifetime_us(lifetime)
        payload = sendable_payload(payload) if payload else b""
        attributes, encoded = encoded_event(event)
        self._check_fits(attributes, encoded, payload)
        link = self._link
        if link is None or link.outbox.waiting_bytes > _AHEAD_BYTES_MAX or self._durable is not None:
            link = await self._room()
        if not link.reliable:
            link.check_fits(len(encoded) + len(payload) + self._signing.more_bytes)
            if await self._confirmations.waited():
                await self._room()
        if self._observer is not None:
            attributes = dict(attributes)  # which it keeps
        return self.driver.publish(attributes, encoded, payload, lifetime_us)

    def _check_fits(self, attributes: Mapping[str, AttributeValue], encoded: bytes, payload: bytes) -> None:
        """An InputError for what is too large to leave."""
        self._signing.check_fits(len(attributes), len(encoded))

    async def _room(self) -> Link:
        """Wait until one more event may be sent; where to."""
        while (link := self._link) is None or link.outbox.waiting_bytes > _AHEAD_BYTES_MAX:
            await (await self._connection()).drained(_AHEAD_BYTES_MAX)
        if self._durable is not None:
            await self._durable.has_window()
        return link

    async def publish_many(self, events: Iterable[Mapping[str, object]], *, timeout: float | None = None) -> int:
        """Send these events in turn, in less time than `publish` of each takes; how many they were.

        An event that is not acceptable is named by its place, from 0 on. Those before it are sent. Events
        that were sent before the `timeout` (seconds, for all) was over stay sent.
        """
        check_timeout(timeout)
        check_events(events)
        return await self._publish_many(events, timeout)

    async def _publish_many(
        self, events: Iterable[Mapping[str, object]], timeout: float | None, before: int = 0
    ) -> int:
        alone = self._durable is not None or self._observer is not None  # whose events are looked at one by one
        together = None if alone else self._publish_encoded
        return await publish_many(self.publish, together, events, timeout, before)

    async def _publish_encoded(self, events: Sequence[Mapping[str, AttributeValue]], encoded: Sequence[bytes]) -> None:
        full = self._link is None or self._link.outbox.waiting_bytes > _AHEAD_BYTES_MAX
        if full or await self._confirmations.waited():
            await self._room()
        self.driver.publish_many(events, encoded)  # which are small enough for any link

    def _why_unpublished(self) -> str:
        why = "there is no connection to a broker" if self._link is None else "the broker takes no more for now"
        return f"the event was not sent and will not be, because {why}; publish it again"

    async def flush(self, *, timeout: float | None = None) -> None:
        """Wait until the broker has handled all that was sent; a TransportError if its session is lost first, also
        if that was before the call. While there is no connection it waits for one.

        Brokers that store events have then stored all that was published, over as many connections as that takes.
        A `timeout` (seconds) ends the waiting with a TimedOutError, and not the sending.
        """
        if timeout is not None:
            return await within(timeout, self.flush(), self._why_unflushed)
        self._shared.checkpoint()
        if self._durable is None:
            upto = self._asked = self._machine.last_seq
            await self._ping()
            self._flushed = upto
            return
        self._durable.checkpoint()
        while True:
            await self._durable.stored()
            with suppress(TransportError):  # what we want is told anew over the next connection
                return await self._ping()

    @property
    def _unconfirmed(self) -> int:
        """How many events the broker may not have."""
        if self._durable is not None:
            return self._durable.unacknowledged
        return self._machine.last_seq - max(self._first_seq - 1, self._flushed)

    def _why_unflushed(self) -> str:
        return f"the broker has not confirmed {counted(self._unconfirmed)}; sending goes on: flush again to wait for it"

    async def _ping(self) -> None:
        link = await self._connection()
        self.driver.flush()
        sent, _ = self._machine.sent_and_confirmed
        await self._pings.answered(link, partial(self._confirmations.has, sent))

    def advertise(self, condition: str) -> Advertisement:
        """Say which events this client will publish; needed where the network routes by advertisements."""
        self._check_open()
        text = str(parse(condition))
        id_ = f"a{next(self._ids)}"
        self.driver.give(AdvertiseCall(id_, text))
        return Advertisement(self.driver, id_, text)

    # Subscribing ---------------------------------------------------------------------------------

    def subscribe(
        self,
        condition: str,
        *,
        group: str = "",
        queue_max: int = QUEUE_MAX,
        when_full: WhenFull = "drop-oldest",
        last: int | None = None,
        since: Since = None,
    ) -> Subscription:
        """The events that a SQL condition describes, from now on; a ConditionError when it is not one.

        With a `group`, each event goes to one of all who share group and condition, wherever they are connected, and
        to another one if that dies before it is done. A member has at most `queue_max` at a time, and never above 256.
        With `last` or `since` it begins with what its broker has kept: the last so many events, or those published
        since a moment or so many seconds ago. What is new follows without a gap. `losses` says why it begins later.
        """
        self._check_open()
        text = str(parsed_condition(condition))
        start = checked_start(last, since, self._clock.now_us(), self._durable is not None)
        id_ = f"s{next(self._ids)}"
        queue = queue_max, when_full, self._on_level, partial(self._overflow, text)
        if group:
            if start is not None:
                raise MisuseError("last and since are not for groups, whose members share what is new")
            self._signing.check_group()
            inbox: Inbox = self._shared.subscribe(id_, text, group, queue_max)
        else:
            if start is None:
                inbox = new_inbox(self._durable, *queue)
            else:
                inbox = self._past_reader.inbox(queue, self._settings, self.name, self._guarantees.keeps_strictly)
            if self._guarantees.order is not None:
                inbox.admit(self._guarantees.order.held_max)
            self._denials.on_subscribed(id_, text)
            self.driver.give(SubscribeCall(id_, text))
            self._past_reader.begin(text, inbox, start)
        self._inboxes[id_] = inbox
        account = partial(self._account_of, id_, inbox, self._clock.now_us())
        return Subscription(text, inbox, partial(self._unsubscribe, id_), account)

    def _account_of(self, id_: str, inbox: Inbox, since_us: int) -> Account:
        waiting, dropped = len(inbox), inbox.dropped
        return Account(
            attached=self._link is not None,
            delivered=inbox.came - waiting - dropped,
            waiting=waiting,
            held=self._machine.held(id_) + inbox.held,
            replaying=inbox.is_replaying,
            dropped=dropped,
            missing=tuple([Missing(*each) for each in self._machine.missing()]),
            lost=self._losses.since(since_us),
        )

    def losses(self) -> "Losses":
        """Events that were lost for good, or may have been: `take()` has those that have come, `async for` waits for
        more.

        Recovery finds them one by one. Without it there are the times for which this client was away longer than its
        broker kept the session, and what was dropped because it or its application was too slow. The latest ten
        thousand are kept for whoever reads late.
        """
        return self._losses

    @property
    def _unflushed(self) -> bool:
        return self._machine.last_seq >= max(self._first_seq, self._flushed + 1)

    @property
    def _unasked(self) -> bool:
        return self._machine.last_seq > self._asked

    @property
    def settled(self) -> bool:
        """Whether nothing may be missing: no loss is unread or looked for, and others know of all we published."""
        self._check_open()
        away = self._link is None and self._subscribes
        replays = any(each.is_replaying for each in self._inboxes.values())
        return not (self._losses or away or replays) and self._machine.has_settled(self._clock.now_us())

    @property
    def recovered(self) -> bool:
        """Whether it looks for no lost event, and has told of all that it published."""
        return self._machine.has_settled(self._clock.now_us())

    def _overflow(self, condition: str) -> Growing:
        loss = Growing(f"the application was too slow for its subscription {condition}")
        self._losses.put(loss, self._clock.now_us())
        return loss

    def _unsubscribe(self, id_: str) -> None:
        if self._closed or self._inboxes.pop(id_, None) is None:
            return
        if id_ in self._shared:
            self._shared.unsubscribe(id_)
        elif self._denials.on_unsubscribed(id_):
            self.driver.give(UnsubscribeCall(id_))

    @property
    def _subscribes(self) -> bool:
        return bool(self._inboxes)

    @property
    def _holds_up(self) -> bool:
        return bool(self._full)

    def _on_level(self, inbox: Inbox) -> None:
        """An inbox that pushes back is full, or no longer: stop reading while any is."""
        if inbox.full:
            self._full.add(inbox)
        else:
            self._full.discard(inbox)
        if self._link is not None:
            self._link.hold_up(self._holds_up)

    def _opened(self, publication: Publication) -> Publication | None:
        return self._machine.opened(publication)

    # What the driver tells -----------------------------------------------------------------------

    def on_published(self, publication: Publication, now_us: int) -> None:
        if self._observer is not None:
            self._observer.on_published(publication, now_us)

    def on_delivered(self, delivered: Delivered, now_us: int) -> None:
        delivery = Delivery(delivered.publication, delivered.via, now_us, delivered.held_us)
        for id_ in delivered.subscriptions:
            inbox = self._inboxes.get(id_)
            if inbox is not None:
                inbox.put(delivery)
        if self._observer is not None:
            self._observer.on_delivered(delivered, now_us)

    def on_delivered_batch(self, delivered: DeliveredBatch, now_us: int) -> None:
        if self._observer is not None:
            for each, ids in zip(delivered.publications, delivered.subscriptions, strict=True):
                self.on_delivered(Delivered(each, tuple(ids), "original"), now_us)
            return
        put_each(self._inboxes, delivered.publications, delivered.subscriptions, now_us)

    def on_lost(self, lost: Lost, now_us: int) -> None:
        self._losses.put(Loss(*astuple(lost)), now_us)
        if self._observer is not None:
            self._observer.on_lost(lost, now_us)

    def on_acknowledged(self, acknowledged: Acknowledged, now_us: int) -> None:
        if self._durable is not None:
            self._durable.on_acknowledged()
        if self._observer is not None:
            self._observer.on_acknowledged(acknowledged, now_us)

    def on_incident(self, incident: Incident, now_us: int) -> None:
        if self._observer is not None:
            self._observer.on_incident(incident, now_us)
