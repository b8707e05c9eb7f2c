"""Poisson weights: how likely a chain that is asked at the ticks of a Poisson clock has been asked n times.

A continuous chain looked at through such a clock is a discrete one, and its law at time t is a mixture with these
weights. Only non-negative numbers are added, so small probabilities keep their digits."""

from math import log

import numpy as np
import numpy.typing as npt

NEGLIGIBLE = 1e-18  # what a truncated series leaves out: below the resolution of a double at 1

Floats = npt.NDArray[np.float64]


def poisson_reach(mean: float) -> int:
    """A count that a Poisson variable exceeds with negligible probability (Bernstein's bound)."""
    return int(poisson_reaches(np.array([mean]))[0])


def poisson_reaches(means: Floats) -> npt.NDArray[np.int64]:
    nats = -log(NEGLIGIBLE)
    return np.ceil(means + nats / 3 + np.sqrt(nats**2 / 9 + 2 * means * nats)).astype(np.int64)


def poisson_weights(mean: float) -> Floats:
    """P(N = n) for n from 0 to the reach."""
    weights = np.zeros(poisson_reach(mean) + 1)
    if mean == 0:
        weights[0] = 1.0
        return weights
    counts = np.arange(len(weights))
    logs = counts * log(mean) - mean
    logs[1:] -= np.cumsum(np.log(counts[1:]))
    return np.asarray(np.exp(logs), dtype=np.float64)
