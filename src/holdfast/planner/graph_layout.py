"""Where to draw the brokers of a network: those that hang together near each other.

Springs along links, everybody pushing everybody away (Fruchterman and Reingold), a fixed number of rounds, so that the
same network looks the same. They begin on a circle in the order of a walk through the network, in which a tree's links
do not cross.
"""

from collections.abc import Sequence

import numpy as np

from holdfast.planner.uniformization import Floats

_ROUNDS, _QUICK_ROUNDS = 300, 120  # more moves nothing that can be seen; with many brokers each round takes its time,
_MANY = 60  # and nobody sees details


def spread(count: int, links: Sequence[tuple[int, int]]) -> Floats:
    """A place for each broker, from 0 to 1 across and down; links are pairs of their numbers."""
    angles = np.empty(count)
    angles[_walk(count, links)] = 2 * np.pi * np.arange(count) / count
    at = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    spacing = 1.6 / np.sqrt(count)  # how far apart neighbours should be
    ends = np.array(links, dtype=np.int64).reshape(-1, 2)
    rounds = _ROUNDS if count <= _MANY else _QUICK_ROUNDS
    for number in range(rounds):
        apart = at[:, None] - at[None]
        far = np.sqrt((apart**2).sum(axis=2)) + 1e-9
        push = (apart * (spacing**2 / far**2)[..., None]).sum(axis=1)
        along = at[ends[:, 0]] - at[ends[:, 1]]
        pull = along * (np.sqrt((along**2).sum(axis=1)) / spacing)[:, None]
        np.add.at(push, ends[:, 0], -pull)
        np.add.at(push, ends[:, 1], pull)
        length = np.sqrt((push**2).sum(axis=1)) + 1e-9
        step = 0.25 * (1 - number / rounds)
        at = at + push * (np.minimum(length, step) / length)[:, None]
    low, high = at.min(axis=0), at.max(axis=0)
    return np.asarray((at - low) / np.maximum(high - low, 1e-9), dtype=np.float64)


def _walk(count: int, links: Sequence[tuple[int, int]]) -> list[int]:
    """All brokers, each branch in one piece."""
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for a, b in links:
        neighbours[a].append(b)
        neighbours[b].append(a)
    found: dict[int, None] = {}
    for start in range(count):
        waiting = [start]
        while waiting:
            at = waiting.pop()
            if at not in found:
                found[at] = None
                waiting += [each for each in reversed(neighbours[at]) if each not in found]
    return list(found)
