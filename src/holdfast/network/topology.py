"""Graphs made to order.

Brokers are numbered from 0 and a graph is a list of pairs, the lower number first. The same dice give the same graph.
All of them are connected.
"""

from itertools import pairwise
from random import Random

Pairs = list[tuple[int, int]]


def line(brokers: int) -> Pairs:
    return list(pairwise(range(brokers)))


def star(brokers: int) -> Pairs:
    return [(0, each) for each in range(1, brokers)]


def ring(brokers: int) -> Pairs:
    return [*line(brokers), (0, brokers - 1)] if brokers > 2 else line(brokers)


def filled_tree(brokers: int, degree: int) -> Pairs:
    """Level by level, every broker with as many links as it may have: the shortest tree of that degree (paper 001)."""
    pairs: Pairs = []
    parent, children = 0, 0
    for each in range(1, brokers):
        if children == (degree if parent == 0 else degree - 1):  # all but the root spend one link on their parent
            parent, children = parent + 1, 0
        pairs.append((parent, each))
        children += 1
    return pairs


def attached_tree(brokers: int, degree: int, dice: Random) -> Pairs:
    """Each broker is attached to a random earlier one that has a link to spare."""
    pairs: Pairs = []
    links = [0] * brokers
    spare = [0]  # there is always one: the broker before has a single link
    for each in range(1, brokers):
        at = dice.randrange(len(spare))
        parent = spare[at]
        pairs.append((parent, each))
        links[parent] += 1
        links[each] = 1
        if links[parent] == degree:
            spare[at] = spare[-1]
            spare.pop()
        spare.append(each)
    return pairs


def random_graph(brokers: int, mean_degree: float, dice: Random) -> Pairs:
    """A random tree, so that all are connected, and random further links up to the wanted number."""
    pairs = attached_tree(brokers, brokers, dice)
    most = brokers * (brokers - 1) // 2
    wanted = min(round(brokers * mean_degree / 2), most)
    linked = set(pairs)
    if wanted > most // 2:  # hardly a free pair would be hit by chance
        free = [(a, b) for a in range(brokers) for b in range(a + 1, brokers) if (a, b) not in linked]
        return pairs + dice.sample(free, max(0, wanted - len(pairs)))
    while len(pairs) < wanted:
        a, b = sorted((dice.randrange(brokers), dice.randrange(brokers)))
        if a != b and (a, b) not in linked:
            linked.add((a, b))
            pairs.append((a, b))
    return pairs
