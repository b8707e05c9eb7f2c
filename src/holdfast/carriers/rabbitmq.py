"""RabbitMQ, by aio-pika, over a topic or a headers exchange: `amqp://host:port/vhost?exchange=headers`.

Each client has a queue of its own that ends with its connection: what is in it then is lost. Publishing is confirmed by
the server. A consumer acknowledges what it has taken, so that a slow one has its backlog at the server, up to a limit;
then the server drops the oldest.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import aio_pika
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import AMQPError

from holdfast.carriers.addresses import BusAddress
from holdfast.carriers.carrier import NO_HEADERS, BusMessage, Passenger
from holdfast.language.lanes import Lane, Pattern
from holdfast.model.errors import InputError, TransportError

_EXCHANGES = {"topic": "holdfast.topic", "headers": "holdfast.headers"}
_CONNECT_S = 5.0  # until a consumer is there; a node that boots accepts before it answers
_HEARTBEAT_S = 4  # a server is gone after two
_TAKEN = 256  # messages on their way to a consumer at a time
_QUEUE_BYTES = 64 * 2**20  # for one consumer at the server, as many as NATS keeps for one
_LANE = "lane"  # the header that has all of it
# The last is what aiormq raises for a connection that ends before its first byte is awaited.
_ERRORS = (AMQPError, OSError, RuntimeError, TimeoutError, StopAsyncIteration)

# What is worth a word is told to the passenger; without a handler each failed dial would be a line on stderr.
logging.getLogger("aiormq").addHandler(logging.NullHandler())


class RabbitCarrier:
    has_headers = True
    prefixes = False
    payload_max = 16 * 1024 * 1024  # of RabbitMQ 4; earlier ones take more

    def __init__(self, address: BusAddress) -> None:
        self._address = address
        self._kind = address.option("exchange", "topic")
        if self._kind not in _EXCHANGES:
            raise InputError(f"{address}: exchange can be topic or headers")
        self._passenger: Passenger
        self._connection: Any = None
        self._closed = False

    async def connect(self, passenger: Passenger) -> None:
        self._passenger = passenger
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self._open()
        except _ERRORS as problem:
            await self.close()
            reason = str(problem) or type(problem).__name__
            raise TransportError(f"cannot connect to {self._address}: {reason}") from None

    async def _open(self) -> None:
        self._connection = await aio_pika.connect(f"{self._address.url_without_options}?heartbeat={_HEARTBEAT_S}")
        self._connection.close_callbacks.add(self._on_closed)
        channel = await self._connection.channel(publisher_confirms=True)
        await channel.set_qos(prefetch_count=_TAKEN)
        kind = aio_pika.ExchangeType(self._kind)
        self._exchange = await channel.declare_exchange(_EXCHANGES[self._kind], kind)
        limits = {"x-max-length-bytes": _QUEUE_BYTES}
        self._queue = await channel.declare_queue(exclusive=True, auto_delete=True, arguments=limits)
        await self._queue.consume(self._on_message)

    def _on_closed(self, _: object, problem: BaseException | None) -> None:
        if not self._closed:
            self._closed = True
            self._passenger.on_down(f"{self._address}: {problem or 'closed by the server'}")

    async def _on_message(self, message: AbstractIncomingMessage) -> None:
        if self._closed:
            return
        headers = {name: str(value) for name, value in message.headers.items()} if message.headers else NO_HEADERS
        lane = headers.get(_LANE) if self._kind == "headers" else message.routing_key
        came = BusMessage(tuple((lane or "").split(".")), message.body, headers)
        wait = self._passenger.on_message(came)
        if wait is not None:
            await wait
        with suppress(*_ERRORS):
            await message.ack()

    async def publish(self, messages: Sequence[BusMessage]) -> None:
        # They are sent in the order of the calls, and their confirmations are awaited together.
        await self._done(*[self._publish_one(each) for each in messages])

    async def _publish_one(self, message: BusMessage) -> None:
        headers: dict[str, Any] = dict(message.headers)
        if self._kind == "headers":
            headers |= _lane_headers(message.lane)
        body = aio_pika.Message(message.payload, headers=headers)
        await self._exchange.publish(body, ".".join(message.lane), mandatory=False)

    async def subscribe(self, patterns: Iterable[Pattern]) -> None:
        await self._done(*[self._queue.bind(self._exchange, **self._binding(each)) for each in patterns])

    async def unsubscribe(self, patterns: Iterable[Pattern]) -> None:
        await self._done(*[self._queue.unbind(self._exchange, **self._binding(each)) for each in patterns])

    def _binding(self, pattern: Pattern) -> dict[str, Any]:
        key = ".".join(each.text if each.kind == "exact" else "*" for each in pattern)
        if self._kind == "topic":
            return {"routing_key": key}
        wanted = {f"lane-{at}": each.text for at, each in enumerate(pattern) if each.kind == "exact"}
        # The key says nothing to such an exchange but tells bindings apart.
        return {"routing_key": key, "arguments": {"x-match": "all", "lane-length": len(pattern), **wanted}}

    async def flush(self) -> None:
        """Publishing is confirmed."""
        if self._closed:
            raise TransportError(f"{self._address}: the connection is closed")

    async def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            with suppress(*_ERRORS):
                await self._connection.close()

    async def _done(self, *calls: Any) -> None:
        for each in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(each, BaseException):  # and CancelledError too, with which aiormq ends what waits
                raise TransportError(f"{self._address}: {str(each) or type(each).__name__}")


def _lane_headers(lane: Lane) -> dict[str, Any]:
    tokens = {f"lane-{at}": each for at, each in enumerate(lane)}
    return {_LANE: ".".join(lane), "lane-length": len(lane), **tokens}
