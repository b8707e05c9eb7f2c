"""The fewest conditions that stand for many: what a broker has to tell a neighbour.

A condition that another one covers need not be told. When the covering one goes away, those it stood for are told
again ("uncovering"). A conjunction can only be covered by one that tests no other attributes than it does itself, and
that wants no other value where it wants one. So conditions are shelved by what they test, each equality for itself, and
few are compared; the book remembers every comparison. Many disjunctions are on one shelf, and long conjunctions take
milliseconds to compare: what takes too long is not compared but told, which is never wrong.

A condition may stand for a million others. So one that goes away is `leaving` while they are looked at, some at a time,
and is told until then.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping, Sequence
from itertools import chain, islice
from typing import Any

from holdfast.language.subscription import Filter, apart, necessary
from holdfast.model.large_map import LargeMap
from holdfast.protocol.conditions import ConditionBook, Cost, evict

Shelf = MutableMapping[str, None]
Mark = tuple[str, object]  # an attribute and the value that it must have, or _ANY where it is tested otherwise

_COMPARED_MAX = 16  # filters; a larger disjunction is told as it is: comparing two takes the product of their filters

_WORK_MAX = 80_000  # bytes of narrower ones, for each filter of the wider: about 5 ms for a condition, each way

_ORPHANS_MAX = 200  # looked at in one go when what they stood under goes away: 10 ms
_ORPHAN_BYTES = 800  # to look at one takes as long as to compare so many
_SHELF_MAX = 4_096  # conditions in a plain dict; beyond that, it grows without a pause

_ANY = object()
_ALL: Mark = "", _ANY  # the shelf of what may be compared with everything: disjunctions, and what tests nothing


class _Shelves:
    """Conditions by mark, never gone through. Mostly there is one under a mark: a dict for it alone takes 184 bytes."""

    __slots__ = ("map",)

    def __init__(self) -> None:
        self.map: LargeMap[Mark, str | Shelf] = LargeMap(hash)

    def under(self, mark: Mark) -> Collection[str]:
        there = self.map.get(mark)
        if there is None:
            return ()
        return (there,) if isinstance(there, str) else there

    def put(self, mark: Mark, condition: str) -> None:
        there = self.map.get(mark)
        if there is None or isinstance(there, str):
            self.map[mark] = condition if there is None else dict.fromkeys((there, condition))
            return
        there[condition] = None
        if type(there) is dict and len(there) > _SHELF_MAX:
            large: LargeMap[str, None] = LargeMap()
            large.update(there)
            self.map[mark] = large

    def take_out(self, mark: Mark, condition: str) -> None:
        there = self.map[mark]
        if not isinstance(there, str):
            del there[condition]
            if there:
                return
        del self.map[mark]


class Cover:
    def __init__(self, book: ConditionBook, orphans_max: int = _ORPHANS_MAX) -> None:
        self._book = book
        self._orphans_max = orphans_max
        self.leaving: dict[str, None] = {}  # removed ones that are still told, to be removed again
        self._all: LargeMap[str, Iterable[Mark]] = LargeMap()  # each with its marks
        self._chosen: LargeMap[str, Mark] = (
            LargeMap()
        )  # each with the mark under which it is found as one that may cover
        self._wide = _Shelves()  # chosen ones, each under one of its marks
        self._narrow = _Shelves()  # all, under every mark
        self._large: dict[str, None] = {}  # those that are not compared
        # Chosen one -> those that are not told because of it.
        self._under: LargeMap[str, LargeMap[str, None]] = LargeMap()
        self._over: LargeMap[str, str] = LargeMap()  # and the other way round
        self.work = 0  # what was compared so far, in bytes

    def __contains__(self, condition: str) -> bool:
        return condition in self._all or condition in self._large

    @property
    def chosen(self) -> tuple[str, ...]:
        return *self._chosen, *self._large, *self.leaving

    @property
    def maps(self) -> tuple[LargeMap[Any, Any], ...]:
        """All that it holds, for who takes it apart."""
        return self._all, self._chosen, self._wide.map, self._narrow.map, self._under, self._over

    def add(self, condition: str) -> tuple[list[str], list[str]]:
        """Take a condition in; which ones are chosen now, and which no longer."""
        if condition in self:
            return [], []
        if len(self._book.subscription(condition).filters) > _COMPARED_MAX:
            self._large[condition] = None
            return [condition], []
        if condition in self.leaving:
            return self._stay(condition)
        return self._take_in(condition)

    def _take_in(self, condition: str) -> tuple[list[str], list[str]]:
        marks = self._all[condition] = self._marks(condition)
        for mark in marks:
            self._narrow.put(mark, condition)
        return self._choose(condition, marks)

    def _stay(self, condition: str) -> tuple[list[str], list[str]]:
        """It is wanted again before it has left: once nothing stands under it, it begins anew."""
        added, fallen = self._let_go(condition)
        if condition in self.leaving:
            return added, fallen
        chosen, dropped = self._take_in(condition)
        kept = dict.fromkeys([*added, *chosen])
        fallen += [each for each in dropped if kept.pop(each, self) is self]
        return list(kept), fallen if condition in chosen else [*fallen, condition]

    def remove(self, condition: str) -> tuple[list[str], list[str]]:
        if self._large.pop(condition, self) is None:
            return [], [condition]
        if condition in self._all:
            marks = self._all.pop(condition)
            for mark in marks:
                self._narrow.take_out(mark, condition)
            if condition not in self._chosen:
                self._stand_alone(condition)
                return [], []
            self._drop(condition)
        elif condition not in self.leaving:
            return [], []
        added, fallen = self._let_go(condition)
        return added, fallen if condition in self.leaving else [*fallen, condition]

    def _let_go(self, condition: str) -> tuple[list[str], list[str]]:
        """Look at some of those that stood under it; it leaves with the last of them."""
        under: Shelf = self._under.get(condition, {})
        orphans = list(islice(under, self._orphans_max))
        self.work += _ORPHAN_BYTES * len(orphans)
        for orphan in orphans:
            del under[orphan], self._over[orphan]
        added: dict[str, None] = {}
        fallen: list[str] = []
        for orphan in orphans:
            chosen, dropped = self._choose(orphan, self._all[orphan])
            added.update(dict.fromkeys(chosen))
            fallen += [each for each in dropped if added.pop(each, self) is self]  # to a wider orphan
        if under:
            self.leaving[condition] = None
        else:
            self._under.pop(condition, None)
            self.leaving.pop(condition, None)
        return list(added), fallen

    def _stand_alone(self, condition: str) -> None:
        over = self._over.pop(condition)
        del self._under[over][condition]
        if not self._under[over]:
            del self._under[over]

    def _choose(self, condition: str, marks: Iterable[Mark]) -> tuple[list[str], list[str]]:
        covers, cost = self._book.covers, self._book.cost(condition)
        for each in self._affordable(self._wider(marks), lambda other: other.filters * cost.bytes):
            if covers(each, condition):
                self._put_under(each, [condition])
                return [], []
        narrower = self._affordable(self._narrower(condition, marks), lambda other: cost.filters * other.bytes)
        dropped = [each for each in narrower if self._may_fall(each) and covers(condition, each)]
        for each in dropped:
            self._drop(each)
            self._put_under(condition, [each, *self._under.pop(each, ())])
        # Whatever it covers has all of its marks, so one is enough: the one that it shares with the fewest.
        mark = min(marks, key=lambda mark: len(self._wide.under(mark)))
        self._chosen[condition] = mark
        self._wide.put(mark, condition)
        return [condition], dropped

    def _may_fall(self, condition: str) -> bool:
        """One that stands for many stays: to put all of them under another takes too long."""
        return condition in self._chosen and len(self._under.get(condition, ())) <= self._orphans_max

    def _affordable(self, conditions: Iterable[str], work_of: Callable[[Cost], int]) -> Iterator[str]:
        """As many of these as there is time to compare with another one."""
        left = _WORK_MAX
        for each in conditions:
            work = work_of(self._book.cost(each))
            left -= work
            if left < 0:
                return
            self.work += work
            yield each

    def _put_under(self, wide: str, conditions: Iterable[str]) -> None:
        under = self._under.get(wide)
        if under is None:
            under = self._under[wide] = LargeMap()
        for each in conditions:
            under[each] = None
            self._over[each] = wide

    def _drop(self, condition: str) -> None:
        self._wide.take_out(self._chosen.pop(condition), condition)

    def _marks(self, condition: str) -> Iterable[Mark]:
        known = self._book.marks.get(condition)
        if known is None:
            evict(self._book.marks)
            known = self._book.marks[condition] = _marks_of(self._book.subscription(condition).filters)
        return known

    def _wider(self, marks: Iterable[Mark]) -> Iterator[str]:
        """Chosen ones that may cover a condition with these marks: each of theirs is among them."""
        if _ALL in marks:
            yield from self._chosen
            return
        for mark in (_ALL, *marks):
            yield from self._wide.under(mark)

    def _narrower(self, condition: str, marks: Iterable[Mark]) -> Iterator[str]:
        """Those that it may cover: they have all of its marks and perhaps others."""
        if _ALL in marks:
            found: Iterable[str] = self._all
        else:
            shelves = [self._narrow.under(mark) for mark in marks]
            fewest = min(shelves, key=len)
            found = chain(self._narrow.under(_ALL), fewest)
        return (each for each in found if each != condition)


def _marks_of(filters: Sequence[Filter]) -> Iterable[Mark]:
    if len(filters) != 1 or not filters[0]:
        return (_ALL,)
    # An expression is a mark of its own, and those attributes are marks without which it is unknown.
    tests = (*necessary(filters[0]), *apart(filters[0])[1])
    marks = dict.fromkeys((each.attribute, _ANY) for each in tests)
    marks |= dict.fromkeys((each.attribute, each.operand) for each in tests if each.op == "=")
    return marks


class Everything:
    """The same, for who has to be told all of them."""

    work = 0
    leaving: Collection[str] = ()

    def __init__(self, book: ConditionBook, orphans_max: int = 0) -> None:
        self._all: LargeMap[str, None] = LargeMap()

    @property
    def maps(self) -> tuple[LargeMap[Any, Any], ...]:
        return (self._all,)

    def __contains__(self, condition: str) -> bool:
        return condition in self._all

    def add(self, condition: str) -> tuple[list[str], list[str]]:
        known = condition in self._all
        self._all[condition] = None
        return ([] if known else [condition]), []

    def remove(self, condition: str) -> tuple[list[str], list[str]]:
        return [], ([condition] if self._all.pop(condition, self) is None else [])
