"""The network as the planner sees it: brokers and links that fail, and the way events take between two brokers.

Brokers are numbered in the order of the file. Every broker sends towards a target along fewest links, and among those
by the order of its links in the file, which is what brokers that route by destinations do; on a tree there is only
one path. So the paths to one target form a tree, `next_hops_to(target)`."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from holdfast.network.schema import Network
from holdfast.planner.components import NEVER_FAILS, US_PER_S, Component, from_us

Ints = npt.NDArray[np.int64]


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

    def next_hops_to(self, target: int) -> "NextHops":
        """For each broker, (next broker, link) on the way to the target; None at the target and where there is none.

        A broker that looks around breadth first, its own links in order, finds the target through the first neighbour
        that is one link nearer to it.
        """
        far = {target: 0}
        waiting = deque([target])
        while waiting:
            broker = waiting.popleft()
            for neighbour, _ in self.neighbours[broker]:
                if neighbour not in far:
                    far[neighbour] = far[broker] + 1
                    waiting.append(neighbour)
        return tuple(
            next((each for each in self.neighbours[broker] if far[each[0]] == far[broker] - 1), None)
            if broker in far
            else None
            for broker in range(len(self.names))
        )

    def path(self, source: int, target: int) -> "Path | None":
        return along(self.next_hops_to(target), source, target)

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


NextHops = tuple[tuple[int, int] | None, ...]


def along(next_hops: NextHops, source: int, target: int) -> Path | None:
    """The path from the source when each broker goes its way to the target."""
    brokers, links = [source], []
    while brokers[-1] != target:
        step = next_hops[brokers[-1]]
        if step is None:
            return None
        brokers.append(step[0])
        links.append(step[1])
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
