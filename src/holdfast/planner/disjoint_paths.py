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
from functools import lru_cache

import numpy as np

from holdfast.planner.kernels.flows import augment, bounds_to, scratch
from holdfast.planner.overlay import Ints, Overlay, Path, WaysTo
from holdfast.planner.uniformization import Floats

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
    """Successive shortest paths with potentials."""

    def __init__(
        self, overlay: Overlay, source: int, target: int, no_brokers: frozenset[int], no_links: frozenset[int]
    ) -> None:
        self._overlay, self._source, self._target = overlay, source, target
        near, near_first, broker_cost, link_cost = _arrays(overlay)
        if no_brokers or no_links:
            broker_cost, link_cost = broker_cost.copy(), link_cost.copy()
            broker_cost[[*no_brokers]] = link_cost[[*no_links]] = np.inf
        self._graph = near, near_first, broker_cost, link_cost
        self._passed = np.full(len(overlay.links), -1)  # link -> the broker that a path leaves by it
        self._through = np.zeros(len(overlay.names), dtype=np.bool_)  # brokers in between that a path uses
        self._work = scratch(len(overlay.names), len(overlay.links))

    def augment(self) -> bool:
        """One more path, at least cost, turning earlier ones where that helps; False when there is none."""
        return bool(augment(self._source, self._target, self._graph, self._passed, self._through, self._work))

    def paths(self) -> list[Path]:
        leaves: dict[int, list[tuple[int, int]]] = {}
        for link in np.flatnonzero(self._passed >= 0).tolist():
            ends, broker = self._overlay.links[link], int(self._passed[link])
            leaves.setdefault(broker, []).append((ends.b if ends.a == broker else ends.a, link))
        return [self._follow(leaves, first) for first in leaves.get(self._source, ())]

    def _follow(self, leaves: dict[int, list[tuple[int, int]]], first: tuple[int, int]) -> Path:
        brokers, links = [self._source, first[0]], [first[1]]
        while brokers[-1] != self._target:
            following, link = leaves[brokers[-1]][0]
            brokers.append(following)
            links.append(link)
        return Path(tuple(brokers), tuple(links))


@lru_cache(maxsize=4)  # every pair of a network asks again
def _arrays(overlay: Overlay) -> tuple[Ints, Ints, Floats, Floats]:
    """Neighbours and links one after the other, where each broker's begin, and what brokers and links cost."""
    brokers, links = overlay.shares
    return (*overlay.neighbour_arrays, -np.log(np.maximum(brokers, _NEVER)), -np.log(np.maximum(links, _NEVER)))


def bounds_of(overlay: Overlay, ways: WaysTo, sources: Ints) -> tuple[Floats, Floats]:
    """For many sources and one target at once: the bound for each, and that of the same disjoint paths without those
    that meet the source's own way, a lower bound on `alternates`."""
    found: tuple[Floats, Floats] = bounds_to(
        ways.target,
        sources,
        ways.onward,
        ways.by,
        _arrays(overlay),
        *overlay.shares,
        scratch(len(overlay.names), len(overlay.links)),
    )
    return found


def alternates(overlay: Overlay, path: Path) -> Bound:
    """Disjoint paths that share nothing with the default path but its ends."""
    return disjoint_bound(
        overlay, path.brokers[0], path.brokers[-1], frozenset(path.brokers[1:-1]), frozenset(path.links)
    )
