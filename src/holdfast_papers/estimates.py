"""What runs give: a value, its 95 % interval, and how many independent runs both come from."""

from collections.abc import Callable, Sequence
from math import isnan, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from holdfast.pipeline.charts.lines import Spot
from holdfast.pipeline.confidence import half_width_factor

Interval = tuple[float, float]


class Estimate(NamedTuple):
    """What was measured."""

    value: float
    interval: Interval | None  # 95 %; None where there is none, as for a single run or for the worst of several
    runs: int | None  # independent ones, as a rule seeds; None where chance does not enter

    def through(self, change: Callable[[float], float]) -> "Estimate":
        """The same of a monotonous function of the value."""
        if self.interval is None:
            return Estimate(change(self.value), None, self.runs)
        low, high = sorted(map(change, self.interval))
        return Estimate(change(self.value), (low, high), self.runs)


def exact(value: float) -> Estimate:
    """Of a closed form, or of a model without dice."""
    return Estimate(value, None, None)


def extreme(value: float, runs: int) -> Estimate:
    """The worst or the best of so many runs, for a claim about every one or any one of them."""
    return Estimate(value, None, runs)


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of some runs and its 95 % interval (Student's). One run has none, nor have runs without a value."""
    mean = fmean(values)
    if len(values) < 2 or isnan(mean):
        return Estimate(mean, None, len(values))
    half = half_width_factor(len(values)) * stdev(values)
    return Estimate(mean, (mean - half, mean + half), len(values))


def difference(these: Sequence[float], less: Sequence[float]) -> Estimate:
    """How much larger these are, run by run: both must be in the order of the seeds."""
    return estimate([a - b for a, b in zip(these, less, strict=True)])


def ratio(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """How many times larger these are, run by run."""
    return estimate([a / b for a, b in zip(above, below, strict=True)])


def ratio_of_sums(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Sum over sum, with the interval of the linearised ratio over runs: large runs count for more."""
    found = sum(above) / sum(below)
    n = len(above)
    if n < 2:
        return Estimate(found, None, n)
    mean = sum(below) / n
    off = [a - found * b for a, b in zip(above, below, strict=True)]
    half = half_width_factor(n) * sqrt(sum(each * each for each in off) / (n - 1)) / mean
    return Estimate(found, (found - half, found + half), n)


def spot(x: float, found: Estimate) -> Spot:
    """An estimate as a point of a chart."""
    return Spot(x, found.value, *(found.interval or (None, None)))
