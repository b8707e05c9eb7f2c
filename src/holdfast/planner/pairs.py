"""The predicted reliability of one broker's events at another, for every scheme (paper 004).

| scheme | value | method |
|---|---|---|
| basic | product of availabilities on the path | exact |
| retransmission | P(sum of waits within the lifetime) | exact: convolution of phase types |
| multipath | P(connected) | exact by a decision diagram, or Monte Carlo with its error |
| multipath_bound | disjoint paths | lower bound |
| hybrid | late on the path and not connected is missed | exact, Monte Carlo, or the bound |

Every value comes twice: with the end brokers counted, and with both assumed up. Links that lose messages count in
basic, multipath and the bounds as if the copy that arrives took the default path; that is exact for basic alone. The
time that links take is taken from the lifetime, along the default path."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, prod, sqrt
from typing import Literal, NamedTuple

from holdfast.planner.connectivity import Diagram, diagram_between
from holdfast.planner.disjoint_paths import Bound, alternates, disjoint_bound, interior_reliability, one_is_up
from holdfast.planner.failures import Sample, simulate
from holdfast.planner.hybrid import hybrid_bound, hybrid_exact
from holdfast.planner.overlay import Overlay, Path, along, is_forest
from holdfast.planner.paths_to import WaitsTo

Method = Literal["exact", "monte-carlo", "bound"]

EXACT_BROKERS_MAX = 200  # beyond, only on trees: a graph's diagram is far out of reach then
_KEPT_NODES_MAX = 5_000_000  # of diagrams that are remembered, 40 MB: each serves both directions
_KEPT_BOUNDS_MAX = 100_000  # some 100 MB of paths
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
    waiting: tuple[float, ...] = ()  # with retransmission, ends counted: P(longer than PROFILE of the lifetime)


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
        self.overlay = overlay
        self.samples, self.seed = samples, seed
        self._wanted = wanted
        # Diagrams depend on the graph alone: one with the same links and other components can use them.
        self._diagrams: dict[tuple[int, int], Diagram] = {} if like is None else like._diagrams
        self._bounds: dict[tuple[int, int], Bound] = {}
        self._is_large = len(overlay.names) > EXACT_BROKERS_MAX
        self._is_forest = is_forest(overlay)

    def to(self, target: int, sources: Iterable[tuple[int, float]]) -> list[Pair]:
        """From each source, for events of some lifetime, to the target."""
        asked = list(sources)
        ways = self.overlay.ways_to(target)
        longest = max((each for _, each in asked if each < inf), default=0.0)
        begin = [source for source, _ in asked]
        waits = [WaitsTo(self.overlay, ways, target, begin, ends_up, longest) for ends_up in (False, True)]
        found: list[Pair] = []
        unsure: list[tuple[int, Path]] = []
        for source, lifetime_s in asked:
            path = along(ways, source, target)
            if path is None:
                found.append(Pair(source, target, lifetime_s, NOTHING, NOTHING, None))
                continue
            pair = self._pair(path, lifetime_s, waits)
            if pair.multipath_method == "monte-carlo":
                unsure.append((len(found), path))
            found.append(pair)
        self._sample(found, unsure)
        return found

    def _pair(self, path: Path, lifetime_s: float, waits: Sequence[WaitsTo]) -> Pair:
        source, target = path.brokers[0], path.brokers[-1]
        overlay = self.overlay
        ends = prod(overlay.brokers[each].availability for each in {source, target})
        left_s = lifetime_s - sum(overlay.links[each].delay_s for each in path.links)
        if left_s < 0:
            return Pair(source, target, lifetime_s, NOTHING, NOTHING, len(path.links))
        late = [each.late(source, left_s) if left_s < inf else 0.0 for each in waits]
        inside = interior_reliability(overlay, path)
        if source == target:
            own, sure = Schemes(ends, 1 - late[0], ends, ends, 1 - late[0]), Schemes(1.0, 1.0, 1.0, 1.0, 1.0)
            return Pair(source, target, lifetime_s, own, sure, 0)
        kept = prod(1 - overlay.links[each].loss for each in path.links)
        if self._is_forest:  # there is only one way, so all that goes for any path goes for this one
            diagram, bound, multipath = None, inside, inside
        else:
            bound = self._bound(source, target).reliability if "multipath_bound" in self._wanted else 0.0
            diagram = self._diagram(source, target) if "multipath" in self._wanted else None
            multipath = kept * diagram.reliability(overlay.availabilities) if diagram else bound
        hybrid, method = self._hybrid(path, diagram, left_s, late, ends)
        return Pair(
            source,
            target,
            lifetime_s,
            Schemes(inside * ends, 1 - late[0], multipath * ends, bound * ends, hybrid[0]),
            Schemes(inside, 1 - late[1], multipath, bound, hybrid[1]),
            len(path.links),
            "exact" if diagram or self._is_forest or "multipath" not in self._wanted else "monte-carlo",
            method,
            waiting=tuple(waits[0].late(source, share * left_s) for share in PROFILE) if left_s < inf else (),
        )

    def _hybrid(
        self, path: Path, diagram: Diagram | None, left_s: float, late: Sequence[float], ends: float
    ) -> tuple[tuple[float, float], Method]:
        if left_s == inf or "hybrid" not in self._wanted:
            return (1.0, 1.0), "exact"
        if self._is_forest:
            return (1 - late[0], 1 - late[1]), "exact"
        if diagram is not None:
            exact = [hybrid_exact(self.overlay, path, diagram, left_s, ends_up) for ends_up in (False, True)]
            if exact[0] is not None and exact[1] is not None:
                return (exact[0], exact[1]), "exact"
        other = self._alternative(path)
        counted = hybrid_bound(1 - late[0], 1 - late[1], ends, other)
        return (counted, hybrid_bound(1 - late[1], 1 - late[1], 1.0, other)), "bound"

    def _diagram(self, source: int, target: int) -> Diagram | None:
        key = min(source, target), max(source, target)
        if key not in self._diagrams:
            if self._is_large:
                return None
            diagram = diagram_between(self.overlay, *key)
            kept = sum(each.nodes for each in self._diagrams.values())
            if diagram is None or kept + diagram.nodes > _KEPT_NODES_MAX:
                return diagram
            self._diagrams[key] = diagram
        return self._diagrams[key]

    def _bound(self, source: int, target: int) -> Bound:
        key = min(source, target), max(source, target)
        if key not in self._bounds:
            if len(self._bounds) >= _KEPT_BOUNDS_MAX:
                self._bounds.clear()
            self._bounds[key] = disjoint_bound(self.overlay, *key)
        return self._bounds[key]

    def _alternative(self, path: Path) -> float:
        """That one of some paths is up that share nothing with this one, nor with each other, but the ends."""
        if not self._is_large:
            return alternates(self.overlay, path).reliability
        # A second search for each of many pairs would take as long as everything else; some of these are apart, too.
        inner, links = frozenset(path.brokers[1:-1]), frozenset(path.links)
        apart = [
            each
            for each in self._bound(path.brokers[0], path.brokers[-1]).paths
            if inner.isdisjoint(each.brokers) and links.isdisjoint(each.links)
        ]
        return one_is_up(interior_reliability(self.overlay, each) for each in apart)

    def _sample(self, found: list[Pair], unsure: Sequence[tuple[int, Path]]) -> None:
        """Monte Carlo for what is too large; worlds are named after the target, so that the order of work is no
        matter."""
        if not unsure:
            return
        target = found[unsure[0][0]].target
        name = f"{self.seed}/{self.overlay.names[target]}"
        sample = simulate(
            self.overlay, [path for _, path in unsure], 0.0, self.samples, name
        )  # only who is up at first
        for row, (at, _) in enumerate(unsure):
            found[at] = _with_sample(found[at], sample, row)


def _with_sample(pair: Pair, sample: Sample, row: int) -> Pair:
    """The sampled values of multipath. Of hybrid the bound stands: it is nearer than a sample of so few misses."""
    shares = sample.reliability()[row]
    error = _INTERVAL * max(sqrt(share * (1 - share) / sample.worlds) for share in (shares[2], shares[6]))
    return replace(
        pair,
        counted=pair.counted._replace(multipath=float(shares[2])),
        assumed_up=pair.assumed_up._replace(multipath=float(shares[6])),
        error=error,
    )
