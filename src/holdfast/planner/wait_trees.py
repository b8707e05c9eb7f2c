"""The waits of all paths to one broker at once (see `waits.py` for one path).

The waits of a path's hops are independent, so their sum may be taken in any order: from the target outwards. Paths to
one target form a tree, and paths that share their end share the work. A hop of the tree holds the chance that the sum
of the waits from the target up to here is still running, by state; what leaves a hop enters all hops behind it. One
run of a discrete chain gives, tick by tick, the chance that each path is still waiting, and Poisson weights turn
ticks into any time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.planner.kernels.wait_trees import mixed, still_running
from holdfast.planner.overlay import Ints
from holdfast.planner.uniformization import Floats, poisson_reach, poisson_reaches
from holdfast.planner.waits import Hop, path_wait, rates_and_shares, starts_of

_CELLS_MAX = 20_000_000  # ticks times hops, 160 MB; components that recover much faster than events expire need more


@dataclass(frozen=True)
class HopTree:
    """Hops with those before them in the list; -1 is the root, the target itself."""

    hops: Sequence[Hop]
    before: Sequence[int]

    def branch(self, hop: int) -> list[Hop]:
        found = []
        while hop >= 0:
            found.append(self.hops[hop])
            hop = self.before[hop]
        return found


@dataclass(frozen=True)
class Waits:
    """Of each hop of a tree: P(the sum of waits from the root up to and with this hop > t)."""

    tree: HopTree
    ticks_per_s: float
    running: Floats | None  # by tick and hop; None where that would be too many: then path by path

    def longer_than(self, hops: Ints, times: Floats) -> Floats:
        """For many hops, each with a time of its own."""
        if self.running is None:
            each = zip(hops.tolist(), times.tolist(), strict=True)
            return np.array([path_wait(self.tree.branch(hop)).longer_than(t) for hop, t in each])
        means = self.ticks_per_s * times
        reaches = poisson_reaches(means)
        logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, len(self.running))))])
        found: Floats = mixed(self.running, hops, means, reaches, logs)
        return found


def waits_of(tree: HopTree, longest_s: float) -> Waits:
    """For times up to `longest_s`."""
    parts = [each for hop in tree.hops for each in hop.components]
    fail, mend, _ = rates_and_shares(parts)
    fail, mend = fail.reshape(-1, 3), mend.reshape(-1, 3)
    fastest = float(np.maximum(fail, mend).sum(axis=1).max(initial=0.0))
    ticks = poisson_reach(fastest * longest_s) + 1 if fastest else 1
    if ticks * len(tree.hops) > _CELLS_MAX:
        return Waits(tree, fastest, None)
    before = np.array(tree.before, dtype=np.int64)
    return Waits(tree, fastest, still_running(starts_of(tree.hops), fail, mend, before, fastest or 1.0, ticks))
