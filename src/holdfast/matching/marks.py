"""Bits that a broker keeps beside the keys of its index: of all keys that an event matches, together."""

from abc import abstractmethod
from collections.abc import Hashable, MutableMapping, Sequence
from typing import Generic, TypeVar

from holdfast.language.subscription import Filter
from holdfast.model.event import Attributes

K = TypeVar("K", bound=Hashable)


class Marked(Generic[K]):
    """An index that works the bits out from the keys that it finds."""

    def __init__(self) -> None:
        self._marks: MutableMapping[K, int] = {}

    @abstractmethod
    def match(self, attributes: Attributes) -> list[K]: ...

    @abstractmethod
    def match_each(self, events: Sequence[Attributes]) -> list[list[K]]: ...

    def mark(self, key: K, filters: Sequence[Filter], bits: int) -> None:
        self._marks[key] = bits

    def marks(self, attributes: Attributes) -> int:
        return self._together(self.match(attributes))

    def marks_each(self, events: Sequence[Attributes]) -> list[int]:
        """What `marks` says of each."""
        found = self.match_each(events)
        if found and found.count(found[0]) == len(found):  # usual where there is only one key
            return [self._together(found[0])] * len(found)
        return [self._together(each) for each in found]

    def _together(self, keys: list[K]) -> int:
        bits, marks = 0, self._marks
        for key in keys:
            bits |= marks[key]
        return bits
