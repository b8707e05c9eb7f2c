"""What a gateway and those who read from it or publish through it say to each other.

Frames are those of the brokers (a length, a version byte, a kind byte, MessagePack), of a kind of their own. On one
connection each request is answered before the next is read, so nothing needs a number, and whatever is asked
twice because an answer was lost gets the same answer: every request may be repeated.

Both ends decode what they did not write themselves, with types and limits checked: only PeerError comes out.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from holdfast.model import limits
from holdfast.model.errors import PeerError
from holdfast.model.event import odd_attribute
from holdfast.model.message_fields import Count, NodeName
from holdfast.model.messages import Condition
from holdfast.store.logged import Logged, LoggedAttributes, LoggedPayload
from holdfast.wire.codec import DECODE_ERRORS, VERSION, check_head_untrusted

GATEWAY: Final = 2  # the kind of a frame that holds a request or an answer; 0 and 1 are the brokers'

FETCH_AIM = 2**20  # bytes of events in one answer: past this, larger answers gain nothing
STAGE_AIM = 2**20  # the same for events to be published
PARTS_MAX = 100_000  # partitions of one batch: Spark users are told to stay below 10,000 tasks
WAIT_US_MAX = 30_000_000  # a request that waits for events is answered after this long, so that a dead peer is noticed
REASON_CHARACTERS_MAX = 200_000  # of a refusal: it may show a long condition with what is wrong in it
STREAMS_MAX = 1_000  # that an answer may list

Name = Annotated[str, Meta(max_length=limits.NAME_CHARACTERS_MAX)]
LogId = Annotated[str, Meta(max_length=32)]


class EventToPublish(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event to be published."""

    attributes: LoggedAttributes
    payload: LoggedPayload = b""
    lifetime_us: Count | None = None


# Requests ------------------------------------------------------------------------------------------------------


class ListStreams(msgspec.Struct, frozen=True, array_like=True, tag="streams"):
    pass


class OpenStream(msgspec.Struct, frozen=True, array_like=True, tag="open"):
    """The stream of this condition, made now if there is none. Without a name, one is derived from the condition."""

    condition: Condition
    name: Name = ""


class AskEnds(msgspec.Struct, frozen=True, array_like=True, tag="ends"):
    """Where a stream begins and ends; answered when it ends beyond an offset, or when the time is over."""

    stream: Name
    beyond: Annotated[int, Meta(ge=-1, le=limits.TIME_US_MAX)] = -1
    wait_us: Annotated[int, Meta(ge=0, le=WAIT_US_MAX)] = 0


class Fetch(msgspec.Struct, frozen=True, array_like=True, tag="fetch"):
    """Events from `lo` up to, not including, `hi`; the answer may hold fewer, never other ones."""

    stream: Name
    log: LogId
    lo: Count
    hi: Count


class AckOffset(msgspec.Struct, frozen=True, array_like=True, tag="ack"):
    """A reader will not ask for anything before this offset again: a hint for retention."""

    stream: Name
    reader: Name
    end: Count


class Stage(msgspec.Struct, frozen=True, array_like=True, tag="stage"):
    """Keep these events until their batch is committed."""

    query: NodeName
    batch: Count
    partition: Count
    attempt: NodeName  # unique to one attempt of one task
    part: Count  # the number of this request within the attempt
    rows: list[EventToPublish]


class Part(msgspec.Struct, frozen=True, array_like=True):
    """What one task has staged."""

    partition: Count
    attempt: NodeName
    rows: Count


Parts = Annotated[list[Part], Meta(max_length=PARTS_MAX)]


class Commit(msgspec.Struct, frozen=True, array_like=True, tag="commit"):
    """Publish what these attempts have staged, all of it or nothing; a batch once committed is not committed again."""

    query: NodeName
    batch: Count
    parts: Parts


class Abort(msgspec.Struct, frozen=True, array_like=True, tag="abort"):
    query: NodeName
    batch: Count
    parts: Parts


class AskCounts(msgspec.Struct, frozen=True, array_like=True, tag="counts"):
    pass


