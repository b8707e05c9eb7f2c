"""The waits of retransmission on all paths to one broker, with the end brokers counted or assumed up."""

from collections.abc import Iterable, Sequence

import numpy as np

from holdfast.planner.components import NEVER_FAILS, Component
from holdfast.planner.overlay import NextHops, Overlay
from holdfast.planner.uniformization import Floats
from holdfast.planner.wait_trees import HopTree, Waits, waits_of
from holdfast.planner.waits import Hop


class WaitsTo:
    """P(late) from some brokers to the target; `longest_s` is the longest lifetime that will be asked for."""

    def __init__(
        self,
        overlay: Overlay,
        next_hops: NextHops,
        target: int,
        sources: Iterable[int],
        ends_up: bool,
        longest_s: float,
    ) -> None:
        self._overlay, self._next_hops, self._target, self._ends_up = overlay, next_hops, target, ends_up
        self._hops: list[Hop] = []
        self._before: list[int] = []
        self._inner: dict[int, int] = {target: -1}  # broker -> its hop as one on the way
        self._complete: dict[int, int] = {}  # broker -> the last hop of the sum over its whole path
        begin = frozenset(sources)
        for broker in self._from_the_target(begin):
            self._add(broker, broker in begin)
        self._waits: Waits = waits_of(HopTree(self._hops, self._before), longest_s)

    def late(self, source: int, lifetime_s: float) -> float:
        return float(self.late_each([source], np.array([lifetime_s]))[0])

    def late_each(self, sources: Sequence[int], lifetimes_s: Floats) -> Floats:
        """For each of these sources with a lifetime of its own."""
        hops = np.array([self._complete[source] for source in sources], dtype=np.int64)
        late, waits = np.zeros(len(hops)), hops >= 0
        late[waits] = self._waits.longer_than(hops[waits], lifetimes_s[waits])
        return late

    def _from_the_target(self, sources: Iterable[int]) -> list[int]:
        """Everybody on the way of a source, each after the next one on its way."""
        behind: dict[int, dict[int, None]] = {}
        for broker in sources:
            while (step := self._next_hops[broker]) is not None and broker not in behind.setdefault(step[0], {}):
                behind[step[0]][broker] = None
                broker = step[0]
        found = [self._target]
        for broker in found:  # grows while it is read
            found += behind.get(broker, ())
        return found

    def _add(self, broker: int, begins: bool) -> None:
        """The broker's hop as one on the way of others, and what begins its own path."""
        step = self._next_hops[broker]
        if step is None:  # the target: a path of one broker
            if begins:
                self._complete[broker] = -1 if self._ends_up else self._put(self._first(broker), -1)
            return
        following, link = step
        component = self._overlay.links[link].component
        at = self._inner[following]
        inner = Hop(self._overlay.brokers[broker], component, self._component(following))
        self._inner[broker] = self._put(inner, at)
        if not begins:
            return
        if self._ends_up:
            self._complete[broker] = self._put(Hop(NEVER_FAILS, component, self._component(following)), at)
        else:
            self._complete[broker] = self._put(self._first(broker), self._inner[broker])

    def _put(self, hop: Hop, before: int) -> int:
        self._hops.append(hop)
        self._before.append(before)
        return len(self._hops) - 1

    def _first(self, broker: int) -> Hop:
        """The publisher waits for its own broker."""
        return Hop(NEVER_FAILS, NEVER_FAILS, self._overlay.brokers[broker])

    def _component(self, broker: int) -> Component:
        return NEVER_FAILS if self._ends_up and broker == self._target else self._overlay.brokers[broker]
