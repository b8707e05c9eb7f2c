"""The client for scripts and notebooks: the same names without `async`, with the event loop in a thread.

    with holdfast.connect_sync("tcp://127.0.0.1:7001") as client:
        client.publish({"symbol": "IBM", "price": 119.5})
        for delivery in client.subscribe("symbol = 'IBM' AND price < 120"):
            print(delivery.event)

Each call hands its work to that thread and waits, which costs some 50 microseconds; a program in a hurry uses
`connect`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from itertools import islice
from time import monotonic

from holdfast.net.accounting import Account
from holdfast.net.advertisement import Advertisement
from holdfast.net.client import Client
from holdfast.net.counters import Counters
from holdfast.net.deadline import check_timeout
from holdfast.net.loop_thread import LoopThread
from holdfast.net.losses import Loss, Losses
from holdfast.net.publish_many import check_events
from holdfast.net.replaying import Since
from holdfast.net.setup import parsed_condition
from holdfast.net.states import Callback, StateChange, StateChanges
from holdfast.net.subscription import QUEUE_MAX, Delivery, Subscription, WhenFull, describe

_AT_ONCE_MAX = 100  # deliveries fetched with one call: enough to hide its cost, few enough to be fresh
_MANY = 1_000  # events published with one call: enough to hide its cost, few enough to keep


class SyncSubscription:
    """What one subscription brings, to be read with `for`."""

    def __init__(self, subscription: Subscription, thread: LoopThread, at_once: int = _AT_ONCE_MAX) -> None:
        self._subscription = subscription
        self._at_once = at_once  # one where what is fetched counts as done with when more is
        self._thread = thread
        self._fetched: deque[Delivery] = deque()

    @property
    def condition(self) -> str:
        return self._subscription.condition

    @property
    def dropped(self) -> int:
        return self._subscription.dropped

    def account(self) -> Account:
        """What became of its events so far: delivered, waiting, held back, missing, lost.

        What this thread has fetched and not handed out yet counts as delivered.
        """
        return self._thread.call(self._subscription.account)

    @property
    def closed(self) -> bool:
        return self._subscription.closed

    def __iter__(self) -> "SyncSubscription":
        return self

    def __next__(self) -> Delivery:
        return self.next()

    def next(self, timeout: float | None = None) -> Delivery:
        """The next delivery; TimedOutError after so many seconds, StopIteration when the subscription has ended."""
        if not self._fetched and not self._thread.stopped:
            self._fetched.extend(self._thread.do(self._fetch(self._at_once, timeout)))
        if not self._fetched:
            raise StopIteration
        return self._fetched.popleft()

    def batch(self, size_max: int = 1_000, timeout: float | None = None) -> list[Delivery]:
        """All that waits, at least one and at most so many; empty when the subscription has ended.

        A TimedOutError when nothing comes for so many seconds.
        """
        if self._fetched:
            return [self._fetched.popleft() for _ in range(min(size_max, len(self._fetched)))]
        return [] if self._thread.stopped else self._thread.do(self._fetch(size_max, timeout))

    async def _fetch(self, size_max: int, timeout: float | None) -> list[Delivery]:
        # There, where no delivery can slip in between taking and giving up.
        return await self._subscription.batch(size_max, timeout)

    @property
    def waiting(self) -> int:
        """Deliveries that have come and were not read yet."""
        return len(self._fetched) + self._subscription.waiting

    def __repr__(self) -> str:
        return describe("SyncSubscription", self.condition, self.waiting, self.dropped, self.closed)

    def close(self) -> None:
        if not self._subscription.closed and not self._thread.stopped:
            self._thread.call(self._subscription.close)

    def __enter__(self) -> "SyncSubscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SyncStates:
    """The changes of a client's connection, to be read with `for`."""

    def __init__(self, changes: StateChanges, thread: LoopThread) -> None:
        self._changes = changes
        self._thread = thread

    @property
    def dropped(self) -> int:
        """Changes that were not read in time."""
        return self._changes.dropped

    def __iter__(self) -> "SyncStates":
        return self

    def __next__(self) -> StateChange:
        return self.next()

    def next(self, timeout: float | None = None) -> StateChange:
        """The next change; TimeoutError after so many seconds, StopIteration when the client is closed."""
        change = None if self._thread.stopped else self._thread.do(self._fetch(timeout))
        if change is None:
            raise StopIteration
        return change

    async def _fetch(self, timeout: float | None) -> StateChange | None:
        async with asyncio.timeout(timeout):
            return await anext(self._changes, None)

    def close(self) -> None:
        if not self._thread.stopped:
            self._thread.call(self._changes.close)


