"""What goes into a node and what comes out of it.

A node is a machine: `handle(input, now_us)` returns effects, and `next_due_us()` says when it wants to be woken. The
driver, simulator or sockets alike, performs the effects and keeps the clock; it decides nothing.
"""

from collections.abc import Sequence

import msgspec

from holdfast.model.messages import AttributeValue, Batch, Message, NodeKind, Publication, Via
from holdfast.model.replication_messages import CopyProtocol, ReplicaUse
from holdfast.protocol.store_changes import Change

# Inputs --------------------------------------------------------------------------------------------------------


class Received(msgspec.Struct, frozen=True, gc=False):
    """A message has arrived from a neighbour."""

    sender: str
    message: Message


class LinkUp(msgspec.Struct, frozen=True):
    """There is a link to this neighbour now."""

    neighbour: str
    kind: NodeKind
    replaces: str | None = None  # it is the replica of this broker
    reliable: bool = False  # while it is up it loses, doubles and reorders nothing, and its end is noticed at once
    repairs: bool = False  # both ends number what they send from now on, and name what they cannot repair
    hears_outages: bool = True  # the far end knows of outages that last; one of version 0.2 knows those that are over


class LinkDown(msgspec.Struct, frozen=True):
    """The link to this neighbour is gone."""

    neighbour: str


class Absence(msgspec.Struct, frozen=True):
    """From then until then, by our clock, events for us may have been lost on their way from our broker, for good."""

    since_us: int
    until_us: int
    reason: str
    events: int = 0  # how many, where that is known


class Wake(msgspec.Struct, frozen=True):
    """The time that `next_due_us` named has come."""


class PublishCall(msgspec.Struct, frozen=True):
    """The application publishes an event."""

    attributes: dict[str, AttributeValue]
    payload: bytes = b""
    lifetime_us: int | None = None


class FlushCall(msgspec.Struct, frozen=True):
    """The application waits until the broker has all that it has published."""


class SubscribeCall(msgspec.Struct, frozen=True):
    id: str
    condition: str
    group: str = ""  # each event goes to one of the group
    window: int = 0  # of a group's, events that we have and are not done with; 0: as many as anybody may have


class GroupDone(msgspec.Struct, frozen=True):
    """The application is done with so many of all events that it was handed as a member of a group."""

    id: str
    done: int


class UnsubscribeCall(msgspec.Struct, frozen=True):
    id: str
    lasts: bool = False  # of a group's: we leave, and the group need not end even if we are the last


class AdvertiseCall(msgspec.Struct, frozen=True):
    """The application says which events it will publish."""

    id: str
    condition: str


class UnadvertiseCall(msgspec.Struct, frozen=True):
    id: str


class NeighboursListed(msgspec.Struct, frozen=True):
    """The directory says who the neighbours of this broker are."""

    broker: str
    neighbours: tuple[str, ...]


class Begin(msgspec.Struct, frozen=True):
    """The application of a durable client has subscribed to all that it wants: events may be handed over to it."""


class ForgetCall(msgspec.Struct, frozen=True):
    """The application of a durable client wants nothing to be kept for it any more, and stays or leaves."""

    stays: bool


class Consumed(msgspec.Struct, frozen=True):
    """The application is done with everything that was delivered before this `HandedOut`, and some of the next."""

    token: int
    source: str = ""  # of a publication in the next that it is not done with;
    seq: int = 0  # but it is with all before this number


class Persisted(msgspec.Struct, frozen=True):
    """All changes up to this `Persist` are safe now, whatever happens."""

    token: int


class Save(msgspec.Struct, frozen=True):
    """The process is about to end: hand to the store what would have waited for a better moment."""


Input = (
    Received
    | LinkUp
    | LinkDown
    | Absence
    | Wake
    | PublishCall
    | FlushCall
    | SubscribeCall
    | GroupDone
    | UnsubscribeCall
    | AdvertiseCall
    | UnadvertiseCall
    | NeighboursListed
    | Begin
    | ForgetCall
    | Consumed
    | Persisted
    | Save
)


Gauges = dict[str, tuple[int, int]]  # what a machine holds: a name, how many there are, and how many there may be


