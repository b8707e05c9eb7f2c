"""The order of events that are read from a history, while later ones come live and in order.

Of a publisher whose live events come in order, an event is new if it is not below the first that came live. New events
of the history are put into the order of their numbers. One that has not come live yet may have to wait for an earlier
one, so it is left until it has. What is too late even so is not handed out. Older events keep the order in which they
reached the broker.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class NumberedEvent(Protocol):
    @property
    def source(self) -> str: ...
    @property
    def seq(self) -> int: ...


E = TypeVar("E", bound=NumberedEvent)
V = TypeVar("V")


@dataclass(slots=True)
class _CameLive:
    lowest: int
    highest: int


class LiveOrder(Generic[E]):
    def __init__(self, is_ordered: Callable[[E], bool], sources_max: int) -> None:
        self._is_ordered = is_ordered  # of an event that came live: whether all of its publisher do so in order
        self._sources_max = sources_max
        self._live: dict[str, _CameLive] = {}  # by publisher; those heard of last
        self._handed: dict[str, int] = {}  # of each publisher, the highest number that was handed out

    def on_live(self, events: Sequence[E]) -> None:
        for each in events:
            known = self._live.get(each.source)
            if known is not None:
                known.highest = max(known.highest, each.seq)
            elif self._is_ordered(each):
                self._live[each.source] = _CameLive(each.seq, each.seq)
                _shorten(self._live, self._sources_max)

    def parted(self, events: Sequence[E]) -> tuple[list[E], list[E], list[E]]:
        """Events of the history: old ones, new ones, and new ones that have not come live yet."""
        old: list[E] = []
        new: list[E] = []
        unreleased: list[E] = []
        for each in events:
            known = self._live.get(each.source)
            if known is None or each.seq < known.lowest:
                old.append(each)
            else:
                (new if each.seq <= known.highest else unreleased).append(each)
        return old, new, unreleased

    def by_number(self, events: Sequence[E]) -> list[E]:
        """Each publisher's by their numbers, in the places that its events had."""
        of: defaultdict[str, list[E]] = defaultdict(list)
        for each in events:
            of[each.source].append(each)
        ordered = {
            source: iter(sorted(theirs, key=lambda each: each.seq) if source in self._live else theirs)
            for source, theirs in of.items()
        }
        return [next(ordered[each.source]) for each in events]

    def is_next(self, event: E) -> bool:
        """Whether it is not too late for its publisher's order; then it counts as handed out."""
        highest = self._handed.pop(event.source, 0)
        self._handed[event.source] = max(highest, event.seq)
        _shorten(self._handed, self._sources_max)
        known = self._live.get(event.source)
        return known is None or event.seq > highest or event.seq < known.lowest


def _shorten(by_source: dict[str, V], sources_max: int) -> None:
    if len(by_source) > sources_max:
        del by_source[next(iter(by_source))]
