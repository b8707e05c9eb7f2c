"""Asking for what is missing: SRM's request timers, with an end.

A loss is asked for after a random while, and again in rounds that grow longer. Another's request counts as ours: we
wait for the next round instead. Requests that come soon after belong to the same round and change nothing.

SRM ends because the source has everything. Here perhaps nobody has, and who errs about wanting an event never gets it:
so after some rounds an id is given up, and remembered, or two nodes that gave up would wake each other for ever.
"""

from collections import deque
from random import Random

from holdfast.protocol.effects import Effect, Lost
from holdfast.protocol.records import Codebook, Entry
from holdfast.protocol.recovery.recovery import ControlChannel
from holdfast.protocol.recovery.srm import counts as c
from holdfast.protocol.recovery.srm.distances import PeerDistances
from holdfast.protocol.recovery.srm.messages import ASKED_MAX, Routing, Wanted, encoded, routing_of
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.recovery.srm.source import Gap, SrmSource
from holdfast.protocol.recovery.srm.sources import Sources
from holdfast.protocol.recovery.srm.timers import Alarms

_TIMES_MAX = 4_096  # of the last recoveries it is known how long they took, for the figures


class Requester:
    def __init__(
        self,
        name: str,
        settings: SrmSettings,
        sources: Sources,
        distances: PeerDistances,
        rng: Random,
        counts: c.Counts,
        channel: ControlChannel,
    ) -> None:
        self._name = name
        self._channel = channel
        self._settings = settings
        self._sources = sources
        self._distances = distances
        self._rng = rng
        self._counts = counts
        self._alarms: Alarms[tuple[str, int]] = Alarms()
        self._abandoned: dict[tuple[str, int], None] = {}
        self.phases_us: dict[str, deque[int]] = {phase: deque(maxlen=_TIMES_MAX) for phase in c.PHASES}

    def next_due_us(self) -> int | None:
        return self._alarms.next_due_us()

    def __len__(self) -> int:
        return len(self._alarms)

    def is_abandoned(self, source: str, seq: int) -> bool:
        return (source, seq) in self._abandoned

    # Losses --------------------------------------------------------------------------------------

    def on_detected(
        self, known: SrmSource, seq: int, departure_us: int, book: Codebook, code: Entry, now_us: int
    ) -> list[Effect]:
        """A record tells of a publication that we should have."""
        self._counts[c.DETECTED] += 1
        return self._open(known, seq, Gap(departure_us, now_us, book, code, None), now_us)

    def on_overheard(
        self, known: SrmSource, seq: int, departure_us: int, routing: Routing, now_us: int
    ) -> list[Effect]:
        """Somebody asks for a publication that we should have, unnoticed: as if we had been about to ask as well."""
        self._counts[c.OVERHEARD] += 1
        gap = Gap(departure_us, now_us, None, None, routing)
        refused = self._open(known, seq, gap, now_us)
        if not refused:
            self._back_off(known, [(seq, gap)], now_us)
        return refused

    def _open(self, known: SrmSource, seq: int, gap: Gap, now_us: int) -> list[Effect]:
        if len(self._alarms) >= self._settings.missing_max:
            self._counts[c.REFUSED] += 1
            return self.give_up(known, seq, "too many events are missing")
        known.requests.on_new_loss(known.group.size(now_us), known.group.log_size())
        known.gaps[seq] = gap
        if gap.book is not None:
            known.alike.setdefault(gap.alike, {})[seq] = None
        self._rearm(known, [(seq, gap)], now_us)
        return []

    def on_arrived(self, known: SrmSource, seq: int, is_repair: bool, now_us: int) -> None:
        """The publication itself, or as a repair."""
        gap = self._close(known, seq)
        if gap is None:
            self._abandoned.pop((known.name, seq), None)
        elif not is_repair:
            self._counts[c.CAME_LATE] += 1
        elif gap.asked_us:
            self._counts[c.ANSWERED] += 1
            if not gap.is_twice:
                self._note_phases(gap, now_us)

    def _note_phases(self, gap: Gap, now_us: int) -> None:
        """Clocks are taken to agree; where they do not, no time is below 0."""
        times_us = (
            gap.detected_us - gap.departure_us,
            gap.asked_us - gap.detected_us,
            gap.repaired_us - gap.asked_us,
            now_us - gap.asked_us,
        )
        for phase, took_us in zip(c.PHASES, times_us, strict=True):
            self.phases_us[phase].append(max(0, took_us))

    def forget(self, known: SrmSource) -> list[Effect]:
        """Too many publishers: what is missing of this one is given up."""
        return [each for seq in list(known.gaps) for each in self.give_up(known, seq, "too many publishers")]

    def _close(self, known: SrmSource, seq: int) -> Gap | None:
        gap = known.gaps.pop(seq, None)
        if gap is None:
            return None
        self._alarms.cancel((known.name, seq))
        alike = known.alike.get(gap.alike)
        if alike is not None:
            alike.pop(seq, None)
            if not alike:
                del known.alike[gap.alike]
        return gap

    def give_up(self, known: SrmSource, seq: int, reason: str) -> list[Effect]:
        self._close(known, seq)
        self._abandoned[known.name, seq] = None
        if len(self._abandoned) > self._settings.remembered_max:
            del self._abandoned[next(iter(self._abandoned))]
        self._counts[c.ABANDONED] += 1
        return [Lost(known.name, seq, seq, reason)]

    # Rounds --------------------------------------------------------------------------------------

    def on_timer(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for source, seq in self._alarms.pop_due(now_us):
            known = self._sources.get(source)
            gap = None if known is None else known.gaps.get(seq)
            if known is None or gap is None or gap.due_us > now_us:
                continue  # it went along with another one
            if gap.round >= self._settings.rounds_max:
                effects += self.give_up(known, seq, "nobody answers")
            else:
                effects += self._ask(known, seq, gap, now_us)
        return effects

    def _ask(self, known: SrmSource, seq: int, gap: Gap, now_us: int) -> list[Effect]:
        """One request for all that have the same content and are in the same round."""
        together = [(seq, gap)]
        for other in known.alike.get(gap.alike, ()):
            also = known.gaps[other]
            in_time = gap.round == 0 or also.due_us <= now_us
            if other != seq and also.round == gap.round and in_time and len(together) < ASKED_MAX:
                together.append((other, also))
        distance_us = self._distances.to_us(known.name)
        wait_us = int(known.requests.middle * distance_us)
        numbers = tuple(sorted((number, each.departure_us) for number, each in together))
        wanted = Wanted(numbers, gap.round, distance_us, wait_us)
        self._counts[c.ASKED] += 1
        self._counts[c.WANTED] += sum(not each.asked_us for _, each in together)
        if gap.round == 0:
            self._counts[c.ASKED_FIRST] += 1
            known.requests.on_first(now_us - gap.detected_us, distance_us)
            known.requests.on_sent()
        for _, each in together:
            each.asked_us = each.asked_us or now_us
        self._back_off(known, together, now_us)
        routing = gap.heard
        if routing is None:
            assert gap.book is not None and gap.code is not None
            routing = routing_of(known.name, gap.book, gap.code)
        return self._channel.send_control(routing, encoded(wanted), now_us)

    def on_request(
        self, known: SrmSource, seq: int, gap: Gap, wanted: Wanted, requester: str, sent_us: int, now_us: int
    ) -> None:
        """Another asks for what we miss."""
        distance_us = self._distances.to_us(known.name)
        if gap.round == 0:
            known.requests.on_first(now_us - gap.detected_us, distance_us)
        elif gap.asked_us and gap.round == 1 and wanted.round == 0:
            self._counts[c.HEARD_TWICE] += 1
            known.requests.on_duplicate(wanted.distance_us, distance_us)
            if (sent_us, requester) < (gap.asked_us, self._name) and not gap.is_twice:
                gap.is_twice = True
                self._counts[c.ASKED_TWICE] += 1
        if now_us >= gap.ignore_until_us:
            self._back_off(known, [(seq, gap)], now_us)

    def _back_off(self, known: SrmSource, together: list[tuple[int, Gap]], now_us: int) -> None:
        """The next round, for one or for several alike. After the last one only time counts."""
        waiting = [(seq, gap) for seq, gap in together if gap.round < self._settings.rounds_max]
        for _, gap in waiting:
            gap.round += 1
        self._rearm(known, waiting, now_us)
        for _, gap in waiting:
            gap.ignore_until_us = now_us + (gap.due_us - now_us) // 2

    def _rearm(self, known: SrmSource, together: list[tuple[int, Gap]], now_us: int) -> None:
        if not together:
            return
        longer = self._settings.backoff ** min(together[0][1].round, self._settings.doublings_max)
        wait_us = known.requests.draw_us(self._rng, self._distances.to_us(known.name) * longer)
        for seq, gap in together:
            gap.due_us = now_us + wait_us
            self._alarms.set((known.name, seq), gap.due_us)
