"""What nodes say to each other.

A publication is an event on its way: its id (source and sequence number), when it left, how long it is worth
delivering, its attributes and an opaque payload. Everything else keeps the tables that route it: which
conditions lie behind a link, which brokers there are and what their clients want.

The structures are frozen and hold plain values, so that a simulator may hand the same object to many nodes and the
wire format can encode them without conversion. The limits in the types are checked when bytes are decoded.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from holdfast.model import hash_tree, limits
from holdfast.model.message_fields import Count, Digest, NodeName, NodeNames
from holdfast.model.places import taker
from holdfast.model.replication_messages import ReplicationMessage

if TYPE_CHECKING:
    Element = bool | int | float | str | datetime | None
    AttributeValue = bool | int | float | str | datetime | list[Any] | None
else:
    # msgspec takes no timestamp beside a string; wire/codec.py adds it.
    Element = bool | int | float | str | None
    AttributeValue = Element | Annotated[list[Element], Meta(max_length=limits.LIST_ELEMENTS_MAX)]

Condition = Annotated[str, Meta(max_length=limits.CONDITION_CHARACTERS_MAX)]
Conditions = Annotated[tuple[Condition, ...], Meta(max_length=limits.CONDITIONS_MAX)]
Hops = Annotated[int, Meta(ge=0, le=limits.HOPS_MAX)]
Via = Literal["original", "repair", "gossip", "retransmission", "multipath", "replica"]
Table = Literal["subscriptions", "advertisements"]
NodeKind = Literal["broker", "client"]
EventAttributes = Annotated[dict[str, AttributeValue], Meta(max_length=limits.ATTRIBUTES_MAX)]
Tag = Annotated[int, Meta(ge=0, le=2**32 - 1)]  # stands for a condition: 32 bits of a hash of its text
GossipPath = Annotated[tuple[NodeName, ...], Meta(min_length=1, max_length=limits.NODES_MAX)]  # who began it, and on
Numbers = Annotated[tuple[Count, ...], Meta(max_length=limits.GOSSIP_NUMBERS_MAX)]
EventIds = Annotated[tuple[tuple[NodeName, Numbers], ...], Meta(max_length=limits.GOSSIP_NUMBERS_MAX)]  # by source
# Of an origin in one of its lives: a class, and numbers in it.
MissingEvents = Annotated[tuple[tuple[NodeName, Count, Tag, Numbers], ...], Meta(max_length=limits.GOSSIP_NUMBERS_MAX)]
# A class: the number that I expect next, or 0 and since when I want the class; and numbers that I miss.
Reached = tuple[Tag, Count, Count, Numbers]
# An application's has at most PAYLOAD_BYTES_MAX, which wire/codec.py looks after: a type cannot tell the two apart.
Payload = Annotated[bytes, Meta(max_length=limits.REPAIR_BYTES_MAX)]


class Publication(msgspec.Struct, frozen=True, array_like=True, gc=False):
    source: NodeName
    seq: Count
    time_us: Count  # when it was published, by the publisher's clock
    lifetime_us: Count | None
    attributes: EventAttributes
    payload: Payload = b""
    # Of those before it, for recovery: what its publisher tells with it, perhaps nothing; None if it never tells.
    record: Annotated[bytes, Meta(max_length=limits.RECORD_BYTES_MAX)] | None = None

    @property
    def id_text(self) -> str:
        return f"{self.source}/{self.seq}"

    @property
    def expires_us(self) -> int | None:
        """When its lifetime is over, by the clock of the node that has it; None: never."""
        return None if self.lifetime_us is None else self.time_us + self.lifetime_us

    def expired(self, now_us: int) -> bool:
        return self.lifetime_us is not None and now_us > self.time_us + self.lifetime_us


class SkewedPublication(Publication, frozen=True, array_like=True, gc=False):
    """The same at a node whose clock differs from the publisher's.

    Each node that receives it adds how far the sender's clock is ahead of its own. So a lifetime needs no two clocks
    that agree, only neighbours that know how theirs differ.
    """

    skew_us: Annotated[int, Meta(ge=-limits.TIME_US_MAX, le=limits.TIME_US_MAX)] = 0  # the publisher's less the node's

    @property
    def expires_us(self) -> int | None:
        return None if self.lifetime_us is None else self.time_us + self.lifetime_us - self.skew_us

    def expired(self, now_us: int) -> bool:
        return self.lifetime_us is not None and now_us > self.time_us + self.lifetime_us - self.skew_us


def skew_of(publication: Publication) -> int:
    """How far the publisher's clock is ahead of that of the node that has it."""
    return publication.skew_us if isinstance(publication, SkewedPublication) else 0


