"""A simulation of nothing but failures: brokers and links go down and up, and events find their way or not (paper 004).

Each world begins in the usual state, every component up or down by its availability, and runs for one event lifetime.
In each, one event is published for every pair of brokers at time 0, and all four schemes are looked at: `basic` needs
its path up; `retransmission` moves on whenever both brokers and the link of a hop are up; `multipath` needs any path;
`hybrid` succeeds when one of the two before does. Worlds are independent, so standard errors are the textbook's. What
takes microseconds in a network (sending, detecting) takes no time here.

Nothing is shared with the formulas that it checks but the components and the paths.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from holdfast.model.errors import MisuseError
from holdfast.planner.overlay import Overlay, Path, flattened
from holdfast.planner.uniformization import Floats, poisson_reach
from holdfast_papers.prediction.worlds import OUTCOMES, run_worlds

SCHEMES = ("basic", "retransmission", "multipath", "hybrid")
assert 2 * len(SCHEMES) == OUTCOMES  # each with the end brokers counted, then each with them assumed up
_CHANGES_MAX = 50_000_000  # of all components in one world: 400 MB


@dataclass(frozen=True)
class Sample:
    """How often events got through in so many worlds."""

    worlds: int
    pairs: npt.NDArray[np.int64]  # by pair and outcome
    group_sums: Floats  # by group and outcome: the weighted mean over its pairs, added up over worlds
    group_squares: Floats

    def reliability(self) -> Floats:
        return np.asarray(self.pairs / self.worlds, dtype=np.float64)

    def group_reliability(self) -> Floats:
        return self.group_sums / self.worlds

    def group_errors(self) -> Floats:
        """Standard errors of the above."""
        spread = self.group_squares / self.worlds - self.group_reliability() ** 2
        return np.sqrt(np.maximum(spread, 0.0) / self.worlds)


def simulate(
    overlay: Overlay,
    paths: Sequence[Path],
    lifetime_s: float,
    worlds: int,
    seed: str,
    groups: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
) -> Sample:
    """Paths to one target should stand together. A group is a subscriber: its pairs count by their weights."""
    brokers = len(overlay.names)
    parts = [*overlay.brokers, *(link.component for link in overlay.links)]
    up_s = np.array([each.up_s if each.fails else 0.0 for each in parts])
    down_s = np.array([each.down_s if each.fails else 0.0 for each in parts])
    most = [poisson_reach(lifetime_s / min(each.up_s, each.down_s)) + 2 if each.fails else 0 for each in parts]
    if sum(most) > _CHANGES_MAX:
        raise MisuseError("components change too often within a lifetime to be simulated one by one")
    member = np.zeros(len(paths), np.int64) if groups is None else np.array(groups, np.int64)
    weight = _shares(member, np.ones(len(paths)) if weights is None else np.array(weights, np.float64))
    digits = int.from_bytes(blake2b(seed.encode(), digest_size=4).digest())
    counts, sums, squares = run_worlds(
        worlds,
        digits,
        float(lifetime_s),
        up_s,
        down_s,
        np.concatenate([[0], np.cumsum(most)]).astype(np.int64),
        *flattened([path.brokers for path in paths]),
        *flattened([[brokers + link for link in path.links] for path in paths])[:1],
        *overlay.neighbour_arrays,
        brokers,
        member,
        weight,
    )
    return Sample(worlds, counts, sums, squares)


def _shares(member: npt.NDArray[np.int64], weight: Floats) -> Floats:
    total = np.bincount(member, weights=weight)
    return np.asarray(weight / total[member], dtype=np.float64)
