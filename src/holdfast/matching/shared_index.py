"""One index for all nodes of a simulation.

The same event meets the same conditions at every broker on its way. So conditions are numbered and indexed once for
the whole network, an event is matched once, and a node's own index is a view: which of the numbers that matched are
mine? What a node gets to know is the same as with an index of its own; only the time to find it differs.
"""

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from holdfast.language.subscription import Filter
from holdfast.matching.index import Index
from holdfast.model.event import Attributes

K = TypeVar("K", bound=Hashable)

_REMEMBERED_MAX = 4_096  # events on their way at one time; an event that is forgotten is matched again


class SharedIndex:
    def __init__(self) -> None:
        self._index: Index[int] = Index()
        self._numbers: dict[tuple[Filter, ...], int] = {}
        self._users: dict[int, int] = {}
        self.version = 0  # goes up when an event may meet a condition that it did not meet before
        self._answers: dict[
            int, tuple[Attributes, list[int]]
        ] = {}  # by identity; the event is kept, so no other has it

    def view(self) -> "IndexView[str]":
        return IndexView(self)

    def add(self, filters: Sequence[Filter]) -> int:
        """The number of these filters, taken into use once more."""
        number = self.number(filters)
        if not self._users.get(number):
            self._index.add(number, filters)
            self._answers.clear()
            self.version += 1
        self._users[number] = self._users.get(number, 0) + 1
        return number

    @property
    def size(self) -> int:
        """Above every number."""
        return len(self._numbers)

    def number(self, filters: Sequence[Filter]) -> int:
        return self._numbers.setdefault(tuple(filters), len(self._numbers))

    def remove(self, filters: Sequence[Filter]) -> int:
        number = self.number(filters)
        self._users[number] -= 1
        if not self._users[number]:
            self._index.remove(number, filters)
        return number

    def match(self, attributes: Attributes) -> list[int]:
        known = self._answers.get(id(attributes))
        if known is not None:
            return known[1]
        if len(self._answers) >= _REMEMBERED_MAX:
            self._answers.clear()
        found = self.match_once(attributes)
        self._answers[id(attributes)] = attributes, found
        return found

    def match_once(self, attributes: Attributes) -> list[int]:
        """The same for an event that will not be asked about again."""
        return self._index.match(attributes)


class IndexView(Generic[K]):
    """A node's part of the shared index."""

    def __init__(self, shared: SharedIndex) -> None:
        self._shared = shared
        self.keys: dict[int, list[K]] = {}  # by the number of their filters

    def add(self, key: K, filters: Sequence[Filter]) -> None:
        self.keys.setdefault(self._shared.add(filters), []).append(key)

    def remove(self, key: K, filters: Sequence[Filter]) -> None:
        number = self._shared.remove(filters)
        self.keys[number].remove(key)
        if not self.keys[number]:
            del self.keys[number]

    def match(self, attributes: Attributes) -> list[K]:
        keys = self.keys
        found: list[K] = []
        for number in self._shared.match(attributes):
            if number in keys:
                found += keys[number]
        return found

    def match_each(self, events: Sequence[Attributes]) -> list[list[K]]:
        return [self.match(each) for each in events]
