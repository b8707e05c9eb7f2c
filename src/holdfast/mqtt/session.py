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
    ROUND,
    SESSION,
    WILL,
    IncomingNote,
    Key,
    Notes,
    OutgoingNote,
    RoundNote,
    SessionNote,
    SubscriptionNote,
    key_of,
    value_of,
)
from holdfast.mqtt.packets import AskedFilter, PublishAck, PublishPacket, Will, replaced
from holdfast.mqtt.reasons import protocol_error
from holdfast.mqtt.replays import EventKey, Round, is_new
from holdfast.mqtt.topics import matches

IDS_MAX = 65_535  # an identifier has 16 bits
NO_TOKEN = 0  # of an event that nobody keeps for us, or that has not come from there yet
_REPEATS_MAX = 1  # of a PUBLISH of quality 2 on one connection: more is a client that does not read
_DONE_MAX = 10_000  # events that were acknowledged last: the broker's store may not have heard of it in its last second

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
        self,
        packet: PublishPacket | None,
        token: int,
        key: EventKey,
        phase: Phase = "sent",
        shared: bool = False,
        round_: Round | None = None,
    ) -> None:
        self.packet = packet  # None: the broker has begun again, and the event has not come to us again
        self.token = token
        self.key = key
        self.phase = phase
        self.shared = shared  # with a group: another member gets it when this one is gone
        self.round = round_  # that it belongs to, if it is retained and replayed
        self.under_way = False  # it was sent over the connection that there is
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
        self.left_us = 0  # when its connection has ended; 0: it is connected
        self.will: Will | None = None  # that is to be published
        self.subscriptions: dict[str, MqttSubscription] = {}  # by the filter as it was written
        self.rounds: dict[str, Round] = {}  # of retained events, by subscription, until the client has them all
        self.under_way = 0  # packets sent over this connection that the client has not acknowledged
        self._outgoing: dict[int, _Outgoing] = {}  # by identifier, in the order in which they were sent
        self._by_key: dict[EventKey, int] = {}
        self._awaited = 0  # of them, those that an earlier process has sent and whose events have not come to us again
        self._done: dict[EventKey, None] = {}  # of quality 2, where there are notes
        self._had: dict[EventKey, None] = {}  # acknowledged before the broker has handed them over again
        self._last_id = 0
        self._incoming: dict[int, _Incoming] = {}
        self._has_notes = has_notes
        self._notes: Notes = {}

    # To the client -------------------------------------------------------------------------------

    def resume(self) -> tuple[list[PublishAck], list[int]]:
        """What is sent at once over a new connection, and the identifiers of what is sent again, in their order.

        What the broker did not get over the one before is as if it had never come: the client sends that again.
        """
        released: list[PublishAck] = []
        again: list[int] = []
        self.under_way = 0
        for number, each in self._outgoing.items():
            each.under_way = False
            if each.phase == "released":
                released.append(PublishAck("pubrel", number))
            elif each.packet is not None:
                again.append(number)
        for number in [number for number, each in self._incoming.items() if not each.stored]:
            self.release(number)
        for incoming in self._incoming.values():
            incoming.repeats = 0
        return released, again

    def sent_again(self, number: int) -> PublishPacket | None:
        """A packet for the new connection; None when that is not needed any more."""
        each = self._outgoing.get(number)
        if each is None or each.packet is None or each.under_way or each.phase != "sent":
            return None
        self._goes(each)
        return replaced(each.packet, duplicate=True)

    def begin_tokens(self) -> None:
        """Tokens are given anew, because the broker hands over again what the client has not acknowledged.

        Until an event has come again, nobody can be told that the client has it: its old token may be another's by now.
        """
        self._had.clear()
        for each in self._outgoing.values():
            each.token = NO_TOKEN

    def _goes(self, each: _Outgoing) -> None:
        each.under_way = True
        self.under_way += 1

    def _drop(self, number: int) -> _Outgoing:
        each = self._outgoing.pop(number)
        del self._by_key[each.key]
        self.under_way -= each.under_way
        return each

    def forget_shared(self) -> tuple[int, ...]:
        """What was shared with others and not acknowledged is theirs now; the tokens of these events."""
        shared = [number for number, each in self._outgoing.items() if each.shared]
        return tuple([self._drop(number).token for number in shared])

    def number(
        self, packet: PublishPacket, token: int, key: EventKey, shared: bool = False, round_: Round | None = None
    ) -> tuple[PublishPacket | None, bool]:
        """The packet with an identifier, None when it was sent before; and whether the client is done with it."""
        if key in self._done or (round_ is not None and key in round_.done):
            return None, True
        if key in self._had:
            del self._had[key]
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
        numbered = PublishPacket(
            packet.topic, packet.payload, packet.qos, packet.retain, False, number, packet.properties
        )
        each = self._outgoing[number] = _Outgoing(numbered, token, key, shared=shared, round_=round_)
        self._by_key[key] = number
        self._goes(each)
        if round_ is not None:
            round_.unacknowledged += 1
        if packet.qos == 2:
            self._note_outgoing(number, key, "sent")
        return numbered, False

    def _again(self, each: _Outgoing, packet: PublishPacket, number: int, token: int) -> PublishPacket | None:
        """An event has come to us again: it goes to the client only if the broker has begun again meanwhile."""
        each.token = token
        if each.packet is not None:
            return None
        each.packet = replaced(packet, packet_id=number, qos=2)
        if each.phase != "sent":
            return None
        self._awaited -= 1
        self._goes(each)
        return replaced(each.packet, duplicate=True)

    def give_up_awaited(self, round_: Round | None = None) -> list[PublishAck]:
        """What an earlier process has sent and does not come again: it has expired, or is not wanted any more.

        The client may have it and wait for its release, and must not take another event of this identifier for it.
        """
        released: list[PublishAck] = []
        for number, each in self._outgoing.items() if self._awaited else ():
            if each.packet is None and each.phase == "sent" and each.round is round_:
                each.phase = "released"
                self._note_outgoing(number, each.key, "released")
                released.append(PublishAck("pubrel", number))
        self._awaited -= len(released)
        return released

    def on_ack(self, ack: PublishAck) -> tuple[list[PublishAck], list[int]]:
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
        self.done(ack.packet_id)
        return [], [each.token]

    def done(self, number: int) -> int:
        """The client has it, or does not take it; the token of its event."""
        each = self._drop(number)
        if each.round is not None:
            each.round.unacknowledged -= 1
        if each.qos == 2:
            self._note_done(number, each)
        elif each.token == NO_TOKEN and is_new(each.key):
            self._had[each.key] = None
        if each.round is not None:
            self._look_whether_over(each.round)
        return each.token

    # Retained events -----------------------------------------------------------------------------

    def begin_round(self, name: str, now_us: int) -> None:
        """A subscription begins with what is retained."""
        self.end_round(name)
        self.rounds[name] = Round(name, now_us)
        if self._has_notes:
            self._notes[key_of(ROUND, self.name, name)] = value_of(RoundNote(now_us))

    def end_round(self, name: str) -> None:
        """Nothing more of it is to be sent."""
        round_ = self.rounds.pop(name, None)
        if round_ is not None:
            self._erase([(ROUND, self.name, name)])
            round_.is_read = True
            self._look_whether_over(round_)

    def on_read(self, round_: Round) -> list[PublishAck]:
        """All of it was found and sent; what is to be released because it is retained no longer."""
        round_.is_read = True
        released = self.give_up_awaited(round_)
        self._look_whether_over(round_)
        return released

    def _look_whether_over(self, round_: Round) -> None:
        if not round_.is_over:
            return
        self._erase([(OUTGOING, self.name, *key) for key in round_.done])
        round_.done.clear()
        if self.rounds.get(round_.name) is round_:
            del self.rounds[round_.name]
            self._erase([(ROUND, self.name, round_.name)])

    def has_had(self, key: EventKey) -> bool:
        """Whether an event that came as new was sent to the client, as far as we remember."""
        return key in self._by_key or key in self._done

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
        self._erase([(INCOMING, self.name, packet_id)])
        return self._incoming.pop(packet_id, None) is not None

    # What they want ------------------------------------------------------------------------------

    def chosen(self, ids: Iterable[str], topic: str, is_own: bool) -> list[MqttSubscription]:
        """Of the subscriptions whose conditions hold, those that an event of this topic is for."""
        found: list[MqttSubscription] = []
        for id_ in ids:
            each = self.subscriptions.get(id_)
            if each is not None and each.wants(topic, is_own):
                found.append(each)
        return found

    # Notes ---------------------------------------------------------------------------------------

    def notes(self) -> Notes:
        """What is to be written down now, before anything else is sent."""
        notes, self._notes = self._notes, {}
        return notes

    def note_session(self) -> None:
        if self._has_notes:
            subscriptions = tuple(
                [
                    SubscriptionNote(each.asked, each.topic_filter, each.condition, each.identifier, each.group)
                    for each in self.subscriptions.values()
                ]
            )
            note = SessionNote(self.expiry_s, self.left_us, subscriptions)
            self._notes[key_of(SESSION, self.name)] = value_of(note)

    def _erase(self, keys: Iterable[Key]) -> None:
        if self._has_notes:
            self._notes |= {key_of(*each): None for each in keys}

    def set_will(self, will: Will | None) -> None:
        """What is to be published when the client goes without leave; None: nothing any more."""
        if self._has_notes and will != self.will:
            self._notes[key_of(WILL, self.name)] = None if will is None else value_of(will)
        self.will = will

    def note_incoming(self, packet_id: int, stream: int, seq: int) -> None:
        """A publication of quality 2 is about to be handed over under this number."""
        if self._has_notes:
            self._notes[key_of(INCOMING, self.name, packet_id)] = value_of(IncomingNote(stream, seq))

    def _note_outgoing(self, packet_id: int, key: EventKey, phase: Phase) -> None:
        if self._has_notes:
            self._notes[key_of(OUTGOING, self.name, *key)] = value_of(OutgoingNote(packet_id, phase))

    def _note_done(self, packet_id: int, each: _Outgoing) -> None:
        """It is not to be sent again by the next process, if that may come by it."""
        if not self._has_notes:
            return
        if each.round is None and not is_new(each.key):
            self._erase([(OUTGOING, self.name, *each.key)])
            return
        self._note_outgoing(packet_id, each.key, "done")
        if each.round is not None:
            each.round.done.add(each.key)
            return
        self._done[each.key] = None
        if len(self._done) > _DONE_MAX:
            oldest = next(iter(self._done))
            del self._done[oldest]
            self._erase([(OUTGOING, self.name, *oldest)])

    def note_end(self) -> None:
        """The session is over: nothing is to be found of it."""
        keys = [*self._by_key, *self._done, *[key for each in self.rounds.values() for key in each.done]]
        self._erase([(SESSION, self.name), (WILL, self.name)])
        self._erase([(ROUND, self.name, each) for each in self.rounds])
        self._erase([(INCOMING, self.name, each) for each in self._incoming])
        self._erase([(OUTGOING, self.name, *each) for each in keys])

    def restore(self, note: SessionNote) -> None:
        self.expiry_s, self.left_us = note.expiry_s, note.left_us
        for each in note.subscriptions:
            found = MqttSubscription(each.asked, each.topic_filter, each.condition, each.identifier, each.group)
            self.subscriptions[each.asked.filter] = found

    def restore_round(self, name: str, note: RoundNote) -> None:
        if name in self.subscriptions:
            self.rounds[name] = Round(name, note.began_us, is_resumed=True)
        else:
            self._erase([(ROUND, self.name, name)])

    def restore_incoming(self, packet_id: int, stored: bool) -> None:
        """The broker has it, or else it is as if it had never come."""
        if stored:
            self._incoming[packet_id] = _Incoming(b"", stored=True)
        else:
            self._erase([(INCOMING, self.name, packet_id)])

    def restore_outgoing(self, key: EventKey, note: OutgoingNote) -> None:
        round_ = None if is_new(key) else self._round_of(key)
        if note.phase == "done" and is_new(key):
            self._done[key] = None
        elif note.phase == "done":
            if round_ is None:
                self._erase([(OUTGOING, self.name, *key)])
            else:
                round_.done.add(key)
        else:
            comes_again = note.phase == "sent" and (is_new(key) or round_ is not None)
            phase: Phase = "sent" if comes_again else "released"
            self._outgoing[note.packet_id] = _Outgoing(None, NO_TOKEN, key, phase, round_=round_)
            self._by_key[key] = note.packet_id
            self._last_id = max(self._last_id, note.packet_id)
            self._awaited += comes_again
            if round_ is not None:
                round_.unacknowledged += 1

    def _round_of(self, key: EventKey) -> Round | None:
        found = self.rounds.get(key[2])
        return found if found is not None and found.began_us == key[3] else None
