"""Which link takes the place of one that breaks (paper 001's reconfiguration).

The new link joins the two halves that the old one held together, somewhere else than before, at brokers that have a
link to spare, as near to the middle of each half as may be. So a tree keeps its shape: with ends drawn from all brokers
its paths are twice as long after some seconds of the paper's reconfigurations. A link that breaks while others are
still to appear is judged by the graph as it will be, so that once all have appeared a tree is a tree again.
"""

from collections.abc import Iterable
from random import Random

from holdfast.network.graph import distances

Pair = tuple[str, str]


class Replacer:
    def __init__(self, brokers: Iterable[str], links: Iterable[Pair], dice: Random) -> None:
        self._dice = dice
        self._neighbours: dict[str, list[str]] = {broker: [] for broker in brokers}
        self._links: list[Pair] = []  # of the graph as it will be
        self._appear_us: dict[Pair, int] = {}  # those that are not there yet
        for link in links:
            self._add(link)
        self._degree_max = max(map(len, self._neighbours.values()), default=0)

    def replace(self, link: Pair | None, to: Pair | None, at_us: int, after_us: int) -> tuple[Pair, Pair] | None:
        """The link that breaks (a random one for None) and the one that appears; None when there is none to break."""
        self._appear_us = {each: due_us for each, due_us in self._appear_us.items() if due_us > at_us}
        if link is None:
            standing = [each for each in self._links if each not in self._appear_us]
            if not standing:
                return None
            link = self._dice.choice(standing)
        elif link not in self._links:
            link = (link[1], link[0])
            if link not in self._links:
                return None
        self._remove(link)
        new = to or self._elsewhere(link)
        self._add(new)
        self._appear_us[new] = at_us + after_us
        return link, new

    def _elsewhere(self, old: Pair) -> Pair:
        one_side = distances(self._neighbours, old[0])
        joined = old[1] in one_side  # a graph with cycles holds together without it
        other_side = one_side if joined else distances(self._neighbours, old[1])
        here, there = self._from_the_middle(list(one_side)), self._from_the_middle(list(other_side))
        spare, other_spare = ([each for each in side if self._has_spare(each)] for side in (here, there))
        return self._pair(spare, other_spare, old) or self._pair(here, there, old) or old

    def _from_the_middle(self, side: list[str]) -> list[str]:
        """Those in the middle first, as near ones at random: there a new link makes paths least longer."""
        far = distances(self._neighbours, side[0])
        far = distances(self._neighbours, max(far, key=far.__getitem__))  # from one end of a longest path
        middle = max(far, key=far.__getitem__)
        for steps in range(far[middle], far[middle] // 2, -1):  # half the way back from the other end
            middle = next(each for each in self._neighbours[middle] if far[each] == steps - 1)
        near = distances(self._neighbours, middle)
        return sorted(self._dice.sample(side, len(side)), key=near.__getitem__)

    def _has_spare(self, broker: str) -> bool:
        return len(self._neighbours[broker]) < self._degree_max

    def _pair(self, here: list[str], there: list[str], old: Pair) -> Pair | None:
        """The first pair that is not linked, not one broker twice, and not the old pair."""
        for a in here:
            for b in there:
                if b != a and {a, b} != set(old) and b not in self._neighbours[a]:
                    return a, b
        return None

    def _add(self, link: Pair) -> None:
        a, b = link
        self._neighbours[a].append(b)
        self._neighbours[b].append(a)
        self._links.append(link)

    def _remove(self, link: Pair) -> None:
        a, b = link
        self._neighbours[a].remove(b)
        self._neighbours[b].remove(a)
        self._links.remove(link)
        self._appear_us.pop(link, None)
