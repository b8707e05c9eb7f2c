"""A client of MQTT for tests: packets out, packets in, nothing on its own."""

import asyncio
import ssl
from types import TracebackType
from typing import Any, TypeVar

from holdfast.mqtt.decoding import Framer, decode_untrusted
from holdfast.mqtt.encoding import encode
from holdfast.mqtt.packets import (
    AskedFilter,
    Connack,
    Connect,
    Packet,
    Pingreq,
    Pingresp,
    PublishAck,
    PublishPacket,
    Suback,
    Subscribe,
    Will,
)
from holdfast.net.broker import Broker

P = TypeVar("P")
PATIENCE_S = 20.0


def mqtt_port(broker: Broker) -> int:
    return next(int(each.rpartition(":")[2]) for each in broker.addresses if each.startswith("mqtt"))


class MqttClient:
    def __init__(
        self,
        port: int,
        client_id: str,
        version: int = 5,
        clean: bool = True,
        will: Will | None = None,
        tls: ssl.SSLContext | None = None,
        user: str | None = None,
        password: bytes | None = None,
        **properties: Any,
    ) -> None:
        self._port = port
        self._tls = tls
        self.version = version
        self._hello = Connect(client_id, version, clean, 0, will, user, password, properties)
        self._framer = Framer(2**24, lambda first: None)
        self._packets: list[Packet] = []
        self._numbers = 0
        self.connack: Connack

    async def __aenter__(self) -> "MqttClient":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls)
        self.send(self._hello)
        self.connack = await self.next(Connack)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def abort(self) -> None:
        """As a process that is killed."""
        self._writer.transport.abort()

    def send(self, packet: Packet) -> None:
        self._writer.write(encode(packet, self.version))

    async def any(self) -> Packet:
        """The next packet, whatever it is; EOFError at the end."""
        async with asyncio.timeout(PATIENCE_S):
            while not self._packets:
                data = await self._reader.read(2**16)
                if not data:
                    raise EOFError
                self._packets += [decode_untrusted(*each, self.version) for each in self._framer.feed_untrusted(data)]
        return self._packets.pop(0)

    async def next(self, kind: type[P]) -> P:
        found = await self.any()
        assert isinstance(found, kind), found
        return found

    async def _acknowledged(self, packet_id: int, *kinds: str) -> PublishAck:
        """Wait for an acknowledgement, and keep what comes before it for later."""
        before: list[Packet] = []
        while True:
            found = await self.any()
            if isinstance(found, PublishAck) and found.packet_id == packet_id and found.kind in kinds:
                self._packets[:0] = before
                return found
            before.append(found)

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    async def subscribe(
        self, *filters: str, qos: int = 0, options: dict[str, Any] | None = None, **properties: Any
    ) -> Suback:
        asked = tuple([AskedFilter(each, qos, **(options or {})) for each in filters])
        self.send(Subscribe(self.number(), asked, properties))
        return await self.next(Suback)

    async def publish(
        self, topic: str, payload: bytes = b"", qos: int = 0, retain: bool = False, **properties: Any
    ) -> PublishAck | None:
        """Until it is acknowledged."""
        number = self.number() if qos else 0
        self.send(PublishPacket(topic, payload, qos, retain, packet_id=number, properties=properties))
        if not qos:
            return None
        ack = await self._acknowledged(number, "puback", "pubrec")
        if qos == 2 and ack.reason < 0x80:
            self.send(PublishAck("pubrel", number))
            await self._acknowledged(number, "pubcomp")
        return ack

    async def event(self) -> PublishPacket:
        """The next event, acknowledged."""
        found = await self.next(PublishPacket)
        if found.qos == 1:
            self.send(PublishAck("puback", found.packet_id))
        if found.qos == 2:
            self.send(PublishAck("pubrec", found.packet_id))
            await self._acknowledged(found.packet_id, "pubrel")
            self.send(PublishAck("pubcomp", found.packet_id))
        return found

    async def silent(self) -> bool:
        """Whether nothing has come before the answer to a ping."""
        self.send(Pingreq())
        return isinstance(await self.any(), Pingresp)
