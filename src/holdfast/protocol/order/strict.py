"""Strict order: an event waits until every earlier one of its source that matters has come or is lost.

Whoever looks for what is missing knows the lowest number that is missing or may be, the frontier; what lies below it
may go, in order. So nothing is kept here but the events that wait, and the cost of one does not depend on how many are
missing. What was given up and comes after all is dropped: its loss has been told, and order is never violated.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Generic

from holdfast.protocol.effects import Gauges
from holdfast.protocol.order.latch import Decision, Dropped, Release
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.order.waiting import Item


class _StrictSource(Generic[Item]):
    __slots__ = ("held", "order", "released", "released_departure_us")

    def __init__(self) -> None:
        self.held: list[tuple[int, int, int, int, Item]] = []  # a heap: number, tie, since when, departure, item
        self.order = 0
        self.released = -1  # the highest number that was let go,
        self.released_departure_us = -1  # and when that one left

    def hold(self, seq: int, now_us: int, departure_us: int, item: Item) -> None:
        self.order += 1
        heappush(self.held, (seq, self.order, now_us, departure_us, item))


class StrictQueue(Generic[Item]):
    def __init__(self, settings: LatchSettings) -> None:
        self._settings = settings
        self._sources: dict[str, _StrictSource[Item]] = {}  # in the order in which they were first heard of
        self._blocked: dict[str, None] = {}  # those with events that wait
        self._held = 0

    def gauges(self) -> Gauges:
        return {
            "messages held back": (self._held, self._settings.held_max),
            "sources latched": (len(self._sources), self._settings.sources_max),
        }

    @property
    def blocked(self) -> list[str]:
        """Sources with events that wait."""
        return list(self._blocked)

    def held(self) -> Iterator[Item]:
        """All that waits."""
        return (each[-1] for name in self._blocked for each in self._sources[name].held)

    def holds(self, source: str) -> bool:
        return source in self._blocked

    def next_due_us(self) -> int | None:
        """When the event that has waited longest has waited too long, or earlier."""
        if not self._blocked:
            return None
        oldest_us = min([self._sources[name].held[0][2] for name in self._blocked])
        return oldest_us + self._settings.strict_hold_us_max

    def passes(self, source: str, seqs: Sequence[int], departure_us: int, frontier: int) -> bool:
        """Whether all of these, which ascend, may go at once; then they have, the last of them with this departure."""
        known = self._sources.get(source) or self._meet(source)
        if known.held or seqs[0] <= known.released or seqs[-1] >= frontier:
            return False
        known.released, known.released_departure_us = seqs[-1], departure_us
        return True

    def on_message(
        self, source: str, seq: int, departure_us: int, now_us: int, frontier: int, item: Item
    ) -> list[Decision[Item]]:
        """An event that has not come before."""
        known = self._sources.get(source) or self._meet(source)
        decisions: list[Decision[Item]] = []
        if seq <= known.released:
            if departure_us <= known.released_departure_us:
                return [Dropped(item)]
            # Of one life, a lower number cannot have left later: its publisher has begun anew.
            decisions = self._release(source, known, None, now_us)
            known.released = -1
        known.hold(seq, now_us, departure_us, item)
        self._held += 1
        self._blocked[source] = None
        return decisions + self._release(source, known, frontier, now_us)

    def on_frontier(self, source: str, frontier: int, now_us: int) -> list[Decision[Item]]:
        """Less is missing than before."""
        return self._release(source, self._sources[source], frontier, now_us)

    def overdue(self, now_us: int) -> list[tuple[str, int, str]]:
        """Sources, the number below which nothing should be waited for any longer, and why."""
        found: list[tuple[str, int, str]] = []
        limits = self._settings
        for name in self._blocked:
            seq, _, since_us, _, _ = self._sources[name].held[0]
            if since_us + limits.strict_hold_us_max <= now_us:
                found.append((name, seq, "nobody answers"))
            elif len(self._sources[name].held) > limits.held_per_source_max:
                found.append((name, seq, "too many events wait for it"))
        if not found and self._held > limits.held_max:
            name = next(iter(self._blocked))
            found.append((name, self._sources[name].held[0][0], "too many events wait for it"))
        return found

    @property
    def too_many(self) -> bool:
        """Whether a limit may be exceeded, so that `overdue` is worth a look."""
        return self._held > min(self._settings.held_per_source_max, self._settings.held_max)

    def _meet(self, source: str) -> _StrictSource[Item]:
        if len(self._sources) >= self._settings.sources_max:
            quiet = next((name for name in self._sources if name not in self._blocked), None)
            if quiet is not None:
                del self._sources[quiet]
        known = self._sources[source] = _StrictSource()
        return known

    def _release(
        self, source: str, known: _StrictSource[Item], frontier: int | None, now_us: int
    ) -> list[Decision[Item]]:
        """What lies below the frontier, in order; without one, everything."""
        decisions: list[Decision[Item]] = []
        held = known.held
        while held and (frontier is None or held[0][0] < frontier):
            seq, _, since_us, departure_us, item = heappop(held)
            known.released, known.released_departure_us = seq, departure_us
            decisions.append(Release(item, late=False, held_us=now_us - since_us))
        self._held -= len(decisions)
        if not held:
            self._blocked.pop(source, None)
        return decisions