Request = ListStreams | OpenStream | AskEnds | Fetch | AckOffset | Stage | Commit | Abort | AskCounts

# Answers -------------------------------------------------------------------------------------------------------

RefusalCode = Literal[
    "version",  # the two do not speak the same protocol
    "no such stream",
    "other log",  # the stream's log is not the one that was asked for: its folder was replaced
    "gone",  # retention has dropped these events
    "not yet",  # the log ends before
    "damaged",  # the log's files
    "not possible",  # a condition that is none, one stream too many, a name in use, an event that is too large
    "full",  # too much waits to be published; ask again later
    "incomplete",  # what is to be committed was not staged
]


class StreamState(msgspec.Struct, frozen=True, array_like=True, tag="stream"):
    name: Name
    log: LogId
    condition: Condition
    oldest: Count  # the first offset that can be fetched
    end: Count  # the first offset that cannot: all before it is on disk


class Streams(msgspec.Struct, frozen=True, array_like=True, tag="streams"):
    streams: Annotated[list[StreamState], Meta(max_length=STREAMS_MAX)]


class EventRows(msgspec.Struct, frozen=True, array_like=True, tag="rows"):
    first: Count
    rows: list[Logged]


class EncodedRows(msgspec.Struct, frozen=True, array_like=True, tag="rows"):
    """`EventRows` as they lie on disk."""

    first: int
    rows: list[msgspec.Raw]


class Staged(msgspec.Struct, frozen=True, array_like=True, tag="staged"):
    committed: bool  # its batch is, already: there is no need to send more


class Committed(msgspec.Struct, frozen=True, array_like=True, tag="committed"):
    again: bool  # it was before, and nothing has changed


class Confirmed(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    pass


class Counts(msgspec.Struct, frozen=True, array_like=True, tag="counts"):
    counts: Annotated[dict[str, int], Meta(max_length=1_000)]


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    code: RefusalCode
    reason: Annotated[str, Meta(max_length=REASON_CHARACTERS_MAX)]  # for a person
    oldest: Count = 0  # with "gone": where the log begins now


Answer = StreamState | Streams | EventRows | Staged | Committed | Confirmed | Counts | Refused

# Bytes ---------------------------------------------------------------------------------------------------------

_HEAD = bytes([VERSION, GATEWAY])
_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_outgoing: msgspec.msgpack.Decoder[list[EventToPublish]] = msgspec.msgpack.Decoder(list[EventToPublish])


def encode_gateway(message: Request | Answer | EncodedRows) -> bytes:
    return _HEAD + _encoder.encode(message)


def decode_request_untrusted(data: bytes | memoryview) -> Request:
    """The request in a frame from outside; raises only PeerError."""
    check_head_untrusted(data, GATEWAY)
    try:
        request = _requests.decode(memoryview(data)[2:])
    except DECODE_ERRORS as problem:
        raise PeerError(f"not a request: {problem}") from None
    if isinstance(request, Stage):
        _check_rows(request.rows)
    return request


def decode_answer_untrusted(data: bytes | memoryview) -> Answer:
    """The answer in a frame from outside; raises only PeerError."""
    check_head_untrusted(data, GATEWAY)
    try:
        answer = _answers.decode(memoryview(data)[2:])
    except DECODE_ERRORS as problem:
        raise PeerError(f"not an answer: {problem}") from None
    if isinstance(answer, EventRows):
        _check_rows(answer.rows)
    return answer


def encode_outgoing(rows: list[EventToPublish]) -> bytes:
    return _encoder.encode(rows)


def decode_outgoing(data: bytes) -> list[EventToPublish]:
    """What `encode_outgoing` gave, from our own store."""
    return _outgoing.decode(data)


def _check_rows(rows: list[EventToPublish] | list[Logged]) -> None:
    for row in rows:
        if odd_attribute(row.attributes) is not None:
            raise PeerError("an attribute that is neither a scalar nor a list of scalars")
        if len(max(row.attributes, key=len, default="")) > limits.NAME_CHARACTERS_MAX:
            raise PeerError(f"an attribute's name of more than {limits.NAME_CHARACTERS_MAX} characters")
