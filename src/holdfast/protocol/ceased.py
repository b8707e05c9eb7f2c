"""Conditions that a neighbour has ceased to want, many at once: dropped in slices.

They may be a million, of which only to make a list takes too long. So what is given is drained as it is dropped, a
part at a time. What the neighbour wants again meanwhile is left out.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator

from holdfast.model.large_map import LargeMap


class Ceased:
    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Iterator[str]]] = deque()
        self._again: LargeMap[str, int] = LargeMap()  # what is wanted again, and after how many changes
        self._changes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, conditions: Collection[str]) -> None:
        """A large map is emptied."""
        self._changes += 1
        pending = conditions.drained() if isinstance(conditions, LargeMap) else iter(conditions)
        self._waiting.append((self._changes, pending))

    def wants_again(self, conditions: Iterable[str]) -> None:
        self._again.update(dict.fromkeys(conditions, self._changes))

    def take(self, some: Callable[[Iterator[str]], list[str]]) -> list[str]:
        """Those to drop among some that wait."""
        change, pending = self._waiting[0]
        taken = some(pending)
        if not taken:
            self._waiting.popleft()
        return [each for each in taken if self._again.get(each, 0) < change]
