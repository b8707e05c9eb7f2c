"""The law of S = delay(m1) - delay(m2) for two messages over the same brokers, and bounds on it (paper 002).

With exponential processing times of rate r_i at broker i, S is a sum of Laplace variables: symmetric, with variance
V = sum of 2 / r_i^2. Given S > 0 it is a mixture of hypoexponentials: when m2 is through, m1 is at some broker j, and
brokers j, j+1, ... remain. That holds for any rates and is how `difference_tail` works. The textbook sums over distinct
rates are here too, to be compared with; for close rates they cancel to nonsense. A latch needs the bounds when it
knows little: Bernstein wants the variance and the slowest broker, Chernoff all rates, Cantelli the variance alone.

Times are in the unit of 1 / rate. All tails are for t >= 0.
"""

from collections.abc import Callable, Sequence
from itertools import product
from math import ceil, comb, exp, inf, log, prod, sqrt

import numpy as np
import numpy.typing as npt

from holdfast.planner.uniformization import poisson_weights

# Exact tails -----------------------------------------------------------------------------------------------------


def hypoexponential_tail(rates: Sequence[float], t: float) -> float:
    """P(X > t) for a sum of exponentials with any rates, by uniformization: only non-negative terms are added."""
    start = np.zeros(len(rates))
    start[0] = 1.0
    return _phases_tail(start, rates, t)


def hypoexponential_tail_distinct(rates: Sequence[float], t: float) -> float:
    """The same by partial fractions: quick, and worthless if two rates are close."""
    return sum(
        exp(-own * t) * prod(other / (other - own) for j, other in enumerate(rates) if j != i)
        for i, own in enumerate(rates)
    )


def difference_tail(rates: Sequence[float], t: float) -> float:
    """P(S > t) for any rates, equal ones among them."""
    return _phases_tail(_phase_when_the_other_is_through(rates), rates, t)


def difference_tail_distinct(rates: Sequence[float], t: float) -> float:
    """P(S > t) for rates that differ clearly: a signed mixture of exponentials with the brokers' rates."""
    return 0.5 * sum(
        exp(-own * t) * prod(other**2 / (other**2 - own**2) for j, other in enumerate(rates) if j != i)
        for i, own in enumerate(rates)
    )


def difference_tail_equal(brokers: int, rate: float, t: float) -> float:
    """P(S > t) for one common rate: a sum of Erlang tails with positive weights."""
    return sum(
        comb(n + brokers - 1, n) * 2.0 ** -(n + brokers) * _erlang_tail(brokers - n, rate * t) for n in range(brokers)
    )


def difference_variance(rates: Sequence[float]) -> float:
    return sum(2 / rate**2 for rate in rates)


def difference_excess_kurtosis(rates: Sequence[float]) -> float:
    """3 / k for k equal rates: from it the number of brokers can be guessed."""
    return sum(12 / rate**4 for rate in rates) / difference_variance(rates) ** 2


def _erlang_tail(phases: int, x: float) -> float:
    term, total = 1.0, 0.0
    for i in range(phases):
        total += term
        term *= x / (i + 1)
    return exp(-x) * total


def _bidiagonal(rates: Sequence[float]) -> npt.NDArray[np.float64]:
    """The generator of a chain that passes the brokers one after the other and is gone after the last."""
    forward = np.asarray(rates, dtype=float)
    return np.diag(forward[:-1], 1) - np.diag(forward)


def _phase_when_the_other_is_through(rates: Sequence[float]) -> npt.NDArray[np.float64]:
    """For each broker: the chance that m1 is there when m2 leaves the last one. Together 1/2; else m1 was first.

    The mean time that the pair spends at (broker of m1, broker of m2) solves a linear system with the Kronecker sum of
    both chains. They only move forward, so the system is triangular and substitution adds non-negative terms alone.
    """
    count = len(rates)
    spent = np.zeros((count, count))
    for i, j in product(range(count), repeat=2):
        entered = float(i == j == 0)
        entered += spent[i - 1, j] * rates[i - 1] if i else 0.0
        entered += spent[i, j - 1] * rates[j - 1] if j else 0.0
        spent[i, j] = entered / (rates[i] + rates[j])
    return np.asarray(spent[:, -1] * rates[-1], dtype=np.float64)


