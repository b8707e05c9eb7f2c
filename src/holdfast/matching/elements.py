"""Values that conditions look for in lists: `'x' = ANY(tags)` is filed under 'x', and a list looks up its elements.

It stands beside `PatternMap` and is asked in the same way, with a list in place of a text. So an image tells which of
its values a list holds as it tells which of its patterns a text matches, and no kernel knows of lists.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Generic, TypeVar

from holdfast.matching.patterns import PatternMap
from holdfast.model.values import Value, utc

T = TypeVar("T")


def element_key(value: Value) -> tuple[bool, Value]:
    """What equal elements have in common: to Python, but not to us, 1 is TRUE. A NaN finds nothing."""
    return type(value) is bool, utc(value) if type(value) is datetime else value


class ElementMap(Generic[T]):
    """A map from values to what is filed under them, asked with a list."""

    def __init__(self) -> None:
        self._filed: dict[tuple[bool, Value], tuple[Value, T]] = {}

    def __bool__(self) -> bool:
        return bool(self._filed)

    def get(self, value: Value) -> T | None:
        found = self._filed.get(element_key(value))
        return None if found is None else found[1]

    def put(self, value: Value, filed: T) -> None:
        self._filed[element_key(value)] = value, filed

    def pop(self, value: Value) -> None:
        del self._filed[element_key(value)]

    def items(self) -> Iterator[tuple[Value, T]]:
        yield from self._filed.values()

    def matching(self, elements: Sequence[Value | None]) -> list[T]:
        """What is filed under the elements, each once."""
        filed = self._filed
        keys = dict.fromkeys([element_key(each) for each in elements if each is not None])
        return [filed[key][1] for key in keys if key in filed]


Known = PatternMap[int] | ElementMap[int]  # what an image asks of an attribute's texts, or of its lists
