"""A subscription: a disjunction of filters, each a conjunction of constraints, in one canonical order.

A constraint tests one attribute, so that matchers can file it and covering can compare it. Whatever else a condition
says is an expression: the last constraints of a filter, asked only where all others hold.

Two conditions that differ only in spelling or order give equal subscriptions with the same text, which is
what lets brokers treat a condition's text as its identity.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from holdfast.language.constraint import IS_TRUE, Constraint
from holdfast.language.domain import Domain
from holdfast.language.implied import implied_range
from holdfast.language.limits import PROBLEMS_MAX
from holdfast.model.event import Attributes, attributes_of
from holdfast.model.values import canonical

if TYPE_CHECKING:
    from holdfast.language.explanation import Explanation
    from holdfast.language.expression import Expression

Filter = tuple[Constraint, ...]


class Subscription:
    """A condition that has been read; `str` gives its canonical text, and equal conditions are equal."""

    __slots__ = ("filters", "warnings")

    filters: tuple[Filter, ...]
    """Any of these must hold; none at all never matches, an empty one always does."""
    warnings: tuple[str, ...]
    """What the author probably did not mean: parts, or a whole, that can never match."""

    def __init__(self, filters: tuple[Filter, ...], warnings: tuple[str, ...] = ()) -> None:
        self.filters = filters
        self.warnings = warnings

    def matches(self, event: Mapping[str, object]) -> bool:
        """Whether the condition is true of this event; unknown is not."""
        attributes = attributes_of(event)
        return any(holds(each, attributes) for each in self.filters)

    def explain(self, event: Mapping[str, object]) -> "Explanation":
        """Why the event matches or does not, in words."""
        from holdfast.language.explanation import explain  # noqa: PLC0415  # only people ask for it

        return explain(self, event)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that the condition looks at, sorted."""
        return tuple(sorted({name for filter_ in self.filters for each in filter_ for name in each.names}))

    def __str__(self) -> str:
        if not self.filters:
            return "FALSE"
        return " OR ".join(_texts(self.filters))

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subscription) and self.filters == other.filters

    def __hash__(self) -> int:
        return hash(self.filters)

    def __reduce__(self) -> tuple[object, ...]:
        return Subscription, (self.filters, self.warnings)


def holds(filter_: Filter, attributes: Attributes) -> bool:
    if filter_ and filter_[-1].op == IS_TRUE:
        plain, tests = apart(filter_)
        return holds(plain, attributes) and all(each.operand.run(attributes) is True for each in tests)
    return all(each.holds(attributes.get(each.attribute)) for each in filter_)


def apart(filter_: Filter) -> tuple[Filter, Filter]:
    """The constraints on single attributes, and behind them the expressions, which come last in every filter."""
    count = len(filter_)
    while count and filter_[count - 1].op == IS_TRUE:
        count -= 1
    return filter_[:count], filter_[count:]


def necessary(filter_: Filter) -> Filter:
    """Tests of single attributes that every event passes for which the filter holds: what an index can ask.

    The filter itself unless there are expressions in it; of those, the ranges that they imply, and the attributes that
    they cannot do without.
    """
    if not filter_ or filter_[-1].op != IS_TRUE:
        return filter_
    plain, tests = apart(filter_)
    ranged = canonical_filter((*plain, *(each for test in tests for each in _implied(test.operand))))
    found = plain if ranged is None else ranged  # None: it can never be true, which whoever asks finds out
    tested = {each.attribute for each in found}
    return (*found, *(each for each in _present(filter_) if each.attribute not in tested))


def _implied(test: "Expression") -> list[Constraint]:
    found = None if test.plan is None or test.untested or len(test.plan) != 3 else implied_range(*test.plan)
    if found is None:
        return []
    name, (low, high) = found
    edges = [] if low is None else [Constraint(name, ">=", canonical(low))]
    return edges if high is None else [*edges, Constraint(name, "<=", canonical(high))]


def filter_text(filter_: Filter) -> str:
    return " AND ".join(map(str, filter_)) or "TRUE"


