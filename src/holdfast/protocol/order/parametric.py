"""The law of the delay difference, fitted: k brokers whose processing times are exponential with one common rate.

Each broker adds a Laplace variable to S, so S has variance 2k/rate^2 and excess kurtosis 3/k, and these two give k and
the rate. The tail is a sum of positive terms, here gathered into exp(-x) times a polynomial in x = rate t.
"""

from collections.abc import Sequence
from math import comb, exp, factorial, sqrt

BROKERS_MAX = 20  # beyond this the law is normal for all purposes, and the kurtosis of 400 samples cannot tell

_REACH = 1e-9  # far beyond what any target asks for, far above where the tail underflows


class EqualRates:
    def __init__(self, brokers: int, rate: float) -> None:
        self.brokers = brokers
        self.rate = rate
        weights = [comb(n + brokers - 1, n) * 2.0 ** -(n + brokers) for n in range(brokers)]
        # exp(-x) sum of a_i x^i, highest power first
        self._coefficients = [sum(weights[: brokers - i]) / factorial(i) for i in reversed(range(brokers))]
        self.reach_us = self.exceeded_with(_REACH)

    def tail(self, t_us: float) -> float:
        x = self.rate * t_us
        total = 0.0
        for each in self._coefficients:
            total = total * x + each
        return exp(-x) * total

    def exceeded_with(self, probability: float) -> float:
        if probability >= 0.5:
            return 0.0
        low, high = 0.0, 1 / self.rate
        while self.tail(high) > probability:
            low, high = high, 2 * high
        while high - low > 1e-4 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.tail(middle) > probability else (low, middle)
        return high


def fit_equal_rates(differences: Sequence[float]) -> EqualRates:
    """From centred delay differences."""
    count = len(differences)
    variance = max(sum(x * x for x in differences) / count, 1.0)  # at least a microsecond: times are no finer
    excess = sum(x**4 for x in differences) / count / variance**2 - 3
    brokers = min(max(round(3 / excess), 1), BROKERS_MAX) if excess > 0 else BROKERS_MAX
    return EqualRates(brokers, sqrt(2 * brokers / variance))
