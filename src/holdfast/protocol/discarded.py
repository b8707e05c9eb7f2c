"""Tables of neighbours that are gone, freed in slices: to free a million conditions at once takes a second."""

from collections.abc import Iterable
from typing import Any

from holdfast.model.large_map import LargeMap

_AT_ONCE = 4_096  # keys: a few milliseconds; a map with no more is freed where it is dropped


class Discarded:
    def __init__(self) -> None:
        self._maps: list[LargeMap[Any, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._maps)

    def put(self, maps: Iterable[LargeMap[Any, Any]]) -> None:
        self._maps += [each for each in maps if len(each) > _AT_ONCE]

    def free(self) -> None:
        """A slice of it."""
        left = _AT_ONCE
        while self._maps and left > 0:
            part = self._maps[-1].pop_part()
            if not part:
                self._maps.pop()
            left -= len(part)
            self.put(each for each in part.values() if type(each) is LargeMap)
