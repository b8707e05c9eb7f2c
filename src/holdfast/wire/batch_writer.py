"""Events of one source that leave in one message, a batch, put together from attributes that are encoded already.

Attributes are encoded once, where an event is published; a batch is then the bytes that are there,
behind the numbers and times. What may change from one hop to the next (hops, and what the batch states) lies behind all
else but the proof: a broker that passes a batch on as it came writes only these anew.
"""

from collections.abc import Sequence
from functools import cached_property

from msgspec import Raw, Struct
from msgspec.msgpack import Decoder

from holdfast.model.encoded import array_head
from holdfast.model.messages import Batch, Message
from holdfast.model.places import taker
from holdfast.wire.codec import BATCH_HEAD, FRAME_BYTES, count_in, encode_message


class _EncodedBatch(Struct, array_like=True, tag="run"):
    """A batch with the attributes of each event as they came."""

    seqs: Raw
    source: Raw
    times_us: Raw
    attributes: list[Raw]


_ONE = 0x91  # how a frame's array of one message begins

_cut = Decoder(_EncodedBatch).decode
_raw = Decoder(list[Raw]).decode


def _tail(batch: Batch) -> bytes:
    # Integers of full width, which every MessagePack reader takes for the same numbers as short ones.
    hops, since, upto = batch.hops.to_bytes(4), batch.since.to_bytes(8), batch.upto.to_bytes(8)
    return b"".join((b"\xce", hops, b"\xcf", since, b"\xcf", upto, encode_message(batch.proof)))


def _written(batch: Batch, *attributes: bytes | Raw) -> bytes:
    """A batch whose attributes are encoded."""
    numbers = map(encode_message, (batch.seqs, batch.source, batch.times_us))
    return b"".join((BATCH_HEAD, *numbers, *attributes, encode_message(batch.payloads), _tail(batch)))


class _FrameBatch:
    """A batch that has come, and its bytes."""

    def __init__(self, batch: Batch, encoded: bytes) -> None:
        self.batch = batch
        self._encoded = encoded

    @cached_property
    def body(self) -> bytes:
        """It without its tail; empty unless its sender wrote it as we do."""
        tail = _tail(self.batch)
        as_ours = self._encoded.startswith(BATCH_HEAD) and self._encoded.endswith(tail)
        return self._encoded[: -len(tail)] if as_ours and count_in(self._encoded) == len(self.batch.seqs) else b""

    @cached_property
    def pieces(self) -> list[Raw]:
        """The attributes of each event, cut out of it: an eighth of the time of encoding."""
        return _cut(self._encoded).attributes


class Relay:
    """The batches of one frame, for whoever passes them on, whole or in parts: no event is encoded twice."""

    def __init__(self, messages: Sequence[Message] = (), frame: bytes | memoryview = b"") -> None:
        """The messages of a frame, and the frame itself."""
        self._messages, self._frame = messages, frame
        self._encoded: dict[int, bytes | Raw] = {}  # attributes, by identity: whoever holds us holds the messages, too

    @cached_property
    def _came(self) -> dict[int, _FrameBatch]:
        """The batches of the frame, by the identity of their attributes."""
        encoded: list[Raw] | list[bytes | memoryview] = []
        if len(self._messages) == 1 and self._frame[FRAME_BYTES - 1] == _ONE:
            encoded = [self._frame[FRAME_BYTES:]]
        elif self._messages:
            encoded = _raw(self._frame[FRAME_BYTES - 1 :])
        if len(encoded) != len(self._messages):  # some were left out
            return {}
        pairs = zip(self._messages, encoded, strict=True)
        return {id(each.attributes): _FrameBatch(each, bytes(raw)) for each, raw in pairs if type(each) is Batch}

    def encoded(self, batch: Batch, whole: Batch | None = None, places: Sequence[int] = ()) -> bytes:
        """A batch that came, or some of its events, with other hops or another statement.

        Its events may be said by their places in a whole batch, which saves looking for each of them.
        """
        attributes: object = batch.attributes
        if type(attributes) is Raw:  # this process has published it
            return _written(batch, attributes)
        came = self._came.get(id(batch.attributes))
        if came is not None and came.batch.seqs is batch.seqs and batch.seqs and came.body:
            return came.body + _tail(batch)
        came = None if whole is None else self._came.get(id(whole.attributes))
        if came is None:
            pieces = self._one_by_one(batch)
        else:
            pieces = taker(places)(came.pieces)
        return _written(batch, array_head(len(pieces)), *pieces)

    def _one_by_one(self, batch: Batch) -> tuple[bytes | Raw, ...]:
        if not self._encoded:
            for came in self._came.values():
                self._encoded.update(zip(map(id, came.batch.attributes), came.pieces, strict=True))
        for each in batch.attributes:
            if id(each) not in self._encoded:
                self._encoded[id(each)] = encode_message(each)
        return tuple([self._encoded[id(each)] for each in batch.attributes])
