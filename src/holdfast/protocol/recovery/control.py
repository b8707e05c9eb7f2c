"""What recovering clients say to each other, as ordinary publications: brokers route it by content like any other.

Such a publication has the number 0, which no event of an application has. A digest goes to whoever follows its
publisher; requests and repairs go to clients by name, each name as one attribute that is derived from it; a repair that
many need has the attributes of its event and goes where that went. The names of all other attributes begin with `~`,
which applications cannot use. They are short because they are sent often.
"""

from base64 import b32encode
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.language.constraint import Constraint
from holdfast.language.subscription import Subscription, subscription_of
from holdfast.model.errors import PeerError
from holdfast.model.event import RESERVED, SIGNATURE, Attributes, odd_attribute
from holdfast.model.limits import ATTRIBUTES_MAX, NAME_CHARACTERS_MAX, PAYLOAD_BYTES_MAX, TIME_US_MAX
from holdfast.model.message_fields import Count
from holdfast.model.messages import AttributeValue, Publication, skew_of, with_skew

KIND = RESERVED  # what a control publication is; a repair that goes to all has none
OF = f"{RESERVED}of"  # the publisher that a digest or a repair is about
SEQ = f"{RESERVED}seq"  # a repair that goes to all: the number, time and lifetime of its event
TIME = f"{RESERVED}time"
LIFETIME = f"{RESERVED}life"
CONTROL_SEQ = 0
GROUP = "w"  # the kind of what homes and members of groups say: protocol/groups
CONTROL_ADVERTISEMENT = str(Constraint(KIND, "IS NOT NULL", None))  # of every recovering client

ASKED_MAX = 4_096  # numbers or ranges in one request
_REPAIRED_MAX = 1_024  # publications in one repair
_TESTED_MAX = 512  # attributes that a subscriber names as tested; more count as all

_NO_RECORD = b""  # what is repaired comes without its record, from a publisher that tells

_AttributeName = Annotated[str, Meta(max_length=NAME_CHARACTERS_MAX)]
_EventNumber = Annotated[int, Meta(gt=CONTROL_SEQ, le=TIME_US_MAX)]


