"""Expressions, which no index can look up: asked last, of the subscriptions whose other tests an event has passed.

An index and an image hold what is necessary for a filter (`subscription.necessary`), so they find every subscription
that matches and, where there are expressions, others. Those are sorted out here. While no condition has an expression,
nothing is remembered and nothing is asked.
"""

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from holdfast.language.constraint import IS_TRUE
from holdfast.language.expression import Run
from holdfast.language.subscription import Filter, apart, necessary
from holdfast.matching.predicates import Predicate, predicate
from holdfast.model.event import Attributes

K = TypeVar("K", bound=Hashable)


def to_index(filters: Sequence[Filter]) -> Sequence[Filter]:
    """The filters as an index takes them: the same ones where there are no expressions.

    Constraints are enough where there are any, with the ranges that expressions imply; an expression without either is
    filed under the attributes that it needs.
    """
    for each in filters:
        if each and each[-1].op == IS_TRUE:
            return tuple(dict.fromkeys(map(_looked_up, filters)))
    return filters


def _looked_up(filter_: Filter) -> Filter:
    """All constraints, which nobody tests again; that attributes are there only where nothing else is known."""
    needed, plain = necessary(filter_), apart(filter_)[0]
    return tuple([each for each in needed if each.op != "IS NOT NULL" or each in plain]) or needed


class Residuals(Generic[K]):
    """What is left to ask of each key that has expressions."""

    def __init__(self) -> None:
        self.tests: dict[K, Predicate] = {}
        self.names: frozenset[str] = frozenset()  # attributes that some key has asked for

    def add(self, key: K, filters: Sequence[Filter]) -> None:
        self.tests[key] = _left_to_ask(filters)
        self.names = self.names.union(name for filter_ in filters for each in filter_ for name in each.names)

    def remove(self, key: K) -> None:
        self.tests.pop(key, None)

    def kept(self, found: list[K], attributes: Attributes) -> list[K]:
        test_of = self.tests.get
        return [key for key in found if (test := test_of(key)) is None or test(attributes)]


def _left_to_ask(filters: Sequence[Filter]) -> Predicate:
    """The index has seen to the constraints of an only filter; of several, any may have brought the event here."""
    if len(filters) == 1:
        return _all_true([each.operand.run for each in apart(filters[0])[1]])
    ways = [(predicate(plain), _all_true([each.operand.run for each in tests])) for plain, tests in map(apart, filters)]
    return lambda event: any(passes(event) and true(event) for passes, true in ways)


def _all_true(runs: list[Run]) -> Predicate:
    if len(runs) == 1:
        return runs[0]  # type: ignore[return-value]  # a test is True, False or None
    return lambda event: all([run(event) is True for run in runs])
