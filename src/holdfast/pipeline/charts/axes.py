"""Axes of a chart: which part of the numbers is shown, where ticks stand, and what they say.

Ticks are round numbers (1, 2 or 5 times a power of ten). A linear axis begins at zero when the numbers reach down
far enough for that to cost little room; a logarithmic one shows decades, and steps between them when there are few.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from holdfast.model.errors import MisuseError

_ZERO_FROM = 0.45  # a smallest number below this share of the largest: the axis begins at zero
_LOG_MARGIN = 0.03  # of the decades shown, at each end of a logarithmic axis
_ROUND = 1e-9  # slack for 0.30000000000000004


@dataclass(frozen=True)
class Axis:
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def share(self, value: float) -> float:
        """How far along the axis a value stands, from 0 to 1."""
        if self.log:
            return (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return (value - self.low) / (self.high - self.low)


def linear(values: Iterable[float], ticks_about: int, bounds: tuple[float, float] | None = None) -> Axis:
    """An axis that shows all values, or exactly `bounds`."""
    found = list(values)
    low, high = bounds if bounds is not None else _with_margin(min(found), max(found))
    step = _step((high - low) / max(ticks_about, 1))
    if bounds is None:
        low, high = floor(low / step + _ROUND) * step, ceil(high / step - _ROUND) * step
    first, last = ceil(low / step - _ROUND), floor(high / step + _ROUND)
    places = [number * step for number in range(first, last + 1)]
    return Axis(low, high, tuple(zip(places, _texts(places, step), strict=True)))


def _with_margin(low: float, high: float) -> tuple[float, float]:
    if low == high:
        spread = abs(low) / 2 or 1.0
        return (0.0, 2 * low) if low > 0 else (low - spread, high + spread)
    return (0.0, high) if 0 <= low <= _ZERO_FROM * high else (low, high)


def _step(rough: float) -> float:
    power = 10.0 ** floor(log10(rough))
    return float(next(power * nice for nice in (1, 2, 5, 10) if rough <= power * nice * (1 + _ROUND)))


def logarithmic(values: Iterable[float], bounds: tuple[float, float] | None = None) -> Axis:
    found = list(values)
    low, high = bounds if bounds is not None else (min(found), max(found))
    if low <= 0:
        raise MisuseError(f"a logarithmic axis has no place for {low:g}")
    if low == high:
        low, high = low / 2, high * 2
    decades = log10(high / low)
    steps = (1,) if decades > 3 else (1, 3) if decades > 1.5 else (1, 2, 5) if decades > 0.6 else range(1, 10)
    every = [nice * 10.0**power for power in range(floor(log10(low)) - 1, ceil(log10(high)) + 1) for nice in steps]
    if bounds is None:  # a little room, as a linear axis has up to its next tick
        low, high = low / 10 ** (_LOG_MARGIN * decades), high * 10 ** (_LOG_MARGIN * decades)
    shown = [each for each in every if low * (1 - _ROUND) <= each <= high * (1 + _ROUND)]
    return Axis(low, high, tuple((each, _texts([each], each)[0]) for each in shown), log=True)


def at_values(values: Sequence[float], names: Sequence[str]) -> Axis:
    """Ticks at given places, half a step of room at both ends: for names rather than numbers."""
    return Axis(min(values) - 0.5, max(values) + 0.5, tuple(zip(values, names, strict=True)))


def _texts(values: Sequence[float], step: float) -> list[str]:
    """Numbers as people write them, with as many digits as neighbours need to differ."""
    largest = max(map(abs, values), default=0.0)
    if largest and (largest < _SMALL or largest >= 1e12):
        return [f"{value:.3g}" if value else "0" for value in values]
    unit, name = next((each for each in _UNITS if largest >= each[0]), (1.0, ""))
    digits = max(0, -floor(log10(step / unit) + _ROUND))
    return [f"{value / unit + 0.0:,.{digits}f}{name}" if value else "0" for value in values]


_SMALL = 1e-4  # below it, 1e-05 is easier to read than its zeros
_UNITS = ((1e9, " G"), (1e6, " M"))
