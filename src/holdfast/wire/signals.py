"""What the ends of a connection say to each other before and beside the messages of the protocol.

Who dials says hello, the other end answers with a welcome or a refusal; a broker may have to prove first that it is
one, in answer to a challenge. A ping is answered with a pong once everything
sent before it has been handled, which is how a client learns that its publications have reached the broker. Where a
session outlives its connection, its frames are counted in each direction and acknowledged. Machines never see a signal.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from holdfast.model.errors import PeerError
from holdfast.model.limits import CONDITION_CHARACTERS_MAX
from holdfast.model.message_fields import Count, NodeName
from holdfast.model.messages import NodeKind
from holdfast.wire.codec import DECODE_ERRORS, VERSION, check_head_untrusted

TOKEN_CHARACTERS_MAX = 8_192  # what web servers take as a header
SIGNAL: Final = 1  # the kind of a frame that holds one signal
# Of what we know: 3 adds outages that last, who is reached, and lists in events (0.3); 2 added statements, outages that
# are over and `Hold` (0.2); 0 is a peer that names no level (0.1).
LEVEL: Final = 3
STATEMENTS: Final = 2
LISTS: Final = 3  # from here on events may hold lists

Nonce = Annotated[bytes, Meta(max_length=32)]
Proof = Annotated[bytes, Meta(max_length=64)]

RefusalCode = Literal[
    "version",  # the two do not speak the same protocol
    "taken",  # another node with this name is connected
    "other connection",  # both dialled, and the other connection is the one to keep
    "greet first",  # a message from somebody who is not, or no longer, connected
    "full",  # too many connections
    "bye",  # the end of a session for good; a connection that ends without it may be resumed
    "not here",  # this node is not the one that was dialled, or not of the right kind
]


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    node: NodeName
    kind: NodeKind
    epoch: Count  # when the node began: the same name with another epoch is another incarnation
    replaces: NodeName | None = None  # it is the replica of this broker
    session: Count = 0  # what a new session of this client is to be called; 0: it keeps none
    resumes: Count = 0  # the session that it would rather go on with; 0: none
    received: Count = 0  # how many frames of that it has
    lossless: bool = False  # it would rather be waited for than lose anything, because it recovers or orders events
    durable: bool | None = None  # whether what it is subscribed to outlives it; None from one that does not say
    level: Count = 0  # of the messages that it knows: it is sent no others
    now_us: Count = 0  # by its clock; 0 from one that does not say
    expects: NodeName | None = None  # whom it means to reach; None: whoever is there
    repairs: bool = False  # it numbers what it sends, asks for what it misses, and names what does not come
    nonce: Nonce = b""  # for the broker that is dialled to prove itself with
    proof: Proof = b""  # of a broker, once it was challenged: that it has the key which brokers share
    token: Annotated[str, Meta(max_length=TOKEN_CHARACTERS_MAX)] = ""  # of a client: who it is
    secret: Count = 0  # drawn when the node began: who comes back knows it, and nobody else; 0 from one without


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag="welcome"):
    node: NodeName
    kind: NodeKind
    epoch: Count
    stores: bool | None = None  # whether it stores events; None from one that does not say
    session: Count = 0  # the one that holds now: the new one, or the one that goes on; 0: it ends with the connection
    received: Count = 0  # how many frames of it have come from the client
    now_us: Count = 0  # by the broker's clock
    level: Count = 0  # of the messages that it knows: it is sent no others
    repairs: bool = False  # the same of this end
    proof: Proof = b""  # to a broker: that this one has the key which brokers share
    keeps: bool = False  # it keeps events, and may be asked for them (`AskPast`)


class Challenge(msgspec.Struct, frozen=True, array_like=True, tag="challenge"):
    """Say hello again, with a proof about this and about what you say of yourself."""

    nonce: Nonce


class Refusal(msgspec.Struct, frozen=True, array_like=True, tag="refusal"):
    code: RefusalCode
    reason: Annotated[str, Meta(max_length=1_000)]  # one line for a person


class Ping(msgspec.Struct, frozen=True, array_like=True, tag="ping"):
    token: Count


class Pong(msgspec.Struct, frozen=True, array_like=True, tag="pong"):
    token: Count


class Ack(msgspec.Struct, frozen=True, array_like=True, tag="ack"):
    received: Count  # frames of the session so far: those up to here need not be kept any more


class Missed(msgspec.Struct, frozen=True, array_like=True, tag="missed"):
    """Stands in a session's stream, and counts as a frame of it, where the oldest events were dropped."""

    events: Count
    since_us: Count  # when they came in, by the broker's clock: between then
    until_us: Count  # and then


class Mark(msgspec.Struct, frozen=True, array_like=True, tag="mark"):
    now_us: Count  # by the broker's clock: what came for the client before then stands before this


class Denied(msgspec.Struct, frozen=True, array_like=True, tag="denied"):
    """To a client: you have no right to this subscription, or to publish these events."""

    condition: Annotated[str, Meta(max_length=CONDITION_CHARACTERS_MAX)]  # empty: it is about events
    instead: Annotated[str, Meta(max_length=CONDITION_CHARACTERS_MAX)]  # which may be subscribed to; empty: nothing
    reason: Annotated[str, Meta(max_length=1_000)]  # one line for a person
    seq: Count = 0  # of the first of these events
    events: Count = 0


class AskPast(msgspec.Struct, frozen=True, array_like=True, tag="past"):
    """From a client: events that you have kept, of those that a condition describes.

    A client asks from the beginning, and then on from where the last answer ended.
    """

    token: Count  # comes back with the answer
    condition: Annotated[str, Meta(max_length=CONDITION_CHARACTERS_MAX)]
    since_us: Count  # published since then, by the clocks of their publishers
    last: Count  # begin with the last so many; 0: with the oldest
    log: Annotated[str, Meta(max_length=32)] = ""  # the history that the client reads; empty: from the beginning
    lo: Count = 0  # go on from this offset
    events_max: Count = 0  # in one answer
    ends: bool = True  # say where the history ends now


class Past(msgspec.Struct, frozen=True, array_like=True, tag="kept"):
    """The answer: some of these events, and where to go on."""

    token: Count
    log: Annotated[str, Meta(max_length=32)] = ""
    next: Count = 0  # all before this offset was looked at
    end: Count = 0  # of the history, if that was asked for
    gone: Count = 0  # offsets that were dropped before the client came to them
    frame: bytes = b""  # the events, as a frame of messages
    refused: Annotated[str, Meta(max_length=2_000)] = ""  # why there is no answer, in one line for a person


class Hold(msgspec.Struct, frozen=True, array_like=True, tag="hold"):
    """From broker to broker: somebody behind us is to lose nothing; hold others up rather than drop what is for us."""


Signal = Hello | Welcome | Challenge | Refusal | Ping | Pong | Ack | Missed | Mark | Denied | AskPast | Past | Hold

_HEAD = bytes([VERSION, SIGNAL])
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Signal] = msgspec.msgpack.Decoder(Signal)


def encode_signal(signal: Signal) -> bytes:
    return _HEAD + _encoder.encode(signal)


def decode_signal_untrusted(data: bytes | memoryview) -> Signal:
    """The signal in a frame from outside; raises only PeerError."""
    check_head_untrusted(data, SIGNAL)
    try:
        return _decoder.decode(memoryview(data)[2:])
    except DECODE_ERRORS as problem:
        raise PeerError(f"not a signal: {problem}") from None