class SyncLosses:
    """What was lost or may have been, to be read with `for` or taken at once."""

    def __init__(self, losses: Losses, thread: LoopThread) -> None:
        self._losses = losses
        self._thread = thread
        self._left: deque[Loss] = deque()  # by a client that is closed

    @property
    def dropped(self) -> int:
        """Losses that were not read in time."""
        return self._losses.dropped

    def __len__(self) -> int:
        return len(self._left) + len(self._losses)

    def take(self) -> list[Loss]:
        """All that have come, without waiting."""
        left = [*self._left, *(self._losses.take() if self._thread.stopped else self._thread.call(self._losses.take))]
        self._left.clear()
        return left

    def next(self, timeout: float | None = None) -> Loss:
        """The next loss; TimeoutError after so many seconds, StopIteration when the client is closed."""
        if self._thread.stopped:
            self._left.extend(self._losses.take())
            if self._left:
                return self._left.popleft()
        loss = None if self._thread.stopped else self._thread.do(self._fetch(timeout))
        if loss is None:
            raise StopIteration
        return loss

    async def _fetch(self, timeout: float | None) -> Loss | None:
        async with asyncio.timeout(timeout):
            return await anext(self._losses, None)

    def __iter__(self) -> "SyncLosses":
        return self

    def __next__(self) -> Loss:
        return self.next()

    def __repr__(self) -> str:
        return f"<Sync{repr(self._losses)[1:]}"


class SyncAdvertisement:
    def __init__(self, advertisement: Advertisement, thread: LoopThread) -> None:
        self._advertisement = advertisement
        self._thread = thread

    @property
    def condition(self) -> str:
        return self._advertisement.condition

    def close(self) -> None:
        self._thread.call(self._advertisement.close)


class SyncClient:
    """The calls of `Client`, which wait here instead of being awaited; from any thread."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._at_once = 1 if client._hops.durable else _AT_ONCE_MAX
        self._thread = LoopThread("client")
        self._losses = SyncLosses(client.losses(), self._thread)
        self._closed = False
        try:
            self._thread.do(client.__aenter__())
        except BaseException:
            self._thread.stop()
            raise

    @property
    def name(self) -> str:
        return self._client.name

    @property
    def broker(self) -> str | None:
        return self._client.broker

    @property
    def counters(self) -> Counters:
        return self._client.counters

    def publish(
        self,
        event: Mapping[str, object],
        payload: bytes | bytearray | memoryview = b"",
        lifetime: float | timedelta | None = None,
        *,
        timeout: float | None = None,
    ) -> int:
        return self._thread.do(self._client.publish(event, payload, lifetime, timeout=timeout))

    def publish_many(self, events: Iterable[Mapping[str, object]], *, timeout: float | None = None) -> int:
        """Send these events in turn; how many they were. They are taken in the caller's thread, some at a time."""
        check_timeout(timeout)
        check_events(events)
        end_s, sent, rest = None if timeout is None else monotonic() + timeout, 0, iter(events)
        while some := list(islice(rest, _MANY)):
            left_s = None if end_s is None else max(0.0, end_s - monotonic())
            sent = self._thread.do(self._client._publish_many(some, left_s, sent))
        return sent

    def flush(self, *, timeout: float | None = None) -> None:
        self._thread.do(self._client.flush(timeout=timeout))

    def attached(self, timeout: float | None = None) -> str:
        """Wait for a connection; the broker's name. TimeoutError after so many seconds."""
        return self._thread.do(self._attached(timeout))

    async def _attached(self, timeout: float | None) -> str:
        async with asyncio.timeout(timeout):
            return await self._client.attached()

    def attach(self, *addresses: str) -> None:
        self._thread.do(self._client.attach(*addresses))

    def detach(self) -> None:
        self._thread.do(self._client.detach())

    def states(self) -> SyncStates:
        """The changes of its connection, to be read with `for`; the first one is what it is now."""
        return SyncStates(self._thread.call(self._client.states), self._thread)

    def on_state(self, callback: Callback) -> Callable[[], None]:
        """Call this with each change of the connection, from the client's own thread; returns a function that ends it.

        The callback must not call the client, because it would wait for itself.
        """
        end = self._thread.call(lambda: self._client.on_state(callback))
        return lambda: None if self._thread.stopped else self._thread.call(end)

    def forget(self) -> None:
        self._thread.do(self._client.forget())

    def advertise(self, condition: str) -> SyncAdvertisement:
        return SyncAdvertisement(self._thread.call(lambda: self._client.advertise(condition)), self._thread)

    def subscribe(
        self,
        condition: str,
        *,
        group: str = "",
        queue_max: int = QUEUE_MAX,
        when_full: WhenFull = "drop-oldest",
        last: int | None = None,
        since: Since = None,
    ) -> SyncSubscription:
        parsed_condition(condition)  # here, where a warning finds the line of the caller
        wanted = partial(self._client.subscribe, condition, group=group, queue_max=queue_max, when_full=when_full)
        made = self._thread.call(partial(wanted, last=last, since=since))
        return SyncSubscription(made, self._thread, self._at_once)

    @property
    def settled(self) -> bool:
        """Whether nothing may be missing: no loss is unread or looked for, and others know of all we published."""
        return self._thread.call(lambda: self._client.settled)

    def losses(self) -> SyncLosses:
        """Events that were lost for good, or may have been: `take()` has those that have come, `for` waits for more."""
        return self._losses

    def close(self, in_haste: bool = False, *, timeout: float | None = None) -> None:
        check_timeout(timeout)
        if not self._closed:
            self._closed = True
            try:
                self._thread.do(self._client.close(in_haste, timeout=timeout))
            finally:
                self._thread.stop()

    def __repr__(self) -> str:
        return f"<Sync{repr(self._client)[1:]}"

    def __enter__(self) -> "SyncClient":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(in_haste=kind is not None)
