"""The network as the planner sees it: brokers and links that fail, and the way events take between two brokers.

Brokers are numbered in the order of the file. Every broker sends towards a target along fewest links, and among those
by the order of its links in the file, which is what brokers that route by destinations do; on a tree there is only
one path. So the paths to one target form a tree, `ways_to(target)`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from holdfast.network.schema import Network
from holdfast.planner.components import NEVER_FAILS, US_PER_S, Component, from_us
from holdfast.planner.kernels.ways import between, ways_to

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OverlayLink:
    a: int
    b: int
    component: Component = NEVER_FAILS
    loss: float = 0.0  # share of messages lost while it is up
    delay_s: float = 0.0


@dataclass(frozen=True, eq=False)  # compared by identity: what is worked out once is remembered by overlay
class Overlay:
    names: tuple[str, ...]
    brokers: tuple[Component, ...]
    links: tuple[OverlayLink, ...]

    @cached_property
    def number(self) -> Mapping[str, int]:
        return {name: at for at, name in enumerate(self.names)}

    @cached_property
    def neighbours(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each broker, (neighbour, link) in the order of the file."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.names]
        for at, link in enumerate(self.links):
            found[link.a].append((link.b, at))
            found[link.b].append((link.a, at))
        return tuple(map(tuple, found))

    @cached_property
    def neighbour_arrays(self) -> tuple[Ints, Ints]:
        """The same for compiled loops: neighbour, link, neighbour, link, …, and where each broker's begin."""
        return flattened([[each for pair in row for each in pair] for row in self.neighbours])

    @cached_property
    def availabilities(self) -> tuple[float, ...]:
        """Of each broker, then of each link: component numbers elsewhere count in this order."""
        brokers = (each.availability for each in self.brokers)
        return (*brokers, *(link.component.availability for link in self.links))

    @cached_property
    def link_losses(self) -> Floats:
        return np.array([each.loss for each in self.links])

    @cached_property
    def shares(self) -> tuple[Floats, Floats]:
        """How likely each broker is up, and each link up and not losing the event."""
        brokers, links = np.split(np.array(self.availabilities), [len(self.names)])
        return brokers, links * (1 - self.link_losses)

    def ways_to(self, target: int) -> "WaysTo":
        """A broker that looks around breadth first, its own links in order, finds the target through the first
        neighbour that is one link nearer to it."""
        return WaysTo(target, *ways_to(target, *self.neighbour_arrays))

    def between(self, ways: "WaysTo") -> tuple[Floats, Floats, Floats]:
        """For each broker's way: that all between the ends is up and no link loses the event, that no link loses it,
        and how long the links take; 0, 0 and infinity where there is no way."""
        delays = np.array([each.delay_s for each in self.links])
        found: tuple[Floats, Floats, Floats] = between(
            ways.order, ways.onward, ways.by, *self.shares, 1 - self.link_losses, delays
        )
        return found

    def path(self, source: int, target: int) -> "Path | None":
        return self.ways_to(target).path(source)

    def with_broker(self, broker: int, component: Component) -> "Overlay":
        return replace(self, brokers=(*self.brokers[:broker], component, *self.brokers[broker + 1 :]))

    def with_link(self, link: int, component: Component) -> "Overlay":
        changed = replace(self.links[link], component=component)
        return replace(self, links=(*self.links[:link], changed, *self.links[link + 1 :]))

    def without_links(self, dropped: Iterable[int]) -> "Overlay":
        gone = frozenset(dropped)
        return replace(self, links=tuple(link for at, link in enumerate(self.links) if at not in gone))

    def without_broker(self, broker: int) -> "Overlay":
        """The broker stays in the list, so that numbers keep their meaning, but nobody can reach it."""
        return self.without_links(link for _, link in self.neighbours[broker])

    def link_between(self, a: int, b: int) -> int | None:
        return next((link for neighbour, link in self.neighbours[a] if neighbour == b), None)

    def link_name(self, link: int) -> str:
        return f"{self.names[self.links[link].a]}-{self.names[self.links[link].b]}"


@dataclass(frozen=True, slots=True)
class Path:
    brokers: tuple[int, ...]
    links: tuple[int, ...]  # one fewer


@dataclass(frozen=True, eq=False)
class WaysTo:
    """The ways of all brokers to one: each sends to the next, which has its own way from there."""

    target: int
    order: Ints  # brokers with a way, nearest first; the target leads
    onward: Ints  # for each broker the next one; -1 at the target and where there is none
    by: Ints  # and the link to it
    far: Ints  # in links; -1 where there is none

    def path(self, source: int) -> Path | None:
        if self.far[source] < 0:
            return None
        brokers, links = [source], []
        while brokers[-1] != self.target:
            links.append(int(self.by[brokers[-1]]))
            brokers.append(int(self.onward[brokers[-1]]))
        return Path(tuple(brokers), tuple(links))


def flattened(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Rows of different lengths one after the other, and where each begins."""
    lengths = [len(row) for row in rows]
    flat = np.array([each for row in rows for each in row], dtype=np.int64)
    return flat, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def is_forest(overlay: Overlay) -> bool:
    """Whether there is nowhere more than one way."""
    root = list(range(len(overlay.names)))

    def top(broker: int) -> int:
        while root[broker] != broker:
            root[broker] = broker = root[root[broker]]
        return broker

    for link in overlay.links:
        a, b = top(link.a), top(link.b)
        if a == b:
            return False
        root[a] = b
    return True


def overlay_of(network: Network) -> Overlay:
    names = tuple(broker.id for broker in network.brokers)
    number = {name: at for at, name in enumerate(names)}
    return Overlay(
        names,
        tuple(from_us(broker.mtbf_us, broker.mttr_us) for broker in network.brokers),
        tuple(
            OverlayLink(
                number[link.a],
                number[link.b],
                from_us(link.mtbf_us, link.mttr_us),
                _loss(link.loss_ratio, link.burst),
                link.delay_us / US_PER_S,
            )
            for link in network.links
        ),
    )


def _loss(even: float, burst: tuple[float, float, float] | None) -> float:
    """The share lost in the long run, bursts included."""
    if burst is None:
        return even
    to_bad, to_good, while_bad = burst
    bad = to_bad / (to_bad + to_good) if to_bad + to_good > 0 else 0.0
    return bad * while_bad + (1 - bad) * even
