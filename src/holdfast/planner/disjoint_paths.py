"""The paper's lower bound on being connected: paths between two brokers that share nothing in between (paper 004).

Whether one of them is up is independent of the others, so `1 - product of (1 - r)` over them is a lower bound, where
r is the product of the availabilities between the ends. The ends are shared by all paths and must stay out of it:
`slides.py` has what happens when they are counted in.

Paths come from a flow of least cost, -log of availability, on the graph with every broker split in two: the k most
reliable disjoint paths for k = 1, 2, …; of the bounds they give the best is taken. Removing shortest paths one after
the other could block a second path that exists.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf, log

from holdfast.planner.overlay import Overlay, Path

_NEVER = 1e-300  # the availability of what is never up, as far as a logarithm is concerned


@dataclass(frozen=True)
class Bound:
    paths: tuple[Path, ...]
    reliability: float  # given that both ends are up


def interior_reliability(overlay: Overlay, path: Path) -> float:
    """That everything between the ends is up and no link on the way loses the event."""
    share = 1.0
    for broker in path.brokers[1:-1]:
        share *= overlay.brokers[broker].availability
    for link in path.links:
        share *= overlay.links[link].component.availability * (1 - overlay.links[link].loss)
    return share


def one_is_up(shares: Iterable[float]) -> float:
    """1 - the product of (1 - share), kept exact where shares are small."""
    none = 1.0
    up = 0.0
    for share in shares:
        up += none * share
        none *= 1 - share
    return up


def disjoint_bound(
    overlay: Overlay,
    source: int,
    target: int,
    without_brokers: frozenset[int] = frozenset(),
    without_links: frozenset[int] = frozenset(),
) -> Bound:
    """The best bound that disjoint paths give, without the use of some brokers and links."""
    flow = _Flow(overlay, source, target, without_brokers, without_links)
    best = Bound((), 0.0)
    while flow.augment():
        paths = flow.paths()
        reliability = one_is_up(interior_reliability(overlay, path) for path in paths)
        if reliability > best.reliability:
            best = Bound(tuple(paths), reliability)
    return best


class _Flow:
    """Successive shortest paths with potentials; node 2b is where events enter broker b, 2b + 1 where they leave it."""

    def __init__(
        self, overlay: Overlay, source: int, target: int, no_brokers: frozenset[int], no_links: frozenset[int]
    ) -> None:
        self._overlay, self._source, self._target = overlay, source, target
        self._no_brokers, self._no_links = no_brokers, no_links
        self._passed: dict[int, int] = {}  # link -> the broker that the flow leaves by it
        self._through: set[int] = set()  # brokers in between that a path uses
        self._potential = [0.0] * (2 * len(overlay.names))
        self._broker_cost = [-log(max(each.availability, _NEVER)) for each in overlay.brokers]
        self._link_cost = [-log(max(each.component.availability * (1 - each.loss), _NEVER)) for each in overlay.links]

    def augment(self) -> bool:
        """One more path, at least cost, turning earlier ones where that helps; False when there is none."""
        start, end = 2 * self._source + 1, 2 * self._target
        far = {start: 0.0}
        came: dict[int, tuple[int, int]] = {}  # node -> (node before, link or -1)
        done: set[int] = set()
        heap = [(0.0, start)]
        while heap:
            at, node = heappop(heap)
            if node in done:
                continue
            done.add(node)
            if node == end:
                break
            for other, link, cost in self._steps(node):
                reduced = max(0.0, cost + self._potential[node] - self._potential[other])
                if at + reduced < far.get(other, inf):
                    far[other] = at + reduced
                    came[other] = node, link
                    heappush(heap, (at + reduced, other))
        if end not in done:
            return False
        for node in range(len(self._potential)):
            self._potential[node] += min(far.get(node, inf), far[end])
        self._apply(came, end)
        return True

    def _steps(self, node: int) -> Iterable[tuple[int, int, float]]:
        broker, leaving = divmod(node, 2)
        if leaving:
            if broker in self._through:
                yield 2 * broker, -1, -self._broker_cost[broker]  # give up passing through it
            for other, link in self._overlay.neighbours[broker]:
                if link in self._no_links or other in self._no_brokers or other == self._source:
                    continue
                if link not in self._passed:
                    yield 2 * other, link, self._link_cost[link]
        else:
            if broker not in self._through and broker != self._target:
                yield 2 * broker + 1, -1, self._broker_cost[broker]
            for other, link in self._overlay.neighbours[broker]:
                if self._passed.get(link) == other:
                    yield 2 * other + 1, link, -self._link_cost[link]  # send the flow back

    def _apply(self, came: dict[int, tuple[int, int]], node: int) -> None:
        start = 2 * self._source + 1
        while node != start:
            before, link = came[node]
            if link < 0:
                self._through.symmetric_difference_update({node // 2})
            elif link in self._passed:
                del self._passed[link]
            else:
                self._passed[link] = before // 2
            node = before

    def paths(self) -> list[Path]:
        leaves: dict[int, list[tuple[int, int]]] = {}
        for link, broker in self._passed.items():
            ends = self._overlay.links[link]
            leaves.setdefault(broker, []).append((ends.b if ends.a == broker else ends.a, link))
        return [self._follow(leaves, first) for first in leaves.get(self._source, ())]

    def _follow(self, leaves: dict[int, list[tuple[int, int]]], first: tuple[int, int]) -> Path:
        brokers, links = [self._source, first[0]], [first[1]]
        while brokers[-1] != self._target:
            following, link = leaves[brokers[-1]][0]
            brokers.append(following)
            links.append(link)
        return Path(tuple(brokers), tuple(links))


def alternates(overlay: Overlay, path: Path) -> Bound:
    """Disjoint paths that share nothing with the default path but its ends."""
    return disjoint_bound(
        overlay, path.brokers[0], path.brokers[-1], frozenset(path.brokers[1:-1]), frozenset(path.links)
    )
