"""A node in the simulator: its machine, its links, its queue, and counters of what it sent and received."""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import final

import msgspec

from holdfast.books.tally import Tally
from holdfast.model.messages import Message, NodeKind
from holdfast.protocol.effects import Input
from holdfast.protocol.node import Node
from holdfast.sim.links import SimLink

_NOBODY_WAITS = deque[tuple[str, Message]](maxlen=0)  # one for all without a service time: each takes half a kilobyte
_NOBODY_IS_SERVED: list[tuple[str, Message]] = []


@final
@dataclass(slots=True, eq=False)
class Host:
    name: str
    kind: NodeKind
    machine: Node
    has_service_time: bool = False  # messages wait for a server, and take it some time
    channels: dict[str, "Channel"] = field(default_factory=dict)
    up: bool = True
    wake_us: int = -1  # the wake-up that counts; earlier ones still in the queue are stale
    waiting: deque[tuple[str, Message]] = field(default_factory=lambda: _NOBODY_WAITS)  # messages for a busy broker
    served: list[tuple[str, Message]] = field(default_factory=lambda: _NOBODY_IS_SERVED)  # what servers are busy with
    busy: int = 0  # servers
    held: "list[Input | Parcel] | None" = None  # it hangs: what has come for it since, and waits until it goes on
    incarnation: int = 0  # counts crashes: work begun before one is not finished after it
    tallies: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))  # by the kind of message

    def __post_init__(self) -> None:
        if self.has_service_time:
            self.waiting, self.served = deque(), []

    @property
    def queue_length(self) -> int:
        return len(self.waiting) + len(self.served)

    def has_settled(self, now_us: int) -> bool:
        """Whether nothing more is to be expected of it when nothing is on its way."""
        return not self.up or self.machine.has_settled(now_us)


def all_settled(hosts: list[Host], now_us: int) -> bool:
    """Whether none of them looks for anything; one that does becomes the first, so that it is asked first next time."""
    for at, host in enumerate(hosts):
        if not host.has_settled(now_us):
            hosts.insert(0, hosts.pop(at))
            return False
    return True


@dataclass(slots=True, eq=False)
class Channel:
    """One direction of a link, and the host at its end."""

    link: SimLink
    receiver: Host
    event_bytes: int = 0  # sent so far, where recovery is on: events,
    recovery_bytes: int = 0  # and what clients say about recovery


class Parcel(msgspec.Struct, frozen=True, gc=False):
    """A message on its way, once for all who get it at the same time."""

    sender: str
    messages: tuple[Message]  # as machines receive them
    kind: str  # what it counts as, by `classify`,
    flies: bool  # and whether it carries an event
    bytes: int  # its size
