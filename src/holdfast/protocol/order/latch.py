"""The latch: messages of a source wait while an earlier one that matters is likely to arrive.

A message says which earlier numbers of its source are relevant and missing (publication record); each of these gets one
deadline, when it is first noticed. A message is released when every relevant number below it has come, been declared
lost or passed its deadline. What comes after a later one was released is late: delivered with a flag, or
dropped. The first message of a source, and of each new life of it, waits for nothing: history is not owed.

Nothing is held for ever, and no more than the settings allow: past a limit the source that has waited longest gives up
its lowest missing number. That is counted, and kept from the estimator, or an overload would lengthen the waits.
"""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Generic

import msgspec

from holdfast.protocol.effects import Gauges
from holdfast.protocol.order.estimator import Estimator
from holdfast.protocol.order.estimators import NewEstimator, new_estimator
from holdfast.protocol.order.sample_window import COLD_SAMPLES, SampleWindow
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.order.steering import Steering
from holdfast.protocol.order.waiting import AwaitedNumber, Held, Item, Waiting


class Release(msgspec.Struct, Generic[Item], frozen=True, gc=False):
    """Deliver this now."""

    item: Item
    late: bool  # a later one of its source has been delivered before
    held_us: int  # what the latch added to its delay


class Dropped(msgspec.Struct, Generic[Item], frozen=True, gc=False):
    """This came too late, and late ones are not wanted."""

    item: Item


Decision = Release[Item] | Dropped[Item]


class _LatchSource(Generic[Item]):
    def __init__(self, travels: SampleWindow, estimator: Estimator, epoch: int, first: int) -> None:
        self.travels = travels  # arrival - departure, clock offset included
        self.estimator = estimator
        self.due_us: int | None = None
        self.noticed = 0  # missing numbers so far
        self.begin(epoch, first)

    def begin(self, epoch: int, first: int) -> None:
        """A life of the publisher begins with this number. What is known about the network stays."""
        self.epoch = epoch
        self.waiting: Waiting[Item] = Waiting(first - 1)
        self.newest = first  # the highest number received, and when it left
        self.newest_departure_us = 0

    def is_new_epoch(self, epoch: int, seq: int, departure_us: int) -> bool:
        """The epoch says so; or numbers begin again: of one life, a lower number cannot have left later."""
        return epoch > self.epoch or (
            epoch == self.epoch and seq < self.newest and departure_us > self.newest_departure_us
        )


