"""MQTT 5 and 3.1.1, by aiomqtt, with QoS 0 or 1: `mqtt://host:port?version=3.1.1&qos=1`.

With QoS 0 a broker drops what a slow subscriber does not take. QoS 1 is acknowledged hop by hop, and sessions are
clean: what a broker has not delivered when it dies is lost as well.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import aiomqtt
from aiomqtt.message import Message
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from holdfast.carriers.addresses import BusAddress
from holdfast.carriers.carrier import NO_HEADERS, BusMessage, Headers, Passenger
from holdfast.language.lanes import Pattern
from holdfast.model.errors import InputError, TransportError

_VERSIONS = {"5": aiomqtt.ProtocolVersion.V5, "3.1.1": aiomqtt.ProtocolVersion.V311}
_CONNECT_S = 5.0
_KEEPALIVE_S = 6  # a broker that does not answer for half as long again is gone
_ANSWER_S = 30.0
_QUEUED_MAX = 65_536  # messages that wait here for the passenger; then some are dropped, and counted
_FLUSH = "~holdfast/flush"  # nobody listens there
_LOG = logging.getLogger("holdfast.mqtt")
_LOG.addHandler(logging.NullHandler())  # what is worth a word is told to the passenger


class MqttCarrier:
    prefixes = False
    payload_max = 256 * 1024 * 1024 - 1024  # of the protocol; brokers may be configured to take less

    def __init__(self, address: BusAddress) -> None:
        self._address = address
        version, qos = address.option("version", "5"), address.option("qos", "0")
        if version not in _VERSIONS or qos not in ("0", "1"):
            raise InputError(f"{address}: version can be 5 or 3.1.1, and qos 0 or 1")
        self._version, self._qos = _VERSIONS[version], int(qos)
        self.has_headers = version == "5"
        self._passenger: Passenger
        self._reader: asyncio.Task[None] | None = None
        self._closed = False

    async def connect(self, passenger: Passenger) -> None:
        self._passenger = passenger
        on_full = passenger.on_dropped

        class Counting(asyncio.Queue[Message]):
            """aiomqtt drops what does not fit and says so in a log alone."""

            def put_nowait(self, item: Message) -> None:
                try:
                    super().put_nowait(item)
                except asyncio.QueueFull:
                    on_full(1)

        self._client = aiomqtt.Client(
            self._address.host,
            self._address.port,
            username=self._address.user,
            password=self._address.password,
            protocol=self._version,
            keepalive=_KEEPALIVE_S,
            timeout=_CONNECT_S,
            logger=_LOG,
            queue_type=Counting,
            max_queued_incoming_messages=_QUEUED_MAX,
            tls_params=aiomqtt.TLSParameters() if self._address.kind == "mqtts" else None,
            clean_session=True
            if self._version is aiomqtt.ProtocolVersion.V311
            else None,  # of MQTT 5 it is another flag
        )
        self._client.pending_calls_threshold = _QUEUED_MAX  # we wait for each other call ourselves
        try:
            await self._client.__aenter__()
        except (aiomqtt.MqttError, OSError) as problem:
            raise TransportError(f"cannot connect to {self._address}: {problem}") from None
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for message in self._client.messages:
                payload = message.payload if isinstance(message.payload, bytes) else b""
                came = BusMessage(tuple(message.topic.value.split("/")), payload, _headers_of(message))
                wait = self._passenger.on_message(came)
                if wait is not None:
                    await wait
        except aiomqtt.MqttError as problem:
            if not self._closed:
                self._closed = True
                self._passenger.on_down(f"{self._address}: {problem}")

    async def publish(self, messages: Sequence[BusMessage]) -> None:
        # Calls begin in order, so events leave in order; with QoS 1 their acknowledgements are awaited together.
        await self._done(*[self._publish_one(each) for each in messages])

    async def _publish_one(self, message: BusMessage) -> None:
        topic, properties = "/".join(message.lane), _properties_of(message.headers)
        await self._client.publish(topic, message.payload, self._qos, properties=properties, timeout=_ANSWER_S)

    async def subscribe(self, patterns: Iterable[Pattern]) -> None:
        filters = [(_filter_of(each), self._qos) for each in patterns]
        if filters:
            await self._done(self._client.subscribe(filters, timeout=_ANSWER_S))

    async def unsubscribe(self, patterns: Iterable[Pattern]) -> None:
        filters = [_filter_of(each) for each in patterns]
        if filters:
            await self._done(self._client.unsubscribe(filters, timeout=_ANSWER_S))

    async def flush(self) -> None:
        """A broker handles what a client sends in order: when it acknowledges this, it has all that was before."""
        await self._done(self._client.publish(_FLUSH, b"", 1, timeout=_ANSWER_S))

    async def close(self) -> None:
        self._closed = True
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None
            with suppress(aiomqtt.MqttError):
                await self._client.__aexit__(None, None, None)

    async def _done(self, *calls: Any) -> None:
        try:
            for each in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(each, BaseException):
                    raise each
        except (aiomqtt.MqttError, OSError, ValueError) as problem:
            raise TransportError(f"{self._address}: {problem}") from None


def _filter_of(pattern: Pattern) -> str:
    return "/".join(each.text if each.kind == "exact" else "+" for each in pattern)


def _properties_of(headers: Headers) -> Properties | None:
    if not headers:
        return None
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = list(headers.items())
    return properties


def _headers_of(message: Message) -> Headers:
    pairs = getattr(message.properties, "UserProperty", None) if message.properties is not None else None
    return dict(pairs) if pairs else NO_HEADERS
