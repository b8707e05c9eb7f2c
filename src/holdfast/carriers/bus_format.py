"""Messages of Holdfast's clients as bytes on a bus, and back from bytes that nobody vouches for.

Four bytes say what a payload is, and no JSON text or MessagePack document begins with them: whatever begins otherwise
was published by a plain client of the bus. Behind them stand messages as on any wire. So a batch of events is one
message of the bus, and is encoded once.
"""

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from holdfast.model.encoded import array_head
from holdfast.model.errors import PeerError
from holdfast.model.message_fields import (
    Count,
)
from holdfast.model.messages import (
    Batch,
    Deliver,
    Publication,
)
from holdfast.protocol.recovery.control import CONTROL_SEQ, distances, numbers
from holdfast.wire.codec import DECODE_ERRORS, MESSAGES, VERSION, decode_frame_untrusted, encode_message

_MARK = b"\xc1hf"  # no text in UTF-8 has the first byte, and MessagePack never uses it
_EVENTS: Final = _MARK + b"e"
_CONTROL: Final = _MARK + b"c"
_TIME: Final = _MARK + b"t"
_TIME_BYTES = 20
_FRAME = bytes([VERSION, MESSAGES])
_LANES_MAX = 65_536  # in a layout: as many as there can be numbers
_NUMBERS_MAX = 65_536  # of one lane in it

_LaneText = Annotated[str, Meta(max_length=4_096)]
_Numbers = Annotated[tuple[Count, ...], Meta(max_length=_NUMBERS_MAX)]


class Layout(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which of a publisher's last numbers travelled on which lanes: who follows some lanes learns what it has missed.

    Numbers that are not in it may have travelled anywhere.
    """

    lanes: Annotated[tuple[tuple[_LaneText, _Numbers], ...], Meta(max_length=_LANES_MAX)]

    @staticmethod
    def of(noted: Sequence[tuple[str, Sequence[int]]]) -> "Layout":
        by_lane: dict[str, list[int]] = {}
        for lane, seqs in noted:
            by_lane.setdefault(lane, []).extend(seqs)
        return Layout(tuple((lane, distances(sorted(seqs))) for lane, seqs in by_lane.items()))

    def numbers(self) -> list[tuple[str, list[int]]]:
        return [(lane, numbers(steps)) for lane, steps in self.lanes]


class CarriedEvents(NamedTuple):
    messages: list[Deliver | Batch]


class Control(NamedTuple):
    publication: Publication
    layout: Layout | None = None  # with a digest, where a space has several lanes


_encode = msgspec.msgpack.Encoder().encode
_layout = msgspec.msgpack.Decoder(Layout | None).decode


def events_payload(encoded: Sequence[bytes]) -> bytes:
    """Events that stand or fall together, each message encoded already."""
    return b"".join((_EVENTS, array_head(len(encoded)), *encoded))


def control_payload(publication: Publication, layout: Layout | None = None) -> bytes:
    message = encode_message(Deliver(publication))
    return b"".join((_CONTROL, len(message).to_bytes(4), message, _encode(layout)))


def mark_payload(connection: int, now_us: int) -> bytes:
    """What a client sends itself over a connection, with the time."""
    return b"".join((_TIME, connection.to_bytes(8), now_us.to_bytes(8)))


def mark_in(payload: bytes, connection: int) -> int | None:
    """The time in such a payload of this connection; None: it is something else."""
    return int.from_bytes(payload[12:]) if connection_in(payload) == connection else None


def connection_in(payload: bytes) -> int | None:
    """Over which connection somebody has sent such a payload; None: it is something else."""
    is_mark = len(payload) == _TIME_BYTES and payload[:4] == _TIME
    return int.from_bytes(payload[4:12]) if is_mark else None


def read_untrusted(payload: bytes) -> CarriedEvents | Control | None:
    """What a payload holds; None: it is that of a plain client. Raises only PeerError."""
    kind = payload[:4]
    if kind == _EVENTS:
        return CarriedEvents(_events_untrusted(b"".join((_FRAME, memoryview(payload)[4:]))))
    if kind == _CONTROL:
        return _control_untrusted(payload)
    if payload[:3] == _MARK:
        raise PeerError(f"a message of kind {payload[3:4]!r}, which this version does not know")
    return None


def _events_untrusted(frame: bytes) -> list[Deliver | Batch]:
    messages: list[Deliver | Batch] = []
    for each in decode_frame_untrusted(frame):
        if not isinstance(each, Deliver | Batch):
            raise PeerError(f"a {type(each).__name__} on a lane of events")
        messages.append(each)
    return messages


def _control_untrusted(payload: bytes) -> Control:
    size = int.from_bytes(payload[4:8])
    messages = _events_untrusted(b"".join((_FRAME, array_head(1), memoryview(payload)[8 : 8 + size])))
    only = messages[0] if len(messages) == 1 else None
    if not isinstance(only, Deliver) or only.publication.seq != CONTROL_SEQ:
        raise PeerError("a control message that is none")
    try:
        return Control(only.publication, _layout(memoryview(payload)[8 + size :]))
    except DECODE_ERRORS as problem:
        raise PeerError(f"not a layout of lanes: {problem}") from None
