"""When a publisher publishes, and how large and how lasting its events are.

Publications come at random (exponential gaps, a Poisson process) or in step (periodic, from a random first one, so
that publishers do not all speak at once). Each publisher has its own dice, named by the seed and the client.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log
from random import Random
from typing import Literal

from holdfast.model.settings import setting
from holdfast.network.workload.publication import EventTraits, PublishingWindow

Spacing = Literal["exponential", "periodic"]


def dice_of(seed: int, client: str) -> Random:
    return Random(f"{seed}/{client}/workload")


@dataclass(frozen=True, kw_only=True)
class TrafficTraits(EventTraits):
    spacing: Spacing = setting(
        "exponential",
        "random gaps, or equal ones from a random first publication on",
        "independent people publish at random",
        key="spacing",
    )


@dataclass(frozen=True)
class Traffic(TrafficTraits):
    rate_per_s: float  # of one publisher

    def times(self, dice: Random, window: PublishingWindow) -> Iterator[int]:
        return _times(dice, self.rate_per_s, self.spacing, window)

    def mean_per_s(self) -> float:
        return self.rate_per_s


@dataclass(frozen=True)
class Profile(TrafficTraits):
    """A rate that jumps: constant for a while, then drawn again, log-uniform between two bounds (paper 000)."""

    low_per_s: float
    high_per_s: float
    hold_us: tuple[float, float]  # how long a rate lasts is drawn evenly from this
    spike_ratio: float  # share of these times in which the rate is the highest there is

    def times(self, dice: Random, window: PublishingWindow) -> Iterator[int]:
        at, stop = float(window.start_us), window.stop_us
        ratio = log(self.high_per_s / self.low_per_s)
        while at < stop:
            spike = dice.random() < self.spike_ratio
            rate = self.high_per_s if spike else self.low_per_s * exp(ratio * dice.random())
            end = at + dice.uniform(*self.hold_us)
            # Gaps have no memory, so starting afresh at each change is still a Poisson process.
            yield from _times(dice, rate, self.spacing, PublishingWindow(int(at), min(int(end), stop)))
            at = end

    def mean_per_s(self) -> float:
        low, high = self.low_per_s, self.high_per_s
        drawn = (high - low) / log(high / low) if high > low else low
        return self.spike_ratio * high + (1 - self.spike_ratio) * drawn


def _times(dice: Random, rate_per_s: float, spacing: Spacing, window: PublishingWindow) -> Iterator[int]:
    at, stop = float(window.start_us), window.stop_us
    mean = 1_000_000 / rate_per_s
    random = dice.random
    if spacing == "periodic":
        at += random() * mean
        while at < stop:
            yield int(at)
            at += mean
        return
    while True:
        at -= log(1.0 - random()) * mean
        if at >= stop:
            return
        yield int(at)
