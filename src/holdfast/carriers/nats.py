"""NATS core, by nats-py. At most once: a server that dies loses messages, and so does a slow consumer."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription
from nats.errors import Error as NatsError
from nats.errors import SlowConsumerError

from holdfast.carriers.addresses import BusAddress
from holdfast.carriers.carrier import NO_HEADERS, BusMessage, Passenger
from holdfast.language.lanes import Pattern
from holdfast.model.errors import TransportError
from holdfast.model.warn_once import warn_once

_CONNECT_S = 5
_PING_S = 2  # between pings of an idle connection: with two unanswered it is gone after six seconds
_LOOK_S = 1.0
_NOT_ALLOWED = "permissions violation"  # how a server says it; there is no error class of it
_FLUSH_S = 30  # a server that is alive answers sooner


class NatsCarrier:
    has_headers = True
    prefixes = False

    def __init__(self, address: BusAddress) -> None:
        self._address = address
        self._client = NatsClient()
        self._subscriptions: dict[Pattern, NatsSubscription] = {}
        self._passenger: Passenger
        self._closing = False
        self._watcher: asyncio.Task[None] | None = None
        self._problem = ""  # the last that was told
        self.payload_max = 1024 * 1024  # until the server says

    async def connect(self, passenger: Passenger) -> None:
        self._passenger = passenger
        url = self._address.url.replace("nats+tls://", "tls://", 1)
        try:
            await self._client.connect(
                url,
                allow_reconnect=False,
                max_reconnect_attempts=1,  # even the first connection is tried sixty times otherwise
                reconnect_time_wait=0,
                connect_timeout=_CONNECT_S,
                ping_interval=_PING_S,
                max_outstanding_pings=2,
                error_cb=self._on_error,
                closed_cb=self._on_closed,
            )
        except (NatsError, OSError, TimeoutError) as problem:
            reason = self._problem or problem
            raise TransportError(f"cannot connect to {self._address}: {reason}") from None
        self.payload_max = self._client.max_payload
        self._watcher = asyncio.create_task(self._watch())

    async def _on_error(self, problem: Exception) -> None:
        self._problem = str(problem) or type(problem).__name__
        if isinstance(problem, SlowConsumerError):
            self._passenger.on_dropped(1)
        elif _NOT_ALLOWED in self._problem.lower():  # the connection stays, and nothing else would tell
            warn_once(f"{self._address}: {self._problem}; Holdfast also needs the subjects ~SPACE.> and _INBOX.>")

    async def _watch(self) -> None:
        """nats-py tells nobody that it is closed when the last bytes cannot be written."""
        while not self._client.is_closed:
            await asyncio.sleep(_LOOK_S)
        await self._on_closed()

    async def _on_closed(self) -> None:
        if not self._closing:
            self._closing = True
            self._passenger.on_down(f"{self._address}: {self._problem or 'closed by the server'}")

    async def publish(self, messages: Sequence[BusMessage]) -> None:
        try:
            for each in messages:
                headers = dict(each.headers) if each.headers else None
                await self._client.publish(".".join(each.lane), each.payload, headers=headers)
        except (NatsError, OSError) as problem:
            raise self._gone(problem) from None

    async def subscribe(self, patterns: Iterable[Pattern]) -> None:
        try:
            for each in patterns:
                subject = ".".join(token.text if token.kind == "exact" else "*" for token in each)
                self._subscriptions[each] = await self._client.subscribe(subject, cb=self._on_message)
        except (NatsError, OSError) as problem:
            raise self._gone(problem) from None
        await self.flush()

    async def unsubscribe(self, patterns: Iterable[Pattern]) -> None:
        try:
            for each in patterns:
                await self._subscriptions.pop(each).unsubscribe()
        except (NatsError, OSError) as problem:
            raise self._gone(problem) from None

    async def _on_message(self, message: Msg) -> None:
        headers = message.headers or NO_HEADERS
        wait = self._passenger.on_message(BusMessage(tuple(message.subject.split(".")), message.data, headers))
        if wait is not None:
            await wait

    async def flush(self) -> None:
        try:
            # nats-py writes its ping before what still waits to be written, so the first answer proves nothing.
            await self._client.flush(_FLUSH_S)
            await self._client.flush(_FLUSH_S)
        except (NatsError, OSError) as problem:
            raise self._gone(problem) from None

    async def close(self) -> None:
        self._closing = True
        if self._watcher is not None:
            self._watcher.cancel()
        with suppress(NatsError, OSError):  # that its last bytes cannot be written any more
            await self._client.close()

    def _gone(self, problem: Exception) -> TransportError:
        return TransportError(f"{self._address}: {str(problem) or type(problem).__name__}")
