"""Messages as bytes, and back from bytes that nobody vouches for.

A frame is a version byte, a kind byte and a body in MessagePack; here the body is an array of messages, and a frame of
one message is what `encode` gives. All messages of a frame are decoded in one call that checks types and limits
as it goes.

Values survive exactly: integers of both 64-bit ranges stay integers, doubles stay doubles to the bit, timestamps are
UTC with microseconds. Beside scalars there are lists of them; nothing else nested, no other type, is accepted.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, get_args

import msgspec
from msgspec import Meta

from holdfast.model.encoded import array_head
from holdfast.model.errors import InputError, PeerError
from holdfast.model.event import odd_attribute
from holdfast.model.limits import (
    ATTRIBUTES_BYTES_MAX,
    ATTRIBUTES_MAX,
    BATCH_BYTES_MAX,
    FRAME_BYTES_MAX,
    MESSAGES_BYTES_MAX,
    NAME_CHARACTERS_MAX,
    PAYLOAD_BYTES_MAX,
)
from holdfast.model.messages import (
    AttributeValue,
    Batch,
    Deliver,
    Gossip,
    GossipEvent,
    Handover,
    Message,
    Numbered,
    Publication,
    Publish,
    SkewedPublication,
    Stamp,
    Stamped,
    with_skew,
)

VERSION: Final = 1
MESSAGES: Final = 0  # the kind of a frame that holds messages; wire/signals.py has the other

_HEAD = bytes([VERSION, MESSAGES])
_HEAD_OF_ONE = _HEAD + b"\x91"
FRAME_BYTES: Final = len(_HEAD_OF_ONE)  # what a frame of one message adds to it
_encoder = msgspec.msgpack.Encoder()
_messages = msgspec.msgpack.Decoder(list[Message])
# What msgspec raises for bytes it does not accept: text that is not UTF-8 and nesting have errors of their own.
DECODE_ERRORS: Final = (msgspec.DecodeError, ValueError, OverflowError, RecursionError)

_KINDS: dict[bytes, str] = {str(kind.__struct_config__.tag).encode(): kind.__name__ for kind in get_args(Message)}
_KINDS[b"stp"] = Publish.__name__  # one with more on it
_EVENTS = (Publish, Deliver, Stamped, GossipEvent)  # messages with one publication
_WITH_ONE_EVENT = frozenset({*_EVENTS, Numbered})
_NAMES_MAX = 10_000  # attribute names received before, whose length need not be looked at again: at most 10 MB
_names: set[str] = set()
_CONTROL_SEQ = 0  # of what recovering clients say to each other, whose payload may hold an event

_ABOUT_EVENTS = frozenset(
    str(kind.__struct_config__.tag).encode() for kind in (*_EVENTS, Batch, Numbered, Handover, *get_args(Gossip))
)

_SKEWED_HEAD = b"\x98"  # how a skewed publication begins: an array of eight. Others may have this byte, too

BATCH_HEAD: Final = b"\x9a\xa3run"  # how an encoded run begins: an array of ten, the first of them its tag

_BATCH_HEAD_BYTES = len(BATCH_HEAD) + 3  # with the length of its numbers
_BATCH_TAG = BATCH_HEAD[1:]
_TAG = _BATCH_TAG[0]  # of every message: a text of three letters
_ARRAY_16 = 0xDC  # an array whose length has two bytes

encode_message = _encoder.encode  # one message without a frame around it


def encode(message: Message) -> bytes:
    """A frame with this one message; an InputError when a value of its event cannot be sent exactly."""
    if isinstance(message, Handover) and message.message is not None:
        encode(message.message)  # which says what is wrong
    if isinstance(message, (*_EVENTS, Numbered)):
        _check_sendable(message.publication.attributes)
    elif isinstance(message, Batch):
        for attributes in message.attributes:
            _check_sendable(attributes)
    try:
        return framed([_encoder.encode(message)])
    except (UnicodeEncodeError, OverflowError, TypeError) as problem:
        raise InputError(f"a {type(message).__name__} cannot be sent: {problem}") from None


def framed(encoded: Collection[bytes]) -> bytes:
    """A frame around messages that are encoded already."""
    if len(encoded) == 1:
        (only,) = encoded
        return _HEAD_OF_ONE + only
    return b"".join((_HEAD, array_head(len(encoded)), *encoded))


def is_event(encoded: bytes) -> bool:
    """Whether an encoded message carries publications or is about recovering them; the others keep tables."""
    return encoded[2:5] in _ABOUT_EVENTS


def is_numbered(encoded: bytes) -> bool:
    """Whether an encoded message carries events with a number of their link."""
    return encoded[2:5] in (b"num", b"hnd")


def count_in(encoded: bytes) -> int:
    """How many messages this one stands for: as many as a batch has publications."""
    if encoded[2:5] != b"run":
        return 1
    head = encoded[5]  # of the array of numbers, which comes first
    return head & 0x0F if head < 0xDC else int.from_bytes(encoded[6:8], "big")


def shortened(encoded: bytes, bytes_less: int) -> bytes:
    """A batch without its oldest publications, by so many bytes; empty when nothing of the message would be left."""
    if encoded[2:5] != b"run" or bytes_less >= len(encoded):
        return b""
    tag, seqs, source, *lists, hops, since, upto, proof = msgspec.msgpack.decode(encoded)
    first = -(-bytes_less * len(seqs) // len(encoded))  # as if all were of one size
    if first >= len(seqs):
        return b""
    if since:  # nothing is stated of what was left out, nor of what came before it
        since = max(since, seqs[first - 1] + 1)
    return _encoder.encode([tag, seqs[first:], source, *[each[first:] for each in lists], hops, since, upto, proof])


def stated_behind(encoded: bytes) -> tuple[str, int] | None:
    """Source and number of an event that travels alone, if a statement about it may come behind it."""
    if encoded[2:5] not in (b"pub", b"del"):
        return None
    source, seq, _, _, _, _, record, *_ = msgspec.msgpack.decode(encoded)[1]
    return None if record is None or seq == _CONTROL_SEQ else (source, seq)


def source_of_batch(encoded: bytes) -> str | None:
    """None for any other message."""
    if encoded[2:5] != b"run":
        return None
    source: str = msgspec.msgpack.decode(encoded)[2]
    return source


def stating_from(encoded: bytes, first: int) -> bytes:
    """A batch that states nothing of lower numbers."""
    *events, since, upto, proof = msgspec.msgpack.decode(encoded)
    return _encoder.encode([*events, max(since, first) if since else 0, upto, proof])


def kind_of_encoded(encoded: bytes) -> str:
    """The name of an encoded message's class."""
    return _KINDS[encoded[2:5]]


