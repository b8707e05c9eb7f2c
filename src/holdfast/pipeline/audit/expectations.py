"""A number that was predicted before a run, beside what the run's audit has measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal

from holdfast.pipeline import number_format
from holdfast.pipeline.confidence import half_width_factor

Unit = Literal["share", "time", "count"]
_READ = {"share": number_format.share, "time": number_format.time, "count": number_format.count}


@dataclass(frozen=True)
class Expectation:
    what: str
    predicted: float
    measured: float | None
    unit: Unit
    note: str  # how each of the two was found
    error: float | None = None  # half of the 95 % interval of what was measured

    @property
    def predicted_words(self) -> str:
        return _READ[self.unit](self.predicted)

    @property
    def measured_words(self) -> str:
        words = _READ[self.unit](self.measured)
        return words if self.error is None else f"{words} ± {_READ[self.unit](self.error)}"


def share_and_error(
    slices: Sequence[Mapping[str, Any]], part: str, denominator: str
) -> tuple[float | None, float | None]:
    """A share over slices of time, and half of its 95 % interval from how much the slices differ.

    What one loss near a publisher costs, it costs many subscribers at once; so deliveries are not independent, and
    seconds are counted instead, which are.
    """
    pairs = [(row[part], row[denominator]) for row in slices if row[denominator]]
    total = sum(owed for _, owed in pairs)
    if not total:
        return None, None
    share = sum(got for got, _ in pairs) / total
    if len(pairs) < 2:
        return share, None
    mean = total / len(pairs)
    spread = sqrt(sum((got - share * owed) ** 2 for got, owed in pairs) / (len(pairs) - 1))
    return share, half_width_factor(len(pairs)) * spread / mean
