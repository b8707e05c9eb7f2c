"""What nodes say to each other.

A publication is an event on its way: its id (source and sequence number), when it left, how long it is worth
delivering, its attributes and an opaque payload. Everything else keeps the tables that route it: which
conditions lie behind a link, which brokers there are and what their clients want.

The structures are frozen and hold plain values, so that a simulator may hand the same object to many nodes and the
wire format can encode them without conversion.
"""

from datetime import datetime
from typing import Literal

import msgspec

Scalar = bool | int | float | str | datetime | None
Via = Literal["original", "repair", "gossip", "retransmission", "multipath", "replica"]
Table = Literal["subscriptions", "advertisements"]


class Publication(msgspec.Struct, frozen=True, array_like=True, gc=False):
    source: str
    seq: int
    time_us: int  # when it was published, by the publisher's clock
    lifetime_us: int | None
    attributes: dict[str, Scalar]
    payload: bytes = b""

    def expired(self, now_us: int) -> bool:
        return self.lifetime_us is not None and now_us > self.time_us + self.lifetime_us


class Publish(msgspec.Struct, frozen=True, array_like=True, tag="pub", gc=False):
    """A publication on its way to everyone who wants it, or only to the brokers named in `homes`."""

    publication: Publication
    homes: tuple[str, ...] = ()
    hops: int = 0  # brokers passed so far, counted where a loop is possible
    via: Via = "original"


class Deliver(msgspec.Struct, frozen=True, array_like=True, tag="del", gc=False):
    """A publication for a client of this broker."""

    publication: Publication
    via: Via = "original"


class Tell(msgspec.Struct, frozen=True, array_like=True, tag="tel"):
    """A change to one of the tables that the sender keeps with the receiver."""

    table: Table
    version: int
    add: tuple[str, ...]
    drop: tuple[str, ...]


class Whole(msgspec.Struct, frozen=True, array_like=True, tag="all"):
    """All of a table, sent when the receiver's copy is known to differ."""

    table: Table
    version: int
    conditions: tuple[str, ...]


class Summary(msgspec.Struct, frozen=True, array_like=True, tag="sum"):
    """A heartbeat: I am alive, this is my incarnation, and this is what I have of the tables you keep with me."""

    epoch: int
    heard: tuple[tuple[int, int], ...]  # version and digest of each table, in the order of TABLES
    known: tuple[int, int] = (0, 0)  # how many link states I know, and their digest (destinations routing)


class LinkState(msgspec.Struct, frozen=True, array_like=True, tag="lsa"):
    """What a broker says of itself to all others: its neighbours and what its own clients want."""

    broker: str
    epoch: int
    version: int
    neighbours: tuple[str, ...]
    conditions: tuple[str, ...]


class Detach(msgspec.Struct, frozen=True, array_like=True, tag="bye"):
    """A client leaves; forget its tables at once instead of waiting for its lease to run out."""


Message = Publish | Deliver | Tell | Whole | Summary | LinkState | Detach

TABLES: tuple[Table, ...] = ("subscriptions", "advertisements")
