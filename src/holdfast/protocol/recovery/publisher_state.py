"""What a subscriber remembers of one publisher: what is missing, what was not announced, how long things take."""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

import msgspec

from holdfast.language.subscription import Subscription
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.records import Codebook, Entry, Record, Relevance
from holdfast.protocol.recovery.rtt import RttEstimator
from holdfast.protocol.recovery.settings import RecoverySettings

NEVER_US = 2**62
SILENT_US = 15_000_000  # a publisher that is there is heard of more often
_GROWTH = 1.5  # of the wait from one request to the next: losses need less patience than congestion, which doubles it
_LONGER = 8.0  # and the longest wait is so many usual ones, until
_TRIES = 16  # requests were in vain: with a third lost each way once in ten thousand. Then something is down
_RANGES_MAX = 64  # of numbers not announced; with more, two neighbours become one and some are announced twice
_ANNOUNCED_MAX = 2_048  # numbers of one range in a request: a digest of twenty bytes each can list them
_TESTED_MAX = 512  # attributes worth naming; a subscriber with more tests anything
_BOOKS_MAX = 64  # of which a subscriber remembers whether they tell it enough
_TURN_US = 1_500_000  # without an answer, after which none is on its way: far longer than from one to the next
_SHARE_AFTER = 256  # numbers after which it is judged what part of them is for us
_SHARE_OF = 65_536  # the last of them, about: what a publisher publishes changes


class Interest:
    """Our conditions, and since when: what was published before is of no interest to a condition."""

    def __init__(self, subscriptions: Iterable[tuple[int, Subscription]]) -> None:
        ages: dict[int, list[Subscription]] = {}
        for since_us, subscription in subscriptions:
            ages.setdefault(since_us, []).append(subscription)
        self._ages = [(since_us, Relevance(ages[since_us])) for since_us in sorted(ages)]
        self.since_us = min(ages, default=0)
        names = sorted({name for each in ages.values() for one in each for name in one.attributes})
        self.tests = tuple(names) if len(names) <= _TESTED_MAX else None
        self._blind: dict[Codebook, bool] = {}  # what was asked before; a book is itself, and equal to no other

    def blind(self, book: Codebook) -> bool:
        """Whether the book leaves out what one of our conditions tests."""
        blind = self._blind.get(book)
        if blind is None:
            if len(self._blind) >= _BOOKS_MAX:
                self._blind.clear()
            blind = self._blind[book] = any([relevance.blind(book) for _, relevance in self._ages])
        return blind

    def relevant(self, record: Record, numbers: range, offset_us: int) -> list[tuple[int, int, Entry]]:
        """What the record tells of these numbers and one of the conditions may match: number, departure and entry. The
        offset takes our clock to the publisher's.
        """
        assert record.book is not None
        entries, found = record.codes(numbers), dict[int, tuple[int, int, Entry]]()
        for since_us, relevance in self._ages:
            for at in relevance.sieve(record.book).covered(entries):
                departure_us = record.departure_us(numbers[at])
                if departure_us >= since_us + offset_us:
                    found[at] = numbers[at], departure_us, entries[at]
        return [found[at] for at in sorted(found)] if found else []


class MissingState(msgspec.Struct, gc=False):
    departure_us: int
    due_us: int  # when to ask, or to ask again
    asked_us: int = 0  # the first time
    last_us: int = 0  # and the last
    tries: int = 0
    refused: bool = False  # what came with this number was not its publisher's


