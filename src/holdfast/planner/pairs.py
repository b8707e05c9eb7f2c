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
lifetime, along the default path.

All ways to one broker are predicted at once, in arrays with a row for each source: a large network has a hundred
million pairs. Diagrams alone are asked pair by pair."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple

import numpy as np

from holdfast.planner.connected_worlds import ConnectedWorlds
from holdfast.planner.connectivity import Diagram, diagram_between
from holdfast.planner.disjoint_paths import alternates, bounds_of, disjoint_bound
from holdfast.planner.hybrid import hybrid_bound, hybrid_exact
from holdfast.planner.overlay import Ints, Overlay, WaysTo, is_forest
from holdfast.planner.paths_to import OverlayRates, WaitsTo
from holdfast.planner.uniformization import Floats

Method = Literal["exact", "monte-carlo", "bound"]
METHODS: tuple[Method, ...] = ("exact", "monte-carlo", "bound")  # from good to bad; columns have places in this
_MONTE_CARLO, _BOUND = 1, 2

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
_BASIC, _RETRANSMISSION, _MULTIPATH, _MULTIPATH_BOUND, _HYBRID = range(len(Schemes._fields))


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


class PairsTo:
    """All sources that were asked for and one target: a row each, in columns."""

    def __init__(self, target: int, sources: Ints, lifetimes_s: Floats) -> None:
        rows = len(sources)
        self.target, self.sources, self.lifetimes_s = target, sources, lifetimes_s
        self.counted, self.assumed_up = np.zeros((rows, len(NOTHING))), np.zeros((rows, len(NOTHING)))
        self.links = np.full(rows, -1)
        self.multipath_method, self.hybrid_method = np.zeros(rows, np.int8), np.zeros(rows, np.int8)
        self.errors, self.waiting = np.zeros(rows), np.ones((rows, len(PROFILE)))

    def __len__(self) -> int:
        return len(self.sources)

    def __iter__(self) -> Iterator[Pair]:
        for row, links in enumerate(self.links.tolist()):
            yield Pair(
                int(self.sources[row]),
                self.target,
                float(self.lifetimes_s[row]),
                Schemes(*self.counted[row].tolist()),
                Schemes(*self.assumed_up[row].tolist()),
                links if links >= 0 else None,
                METHODS[self.multipath_method[row]],
                METHODS[self.hybrid_method[row]],
                float(self.errors[row]),
                tuple(self.waiting[row].tolist()),
            )


def needs_worlds(overlay: Overlay) -> bool:
    """Whether it is beyond exact numbers from the start."""
    return len(overlay.names) > EXACT_BROKERS_MAX and not is_forest(overlay)


