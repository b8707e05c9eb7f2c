"""The predicted reliability of one broker's events at another, for every scheme (paper 004).

| scheme | value | method |
|---|---|---|
| basic | product of availabilities on the path | exact |
| retransmission | P(sum of waits within the lifetime) | exact: convolution of phase types |
| multipath | P(connected) | exact by a decision diagram, or Monte Carlo with its error |
| multipath_bound | disjoint paths | lower bound |
| hybrid | late on the path and not connected is missed | exact, or the bound |

Every value comes twice: with the end brokers counted, and with both assumed up. Links that lose messages count in
basic, multipath and the bounds as if the copy that arrives took the default path; that is exact for basic alone. A
link that loses everything lets nothing pass, whatever is sent again. The time that links take is taken from the
lifetime, along the default path."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, prod, sqrt
from typing import Literal, NamedTuple

import numpy as np

from holdfast.planner.connected_worlds import ConnectedWorlds
from holdfast.planner.connectivity import Diagram, diagram_between
from holdfast.planner.disjoint_paths import alternates, bounds_of, disjoint_bound, interior_reliability
from holdfast.planner.hybrid import hybrid_bound, hybrid_exact
from holdfast.planner.overlay import NextHops, Overlay, Path, along, is_forest
from holdfast.planner.paths_to import WaitsTo
from holdfast.planner.uniformization import Floats

Method = Literal["exact", "monte-carlo", "bound"]

EXACT_BROKERS_MAX = 200  # beyond, only on trees: a graph's diagram is far out of reach then
_KEPT_NODES_MAX = 5_000_000  # of diagrams that are remembered, 40 MB: each serves both directions
_INTERVAL = 1.96  # standard errors of a 95 % interval


class Schemes(NamedTuple):
    basic: float
    retransmission: float
    multipath: float
    multipath_bound: float
    hybrid: float


PROFILE = (0.0, 0.01, 0.1, 0.25, 0.5, 1.0)  # shares of the lifetime at which the delay's distribution is told
EVERY_SCHEME = frozenset(Schemes._fields)
NOTHING = Schemes(0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Pair:
    source: int
    target: int
    lifetime_s: float
    counted: Schemes
    assumed_up: Schemes
    links: int | None  # of the default path; None where there is no path
    multipath_method: Method = "exact"
    hybrid_method: Method = "exact"
    error: float = 0.0  # half of the 95 % interval of the Monte Carlo values
    # With retransmission, ends counted: P(longer than PROFILE of the lifetime); what never comes takes longer than any.
    waiting: tuple[float, ...] = (1.0,) * len(PROFILE)


def needs_worlds(overlay: Overlay) -> bool:
    """Whether it is beyond exact numbers from the start."""
    return len(overlay.names) > EXACT_BROKERS_MAX and not is_forest(overlay)


@dataclass(frozen=True, slots=True)
class _Asked:
    place: int  # among all that were asked for
    path: Path
    lifetime_s: float
    left_s: float  # of the lifetime, after what links take


class Predictor:
    """`wanted` leaves out what takes long and is not asked for; hybrid is then its bound, and the others are 0."""

    def __init__(
        self,
        overlay: Overlay,
        samples: int = 20_000,
        seed: str = "plan",
        wanted: frozenset[str] = EVERY_SCHEME,
        like: "Predictor | None" = None,
    ) -> None:
        """`like` is one for the same links and other components: both then share what depends on the links alone."""
        self.overlay = overlay
        self.samples, self.seed = samples, seed
        self._wanted = wanted
        self._diagrams: dict[tuple[int, int], Diagram] = {} if like is None else like._diagrams
        self._worlds: ConnectedWorlds | None = None  # drawn when they are first needed
        self._is_large = len(overlay.names) > EXACT_BROKERS_MAX
        self._is_forest = is_forest(overlay)

    def has_links_of(self, overlay: Overlay) -> bool:
        """Whether the other network has the same brokers and links between them, good or bad."""
        return self.overlay.names == overlay.names and [(each.a, each.b) for each in self.overlay.links] == [
            (each.a, each.b) for each in overlay.links
        ]

    def to(self, target: int, sources: Iterable[tuple[int, float]]) -> list[Pair]:
        """From each source, for events of some lifetime, to the target."""
        next_hops = self.overlay.next_hops_to(target)
        found: list[Pair] = []
        asked: list[_Asked] = []
        for source, lifetime_s in sources:
            path = along(next_hops, source, target)
            found.append(Pair(source, target, lifetime_s, NOTHING, NOTHING, None if path is None else len(path.links)))
            if path is not None and self._kept(path) > 0:
                left_s = lifetime_s - sum(self.overlay.links[each].delay_s for each in path.links)
                if left_s >= 0:
                    asked.append(_Asked(len(found) - 1, path, lifetime_s, left_s))
        late = self._late(next_hops, target, asked)
        bounds = self._bounds_of(asked)
        for row, each in enumerate(asked):
            found[each.place] = self._pair(each, late[row], bounds.get(row))
        self._sample(found, [each for each in asked if found[each.place].multipath_method == "monte-carlo"])
        return found

    def _kept(self, path: Path) -> float:
        """The share of events that no link on the path loses."""
        return prod(1 - self.overlay.links[each].loss for each in path.links)

    def _late(self, next_hops: NextHops, target: int, asked: Sequence[_Asked]) -> Floats:
        """With retransmission: P(late) with the ends counted and with both up, then P(longer than each of PROFILE)."""
        kept = [row for row, each in enumerate(asked) if each.left_s < inf]
        late = np.zeros((len(asked), 2 + len(PROFILE)))
        if not kept:
            return late
        begin = [asked[row].path.brokers[0] for row in kept]
        left_s = np.array([asked[row].left_s for row in kept])
        longest = float(left_s.max())
        counted, ends_up = (WaitsTo(self.overlay, next_hops, target, begin, each, longest) for each in (False, True))
        late[kept, 0], late[kept, 1] = counted.late_each(begin, left_s), ends_up.late_each(begin, left_s)
        for at, share in enumerate(PROFILE):
            late[kept, 2 + at] = counted.late_each(begin, share * left_s)
        return late

    def _bounds_of(self, asked: Sequence[_Asked]) -> dict[int, tuple[float, float]]:
        """Of a large network, for all at once: the bound, and that a path apart from the default one is up."""
        rows = [row for row, each in enumerate(asked) if each.path.links]
        if not self._is_large or self._is_forest or not rows:
            return {}
        bounds, others = bounds_of(self.overlay, [asked[row].path for row in rows])
        return dict(zip(rows, zip(bounds.tolist(), others.tolist(), strict=True), strict=True))

    def _pair(self, asked: _Asked, late: Floats, bounds: tuple[float, float] | None) -> Pair:
        path, left_s, overlay = asked.path, asked.left_s, self.overlay
        source, target = path.brokers[0], path.brokers[-1]
        ends = prod(overlay.brokers[each].availability for each in {source, target})
        in_time = 1 - float(late[0]), 1 - float(late[1])
        if source == target:
            own, sure = Schemes(ends, in_time[0], ends, ends, in_time[0]), Schemes(1.0, 1.0, 1.0, 1.0, 1.0)
            return Pair(source, target, asked.lifetime_s, own, sure, 0, waiting=tuple(late[2:].tolist()))
        inside = interior_reliability(overlay, path)
        if self._is_forest:  # there is only one way, so all that goes for any path goes for this one
            diagram, bound, multipath = None, inside, inside
        else:
            bound = self._bound(source, target, bounds)
            diagram = self._diagram(source, target) if "multipath" in self._wanted else None
            multipath = self._kept(path) * diagram.reliability(overlay.availabilities) if diagram else bound
        other = None if bounds is None else bounds[1]
        hybrid, method = self._hybrid(path, diagram, left_s, in_time, ends, other)
        return Pair(
            source,
            target,
            asked.lifetime_s,
            Schemes(inside * ends, in_time[0], multipath * ends, bound * ends, hybrid[0]),
            Schemes(inside, in_time[1], multipath, bound, hybrid[1]),
            len(path.links),
            "exact" if diagram or self._is_forest or "multipath" not in self._wanted else "monte-carlo",
            method,
            waiting=tuple(late[2:].tolist()),
        )

    def _hybrid(
        self,
        path: Path,
        diagram: Diagram | None,
        left_s: float,
        in_time: tuple[float, float],
        ends: float,
        other: float | None,
    ) -> tuple[tuple[float, float], Method]:
        """`other` is that a path apart from this one is up, where that is known already."""
        if left_s == inf or "hybrid" not in self._wanted:
            return (1.0, 1.0), "exact"
        if self._is_forest:
            return in_time, "exact"
        if diagram is not None:
            exact = [hybrid_exact(self.overlay, path, diagram, left_s, ends_up) for ends_up in (False, True)]
            if exact[0] is not None and exact[1] is not None:
                return (exact[0], exact[1]), "exact"
        if other is None:
            other = alternates(self.overlay, path).reliability
        counted = hybrid_bound(*in_time, ends, other)
        return (counted, hybrid_bound(in_time[1], in_time[1], 1.0, other)), "bound"

    def _diagram(self, source: int, target: int) -> Diagram | None:
        key = min(source, target), max(source, target)
        if key in self._diagrams:
            return self._diagrams[key]
        diagram = None if self._is_large else diagram_between(self.overlay, *key)
        if diagram is not None:
            kept = sum(each.nodes for each in self._diagrams.values()) + diagram.nodes
            while self._diagrams and kept > _KEPT_NODES_MAX:
                kept -= self._diagrams.pop(next(iter(self._diagrams))).nodes  # the oldest
            self._diagrams[key] = diagram
        return diagram

    def _bound(self, source: int, target: int, bounds: tuple[float, float] | None) -> float:
        if "multipath_bound" not in self._wanted:
            return 0.0
        return disjoint_bound(self.overlay, source, target).reliability if bounds is None else bounds[0]

    def _sample(self, found: list[Pair], unsure: Sequence[_Asked]) -> None:
        """Monte Carlo for what is too large; of hybrid the bound stands, nearer than a sample of so few misses."""
        if not unsure:
            return
        if self._worlds is None:
            self._worlds = ConnectedWorlds(self.overlay, self.samples, self.seed)
        counts = self._worlds.reached(unsure[0].path.brokers[-1], [each.path.brokers[0] for each in unsure])
        for each, (counted, ends_up) in zip(unsure, (counts / self.samples).tolist(), strict=True):
            at, kept = each.place, self._kept(each.path)
            error = max(sqrt(share * (1 - share) / self.samples) for share in (counted, ends_up))
            found[at] = replace(
                found[at],
                counted=found[at].counted._replace(multipath=kept * counted),
                assumed_up=found[at].assumed_up._replace(multipath=kept * ends_up),
                error=_INTERVAL * kept * error,
            )
