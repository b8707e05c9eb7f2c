"""The fewest conditions that stand for many: what a broker has to tell a neighbour.

A condition that another one covers need not be told. When the covering one goes away, those it stood for are told
again ("uncovering"). A conjunction can only be covered by one that tests no other attributes than it does itself, so
conditions are shelved by attribute and few are compared; the book remembers every comparison.
"""

from collections.abc import Iterable, Iterator

from holdfast.protocol.conditions import ConditionBook

_ANY = ""  # the shelf of what may be compared with everything: disjunctions, and conditions that test nothing


class Cover:
    def __init__(self, book: ConditionBook) -> None:
        self._book = book
        self._all: dict[str, None] = {}
        self._chosen: dict[str, None] = {}
        self._by_first: dict[str, dict[str, None]] = {}  # chosen ones, by the first attribute that they test
        self._by_each: dict[str, dict[str, None]] = {}  # and by every attribute

    def __contains__(self, condition: str) -> bool:
        return condition in self._all

    @property
    def chosen(self) -> tuple[str, ...]:
        return tuple(self._chosen)

    def add(self, condition: str) -> tuple[list[str], list[str]]:
        """Take a condition in; which ones are chosen now, and which no longer."""
        if condition in self._all:
            return [], []
        self._all[condition] = None
        return self._choose(condition)

    def remove(self, condition: str) -> tuple[list[str], list[str]]:
        if condition not in self._all:
            return [], []
        del self._all[condition]
        if condition not in self._chosen:
            return [], []
        self._drop(condition)
        added: dict[str, None] = {}
        covers = self._book.covers
        for orphan in [each for each in self._all if each not in self._chosen and covers(condition, each)]:
            chosen, dropped = self._choose(orphan)
            added.update(dict.fromkeys(chosen))
            for each in dropped:  # only an orphan chosen a moment ago can fall to a wider one
                added.pop(each, None)
        return list(added), [condition]

    def _choose(self, condition: str) -> tuple[list[str], list[str]]:
        covers, names = self._book.covers, self._attributes(condition)
        if any(covers(each, condition) for each in self._wider(names)):
            return [], []
        dropped = [each for each in self._narrower(names) if covers(condition, each)]
        for each in dropped:
            self._drop(each)
        self._chosen[condition] = None
        self._by_first.setdefault(names[0], {})[condition] = None
        for name in names:
            self._by_each.setdefault(name, {})[condition] = None
        return [condition], dropped

    def _drop(self, condition: str) -> None:
        del self._chosen[condition]
        names = self._attributes(condition)
        for shelves, under in ((self._by_first, names[:1]), (self._by_each, names)):
            for name in under:
                del shelves[name][condition]
                if not shelves[name]:
                    del shelves[name]

    def _attributes(self, condition: str) -> list[str]:
        filters = self._book.subscription(condition).filters
        return list(dict.fromkeys(each.attribute for each in filters[0])) or [_ANY] if len(filters) == 1 else [_ANY]

    def _wider(self, names: list[str]) -> Iterator[str]:
        """Chosen ones that may cover a condition that tests these attributes."""
        if names == [_ANY]:
            yield from self._chosen
            return
        for name in (_ANY, *names):
            yield from self._by_first.get(name, ())

    def _narrower(self, names: list[str]) -> Iterable[str]:
        """Chosen ones that it may cover: they test all of its attributes and perhaps others."""
        if names == [_ANY]:
            return list(self._chosen)
        shelves = [self._by_each.get(name, {}) for name in names]
        return [*self._by_each.get(_ANY, ()), *(shelves[0] if len(shelves) == 1 else min(shelves, key=len))]


class Everything:
    """The same, for who has to be told all of them."""

    def __init__(self, book: ConditionBook) -> None:
        self._all: dict[str, None] = {}

    def add(self, condition: str) -> tuple[list[str], list[str]]:
        known = condition in self._all
        self._all[condition] = None
        return ([] if known else [condition]), []

    def remove(self, condition: str) -> tuple[list[str], list[str]]:
        return [], ([condition] if self._all.pop(condition, self) is None else [])
