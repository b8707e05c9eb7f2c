"""The waits of retransmission on all paths to one broker, with the end brokers counted or assumed up.

Each broker on the way of others is a hop of a tree, of which the target is the root (`wait_trees.py`). A source's own
path ends with a hop of its own: the publisher's wait for its broker, or the source's hop with a broker that never
fails."""

import numpy as np

from holdfast.planner.components import NEVER_FAILS, Component
from holdfast.planner.kernels.ways import with_those_between
from holdfast.planner.overlay import Ints, Overlay, Path, WaysTo
from holdfast.planner.uniformization import Floats
from holdfast.planner.wait_trees import HopTree, rates_of, waits_of
from holdfast.planner.waits import Hop, path_wait


class OverlayRates:
    """How often the components of a network fail and recover: those of brokers, and of links."""

    def __init__(self, overlay: Overlay) -> None:
        self.brokers = rates_of(overlay.brokers)
        self.links = rates_of([each.component for each in overlay.links])


class WaitsTo:
    """P(late) from some brokers to the target; `longest_s` is the longest lifetime that will be asked for."""

    def __init__(
        self,
        overlay: Overlay,
        rates: OverlayRates,
        ways: WaysTo,
        sources: Ints,
        ends_up: bool,
        longest_s: float,
    ) -> None:
        self._overlay, self._ways, self._ends_up = overlay, ways, ends_up
        begin = np.unique(sources)
        if ends_up:
            begin = begin[begin != ways.target]  # whose own subscribers wait for nobody
        first = ways.onward[begin] if ends_up else begin
        inner = with_those_between(ways.order, ways.onward, first[first >= 0])
        place = np.full(len(overlay.names), -1)  # the target stays at -1, the root
        place[inner] = np.arange(len(inner))
        brokers = rates.brokers.without(ways.target) if ends_up else rates.brokers
        onward = ways.onward[inner]
        tree = HopTree.of(brokers.of(inner), rates.links.of(ways.by[inner]), brokers.of(onward), place[onward])
        if ends_up:
            last = HopTree.of(None, rates.links.of(ways.by[begin]), brokers.of(first), place[first])
        else:
            last = HopTree.of(None, None, brokers.of(begin), place[begin])
        self._row = np.full(len(overlay.names), -1)  # of each source; -1: it does not wait
        self._row[begin] = np.arange(len(begin))
        self._waits = waits_of(tree.then(last), np.arange(len(inner), len(inner) + len(begin)), longest_s)

    def late(self, source: int, lifetime_s: float) -> float:
        return float(self.late_each(np.array([source]), np.array([lifetime_s]))[0])

    def late_each(self, sources: Ints, lifetimes_s: Floats) -> Floats:
        """For each of these sources with a lifetime of its own."""
        rows = self._row[sources]
        late, waits = np.zeros(len(rows)), rows >= 0
        if self._waits is not None:
            late[waits] = self._waits.longer_than(rows[waits], lifetimes_s[waits])
            return late
        for at in np.flatnonzero(waits).tolist():
            path = self._ways.path(int(sources[at]))
            assert path is not None
            late[at] = path_wait(self._hops(path)).longer_than(float(lifetimes_s[at]))
        return late

    def _hops(self, path: Path) -> list[Hop]:
        """One path's hops, from its publisher on, who waits for its own broker."""
        ends = {path.brokers[0], path.brokers[-1]} if self._ends_up else set()

        def component(broker: int) -> Component:
            return NEVER_FAILS if broker in ends else self._overlay.brokers[broker]

        between = zip(path.brokers[:-1], path.links, path.brokers[1:], strict=True)
        hops = [Hop(component(a), self._overlay.links[link].component, component(b)) for a, link, b in between]
        return hops if self._ends_up else [Hop(NEVER_FAILS, NEVER_FAILS, component(path.brokers[0])), *hops]
