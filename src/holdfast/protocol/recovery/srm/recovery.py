"""Recovery as in paper 000, of one client: what arrives goes to who asks, who answers, and who listens."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

from holdfast.language.subscription import Subscription
from holdfast.model.errors import PeerError
from holdfast.model.messages import Batch, Publication, Via
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.effects import Effect, Gauges, Incident, Lost
from holdfast.protocol.records import Record, RecordReader, first_book
from holdfast.protocol.recovery.control import (
    Digest,
    Probe,
    address_condition,
    decode_untrusted,
    digest_condition,
    encoded,
    from_open_untrusted,
    is_open_repair,
    labels,
)
from holdfast.protocol.recovery.publisher_state import NEVER_US, Interest
from holdfast.protocol.recovery.recovery import ControlChannel, Gaps
from holdfast.protocol.recovery.srm import counts as c
from holdfast.protocol.recovery.srm.announcer import Announcer
from holdfast.protocol.recovery.srm.distances import PeerDistances
from holdfast.protocol.recovery.srm.event_cache import Rings
from holdfast.protocol.recovery.srm.messages import (
    from_addressed_untrusted,
    is_addressed,
    is_request,
    own_repairs,
    own_requests,
    repair_distance_us,
    wanted_untrusted,
)
from holdfast.protocol.recovery.srm.repairer import Repairer
from holdfast.protocol.recovery.srm.request_filter import Listening
from holdfast.protocol.recovery.srm.requester import Requester
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.recovery.srm.source import SrmSource
from holdfast.protocol.recovery.srm.sources import Sources


class SrmRecovery:
    def __init__(
        self,
        name: str,
        epoch: int,
        settings: SrmSettings,
        seen: Seen,
        first_seq: int,
        rng: Random,
        channel: ControlChannel,
    ) -> None:
        self._name = name
        self._channel = channel
        is_cache = settings.caches is not None and name in settings.caches.split()
        self._volunteers = is_cache or settings.volunteers >= 1 or rng.random() < settings.volunteers
        if is_cache:
            settings = replace(settings, kept_min=settings.kept_max, kept_first=settings.kept_max)
        self._settings = settings
        self._seen = seen
        self._counts = c.new_counts()
        self._announcer = Announcer(name, epoch, settings, first_seq, self._counts, channel)
        self._reader = RecordReader(settings.records, settings.sources_max)
        self._interest = Interest(())
        self._listening = Listening(first_book(settings.records.encoding), channel)
        self._sources = Sources(settings)
        self._asks_distances = settings.distances == "round-trips"
        self._distances = PeerDistances(settings.distance_us, settings.probe_us if self._asks_distances else None)
        self._requester = Requester(name, settings, self._sources, self._distances, rng, self._counts, channel)
        self._repairer = Repairer(name, settings, rng, self._counts, channel)
        self._rings = Rings(settings.kept_bytes_max)

    def start(self, now_us: int) -> list[Effect]:
        follow, effects = self._channel.follow, list[Effect]()
        if self._settings.repairs == "addressed" or self._asks_distances:
            effects += follow(address_condition(self._name), now_us)
        if self._settings.publisher_cache:
            effects += follow(own_requests(self._name), now_us) + follow(own_repairs(self._name), now_us)
        return effects

    def next_due_us(self) -> int | None:
        due = self._announcer.next_due_us(), self._requester.next_due_us(), self._repairer.next_due_us()
        return min((each for each in due if each is not None), default=None)

    @property
    def gaps(self) -> Gaps:
        return self

    @property
    def settled(self) -> bool:
        return self._announcer.settled and not len(self._requester) and not len(self._repairer)

    @property
    def has_announced(self) -> bool:
        return self._announcer.settled and not len(self._repairer)

    @property
    def counts(self) -> Mapping[str, int]:
        lengths = [int(known.ring.length) for known in self._sources]
        now = {c.KEPT: len(self._rings), c.FOLLOWED: len(lengths), c.LENGTHS: sum(lengths)}
        if lengths:
            now |= {c.LONGEST: max(lengths), c.SHORTEST: min(lengths)}
        return self._counts | {f"{name} at the end": count for name, count in now.items()}

    @property
    def phases_us(self) -> Mapping[str, Iterable[int]]:
        return self._requester.phases_us

    def record_for(self, seq: int, now_us: int) -> bytes:
        return self._announcer.record_for(seq, now_us)

    def on_published(self, publication: Publication, now_us: int) -> None:
        self._announcer.on_published(publication, now_us)

    def announces(self, now_us: int) -> bool:
        return False  # every publication does

    def gauges(self) -> Gauges:
        settings, published = self._settings, self._announcer.published
        return {
            "publications looked for": (len(self._requester), settings.missing_max),
            "repairs about to be sent": (len(self._repairer), settings.repairs_max),
            c.FOLLOWED: (len(self._sources), settings.sources_max),
            c.KEPT: (len(self._rings), settings.kept_max * settings.sources_max),
            "bytes kept": (self._rings.bytes, self._rings.bytes_max),
            "own publications kept": (len(published), published.count_max),
        }

    def on_subscriptions(self, subscriptions: Iterable[tuple[int, Subscription]], now_us: int) -> list[Effect]:
        wanted = list(subscriptions)
        self._interest = Interest(wanted)
        return self._listening.on_subscriptions(wanted, now_us)

    def on_timer(self, now_us: int) -> list[Effect]:
        return self._announcer.on_timer(now_us) + self._requester.on_timer(now_us) + self._repairer.on_timer(now_us)

    def on_link(self, reliable: bool) -> None:
        """It makes no difference."""

    def on_absence(self, now_us: int) -> list[Effect]:
        """What was missed shows in the records of what comes."""
        return []

    def on_batch(self, batch: Batch, seqs: Sequence[int], trusted: bool, now_us: int) -> list[Effect]:
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
        """The lowest that is missing. What no record listed is not known to be: strict order cannot wait for it."""
        known = self._sources.get(source)
        return NEVER_US if known is None else min(known.gaps, default=NEVER_US)

    def give_up_below(self, source: str, seq: int, reason: str) -> list[Effect]:
        known = self._sources.get(source)
        if known is None:
            return []
        gone = [each for each in known.gaps if each < seq]
        return [lost for each in gone for lost in self._requester.give_up(known, each, reason)]

    # What comes ----------------------------------------------------------------------------------

    def on_event(self, publication: Publication, via: Via, now_us: int) -> list[Effect]:
        is_repair = via != "original"
        is_new = self._sources.get(publication.source) is None
        known, effects = self._heard(publication.source, now_us)
        if is_new and self._settings.soft_state_us:
            effects += self._channel.follow(digest_condition(known.name), now_us)
        self._requester.on_arrived(known, publication.seq, is_repair, now_us)
        if self._volunteers:
            self._rings.add(known.ring, publication, now_us)
        if not is_repair:
            self._distances.on_heard(known.name, publication.time_us, now_us)
            effects += self._probes(now_us)
        if publication.record:
            try:
                record = self._reader.read_untrusted(
                    known.name, publication.record, publication.seq, publication.time_us
                )
            except PeerError:
                return [*effects, Incident("bad_record", source=publication.source)]
            effects += self._on_record(known, record, now_us)
        return effects

    def on_control(self, publication: Publication, now_us: int) -> tuple[list[Effect], list[Publication]]:
        if publication.source == self._name:
            return [], []
        if is_open_repair(publication.attributes):
            return self._on_repair(publication, from_open_untrusted(publication), now_us)
        if is_addressed(publication):
            return self._on_repair(publication, from_addressed_untrusted(publication), now_us)
        if is_request(publication):
            return self._on_request(publication, now_us) + self._probes(now_us), []
        control = decode_untrusted(publication)
        if isinstance(control, Probe):
            return self._on_probe(publication.source, control, now_us), []
        known = self._sources.get(publication.source)
        if known is None or not isinstance(control, Digest):
            return [], []
        record = self._reader.read_untrusted(known.name, control.record, control.last_seq, publication.time_us)
        return self._on_record(known, record, now_us), []

    def _probes(self, now_us: int) -> list[Effect]:
        """Ask those whose distance is not known, or was measured long ago."""
        probe = Probe(now_us)
        return [
            each
            for name in self._distances.take_due(now_us)
            for each in self._channel.send_control(labels(probe, (name,)), encoded(probe), now_us)
        ]

    def _on_probe(self, peer: str, probe: Probe, now_us: int) -> list[Effect]:
        if probe.answers:
            self._distances.on_answer(peer, probe.sent_us, now_us)
            return []
        answer = Probe(probe.sent_us, answers=True)
        return self._channel.send_control(labels(answer, (peer,)), encoded(answer), now_us)

    def _heard(self, source: str, now_us: int) -> tuple[SrmSource, list[Effect]]:
        known, forgotten = self._sources.heard(source)
        if forgotten is None:
            return known, []
        self._rings.forget(forgotten.ring)
        effects = self._requester.forget(forgotten)
        return known, effects + self._channel.unfollow(digest_condition(forgotten.name), now_us)

    def _on_record(self, known: SrmSource, record: Record, now_us: int) -> list[Effect]:
        """What it lists, is for us and has not come, is lost. What no record lists is not known of."""
        if record.book is None:
            return []
        effects = self._listening.on_book(record.book, now_us)
        for seq, departure_us, code in self._interest.relevant(record, record.numbers, 0):
            if seq in known.gaps or self._seen.has(known.name, seq) or self._requester.is_abandoned(known.name, seq):
                continue
            assert code is not None
            effects += self._requester.on_detected(known, seq, departure_us, record.book, code, now_us)
        return effects

    # Requests and repairs ------------------------------------------------------------------------

    def _on_request(self, publication: Publication, now_us: int) -> list[Effect]:
        source, wanted = wanted_untrusted(publication)
        known, effects = self._heard(source, now_us)
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
                effects += self._requester.on_overheard(known, seq, departure_us, publication.attributes, now_us)
        return effects

    def _look_up(self, known: SrmSource, seq: int, requester: str, now_us: int) -> None:
        """Someone asks for what we have had."""
        if not self._volunteers and known.name != self._name:
            return
        if self._repairer.is_answered(known.name, seq, requester, now_us):
            return
        held = self._announcer.published.get(seq) if known.name == self._name else known.ring.kept.get(seq)
        if held is not None or known.name != self._name:
            known.ring.on_hit(held is not None)
            self._counts[c.MISSES if held is None else c.HITS] += 1
        if held is not None or self._settings.provider_by_miss:
            self._repairer.on_request(known, seq, held, requester, self._distances.to_us(requester), now_us)

    def _on_repair(
        self, repair: Publication, publication: Publication, now_us: int
    ) -> tuple[list[Effect], list[Publication]]:
        known, effects = self._heard(publication.source, now_us)
        self._distances.on_heard(repair.source, repair.time_us, now_us)
        known.group.on_heard(repair.source, now_us)
        seq, is_own = publication.seq, publication.source == self._name
        if (gap := known.gaps.get(seq)) is not None:
            gap.repaired_us = repair.time_us
        near = repair.source if is_own else publication.source  # whose distance the hold-down is counted in
        others_us, own_us = repair_distance_us(repair), self._distances.to_us(near)
        self._repairer.on_repair(known, seq, others_us, own_us, repair.source, repair.time_us, now_us)
        return effects, [] if is_own and seq not in known.gaps else [publication]

    def on_refused(self, source: str, seq: int, reason: str, now_us: int) -> list[Effect]:
        return [Lost(source, seq, seq, reason)]  # anybody repairs here, and nobody can sign for another

    def on_repaired(self, publication: Publication, now_us: int) -> None:
        known = self._sources.get(publication.source)
        if known is not None:
            self._requester.on_arrived(known, publication.seq, True, now_us)
