"""What is said: a request, routed by content, and a repair, which is the event once more with some marks.

A request's attributes are the bits of the entry that a record listed, and the publisher's name; its payload names the
numbers. So one request asks for publications with the same entry only: with the bits of two entries together it
would reach the holders of both, but every bit more brings it to nodes that hold neither, and codes of columns cannot
be put together at all. An entry with too many bits for one event goes to the publisher alone.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.language.constraint import Constraint
from holdfast.model.errors import PeerError
from holdfast.model.event import RESERVED
from holdfast.model.limits import ATTRIBUTES_MAX
from holdfast.model.message_fields import Count
from holdfast.model.messages import AttributeValue, Publication, skew_of, with_skew
from holdfast.protocol.records import Codebook, Entry, request_attributes
from holdfast.protocol.recovery import control
from holdfast.protocol.recovery.control import KIND, OF, SEQ, Repair, Request, labels, openly, repaired

Routing = dict[str, AttributeValue]

ASKED_MAX = 64  # numbers in one request: hardly ever more than one or two have the same content
DISTANCE = f"{RESERVED}d"  # a repair: from the one who asked to the one who repairs
_MARKS = 5  # attributes that a repair adds to the event's own

_REQUEST = labels(Request(()), ())[KIND]
_REPAIR = labels(Repair(), ())[KIND]


class Wanted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who has these?"""

    numbers: Annotated[tuple[tuple[Count, Count], ...], Meta(max_length=ASKED_MAX)]  # each with its departure
    round: Count
    distance_us: Count  # from the publisher to the one who asks
    wait_us: Count  # that it takes before asking, on average: a cache must hold out that long


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Wanted).decode


def encoded(wanted: Wanted) -> bytes:
    return _encode(wanted)


def routing_of(source: str, book: Codebook, entry: Entry) -> Routing:
    return {**labels(Request(()), (), source), **(request_attributes(book, entry) or {})}


def is_request(publication: Publication) -> bool:
    return publication.attributes.get(KIND) == _REQUEST


def wanted_untrusted(publication: Publication) -> tuple[str, Wanted]:
    """The publisher and what is asked for; raises only PeerError."""
    source = publication.attributes.get(OF)
    if not isinstance(source, str):
        raise PeerError("a request without a publisher")
    try:
        return source, _decode(publication.payload)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as problem:
        raise PeerError(f"not a request: {problem}") from None


def repair_attributes(publication: Publication, distance_us: int) -> Routing | None:
    """None when the event leaves no room for the marks."""
    if len(publication.attributes) > ATTRIBUTES_MAX - _MARKS:
        return None
    return {**openly(publication), DISTANCE: distance_us}


def addressed(publication: Publication, to: tuple[str, ...], distance_us: int) -> tuple[Routing, bytes]:
    """A repair for those who asked, and nobody else: the event is its payload."""
    event = repaired(publication)
    if skew_of(publication):
        event = msgspec.structs.replace(event, lifetime_us=None)  # it would be by the clock of who repairs it
    return {**labels(Repair(), to, publication.source), DISTANCE: distance_us}, control.encoded(Repair((event,)))


def is_addressed(publication: Publication) -> bool:
    return publication.attributes.get(KIND) == _REPAIR


def from_addressed_untrusted(repair: Publication) -> Publication:
    """The publication that such a repair brings; raises only PeerError."""
    source, found = repair.attributes.get(OF), control.decode_untrusted(repair)
    if not isinstance(source, str) or not isinstance(found, Repair) or len(found.publications) != 1:
        raise PeerError("a repair without a publisher, or not of one event")
    (event,) = found.publications
    publication = Publication(source, event.seq, event.time_us, event.lifetime_us, event.attributes, event.payload, b"")
    return publication if event.lifetime_us is None else with_skew(publication, skew_of(repair))


def repair_distance_us(repair: Publication) -> int:
    """What the mark says; 0 for a repair without it, from a publisher that recovers otherwise."""
    found = repair.attributes.get(DISTANCE)
    return found if type(found) is int and found > 0 else 0


def own_requests(publisher: str) -> str:
    """What reaches a publisher that repairs: requests for its publications,"""
    return f"{Constraint(OF, '=', publisher)} AND {Constraint(KIND, '=', _REQUEST)}"


def own_repairs(publisher: str) -> str:
    """and what others repair of them, so that it need not."""
    return f"{Constraint(OF, '=', publisher)} AND {Constraint(SEQ, 'IS NOT NULL', None)}"
