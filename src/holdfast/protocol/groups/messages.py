"""What homes and members of groups say to each other: control publications, which brokers route like any other.

A group is known by its key, which its name and its condition make together. Members and rival homes follow the group's
channel; what is for one of them goes to its address.
"""

from base64 import b32encode
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.language.constraint import Constraint
from holdfast.language.subscription import subscription_of
from holdfast.model.errors import PeerError
from holdfast.model.event import odd_attribute
from holdfast.model.limits import ATTRIBUTES_MAX, CONDITION_CHARACTERS_MAX, PAYLOAD_BYTES_MAX, TIME_US_MAX
from holdfast.model.message_fields import (
    Count,
    NodeName,
)
from holdfast.model.messages import (
    AttributeValue,
    Publication,
    Publish,
    skew_of,
    with_skew,
)
from holdfast.protocol.groups.settings import GROUP_CHARACTERS_MAX, HANDED_MAX, HOMES
from holdfast.protocol.recovery.control import CONTROL_SEQ, GROUP, KIND, OF, address_of

_SHOWN = 24  # characters of the name that are part of the key, for people
_SKEW = Annotated[int, Meta(ge=-TIME_US_MAX, le=TIME_US_MAX)]

Key = Annotated[str, Meta(max_length=64)]
GroupName = Annotated[str, Meta(min_length=1, max_length=GROUP_CHARACTERS_MAX)]


class MemberId(msgspec.Struct, frozen=True, array_like=True):
    """One subscription of one client in one of its lives."""

    client: NodeName
    epoch: Count
    number: Count


class HandedEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    source: NodeName
    seq: Annotated[int, Meta(gt=CONTROL_SEQ, le=TIME_US_MAX)]
    time_us: Count
    lifetime_us: Count | None
    attributes: Annotated[dict[str, Any], Meta(max_length=ATTRIBUTES_MAX)]
    payload: Annotated[bytes, Meta(max_length=PAYLOAD_BYTES_MAX)]
    skew_us: _SKEW = 0  # the publisher's clock less the home's


class Join(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """To a broker, or to a home: I want events of this group, and so many at a time."""

    key: Key
    member: MemberId
    group: GroupName
    condition: Annotated[str, Meta(max_length=CONDITION_CHARACTERS_MAX)]
    window: Annotated[int, Meta(ge=1, le=HANDED_MAX)]


class Announce(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """On the channel: this is the group's home. Of several the oldest stays."""

    key: Key
    home: NodeName
    founded_us: Count
    dropped: Count = 0  # of the events that had no member with room for them, in its life


class Hand(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """To a member: these events are yours. They are numbered, beginning with 1 when it joins."""

    key: Key
    member: MemberId
    home: NodeName
    stream: Count
    first: Count
    events: Annotated[tuple[HandedEvent, ...], Meta(max_length=HANDED_MAX)]


class Report(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """To a home: what has come to a member, and what it is done with."""

    key: Key
    member: MemberId
    stream: Count
    received: Count
    done: Count
    leaves: bool = False
    lasts: bool = False  # who leaves will be back: the group goes on without members


class Stranger(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """To who reports as a member: I do not know you, or not any more. Join again."""

    key: Key
    member: MemberId
    home: NodeName


GroupMessage = Join | Announce | Hand | Report | Stranger

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(GroupMessage).decode


def key_of(group: str, condition: str) -> str:
    """What stands for a group of this name and canonical condition; two groups share one hardly ever."""
    digest = blake2b(f"{group}\n{condition}".encode(), digest_size=10).digest()
    shown = "".join([each for each in group if each.isalnum() or each in "-_."])[:_SHOWN]
    return f"{shown}.{b32encode(digest).decode()}"


def home_of(key: str, broker: str) -> str:
    """The name of a group's home at a broker: to the broker it is a client."""
    return f"{HOMES}{key}@{broker}"


def desk_of(broker: str) -> str:
    """The address at which a broker's own clients ask for a home."""
    return f"groups@{broker}"


def channel_of(key: str) -> str:
    """The condition on all that is said on a group's channel."""
    return str(subscription_of([(Constraint(KIND, "=", GROUP), Constraint(OF, "=", key))]))


def envelope(sender: str, message: GroupMessage, to: str | None, now_us: int) -> Publish:
    """A message on its way to an address, or on its group's channel."""
    attributes: dict[str, AttributeValue] = {KIND: GROUP}
    if to is None:
        attributes[OF] = message.key
    else:
        attributes[address_of(to)] = True
    return Publish(Publication(sender, CONTROL_SEQ, now_us, None, attributes, _encode(message)))


def is_group_message(publication: Publication) -> bool:
    return publication.seq == CONTROL_SEQ and publication.attributes.get(KIND) == GROUP


def decode_untrusted(publication: Publication) -> GroupMessage:
    """What is inside an envelope; raises only PeerError."""
    try:
        message: GroupMessage = _decode(publication.payload)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as problem:
        raise PeerError(f"not a message of a group: {problem}") from None
    if isinstance(message, Announce | Hand | Stranger) and not _is_home(message.home, publication.source):
        raise PeerError("only the home of a group says that, of itself")
    if isinstance(message, Hand):
        for each in message.events:
            if odd_attribute(each.attributes) is not None:
                raise PeerError("an event with an attribute that is neither a scalar nor a list of scalars")
    return message


def _is_home(name: str, source: str) -> bool:
    """Whether this is the home that a publication is from: its broker vouches for the source."""
    return name == source and name.startswith(HOMES)


def handed(publication: Publication) -> HandedEvent:
    each = publication
    about = each.source, each.seq, each.time_us, each.lifetime_us
    return HandedEvent(*about, dict(each.attributes), each.payload, skew_of(each))


def publication_of(event: HandedEvent, hand: Publication) -> Publication:
    """An event as its publisher has published it, by the clock of who was handed it."""
    about = event.source, event.seq, event.time_us, event.lifetime_us
    found = Publication(*about, event.attributes, event.payload)
    return found if event.lifetime_us is None else with_skew(found, event.skew_us + skew_of(hand))
