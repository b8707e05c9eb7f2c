"""Events of one source that leave in one message, a batch, put together from attributes that are encoded already.

Attributes are encoded once, where an event is published; a batch is then the bytes that are there,
behind the numbers and times. What may change from one hop to the next (hops, and what the batch states) lies behind all
else but the proof: a broker that passes a batch on as it came writes only these anew.
"""

from collections.abc import Sequence

from msgspec import Raw
from msgspec.msgpack import Decoder

from holdfast.model.encoded import joined
from holdfast.model.messages import Batch, Message
from holdfast.wire.codec import BATCH_HEAD, FRAME_BYTES, count_in, encode_message

_ATTRIBUTES = 4  # their place among a batch's fields, behind its tag
_array = Decoder(list[Raw]).decode


def _tail(batch: Batch) -> bytes:
    # Integers of full width, which every MessagePack reader takes for the same numbers as short ones.
    hops, since, upto = batch.hops.to_bytes(4), batch.since.to_bytes(8), batch.upto.to_bytes(8)
    return b"".join((b"\xce", hops, b"\xcf", since, b"\xcf", upto, encode_message(batch.proof)))


def encode_batch(batch: Batch, attributes: Raw) -> bytes:
    """A batch whose attributes are encoded."""
    numbers = map(encode_message, (batch.seqs, batch.source, batch.times_us))
    return b"".join((BATCH_HEAD, *numbers, attributes, encode_message(batch.payloads), _tail(batch)))


class Relay:
    """The batches of one frame, for whoever passes them on, whole or in parts: no event is encoded twice."""

    def __init__(self, messages: Sequence[Message] = (), frame: bytes | memoryview = b"") -> None:
        """The messages of a frame, and the frame itself."""
        only = messages[0] if len(messages) == 1 else None
        self._only = only if type(only) is Batch else None
        self._frame = frame
        self._encoded: dict[int, bytes | Raw] = {}  # attributes, by identity: whoever holds us holds the messages, too

    def encoded(self, batch: Batch) -> bytes:
        """A batch that came, or some of its events, with other hops or another statement."""
        if self._only is not None and batch.attributes is self._only.attributes:
            body = self._body(self._only)
            if body is not None:
                return body + _tail(batch)
        attributes: object = batch.attributes
        if type(attributes) is Raw:  # this process has published it
            return encode_batch(batch, attributes)
        if not self._encoded and self._only is not None:
            self._encoded = self._as_they_came(self._only)
        pieces = list(map(self._encoded.get, map(id, batch.attributes)))
        if None in pieces:
            self._encoded.update(zip(map(id, batch.attributes), map(encode_message, batch.attributes), strict=True))
            pieces = list(map(self._encoded.get, map(id, batch.attributes)))
        return encode_batch(batch, joined(pieces))  # type: ignore[arg-type]  # there is no None left

    def _as_they_came(self, only: Batch) -> dict[int, bytes | Raw]:
        """The attributes of each event of the frame's only batch, cut out of it: a fourth of the time of encoding."""
        fields = _array(bytes(self._frame[FRAME_BYTES:]))
        return dict(zip(map(id, only.attributes), _array(fields[_ATTRIBUTES]), strict=True))

    def _body(self, only: Batch) -> bytes | None:
        """The frame's only batch without its tail, if its sender wrote it as we do."""
        encoded, tail = bytes(self._frame[FRAME_BYTES:]), _tail(only)
        as_ours = encoded[: len(BATCH_HEAD)] == BATCH_HEAD and encoded.endswith(tail)
        return encoded[: -len(tail)] if as_ours and count_in(encoded) == len(only.seqs) else None
