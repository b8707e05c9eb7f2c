"""A run in numbers: the sum of its books, and the delays in classes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import exp, log

import numpy as np
from numpy.typing import NDArray

_RESOLUTION = log(1.02)  # delays are kept in classes 2 % wide
_EXACT_MAX = 4_096  # different delays that wait to be put in their class


@dataclass
class Outcome:
    """A run in numbers. Counts of events are per subscriber: one event owed to three clients is owed three times."""

    published: int = 0
    owed: int = 0
    delivered: int = 0
    lost: int = 0
    late: int = 0
    duplicates: int = 0
    unowed: int = 0  # delivered although it was not owed: subscribed after it was published
    fifo_violations: int = 0
    transmissions: int = 0
    bytes: int = 0
    recovered: dict[str, int] = field(default_factory=dict)  # delivered by another way than the first, by which
    held: int = 0  # held back for the sake of order,
    held_total_us: int = 0  # and for how long in all
    delay_us: dict[str, int] = field(default_factory=dict)
    recovery_delay_us: dict[str, int] = field(default_factory=dict)  # from publishing, of what was recovered
    held_us: dict[str, int] = field(default_factory=dict)  # of what was held back
    messages: dict[str, dict[str, int]] = field(default_factory=dict)
    recovery: dict[str, int] = field(default_factory=dict)  # what clients did to recover, by their own count
    phases_us: dict[str, dict[str, int]] = field(default_factory=dict)  # of recoveries: detection, request, repair
    leaf_recovery_ratio: float | None = None  # bytes about recovery for each byte of events, on the worst leaf link
    slices: dict[str, dict[str, int]] = field(default_factory=dict)  # by slice of time: events, and counts of recovery
    incidents: dict[str, int] = field(default_factory=dict)

    @property
    def delivery_ratio(self) -> float:
        return self.delivered / self.owed if self.owed else 1.0

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "delivery_ratio": self.delivery_ratio}


class DelayHistogram:
    """Quantiles of positive integers to within one per cent, in memory that does not grow."""

    def __init__(self) -> None:
        self._classes: dict[int, int] = {}
        self._max = 0
        self._exact: dict[int, int] = {}  # how often each was added that is in no class yet: many are alike

    def add(self, delay_us: int) -> None:
        exact = self._exact
        exact[delay_us] = exact.get(delay_us, 0) + 1
        if len(exact) >= _EXACT_MAX:
            self._classify()

    def _classify(self) -> None:
        for delay_us, count in self._exact.items():
            at = int(log(delay_us + 1) / _RESOLUTION)
            self._classes[at] = self._classes.get(at, 0) + count
            self._max = max(self._max, delay_us)
        self._exact.clear()

    def add_all(self, delays_us: NDArray[np.int64]) -> None:
        classes, counts = np.unique((np.log(delays_us + 1.0) / _RESOLUTION).astype(np.int64), return_counts=True)
        for at, count in zip(classes.tolist(), counts.tolist(), strict=True):
            self._classes[at] = self._classes.get(at, 0) + count
        self._max = max(self._max, int(delays_us.max()))

    def quantile(self, share: float) -> int:
        self._classify()
        left = share * sum(self._classes.values())
        for at in sorted(self._classes):
            left -= self._classes[at]
            if left <= 0:
                return min(self._max, round(exp((at + 0.5) * _RESOLUTION) - 1))
        return self._max

    def summary(self, percents: Sequence[int] = (50, 90, 99)) -> dict[str, int]:
        self._classify()
        if not self._classes:
            return {}
        return {f"p{percent}": self.quantile(percent / 100) for percent in percents} | {"max": self._max}
