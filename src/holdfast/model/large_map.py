"""A map that grows without a pause.

A dict with a million keys stops everything for 30 ms when it grows, and a broker has a dozen of one size, which grow in
the same turn. So from some thousand keys on, this one is a thousand dicts, which grow at different times.

Up to there its order is that of insertion, and beyond it another one: the same in every process unless keys are told
apart by `hash`.
"""

from collections.abc import Callable, Iterator, MutableMapping
from itertools import chain
from typing import Any, TypeVar, overload
from zlib import crc32

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_WHOLE_MAX = 4_096  # keys of one dict: to deal them out takes a millisecond
_PARTS = 1_024
_NOTHING: Any = object()


def _of_text(text: str) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"))


class LargeMap(MutableMapping[K, V]):
    __slots__ = "_count", "_number", "_parts", "_turn", "_whole"

    def __init__(self, number: Callable[[Any], int] = _of_text) -> None:
        """`number` says which part a key is in, of a text by default."""
        self._number = number
        self._whole: dict[K, V] = {}  # all of them, until there are parts
        self._parts: list[dict[K, V]] = []
        self._count = 0  # in parts
        self._turn = 0  # the part that was popped last

    def _part(self, key: K) -> dict[K, V]:
        """Where it is; what is looked up most often sees for itself whether there are parts."""
        return self._parts[self._number(key) % _PARTS] if self._parts else self._whole

    def _deal_out(self) -> None:
        parts: list[dict[K, V]] = [{} for _ in range(_PARTS)]
        for key, value in self._whole.items():
            parts[self._number(key) % _PARTS][key] = value
        self._count, self._parts = len(self._whole), parts  # all of them at once: another thread may be reading
        self._whole = {}

    def __getitem__(self, key: K) -> V:
        return self._part(key)[key] if self._parts else self._whole[key]

    def __setitem__(self, key: K, value: V) -> None:
        if not self._parts:
            self._whole[key] = value
            if len(self._whole) > _WHOLE_MAX:
                self._deal_out()
            return
        part = self._part(key)
        before = len(part)
        part[key] = value
        self._count += len(part) - before

    def __delitem__(self, key: K) -> None:
        del self._part(key)[key]
        self._count -= 1

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, default: V | T, /) -> V | T: ...
    def get(self, key: K, default: Any = None, /) -> Any:
        return self._part(key).get(key, default) if self._parts else self._whole.get(key, default)

    def setdefault(self, key: K, default: Any = None, /) -> Any:
        found = self._part(key).get(key, _NOTHING)
        if found is _NOTHING:
            self[key] = found = default
        return found

    @overload
    def pop(self, key: K, /) -> V: ...
    @overload
    def pop(self, key: K, default: V | T, /) -> V | T: ...
    def pop(self, key: K, default: Any = _NOTHING, /) -> Any:
        found = self._part(key).pop(key, _NOTHING)
        if found is not _NOTHING:
            self._count -= 1
            return found
        if default is _NOTHING:
            raise KeyError(key)
        return default

    def clear(self) -> None:
        self._whole, self._parts = {}, []

    def pop_part(self) -> dict[K, V]:
        """Take out some of it, a thousandth of a large one: to free all at once would be a pause, too."""
        if not self._parts:
            part, self._whole = self._whole, {}
            return part
        for _ in range(_PARTS):
            self._turn = (self._turn + 1) % _PARTS
            if self._parts[self._turn]:
                break
        part, self._parts[self._turn] = self._parts[self._turn], {}
        self._count -= len(part)
        return part

    def keys_of(self, at: int, count: int) -> Iterator[K]:
        """The keys whose number is this modulo a power of two: of a large map nothing but their parts is looked at."""
        if count <= _PARTS and self._parts:
            return chain.from_iterable(self._parts[at::count])
        keys = self._parts[at % _PARTS] if self._parts else self._whole
        return (key for key in keys if self._number(key) % count == at)

    def walked(self) -> Iterator[K]:
        """All keys, while the map may change: what comes or goes meanwhile may be among them or not."""
        if not self._parts:
            yield from list(self._whole)
        else:
            for at in range(_PARTS):
                yield from list(self._parts[at])

    def drained(self) -> Iterator[K]:
        """All keys; what has been handed out is not here any more."""
        while self:
            yield from self.pop_part()

    def __contains__(self, key: Any) -> bool:
        return key in (self._part(key) if self._parts else self._whole)

    def __len__(self) -> int:
        return self._count if self._parts else len(self._whole)

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._parts) if self._parts else iter(self._whole)
