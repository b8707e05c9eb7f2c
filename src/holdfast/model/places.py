"""Some places of a sequence, in order, and how what stands there is taken out.

Most neighbours want nearly all events of a batch, or a few. Where places lie together, it is enough to say from where
to where: what stands there is copied in slices, and nobody looks at each.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

_IN_A_STRETCH = 8  # places on average, from which on slices are quicker than one place after the other


class Stretches(Sequence[int]):
    """Places that lie together, from where to where."""

    __slots__ = ("_count", "_ends")

    def __init__(self, ends: list[tuple[int, int]], count: int) -> None:
        self._ends, self._count = ends, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(range(first, end) for first, end in self._ends)

    def __getitem__(self, at: Any) -> Any:
        return tuple(self)[at]

    def taken(self, items: Sequence[Any]) -> tuple[Any, ...]:
        found: list[Any] = []
        for first, end in self._ends:
            found += items[first:end]
        return tuple(found)


def stretches_of(chosen: bytes) -> Stretches | None:
    """The places of the bytes that are 1, of bytes that are 0 or 1; None where most of them lie apart."""
    count = chosen.count(1)
    if (chosen.count(b"\0\1") + chosen.startswith(b"\1")) * _IN_A_STRETCH > count:
        return None
    ends: list[tuple[int, int]] = []
    first = chosen.find(1)
    while first >= 0:
        end = chosen.find(0, first)
        if end < 0:
            end = len(chosen)
        ends.append((first, end))
        first = chosen.find(1, end)
    return Stretches(ends, count)


def taker(places: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What takes out of a sequence what stands in these places."""
    if type(places) is Stretches:
        return places.taken
    if len(places) > 1:
        return itemgetter(*places)
    return lambda items: tuple([items[at] for at in places])
