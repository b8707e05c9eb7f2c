"""What a broker knows of a neighbour: whether it is there, what it wants, and what its link is worth."""

from collections.abc import Iterable, Mapping
from enum import Enum

from holdfast.model.messages import TABLES, Heartbeat, NodeKind, Table
from holdfast.protocol.reach import Complete
from holdfast.protocol.tables import ReceivedTable


class Presence(Enum):
    """Whether a neighbour counts."""

    HEARD = "heard"
    EXPIRED = "expired"  # its lease has run out, and what it told us is forgotten; it counts again when it speaks
    SUSPENDED = "suspended"  # a layer takes it for down, and what it told us is kept


class Neighbour:
    __slots__ = ("complete", "epoch", "heard", "heard_us", "hears_outages", "kind", "presence", "reliable", "repairs")

    def __init__(
        self,
        kind: NodeKind,
        now_us: int,
        reliable: bool = False,
        repairs: bool = False,
        knows_outages: bool = True,
    ) -> None:
        self.kind = kind
        self.reliable = reliable  # the end of its link is noticed: silence then only means that it is slow
        self.repairs = repairs  # both ends number what they send, and ask for what they miss
        self.hears_outages = (reliable or repairs) and knows_outages  # what we tell it arrives, and is understood
        self.heard: dict[Table, ReceivedTable] = {table: ReceivedTable() for table in TABLES}
        self.epoch: int | None = None
        self.heard_us = now_us
        self.complete = Complete(now_us)
        self.presence = Presence.HEARD

    def hears(self, heartbeat: Heartbeat, now_us: int) -> bool:
        """Whether it is a client that only says that it is there, as it did before: that is noted."""
        if self.kind != "client" or self.epoch != heartbeat.epoch or self.presence is not Presence.HEARD:
            return False
        if len(heartbeat.heard) != len(TABLES):
            return False
        self.heard_us = self.complete.upto_us = now_us
        return True

    @property
    def tells_outages(self) -> bool:
        """Whether it is a broker that is there, and whose link brings what it tells."""
        return self.kind == "broker" and self.hears_outages and self.presence is not Presence.EXPIRED


def complete_us(brokers: Mapping[str, Neighbour], apart_from: str, now_us: int) -> int:
    """Up to when all other brokers have told us what they had for us."""
    others = [each for name, each in brokers.items() if name != apart_from and each.tells_outages]
    return max(0, min([now_us, *[each.complete.upto_us for each in others]]))  # a broker may lie


def largest(neighbours: Iterable[Neighbour]) -> tuple[int, int]:
    """The most filters, and the most bytes, that one of them has in a table."""
    costs = [table.cost for each in neighbours for table in each.heard.values()]
    return max([each.filters for each in costs], default=0), max([each.bytes for each in costs], default=0)
