"""The publisher's half: tells subscribers what was published, keeps it for a while, and sends again what they miss.

Every so often a digest tells of the last publications, each of them in more than one digest; or, where all who follow
us get our events over links that lose nothing, only how far we are, and of the events when asked. Requests come from
subscribers by name. An answer waits a moment, so that all who miss the same publication are served by one repair; the
farther away the first of them is, the longer, because that is when sharing the way saves most. Subscribers also
say which attributes their conditions test; a digest then tells of those alone.
"""

from collections import deque
from itertools import islice

from holdfast.model.limits import ATTRIBUTES_MAX, PAYLOAD_BYTES_MAX
from holdfast.model.messages import Publication
from holdfast.protocol.effects import Effect, Gauges
from holdfast.protocol.node import sooner
from holdfast.protocol.records import RecordWriter
from holdfast.protocol.recovery.blinding import Blinding
from holdfast.protocol.recovery.cache import Cache
from holdfast.protocol.recovery.control import (
    ASKED_MAX,
    Digest,
    Greeting,
    Repair,
    Repaired,
    Request,
    encoded,
    labels,
    numbers,
    openly,
    repaired,
)
from holdfast.protocol.recovery.recovery import ControlChannel
from holdfast.protocol.recovery.settings import RecoverySettings

_FOLLOWERS_MAX = 10_000  # subscribers whose greetings are remembered; with more, all attributes are announced
_FOCUS_MAX = 512  # attributes that a digest tells of; when more are tested, of those that are published most
_RECORD_MAX = 64  # entries that a subscriber can make every publication carry; the papers have ten
_RANGES_MAX = 16  # that are announced again at one request,
_ANSWERED_MAX = 1_000  # publications sent again in one go, which takes some ten milliseconds; the rest at once after it
_REPEATED_MAX = 4_096  # with so many numbers each: what a record can hold
_DIGEST_BYTES = 48_000  # of one digest, so that a datagram can hold it; who lacks the rest asks for it
_SENT_MAX = 64  # digests whose time is remembered: a dozen seconds
_FOCUS_US = 1_000_000  # how often the announced attributes may change: every change costs a codebook
_SOON = 4  # repeats of the last digest at the usual pace; then they come ever more rarely
_ENOUGH = 7  # repeats after which all should know: if a third is lost on the way, one in several thousand does not
_NOBODY = 2  # repeats after which somebody who follows us would have greeted
_MARKS = 4  # attributes that a repair to all adds to the event's own
_HEAD_BYTES = 100  # of a publication in a repair, beside its attributes and payload, with room to spare


class _Requested:
    """A publication that some subscribers miss, until it is sent again."""

    __slots__ = ("by", "due_us")

    def __init__(self, due_us: int) -> None:
        self.due_us = due_us
        self.by: dict[str, None] = {}


