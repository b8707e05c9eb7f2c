"""The subscriber's half: finds out what it has lost, asks for it, and knows when to stop.

Whoever has sent us an event is followed: we subscribe to its digests. A publication that a digest tells of, that our
conditions may match and that has not come in the time it usually takes is missing. What is missing of one publisher
goes into one request. Numbers that no digest announced to us, because we lost all that did, are requested as well: so a
loss is overlooked only if the publisher itself has forgotten it. What was published before we subscribed is not owed.

Over links that lose nothing, events come with a statement: of these numbers you have been sent all that you want. Then
nothing needs to be announced, and a hole in what is stated is a range of numbers that was not.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from holdfast.language.subscription import Subscription
from holdfast.model.limits import TIME_US_MAX
from holdfast.model.messages import Batch, Publication, Via
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.effects import Effect, Gauges, Lost
from holdfast.protocol.records import Record, RecordReader
from holdfast.protocol.recovery.control import (
    OF,
    Digest,
    Greeting,
    Repair,
    Request,
    digest_condition,
    distances,
    encoded,
    labels,
    publication_of,
)
from holdfast.protocol.recovery.publisher_state import NEVER_US, SILENT_US, Interest, MissingState, Source
from holdfast.protocol.recovery.recovery import ControlChannel
from holdfast.protocol.recovery.rtt import RttEstimator
from holdfast.protocol.recovery.settings import RecoverySettings

_TOGETHER_US = 10_000  # what is due so soon after something else goes into the same request
_ASKED_MAX = 1_000  # numbers in one request: 2 kB
_UNANNOUNCED_MAX = 8_192  # numbers that one request wants announced again: four digests
_UNSTATED_MAX = 3  # digests in a row before which nothing was stated, after which we want digests with records again
_LOOKED_FOR = 8_192  # missing ones of a publisher beyond which we do not ask for more announcements
_NOTED_US = 5_000_000  # how long a missing one is kept in mind by who does not ask: no latch waits longer
_FIRST_US = 2_000_000  # a new publisher learns which attributes matter to us, and then is asked what we missed
_GOSSIP_US_MAX = 3_000_000  # what brokers need longer for, they may not get at all: a second would ask twice as often
_NOT_KEPT = "the publisher no longer keeps it"
_ANEW = "the publisher restarted"
_GREETINGS_MAX = 8  # if it still does not tell of them after so many greetings, all that it tells of counts as missing


class Subscriber:
    def __init__(self, settings: RecoverySettings, seen: Seen, record: int, channel: ControlChannel) -> None:
        self._settings = settings
        self._channel = channel
        self._seen = seen
        self._record = record  # entries that publications should carry, for order
        self._reader = RecordReader(settings.records, settings.sources_max)
        self._interest = Interest(())
        self._sources: dict[str, Source] = {}
        self._due: list[tuple[int, str]] = []  # a heap; an entry counts if it is its source's `due_us`
        self._missing = 0
        self._full_until_us = 0  # while too many are followed, none of them can have been silent for long before this
        self._gossip = RttEstimator(0)  # how much later than usual events come that brokers have recovered, if they do

    def next_due_us(self) -> int | None:
        due = self._due
        while due:
            due_us, name = due[0]
            known = self._sources.get(name)
            if known is not None and known.due_us == due_us:
                return due_us
            heappop(due)
        return None

    @property
    def settled(self) -> bool:
        return not self._missing and not any(each.unannounced for each in self._sources.values())

    def gauges(self) -> Gauges:
        return {
            "publications looked for": (self._missing, self._settings.missing_max),
            "publishers followed": (len(self._sources), self._settings.sources_max),
        }

    def on_subscriptions(self, subscriptions: Iterable[tuple[int, Subscription]]) -> None:
        """What we want has changed: each condition with the time since when."""
        self._interest = Interest(subscriptions)

    # What comes ----------------------------------------------------------------------------------

    def on_event(self, publication: Publication, via: Via, now_us: int) -> list[Effect]:
        """An event for us, for the first time."""
        known = self._sources.get(publication.source)
        if publication.record is None:  # nobody would answer; if somebody did once, that was another life
            return [] if known is None else self._forget(known, _ANEW, now_us)
        effects: list[Effect] = []
        if known is None:
            known, effects = self._meet(publication.source, publication.time_us, now_us)
            if known is None:
                return []
            known.unannounced.open(0, publication.seq - 1, now_us + _FIRST_US)
            known.first = known.announced_to = publication.seq
            self._rearm(known, known.next_due_us(self._settings.forget_us))
        elif via == "original":
            known.travel.add(now_us - publication.time_us)
        elif via == "gossip":
            self._gossip.add(now_us - publication.time_us - known.travel.mean_us)
        known.heard_us = now_us
        known.latest = max(known.latest, publication.seq)
        self._end(known, publication.seq, now_us, via == "repair")
        if self._record and not publication.record and via != "repair" and known.greetings <= _GREETINGS_MAX:
            effects += self._greet_again(known, now_us)
        return effects

    def on_batch(self, batch: Batch, seqs: Sequence[int], trusted: bool, now_us: int) -> list[Effect]:
        """Events for us, some of them for the first time, over a link that loses nothing; `trusted`: what we want was
        known when the batch was made up, so that what it states is about all of it.
        """
        known, effects = self._sources.get(batch.source), list[Effect]()
        if not batch.since:
            return [] if known is None else self._forget(known, _ANEW, now_us)
        states = trusted and batch.since <= batch.upto
        if known is None:
            if not seqs:
                return []
            known, effects = self._meet(batch.source, batch.times_us[-1], now_us, states)
            if known is None:
                return []
            known.first = batch.since if states else seqs[0]
            known.announced_to = known.first - 1
            if batch.since > 1 or not states:
                known.unannounced.open(0, known.announced_to, now_us if states else now_us + _FIRST_US)
        elif seqs:
            known.travel.add(now_us - batch.times_us[-1])
        known.heard_us = now_us
        known.note_share(seqs, batch.upto - batch.since + 1 if states else 0)
        if seqs:
            known.latest = max(known.latest, seqs[-1])
        if known.missing:
            for seq in seqs:
                self._found(known, seq)
        if states:
            effects += self._stated(known, batch, now_us)
        self._rearm(known, known.next_due_us(self._settings.forget_us))
        return effects

    def _stated(self, known: Source, batch: Batch, now_us: int) -> list[Effect]:
        """All that we want of these numbers has come; what lies between them and those before was not announced."""
        since, upto, effects = batch.since, batch.upto, list[Effect]()
        if since == 1 and known.unannounced:  # a life begins here: lower numbers are of another, which ends with it
            ended = known.unannounced.close_below(batch.seqs[0] if batch.seqs else upto)
            effects = self._never_announced(known, ended, _ANEW)
        known.stated = True
        known.unstated = 0
        if since > known.announced_to + 1:
            first = known.announced_to + 1
            known.unannounced.open(first, since - 1, now_us)
            if self._record:  # one number stands for the range until we know more
                unseen = self._seen.lowest_new(known.name, first, since - 1)
                if unseen is not None:
                    known.noticed.append((unseen, now_us - known.travel.mean_us))
                    known.placeholders.append(unseen)
        if known.unannounced:
            known.unannounced.close(0 if since == 1 else since, upto, upto)  # from the beginning
        known.announced_to = max(known.announced_to, upto)
        # What has not come of them is not for us: a keeper tells so of what it answers.
        for seq in known.cleared_within(since if since > 1 else min(batch.seqs, default=NEVER_US), upto):
            self._found(known, seq)
        return effects

    def _end(self, known: Source, seq: int, now_us: int, is_repair: bool) -> None:
        """It has come; perhaps it was missing."""
        found = self._found(known, seq)
        if not is_repair or found is None:
            return
        known.note_answer(seq, found, now_us)
        if known.unannounced and len(known.missing) == _LOOKED_FOR // 2:  # before there is nothing on its way
            known.unannounced.hurry(now_us)
            self._rearm(known, now_us)

    def _found(self, known: Source, seq: int) -> MissingState | None:
        found = known.missing.pop(seq, None)
        self._missing -= found is not None
        return found

    def on_record(self, publication: Publication, now_us: int) -> list[Effect]:
        """What an event tells of those before it; raises only PeerError."""
        known = self._sources.get(publication.source)
        if known is None:
            return []
        assert publication.record is not None
        record = self._reader.read_untrusted(known.name, publication.record, publication.seq, publication.time_us)
        # What lies between the last digest and this record, the next digest will tell.
        return self._on_sightings(known, record, now_us, self._settings.wait_us_max + self._settings.digest_us)

    def on_digest(self, publication: Publication, digest: Digest, now_us: int) -> list[Effect]:
        """Raises only PeerError."""
        source = publication.source
        record = self._reader.read_untrusted(source, digest.record, digest.last_seq, publication.time_us)
        known = self._sources.get(source)
        effects: list[Effect] = []
        if known is None or digest.epoch > known.epoch > 0:
            effects = [] if known is None else self._forget(known, _ANEW, now_us)
            known, met = self._meet(source, publication.time_us, now_us)
            effects += met
            if known is None:
                return effects
            known.first = record.first_seq if len(record) else digest.oldest
            known.announced_to = known.first - 1
            known.unannounced.open(digest.oldest, known.announced_to, now_us)
        elif digest.epoch < known.epoch:
            return []
        closed = known.unannounced.close_below(digest.oldest)
        self._rearm(known, known.unannounced.due_us)
        if known.forgets_below(for_us=OF not in publication.attributes):
            effects += self._never_announced(known, closed, _NOT_KEPT)
        known.epoch = digest.epoch
        known.told_to = max(known.told_to, digest.last_seq)
        known.heard_us = now_us
        if OF not in publication.attributes and known.unannounced.tries == 1:  # for us alone: it answers our request
            known.reply.add(now_us - known.unannounced.asked_us)
        effects += self._on_sightings(known, record, now_us)
        if digest.last_seq > known.announced_to and (known.stated or not len(record)):  # it tells when asked
            known.unannounced.open(known.announced_to + 1, digest.last_seq, now_us)
            known.announced_to = digest.last_seq
            self._rearm(known, known.unannounced.due_us)
            known.unstated += not len(record)
            if known.stated and known.unstated >= _UNSTATED_MAX:  # its events reach us over links that may lose some
                known.stated = False
                effects += self._greet(known, now_us)
        return effects

    def on_repair(self, publication: Publication, repair: Repair) -> tuple[list[Effect], list[Publication]]:
        """What is lost for good, and what is brought back."""
        source = publication.source
        known = self._sources.get(source)
        effects: list[Effect] = []
        for seq in repair.gone:
            if known is not None and self._found(known, seq) is not None:
                effects.append(Lost(source, seq, seq, _NOT_KEPT))
        return effects, [publication_of(each, publication) for each in repair.publications]

    def on_refused(self, source: str, seq: int, reason: str, now_us: int) -> list[Effect]:
        """What came is not its publisher's, whose own is missing; from its number, perhaps forged, nothing follows."""
        known, effects = self._sources.get(source), list[Effect]()
        if known is None and self._settings.asks:
            known, effects = self._meet(source, now_us, now_us)
        if known is None or not self._settings.asks:
            effects.append(Lost(source, seq, seq, reason))
        elif not self._seen.has(source, seq):
            if seq not in known.missing:
                self._miss(known, seq, now_us, now_us)
            known.missing[seq].refused = True
            effects += self._within_limit(known, now_us)
        return effects

    def on_repaired(self, publication: Publication, now_us: int) -> None:
        """A publication was recovered; even if it is nothing for us, it is no longer missing."""
        known = self._sources.get(publication.source)
        if known is not None:
            self._end(known, publication.seq, now_us, is_repair=True)

    def on_absence(self, now_us: int) -> list[Effect]:
        """We were away, and may have missed anything: ask those whom we follow how far they are."""
        effects: list[Effect] = []
        for known in self._sources.values():
            known.heard_us = now_us  # it could not be heard
            if self._settings.asks:
                request = Request((), ((known.announced_to + 1, TIME_US_MAX),))
                effects += self._channel.send_control(labels(request, (known.name,)), encoded(request), now_us)
        return effects

    # What follows from it ------------------------------------------------------------------------

    def _meet(
        self, name: str, departure_us: int, now_us: int, stated: bool = False
    ) -> tuple[Source | None, list[Effect]]:
        """Follow a publisher, if there is room for one more or another has been silent for a while."""
        effects: list[Effect] = []
        if len(self._sources) >= self._settings.sources_max:
            if now_us < self._full_until_us:
                return None, []
            oldest = min(self._sources.values(), key=lambda each: each.heard_us)
            self._full_until_us = oldest.heard_us + SILENT_US
            if now_us < self._full_until_us:
                return None, []
            effects = self._forget(oldest, "too many publishers", now_us)
        known = self._sources[name] = Source(name, self._settings, now_us)
        known.travel.add(now_us - departure_us)
        known.stated = stated
        return known, effects + self._channel.follow(digest_condition(name), now_us) + self._greet(known, now_us)

    def _on_sightings(self, known: Source, record: Record, now_us: int, wait_us: int = 0) -> list[Effect]:
        """Numbers that the record skips are asked for after a while."""
        if not len(record):
            return []
        effects: list[Effect] = []
        first, last = record.first_seq, record.last_seq
        if first > known.announced_to + 1:
            known.unannounced.open(known.announced_to + 1, first - 1, now_us + wait_us)
        if record.book is None:
            # The next digests may bring the codebook: publishers announce it to those who have just come.
            known.unannounced.open(max(first, known.announced_to + 1), last, now_us + 2 * self._settings.digest_us)
            known.needs_book = True
        elif self._interest.blind(record.book) and known.greetings <= _GREETINGS_MAX:
            known.unannounced.open(max(first, known.announced_to + 1), last, now_us + _FIRST_US)
            effects += self._greet_again(known, now_us)
        else:
            known.needs_book = False
            for announced in filter(len, known.unannounced.close(first, last, known.announced_to)):
                self._examine(known, record, announced, now_us)
        known.announced_to = max(known.announced_to, last)
        self._rearm(known, known.unannounced.due_us)
        return effects + self._within_limit(known, now_us)

    def _examine(self, known: Source, record: Record, announced: range, now_us: int) -> None:
        relevant = self._interest.relevant(record, announced, -known.travel.mean_us - record.unit_us)
        for seq, departure_us, _ in relevant:
            if seq not in known.missing and not self._seen.has(known.name, seq):
                due_us = max(now_us, departure_us + self._arrival_timeout_us(known))
                due_us += 0 if self._settings.asks else _NOTED_US
                self._miss(known, seq, departure_us, due_us)

    def _miss(self, known: Source, seq: int, departure_us: int, due_us: int) -> None:
        known.miss(seq, departure_us, due_us)
        if self._record:
            known.noticed.append((seq, departure_us))
        self._missing += 1
        self._rearm(known, due_us)

    def _arrival_timeout_us(self, known: Source) -> int:
        """How long after its departure an event may come without our asking: brokers may get it back by themselves."""
        travel = known.travel
        if not self._gossip.known:
            return travel.timeout_us
        return max(travel.timeout_us, travel.mean_us + min(self._gossip.timeout_us, _GOSSIP_US_MAX))

    def noticed(self, source: str, below: int) -> list[tuple[int, int]]:
        """Numbers and departures of publications below this one that are missing, each handed out once."""
        known = self._sources.get(source)
        if known is None or not known.noticed:
            return []
        now = [each for each in known.noticed if each[0] < below]
        if now:
            known.noticed = [each for each in known.noticed if each[0] >= below]
        return [each for each in now if each[0] in known.missing or not self._seen.has(source, each[0])]

    def has_noticed(self, source: str) -> bool:
        return source in self._sources and bool(self._sources[source].noticed)

    def cleared(self, source: str) -> list[int]:
        """Numbers that stood for a range of which we know more by now, and that are not missing."""
        known = self._sources.get(source)
        if known is None or not known.placeholders:
            return []
        before, known.placeholders = known.placeholders, list(filter(known.unannounced.has, known.placeholders))
        return [each for each in before if each not in known.placeholders and each not in known.missing]

    def frontier(self, source: str) -> int:
        """The lowest number of a publisher that is missing or may be."""
        return self._sources[source].frontier(self._seen) if source in self._sources else NEVER_US

    def missing(self) -> list[tuple[str, int, int]]:
        """Publishers, and ranges of their numbers that are missing, or were not announced."""
        found: list[tuple[str, int, int]] = []
        for known in self._sources.values():
            ranges = [*known.unannounced.ranges(), *((seq, seq) for seq in known.missing)]
            for first, last in sorted(ranges):
                if found and found[-1][0] == known.name and first <= found[-1][2] + 1:
                    found[-1] = known.name, found[-1][1], max(last, found[-1][2])
                else:
                    found.append((known.name, first, last))
        return found

    def give_up_below(self, source: str, seq: int, reason: str) -> list[Effect]:
        """Nothing below this number is looked for any longer."""
        known = self._sources.get(source)
        if known is None:
            return []
        effects: list[Effect] = []
        for each in sorted(each for each in known.missing if each < seq):
            effects += self._give_up(known, each, reason)
        closed = known.unannounced.close_below(seq)
        if known.announced_to < seq - 1:
            closed.append((known.announced_to + 1, seq - 1))
            known.announced_to = seq - 1
        return effects + self._never_announced(known, closed, reason)

    def _within_limit(self, known: Source, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        while self._missing > self._settings.missing_max:
            effects += self._give_up(known, next(iter(known.missing)), "too many events are missing")
        return effects

    def _give_up(self, known: Source, seq: int, reason: str) -> list[Effect]:
        del known.missing[seq]
        self._missing -= 1
        return [Lost(known.name, seq, seq, reason)]

    def _never_announced(self, known: Source, ranges: Iterable[tuple[int, int]], reason: str) -> list[Effect]:
        """Nobody has announced these numbers to us, and nobody will: events for us may be among them."""
        if not self._settings.asks:
            return []
        effects: list[Effect] = []
        for first, last in ranges:
            unseen = self._seen.lowest_new(known.name, max(first, known.first), last, old_too=True)
            if unseen is not None:
                effects.append(Lost(known.name, unseen, last, reason))
        return effects

    # Asking --------------------------------------------------------------------------------------

    def on_timer(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        while (due_us := self.next_due_us()) is not None and due_us <= now_us:
            known = self._sources[self._due[0][1]]
            if now_us - known.heard_us >= self._settings.forget_us:
                effects += self._forget(known, "the publisher is silent", now_us)
                continue
            effects += self._ask(known, now_us)
            known.due_us = NEVER_US
            self._rearm(known, known.next_due_us(self._settings.forget_us))
        return effects

    def _ask(self, known: Source, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        wanted: list[int] = []
        if not self._settings.asks:
            for seq, _ in known.due(now_us + _TOGETHER_US, len(known.missing)):
                self._found(known, seq)  # of no interest any more to who only wants to know for the sake of order
        elif known.unannounced and known.wants_most:
            self._miss_all(known, now_us)
        many = len(known.missing) > _ASKED_MAX  # so that what was asked for before this may keep the publisher busy
        for seq, missing in known.due(now_us + _TOGETHER_US, _ASKED_MAX):
            if missing.tries and now_us - missing.asked_us >= self._settings.search_us:
                effects += self._give_up(known, seq, "nobody answers")
                continue
            if many and missing.tries and known.awaits_turn(seq, missing, now_us):
                known.put_off(seq, missing, now_us + known.retry_timeout_us(0, now_us))
                continue
            if not missing.tries:
                missing.asked_us = now_us
            missing.last_us = now_us
            known.put_off(seq, missing, now_us + known.retry_timeout_us(missing.tries, now_us))
            missing.tries += 1
            wanted.append(seq)
        ranges: tuple[tuple[int, int], ...] = ()
        unannounced = False
        if len(known.missing) < _LOOKED_FOR or not known.unannounced:
            ranges = known.unannounced.ranges()
            timeout_us = known.retry_timeout_us(known.unannounced.tries, now_us)
            unannounced = known.unannounced.due(now_us, timeout_us, self._settings.search_us)
        else:
            known.unannounced.put_off(now_us + known.retry_timeout_us(0, now_us))
        if ranges and not known.unannounced:
            effects += self._never_announced(known, ranges, "nobody answers")
        if wanted or unannounced:
            effects += self._request(known, sorted(wanted), unannounced, now_us)
        return effects

    def _miss_all(self, known: Source, now_us: int) -> None:
        """Look for numbers that there were without asking first what they are about: most of them are for us."""
        for seq in known.take_existing(max(0, _LOOKED_FOR - len(known.missing))):
            if seq not in known.missing and not self._seen.has(known.name, seq):
                self._miss(known, seq, now_us - known.travel.mean_us, now_us)

    def _greet_again(self, known: Source, now_us: int) -> list[Effect]:
        """The publisher does not seem to know what matters to us: the greeting was lost, or is on its way."""
        if now_us - known.greeted_us < _FIRST_US:
            return []
        known.greeted_us = now_us
        return self._greet(known, now_us)

    def _greet(self, known: Source, now_us: int) -> list[Effect]:
        known.greetings += 1
        interest = self._interest
        since_us = max(0, interest.since_us - known.travel.mean_us)
        greeting = Greeting(since_us, interest.tests, 0 if known.stated else self._record, not known.stated)
        return self._channel.send_control(labels(greeting, (known.name,)), encoded(greeting), now_us)

    def _request(self, known: Source, wanted: list[int], unannounced: bool, now_us: int) -> list[Effect]:
        ranges = known.unannounced.asked(_UNANNOUNCED_MAX, apart=known.epoch > 0) if unannounced else ()
        request = Request(distances(wanted), ranges, unannounced and known.needs_book)
        return self._channel.send_control(labels(request, (known.name,)), encoded(request), now_us)

    def _rearm(self, known: Source, due_us: int) -> None:
        """Something is due then. What is settled before costs a look at an idle moment, no more."""
        if due_us < known.due_us:
            known.due_us = due_us
            heappush(self._due, (due_us, known.name))

    def _forget(self, known: Source, reason: str, now_us: int) -> list[Effect]:
        del self._sources[known.name]
        self._missing -= len(known.missing)
        lost: list[Effect] = [Lost(known.name, seq, seq, reason) for seq in known.missing]
        ranges = *known.unannounced.ranges(), (known.announced_to + 1, known.latest - 1)
        if reason == _ANEW:  # what no digest of this life has told of may be of the next one
            ranges = tuple((first, min(last, known.told_to)) for first, last in known.unannounced.ranges())
        lost += self._never_announced(known, ranges, reason)
        return lost + self._channel.unfollow(digest_condition(known.name), now_us)
