"""A store in memory: it outlives the simulated broker, not the process.

It is also what the other stores are compared with: each change in the plainest way.
"""

from collections.abc import Sequence
from copy import deepcopy

from holdfast.protocol.store_changes import (
    AckedUpTo,
    At,
    Began,
    Change,
    Clocked,
    Erase,
    Forgot,
    GaveUp,
    Keep,
    Knows,
    Learned,
    Met,
    Opened,
    Partly,
    Skipped,
    Stored,
    StoredNeighbour,
)


class MemoryStore:
    incomplete = ""

    def __init__(self) -> None:
        self._stored = Stored()

    def load(self) -> Stored:
        found = self._stored
        neighbours = deepcopy(found.neighbours)
        return Stored(found.epoch, neighbours, list(found.states), dict(found.bodies), dict(found.gave_up), found.clock)

    @property
    def holds_events(self) -> bool:
        return bool(self._stored.bodies)

    def write(self, changes: Sequence[Change]) -> None:
        for change in changes:
            apply(self._stored, change)

    def close(self) -> None: ...


def apply(stored: Stored, change: Change) -> None:
    """One change to what is stored. What is about a neighbour that is not known has no effect."""
    match change:
        case Began():
            stored.epoch = change.epoch
        case Met():
            known = stored.neighbours.setdefault(change.neighbour, StoredNeighbour(change.kind, change.acknowledges))
            known.kind, known.acknowledges = change.kind, change.acknowledges
        case Forgot():
            stored.neighbours.pop(change.neighbour, None)
        case Knows():
            stored.states = [each for each in stored.states if each.broker != change.state.broker]
            stored.states.append(change.state)
        case Keep():
            stored.bodies[change.body] = change.kept_us, change.message
            for name, seq in change.to:
                if name in stored.neighbours:
                    stored.neighbours[name].queue[seq] = change.body
        case GaveUp():
            stored.gave_up.pop(change.neighbour, None)
            if change.reason:
                stored.gave_up[change.neighbour] = change
        case Clocked():
            stored.clock = change
        case Erase():
            for body in change.bodies:
                stored.bodies.pop(body, None)
        case _:
            neighbour = stored.neighbours.get(change.neighbour)
            if neighbour is not None:
                _apply_to(neighbour, change)


def _apply_to(neighbour: StoredNeighbour, change: Learned | At | Opened | AckedUpTo | Partly | Skipped) -> None:
    match change:
        case Learned():
            _, before = neighbour.tables.get(change.table, (0, []))
            kept = {} if change.is_snapshot else dict.fromkeys(before)
            for each in change.drop:
                kept.pop(each, None)
            kept.update(dict.fromkeys(change.add))
            neighbour.tables[change.table] = change.version, list(kept)
        case At():
            neighbour.at = change.stream, change.seq
        case Opened():
            neighbour.stream, neighbour.used, neighbour.queue = change.stream, 0, {}
            neighbour.partly = 0, 0
        case AckedUpTo():
            queue = neighbour.queue
            while queue and (first := next(iter(queue))) <= change.seq:
                del queue[first]
            neighbour.used = max(neighbour.used, change.seq)
        case Partly():
            neighbour.partly = change.seq, change.before
        case Skipped():
            neighbour.queue.pop(change.seq, None)
            neighbour.used = max(neighbour.used, change.seq)
