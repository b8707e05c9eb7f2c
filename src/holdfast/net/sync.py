"""The client for scripts and notebooks: the same names without `async`, with the event loop in a thread.

    with holdfast.connect_sync("tcp://127.0.0.1:7001") as client:
        client.publish({"symbol": "IBM", "price": 119.5})
        for delivery in client.subscribe("symbol = 'IBM' AND price < 120"):
            print(delivery.event)

Each call hands its work to that thread and waits, which costs some 50 microseconds; a program in a hurry uses
`connect`.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from holdfast.model.errors import MisuseError
from holdfast.net.accounting import Account
from holdfast.net.advertisement import Advertisement
from holdfast.net.client import Client, connect
from holdfast.net.counters import Counters
from holdfast.net.loop import new_loop
from holdfast.net.losses import Loss
from holdfast.net.subscription import QUEUE_MAX, Delivery, Subscription, WhenFull
from holdfast.protocol.hops.settings import Hops, HopSettings
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.settings import ClientReliability, Order, ProtocolSettings, RecoveryWord

T = TypeVar("T")

_AT_ONCE_MAX = 100  # deliveries fetched with one call: enough to hide its cost, few enough to be fresh


def connect_sync(
    address: str | Sequence[str],
    *,
    name: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    ca: str | None = None,
    settings: ProtocolSettings | None = None,
    recovery: bool | RecoveryWord | RecoverySettings | SrmSettings = "none",
    order: Order | LatchSettings = "none",
    hops: Hops | HopSettings = "basic",
    durable: bool = False,
    **former: str | None,
) -> "SyncClient":
    """A client that is connected already; leave it with `with` or `close()`. See `connect` for its arguments."""
    client = connect(
        address,
        name=name,
        certificate=certificate,
        key=key,
        ca=ca,
        settings=settings,
        recovery=recovery,
        order=order,
        hops=hops,
        durable=durable,
        **former,
    )
    return SyncClient(client, 1 if ClientReliability(hops, durable=durable).hop_settings.durable else _AT_ONCE_MAX)


class _Thread:
    """An event loop that runs in a thread of its own."""

    def __init__(self) -> None:
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there."""
        if self.stopped:
            work.close()
            raise MisuseError("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], T]) -> T:
        async def work() -> T:
            return function()

        return self.do(work())

    @property
    def stopped(self) -> bool:
        return self._loop.is_closed()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncSubscription:
    """What one subscription brings, to be read with `for`."""

    def __init__(self, subscription: Subscription, thread: _Thread, at_once: int = _AT_ONCE_MAX) -> None:
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
        """The next delivery; TimeoutError after so many seconds, StopIteration when the subscription has ended."""
        if not self._fetched and not self._thread.stopped:
            self._fetched.extend(self._thread.do(self._fetch(timeout)))
        if not self._fetched:
            raise StopIteration
        return self._fetched.popleft()

    async def _fetch(self, timeout: float | None) -> list[Delivery]:
        async with asyncio.timeout(timeout):  # here, where no delivery can slip in between taking and giving up
            return await self._subscription.batch(self._at_once)

    def close(self) -> None:
        if not self._subscription.closed and not self._thread.stopped:
            self._thread.call(self._subscription.close)

    def __enter__(self) -> "SyncSubscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SyncAdvertisement:
    def __init__(self, advertisement: Advertisement, thread: _Thread) -> None:
        self._advertisement = advertisement
        self._thread = thread

    @property
    def condition(self) -> str:
        return self._advertisement.condition

    def close(self) -> None:
        self._thread.call(self._advertisement.close)


class SyncClient:
    """The calls of `Client`, which wait here instead of being awaited; from any thread."""

    def __init__(self, client: Client, at_once: int = _AT_ONCE_MAX) -> None:
        self._client = client
        self._at_once = at_once
        self._thread = _Thread()
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
    ) -> int:
        return self._thread.do(self._client.publish(event, payload, lifetime))

    def flush(self) -> None:
        self._thread.do(self._client.flush())

    def forget(self) -> None:
        self._thread.do(self._client.forget())

    def advertise(self, condition: str) -> SyncAdvertisement:
        return SyncAdvertisement(self._thread.call(lambda: self._client.advertise(condition)), self._thread)

    def subscribe(
        self, condition: str, *, queue_max: int = QUEUE_MAX, when_full: WhenFull = "drop-oldest"
    ) -> SyncSubscription:
        made = self._thread.call(lambda: self._client.subscribe(condition, queue_max=queue_max, when_full=when_full))
        return SyncSubscription(made, self._thread, self._at_once)

    @property
    def settled(self) -> bool:
        """Whether nothing may be missing: no loss is unread or looked for, and others know of all we published."""
        return self._thread.call(lambda: self._client.settled)

    def losses(self) -> list[Loss]:
        """Events that were lost for good, or may have been, since the last call."""
        return self._thread.call(self._client.losses().take)

    def close(self, in_haste: bool = False) -> None:
        if not self._closed:
            self._closed = True
            self._thread.do(self._client.close(in_haste))
            self._thread.stop()

    def __enter__(self) -> "SyncClient":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(in_haste=kind is not None)
