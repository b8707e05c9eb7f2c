"""What a broker with a store writes down of its MQTT clients, so that sessions outlive its process.

Notes are pairs of a key and a value; a value of None erases one. They are written in the order in which they were
made, and nothing that relies on one is sent before it is safe.
"""

from typing import Any, Final

import msgspec

from holdfast.mqtt.packets import AskedFilter, Will

SESSION: Final = "session"  # of a client
WILL: Final = "will"  # of a client, until it takes leave or its will is published
INCOMING: Final = "incoming"  # identifiers of quality 2 that a client has sent and not released
ROUND: Final = "round"  # of retained events, until a client has acknowledged them
OUTGOING: Final = "outgoing"  # events of quality 2 that a client was sent
RETAINED: Final = "retained"  # the event of a topic

Key = tuple[Any, ...]  # one of these, the client or the topic, and what else there is to tell
Notes = dict[bytes, bytes | None]

_encode = msgspec.msgpack.Encoder().encode


class SubscriptionNote(msgspec.Struct, frozen=True, array_like=True):
    asked: AskedFilter
    topic_filter: str
    condition: str
    identifier: int
    group: str = ""


class SessionNote(msgspec.Struct, frozen=True, array_like=True):
    expiry_s: int
    left_us: int  # when its connection ended; 0: it was connected
    subscriptions: tuple[SubscriptionNote, ...]


class IncomingNote(msgspec.Struct, frozen=True, array_like=True):
    """Under which number the client's seat handed the event over: the broker's store knows whether it has it."""

    stream: int
    seq: int


class OutgoingNote(msgspec.Struct, frozen=True, array_like=True):
    packet_id: int
    phase: str


class RoundNote(msgspec.Struct, frozen=True, array_like=True):
    began_us: int


def key_of(*parts: Any) -> bytes:
    return _encode(parts)


def value_of(note: SessionNote | IncomingNote | OutgoingNote | RoundNote | Will) -> bytes:
    return _encode(note)


def read_key(key: bytes) -> Key:
    return tuple(msgspec.msgpack.decode(key))
