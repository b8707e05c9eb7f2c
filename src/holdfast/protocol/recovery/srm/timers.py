"""What is due when: one time for each key, which may be moved and taken back."""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_STALE = 64  # entries of the heap that may be out of date beside as many as count; then it is made anew


class Alarms(Generic[K]):
    def __init__(self) -> None:
        self._due: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []  # an entry counts if its time is that of its key
        self._counter = 0

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: K, due_us: int) -> None:
        self._due[key] = due_us
        self._counter += 1
        heappush(self._heap, (due_us, self._counter, key))
        if len(self._heap) > 2 * len(self._due) + _STALE:
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapify(self._heap)

    def cancel(self, key: K) -> None:
        self._due.pop(key, None)

    def next_due_us(self) -> int | None:
        while self._heap:
            due_us, _, key = self._heap[0]
            if self._due.get(key) == due_us:
                return due_us
            heappop(self._heap)
        return None

    def pop_due(self, now_us: int) -> list[K]:
        """Those whose time has come, in the order of their times."""
        found: list[K] = []
        while (due_us := self.next_due_us()) is not None and due_us <= now_us:
            key = heappop(self._heap)[2]
            del self._due[key]
            found.append(key)
        return found
