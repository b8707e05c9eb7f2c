"""The waits of retransmission on all paths to one broker, with the end brokers counted or assumed up."""

from holdfast.planner.components import NEVER_FAILS, Component
from holdfast.planner.overlay import Overlay, Ways
from holdfast.planner.wait_trees import HopTree, Waits, waits_of
from holdfast.planner.waits import Hop


class WaitsTo:
    """P(late) from any broker to the target; `longest_s` is the longest lifetime that will be asked for."""

    def __init__(self, overlay: Overlay, ways: Ways, target: int, ends_up: bool, longest_s: float) -> None:
        self._overlay, self._ways, self._target, self._ends_up = overlay, ways, target, ends_up
        self._hops: list[Hop] = []
        self._before: list[int] = []
        self._inner: dict[int, int] = {target: -1}  # broker -> its hop as one on the way
        self._whole: dict[int, int] = {}  # broker -> the last hop of the sum over its whole path
        for broker in self._from_the_target():
            self._add(broker)
        self._waits: Waits = waits_of(HopTree(self._hops, self._before), longest_s)

    def late(self, source: int, lifetime_s: float) -> float:
        hop = self._whole[source]
        return self._waits.longer_than(hop, lifetime_s) if hop >= 0 else 0.0

    def _from_the_target(self) -> list[int]:
        """Everybody with a way there, each after the next one on its way."""
        behind: dict[int, list[int]] = {}
        for broker, step in enumerate(self._ways):
            if step is not None:
                behind.setdefault(step[0], []).append(broker)
        found = [self._target]
        for broker in found:  # grows while it is read
            found += behind.get(broker, ())
        return found

    def _add(self, broker: int) -> None:
        """The broker's hop as one on the way of others, and what begins its own path."""
        step = self._ways[broker]
        if step is None:  # the target: a path of one broker
            self._whole[broker] = -1 if self._ends_up else self._put(self._first(broker), -1)
            return
        following, link = step
        component = self._overlay.links[link].component
        at = self._inner[following]
        inner = Hop(self._overlay.brokers[broker], component, self._component(following))
        self._inner[broker] = self._put(inner, at)
        if self._ends_up:
            self._whole[broker] = self._put(Hop(NEVER_FAILS, component, self._component(following)), at)
        else:
            self._whole[broker] = self._put(self._first(broker), self._inner[broker])

    def _put(self, hop: Hop, before: int) -> int:
        self._hops.append(hop)
        self._before.append(before)
        return len(self._hops) - 1

    def _first(self, broker: int) -> Hop:
        """The publisher waits for its own broker."""
        return Hop(NEVER_FAILS, NEVER_FAILS, self._overlay.brokers[broker])

    def _component(self, broker: int) -> Component:
        return NEVER_FAILS if self._ends_up and broker == self._target else self._overlay.brokers[broker]