def with_skew(publication: Publication, skew_us: int) -> Publication:
    each = publication
    about = each.source, each.seq, each.time_us, each.lifetime_us
    if not skew_us:
        return Publication(*about, each.attributes, each.payload, each.record)
    return SkewedPublication(*about, each.attributes, each.payload, each.record, skew_us)


class Publish(msgspec.Struct, frozen=True, array_like=True, tag="pub", gc=False):
    """A publication on its way to everyone who wants it, or only to the brokers named in `homes`."""

    publication: Publication
    homes: NodeNames = ()
    hops: Hops = 0  # brokers passed so far, counted where a loop is possible
    via: Via = "original"


class Deliver(msgspec.Struct, frozen=True, array_like=True, tag="del", gc=False):
    """A publication for a client of this broker."""

    publication: Publication
    via: Via = "original"


class Batch(msgspec.Struct, frozen=True, array_like=True, tag="run", gc=False):
    """Publications of one source that left together: what a Publish for each would say, or a Deliver for each.

    Only plain ones: as they were published (`via` is "original"), without lifetime, record or homes.

    A publisher that keeps its events for recovery, and every broker behind it, adds a statement: of the source's
    numbers from `since` to `upto`, all that you want have been sent to you on this link, here or before. A link may
    carry it only if it loses and reorders nothing. `since` is 0 where the publisher keeps nothing, and above `upto`
    where it does but nothing can be stated. A batch may consist of the statement alone.
    """

    seqs: Annotated[tuple[Count, ...], Meta(max_length=limits.BATCH_EVENTS_MAX)]
    source: NodeName
    times_us: tuple[Count, ...]
    attributes: tuple[EventAttributes, ...]
    payloads: tuple[Payload, ...]  # none at all when all are empty
    hops: Hops
    since: Count = 0
    upto: Count = 0
    proof: Annotated[bytes, Meta(max_length=hash_tree.SHARED_BYTES_MAX)] = b""  # that signed events share

    @property
    def record(self) -> bytes | None:
        """Of each of its publications: it tells of no others, but its publisher may."""
        return b"" if self.since else None

    def publications(self) -> list[Publication]:
        attributes = self.taken_apart().attributes if self.proof else self.attributes
        columns = repeat(self.source), self.seqs, self.times_us, repeat(None), attributes
        return list(map(Publication, *columns, self.payloads or repeat(b""), repeat(self.record)))

    def published(self) -> list[Publish]:
        return [Publish(each, (), self.hops) for each in self.publications()]

    def delivered(self) -> list[Deliver]:
        return [Deliver(each) for each in self.publications()]

    def picked(self, places: Sequence[int]) -> "Batch":
        """Some of them, in this order, without a statement."""
        pick = taker(places)
        payloads = pick(self.payloads) if self.payloads else ()
        picked = pick(self.seqs), self.source, pick(self.times_us), pick(self.attributes), payloads
        some = Batch(*picked, self.hops, *((1, 0) if self.since else (0, 0)), self.proof)
        return some.taken_apart() if self.proof and hash_tree.is_shorter_apart(self.proof, len(places)) else some

    def taken_apart(self) -> "Batch":
        return replace(self, attributes=hash_tree.proved(self.attributes, self.proof, self.seqs), proof=b"")


def with_statement(batch: Batch, hops: int, since: int, upto: int) -> Batch:
    """The same publications after so many hops, with another statement."""
    return replace(batch, hops=hops, since=since, upto=upto)


# Epidemic recovery ---------------------------------------------------------------------------------------------


