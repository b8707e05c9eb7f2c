"""What a client and a broker remember of each other beyond a connection.

Subscriptions; packets of quality of service 1 and 2 that the client has not acknowledged, with their identifiers; and
the identifiers of quality 2 that it has sent and not released. A packet that is delivered again because its connection,
or its broker, was lost is recognised by the event's source and number, and keeps its identifier. Where the broker has a
store, what exactly-once needs is written down (`notes`) before anything that relies on it is sent.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Literal

import msgspec

from holdfast.mqtt.notes import (
    INCOMING,
    OUTGOING,
    SESSION,
    IncomingNote,
    Notes,
    OutgoingNote,
    SessionNote,
    SubscriptionNote,
    key_of,
    value_of,
)
from holdfast.mqtt.packets import AskedFilter, Packet, PublishAck, PublishPacket, replaced
from holdfast.mqtt.reasons import protocol_error
from holdfast.mqtt.topics import matches

IDS_MAX = 65_535  # an identifier has 16 bits
_REPEATS_MAX = 1  # of a PUBLISH of quality 2 on one connection: more is a client that does not read
_DONE_MAX = 10_000  # events that were acknowledged last: the broker's store may not have heard of it in its last second

EventKey = tuple[str, int]  # an event's source and sequence number
Phase = Literal["sent", "released", "done"]


class WantedPast(msgspec.Struct, frozen=True):
    """Events of the broker's history."""

    last: int  # so many at most; 0: all
    since_us: int  # from this moment on,
    ago: bool = False  # or from so long ago


class MqttSubscription(msgspec.Struct, frozen=True):
    """A subscription as the broker has it."""

    asked: AskedFilter  # with the filter as the client wrote it, which is its name
    topic_filter: str  # without a condition
    condition: str  # all of it, in the language
    identifier: int = 0  # 0: none
    group: str = ""  # that it is shared with
    past: WantedPast | None = None  # that it begins with

    def wants(self, topic: str, is_own: bool) -> bool:
        """Whether an event of this topic, for which the condition holds, is for it."""
        if is_own and self.asked.no_local:
            return False
        return matches(self.topic_filter, topic)


class _Outgoing:
    def __init__(
        self, packet: PublishPacket | None, token: int, key: EventKey, phase: Phase = "sent", shared: bool = False
    ) -> None:
        self.packet = packet  # None: the broker has begun again, and the event has not come to us again
        self.token = token
        self.key = key
        self.phase = phase
        self.shared = shared  # with a group: another member gets it when this one is gone
        self.qos = 2 if packet is None else packet.qos


class _Incoming:
    def __init__(self, content: bytes, stored: bool = False) -> None:
        self.content = content  # a digest of it
        self.repeats = 0
        self.stored = stored


