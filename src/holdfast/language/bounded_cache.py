"""A memory for results that are asked for again and again, bounded by what it holds rather than by how much.

Conditions come from outside and may be as long as the limits allow, so a number of entries says nothing about bytes.
When there is no room for a new result, all are forgotten at once: those still in use are soon there again.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembering(Generic[K, V]):
    def __init__(self, work_out: Callable[[K], tuple[V, int]], bytes_max: int) -> None:
        """`work_out` gives a result and, roughly, the bytes that keeping it takes."""
        self._work_out = work_out
        self._bytes_max = bytes_max
        self._known: dict[K, V] = {}
        self.bytes = 0

    def __call__(self, key: K) -> V:
        known = self._known.get(key)
        return self._learn(key) if known is None else known

    def _learn(self, key: K) -> V:
        result, size = self._work_out(key)
        self.keep(key, result, size)
        return result

    def keep(self, key: K, result: V, size: int) -> None:
        """What is known without working it out."""
        if size > self._bytes_max or key in self._known:
            return
        if self.bytes + size > self._bytes_max:
            self._known.clear()
            self.bytes = 0
        self._known[key] = result
        self.bytes += size