class Unannounced:
    """Ranges of sequence numbers that no digest has announced to us."""

    def __init__(self) -> None:
        self._ranges: list[list[int]] = []  # first and last, ascending
        self._due_us = NEVER_US
        self.asked_us = 0
        self._asked_to = 0  # the highest number that was asked for
        self.tries = 0

    def ranges(self) -> tuple[tuple[int, int], ...]:
        return tuple((first, last) for first, last in self._ranges)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def has(self, seq: int) -> bool:
        return any(first <= seq <= last for first, last in self._ranges)

    def lowest_unseen(self, source: str, seen: Seen) -> int | None:
        for first, last in self._ranges:
            unseen = seen.lowest_new(source, first, last)
            if unseen is not None:
                return unseen
        return None

    def asked(self, numbers_max: int, apart: bool) -> tuple[tuple[int, int], ...]:
        """What to ask for now: the lowest of them, because order waits for these.

        Ranges go `apart`, each in parts that one answer can tell of, if they hold numbers that there were. Before the
        first digest of a publisher most of them were never used, and the answer shows where they begin.
        """
        if not apart:
            self._asked_to = self._ranges[-1][1]
            return self.ranges()
        asked: list[tuple[int, int]] = []
        left = numbers_max
        for first, last in self._ranges:
            while first <= last and left:
                upto = min(last, first + _ANNOUNCED_MAX - 1, first + left - 1)
                asked.append((first, upto))
                left -= upto - first + 1
                first = upto + 1
        self._asked_to = asked[-1][1]
        return tuple(asked)

    @property
    def due_us(self) -> int:
        return self._due_us if self._ranges else NEVER_US

    def open(self, first: int, last: int, due_us: int) -> None:
        if first > last:
            return
        if not self._ranges:
            self._due_us, self.tries = due_us, 0
        self._due_us = min(self._due_us, due_us)
        if not self._ranges or first > self._ranges[-1][1] + 1:  # nearly always
            joined = [*self._ranges, [first, last]]
        else:
            joined = []
            for begin, end in sorted([*self._ranges, [first, last]]):
                if joined and begin <= joined[-1][1] + 1:
                    joined[-1][1] = max(joined[-1][1], end)
                else:
                    joined.append([begin, end])
        if len(joined) > _RANGES_MAX:
            joined[1][0] = joined.pop(0)[0]
        self._ranges = joined

    def put_off(self, due_us: int) -> None:
        self._due_us = max(self._due_us, due_us)

    def hurry(self, now_us: int) -> None:
        self._due_us = min(self._due_us, now_us)

    def take(self, first: int, last: int, most: int) -> list[int]:
        """The lowest numbers of this range, which need not be announced any more."""
        taken: list[int] = []
        left: list[list[int]] = []
        for begin, end in self._ranges:
            since = max(begin, first)
            upto = min(end, last, since + most - len(taken) - 1)
            if since > upto:
                left.append([begin, end])
                continue
            taken += range(since, upto + 1)
            left += [each for each in ([begin, since - 1], [upto + 1, end]) if each[0] <= each[1]]
        self._ranges = left
        return taken

    def close(self, first: int, last: int, announced_to: int) -> list[range]:
        """A record lists these: those of them that are news, in a range or beyond `announced_to`."""
        if not self._ranges or first > self._ranges[-1][1]:
            return [range(max(first, announced_to + 1), last + 1)]
        left: list[list[int]] = []
        announced: list[range] = []
        for begin, end in self._ranges:
            if begin > last or end < first:
                left.append([begin, end])
                continue
            announced.append(range(max(begin, first), min(end, last) + 1))
            if begin < first:
                left.append([begin, first - 1])
            if end > last:
                left.append([last + 1, end])
        if left != self._ranges:
            self._ranges, self.tries = left, 0  # somebody answers
            if left and left[0][0] > self._asked_to:
                self._due_us = 0
        announced.append(range(max(first, announced_to + 1), last + 1))
        return announced

    def close_below(self, oldest: int) -> list[tuple[int, int]]:
        """Nobody can tell of earlier ones; what is closed by that."""
        closed = [(first, min(last, oldest - 1)) for first, last in self._ranges if first < oldest]
        if closed:
            self._due_us, self.tries = 0, 0  # somebody answers; what is left is asked for at once
        self._ranges = [[max(first, oldest), last] for first, last in self._ranges if last >= oldest]
        return closed

    def due(self, now_us: int, timeout_us: int, search_us: int) -> bool:
        """Whether to request them now; then the next time is later. After too long they are given up."""
        if now_us < self.due_us:
            return False
        if not self.tries:
            self.asked_us = now_us
        self._due_us = now_us + timeout_us
        self.tries += 1
        if now_us - self.asked_us >= search_us:
            self._ranges.clear()
        return bool(self._ranges)


