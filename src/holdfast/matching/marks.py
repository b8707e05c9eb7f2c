"""Bits that a broker keeps beside the keys of its index: of all keys that an event matches, together."""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from holdfast.language.subscription import Filter
from holdfast.model.event import Attributes

K = TypeVar("K", bound=Hashable)


class Marked(Generic[K]):
    """An index that works the bits out from the keys that it finds."""

    def __init__(self) -> None:
        self._marks: dict[K, int] = {}

    @abstractmethod
    def match(self, attributes: Attributes) -> list[K]: ...

    def mark(self, key: K, filters: Sequence[Filter], bits: int) -> None:
        self._marks[key] = bits

    def marks(self, attributes: Attributes) -> int:
        bits, marks = 0, self._marks
        for key in self.match(attributes):
            bits |= marks[key]
        return bits
