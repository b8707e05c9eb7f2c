"""Questions about a graph: who can reach whom, is it a tree, how far apart are its nodes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Neighbours = Mapping[str, Sequence[str]]

_STEPS_MAX = 10_000_000  # links followed to measure distances in a graph that is no tree: about a second


def neighbours_of(nodes: Iterable[str], links: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """For each node those it has a link with, both in the order given."""
    found: dict[str, list[str]] = {node: [] for node in nodes}
    for a, b in links:
        found[a].append(b)
        found[b].append(a)
    return found


def distances(neighbours: Neighbours, source: str) -> dict[str, int]:
    """How many links it is to each node that can be reached, the nearest first."""
    found = {source: 0}
    frontier = [source]
    for node in frontier:  # grows while it is read
        for each in neighbours[node]:
            if each not in found:
                found[each] = found[node] + 1
                frontier.append(each)
    return found


def components(neighbours: Neighbours) -> list[list[str]]:
    """The parts that are connected in themselves, in the order in which they are first seen."""
    parts: list[list[str]] = []
    seen: set[str] = set()
    for node in neighbours:
        if node not in seen:
            part = list(distances(neighbours, node))
            seen.update(part)
            parts.append(part)
    return parts


def a_cycle(neighbours: Neighbours) -> list[str]:
    """Some cycle, its first node also at the end; empty when there is none, so that the graph is a tree or several."""
    parent: dict[str, str] = {}
    for root in neighbours:
        if root in parent:
            continue
        parent[root] = ""
        frontier = [root]
        for node in frontier:
            for each in neighbours[node]:
                if each == parent[node]:
                    continue
                if each in parent:
                    return _closed(_path_up(parent, node), _path_up(parent, each))
                parent[each] = node
                frontier.append(each)
    return []


def _path_up(parent: Mapping[str, str], node: str) -> list[str]:
    path = []
    while node:
        path.append(node)
        node = parent[node]
    return path


def _closed(one: list[str], other: list[str]) -> list[str]:
    """Two paths up to the root and the link between their first nodes, without the part they share."""
    meeting = next(node for node in one if node in other)
    left, right = one[: one.index(meeting) + 1], other[: other.index(meeting)]
    return [*left, *reversed(right), left[0]]


class Distances(NamedTuple):
    mean: float  # over all pairs of different nodes, in links
    diameter: int
    exact: bool  # of a large graph with cycles only some nodes are asked


def measure(neighbours: Neighbours) -> Distances:
    """Mean distance and diameter of a connected graph."""
    nodes = list(neighbours)
    if len(nodes) < 2:
        return Distances(0.0, 0, True)
    ends = sum(map(len, neighbours.values()))
    if ends == 2 * (len(nodes) - 1):
        return _measure_tree(neighbours, nodes)
    step = -(-len(nodes) * ends // _STEPS_MAX)  # every so many-th node is asked, each follows all links
    total = pairs = diameter = 0
    for source in nodes[::step]:
        far = distances(neighbours, source)
        total += sum(far.values())
        pairs += len(far) - 1
        diameter = max(diameter, *far.values())
    return Distances(total / pairs, diameter, step == 1)


def _measure_tree(neighbours: Neighbours, nodes: list[str]) -> Distances:
    """In one pass: a link with k nodes on one side is on the way between k * (n - k) pairs."""
    depth = distances(neighbours, nodes[0])
    below = dict.fromkeys(nodes, 1)
    total = 0
    for node in reversed(depth):  # from the leaves to the root
        for each in neighbours[node]:
            if depth[each] < depth[node]:
                total += below[node] * (len(nodes) - below[node])
                below[each] += below[node]
    *_, farthest = depth  # the end of some longest path
    diameter = max(distances(neighbours, farthest).values())
    return Distances(total / (len(nodes) * (len(nodes) - 1) / 2), diameter, True)
