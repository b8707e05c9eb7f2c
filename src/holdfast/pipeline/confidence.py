"""How far the mean of a few runs may be from the true one: Student's t, computed exactly.

For a whole number of degrees of freedom the distribution is a finite sum of powers of a sine and a cosine
(Abramowitz and Stegun, 26.7.3 and 26.7.4); its quantile is found by halving an interval. So no table is rounded into
this, and no numerical library is needed for it.
"""

from functools import lru_cache
from math import atan, cos, inf, pi, sin, sqrt

from holdfast.model.errors import MisuseError

LEVEL = 0.95
_EXACT_MAX = 200  # degrees of freedom; the sum gets long, and the series below it is right to ten digits from here on
_NORMAL = 1.959963984540054  # the 97.5 % quantile of the normal distribution


def probability_within(t: float, freedom: int) -> float:
    """The chance that Student's t with so many degrees of freedom lies between -t and t."""
    angle = atan(t / sqrt(freedom))
    squared = cos(angle) ** 2
    if freedom % 2:
        total, term = 0.0, cos(angle)
        for power in range(1, freedom - 1, 2):
            total += term
            term *= squared * (power + 1) / (power + 2)
        return 2 / pi * (angle + sin(angle) * total)
    total, term = 0.0, 1.0
    for power in range(0, freedom - 1, 2):
        total += term
        term *= squared * (power + 1) / (power + 2)
    return sin(angle) * total


@lru_cache(maxsize=10_000)
def t_quantile(freedom: int, level: float = LEVEL) -> float:
    """The t within which a share of `level` lies, for so many degrees of freedom."""
    if freedom < 1 or not 0 < level < 1:
        raise MisuseError(f"expected a degree of freedom and a share below 1, found {freedom} and {level}")
    low, high = 0.0, 1.0
    while probability_within(high, freedom) < level and high < inf:
        high *= 2
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        if probability_within(middle, freedom) < level:
            low = middle
        else:
            high = middle


def half_width_factor(runs: int) -> float:
    """Half the 95 % interval of a mean of so many runs, in standard deviations of one run."""
    freedom = runs - 1
    return (t_quantile(freedom) if freedom <= _EXACT_MAX else t_by_series(freedom)) / sqrt(runs)


def t_by_series(freedom: int) -> float:
    """The same for 95 %, from the normal quantile (Abramowitz and Stegun, 26.7.5): for many degrees of freedom."""
    z, n = _NORMAL, freedom
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92_160 * n**4)
    )
