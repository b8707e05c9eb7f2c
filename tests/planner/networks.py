"""Small networks for the planner's tests, and slow and obvious ways to ask about them."""

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

from holdfast.network.topology import attached_tree, random_graph
from holdfast.planner.components import NEVER_FAILS, Component, with_share
from holdfast.planner.overlay import Overlay, OverlayLink

CYCLE_S = 60_000.0  # paper 004
LIFETIME_S = 3_600.0


def overlay(brokers: Sequence[float], links: Sequence[tuple[int, int, float]], cycle_s: float = CYCLE_S) -> Overlay:
    """From availabilities."""
    return Overlay(
        tuple(f"b{at + 1}" for at in range(len(brokers))),
        tuple(with_share(each, cycle_s) for each in brokers),
        tuple(OverlayLink(a, b, with_share(share, cycle_s)) for a, b, share in links),
    )


def line(*brokers: float, link: float = 0.99) -> Overlay:
    return overlay(brokers, [(at, at + 1, link) for at in range(len(brokers) - 1)])


def drawn(brokers: int, seed: int, low: float, high: float, degree: float | None = 4, link: float = 0.99) -> Overlay:
    """A random graph of this mean degree, or a random tree."""
    dice = Random(seed)
    pairs = attached_tree(brokers, 4, dice) if degree is None else random_graph(brokers, degree, dice)
    return overlay([dice.uniform(low, high) for _ in range(brokers)], [(a, b, link) for a, b in pairs])


def states(parts: Sequence[Component]) -> Iterator[tuple[tuple[bool, ...], float]]:
    """Every state of some components and how likely it is; what never fails is up in all of them."""
    for ups in product(*((True, False) if part.fails else (True,) for part in parts)):
        likely = 1.0
        for up, part in zip(ups, parts, strict=True):
            likely *= part.availability if up else part.unavailability
        yield ups, likely


def connected(graph: Overlay, ups: Sequence[bool], source: int, target: int) -> bool:
    """By walking; brokers first among `ups`, then links."""
    count = len(graph.names)
    if not (ups[source] and ups[target]):
        return False
    seen, waiting = {source}, [source]
    while waiting:
        broker = waiting.pop()
        for other, link in graph.neighbours[broker]:
            if other not in seen and ups[other] and ups[count + link]:
                seen.add(other)
                waiting.append(other)
    return target in seen


def enumerated(graph: Overlay, source: int, target: int, ends_up: bool = False) -> float:
    """P(connected) by looking at every state of every component."""
    brokers = [NEVER_FAILS if ends_up and at in (source, target) else each for at, each in enumerate(graph.brokers)]
    parts = [*brokers, *(link.component for link in graph.links)]
    return sum(likely for ups, likely in states(parts) if connected(graph, ups, source, target))
