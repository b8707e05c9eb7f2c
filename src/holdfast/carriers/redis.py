"""Redis pub/sub, by redis-py. At most once: a subscriber whose buffer at the server is full is disconnected.

There are no headers. Glob patterns know prefixes; a `*` in them matches separators too, so lanes are compared again.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from holdfast.carriers.addresses import BusAddress
from holdfast.carriers.carrier import BusMessage, Passenger
from holdfast.language.lanes import Pattern, is_exact, pattern_matches
from holdfast.model.errors import TransportError

_CONNECT_S = 5.0  # with the answer to the first ping
_LOOK_S = 2.0  # without a message for so long, the server is asked whether it is there
_ANSWER_S = 6.0
_HEAR_S = 0.05  # between two looks for the answer: often enough against the seconds above
_PUBLISH_S = 60.0  # for as many bytes as wait for the bus (1 MiB) over 20 kB/s


class RedisCarrier:
    has_headers = False
    prefixes = True
    payload_max = 512 * 1024 * 1024  # of a string; servers may be configured to take less

    def __init__(self, address: BusAddress) -> None:
        self._address = address
        # Without retries: who is connected again in silence has missed something and does not know.
        self._client: Any = Redis.from_url(
            address.url_without_options,
            retry=Retry(NoBackoff(), 0),
            socket_connect_timeout=_CONNECT_S,
            protocol=2,
        )
        self._pubsub: Any = None
        self._passenger: Passenger
        self._reader: asyncio.Task[None] | None = None
        self._asker: asyncio.Task[None] | None = None
        self._patterns: dict[Pattern, bytes] = {}
        self._confirmed = asyncio.Event()
        self._waits_for: set[tuple[str, bytes]] = set()
        self._heard_s = 0.0  # when the connection of subscriptions has brought something, be it the answer to a ping
        self._handing = False  # somebody takes a message, and nothing is read meanwhile
        self._closed = False

    async def connect(self, passenger: Passenger) -> None:
        self._passenger = passenger
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self._client.ping()
                self._pubsub = self._client.pubsub()
                await self._pubsub.connect()
        except (RedisError, OSError, TimeoutError) as problem:
            await self._client.aclose()
            raise TransportError(f"cannot connect to {self._address}: {str(problem) or 'no answer'}") from None
        self._reader = asyncio.create_task(self._read())
        self._asker = asyncio.create_task(self._ask())

    async def _read(self) -> None:
        try:
            while True:
                found = await self._pubsub.get_message(timeout=None)
                self._heard_s = asyncio.get_running_loop().time()
                wait = self._on_reply(found) if found is not None else None
                if wait is not None:
                    self._handing = True
                    await wait
                    self._handing = False
        except Exception as problem:  # also AttributeError, of a connection that the library has taken down meanwhile
            self._down(problem)

    async def _ask(self) -> None:
        try:
            while True:
                await asyncio.sleep(_LOOK_S)
                async with asyncio.timeout(_ANSWER_S):
                    await self._client.ping()
                    await self._hear()
        except Exception as problem:  # as above
            self._down(problem)

    async def _hear(self) -> None:
        """Until the connection of subscriptions answers as well: it may be dead while the other one lives."""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        await self._pubsub.ping()
        while self._heard_s < asked_s and not self._handing:
            await asyncio.sleep(_HEAR_S)

    def _down(self, problem: Exception) -> None:
        if not self._closed:
            self._closed = True
            self._confirmed.set()
            self._passenger.on_down(f"{self._address}: {str(problem) or 'no answer'}")

    def _on_reply(self, found: dict[str, Any]) -> Any:
        kind, channel = found["type"], found["channel"]
        if kind not in ("message", "pmessage"):
            self._waits_for.discard((kind, channel))
            if not self._waits_for:
                self._confirmed.set()
            return None
        lane = tuple(channel.decode(errors="replace").split("."))
        if kind == "pmessage" and not any(
            text == found["pattern"] and pattern_matches(each, lane) for each, text in self._patterns.items()
        ):
            return None
        return self._passenger.on_message(BusMessage(lane, found["data"]))

    async def publish(self, messages: Sequence[BusMessage]) -> None:
        try:
            pipeline = self._client.pipeline(transaction=False)
            for each in messages:
                pipeline.publish(".".join(each.lane), each.payload)
            async with asyncio.timeout(_PUBLISH_S):
                await pipeline.execute()
        except (RedisError, OSError, TimeoutError) as problem:
            raise self._gone(problem) from None

    async def subscribe(self, patterns: Iterable[Pattern]) -> None:
        for each in patterns:
            self._patterns[each] = _text_of(each)
            if is_exact(each):
                await self._change("subscribe", self._pubsub.subscribe, self._patterns[each])
            else:
                await self._change("psubscribe", self._pubsub.psubscribe, self._patterns[each])

    async def unsubscribe(self, patterns: Iterable[Pattern]) -> None:
        for each in patterns:
            text = self._patterns.pop(each)
            if is_exact(each):
                await self._change("unsubscribe", self._pubsub.unsubscribe, text)
            else:
                await self._change("punsubscribe", self._pubsub.punsubscribe, text)

    async def _change(self, kind: str, command: Any, text: bytes) -> None:
        """Send a command and wait until the server has confirmed it."""
        self._confirmed.clear()
        self._waits_for.add((kind, text))
        try:
            await command(text)
        except (RedisError, OSError) as problem:
            raise self._gone(problem) from None
        await self._confirmed.wait()
        if self._closed:
            raise TransportError(f"{self._address}: the connection is gone")

    async def flush(self) -> None:
        """What was published was answered; so it is enough that the server is there."""
        try:
            if self._closed:
                raise OSError("the connection is closed")
            await self._client.ping()
        except (RedisError, OSError) as problem:
            raise self._gone(problem) from None

    async def close(self) -> None:
        self._closed = True
        for task in (self._reader, self._asker):
            if task is not None:
                task.cancel()
        with suppress(RedisError, OSError):
            if self._pubsub is not None:
                await self._pubsub.aclose()
            await self._client.aclose()

    def _gone(self, problem: Exception) -> TransportError:
        return TransportError(f"{self._address}: {str(problem) or type(problem).__name__}")


def _text_of(pattern: Pattern) -> bytes:
    wild = {"exact": "{}", "prefix": "{}*", "any": "*"}
    return ".".join(wild[each.kind].format(each.text) for each in pattern).encode()
