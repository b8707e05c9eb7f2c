"""Wait as the law of the delay difference says: the rule of paper 002, with the law to be chosen.

A later message has overtaken the missing one: S = delay(missing) - delay(later) > delta, the time between their
departures. The latch ends at a t with P(S > t) small, measured on the same scale. Paper 002 wants P(S > t) below the
target, which is a share of all messages and lets most violations pass where the network reorders little. With
`of="missing"` it is P(S > t | S > delta): the share of those that were noticed missing.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.protocol.order.sample_window import COLD_SAMPLES, DifferenceWindow
from holdfast.protocol.order.settings import LatchSettings


class Law(Protocol):
    """Of S, in microseconds; symmetric around 0."""

    reach_us: float  # beyond this the tail is a guess; a wait for something left longer ago is as for this

    def tail(self, t_us: float) -> float:
        """P(S > t), for t >= 0."""

    def exceeded_with(self, probability: float) -> float:
        """The t >= 0 with P(S > t) = probability, or a bound above it."""


class DelayDifference:
    def __init__(self, settings: LatchSettings, fit: Callable[[Sequence[float]], Law]) -> None:
        self._settings = settings
        self._fit = fit
        self._law: Law | None = None
        self._differences = DifferenceWindow(settings.differences, settings.neighbours)
        self._until_fit = COLD_SAMPLES

    def on_arrival(self, seq: int, departure_us: int, arrival_us: int) -> None:
        self._differences.add(seq, arrival_us - departure_us)
        self._until_fit -= 1
        if self._until_fit <= 0 and len(self._differences.samples_us) >= COLD_SAMPLES:
            self._law = self._fit(centred(self._differences.samples_us))
            self._until_fit = self._settings.refit_every

    def on_found(self, age_us: int, late_us: int, violated: bool, now_us: int) -> None:
        pass  # the law is learnt from all pairs

    def deadline_us(self, missing_departure_us: int, departure_us: int, now_us: int) -> float:
        if self._law is None:
            return now_us + self._settings.cold_hold_us
        delta_us: float = max(departure_us - missing_departure_us, 0)
        probability = self._settings.target
        if self._settings.of == "missing":
            delta_us = min(delta_us, self._law.reach_us)
            probability *= self._law.tail(delta_us)
        return now_us + self._law.exceeded_with(probability) - delta_us


def centred(samples: Sequence[float]) -> list[float]:
    """Drift gives all differences a common part, which says nothing about overtaking."""
    mean = sum(samples) / len(samples)
    return [each - mean for each in samples]
