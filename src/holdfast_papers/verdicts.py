"""Whether a claim holds: what it allows, beside what was measured and how far chance may have moved that.

Nobody types a verdict. A study writes down what a claim allows, in the claim's own words and units, and hands over an
estimate with its 95 % interval. The claim holds where the whole interval is allowed, does not hold where none of it is,
and is undecided between the two. Where chance enters, fewer than five runs decide nothing, with one exception: a claim
about every run is refuted by one, and a claim that something can happen is shown by one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan
from typing import Literal

from holdfast.model.errors import MisuseError
from holdfast_papers.estimates import Estimate, Interval

RUNS_MIN = 5  # with two runs Student's factor is 12.7, with five 2.8
_ABOUT = 0.1  # of the value: what "about" allows on either side where a study does not say otherwise

Verdict = Literal["holds", "does not hold", "undecided"]
# What the estimate is: the mean over runs; the worst run, for a claim about every one of them; or the best, for a claim
# that one example shows.
Judged = Literal["mean", "every", "one"]


@dataclass(frozen=True)
class Allowed:
    """Values with which a claim holds; a bound that is None is no bound."""

    least: float | None = None
    most: float | None = None
    strict: bool = False  # "more than" and "less than": the bounds themselves are not allowed
    judged: Judged = "mean"

    def __post_init__(self) -> None:
        if self.least is None and self.most is None:
            raise MisuseError("a claim that allows every value cannot fail; give it no criterion instead")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise MisuseError(f"nothing is at least {self.least:g} and at most {self.most:g}")

    def includes(self, value: float) -> bool:
        return not (isnan(value) or self._below(value) or self._above(value))

    def excludes(self, interval: Interval) -> bool:
        return self._below(interval[1]) or self._above(interval[0])

    def _below(self, value: float) -> bool:
        return self.least is not None and (value < self.least or (self.strict and value == self.least))

    def _above(self, value: float) -> bool:
        return self.most is not None and (value > self.most or (self.strict and value == self.most))

    def __str__(self) -> str:
        if self.least is None:
            words = f"{'below' if self.strict else 'at most'} {self.most:g}"
        elif self.most is None:
            words = f"{'above' if self.strict else 'at least'} {self.least:g}"
        elif self.least == self.most:
            words = f"{self.least:g}"
        else:
            words = (
                f"{'between' if self.strict else 'from'} {self.least:g} {'and' if self.strict else 'to'} {self.most:g}"
            )
        return words + {"mean": "", "every": " in every run", "one": " in some run"}[self.judged]


def at_least(bound: float, judged: Judged = "mean") -> Allowed:
    return Allowed(least=bound, judged=judged)


def at_most(bound: float, judged: Judged = "mean") -> Allowed:
    return Allowed(most=bound, judged=judged)


def more_than(bound: float, judged: Judged = "mean") -> Allowed:
    return Allowed(least=bound, strict=True, judged=judged)


def less_than(bound: float, judged: Judged = "mean") -> Allowed:
    return Allowed(most=bound, strict=True, judged=judged)


def about(value: float, within: float | None = None) -> Allowed:
    """A value of a paper's text or figure: a tenth of it to either side, or as much as the study says."""
    off = abs(value) * _ABOUT if within is None else within
    # Rounded, because 0.7 - 0.02 would be shown, and be judged, as 0.6799999999999999.
    return Allowed(round(value - off, 12), round(value + off, 12))


def verdict(allowed: Allowed, found: Estimate) -> Verdict:
    if isnan(found.value):
        return "undecided"
    inside, enough = allowed.includes(found.value), found.runs is None or found.runs >= RUNS_MIN
    if allowed.judged == "one" and inside:
        return "holds"
    if allowed.judged == "every" and not inside:
        return "does not hold"
    if not enough:
        return "undecided"
    if found.runs is None or allowed.judged != "mean":
        return "holds" if inside else "does not hold"
    return _of_interval(allowed, found.interval)


def _of_interval(allowed: Allowed, interval: Interval | None) -> Verdict:
    if interval is None:
        return "undecided"
    if all(map(allowed.includes, interval)):
        return "holds"
    return "does not hold" if allowed.excludes(interval) else "undecided"


def counted(verdicts: Iterable[Verdict]) -> str:
    """How many hold, do not, and are undecided, in words."""
    found = list(verdicts)
    hold, fail, undecided = (found.count(each) for each in ("holds", "does not hold", "undecided"))
    return f"{hold} hold{'s' * (hold == 1)}, {fail} do{'es' * (fail == 1)} not, {undecided} undecided"
