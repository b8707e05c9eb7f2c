"""The fewest conditions that stand for many: what a broker has to tell a neighbour.

A condition that another one covers need not be told. When the covering one goes away, those it stood for are told
again ("uncovering"). Cost is linear in the conditions told, and the book remembers every comparison.
"""

from holdfast.protocol.conditions import ConditionBook


class Cover:
    def __init__(self, book: ConditionBook) -> None:
        self._book = book
        self._all: dict[str, None] = {}
        self._chosen: dict[str, None] = {}

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
        del self._chosen[condition]
        added: dict[str, None] = {}
        covers = self._book.covers
        for orphan in [each for each in self._all if each not in self._chosen and covers(condition, each)]:
            chosen, dropped = self._choose(orphan)
            added.update(dict.fromkeys(chosen))
            for each in dropped:  # only an orphan chosen a moment ago can fall to a wider one
                added.pop(each, None)
        return list(added), [condition]

    def _choose(self, condition: str) -> tuple[list[str], list[str]]:
        covers = self._book.covers
        if any(covers(each, condition) for each in self._chosen):
            return [], []
        dropped = [each for each in self._chosen if covers(condition, each)]
        for each in dropped:
            del self._chosen[each]
        self._chosen[condition] = None
        return [condition], dropped
