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
_KNOWN_MAX = 65_536  # filters found by identity: 10 MB


class SharedIndex:
    def __init__(self) -> None:
        self._index: Index[int] = Index()
        self._numbers: dict[tuple[Filter, ...], int] = {}
        self._known: dict[int, tuple[tuple[Filter, ...], int]] = {}  # by identity, which is found sooner; they are kept
        self._users: dict[int, int] = {}
        self.version = 0  # goes up when an event may meet a condition that it did not meet before
        self.answers: dict[int, tuple[Attributes, list[int]]] = {}  # by identity; the event is kept: no other has it

    def view(self) -> "IndexView[str]":
        return IndexView(self)

    def add(self, filters: Sequence[Filter]) -> int:
        """The number of these filters, taken into use once more."""
        number = self.number(filters)
        if not self._users.get(number):
            self._index.add(number, filters)
            self.answers.clear()
            self.version += 1
        self._users[number] = self._users.get(number, 0) + 1
        return number

    @property
    def size(self) -> int:
        """Above every number."""
        return len(self._numbers)

    def number(self, filters: Sequence[Filter]) -> int:
        known = self._known.get(id(filters))
        if known is not None:
            return known[1]
        number = self._numbers.setdefault(tuple(filters), len(self._numbers))
        if type(filters) is tuple:  # it never changes
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[id(filters)] = filters, number
        return number

    def remove(self, filters: Sequence[Filter]) -> int:
        number = self.number(filters)
        self._users[number] -= 1
        if not self._users[number]:
            self._index.remove(number, filters)
        return number

    def match(self, attributes: Attributes) -> list[int]:
        known = self.answers.get(id(attributes))
        if known is not None:
            return known[1]
        if len(self.answers) >= _REMEMBERED_MAX:
            self.answers.clear()
        found = self.match_once(attributes)
        self.answers[id(attributes)] = attributes, found
        return found

    def match_once(self, attributes: Attributes) -> list[int]:
        """The same for an event that will not be asked about again."""
        return self._index.match(attributes)


class IndexView(Generic[K]):
    """A node's part of the shared index."""

    def __init__(self, shared: SharedIndex) -> None:
        self._shared = shared
        self.keys: dict[int, list[K]] = {}  # by the number of their filters
        self._marks: dict[K, int] = {}
        self._bits: dict[int, int] = {}  # the marks of the keys with a number, together

    def add(self, key: K, filters: Sequence[Filter]) -> None:
        self.keys.setdefault(self._shared.add(filters), []).append(key)

    def remove(self, key: K, filters: Sequence[Filter]) -> None:
        number = self._shared.remove(filters)
        self.keys[number].remove(key)
        self._marks.pop(key, None)
        self._join(number)
        if not self.keys[number]:
            del self.keys[number], self._bits[number]

    def mark(self, key: K, filters: Sequence[Filter], bits: int) -> None:
        self._marks[key] = bits
        self._join(self._shared.number(filters))

    def _join(self, number: int) -> None:
        self._bits[number] = 0
        for key in self.keys[number]:
            self._bits[number] |= self._marks.get(key, 0)

    def marks(self, attributes: Attributes) -> int:
        """One look-up for each condition that the event meets: this is done for each event at each broker."""
        known = self._shared.answers.get(id(attributes))
        bits, bits_of = 0, self._bits.get
        for number in self._shared.match(attributes) if known is None else known[1]:
            bits |= bits_of(number, 0)
        return bits

    def marks_each(self, events: Sequence[Attributes]) -> list[int]:
        return [self.marks(each) for each in events]

    def match(self, attributes: Attributes) -> list[K]:
        known, keys = self._shared.answers.get(id(attributes)), self.keys
        found: list[K] = []
        for number in self._shared.match(attributes) if known is None else known[1]:
            if number in keys:
                found += keys[number]
        return found

    def match_each(self, events: Sequence[Attributes]) -> list[list[K]]:
        return [self.match(each) for each in events]