class Stamp(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where an event came into the network, and its number in each class of events that somebody wants.

    A class is a condition. The first broker numbers from 1 what it lets in of each class, so who wants a class
    sees from the numbers what it has missed. A place is the class's tag, the event's number, and when the numbering
    began, in milliseconds since the broker did.
    """

    origin: NodeName
    epoch: Count  # of the origin: it numbers anew in each life
    places: Annotated[tuple[tuple[Tag, Count, Count], ...], Meta(max_length=limits.CONDITIONS_MAX)]


class Stamped(msgspec.Struct, frozen=True, array_like=True, tag="stp", gc=False):
    """A Publish with its stamp and, where the way back to the origin may be needed, the brokers that it has passed."""

    publication: Publication
    stamp: Stamp
    route: NodeNames = ()
    homes: NodeNames = ()
    hops: Hops = 0
    via: Via = "original"


class GossipDigest(msgspec.Struct, frozen=True, array_like=True, tag="god"):
    """These events of a class I have: for all that want the class."""

    path: GossipPath
    tag: Tag
    ids: EventIds
    homes: NodeNames = ()
    hops: Hops = 0


class GossipPull(msgspec.Struct, frozen=True, array_like=True, tag="gop"):
    """These events I miss: whoever has one hands it to me, and sends on what is left.

    With a tag it goes to those who want the class, with a way to the brokers on it, with neither anywhere.
    """

    path: GossipPath
    missing: MissingEvents
    tag: Tag | None = None
    route: NodeNames = ()
    homes: NodeNames = ()
    hops: Hops = 0


class GossipVector(msgspec.Struct, frozen=True, array_like=True, tag="gov"):
    """For an origin: how far I have got with its events in each class I want, and which I miss below that."""

    path: GossipPath
    epoch: Count  # the life of the origin that the numbers are of
    reached: Annotated[tuple[Reached, ...], Meta(max_length=limits.CONDITIONS_MAX)]
    route: NodeNames = ()


class GossipComplete(msgspec.Struct, frozen=True, array_like=True, tag="goc"):
    """An origin's answer to a vector: you have all of mine."""

    origin: NodeName
    route: NodeNames = ()


class GossipRequest(msgspec.Struct, frozen=True, array_like=True, tag="gor"):
    """Hand me these events that your digest tells of."""

    path: GossipPath
    ids: EventIds
    route: NodeNames = ()


class GossipEvent(msgspec.Struct, frozen=True, array_like=True, tag="goe", gc=False):
    """An event for a broker that has missed it."""

    publication: Publication
    stamp: Stamp | None = None
    route: NodeNames = ()


Gossip = GossipDigest | GossipPull | GossipVector | GossipComplete | GossipRequest | GossipEvent


# Tables --------------------------------------------------------------------------------------------------------


class Delta(msgspec.Struct, frozen=True, array_like=True, tag="tel"):
    """A change to one of the tables that the sender keeps with the receiver."""

    table: Table
    version: Count
    add: Conditions
    drop: Conditions


class Snapshot(msgspec.Struct, frozen=True, array_like=True, tag="all"):
    """All of a table, sent when the receiver's copy is known to differ; a large one comes in parts.

    A part holds the conditions whose digest, divided by the number of parts, leaves its number: it is right by itself,
    in whatever order the others come and whether they do.
    """

    table: Table
    version: Count
    conditions: Conditions
    part: Annotated[int, Meta(ge=0, lt=limits.PARTS_MAX)] = 0
    parts: Annotated[int, Meta(ge=1, le=limits.PARTS_MAX)] = 1


class TableRefused(msgspec.Struct, frozen=True, array_like=True, tag="rfs"):
    """I do not keep what you told me last of this table, nor will I until it is smaller; all before it I do."""

    table: Table
    reason: Annotated[str, Meta(max_length=1_000)]  # one line for a person


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag="sum"):
    """A heartbeat: I am alive, this is my incarnation, and this is what I have of the tables you keep with me."""

    epoch: Count
    heard: Annotated[tuple[tuple[Count, Digest], ...], Meta(max_length=8)]  # by TABLES; then what `protocol.reach` has
    known: tuple[Count, Digest] = (0, 0)  # how many link states I know, and their digest (destinations routing)
    kind: NodeKind = "broker"  # so that a broker that has forgotten the sender knows whom it hears


class LinkState(msgspec.Struct, frozen=True, array_like=True, tag="lsa"):
    """What a broker says of itself to all others: its neighbours and what its own clients want."""

    broker: NodeName
    epoch: Count
    version: Count
    neighbours: NodeNames
    conditions: Conditions
    down: NodeNames = ()  # those of its neighbours that it takes for down