def check_together_untrusted(frame: bytes | memoryview) -> None:
    """A PeerError for a frame from a connection with more messages, or more events, than nodes put into one.

    All of a frame is handled before anybody else is heard. This looks at its first bytes alone, because to decode it
    takes long, too; so a large frame has to begin as nodes write it.
    """
    size = len(frame)
    if size > MESSAGES_BYTES_MAX and frame[FRAME_BYTES - 1] != _HEAD_OF_ONE[-1]:
        raise PeerError(f"several messages in a frame of {size} bytes; the limit is {MESSAGES_BYTES_MAX}")
    if size > BATCH_BYTES_MAX:
        head = bytes(frame[FRAME_BYTES : FRAME_BYTES + _BATCH_HEAD_BYTES])
        if head[1] != _TAG:
            raise PeerError(f"a frame of {size} bytes begins with no message")
        if head[1:].startswith(_BATCH_TAG) and (head[len(BATCH_HEAD)] > _ARRAY_16 or count_in(head) > 1):
            raise PeerError(f"several events in a frame of {size} bytes; the limit is {BATCH_BYTES_MAX}")


def decode_untrusted(data: bytes) -> Message:
    """The one message of a frame from outside; raises only PeerError."""
    messages = decode_frame_untrusted(data)
    if len(messages) != 1:
        raise PeerError(f"expected one message in a frame, received {len(messages)}")
    return messages[0]


def decode_frame_untrusted(data: bytes | memoryview) -> list[Message]:
    """The messages of a frame from outside; raises only PeerError."""
    size = len(data)
    if not 2 < size <= FRAME_BYTES_MAX or data[0] != VERSION or data[1] != MESSAGES:
        check_head_untrusted(data, MESSAGES)  # which says what is wrong
    body = memoryview(data)[2:]
    try:
        messages = _messages.decode(body)
    except DECODE_ERRORS:
        messages = _decode_loosely(body)  # a timestamp, or something that is not acceptable
    events: list[dict[str, AttributeValue]] = []
    may_be_skewed = False
    for message in messages:
        each = message.message if type(message) is Handover else message
        if type(each) in _WITH_ONE_EVENT:
            publication = each.publication  # type: ignore[union-attr]
            events.append(publication.attributes)
            if publication.lifetime_us is not None or publication.seq == _CONTROL_SEQ:
                may_be_skewed = True
        elif type(each) is Batch:
            events += each.attributes
            _check_lengths_untrusted(each)
    names = events[0] if len(events) == 1 else set().union(*events)
    if not _names.issuperset(names):
        _check_names_untrusted(names)
    if size > ATTRIBUTES_BYTES_MAX:  # no event of a smaller frame is too large
        _check_sizes_untrusted(messages, events)
    return _decode_loosely(body) if may_be_skewed and _SKEWED_HEAD in bytes(body) else messages