class Latch(Generic[Item]):
    def __init__(self, settings: LatchSettings, new_estimator: NewEstimator = new_estimator) -> None:
        self._settings = settings
        self._new_estimator = new_estimator
        self._steering = Steering(settings.target, settings.steering_gain)
        self._sources: dict[str, _LatchSource[Item]] = {}  # in the order in which they were last heard of
        self._blocked: dict[str, None] = {}  # sources with missing numbers, the one that has waited longest first
        self._due: list[tuple[int, str]] = []  # a heap; an entry counts if it is its source's due_us
        self._held = 0
        self._missing = 0
        self.counts = {"late": 0, "late, dropped": 0, "not waited for any longer": 0, "past a limit": 0}

    def next_due_us(self) -> int | None:
        while self._due:
            due_us, name = self._due[0]
            if name in self._blocked and self._sources[name].due_us == due_us:
                return due_us
            heappop(self._due)
        return None

    def gauges(self) -> Gauges:
        return {
            "messages held back": (self._held, self._settings.held_max),
            "missing numbers awaited": (self._missing, self._settings.gaps_max),
            "sources latched": (len(self._sources), self._settings.sources_max),
        }

    # Facts ---------------------------------------------------------------------------------------

    def on_message(
        self,
        source: str,
        seq: int,
        departure_us: int,
        arrival_us: int,
        relevant_gaps: Sequence[tuple[int, int]],  # number and departure of earlier ones that matter and have not come
        item: Item,
        is_repair: bool = False,
        epoch: int = 0,  # of the publisher; a higher one is a new life, with numbers of its own
    ) -> list[Decision[Item]]:
        """A message that has not come before."""
        decisions: list[Decision[Item]] = []
        known = self._sources.pop(source, None)
        if known is None:
            decisions = self._release_oldest(arrival_us)
            travels = SampleWindow(self._settings.window, self._settings.window_us)
            known = _LatchSource(travels, self._new_estimator(self._settings, travels, self._steering), epoch, seq)
        elif known.is_new_epoch(epoch, seq, departure_us):
            decisions = self._let_all_go(source, known, arrival_us, "not waited for any longer")
            known.begin(epoch, seq)
        self._sources[source] = known
        if not is_repair:
            known.travels.add(arrival_us - departure_us, arrival_us)
            known.estimator.on_arrival(seq, departure_us, arrival_us)
        if epoch < known.epoch:
            return [*decisions, self._late(item)]
        if seq >= known.newest:
            known.newest, known.newest_departure_us = seq, departure_us
        if known.waiting.holds(seq):
            return decisions
        self._found(known, seq, departure_us, arrival_us)
        if seq < known.waiting.top:
            decisions.append(self._late(item))
        else:
            self._held += 1
            known.waiting.hold(seq, Held(item, arrival_us))
            self._notice(source, known, relevant_gaps, seq, departure_us, arrival_us)
        return decisions + self._settle(source, known, arrival_us) + self._keep_within_limits(source, known, arrival_us)

    def passes(self, source: str, seqs: Sequence[int], departure_us: int, arrival_us: int) -> bool:
        """Whether messages that came in a row, with ascending numbers, may go at once; then they have.

        The last of them, which left then, is a sample for them all: they have waited for each other.
        """
        known = self._sources.get(source)
        if known is None or known.waiting.held or known.waiting.missing or seqs[0] <= known.waiting.top:
            return False
        known.travels.add(arrival_us - departure_us, arrival_us)
        known.estimator.on_arrival(seqs[-1], departure_us, arrival_us)
        known.newest, known.newest_departure_us = seqs[-1], departure_us
        known.waiting.let_go(seqs[-1])
        return True

    def on_lost(self, source: str, seq: int, now_us: int) -> list[Decision[Item]]:
        """It will not come, or nobody wants it any more."""
        known = self._sources.get(source)
        if known is None or not known.waiting.awaits(seq):
            return []
        known.waiting.end(seq)
        self._missing -= 1
        return self._settle(source, known, now_us)

    def awaited_within(self, source: str, first: int, last: int) -> list[int]:
        known = self._sources.get(source)
        return [] if known is None else known.waiting.awaited_within(first, last)

    @property
    def blocked(self) -> list[str]:
        """Sources with messages that wait."""
        return list(self._blocked)

    def highest_held(self, source: str) -> int | None:
        known = self._sources.get(source)
        return None if known is None else known.waiting.highest_held

    def await_also(self, source: str, gaps: Sequence[tuple[int, int]], now_us: int) -> None:
        """Before a message comes that stood for others: what is held waits for these numbers as well."""
        known = self._sources[source]
        top = known.waiting.highest_held
        assert top is not None
        self._notice(source, known, gaps, top, known.newest_departure_us, now_us)

    def held(self) -> Iterator[Item]:
        """All that waits."""
        return (each for name in self._blocked for each in self._sources[name].waiting.held_items())

    def on_timer(self, now_us: int) -> list[Decision[Item]]:
        decisions: list[Decision[Item]] = []
        while (due_us := self.next_due_us()) is not None and due_us <= now_us:
            source = self._due[0][1]
            decisions += self._settle(source, self._sources[source], now_us)
        return decisions

    # What follows from them ----------------------------------------------------------------------

    def _found(self, known: _LatchSource[Item], seq: int, departure_us: int, now_us: int) -> None:
        """Perhaps it was missing. Then it tells the estimator whether the wait was long enough, however it came.

        One that is late without having been noticed was not waited for at all, and counts as well: the share of the
        violations that remain is about all of them. But before we understand what a source tells, all go unnoticed,
        and so many at once would make us wait too long ever after.
        """
        if known.waiting.awaits(seq):
            self._missing -= 1
        missing, violated = known.waiting.end(seq), seq < known.waiting.top
        unnoticed = missing is None and (not violated or known.noticed < COLD_SAMPLES)
        if unnoticed or (missing is not None and missing.forced):
            return
        late_us = 0 if missing is None else now_us - missing.noticed_us
        known.estimator.on_found(now_us - departure_us, late_us, violated, now_us)

    def _late(self, item: Item) -> Decision[Item]:
        if self._settings.late == "drop":
            self.counts["late, dropped"] += 1
            return Dropped(item)
        self.counts["late"] += 1
        return Release(item, late=True, held_us=0)

    def _notice(
        self,
        source: str,
        known: _LatchSource[Item],
        relevant_gaps: Sequence[tuple[int, int]],
        seq: int,
        departure_us: int,
        now_us: int,
    ) -> None:
        for missing_seq, missing_departure_us in relevant_gaps:
            if missing_seq < seq and known.waiting.is_new(missing_seq):
                deadline_us = known.estimator.deadline_us(missing_departure_us, departure_us, now_us)
                latest_us = known.waiting.oldest_above(missing_seq) + self._settings.hold_us_max
                deadline_us = min(max(deadline_us, now_us), latest_us)
                known.waiting.await_missing(missing_seq, AwaitedNumber(now_us, int(deadline_us)))
                self._missing += 1
                known.noticed += 1
                self._blocked[source] = None

    def _settle(self, source: str, known: _LatchSource[Item], now_us: int) -> list[Decision[Item]]:
        """Stop waiting for what is overdue, release what is free, and set the timer anew."""
        waiting = known.waiting
        while (due_us := waiting.due_us()) is not None and due_us <= now_us:
            self._give_up_lowest(waiting, "not waited for any longer")
        free = waiting.free()
        self._held -= len(free)
        if due_us is None:
            self._blocked.pop(source, None)
        elif due_us != known.due_us:
            heappush(self._due, (due_us, source))
        known.due_us = due_us
        if len(self._due) > 2 * len(self._blocked) + 64:  # most of it is out of date
            self._due = [(due_us, name) for name in self._blocked if (due_us := self._sources[name].due_us) is not None]
            heapify(self._due)
        return [Release(each.item, late=False, held_us=now_us - each.since_us) for each in free]

    def _give_up_lowest(self, waiting: Waiting[Item], reason: str) -> None:
        waiting.give_up_lowest(self._settings.gaps_per_source_max, forced=reason == "past a limit")
        self._missing -= 1
        self.counts[reason] += 1

    # Limits --------------------------------------------------------------------------------------

    def _keep_within_limits(self, source: str, known: _LatchSource[Item], now_us: int) -> list[Decision[Item]]:
        limits = self._settings
        decisions: list[Decision[Item]] = []
        while known.waiting.held > limits.held_per_source_max or known.waiting.missing > limits.gaps_per_source_max:
            self._give_up_lowest(known.waiting, "past a limit")
            decisions += self._settle(source, known, now_us)
        while self._held > limits.held_max or self._missing > limits.gaps_max:
            source = next(iter(self._blocked))
            self._give_up_lowest(self._sources[source].waiting, "past a limit")
            decisions += self._settle(source, self._sources[source], now_us)
        return decisions

    def _release_oldest(self, now_us: int) -> list[Decision[Item]]:
        """For one more source; the one heard of longest ago goes."""
        if len(self._sources) < self._settings.sources_max:
            return []
        source = next(iter(self._sources))
        decisions = self._let_all_go(source, self._sources[source], now_us, "past a limit")
        del self._sources[source]
        return decisions

    def _let_all_go(self, source: str, known: _LatchSource[Item], now_us: int, reason: str) -> list[Decision[Item]]:
        while known.waiting.missing:
            self._give_up_lowest(known.waiting, reason)
        return self._settle(source, known, now_us)
