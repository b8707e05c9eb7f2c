"""The fewest conditions that stand for many: what a broker has to tell a neighbour.

A condition that another one covers need not be told. When the covering one goes away, those it stood for are told
again ("uncovering"). A conjunction can only be covered by one that tests no other attributes than it does itself, and
that wants no other value where it wants one. So conditions are shelved by what they test, each equality for itself, and
few are compared; the book remembers every comparison.
"""

from collections.abc import Iterable, Iterator

from holdfast.language.subscription import apart, necessary
from holdfast.model.large_map import LargeMap
from holdfast.protocol.conditions import ConditionBook

Mark = tuple[str, object]  # an attribute and the value that it must have, or _ANY where it is tested otherwise
Shelves = LargeMap[Mark, dict[str, None]]  # never gone through

_COMPARED_MAX = 16  # filters; a larger disjunction is told as it is: comparing two takes the product of their filters

_ANY = object()
_ALL: Mark = "", _ANY  # the shelf of what may be compared with everything: disjunctions, and what tests nothing


class Cover:
    def __init__(self, book: ConditionBook) -> None:
        self._book = book
        self._all: LargeMap[str, Iterable[Mark]] = LargeMap()  # each with its marks
        self._chosen: LargeMap[str, Mark] = (
            LargeMap()
        )  # each with the mark under which it is found as one that may cover
        self._wide: Shelves = LargeMap(hash)  # chosen ones, each under one of its marks
        self._narrow: Shelves = LargeMap(hash)  # all, under every mark
        self._large: dict[str, None] = {}  # those that are not compared

    def __contains__(self, condition: str) -> bool:
        return condition in self._all or condition in self._large

    @property
    def chosen(self) -> tuple[str, ...]:
        return *self._chosen, *self._large

    def add(self, condition: str) -> tuple[list[str], list[str]]:
        """Take a condition in; which ones are chosen now, and which no longer."""
        if condition in self:
            return [], []
        if len(self._book.subscription(condition).filters) > _COMPARED_MAX:
            self._large[condition] = None
            return [condition], []
        marks = self._all[condition] = self._marks(condition)
        for mark in marks:
            self._narrow.setdefault(mark, {})[condition] = None
        return self._choose(condition, marks)

    def remove(self, condition: str) -> tuple[list[str], list[str]]:
        if self._large.pop(condition, self) is None:
            return [], [condition]
        if condition not in self._all:
            return [], []
        marks = self._all.pop(condition)
        for mark in marks:
            _take_out(self._narrow, mark, condition)
        if condition not in self._chosen:
            return [], []
        self._drop(condition)
        added: dict[str, None] = {}
        covers = self._book.covers
        for orphan in [each for each in self._narrower(condition, marks) if each not in self._chosen]:
            if covers(condition, orphan):
                chosen, dropped = self._choose(orphan, self._all[orphan])
                added.update(dict.fromkeys(chosen))
                for each in dropped:  # only an orphan chosen a moment ago can fall to a wider one
                    added.pop(each, None)
        return list(added), [condition]

    def _choose(self, condition: str, marks: Iterable[Mark]) -> tuple[list[str], list[str]]:
        covers = self._book.covers
        if any(covers(each, condition) for each in self._wider(marks)):
            return [], []
        dropped = [
            each for each in self._narrower(condition, marks) if each in self._chosen and covers(condition, each)
        ]
        for each in dropped:
            self._drop(each)
        # Whatever it covers has all of its marks, so one is enough: the one that it shares with the fewest.
        mark = min(marks, key=lambda mark: len(self._wide.get(mark, ())))
        self._chosen[condition] = mark
        self._wide.setdefault(mark, {})[condition] = None
        return [condition], dropped

    def _drop(self, condition: str) -> None:
        _take_out(self._wide, self._chosen.pop(condition), condition)

    def _marks(self, condition: str) -> Iterable[Mark]:
        filters = self._book.subscription(condition).filters
        if len(filters) != 1 or not filters[0]:
            return (_ALL,)
        # An expression is a mark of its own, and those attributes are marks without which it is unknown.
        tests = (*necessary(filters[0]), *apart(filters[0])[1])
        marks = dict.fromkeys((each.attribute, _ANY) for each in tests)
        marks |= dict.fromkeys((each.attribute, each.operand) for each in tests if each.op == "=")
        return marks

    def _wider(self, marks: Iterable[Mark]) -> Iterator[str]:
        """Chosen ones that may cover a condition with these marks: each of theirs is among them."""
        if _ALL in marks:
            yield from self._chosen
            return
        for mark in (_ALL, *marks):
            yield from self._wide.get(mark, ())

    def _narrower(self, condition: str, marks: Iterable[Mark]) -> list[str]:
        """Those that it may cover: they have all of its marks and perhaps others."""
        if _ALL in marks:
            return list(self._all)
        shelves = [self._narrow.get(mark, {}) for mark in marks]
        return [each for each in (*self._narrow.get(_ALL, ()), *min(shelves, key=len)) if each != condition]


def _take_out(shelves: Shelves, mark: Mark, condition: str) -> None:
    del shelves[mark][condition]
    if not shelves[mark]:
        del shelves[mark]


class Everything:
    """The same, for who has to be told all of them."""

    def __init__(self, book: ConditionBook) -> None:
        self._all: LargeMap[str, None] = LargeMap()

    def add(self, condition: str) -> tuple[list[str], list[str]]:
        known = condition in self._all
        self._all[condition] = None
        return ([] if known else [condition]), []

    def remove(self, condition: str) -> tuple[list[str], list[str]]:
        return [], ([condition] if self._all.pop(condition, self) is None else [])
