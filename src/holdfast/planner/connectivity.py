"""Whether two brokers are connected when brokers and links fail: exactly, by a decision diagram (paper 004,
multi-path).

Components are decided one after the other: a broker as it comes into view, then its links to brokers in view. All that
matters of the past is which brokers in view are up and which of them hang together, so states that agree in this are
one node of the diagram. A broker whose links are all decided goes out of view. The diagram depends on the graph alone:
built once, it gives the reliability for any availabilities, and for many at a time.

Both ends are taken as up; who counts them multiplies by their availabilities. Its size is bounded; what is larger is
for Monte Carlo (`connected_worlds.py`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.planner.broker_order import good_order, in_view
from holdfast.planner.kernels.diagrams import ENTER, FAILED, JOIN, REACHED, SLOTS, expand
from holdfast.planner.overlay import Overlay
from holdfast.planner.simple_paths import relevant_between
from holdfast.planner.uniformization import Floats

NODES_MAX = 4_000_000  # of a diagram: about a second and 50 MB
# The sum over brokers of 3 to the power of how many are in view as it comes: a diagram has one to five times as many
# nodes on random graphs of degrees 3 to 5. Beyond this it need not be tried: that takes a second or two for each pair.
_WIDTH_MAX = 2_000_000
_NOTHING = -1  # the component of a step that decides nothing: an end comes into view

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True)
class DiagramLevel:
    component: int  # brokers first, then links; or _NOTHING
    down: Ints  # where each node leads when the component is down, in the level after; or FAILED, REACHED
    up: Ints


@dataclass(frozen=True)
class Diagram:
    levels: tuple[DiagramLevel, ...]

    @property
    def nodes(self) -> int:
        return sum(len(level.up) for level in self.levels)

    def reliability(self, availability: Sequence[float] | Floats) -> float:
        """P(connected), given each component's availability."""
        return float(self._values(np.asarray(availability, dtype=np.float64)[:, None])[0, 0])

    def reliabilities(self, availabilities: Floats) -> Floats:
        """The same for many cases at a time: a column each."""
        return np.asarray(self._values(availabilities)[0], dtype=np.float64)

    def _values(self, availabilities: Floats) -> Floats:
        """P(connected from here) by node of the first level, behind it the two ends of the diagram."""
        ends = np.zeros((2, availabilities.shape[1]))
        ends[REACHED] = 1.0
        values = ends
        for level in reversed(self.levels):
            here = values[level.up]
            if level.component != _NOTHING:
                share = availabilities[level.component]
                here = share * here + (1 - share) * values[level.down]
            values = np.concatenate([here, ends])
        return values


def diagram_between(overlay: Overlay, source: int, target: int, nodes_max: int = NODES_MAX) -> Diagram | None:
    """None when it would be too large."""
    relevant = relevant_between(overlay.neighbours, source, target)
    if not relevant.brokers:
        never = np.array([FAILED], dtype=np.int32)
        return Diagram((DiagramLevel(_NOTHING, never, never),))
    neighbours = {
        broker: {other: link for other, link in overlay.neighbours[broker] if link in relevant.links}
        for broker in sorted(relevant.brokers)
    }
    order = [broker for broker in good_order(overlay, source, target) if broker in relevant.brokers]
    if (
        sum(3**view for view in in_view(order, [neighbours.get(each, {}) for each in range(len(overlay.names))]))
        > _WIDTH_MAX
    ):
        return None
    steps = _steps(order, neighbours, source, target, len(overlay.names))
    return None if steps is None else _built(steps, nodes_max)


@dataclass(frozen=True)
class _Step:
    kind: int  # ENTER or JOIN
    component: int
    slot: int  # of the broker that enters, or of one end of the link
    other: int  # of the other end; for an end of the whole path its label
    places: int  # slots in use, counted from the first
    leaving: tuple[int, ...]  # slots that go out of view after this
    ahead: npt.NDArray[np.uint64]  # for each slot, the brokers it has undecided links with after this, as bits


def _steps(
    order: Sequence[int], neighbours: Mapping[int, Mapping[int, int]], source: int, target: int, brokers: int
) -> list[_Step] | None:
    """What is decided when; None when more brokers are in view at once than a state has places for."""
    undecided = {broker: set(others) for broker, others in neighbours.items()}
    bit = {broker: 1 << (at % 64) for at, broker in enumerate(order)}  # two that share a bit only look like one less
    shared = len(order) > 64
    ends = {source: 1, target: 2}
    slots: dict[int, int] = {}
    free = list(range(SLOTS))
    steps: list[_Step] = []

    def ahead() -> npt.NDArray[np.uint64]:
        masks = np.zeros(SLOTS + 1, dtype=np.uint64)
        for broker, slot in slots.items():
            masks[slot] = 2**64 - 1 if shared else sum(bit[other] for other in undecided[broker])
        return masks

    for broker in order:
        if not free:
            return None
        slots[broker] = slot = free.pop(0)
        component = _NOTHING if broker in ends else broker
        steps.append(_Step(ENTER, component, slot, ends.get(broker, 0), max(slots.values()) + 1, (), ahead()))
        for other in [each for each in neighbours[broker] if each in slots and each != broker]:
            undecided[broker].discard(other)
            undecided[other].discard(broker)
            gone = [each for each in (other, broker) if not undecided[each]]
            leaving, places = tuple(slots[each] for each in gone), max(slots.values()) + 1
            link = brokers + neighbours[broker][other]
            steps.append(_Step(JOIN, link, slot, slots[other], places, leaving, ahead()))
            free += [slots.pop(each) for each in gone]
        free.sort()
    return steps


def _built(steps: Sequence[_Step], nodes_max: int) -> Diagram | None:
    states = np.zeros(1, dtype=np.uint64)
    levels, nodes = [], 0
    for step in steps:
        leaving = np.array(step.leaving, dtype=np.int64)
        down, up, states = expand(states, step.kind, step.slot, step.other, step.places, leaving, step.ahead)
        levels.append(DiagramLevel(step.component, down, up))
        nodes += len(up)
        if nodes + len(states) > nodes_max:
            return None
        if not len(states):
            break
    return Diagram(tuple(levels))
