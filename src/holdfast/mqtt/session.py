"""What a client and a broker remember of each other beyond a connection.

Subscriptions; packets of quality of service 1 and 2 that the client has not acknowledged, with their identifiers; and
the identifiers of quality 2 that it has sent and not released. A packet that is delivered again because its connection,
or its broker, was lost is recognised by the event's source and number, and keeps its identifier.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from holdfast.mqtt.packets import AskedFilter, Packet, PublishAck, PublishPacket, replaced
from holdfast.mqtt.reasons import protocol_error
from holdfast.mqtt.topics import matches

IDS_MAX = 65_535  # an identifier has 16 bits
_REPEATS_MAX = 1  # of a PUBLISH of quality 2 on one connection: more is a client that does not read

Key = tuple[str, int]  # an event's source and sequence number
Phase = Literal["sent", "released"]


class MqttSubscription(msgspec.Struct, frozen=True):
    """A subscription as the broker has it."""

    asked: AskedFilter  # with the filter as the client wrote it, which is its name
    topic_filter: str  # without a condition
    condition: str  # all of it, in the language
    identifier: int = 0  # 0: none

    def wants(self, topic: str, is_own: bool) -> bool:
        """Whether an event of this topic, for which the condition holds, is for it."""
        if is_own and self.asked.no_local:
            return False
        return matches(self.topic_filter, topic)


class _Outgoing:
    def __init__(self, packet: PublishPacket, token: int, key: Key) -> None:
        self.packet = packet
        self.token = token
        self.key = key
        self.phase: Phase = "sent"


class _Incoming:
    def __init__(self, content: tuple[str, bytes]) -> None:
        self.content = content
        self.repeats = 0
        self.stored = False


class MqttSession:
    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.expiry_s = 0  # after its connection has ended; 0: at once
        self.subscriptions: dict[str, MqttSubscription] = {}  # by the filter as it was written
        self._outgoing: dict[int, _Outgoing] = {}  # by identifier, in the order in which they were sent
        self._by_key: dict[Key, int] = {}
        self._last_id = 0
        self._incoming: dict[int, _Incoming] = {}

    # To the client -------------------------------------------------------------------------------

    @property
    def unacknowledged(self) -> int:
        """Packets to the client that it has not acknowledged."""
        return len(self._outgoing)

    def resume(self) -> list[Packet]:
        """What is sent again over a new connection."""
        again: list[Packet] = []
        for number, each in self._outgoing.items():
            released = each.phase == "released"
            again.append(PublishAck("pubrel", number) if released else replaced(each.packet, duplicate=True))
        for incoming in self._incoming.values():
            incoming.repeats = 0
        return again

    def number(self, packet: PublishPacket, token: int, key: Key) -> PublishPacket | None:
        """The packet with an identifier; None when it is under way already, and only its token has changed."""
        known = self._by_key.get(key)
        if known is not None:
            self._outgoing[known].token = token
            return None
        number = self._last_id
        while True:
            number = number % IDS_MAX + 1
            if number not in self._outgoing:
                break
        self._last_id = number
        numbered = replaced(packet, packet_id=number)
        self._outgoing[number] = _Outgoing(numbered, token, key)
        self._by_key[key] = number
        return numbered

    def on_ack(self, ack: PublishAck) -> tuple[list[Packet], list[int]]:
        """What to answer, and the tokens of events that the client now has, or does not want."""
        each = self._outgoing.get(ack.packet_id)
        refused = ack.reason >= 0x80
        if ack.kind == "pubrec" and not refused:
            if each is not None and each.packet.qos == 2:
                each.phase = "released"
            return [PublishAck("pubrel", ack.packet_id)], []
        if each is None or (ack.kind == "puback") != (each.packet.qos == 1):
            return [], []  # it is acknowledged already
        if ack.kind == "pubcomp" and each.phase != "released":
            return [], []
        del self._outgoing[ack.packet_id]
        del self._by_key[each.key]
        return [], [each.token]

    # From the client -----------------------------------------------------------------------------

    @property
    def unreleased(self) -> int:
        return len(self._incoming)

    def take(self, publish: PublishPacket) -> bool:
        """A PUBLISH of quality 2: whether it is new. One that repeats itself for ever is a protocol error."""
        content = publish.topic, publish.payload
        known = self._incoming.get(publish.packet_id)
        if known is None:
            self._incoming[publish.packet_id] = _Incoming(content)
            return True
        if known.content != content:
            known.content, known.repeats = content, 0
        else:
            known.repeats += 1
            if known.repeats > _REPEATS_MAX:
                raise protocol_error(f"packet {publish.packet_id} came {known.repeats + 1} times")
        return False

    def on_stored(self, packet_id: int) -> None:
        """The broker has it."""
        if packet_id in self._incoming:
            self._incoming[packet_id].stored = True

    def is_stored(self, packet_id: int) -> bool:
        return packet_id in self._incoming and self._incoming[packet_id].stored

    def release(self, packet_id: int) -> bool:
        """Whether the identifier was in use."""
        return self._incoming.pop(packet_id, None) is not None

    # What they want ------------------------------------------------------------------------------

    def chosen(self, ids: Iterable[str], topic: str, is_own: bool) -> list[MqttSubscription]:
        """Of the subscriptions whose conditions hold, those that an event of this topic is for."""
        found = [self.subscriptions[each] for each in ids if each in self.subscriptions]
        return [each for each in found if each.wants(topic, is_own)]