def _phases_tail(start: npt.NDArray[np.float64], rates: Sequence[float], t: float) -> float:
    """The chance that a chain started so has not passed the last broker by t."""
    fastest = max(rates)
    jump = np.eye(len(rates)) + _bidiagonal(rates) / fastest
    state, total = start, 0.0
    for weight in poisson_weights(fastest * t):
        total += weight * float(state.sum())
        state = state @ jump
    return total


# Quantiles -------------------------------------------------------------------------------------------------------


def exact_quantile(rates: Sequence[float], probability: float) -> float:
    """The t with P(S > t) = probability."""
    start = _phase_when_the_other_is_through(rates)
    return _where_it_falls_to(lambda t: _phases_tail(start, rates, t), probability, 1 / min(rates))


def bernstein_quantile(rates: Sequence[float], probability: float) -> float:
    """P(S >= t) <= exp(-t^2 / 2(V + bt)) with b = 1 / slowest rate, solved for t."""
    slowest, nats = 1 / min(rates), log(1 / probability)
    return slowest * nats + sqrt((slowest * nats) ** 2 + 2 * difference_variance(rates) * nats)


def cantelli_quantile(variance: float, probability: float) -> float:
    """All that the variance alone allows to say."""
    return sqrt(variance * (1 / probability - 1))


def chernoff_bound(rates: Sequence[float], t: float) -> float:
    """The smallest E[exp(sS)] exp(-st): P(S >= t) is at most this."""
    if t <= 0:
        return 1.0
    tilt = _best_tilt(rates, t)
    return exp(-tilt * t - sum(log(1 - (tilt / rate) ** 2) for rate in rates))


def chernoff_quantile(rates: Sequence[float], probability: float) -> float:
    return _where_it_falls_to(lambda t: chernoff_bound(rates, t), probability, 1 / min(rates))


def _best_tilt(rates: Sequence[float], t: float) -> float:
    """Where the derivative of the exponent, which only grows, is zero: in closed form for equal rates."""
    if min(rates) == max(rates):
        return (sqrt(len(rates) ** 2 + (rates[0] * t) ** 2) - len(rates)) / t
    low, high = 0.0, min(rates)
    while low < (middle := (low + high) / 2) < high:
        slope = sum(2 * middle / (rate**2 - middle**2) for rate in rates) - t
        low, high = (middle, high) if slope < 0 else (low, middle)
    return low


def _where_it_falls_to(tail: Callable[[float], float], probability: float, unit: float) -> float:
    low, high = 0.0, unit
    while tail(high) > probability and high < inf:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > probability else (low, middle)
    return high


# Certificates ----------------------------------------------------------------------------------------------------


def empirical_bernstein_bound(violations: int, messages: int, doubt: float = 0.05) -> float:
    """The violation rate is at most this, except with probability `doubt` (Maurer and Pontil 2009)."""
    rate = violations / messages
    variance = rate * (1 - rate) * messages / (messages - 1)
    nats = log(2 / doubt)
    return rate + sqrt(2 * variance * nats / messages) + 7 * nats / (3 * (messages - 1))


def certificate_size(target: float, doubt: float = 0.05) -> int:
    """How many messages without a violation it takes to certify a rate of at most `target`."""
    return ceil(1 + 7 * log(2 / doubt) / (3 * target))


def exact_certificate_size(target: float, doubt: float = 0.05) -> int:
    """The same from the binomial distribution itself: (1 - target)^n <= doubt."""
    return ceil(log(doubt) / log(1 - target))
