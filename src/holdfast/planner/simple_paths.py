"""Which brokers and links lie on some simple path between two brokers; the others cannot help an event across.

With one more link between the two, they are those in its biconnected component (Tarjan's depth-first search, without
recursion: networks may be long).
"""

from collections.abc import Sequence
from typing import NamedTuple

Neighbours = Sequence[Sequence[tuple[int, int]]]


class Relevant(NamedTuple):
    brokers: frozenset[int]
    links: frozenset[int]


def relevant_between(neighbours: Neighbours, source: int, target: int) -> Relevant:
    """Empty when there is no path at all; the two must differ."""
    virtual = -1  # the number of the link that is added
    order: dict[int, int] = {source: 0, target: 1}
    low = {source: 0, target: 0}
    links: list[tuple[int, int, int]] = [(source, target, virtual)]
    trail = [(target, virtual, iter(neighbours[target]))]
    while trail:
        broker, came_by, rest = trail[-1]
        step = next(rest, None)
        if step is None:
            trail.pop()
            if trail:
                above = trail[-1][0]
                low[above] = min(low[above], low[broker])
                if low[broker] >= order[above]:  # a component of its own hangs there
                    _cut_off(links, above, broker)
            continue
        other, link = step
        if link == came_by:
            continue
        if other not in order:
            order[other] = low[other] = len(order)
            links.append((broker, other, link))
            trail.append((other, link, iter(neighbours[other])))
        elif order[other] < order[broker]:
            links.append((broker, other, link))
            low[broker] = min(low[broker], order[other])
    if low[target] > 0 or len(links) == 1:
        return Relevant(frozenset(), frozenset())
    brokers = frozenset(end for a, b, _ in links for end in (a, b))
    return Relevant(brokers, frozenset(link for _, _, link in links if link != virtual))


def _cut_off(links: list[tuple[int, int, int]], above: int, broker: int) -> None:
    while True:
        a, b, _ = links.pop()
        if (a, b) == (above, broker):
            return