class Digest(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """What a publisher has published last: `record` as if carried by publication `last_seq`."""

    epoch: Count  # of the publisher: a later one is a new life
    last_seq: Count
    oldest: Count  # earlier numbers are not kept any more
    record: Annotated[bytes, Meta(max_length=PAYLOAD_BYTES_MAX)]


class Greeting(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """I follow you, and this is what matters to me."""

    since_us: Count  # by the publisher's clock; earlier publications are of no interest
    tests: Annotated[tuple[_AttributeName, ...], Meta(max_length=_TESTED_MAX)] | None  # attributes; None is any
    record: Count  # publications that yours should tell of, for order
    records: bool = True  # tell me in digests what there was; otherwise I ask when something is not stated to me


class Request(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """Send me these publications, and tell me again of those."""

    wanted: Annotated[tuple[Count, ...], Meta(max_length=ASKED_MAX)]  # the first number, then distances
    unannounced: Annotated[tuple[tuple[Count, Count], ...], Meta(max_length=ASKED_MAX)] = ()  # ranges of numbers
    book: bool = False  # I do not know your codebook


class Repaired(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A publication inside a repair."""

    seq: _EventNumber  # a repair of what clients say to each other could hold another, and so on
    time_us: Count
    lifetime_us: Count | None
    attributes: Annotated[dict[str, Any], Meta(max_length=ATTRIBUTES_MAX)]
    payload: Annotated[bytes, Meta(max_length=PAYLOAD_BYTES_MAX)]


class Repair(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    publications: Annotated[tuple[Repaired, ...], Meta(max_length=_REPAIRED_MAX)] = ()
    gone: Annotated[tuple[Count, ...], Meta(max_length=ASKED_MAX)] = ()  # numbers that are not kept any more


class Probe(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """How far are you? (`srm` alone.) The answer is the same, marked as one."""

    sent_us: Count  # by the clock of the one who asks
    answers: bool = False


Control = Digest | Greeting | Request | Repair | Probe

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Control).decode
_KINDS: dict[type, str] = {Digest: "d", Greeting: "g", Request: "q", Repair: "r", Probe: "p"}
KINDS = {letter: kind.__name__ for kind, letter in _KINDS.items()} | {
    GROUP: "GroupMessage"
}  # by how a control publication is marked


def address_of(name: str) -> str:
    """The attribute that brings a publication to this client; two names share one hardly ever, and then both get it."""
    return RESERVED + b32encode(blake2b(name.encode(), digest_size=5).digest()).decode()


def address_condition(name: str) -> str:
    return str(Constraint(address_of(name), "=", True))


def kind_of(publication: Publication) -> str:
    """What a control publication is, for those who count them."""
    return KINDS.get(str(publication.attributes.get(KIND)), Repair.__name__)


def leaves_out_control(condition: Subscription) -> str:
    """The condition's text, so that it does not match what only recovering clients say to each other."""
    if not condition.matches({}):
        return str(condition)
    narrowed = [(*filter_, Constraint(KIND, "IS NULL", None)) for filter_ in condition.filters]
    return str(subscription_of(narrowed))


def digest_condition(publisher: str) -> str:
    return str(subscription_of([(Constraint(KIND, "=", _KINDS[Digest]), Constraint(OF, "=", publisher))]))


def labels(control: Control, to: tuple[str, ...], of: str | None = None) -> dict[str, AttributeValue]:
    """The attributes of a control publication for these clients, or for all who follow a publisher."""
    attributes: dict[str, AttributeValue] = {KIND: _KINDS[type(control)]}
    if of is not None:
        attributes[OF] = of
    attributes.update(dict.fromkeys(map(address_of, to), True))
    return attributes


def encoded(control: Control) -> bytes:
    return _encode(control)


def decode_untrusted(publication: Publication) -> Control:
    """The control message inside a publication; raises only PeerError."""
    try:
        control: Control = _decode(publication.payload)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as problem:
        raise PeerError(f"not a recovery message: {problem}") from None
    if isinstance(control, Request) and sum(control.wanted) > TIME_US_MAX:
        raise PeerError("a request for impossible sequence numbers")
    if isinstance(control, Repair):
        for each in control.publications:
            _check_attributes(each.attributes)
    return control


def _check_attributes(attributes: dict[str, Any]) -> None:
    if odd_attribute(attributes) is not None:
        raise PeerError("a repair with an attribute that is neither a scalar nor a list of scalars")
    if any(len(name) > NAME_CHARACTERS_MAX for name in attributes):
        raise PeerError(f"an attribute's name of more than {NAME_CHARACTERS_MAX} characters")


# Repairs ---------------------------------------------------------------------------------------------------------


def repaired(publication: Publication) -> Repaired:
    each = publication
    return Repaired(each.seq, each.time_us, each.lifetime_us, each.attributes, each.payload)


def publication_of(each: Repaired, repair: Publication) -> Publication:
    """What a repair of its publisher brings back; both are by one clock."""
    found = Publication(
        repair.source, each.seq, each.time_us, each.lifetime_us, each.attributes, each.payload, _NO_RECORD
    )
    return with_skew(found, skew_of(repair)) if each.lifetime_us is not None else found


def openly(publication: Publication) -> dict[str, AttributeValue]:
    """The attributes of a repair that is published to everybody whom the publication matches (paper 000)."""
    marks: dict[str, AttributeValue] = {OF: publication.source, SEQ: publication.seq, TIME: publication.time_us}
    if publication.lifetime_us is not None and not skew_of(publication):  # a lifetime by the clock of who repairs it
        marks[LIFETIME] = publication.lifetime_us
    return {**publication.attributes, **marks}


def is_open_repair(attributes: Attributes) -> bool:
    return SEQ in attributes


def from_open_untrusted(repair: Publication) -> Publication:
    """The publication that such a repair repeats; raises only PeerError."""
    marks = repair.attributes
    source, numbers = marks.get(OF), [marks.get(SEQ), marks.get(TIME), marks.get(LIFETIME, 0)]
    if not isinstance(source, str) or not all(type(each) is int and each >= 0 for each in numbers):
        raise PeerError("a repair without a sequence number")
    seq, time_us, lifetime_us = numbers
    if seq == CONTROL_SEQ:
        raise PeerError("a repair without an event")
    attributes = {name: value for name, value in marks.items() if name == SIGNATURE or not name.startswith(RESERVED)}
    found = Publication(source, seq, time_us, lifetime_us or None, attributes, repair.payload, _NO_RECORD)  # type: ignore[arg-type]
    return with_skew(found, skew_of(repair)) if lifetime_us else found


# Lists of numbers ------------------------------------------------------------------------------------------------


def distances(seqs: list[int]) -> tuple[int, ...]:
    """Ascending numbers as the first and the steps between them, which are small."""
    return tuple(after - before for before, after in zip([0, *seqs], seqs, strict=False))


def numbers(steps: tuple[int, ...]) -> list[int]:
    found, at = [], 0
    for step in steps:
        at += step
        found.append(at)
    return found
