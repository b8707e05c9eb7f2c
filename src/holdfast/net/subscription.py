"""What a subscriber holds: a bounded queue of deliveries that is read with `async for`.

When the application is slower than its events, either the oldest are dropped, counted and told in `losses`, or the
connection is held up so that the broker feels it and in turn drops or pushes back, as it is configured. Leaving the
loop and letting go of the subscription, or closing it, unsubscribes.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

import msgspec

from holdfast.model.errors import InputError
from holdfast.model.event import flat_names, nested
from holdfast.model.messages import Publication, Via
from holdfast.net.accounting import Account
from holdfast.net.deadline import within
from holdfast.net.losses import Growing

QUEUE_MAX = 10_000  # deliveries that wait for the application: a tenth of a second at full speed, a few MB
_IN_FLIGHT_MAX = 10_000  # more that is kept when pushing back: what a frame can hold that had come already

WhenFull = Literal["drop-oldest", "push-back"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def checked_queue_max(queue_max: int) -> int:
    if isinstance(queue_max, bool) or not isinstance(queue_max, int) or queue_max < 1:
        raise InputError(f"queue_max is {queue_max!r}; it must be a whole number of deliveries, 1 or more")
    return queue_max


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """One event for one subscription."""

    publication: Publication  # the event and all that travels with it
    via: Via  # how it came: on the normal way, or by which kind of recovery
    arrived_us: int  # by our clock
    held_us: int = 0  # of that, how long it was held back for the sake of order

    @property
    def event(self) -> Mapping[str, Any]:
        """Its attributes, nested as they were published; `event["home.team"]` finds `event["home"]["team"]`, too.

        `publication.attributes` has them flat.
        """
        attributes = self.publication.attributes
        return attributes if flat_names.issuperset(attributes) else nested(attributes)

    @property
    def payload(self) -> bytes:
        """Bytes that nobody but the application looks into."""
        return self.publication.payload

    @property
    def source(self) -> str:
        """Who published it."""
        return self.publication.source

    @property
    def seq(self) -> int:
        """Its number among the events of that source."""
        return self.publication.seq

    @property
    def time_us(self) -> int:
        """When it was published, by the publisher's clock."""
        return self.publication.time_us

    @property
    def time(self) -> datetime:
        """The same as a moment in UTC."""
        return _EPOCH + timedelta(microseconds=self.time_us)

    @property
    def delay(self) -> float:
        """Seconds from then until it arrived here, by the two clocks."""
        return (self.arrived_us - self.publication.time_us) / 1e6

    def __repr__(self) -> str:
        payload = f", payload of {len(self.payload):,} bytes" if self.payload else ""
        event = dict(self.event)
        return f"<Delivery {event!r}{payload} from {self.source}, number {self.seq}, {self.via}>"


class Inbox:
    """The queue itself; the client fills it, the subscription empties it."""

    lasting = False  # letting go of the subscription does not end it

    def __init__(
        self,
        queue_max: int,
        when_full: WhenFull,
        on_level: Callable[["Inbox"], None],
        on_overflow: Callable[[], Growing] = lambda: Growing("dropped"),
    ) -> None:
        if when_full not in get_args(WhenFull):
            raise InputError(f"when_full is {when_full!r}; it can be {' or '.join(get_args(WhenFull))}")
        self.came = 0
        self.dropped = 0
        self.full = False  # and pushing back
        self.closed = False
        self._items: deque[Delivery] = deque()
        self._max = checked_queue_max(queue_max)
        self._pushes_back = when_full == "push-back"
        self._cap = queue_max + (_IN_FLIGHT_MAX if self._pushes_back else 0)
        self._on_level = on_level
        self._on_overflow = on_overflow
        self._overflow: Growing | None = None  # the loss that grows while we drop
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def held(self) -> int:
        """How many have come and wait outside of the queue."""
        return 0

    @property
    def is_replaying(self) -> bool:
        """Whether it still reads what its broker has kept."""
        return False

    def admit(self, released: int) -> None:
        """While it pushes back, take so many more at once: order had them already, and lets go of them together."""
        self._cap += released if self._pushes_back else 0

    def put(self, delivery: Delivery) -> None:
        items = self._items
        self.came += 1
        if len(items) >= self._cap:
            self._drop(items.popleft())
        items.append(delivery)
        if len(items) == 1:
            self._filled.set()
        if self._pushes_back and not self.full and len(items) >= self._max:
            self.full = True
            self._on_level(self)

    def _drop(self, oldest: Delivery) -> None:
        self.dropped += 1
        if self._overflow is None or self._overflow.was_read:
            self._overflow = self._on_overflow()
        self._overflow.grow(1, oldest.arrived_us, oldest.arrived_us)

    def put_all(self, deliveries: list[Delivery]) -> None:
        items = self._items
        if len(items) + len(deliveries) > self._cap:
            for each in deliveries:
                self.put(each)
            return
        items += deliveries
        self.came += len(deliveries)
        self._filled.set()
        if self._pushes_back and not self.full and len(items) >= self._max:
            self.full = True
            self._on_level(self)

    def take(self, count: int) -> list[Delivery]:
        """The oldest ones, at most so many."""
        items = self._items
        if count < len(items):
            items_read = [items.popleft() for _ in range(count)]
        else:
            items_read = list(items)
            items.clear()
        if self.full and len(items) <= self._max // 2:
            self.full = False
            self._on_level(self)
        return items_read

    def take_one(self) -> Delivery:
        if self.full:
            return self.take(1)[0]
        return self._items.popleft()

    async def wait(self) -> bool:
        """Until there is something, or never will be again."""
        while not self._items:
            if self.closed:
                return False
            self._filled.clear()
            await self._filled.wait()
        return True

    def close(self) -> None:
        self.closed = True
        if self.full:
            self.full = False
            self._on_level(self)
        self._filled.set()


