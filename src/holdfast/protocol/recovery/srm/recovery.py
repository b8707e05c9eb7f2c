"""Recovery as in paper 000, of one client: what arrives goes to who asks, who answers, and who listens."""

from collections.abc import Iterable, Sequence
from random import Random

from holdfast.language.subscription import Subscription
from holdfast.model.messages import Batch, Publication, Via
from holdfast.protocol.effects import Gauges
from holdfast.protocol.records import Record, RecordReader, first_book
from holdfast.protocol.recovery.asking import NEVER_US, Interest
from holdfast.protocol.recovery.control import (
    Digest,
    decode_untrusted,
    digest_condition,
    from_open_untrusted,
    is_open_repair,
)
from holdfast.protocol.recovery.says import Follow, Recovered, Unfollow, Wish
from holdfast.protocol.recovery.srm import counts as c
from holdfast.protocol.recovery.srm.distances import Distances
from holdfast.protocol.recovery.srm.listening import Listening
from holdfast.protocol.recovery.srm.messages import (
    is_request,
    own_repairs,
    own_requests,
    repair_distance_us,
    wanted_untrusted,
)
from holdfast.protocol.recovery.srm.repairer import Repairer
from holdfast.protocol.recovery.srm.requester import Requester
from holdfast.protocol.recovery.srm.rings import Rings
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.recovery.srm.source import Source
from holdfast.protocol.recovery.srm.sources import Sources
from holdfast.protocol.recovery.srm.telling import Teller
from holdfast.protocol.seen import Seen