class Source:
    def __init__(self, name: str, settings: RecoverySettings, now_us: int) -> None:
        self.name = name
        self._settings = settings
        self.epoch = 0  # not known before the first digest
        self.heard_us = now_us  # the last digest
        self.travel = RttEstimator(0)  # arrival - departure, with the difference of the two clocks
        self.reply = RttEstimator(settings.reply_us)
        self.first = 0  # the first number that we know of; what was before is not owed
        self.announced_to = 0  # the highest number that we know of
        self.latest = 0  # the highest number that has come
        self.told_to = 0  # the highest number that a digest of its present life has told of
        self._since = NEVER_US  # the first that came by itself: it was published after we have subscribed
        self._wanted = self._covered = 0  # of the numbers that statements were about, and those for us
        self._answer = (0, 0)  # the latest request that was answered: when it was made, and for which number,
        self._answered_us = 0  # and when the answer came
        self.missing: dict[int, MissingState] = {}
        self._lowest: list[int] = []  # a heap of missing numbers; those that are not missing any more count for nothing
        self._asks: list[tuple[int, int]] = []  # a heap: when to ask for which; an entry counts if it is its `due_us`
        self._unseen = 0  # all numbers from `announced_to` up to here have come
        self.noticed: list[tuple[int, int]] = []  # missing ones, with their departures, of which order has not heard
        self.placeholders: list[int] = []  # numbers that order waits for in place of a range that was not announced
        self.unannounced = Unannounced()
        self.stated = False  # its last events came with a statement of what there was
        self.unstated = 0  # digests since then that announced more than was stated
        self._answered = False  # it has sent us a digest of our own
        self.needs_book = False
        self.greetings = 0  # how often we have sent it what matters to us,
        self.greeted_us = now_us  # and when last
        self.due_us = NEVER_US  # nothing is due before this

    def forgets_below(self, for_us: bool) -> bool:
        """Whether numbers below a digest's oldest are those that it keeps no longer.

        Before its first digest they may be numbers that there never were. The first that is for us alone begins with
        our subscription, whatever one for all has announced before.
        """
        known_range = self.epoch > 0 and (self._answered or not for_us)
        self._answered = self._answered or for_us
        return known_range

    def note_share(self, seqs: Sequence[int], covered: int) -> None:
        """These came for us, and something was stated of so many numbers."""
        if seqs:
            self._since = min(self._since, seqs[0])
        self._wanted += len(seqs)
        self._covered += covered
        if self._covered > _SHARE_OF:
            self._wanted //= 2
            self._covered //= 2

    @property
    def wants_most(self) -> bool:
        """Whether what it publishes is mostly for us: then asking for all of it is cheaper than for a list of it."""
        return self._covered >= _SHARE_AFTER and 2 * self._wanted >= self._covered

    def take_existing(self, most: int) -> list[int]:
        """Unannounced numbers of which it is certain that there were such events, after we have subscribed."""
        return self.unannounced.take(self._since, self.told_to, most)

    def note_answer(self, seq: int, missing: MissingState, now_us: int) -> None:
        self._answer = max(self._answer, (missing.last_us, seq))
        self._answered_us = now_us
        # Which request an answer is for is known after the first only; but the first guess may be far too short.
        if missing.tries == 1:
            self.reply.add(now_us - missing.asked_us)
        elif missing.tries and not self.reply.known:
            self.reply.guess(now_us - missing.asked_us)

    def awaits_turn(self, seq: int, missing: MissingState, now_us: int) -> bool:
        """A publisher answers in turn. While answers come to what was asked before this, asking again gets it twice."""
        return (missing.last_us, seq) > self._answer and now_us - self._answered_us < _TURN_US

    def retry_timeout_us(self, tries: int, now_us: int) -> int:
        if tries < _TRIES:
            longer = min(_GROWTH**tries, _LONGER)
        elif now_us - self.heard_us < SILENT_US:
            longer = _LONGER / 2  # the publisher is there, so it is mere bad luck
        else:
            longer = _LONGER * _GROWTH ** min(tries - _TRIES, _TRIES)
        # A publisher gathers requests for a moment before it repairs, however soon it answers others.
        timeout_us = max(self.reply.timeout_us * longer, 2 * self._settings.gather_us_min)
        return int(min(timeout_us, self._settings.retry_us_max))

    def miss(self, seq: int, departure_us: int, due_us: int) -> None:
        self.missing[seq] = MissingState(departure_us, due_us)
        heappush(self._lowest, seq)
        heappush(self._asks, (due_us, seq))

    def cleared_within(self, first: int, last: int) -> list[int]:
        """Missing ones that a statement about these numbers clears. With a number that was refused, however true the
        statement is, something else came.
        """
        within = range(first, last + 1) if last - first < len(self.missing) else self.missing
        return [
            seq
            for seq in within
            if first <= seq <= last and (missing := self.missing.get(seq)) is not None and not missing.refused
        ]

    def put_off(self, seq: int, missing: MissingState, due_us: int) -> None:
        missing.due_us = due_us
        heappush(self._asks, (due_us, seq))

    def due(self, upto_us: int, most: int) -> list[tuple[int, MissingState]]:
        """Missing numbers that are to be asked for by then; whoever takes them puts them off or gives them up."""
        found: list[tuple[int, MissingState]] = []
        while len(found) < most and (due_us := self._ask_us()) is not None and due_us <= upto_us:
            seq = heappop(self._asks)[1]
            found.append((seq, self.missing[seq]))
        return found

    def _ask_us(self) -> int | None:
        while self._asks:
            due_us, seq = self._asks[0]
            missing = self.missing.get(seq)
            if missing is not None and missing.due_us == due_us:
                return due_us
            heappop(self._asks)
        return None

    def next_due_us(self, forget_us: int) -> int:
        ask_us = self._ask_us()
        return min(NEVER_US if ask_us is None else ask_us, self.unannounced.due_us, self.heard_us + forget_us)

    def frontier(self, seen: Seen) -> int:
        """The lowest number that is missing or may be: all below it have come, are not for us, or are lost."""
        while self._lowest and self._lowest[0] not in self.missing:
            heappop(self._lowest)
        lowest = self._lowest[0] if self._lowest else NEVER_US
        unseen = self.unannounced.lowest_unseen(self.name, seen) if self.unannounced else None
        tail = seen.lowest_new(self.name, max(self.announced_to + 1, self._unseen), NEVER_US)
        assert tail is not None
        self._unseen = tail
        return min(lowest, NEVER_US if unseen is None else unseen, tail)