# Effects -------------------------------------------------------------------------------------------------------


class Send(msgspec.Struct, frozen=True, gc=False):
    to: str
    message: Message


class Unicast(msgspec.Struct, frozen=True, gc=False):
    """Send a message to any broker, past the links of the network: by unicast, which may lose it."""

    to: str
    message: Message


class Picked(msgspec.Struct, frozen=True, gc=False):
    """Events of a batch that came, by their places in it."""

    whole: Batch
    places: Sequence[int]


class Multicast(msgspec.Struct, frozen=True, gc=False):
    """Send one message to several neighbours: what a broker does with most events."""

    to: tuple[str, ...]
    message: Message
    part: Picked | None = None  # that the message is, where a driver may have the bytes of these events


PassedOn = Sequence[tuple[tuple[str, ...], Message]]  # what is sent on to some neighbours, and nothing else done


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """Hand a publication to the application, for these of its subscriptions."""

    publication: Publication
    subscriptions: tuple[str, ...]
    via: Via
    held_us: int = 0  # how long it was held back for the sake of order


class DeliveredBatch(msgspec.Struct, frozen=True, gc=False):
    """Hand several publications of one source to the application, each for some of its subscriptions."""

    publications: list[Publication]
    subscriptions: Sequence[Sequence[str]]


class Published(msgspec.Struct, frozen=True, gc=False):
    """A publication has been given its id and has left."""

    publication: Publication


class Incident(msgspec.Struct, frozen=True):
    """Something worth a row in the trace: a drop with its reason, an expiry, a neighbour forgotten."""

    kind: str  # one of model/incidents.py
    peer: str = ""  # the neighbour, broker or client that it concerns
    count: int = 1
    source: str = ""  # the publisher whose event it concerns,
    first: int = 0  # and the event's sequence number, or the first of `count`
    other: str = ""  # a second node: the replica of `peer`
    reason: str = ""  # in words, for people: nobody parses it
    copying: CopyProtocol | None = None  # how a replica copies tables
    since_us: int = 0  # of events that nobody can number: they may have been published since then


class Deny(msgspec.Struct, frozen=True):
    """A client is to be told that it may not have this subscription, or publish these events."""

    client: str
    condition: str  # empty: it is about events
    instead: str  # what it may subscribe to instead; empty: nothing
    reason: str
    seq: int = 0  # of the first of these events
    events: int = 0


class Lost(msgspec.Struct, frozen=True):
    """Publications that were owed to us, or may have been, and will not come: by number, or by when they may have left.

    Numbers are 0 where they are not known, and the source is "" where it may be anybody. Times are by our clock.
    """

    source: str
    first: int
    last: int
    reason: str
    since_us: int = 0
    until_us: int = 0
    events: int = 0  # how many, where that is known and the numbers are not


class HandedOut(msgspec.Struct, frozen=True):
    """What was delivered so far is kept by the broker until the application is done with it: then say `Consumed`."""

    token: int


class Acknowledged(msgspec.Struct, frozen=True):
    """A broker has stored these of our publications."""

    first: int
    last: int


class Persist(msgspec.Struct, frozen=True):
    """Write these changes to the durable store, all or none, after those before them; then say `Persisted`."""

    token: int
    changes: tuple[Change, ...]


class ReplicaWanted(msgspec.Struct, frozen=True):
    """Start a replica of this broker and link it with these; whoever runs brokers does it once, however many ask."""

    faulty: str
    neighbours: tuple[str, ...]
    copying: CopyProtocol
    use: ReplicaUse
    beside: int = 0  # relief replicas of it that we know of: one more is wanted


class ReplicaReleased(msgspec.Struct, frozen=True):
    """We were a relief replica, and nobody needs us any more: end us."""


class Register(msgspec.Struct, frozen=True):
    """Tell the directory who the neighbours of this broker are; none: forget it."""

    broker: str
    neighbours: tuple[str, ...]


Effect = (
    Send
    | Multicast
    | Unicast
    | Delivered
    | DeliveredBatch
    | Published
    | Lost
    | Incident
    | Deny
    | Acknowledged
    | HandedOut
    | Persist
    | ReplicaWanted
    | ReplicaReleased
    | Register
)