class SrmRecovery:
    def __init__(self, name: str, epoch: int, settings: SrmSettings, seen: Seen, first_seq: int, rng: Random) -> None:
        self._name = name
        self._settings = settings
        self._seen = seen
        self.counts = c.new_counts()
        self._teller = Teller(name, epoch, settings, first_seq, self.counts)
        self._reader = RecordReader(settings.records, settings.sources_max)
        self._interest = Interest(())
        self._listening = Listening(first_book(settings.records.encoding))
        self._sources = Sources(settings)
        self._distances = Distances(settings.distance_us)
        self._requester = Requester(name, settings, self._sources, self._distances, rng, self.counts)
        self._repairer = Repairer(name, settings, rng, self.counts)
        self._rings = Rings(settings.kept_bytes_max)
        self.answered_us = self._requester.answered_us
        self.record_for = self._teller.record_for
        self.on_published = self._teller.on_published

    def start(self) -> list[Wish]:
        if not self._settings.publisher_cache:
            return []
        return [Follow(own_requests(self._name)), Follow(own_repairs(self._name))]

    def next_due_us(self) -> int | None:
        due = self._teller.next_due_us(), self._requester.next_due_us(), self._repairer.next_due_us()
        return min((each for each in due if each is not None), default=None)

    @property
    def settled(self) -> bool:
        return self._teller.settled and not len(self._requester) and not len(self._repairer)

    @property
    def has_told(self) -> bool:
        return self._teller.settled and not len(self._repairer)

    def gauges(self) -> Gauges:
        settings, published = self._settings, self._teller.published
        return {
            "publications looked for": (len(self._requester), settings.missing_max),
            "repairs about to be sent": (len(self._repairer), settings.repairs_max),
            c.FOLLOWED: (len(self._sources), settings.sources_max),
            c.KEPT: (len(self._rings), settings.kept_max * settings.sources_max),
            "bytes kept": (self._rings.bytes, self._rings.bytes_max),
            "own publications kept": (len(published), published.count_max),
        }

    def on_subscriptions(self, subscriptions: Iterable[tuple[int, Subscription]]) -> list[Wish]:
        """What we want has changed: each condition with the time since when."""
        wanted = list(subscriptions)
        self._interest = Interest(wanted)
        return self._listening.on_subscriptions(wanted)

    def on_timer(self, now_us: int) -> list[Wish]:
        return self._teller.on_timer(now_us) + self._requester.on_timer(now_us) + self._repairer.on_timer(now_us)

    carries_records = True

    def on_link(self, reliable: bool) -> None:
        """It makes no difference."""

    def on_absence(self, now_us: int) -> list[Wish]:
        """What was missed shows in the records of what comes."""
        return []

    def on_batch(self, batch: Batch, seqs: Sequence[int], trusted: bool, now_us: int) -> list[Wish]:
        """Its publishers send no batches, because every publication carries a record."""
        return []

    def noticed(self, source: str, below: int) -> list[tuple[int, int]]:
        """Numbers and departures of earlier publications that matter to us and have not come."""
        known = self._sources.get(source)
        return [] if known is None else [(each, gap.departure_us) for each, gap in known.gaps.items() if each < below]

    def has_noticed(self, source: str) -> bool:
        known = self._sources.get(source)
        return known is not None and bool(known.gaps)

    def missing(self) -> list[tuple[str, int, int]]:
        return [(known.name, seq, seq) for known in self._sources for seq in sorted(known.gaps)]

    def cleared(self, source: str) -> list[int]:
        return []

    def frontier(self, source: str) -> int:
        """The lowest that is missing. What no record told us of is not known to be: strict order cannot wait for it."""
        known = self._sources.get(source)
        return NEVER_US if known is None else min(known.gaps, default=NEVER_US)

    def give_up_below(self, source: str, seq: int, reason: str) -> list[Wish]:
        known = self._sources.get(source)
        if known is None:
            return []
        gone = [each for each in known.gaps if each < seq]
        return [wish for each in gone for wish in self._requester.give_up(known, each, reason)]

    # What comes ----------------------------------------------------------------------------------

    def on_event(self, publication: Publication, now_us: int, via: Via) -> list[Wish]:
        """An event for us, for the first time; raises only PeerError, for a record that is none."""
        is_repair = via != "original"
        is_new = self._sources.get(publication.source) is None
        known, wishes = self._heard(publication.source)
        if is_new and self._settings.soft_state_us:
            wishes.append(Follow(digest_condition(known.name)))
        self._requester.on_arrived(known, publication.seq, is_repair, now_us)
        self._rings.add(known.ring, publication, now_us)
        if not is_repair:
            self._distances.on_heard(known.name, publication.time_us, now_us)
        if publication.record:
            record = self._reader.read_untrusted(known.name, publication.record, publication.seq, publication.time_us)
            wishes += self._told(known, record, now_us)
        return wishes

    def on_control(self, publication: Publication, now_us: int) -> list[Wish]:
        """Raises only PeerError, for what is not acceptable."""
        if publication.source == self._name:
            return []
        if is_open_repair(publication.attributes):
            return self._on_repair(publication, from_open_untrusted(publication), now_us)
        if is_request(publication):
            return self._on_request(publication, now_us)
        control = decode_untrusted(publication)
        known = self._sources.get(publication.source)
        if known is None or not isinstance(control, Digest):
            return []
        record = self._reader.read_untrusted(known.name, control.record, control.last_seq, publication.time_us)
        return self._told(known, record, now_us)

    def _heard(self, source: str) -> tuple[Source, list[Wish]]:
        known, forgotten = self._sources.heard(source)
        if forgotten is None:
            return known, []
        self._rings.forget(forgotten.ring)
        wishes = self._requester.forget(forgotten)
        return known, [*wishes, Unfollow(digest_condition(forgotten.name))]

    def _told(self, known: Source, record: Record, now_us: int) -> list[Wish]:
        """A record: what it tells of, is for us and has not come, is lost. What is not told is not known of."""
        if record.book is None:
            return []
        wishes = self._listening.on_book(record.book)
        relevant = self._interest.relevant(record.book, 0)
        for seq in range(record.first_seq, record.last_seq + 1):
            if seq in known.gaps or self._seen.has(known.name, seq) or self._requester.is_abandoned(known.name, seq):
                continue
            _, departure_us, code = sighting = record.sighting(seq)
            if code is not None and relevant(sighting):
                wishes += self._requester.on_detected(known, seq, departure_us, record.book, code, now_us)
        return wishes

    # Requests and repairs ------------------------------------------------------------------------

    def _on_request(self, publication: Publication, now_us: int) -> list[Wish]:
        source, wanted = wanted_untrusted(publication)
        known, wishes = self._heard(source)
        requester = publication.source
        self._distances.on_heard(requester, publication.time_us, now_us)
        known.group.on_heard(requester, now_us)
        known.ring.on_request(wanted.wait_us, wanted.distance_us, self._distances.to_us(requester))
        for seq, departure_us in wanted.numbers:
            gap = known.gaps.get(seq)
            if gap is not None:
                self._requester.on_request(known, seq, gap, wanted, requester, publication.time_us, now_us)
            elif source == self._name or self._seen.has(source, seq):
                self._look_up(known, seq, requester, now_us)
            elif not self._requester.is_abandoned(source, seq) and self._listening.concerns_us(
                publication.attributes, departure_us
            ):
                wishes += self._requester.on_overheard(known, seq, departure_us, publication.attributes, now_us)
        return wishes

    def _look_up(self, known: Source, seq: int, requester: str, now_us: int) -> None:
        """Someone asks for what we have had."""
        if self._repairer.is_answered(known.name, seq, now_us):
            return
        held = self._teller.published.get(seq) if known.name == self._name else known.ring.kept.get(seq)
        if held is not None or known.name != self._name:
            known.ring.on_hit(held is not None)
            self.counts[c.MISSES if held is None else c.HITS] += 1
        if held is not None or self._settings.provider_by_miss:
            self._repairer.on_request(known, seq, held, self._distances.to_us(requester), now_us)

    def _on_repair(self, repair: Publication, publication: Publication, now_us: int) -> list[Wish]:
        known, wishes = self._heard(publication.source)
        self._distances.on_heard(repair.source, repair.time_us, now_us)
        known.group.on_heard(repair.source, now_us)
        seq, is_own = publication.seq, publication.source == self._name
        near = repair.source if is_own else publication.source  # whose distance the hold-down is counted in
        others_us, own_us = repair_distance_us(repair), self._distances.to_us(near)
        self._repairer.on_repair(known, seq, others_us, own_us, repair.source, repair.time_us, now_us)
        return wishes if is_own and seq not in known.gaps else [*wishes, Recovered(publication)]

    def on_answered(self, publication: Publication, now_us: int) -> None:
        """A publication was recovered; even if it is nothing for us, it is no longer missing."""
        known = self._sources.get(publication.source)
        if known is not None:
            self._requester.on_arrived(known, publication.seq, True, now_us)
