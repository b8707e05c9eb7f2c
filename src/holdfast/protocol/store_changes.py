"""What a broker writes into its durable store, and what it finds there when it begins again.

A broker that stores events has to remember more than events: who its neighbours are and what they want, or it would not
know where to send what comes next; how far it has got with each of them in both directions; and its epoch, so that to
its neighbours a crash looks like a silence. A change is one step; a store applies a list of them, all or none.
"""

from dataclasses import dataclass, field

import msgspec

from holdfast.model.messages import Batch, Deliver, LinkState, NodeKind, Publish, Table

Body = Publish | Deliver | Batch


class Began(msgspec.Struct, frozen=True, tag=True, array_like=True):
    epoch: int


class Met(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A neighbour, and whether it says what it has taken."""

    neighbour: str
    kind: NodeKind
    acknowledges: bool


class Forgot(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A neighbour is gone for good, with all that was kept of it and for it."""

    neighbour: str


class Learned(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A neighbour's table has changed; with `is_snapshot`, what is added is the complete table."""

    neighbour: str
    table: Table
    version: int
    add: tuple[str, ...]
    drop: tuple[str, ...]
    is_snapshot: bool


class Knows(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """What another broker said of itself."""

    state: LinkState


class At(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """How far we have taken what a neighbour hands over."""

    neighbour: str
    stream: int
    seq: int


class Opened(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """We begin to hand over to a neighbour."""

    neighbour: str
    stream: int


class Keep(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A message that is to be handed over to these neighbours, under these numbers."""

    body: int
    kept_us: int
    message: Body
    to: tuple[tuple[str, int], ...]


class AckedUpTo(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A neighbour has taken everything up to this number."""

    neighbour: str
    seq: int


class Partly(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Of the batch with this number, a neighbour has taken the publications with lower numbers than `before`."""

    neighbour: str
    seq: int
    before: int


class Skipped(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """This number is no longer to be handed over: it has expired."""

    neighbour: str
    seq: int


class GaveUp(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """What was kept for a client and is gone: all of it so far, until the client has heard of it."""

    neighbour: str
    since_us: int  # when the first of these events was kept
    until_us: int  # and the last; 0: until the client comes back
    events: int
    reason: str  # empty: the client has heard of it


class Clocked(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """How this process tells the time, so that a later one notices that somebody has set the machine's clock."""

    boot: str  # of the machine; empty where it has no name
    offset_us: int  # from the machine's monotonic clock, which begins when it boots, to ours
    at_us: int  # when this was written


class Erase(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """These messages are for nobody any more."""

    bodies: tuple[int, ...]


Change = (
    Began
    | Met
    | Forgot
    | Learned
    | Knows
    | At
    | Opened
    | Keep
    | AckedUpTo
    | Partly
    | Skipped
    | GaveUp
    | Erase
    | Clocked
)


@dataclass
class StoredNeighbour:
    kind: NodeKind
    acknowledges: bool
    tables: dict[Table, tuple[int, list[str]]] = field(default_factory=dict)  # version and conditions
    at: tuple[int, int] | None = None  # stream and number of what we have taken from it
    stream: int | None = None  # of what we hand over to it,
    used: int = 0  # the numbers that are done with or have expired,
    queue: dict[int, int] = field(default_factory=dict)  # and what it has not taken: number -> body
    partly: tuple[int, int] = (0, 0)  # a number in it, and where in that batch the neighbour is


@dataclass
class Stored:
    """All of it."""

    epoch: int | None = None
    neighbours: dict[str, StoredNeighbour] = field(default_factory=dict)
    states: list[LinkState] = field(default_factory=list)
    bodies: dict[int, tuple[int, Body]] = field(default_factory=dict)  # when it was kept, and the message
    gave_up: dict[str, GaveUp] = field(default_factory=dict)  # by client, also of those that are forgotten
    clock: Clocked | None = None

    def taken(self) -> dict[str, tuple[int, int]]:
        """How far what each neighbour handed over was taken: a stream, and a number in it."""
        return {name: each.at for name, each in self.neighbours.items() if each.at is not None}