def subscription_of(raw: list[Filter]) -> Subscription:
    """Bring a disjunction of filters, in any order and with repetitions, to its canonical form."""
    if len(raw) == 1:
        settled = canonical_filter(raw[0])
        if settled is not None:
            return Subscription((settled,))
    return _canonical(raw)


def _canonical(raw: list[Filter]) -> Subscription:
    never: list[Filter] = []
    kept: dict[Filter, None] = {}
    for each in raw:
        settled = canonical_filter(each)
        if settled is None:
            never.append(each)
        else:
            kept[settled] = None
    warnings = [f"never true: {filter_text(each)}" for each in never[:PROBLEMS_MAX]]
    if len(never) > PROBLEMS_MAX:
        warnings.append(f"never true: {len(never) - PROBLEMS_MAX:,} more such parts")
    if () in kept:
        return Subscription(((),), tuple(warnings))
    if not kept:
        warnings.append("this subscription can never match")
    return Subscription(_sorted(tuple(kept)), tuple(warnings))


def _sorted(filters: tuple[Filter, ...]) -> tuple[Filter, ...]:
    if len(filters) < 2:
        return filters
    texts = _texts(filters)
    return tuple([filters[at] for at in sorted(range(len(filters)), key=texts.__getitem__)])


def _texts(filters: tuple[Filter, ...]) -> list[str]:
    """Of each filter. Those of one condition share most of their constraints, and each of those is printed once."""
    if len(filters) == 1:
        return [filter_text(filters[0])]
    known: dict[int, str] = {}  # by identity: comparing constraints takes longer than printing them
    for filter_ in filters:
        for each in filter_:
            if id(each) not in known:
                known[id(each)] = str(each)
    return [" AND ".join([known[id(each)] for each in filter_]) or "TRUE" for filter_ in filters]


_by_attribute = itemgetter(0)
_EXTREMES = ("", "%")
_UNSETTLED = frozenset(("NOT IN", IS_TRUE))


def canonical_filter(raw: Iterable[Constraint]) -> Filter | None:
    """Sorted by attribute, those on one attribute merged; None when they contradict each other."""
    ordered = sorted(raw, key=_by_attribute)
    before = None
    for attribute, op, operand in ordered:
        # s < '', s NOT LIKE '%' and b NOT IN (TRUE, FALSE) are the only ones that contradict themselves.
        if attribute == before or operand in _EXTREMES or op in _UNSETTLED:
            return _merged(ordered)
        before = attribute
    return tuple(ordered)


def _merged(ordered: list[Constraint]) -> Filter | None:
    tests = [each for each in ordered if each.op == IS_TRUE]
    if tests:
        return _with_expressions([each for each in ordered if each.op != IS_TRUE], tuple(dict.fromkeys(tests)))
    merged: list[Constraint] = []
    for attribute, group in groupby(ordered, key=_by_attribute):
        alike = list(group)
        if _settled(alike):
            merged += alike
            continue
        domain = Domain(alike)
        if domain.empty:
            return None
        merged += domain.constraints(attribute)
    return tuple(merged)


def _with_expressions(plain: list[Constraint], tests: Filter) -> Filter | None:
    """Expressions stand last. One that is always unknown, or needs what is said to be missing, makes all never true."""
    merged = canonical_filter(plain)
    if merged is None or any(each.operand.unknown for each in tests):
        return None
    whole = (*merged, *tests)
    return None if canonical_filter((*merged, *_present(whole))) is None else whole


def _present(filter_: Filter) -> Iterable[Constraint]:
    needed = frozenset[str]().union(*(each.operand.needs for each in apart(filter_)[1]))
    return [Constraint(name, "IS NOT NULL", None) for name in sorted(needed)]


def _settled(alike: list[Constraint]) -> bool:
    """One comparison with a number, or x > 3 AND x < 5, the commonest pair: these are canonical already."""
    (_, above, low), (_, below, high) = alike[0], alike[-1]
    if len(alike) == 1:
        return type(low) in (int, float)
    return (
        len(alike) == 2
        and above[0] == ">"
        and below in ("<", "<=")
        and type(low) in (int, float)
        and type(high) in (int, float)
        and low < high
    )