def _check_names_untrusted(names: Collection[str]) -> None:
    if max(map(len, names)) > NAME_CHARACTERS_MAX:
        raise PeerError(f"an attribute's name of more than {NAME_CHARACTERS_MAX} characters")
    if len(_names) + len(names) > _NAMES_MAX:
        _names.clear()
    _names.update(names)


def _check_sizes_untrusted(messages: list[Message], events: list[dict[str, AttributeValue]]) -> None:
    for attributes in events:
        size = len(_encoder.encode(attributes))
        if size > ATTRIBUTES_BYTES_MAX:
            raise PeerError(f"event too large: its attributes take {size} bytes, the limit is {ATTRIBUTES_BYTES_MAX}")
    for message in messages:
        each = message.message if type(message) is Handover else message
        payloads: Sequence[bytes] = each.payloads if type(each) is Batch else ()
        if isinstance(each, (*_EVENTS, Numbered)) and each.publication.seq != _CONTROL_SEQ:
            payloads = (each.publication.payload,)
        size = max(map(len, payloads), default=0)
        if size > PAYLOAD_BYTES_MAX:
            raise PeerError(f"payload too large: {size} bytes, the limit is {PAYLOAD_BYTES_MAX}")


def _check_lengths_untrusted(batch: Batch) -> None:
    count = len(batch.seqs)
    if len(batch.times_us) != count or len(batch.attributes) != count or len(batch.payloads) not in (0, count):
        raise PeerError("a batch with lists of different lengths")


# Timestamps and skews --------------------------------------------------------------------------------------------
# In the types of messages an attribute is anything but a timestamp, because msgspec takes none beside a string, and
# decoding is quickest when the types say all. A frame with timestamps is decoded again with types that take anything;
# and so is one with the skew of two clocks, which is one more field of a publication, and rare.


def _loosened(kind: type[msgspec.Struct], **types: Any) -> type[msgspec.Struct]:
    """The same structure with other types for some fields."""
    fields = [
        (each.name, types.get(each.name, each.type), *(() if each.required else (each.default,)))
        for each in msgspec.structs.fields(kind)
    ]
    return msgspec.defstruct(kind.__name__, fields, array_like=True, tag=kind.__struct_config__.tag)


_AnyAttributes: Any = Annotated[dict[str, Any], Meta(max_length=ATTRIBUTES_MAX)]
_AnyPublication = _loosened(SkewedPublication, attributes=_AnyAttributes)
_loose_kinds: dict[Any, Any] = {_loosened(kind, publication=_AnyPublication): kind for kind in _EVENTS}
_AnyOnLink: Any = reduce(or_, [loose for loose, kind in _loose_kinds.items() if kind in (Publish, Stamped, Deliver)])
_AnyNumbered: Any = _loosened(Numbered, publish=_AnyOnLink)
_AnyRun: Any = _loosened(Batch, attributes=tuple[_AnyAttributes, ...])
_AnyHanded: Any = reduce(or_, [loose for loose, kind in _loose_kinds.items() if kind in (Publish, Deliver)])
_AnyHandover: Any = _loosened(Handover, message=_AnyHanded | _AnyRun | None)
_others = [kind for kind in get_args(Message) if kind not in (*_EVENTS, Batch, Numbered, Handover)]
_AnyMessage: Any = reduce(or_, [*_loose_kinds, _AnyRun, _AnyNumbered, _AnyHandover, *_others])
_loose: msgspec.msgpack.Decoder[list[Any]] = msgspec.msgpack.Decoder(list[_AnyMessage])


def _decode_loosely(body: memoryview) -> list[Message]:
    try:
        return [_tightened(each) for each in _loose.decode(body)]
    except DECODE_ERRORS as problem:
        raise PeerError(f"not a message: {problem}") from None


def _tightened(message: Any) -> Message:
    if type(message) is _AnyRun:
        _check_scalars_untrusted(message.attributes)
        return Batch(*msgspec.structs.astuple(message))
    if type(message) is _AnyNumbered:
        stream, seq, again, publish = msgspec.structs.astuple(message)
        return Numbered(stream, seq, again, _tightened(publish))  # type: ignore[arg-type]
    if type(message) is _AnyHandover:
        stream, seq, first, again, inner = msgspec.structs.astuple(message)
        return Handover(stream, seq, first, again, None if inner is None else _tightened(inner))  # type: ignore[arg-type]
    kind = _loose_kinds.get(type(message))
    if kind is None:
        return message  # type: ignore[no-any-return]
    publication, *rest = msgspec.structs.astuple(message)
    _check_scalars_untrusted([publication.attributes])
    return kind(with_skew(publication, publication.skew_us), *rest)  # type: ignore[no-any-return]


