"""Retransmission on the default path and a copy along whatever is up at publication (paper 004, hybrid).

An event is missed when it is late on the default path and the ends were not connected as it was published. Both
depend on the state of the default path at that moment, so the exact value sums over these states: how likely, how
likely late from there, how likely not connected given them. The first two come from the chain of all components of
the path together with the event's place on it; the last from the decision diagram with these components fixed.

Where that is too much there is the bound: the default path and paths disjoint from it are independent, given the ends.
"""

from itertools import pairwise
from typing import TypeVar

import numpy as np

from holdfast.planner.components import Component
from holdfast.planner.connectivity import Diagram
from holdfast.planner.kernels.path_chains import late_by_state
from holdfast.planner.overlay import Overlay, Path
from holdfast.planner.uniformization import Floats, poisson_reach, poisson_weights

_Share = TypeVar("_Share", float, Floats)
_COMPONENTS_MAX = 13  # of a path that may fail: 8,192 states; seven brokers and the links between them
_TICKS_MAX = 20_000  # of the chain
_CELLS_MAX = 30_000_000  # nodes of the diagram times states of the path: a few tenths of a second


def hybrid_exact(overlay: Overlay, path: Path, diagram: Diagram, lifetime_s: float, ends_up: bool) -> float | None:
    """P(delivered in time), or None when the path or the diagram is too large."""
    chain = _PathChain(overlay, path, ends_up)
    if len(chain.numbers) > _COMPONENTS_MAX or diagram.nodes << len(chain.numbers) > _CELLS_MAX:
        return None
    late = chain.late(lifetime_s)
    if late is None:
        return None
    states = np.flatnonzero(late > 0)
    missed = late[states] * chain.likely(states)
    apart = 1 - diagram.reliabilities(chain.fixed(overlay, states))
    ends = [at for at, number in enumerate(chain.numbers) if number in (path.brokers[0], path.brokers[-1])]
    for at in ends:
        apart = np.where(states >> at & 1, 1.0, apart)
    return 1 - float(missed @ apart)


def hybrid_bound(on_time: _Share, on_time_inside: _Share, ends: _Share | float, alternative: _Share) -> _Share:
    """A lower bound: `on_time` with the ends as they are, `on_time_inside` with both up all the time, `ends` that both
    are up, `alternative` that one of the paths disjoint from the default one is.
    """
    return on_time + ends * (1 - on_time_inside) * alternative


class _PathChain:
    """The components of a path that can fail, and where on it the event is: a Markov chain."""

    def __init__(self, overlay: Overlay, path: Path, ends_up: bool) -> None:
        brokers = len(overlay.names)
        ends = {path.brokers[0], path.brokers[-1]} if ends_up else set()
        parts: dict[int, Component] = {each: overlay.brokers[each] for each in path.brokers if each not in ends}
        parts |= {brokers + each: overlay.links[each].component for each in path.links}
        self.numbers = [number for number, each in parts.items() if each.fails]
        self._parts = [parts[number] for number in self.numbers]
        bit = {number: 1 << at for at, number in enumerate(self.numbers)}
        first = bit.get(path.brokers[0], 0)
        hops = zip(pairwise(path.brokers), path.links, strict=True)
        # What must be up for the event to move on: its publisher's broker, then both brokers and the link of a hop.
        self._needs = [first, *(bit.get(a, 0) | bit.get(b, 0) | bit.get(brokers + link, 0) for (a, b), link in hops)]

    def late(self, lifetime_s: float) -> Floats | None:
        """P(late | which components are down at publication), by the mask of those that are down."""
        fail = np.array([each.failure_rate for each in self._parts])
        mend = np.array([each.recovery_rate for each in self._parts])
        fastest = float(np.maximum(fail, mend).sum())
        if fastest == 0:
            return np.zeros(1)
        if poisson_reach(fastest * lifetime_s) > _TICKS_MAX:
            return None
        weights = poisson_weights(fastest * lifetime_s)
        late: Floats = late_by_state(fail / fastest, mend / fastest, np.array(self._needs), weights)
        return late

    def likely(self, states: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Floats:
        shares = np.ones(len(states))
        for at, part in enumerate(self._parts):
            shares *= np.where(states >> at & 1, part.unavailability, part.availability)
        return shares

    def fixed(self, overlay: Overlay, states: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Floats:
        """The availability of every component of the network, a column for each state of the path."""
        shares = np.repeat(np.array(overlay.availabilities)[:, None], len(states), axis=1)
        for at, number in enumerate(self.numbers):
            shares[number] = 1.0 - (states >> at & 1)
        return shares


def late_alone(overlay: Overlay, path: Path, lifetime_s: float, ends_up: bool) -> float | None:
    """P(late on the default path) from the same chain: what the convolution of waits must give as well."""
    chain = _PathChain(overlay, path, ends_up)
    late = chain.late(lifetime_s) if len(chain.numbers) <= _COMPONENTS_MAX else None
    return None if late is None else float(late @ chain.likely(np.arange(len(late))))