class Subscription:
    """What one subscription brings, to be read with `async for`."""

    def __init__(
        self, condition: str, inbox: Inbox, unsubscribe: Callable[[], None], account: Callable[[], Account]
    ) -> None:
        self.condition = condition
        self._account = account
        self._inbox = inbox
        self._unsubscribe = unsubscribe
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Delivery:
        if not self._inbox and not await self._inbox.wait():
            raise StopAsyncIteration
        return self._inbox.take_one()

    async def next(self, timeout: float | None = None) -> Delivery:
        """The next delivery; TimedOutError after so many seconds, StopAsyncIteration when it has ended."""
        return await (anext(self) if timeout is None else within(timeout, self.__anext__(), _nothing_came))

    async def batch(self, size_max: int = 1_000, timeout: float | None = None) -> list[Delivery]:
        """All that waits, at least one and at most so many; empty when the subscription has ended.

        A TimedOutError when nothing comes for so many seconds.
        """
        if timeout is not None:
            return await within(timeout, self.batch(size_max), _nothing_came)
        inbox = self._inbox
        if not await inbox.wait():
            return []
        return inbox.take(size_max)

    @property
    def dropped(self) -> int:
        """Deliveries that were dropped because the application was too slow."""
        return self._inbox.dropped

    @property
    def waiting(self) -> int:
        """Deliveries that have come and were not read yet."""
        return len(self._inbox)

    def account(self) -> Account:
        """What became of its events so far: delivered, waiting, held back, missing, lost."""
        return self._account()

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._inbox.closed

    def close(self) -> None:
        """Unsubscribe. What has come already can still be read."""
        _close(self._inbox, self._unsubscribe)

    async def aclose(self) -> None:
        """The same, for `contextlib.aclosing`."""
        self.close()

    async def __aenter__(self) -> "Subscription":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return describe("Subscription", self.condition, self.waiting, self.dropped, self.closed)

    def __del__(self) -> None:
        # Whoever leaves an `async for` and keeps no reference to it has no use for more.
        if not self._inbox.closed and not self._inbox.lasting and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_close, self._inbox, self._unsubscribe)  # any thread may collect garbage


def put_each(
    inboxes: Mapping[str, Inbox], publications: list[Publication], subscriptions: Sequence[Sequence[str]], now_us: int
) -> None:
    """Events of one source into the queues of the subscriptions that each is for."""
    first = subscriptions[0]
    if subscriptions.count(first) == len(subscriptions):  # all for the same, as is usual
        all_of_them = [Delivery(each, "original", now_us) for each in publications]
        for id_ in first:
            if id_ in inboxes:
                inboxes[id_].put_all(all_of_them)
        return
    waiting: dict[str, list[Delivery]] = {}
    for publication, ids in zip(publications, subscriptions, strict=True):
        delivery = Delivery(publication, "original", now_us)
        for id_ in ids:
            if id_ in waiting:
                waiting[id_].append(delivery)
            else:
                waiting[id_] = [delivery]
    for id_, deliveries in waiting.items():
        inbox = inboxes.get(id_)
        if inbox is not None:
            inbox.put_all(deliveries)


def describe(kind: str, condition: str, waiting: int, dropped: int, closed: bool) -> str:
    """What a subscription is, for people."""
    lost = f", {dropped:,} dropped" if dropped else ""
    return f"<{kind} {condition!r}, {waiting:,} waiting{lost}{', closed' if closed else ''}>"


def _close(inbox: Inbox, unsubscribe: Callable[[], None]) -> None:
    if not inbox.closed:
        inbox.close()
        unsubscribe()


def _nothing_came() -> str:
    return "no event came for this subscription"
