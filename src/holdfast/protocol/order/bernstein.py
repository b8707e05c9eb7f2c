"""Bernstein's bound on the delay difference: never less than the true quantile, whatever the brokers' rates.

The moments of S satisfy Bernstein's condition with its variance and a scale b, so P(S >= t) <= exp(-t^2 / 2(V + bt)).
V is measured; b, the largest mean processing time of a broker, is taken from the fit with equal rates. The chance
that a message is overtaken in the first place is not bounded but counted in the sample.
"""

from bisect import bisect_right
from collections.abc import Sequence
from math import log, sqrt

from holdfast.protocol.order.parametric import fit_equal_rates


def bernstein_quantile(probability: float, variance: float, scale: float) -> float:
    """A t with P(S >= t) <= probability."""
    nats = log(1 / probability)
    return scale * nats + sqrt((scale * nats) ** 2 + 2 * variance * nats)


class Bernstein:
    def __init__(self, differences: Sequence[float]) -> None:
        fitted = fit_equal_rates(differences)
        self._variance = 2 * fitted.brokers / fitted.rate**2
        self._scale = 1 / fitted.rate
        self._sizes = sorted(abs(x) for x in differences)
        self.reach_us = self._sizes[-1]

    def tail(self, t_us: float) -> float:
        return counted_tail(self._sizes, t_us)

    def exceeded_with(self, probability: float) -> float:
        return bernstein_quantile(probability, self._variance, self._scale)


def counted_tail(sizes: Sequence[float], t_us: float) -> float:
    """P(S > t) from sorted |S|: half of those beyond t, and half a sample more, so that it is never 0."""
    beyond = len(sizes) - bisect_right(sizes, t_us)
    return (beyond + 0.5) / (2 * len(sizes) + 1)