@dataclass(frozen=True)
class _Asked:
    """The rows with something to work out: there is a way, and it does not take all of the lifetime."""

    rows: Ints
    sources: Ints
    left_s: Floats  # of the lifetime, after what links take
    ends: Floats  # that both are up
    kept: Floats  # that no link on the way loses the event
    in_time: Floats  # with retransmission: with the ends counted, and with both up


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
        self._rates = OverlayRates(overlay)
        self._is_large = len(overlay.names) > EXACT_BROKERS_MAX
        self._is_forest = is_forest(overlay)

    def has_links_of(self, overlay: Overlay) -> bool:
        """Whether the other network has the same brokers and links between them, good or bad."""
        return self.overlay.names == overlay.names and [(each.a, each.b) for each in self.overlay.links] == [
            (each.a, each.b) for each in overlay.links
        ]

    def to(self, target: int, sources: Iterable[tuple[int, float]]) -> PairsTo:
        """From each source, for events of some lifetime, to the target."""
        asked_for = list(sources)
        source = np.array([each for each, _ in asked_for], np.int64)
        found = PairsTo(target, source, np.array([each for _, each in asked_for], np.float64))
        ways = self.overlay.ways_to(target)
        inside, kept, delays = self.overlay.between(ways)
        found.links[:] = ways.far[source]
        left_s = found.lifetimes_s - np.where(ways.far[source] >= 0, delays[source], 0.0)
        rows = np.flatnonzero((kept[source] > 0) & (left_s >= 0))
        up, _ = self.overlay.shares
        here = source[rows]
        ends = np.where(here == target, up[target], up[here] * up[target])
        late = self._late(ways, here, left_s[rows])
        asked = _Asked(rows, here, left_s[rows], ends, kept[here], 1 - late[:, :2])
        found.waiting[rows] = late[:, 2:]
        for columns, both, in_time in zip(_readings(found), (ends, np.ones(len(rows))), asked.in_time.T, strict=True):
            columns[rows, _BASIC] = inside[here] * both
            columns[rows, _RETRANSMISSION] = in_time
        self._connect(found, asked, ways, inside[here])
        return found

    def _late(self, ways: WaysTo, sources: Ints, left_s: Floats) -> Floats:
        """With retransmission: P(late) with the ends counted and with both up, then P(longer than each of PROFILE)."""
        late, ends = np.zeros((len(sources), 2 + len(PROFILE))), np.flatnonzero(left_s < inf)
        if not len(ends):
            return late
        begin, left_s = sources[ends], left_s[ends]
        longest = float(left_s.max())
        counted, ends_up = (WaitsTo(self.overlay, self._rates, ways, begin, each, longest) for each in (False, True))
        for at, share in enumerate(PROFILE):
            late[ends, 2 + at] = counted.late_each(begin, share * left_s)
        late[ends, 0] = late[ends, 2 + PROFILE.index(1.0)]
        late[ends, 1] = ends_up.late_each(begin, left_s)
        return late

    def _connect(self, found: PairsTo, asked: _Asked, ways: WaysTo, inside: Floats) -> None:
        """The columns of multipath and hybrid, in which one broker and trees have only the way that there is."""
        alone = (asked.sources == ways.target) | self._is_forest
        both = np.stack([inside * asked.ends, inside], axis=1)[alone]
        self._write(found, asked.rows[alone], both, both, asked.in_time[alone])
        others = np.flatnonzero(~alone)
        if not len(others):
            return
        connect = self._connect_large if self._is_large else self._connect_small
        connect(found, asked, ways, others)

    def _connect_large(self, found: PairsTo, asked: _Asked, ways: WaysTo, others: Ints) -> None:
        """By disjoint paths for all at once, and drawn worlds."""
        is_bounded = bool({"multipath_bound", "hybrid"} & self._wanted)
        bounds, apart = (
            bounds_of(self.overlay, ways, asked.sources[others]) if is_bounded else np.zeros((2, len(others)))
        )
        if "multipath_bound" not in self._wanted:
            bounds = np.zeros(len(others))
        both = np.stack([bounds * asked.ends[others], bounds], axis=1)
        self._write(found, asked.rows[others], both, both, self._hybrid_bound(found, asked, others, apart))
        if "multipath" in self._wanted:
            self._sample(found, asked, ways, others)

    def _connect_small(self, found: PairsTo, asked: _Asked, ways: WaysTo, others: Ints) -> None:
        """Each pair by its diagram; those without one by disjoint paths and drawn worlds."""
        unsure = []
        for at in others.tolist():
            source, ends = int(asked.sources[at]), np.array([asked.ends[at], 1.0])
            bound, multipath, diagram = 0.0, 0.0, None
            if "multipath_bound" in self._wanted:
                multipath = bound = disjoint_bound(self.overlay, source, ways.target).reliability
            if "multipath" in self._wanted:
                diagram = self._diagram(source, ways.target)
                if diagram is None:
                    unsure.append(at)
                else:
                    multipath = float(asked.kept[at]) * diagram.reliability(self.overlay.availabilities)
            hybrid = self._hybrid(found, asked, ways, at, diagram)
            self._write(found, asked.rows[[at]], multipath * ends, bound * ends, hybrid)
        if unsure:
            self._sample(found, asked, ways, np.array(unsure))

    def _hybrid(self, found: PairsTo, asked: _Asked, ways: WaysTo, at: int, diagram: Diagram | None) -> Floats:
        """Of one pair, exact where that can be."""
        path, left_s = ways.path(int(asked.sources[at])), float(asked.left_s[at])
        assert path is not None
        other = np.zeros(1)
        if "hybrid" in self._wanted and left_s < inf:
            if diagram is not None:
                exact = [hybrid_exact(self.overlay, path, diagram, left_s, ends_up) for ends_up in (False, True)]
                if None not in exact:
                    return np.array(exact)
            other = np.array([alternates(self.overlay, path).reliability])
        return self._hybrid_bound(found, asked, np.array([at]), other)

    def _hybrid_bound(self, found: PairsTo, asked: _Asked, others: Ints, apart: Floats) -> Floats:
        """In both readings; certain where events live for ever. `apart` is that a path apart from the way is up."""
        if "hybrid" not in self._wanted:
            return np.ones((len(others), 2))
        counted, inside = asked.in_time[others].T
        both = (hybrid_bound(counted, inside, asked.ends[others], apart), hybrid_bound(inside, inside, 1.0, apart))
        is_mortal = asked.left_s[others] < inf
        found.hybrid_method[asked.rows[others[is_mortal]]] = _BOUND
        return np.where(is_mortal[:, None], np.stack(both, axis=1), 1.0)

    def _sample(self, found: PairsTo, asked: _Asked, ways: WaysTo, unsure: Ints) -> None:
        """Monte Carlo for what is too large; of hybrid the bound stands, nearer than a sample of so few misses."""
        if self._worlds is None:
            self._worlds = ConnectedWorlds(self.overlay, self.samples, self.seed)
        rows, kept = asked.rows[unsure], asked.kept[unsure]
        shares = self._worlds.reached(ways.target, asked.sources[unsure]) / self.samples
        for at, columns in enumerate(_readings(found)):
            columns[rows, _MULTIPATH] = kept * shares[:, at]
        deviations = np.sqrt(shares * (1 - shares) / self.samples)
        found.errors[rows] = _INTERVAL * kept * deviations.max(axis=1)
        found.multipath_method[rows] = _MONTE_CARLO

    def _write(self, found: PairsTo, rows: Ints, multipath: Floats, bound: Floats, hybrid: Floats) -> None:
        """Columns of both readings, of one row each or many."""
        for at, columns in enumerate(_readings(found)):
            columns[rows, _MULTIPATH] = multipath[..., at]
            columns[rows, _MULTIPATH_BOUND] = bound[..., at]
            columns[rows, _HYBRID] = hybrid[..., at]

    def _diagram(self, source: int, target: int) -> Diagram | None:
        key = min(source, target), max(source, target)
        if key in self._diagrams:
            return self._diagrams[key]
        diagram = diagram_between(self.overlay, *key)
        if diagram is not None:
            kept = sum(each.nodes for each in self._diagrams.values()) + diagram.nodes
            while self._diagrams and kept > _KEPT_NODES_MAX:
                kept -= self._diagrams.pop(next(iter(self._diagrams))).nodes  # the oldest
            self._diagrams[key] = diagram
        return diagram


def _readings(found: PairsTo) -> tuple[Floats, Floats]:
    """The columns with the ends counted, and with both assumed up."""
    return found.counted, found.assumed_up
