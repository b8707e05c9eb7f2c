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

_Way = tuple[Predicate, list[Run]]  # one filter: its constraints, and the expressions that have to be true


def to_index(filters: Sequence[Filter]) -> Sequence[Filter]:
    """The filters as an index takes them: the same ones where there are no expressions."""
    for each in filters:
        if each and each[-1].op == IS_TRUE:
            return tuple(dict.fromkeys(map(necessary, filters)))
    return filters


class Residuals(Generic[K]):
    """What is left to ask of each key that has expressions."""

    def __init__(self) -> None:
        self.ways: dict[K, list[_Way]] = {}
        self.names: frozenset[str] = frozenset()  # attributes that some key has asked for

    def add(self, key: K, filters: Sequence[Filter]) -> None:
        parts = [apart(each) for each in filters]
        # The index has seen to the constraints of an only filter; of several, any may have brought the event here.
        self.ways[key] = [
            (predicate(plain if len(parts) > 1 else ()), [each.operand.run for each in tests]) for plain, tests in parts
        ]
        self.names = self.names.union(name for filter_ in filters for each in filter_ for name in each.names)

    def remove(self, key: K) -> None:
        self.ways.pop(key, None)

    def holds(self, key: K, attributes: Attributes) -> bool:
        for passes, runs in self.ways[key]:
            if passes(attributes):
                for run in runs:
                    if run(attributes) is not True:
                        break
                else:
                    return True
        return False

    def kept(self, found: list[K], attributes: Attributes) -> list[K]:
        ways = self.ways
        return [key for key in found if key not in ways or self.holds(key, attributes)]
