"""A neighbouring broker on a tree: what we tell it, and what we have still to look at for it.

A broker that is new may have to be told a million conditions. To make a list of them takes too long, so they are walked
through as they are looked at.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from holdfast.model.large_map import LargeMap
from holdfast.protocol.cover import Cover, Everything
from holdfast.protocol.tables import SentTable


class Peer:
    def __init__(self, cover: Cover | Everything, now_us: int) -> None:
        self.cover = cover
        self.telling = False  # statements wait until it is told what is to be looked at
        self.subscriptions = SentTable("subscriptions", now_us)
        self.advertisements = SentTable("advertisements", now_us)
        self._pending: dict[str, None] = {}  # conditions of which we have to see whether it is to be told them
        self._others: Iterator[str] | None = None  # likewise, once there are few of those

    @property
    def maps(self) -> tuple[LargeMap[Any, Any], ...]:
        """All that may be large."""
        return *self.cover.maps, self.subscriptions.conditions, self.advertisements.conditions

    @property
    def is_behind(self) -> bool:
        """Whether there is anything left to look at."""
        return bool(self._pending) or self._others is not None

    def look_at(self, conditions: Iterable[str]) -> None:
        self._pending.update(dict.fromkeys(conditions))

    def look_at_all(self, conditions: Iterator[str]) -> None:
        """All that there are, in place of those that were left of all."""
        self._others = conditions

    def taken(self, most: int, slice_of: Callable[[Iterable[str], int], list[str]]) -> list[str]:
        """A slice of what is left: so many at most."""
        pending = self._pending
        if self._others is not None and len(pending) <= most:
            more = list(islice(self._others, most + 1))
            pending.update(dict.fromkeys(more))
            if len(more) <= most:
                self._others = None
        conditions = slice_of(pending, most)
        if len(conditions) == len(pending):
            pending.clear()
        else:
            for each in conditions:
                del pending[each]
        return conditions
