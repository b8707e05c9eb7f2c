"""What a replica and the neighbours of the broker that it stands for say to each other, while a replication lasts."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from holdfast.model import limits
from holdfast.model.message_fields import Count, Digest, NodeName, NodeNames

CopyProtocol = Literal["basic", "synchronous", "incremental", "ordered"]  # when events take the new way, and how
ReplicaUse = Literal["failover", "scheduling", "reordering"]  # instead of the faulty broker, or beside it


class ReplicaRequest(msgspec.Struct, frozen=True, array_like=True, tag="rrq"):
    """I stand in for this broker: tell me your tables, but nothing that you have from it."""

    epoch: Count  # when the replica began: a later attempt has a higher one
    faulty: NodeName
    copying: CopyProtocol
    use: ReplicaUse


class LastAdvertisement(msgspec.Struct, frozen=True, array_like=True, tag="lad"):
    """I have told you all advertisements: this is what you should have of them."""

    epoch: Count
    digest: Digest


class LastSubscription(msgspec.Struct, frozen=True, array_like=True, tag="lsu"):
    """I have told you all subscriptions that meet the advertisements I have of you, of which this is the digest."""

    epoch: Count
    answers: Digest  # the digest of the advertisements that it answers
    digest: Digest


class CopyOpen(msgspec.Struct, frozen=True, array_like=True, tag="rop"):
    """The replica has all advertisements and can send events to every neighbour, in their order."""

    epoch: Count


class CopyDone(msgspec.Struct, frozen=True, array_like=True, tag="rdn"):
    """The replica has all tables: this is the digest of the subscriptions that it has told the receiver."""

    epoch: Count
    digest: Digest


class HighWaterMarks(msgspec.Struct, frozen=True, array_like=True, tag="mrk"):
    """Of these sources, the sender has sent everything up to these numbers, here or by the other way."""

    marks: Annotated[tuple[tuple[NodeName, Count], ...], Meta(max_length=limits.NODES_MAX)]
    onwards: bool  # to be passed on to the receiver's other neighbours, and no further


class Neighbours(msgspec.Struct, frozen=True, array_like=True, tag="nbs"):
    """The brokers next to the sender: whom to ask when it has to be replaced."""

    names: NodeNames


class Retired(msgspec.Struct, frozen=True, array_like=True, tag="rtd"):
    """This replica has taken your place."""

    replica: NodeName


class ReplicaRelease(msgspec.Struct, frozen=True, array_like=True, tag="rel"):
    """A relief replica leaves, step by step.

    A neighbour that can do without it says that it is `spare`. The replica asks its neighbours to `drain` it, and each
    says with `last` that its last event has left. When all of these have been passed on, the replica says the same.
    """

    epoch: Count  # of the replica
    step: Literal["spare", "drain", "last"]


class Echo(msgspec.Struct, frozen=True, array_like=True, tag="ech"):
    """Say when this has come: it waits where events wait, so who asks learns how long they do."""

    sent_us: Count  # by the clock of who asks


class EchoAnswer(msgspec.Struct, frozen=True, array_like=True, tag="eca"):
    """When it came. A broker also says on its own that it stays alone from now on."""

    sent_us: Count  # as in the question; 0: nobody has asked
    came_us: Count  # by the clock of who answers
    # No replica may stand beside it: clients subscribe there, whose subscriptions it would not have, or a broker next
    # to it has one, and those behind the two could not tell in which order both shared the events.
    stays_alone: bool


_Copying = ReplicaRequest | LastAdvertisement | LastSubscription | CopyOpen | CopyDone
ReplicationMessage = _Copying | HighWaterMarks | Neighbours | Retired | ReplicaRelease | Echo | EchoAnswer
