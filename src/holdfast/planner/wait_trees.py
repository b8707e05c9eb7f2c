"""The waits of all paths to one broker at once (see `waits.py` for one path).

The waits of a path's hops are independent, so their sum may be taken in any order: from the target outwards. Paths to
one target form a tree, and paths that share their end share the work. A hop of the tree holds the chance that the sum
of the waits from the target up to here is still running, by state; what leaves a hop enters all hops behind it. One
run of a discrete chain gives, tick by tick, the chance that each path is still waiting, and Poisson weights turn
ticks into any time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.planner.components import Component
from holdfast.planner.kernels.wait_trees import mixed, still_running
from holdfast.planner.overlay import Ints
from holdfast.planner.uniformization import Floats, poisson_reach, poisson_reaches
from holdfast.planner.waits import rates_and_shares, start_shares

_CELLS_MAX = 20_000_000  # ticks times hops, a second; components that recover much faster than events expire need more


@dataclass(frozen=True)
class ComponentRates:
    """Of components: how often they fail and recover, and their shares of the time up and down; a row each."""

    rows: Floats

    def of(self, which: Ints) -> "ComponentRates":
        return ComponentRates(self.rows[:, which])

    def without(self, one: int) -> "ComponentRates":
        """The same, of which one never fails."""
        rows = self.rows.copy()
        rows[:, one] = _NEVER_FAILS
        return ComponentRates(rows)

    @property
    def up_and_down(self) -> tuple[Floats, Floats]:
        return self.rows[2], self.rows[3]


_NEVER_FAILS = (0.0, 0.0, 1.0, 0.0)


def rates_of(parts: Sequence[Component]) -> ComponentRates:
    fail, mend, shares = rates_and_shares(parts)
    return ComponentRates(np.stack([fail, mend, *shares]))


@dataclass(frozen=True)
class HopTree:
    """Hops, of which each stands behind the one before it on the way from the target; -1 is the target itself.

    Arrays have a row for each state or component, and a column for each hop.
    """

    starts: Floats
    fail: Floats
    mend: Floats
    before: Ints

    @classmethod
    def of(
        cls, sender: ComponentRates | None, link: ComponentRates | None, receiver: ComponentRates, before: Ints
    ) -> "HopTree":
        """None: one that never fails."""
        never = ComponentRates(np.repeat(np.array(_NEVER_FAILS)[:, None], len(before), axis=1))
        parts = [each or never for each in (sender, link, receiver)]
        starts = start_shares(parts[1].up_and_down, parts[2].up_and_down)
        return cls(
            starts, np.stack([each.rows[0] for each in parts]), np.stack([each.rows[1] for each in parts]), before
        )

    def then(self, other: "HopTree") -> "HopTree":
        """Further hops, behind ours."""
        starts, fail, mend = (
            np.concatenate(each, axis=1)
            for each in ((self.starts, other.starts), (self.fail, other.fail), (self.mend, other.mend))
        )
        return HopTree(starts, fail, mend, np.concatenate([self.before, other.before]))


@dataclass(frozen=True)
class Waits:
    """Of some hops of a tree: P(the sum of waits from the root up to and with this hop > t)."""

    ticks_per_s: float
    running: Floats  # by hop and tick

    def longer_than(self, rows: Ints, times: Floats) -> Floats:
        """For many hops, each with a time of its own."""
        order = np.argsort(times, kind="stable")  # equal times share their weights
        means = self.ticks_per_s * times[order]
        logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, self.running.shape[1])))])
        found = np.empty(len(rows))
        found[order] = mixed(self.running, rows[order], means, poisson_reaches(means), logs)
        return found


def waits_of(tree: HopTree, ends: Ints, longest_s: float) -> Waits | None:
    """Of the hops `ends`, for times up to `longest_s`; None where that would take too many steps."""
    fastest = float(np.maximum(tree.fail, tree.mend).sum(axis=0).max(initial=0.0))
    ticks = poisson_reach(fastest * longest_s) + 1 if fastest else 1
    if ticks * len(tree.before) > _CELLS_MAX:
        return None
    by_tick = fastest or 1.0
    running = still_running(tree.starts, tree.fail / by_tick, tree.mend / by_tick, tree.before, ends, ticks)
    return Waits(fastest, np.ascontiguousarray(running.T))