class MqttSession:
    def __init__(self, name: str, has_notes: bool = False) -> None:
        self.name = name  # of the client among those of its broker
        self.expiry_s = 0  # after its connection has ended; 0: at once
        self.subscriptions: dict[str, MqttSubscription] = {}  # by the filter as it was written
        self._outgoing: dict[int, _Outgoing] = {}  # by identifier, in the order in which they were sent
        self._by_key: dict[EventKey, int] = {}
        self._done: dict[EventKey, None] = {}  # of quality 2, where there are notes
        self._last_id = 0
        self._incoming: dict[int, _Incoming] = {}
        self._has_notes = has_notes
        self._notes: Notes = {}

    # To the client -------------------------------------------------------------------------------

    @property
    def unacknowledged(self) -> int:
        """Packets to the client that it has not acknowledged."""
        return len(self._outgoing)

    def resume(self) -> list[Packet]:
        """What is sent again over a new connection.

        What the broker did not get over the one before is as if it had never come: the client sends that again.
        """
        again: list[Packet] = []
        for number, each in self._outgoing.items():
            if each.phase == "released":
                again.append(PublishAck("pubrel", number))
            elif each.packet is not None:
                again.append(replaced(each.packet, duplicate=True))
        for number in [number for number, each in self._incoming.items() if not each.stored]:
            self.release(number)
        for incoming in self._incoming.values():
            incoming.repeats = 0
        return again

    def forget_shared(self) -> tuple[int, ...]:
        """What was shared with others and not acknowledged is theirs now; the tokens of these events."""
        shared = {number: each for number, each in self._outgoing.items() if each.shared}
        for number, each in shared.items():
            del self._outgoing[number], self._by_key[each.key]
        return tuple([each.token for each in shared.values()])

    def number(
        self, packet: PublishPacket, token: int, key: EventKey, shared: bool = False
    ) -> tuple[PublishPacket | None, bool]:
        """The packet with an identifier, None when it was sent before; and whether the client is done with it."""
        if key in self._done:
            return None, True
        known = self._by_key.get(key)
        if known is not None:
            return self._again(self._outgoing[known], packet, known, token), False
        number = self._last_id
        while True:
            number = number % IDS_MAX + 1
            if number not in self._outgoing:
                break
        self._last_id = number
        numbered = replaced(packet, packet_id=number)
        self._outgoing[number] = _Outgoing(numbered, token, key, shared=shared)
        self._by_key[key] = number
        if packet.qos == 2:
            self._note_outgoing(number, key, "sent")
        return numbered, False

    def _again(self, each: _Outgoing, packet: PublishPacket, number: int, token: int) -> PublishPacket | None:
        """An event has come to us again: it goes to the client only if the broker has begun again meanwhile."""
        each.token = token
        if each.packet is not None:
            return None
        each.packet = replaced(packet, packet_id=number, qos=2)
        return replaced(each.packet, duplicate=True) if each.phase == "sent" else None

    def on_ack(self, ack: PublishAck) -> tuple[list[Packet], list[int]]:
        """What to answer, and the tokens of events that the client now has, or does not want."""
        each = self._outgoing.get(ack.packet_id)
        refused = ack.reason >= 0x80
        if ack.kind == "pubrec" and not refused:
            if each is not None and each.qos == 2 and each.phase == "sent":
                each.phase = "released"
                self._note_outgoing(ack.packet_id, each.key, "released")
            return [PublishAck("pubrel", ack.packet_id)], []
        if each is None or (ack.kind == "puback") != (each.qos == 1):
            return [], []  # it is acknowledged already
        if ack.kind == "pubcomp" and each.phase != "released":
            return [], []
        del self._outgoing[ack.packet_id]
        del self._by_key[each.key]
        if each.qos == 2:
            self._note_outgoing(ack.packet_id, each.key, "done")
        return [], [each.token]

    # From the client -----------------------------------------------------------------------------

    @property
    def unreleased(self) -> int:
        return len(self._incoming)

    def take(self, publish: PublishPacket) -> bool:
        """A PUBLISH of quality 2: whether it is new. One that repeats itself for ever is a protocol error."""
        content = blake2b(publish.topic.encode() + b"\0" + publish.payload, digest_size=16).digest()
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
        if self._has_notes:
            self._notes[key_of(INCOMING, self.name, packet_id)] = None
        return self._incoming.pop(packet_id, None) is not None

    # What they want ------------------------------------------------------------------------------

    def chosen(self, ids: Iterable[str], topic: str, is_own: bool) -> list[MqttSubscription]:
        """Of the subscriptions whose conditions hold, those that an event of this topic is for."""
        found = [self.subscriptions[each] for each in ids if each in self.subscriptions]
        return [each for each in found if each.wants(topic, is_own)]

    # Notes ---------------------------------------------------------------------------------------

    def notes(self) -> Notes:
        """What is to be written down now, before anything else is sent."""
        notes, self._notes = self._notes, {}
        return notes

    def note_session(self, left_us: int = 0) -> None:
        if self._has_notes:
            subscriptions = tuple(
                [
                    SubscriptionNote(each.asked, each.topic_filter, each.condition, each.identifier, each.group)
                    for each in self.subscriptions.values()
                ]
            )
            note = SessionNote(self.expiry_s, left_us, subscriptions)
            self._notes[key_of(SESSION, self.name)] = value_of(note)

    def note_incoming(self, packet_id: int, stream: int, seq: int) -> None:
        """A publication of quality 2 is about to be handed over under this number."""
        if self._has_notes:
            self._notes[key_of(INCOMING, self.name, packet_id)] = value_of(IncomingNote(stream, seq))

    def _note_outgoing(self, packet_id: int, key: EventKey, phase: Phase) -> None:
        if not self._has_notes:
            return
        self._notes[key_of(OUTGOING, self.name, *key)] = value_of(OutgoingNote(packet_id, phase))
        if phase == "done":
            self._done[key] = None
            if len(self._done) > _DONE_MAX:
                oldest = next(iter(self._done))
                del self._done[oldest]
                self._notes[key_of(OUTGOING, self.name, *oldest)] = None

    def note_end(self) -> None:
        """The session is over: nothing is to be found of it."""
        if self._has_notes:
            self._notes[key_of(SESSION, self.name)] = None
            self._notes |= {key_of(INCOMING, self.name, each): None for each in self._incoming}
            keys = [*self._by_key, *self._done]
            self._notes |= {key_of(OUTGOING, self.name, *each): None for each in keys}

    def restore(self, note: SessionNote) -> None:
        self.expiry_s = note.expiry_s
        for each in note.subscriptions:
            found = MqttSubscription(each.asked, each.topic_filter, each.condition, each.identifier, each.group)
            self.subscriptions[each.asked.filter] = found

    def restore_incoming(self, packet_id: int, stored: bool) -> None:
        """The broker has it, or else it is as if it had never come."""
        if stored:
            self._incoming[packet_id] = _Incoming(b"", stored=True)
        else:
            self._notes[key_of(INCOMING, self.name, packet_id)] = None

    def restore_outgoing(self, key: EventKey, note: OutgoingNote) -> None:
        if note.phase == "done":
            self._done[key] = None
        else:
            phase: Phase = "released" if note.phase == "released" else "sent"
            self._outgoing[note.packet_id] = _Outgoing(None, 0, key, phase)
            self._by_key[key] = note.packet_id
            self._last_id = max(self._last_id, note.packet_id)