class Publisher:
    def __init__(
        self,
        name: str,
        epoch: int,
        settings: RecoverySettings,
        first_seq: int,
        channel: ControlChannel,
        blinding: Blinding | None = None,
    ) -> None:
        self._name = name
        self._channel = channel
        self._blinding = blinding
        self._epoch = epoch
        self._settings = settings
        self._reliable = False  # our own link
        self._writer = RecordWriter(settings.records, first_seq, max(settings.kept_max, settings.records.kept))
        self._cache = Cache(settings.kept_max, settings.kept_bytes_max, settings.kept_us)
        self._digests: deque[int] = deque([first_seq] * settings.told, settings.told)  # where the last ones began
        self._announced_to = first_seq - 1
        self._book_left = 0  # digests that have yet to carry the present codebook
        self._book_id = self._writer.book_id
        self._followers: dict[str, Greeting] = {}
        self._lists_events = True
        self._focus_due_us: int | None = None
        self._sent: deque[tuple[int, int]] = deque(maxlen=_SENT_MAX)  # digests: first number that was news, and when
        self.record = settings.record
        self._due_us: int | None = None  # the next digest
        self._repeats = 0  # digests since the last that announced anything new
        self._requested: dict[int, _Requested] = {}  # by number
        # As many as we may have kept; with a small cache, a whole request, so that it learns what is gone.
        self._requested_max = max(settings.kept_max, ASKED_MAX)
        self._answer_us: int | None = None

    def next_due_us(self) -> int | None:
        return sooner(self._due_us, self._answer_us)

    @property
    def settled(self) -> bool:
        """Everything has been announced, and the end of it often enough."""
        return self._announced(_ENOUGH) or not len(self._writer)

    @property
    def has_announced(self) -> bool:
        """As often as makes sense for somebody who wants to leave: less often when nobody seems to listen."""
        enough = self._announced(_ENOUGH if self._followers else _NOBODY)
        return (enough and not self._requested) or not len(self._writer)

    def _announced(self, repeats: int) -> bool:
        return self._announced_to == self._writer.last_seq and self._repeats >= repeats

    def gauges(self) -> Gauges:
        return {
            "publications kept": (len(self._cache), self._cache.count_max),
            "bytes kept": (self._cache.bytes, self._cache.bytes_max),
            "publications asked for": (len(self._requested), self._requested_max),
        }

    # Publishing ----------------------------------------------------------------------------------

    def record_for(self, seq: int, now_us: int) -> bytes:
        """What the publication with this number, which is about to be made, tells of those before it."""
        if not self.record:
            return b""
        record = self._writer.record(self.record, seq, now_us)
        return record if self._blinding is None else self._blinding.blinded(record, self._name, seq, now_us)

    def on_link(self, reliable: bool) -> None:
        """We have a link to a broker, which loses nothing or may."""
        self._reliable = reliable
        self._decide()

    def _decide(self) -> None:
        """Whether digests, and publications themselves, tell of events: not where nobody needs it, for it costs more
        than all the rest.
        """
        self._lists_events = not self._reliable or any([each.records for each in self._followers.values()])
        asked = max([each.record for each in self._followers.values()], default=0)
        self.record = max(0 if self._reliable else self._settings.record, min(asked, _RECORD_MAX))

    def on_published(self, publication: Publication, now_us: int) -> None:
        self._writer.add(publication.attributes, publication.time_us, learns=self._lists_events)
        self._cache.add(publication, now_us)
        self._forget()
        if self._lists_events:
            self._announce()
        first_unannounced = self._announced_to + 1
        if publication.seq == first_unannounced:
            self._repeats = 0
            self._due_us = now_us + self._settings.wait_us_max
        if publication.seq - first_unannounced + 1 == self._settings.entries_min:
            first = self._cache.get(first_unannounced)
            began_us = now_us if first is None else first.time_us
            self._due_us = max(now_us, began_us + self._settings.digest_us)

    # Digests -------------------------------------------------------------------------------------

    def on_timer(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._answer_us is not None and now_us >= self._answer_us:
            effects += self._answer(now_us)
        if self._due_us is not None and now_us >= self._due_us:
            effects += self._digest(now_us)
        return effects

    def announces(self, now_us: int) -> bool:
        """Whether a digest is due."""
        return self._due_us is not None and now_us >= self._due_us

    def _digest(self, now_us: int) -> list[Effect]:
        self._expire(now_us)
        if self._lists_events:
            self._refocus(now_us)
        last = self._writer.last_seq
        if last > self._announced_to:
            self._digests.append(self._announced_to + 1)
            self._sent.append((self._announced_to + 1, now_us))
            first, self._announced_to = self._digests[0], last
            self._due_us = now_us + self._settings.digest_us  # for what was announced only once
        else:  # nothing new: once more, and ever more rarely, for those who missed the end
            first = self._digests[-1]
            self._repeats += 1
            pause_us = self._settings.digest_us << min(max(0, self._repeats - _SOON), _ENOUGH)
            self._due_us = now_us + min(pause_us, self._settings.quiet_us_max)
        record = b""
        if self._lists_events:
            with_book = self._book_left > 0
            self._book_left -= with_book
            first = max(first, last - _REPEATED_MAX + 1)
            record = self._writer.digest(first, last, now_us, with_book=with_book, bytes_max=_DIGEST_BYTES)
        digest = self._new_digest(last, self._oldest, record, now_us)
        return self._channel.send_control(labels(digest, (), self._name), encoded(digest), now_us)

    @property
    def _oldest(self) -> int:
        return self._writer.last_seq - len(self._writer) + 1

    def _expire(self, now_us: int) -> None:
        self._cache.expire(now_us)
        self._forget()

    def _forget(self) -> None:
        """Tell of what is kept, and of the last ones anyway: whoever asks for one of these learns that it is gone."""
        self._writer.forget(max(len(self._cache), self._settings.records.kept))

    # Followers -----------------------------------------------------------------------------------

    def on_greeting(self, subscriber: str, greeting: Greeting, now_us: int) -> None:
        if self._followers.get(subscriber) == greeting:
            return
        if len(self._followers) >= _FOLLOWERS_MAX:
            del self._followers[next(iter(self._followers))]
        self._followers[subscriber] = greeting
        self._decide()
        if self._focus_due_us is None:
            self._focus_due_us = now_us + _FOCUS_US

    def _refocus(self, now_us: int) -> None:
        """Tell of what the followers test, and give the newcomers among them the codebook."""
        if self._focus_due_us is None or (self._lists_events and now_us < self._focus_due_us):
            return
        self._focus_due_us = None
        self._writer.focus(self._tested())
        self._book_left = max(self._book_left, 1)
        self._announce()

    def _tested(self) -> dict[str, None] | None:
        """The attributes that matter to the followers; None when all may."""
        tested: dict[str, None] = {}
        for each in self._followers.values():
            if each.tests is None:
                return None
            tested.update(dict.fromkeys(each.tests))
        return None if len(tested) > _FOCUS_MAX or len(self._followers) >= _FOLLOWERS_MAX else tested

    def _announce(self) -> None:
        if self._book_id != self._writer.book_id:
            self._book_id = self._writer.book_id
            self._book_left = self._settings.told

    # Requests ------------------------------------------------------------------------------------

    def on_request(self, requester: str, request: Request, now_us: int) -> list[Effect]:
        wanted = numbers(request.wanted)
        if wanted:
            due_us = now_us + self._gather_us(wanted[-1], now_us)
            for seq in wanted:
                asked = self._requested.get(seq)
                if asked is None:
                    if len(self._requested) >= self._requested_max:
                        break  # who asks in earnest asks again
                    asked = self._requested[seq] = _Requested(due_us)
                if len(asked.by) <= self._settings.scope_max:  # one more than that, and all get it
                    asked.by[requester] = None
                asked.due_us = min(asked.due_us, due_us)
            self._answer_us = due_us if self._answer_us is None else min(self._answer_us, due_us)
        book = request.book
        effects: list[Effect] = []
        if request.unannounced:
            self._expire(now_us)
            if not self._lists_events:  # nobody has the book, and nothing was learned for it
                self._refocus(now_us)
                self._writer.learn()
                book = True
        for first, last in request.unannounced[:_RANGES_MAX]:
            effects += self._repeat_digest(requester, first, last, now_us, book)
            book = False
        return effects

    def _gather_us(self, seq: int, now_us: int) -> int:
        """How long to wait for others who miss the same: by how long ago this was announced."""
        settings = self._settings
        if not self._lists_events:  # each asks when it sees a hole of its own
            return settings.gather_us_min
        announced_us = next((sent_us for first, sent_us in reversed(self._sent) if first <= seq), None)
        if announced_us is None:
            return settings.gather_us_min
        took_us = int(settings.gather_ratio * (now_us - announced_us))
        return max(settings.gather_us_min, min(took_us, settings.gather_us_max))

    def _repeat_digest(self, requester: str, first: int, last: int, now_us: int, book: bool) -> list[Effect]:
        greeting = self._followers.get(requester)
        since_us = 0 if greeting is None else greeting.since_us
        last_seq = self._writer.last_seq
        oldest = self._writer.since(since_us)  # that is of interest to the one who asks
        since, last = max(first, oldest), min(last, last_seq)
        if last - since >= _REPEATED_MAX:
            last = since + _REPEATED_MAX - 1  # the first of them, because order waits for these
        record = self._writer.digest(since, last_seq, now_us, upto=last, with_book=book, bytes_max=_DIGEST_BYTES)
        digest = self._new_digest(last_seq, oldest, record, now_us)
        return self._channel.send_control(labels(digest, (requester,)), encoded(digest), now_us)

    def _new_digest(self, last: int, oldest: int, record: bytes, now_us: int) -> Digest:
        if self._blinding is not None:
            record = self._blinding.blinded(record, self._name, self._epoch, last, oldest, now_us)
        return Digest(self._epoch, last, oldest, record)

    def _answer(self, now_us: int) -> list[Effect]:
        ripe = ((seq, each.by) for seq, each in self._requested.items() if each.due_us <= now_us)
        due = dict(islice(ripe, _ANSWERED_MAX))
        for seq in due:
            del self._requested[seq]
        self._answer_us = min((each.due_us for each in self._requested.values()), default=None)
        effects: list[Effect] = []
        groups: dict[tuple[str, ...], list[tuple[Publication, int]]] = {}
        gone: dict[str, list[int]] = {}
        kept = [publication for seq in sorted(due) if (publication := self._cache.get(seq)) is not None]
        found = {each.seq: each for each in self._channel.signed(kept)}  # signed once for all who get one of them
        for seq, requesters in sorted(due.items()):
            publication = found.get(seq)
            if publication is None:
                for each in requesters:
                    gone.setdefault(each, []).append(seq)
                continue
            size = self._repair_bytes(publication)
            if self._is_for_all(publication, size, len(requesters)):
                effects += self._channel.send_control(openly(publication), publication.payload, now_us)
            else:
                groups.setdefault(tuple(sorted(requesters)), []).append((publication, size))
        for requesters_of, publications in groups.items():
            effects += self._repairs(requesters_of, publications, now_us)
        for each, seqs in gone.items():
            for at in range(0, len(seqs), ASKED_MAX):
                repair = Repair((), tuple(seqs[at : at + ASKED_MAX]))
                effects += self._channel.send_control(labels(repair, (each,)), encoded(repair), now_us)
        return effects

    def _is_for_all(self, publication: Publication, size: int, requesters: int) -> bool:
        """Whether a repair goes to all whom it matches: many miss it, or it does not fit into another's payload."""
        if len(publication.attributes) > ATTRIBUTES_MAX - _MARKS:
            return False
        return requesters > self._settings.scope_max or size > PAYLOAD_BYTES_MAX // 2

    def _repair_bytes(self, publication: Publication) -> int:
        """What it takes in a repair, about; exactly where that is much, because its attributes may be."""
        size = len(encoded(Repair((repaired(publication),))))
        return size if size > self._settings.repair_bytes else _HEAD_BYTES + len(publication.payload)

    def _repairs(self, to: tuple[str, ...], sized: list[tuple[Publication, int]], now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        together: list[Repaired] = []
        size = 0
        most = self._settings.repair_bytes_reliable if self._reliable else self._settings.repair_bytes
        for each, more in sized:
            if together and size + more > most:
                effects += self._repair(to, together, now_us)
                together, size = [], 0
            together.append(repaired(each))
            size += more
        return effects + self._repair(to, together, now_us)

    def _repair(self, to: tuple[str, ...], publications: list[Repaired], now_us: int) -> list[Effect]:
        repair = Repair(tuple(publications))
        payload, step = encoded(repair), self._settings.scope_max
        effects: list[Effect] = []
        for at in range(0, len(to), step):
            effects += self._channel.send_control(labels(repair, to[at : at + step]), payload, now_us)
        return effects
