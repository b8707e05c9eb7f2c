"""Sessions and retained events from the notes of an earlier process.

What a client had handed over under quality 2 is compared with how far the broker's store has taken it: so an event that
was stored is not taken a second time, and one that was not is taken as if it had never come.
"""

from collections.abc import Mapping

import msgspec

from holdfast.model.messages import Publication
from holdfast.mqtt.notes import (
    INCOMING,
    OUTGOING,
    RETAINED,
    ROUND,
    SESSION,
    WILL,
    IncomingNote,
    Key,
    OutgoingNote,
    RoundNote,
    SessionNote,
    read_key,
)
from holdfast.mqtt.packets import Will
from holdfast.mqtt.retained import Retained
from holdfast.mqtt.session import MqttSession

_decode = msgspec.msgpack.decode


def restore(
    notes: Mapping[bytes, bytes],
    taken: Mapping[str, tuple[int, int]],
    retained: Retained,
) -> list[MqttSession]:
    """The sessions; and into `retained` the events of topics."""
    read: dict[Key, bytes] = {read_key(key): value for key, value in notes.items()}
    sessions: dict[str, MqttSession] = {}
    for key, value in read.items():
        if key[0] == SESSION:
            note = _decode(value, type=SessionNote)
            session = sessions[key[1]] = MqttSession(key[1], has_notes=True)
            session.restore(note)
        elif key[0] == RETAINED:
            retained.put(key[1], _decode(value, type=Publication))
    for key, value in read.items():
        known = sessions.get(key[1])
        if known is not None and key[0] == ROUND:
            known.restore_round(key[2], _decode(value, type=RoundNote))
        elif known is not None and key[0] == WILL:
            known.will = _decode(value, type=Will)
    for key, value in read.items():
        known = sessions.get(key[1])
        if known is not None and key[0] == INCOMING:
            handed = _decode(value, type=IncomingNote)
            stream, seq = taken.get(key[1], (0, 0))
            known.restore_incoming(key[2], stream == handed.stream and seq >= handed.seq)
        elif known is not None and key[0] == OUTGOING:
            known.restore_outgoing(key[2:], _decode(value, type=OutgoingNote))
    return list(sessions.values())