class Outage(msgspec.Struct, frozen=True, array_like=True, tag="out"):
    """The link between two brokers was down until now, or is: what should have passed it towards you may be lost."""

    one: NodeName
    other: NodeName
    ago_us: Count  # since when: told so because clocks differ
    hops: Hops = 0
    lasts: bool = False  # it is down, or what you want is not yet known behind it; the end is told, too
    since_us: int = 0  # the same as `ago_us` by the sender's clock, which counts the time on the way; 0: it is not said
    first: bool = False  # the two had not met in the life of the sender: perhaps in an earlier one, perhaps never

    def began_us(self, now_us: int) -> int:
        """Since when by our own clock, to which the driver has set `since_us`."""
        return min(now_us - self.ago_us, self.since_us or now_us)


class Reachable(msgspec.Struct, frozen=True, array_like=True, tag="rch"):
    """All brokers that you reach through me."""

    names: NodeNames


class Detach(msgspec.Struct, frozen=True, array_like=True, tag="bye"):
    """A client leaves; forget its tables at once instead of waiting for its lease to run out."""


class Numbered(msgspec.Struct, frozen=True, array_like=True, tag="num", gc=False):
    """An event on a link that repairs its own losses: the sender's numbers there have no holes, so a hole is a loss.

    A client gets deliveries this way, if both ends have said in their greetings that they repair.
    """

    stream: Count  # when the sender began to count; another one begins anew
    seq: Count
    again: bool  # sent once more because the receiver missed it
    publish: Publish | Stamped | Deliver

    @property
    def publication(self) -> Publication:
        return self.publish.publication


class NumberedOutage(msgspec.Struct, frozen=True, array_like=True, tag="nou", gc=False):
    """An outage on a link that repairs its own losses: it names losses, and so must not be lost itself."""

    stream: Count
    seq: Count
    again: bool
    outage: Outage


class Nack(msgspec.Struct, frozen=True, array_like=True, tag="nak"):
    """These numbers have not come over this link: send them once more."""

    stream: Count
    seqs: Annotated[tuple[Count, ...], Meta(max_length=limits.MISSING_MAX)]


class HighestSent(msgspec.Struct, frozen=True, array_like=True, tag="lat", gc=False):
    """Nothing new has been sent for a while: the last number so far, and the first that can still be sent once more."""

    stream: Count
    seq: Count
    first_kept: Count


class Arrived(msgspec.Struct, frozen=True, array_like=True, tag="arv", gc=False):
    """Everything up to this number has come over this link, or was given up and reported."""

    stream: Count
    seq: Count


class Handover(msgspec.Struct, frozen=True, array_like=True, tag="hnd", gc=False):
    """An event, or a batch of them, that the sender keeps until the receiver has said that it is taken."""

    stream: Count  # when the sender began to count; another one begins anew
    seq: Count
    first: Count  # the first number that the receiver has not said it has taken: all before it are done with
    again: bool  # not for the first time
    message: Publish | Deliver | Batch | None  # nothing where the event has expired meanwhile

    @property
    def publication(self) -> Publication:
        assert isinstance(self.message, Publish | Deliver)
        return self.message.publication


class StoredAck(msgspec.Struct, frozen=True, array_like=True, tag="tkn"):
    """Everything up to this number is stored here and will not be lost; some later ones have come, but these have not.

    A client that takes events this way says so with stream 0 when it attaches; with number 1 as long as it has not told
    all that it wants, and is to be handed nothing.
    """

    stream: Count
    seq: Count
    missing: Annotated[tuple[Count, ...], Meta(max_length=limits.MISSING_MAX)] = ()
    arrived: Count = 0  # up to here everything has come to a client whose application has not taken it yet
    before: Count = 0  # of the batch after `seq`, the publications with lower numbers than this are taken as well


class GivenUp(msgspec.Struct, frozen=True, array_like=True, tag="gup"):
    """To a client: events that were kept for it, and are gone. It says the same back when it has heard it."""

    since_us: Count  # when the first of them was kept, by the broker's clock
    until_us: Count  # and the last
    events: Count
    reason: Annotated[str, Meta(max_length=1_000)]  # in words


class KeepAlive(msgspec.Struct, frozen=True, array_like=True, tag="alv", gc=False):
    """I am here: to neighbours that watch each other closely."""


_OfTables = Delta | Snapshot | TableRefused | Heartbeat | LinkState | Outage | Reachable | Detach
_OfLinks = Numbered | NumberedOutage | Nack | HighestSent | Arrived | Handover | StoredAck | GivenUp | KeepAlive
Message = Publish | Deliver | Batch | Stamped | Gossip | _OfTables | _OfLinks | ReplicationMessage

TABLES: tuple[Table, ...] = ("subscriptions", "advertisements")