def _check_scalars_untrusted(events: Sequence[dict[str, Any]]) -> None:
    for attributes in events:
        if odd_attribute(attributes) is not None:
            raise PeerError("an attribute that is neither a scalar nor a list of scalars")


def check_head_untrusted(data: bytes | memoryview, kind: int) -> None:
    if not 2 < len(data) <= FRAME_BYTES_MAX:
        raise PeerError(f"a frame of {len(data)} bytes; expected 3 to {FRAME_BYTES_MAX}")
    if data[0] != VERSION:
        raise PeerError(f"protocol version {data[0]}; this is version {VERSION}")
    if data[1] != kind:
        raise PeerError(f"expected a frame of kind {kind}, received {data[1]}")


def _check_sendable(attributes: Mapping[str, AttributeValue]) -> None:
    odd = odd_attribute(attributes)
    if odd is not None:
        raise InputError(f"event attribute {odd}: {type(attributes[odd]).__name__} cannot be sent")
    for name, value in attributes.items():
        for each in value if type(value) is list else (value,):
            if type(each) is datetime and each.tzinfo is None:
                raise InputError(f"event attribute {name}: a timestamp needs a time zone to be sent")


# Sizes -----------------------------------------------------------------------------------------------------------

_SIZES_MAX = 8_192  # publications remembered: those on their way at one time in a network of thousands of links
_sizes: dict[int, tuple[Publication, int]] = {}  # by identity; the publication is kept so that no other takes its id
_stamp_sizes: dict[int, tuple[Stamp, int]] = {}  # the same for stamps
_homes_sizes: dict[tuple[str, ...], int] = {}

_EVENT_BYTES = FRAME_BYTES + 1 + 4 + 1  # the message's array, its tag, the head of `via`
_SHORT_HOPS = 128  # fewer take one byte
_NUMBERED_BYTES = 1 + 4 + 1  # one more array and tag, and whether it is sent once more


def size_of(message: Message) -> int:
    """`len(encode(message))`, quickly: a publication is measured once, however many nodes pass it on."""
    if type(message) is Publish or type(message) is Deliver or type(message) is Stamped:  # nearly always
        known = _sizes.get(id(message.publication))
        size = _EVENT_BYTES + len(message.via) + (_measure(message.publication) if known is None else known[1])
        if type(message) is Publish or type(message) is Stamped:
            size += len(_encoder.encode(message.homes)) if message.homes else 1
            size += 1 if message.hops < _SHORT_HOPS else len(_encoder.encode(message.hops))
        return size + _stamp_bytes(message.stamp, message.route) if type(message) is Stamped else size
    if type(message) is Numbered:
        counts = _bytes_of_count(message.stream) + _bytes_of_count(message.seq)
        return _NUMBERED_BYTES + size_of(message.publish) + counts
    if type(message) is Handover:
        inner = FRAME_BYTES + 1 if message.message is None else size_of(message.message)
        return _NUMBERED_BYTES + inner + sum(map(_bytes_of_count, (message.stream, message.seq, message.first)))
    return FRAME_BYTES + len(_encoder.encode(message))


def size_passed_on(size: int, came: Publish, message: Publish | Deliver) -> int:
    """`size_of` a message with the event of another, which has this size."""
    if type(message) is Publish:
        if came.homes or message.homes or message.hops >= _SHORT_HOPS:
            return size - _way_bytes(came) + _way_bytes(message)
        return size
    return size - _way_bytes(came)


def _way_bytes(publish: Publish) -> int:
    """What homes and hops take."""
    homes = publish.homes
    known = _homes_sizes.get(homes)
    if known is None:
        if len(_homes_sizes) >= _SIZES_MAX:
            _homes_sizes.clear()
        known = _homes_sizes[homes] = len(_encoder.encode(homes))
    return known + (1 if publish.hops < _SHORT_HOPS else len(_encoder.encode(publish.hops)))


def _stamp_bytes(stamp: Stamp, route: tuple[str, ...]) -> int:
    known = _stamp_sizes.get(id(stamp))
    if known is None:
        if len(_stamp_sizes) >= _SIZES_MAX:
            _stamp_sizes.clear()
        known = _stamp_sizes[id(stamp)] = stamp, len(_encoder.encode(stamp))
    return known[1] + (len(_encoder.encode(route)) if route else 1)


def _bytes_of_count(count: int) -> int:
    if count < 2**16:
        return 3 if count >= 2**8 else 2 if count >= 2**7 else 1
    return 5 if count < 2**32 else 9


def event_bytes(publication: Publication) -> int:
    return len(_encoder.encode(publication))


def _measure(publication: Publication) -> int:
    if len(_sizes) >= _SIZES_MAX:
        _sizes.clear()
    size = event_bytes(publication)
    _sizes[id(publication)] = publication, size
    return size
