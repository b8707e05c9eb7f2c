"""What a subscriber remembers of one publisher: what is missing, what it was not told of, how long things take."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from holdfast.language.subscription import Subscription
from holdfast.protocol.records import Codebook, Relevance, Sighting
from holdfast.protocol.recovery.pace import Pace

NEVER_US = 2**62
_RANGES_MAX = 64  # of numbers not told of; when there are more, two neighbours become one and some are told twice
_TESTED_MAX = 512  # attributes worth naming; a subscriber with more tests anything


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

    def blind(self, book: Codebook) -> bool:
        """Whether the book says nothing about what one of our conditions tests."""
        return any(relevance.blind(book) for _, relevance in self._ages)

    def relevant(self, book: Codebook, offset_us: int) -> Callable[[Sighting], bool]:
        """Whether one of the conditions may match what was sighted; the offset takes our clock to the publisher's."""
        patterns = [(since_us + offset_us, relevance) for since_us, relevance in self._ages]

        def test(sighting: Sighting) -> bool:
            return any(
                sighting.departure_us >= since_us and relevance.covers(book, sighting.code)  # type: ignore[arg-type]
                for since_us, relevance in patterns
            )

        return test


class Missing(msgspec.Struct, gc=False):
    departure_us: int
    due_us: int  # when to ask, or to ask again
    asked_us: int = 0
    tries: int = 0


class Untold:
    """Ranges of numbers that no digest has told us of."""

    def __init__(self) -> None:
        self._ranges: list[list[int]] = []  # first and last, ascending
        self._due_us = NEVER_US
        self.asked_us = 0
        self.tries = 0

    def ranges(self) -> tuple[tuple[int, int], ...]:
        return tuple((first, last) for first, last in self._ranges)

    @property
    def due_us(self) -> int:
        return self._due_us if self._ranges else NEVER_US

    def open(self, first: int, last: int, due_us: int) -> None:
        if first > last:
            return
        if not self._ranges:
            self._due_us, self.tries = due_us, 0
        self._due_us = min(self._due_us, due_us)
        joined: list[list[int]] = []
        for begin, end in sorted([*self._ranges, [first, last]]):
            if joined and begin <= joined[-1][1] + 1:
                joined[-1][1] = max(joined[-1][1], end)
            else:
                joined.append([begin, end])
        if len(joined) > _RANGES_MAX:
            joined[1][0] = joined.pop(0)[0]
        self._ranges = joined

    def close(self, first: int, last: int, told_to: int) -> Iterator[int]:
        """A record tells of these: those of them that are news, because they are in a range or beyond `told_to`."""
        left: list[list[int]] = []
        news: list[range] = []
        for begin, end in self._ranges:
            if begin > last or end < first:
                left.append([begin, end])
                continue
            news.append(range(max(begin, first), min(end, last) + 1))
            if begin < first:
                left.append([begin, first - 1])
            if end > last:
                left.append([last + 1, end])
        self._ranges = left
        news.append(range(max(first, told_to + 1), last + 1))
        return (seq for each in news for seq in each)

    def close_below(self, oldest: int) -> list[tuple[int, int]]:
        """Nobody can tell of earlier ones; what is closed by that."""
        closed = [(first, min(last, oldest - 1)) for first, last in self._ranges if first < oldest]
        self._ranges = [[max(first, oldest), last] for first, last in self._ranges if last >= oldest]
        return closed

    def due(self, now_us: int, patience_us: int, search_us: int) -> bool:
        """Whether to ask now; then the next time is later. After too long what was not told is let go."""
        if now_us < self.due_us:
            return False
        if not self.tries:
            self.asked_us = now_us
        self._due_us = now_us + patience_us
        self.tries += 1
        if now_us - self.asked_us >= search_us:
            self._ranges.clear()
        return bool(self._ranges)


class Source:
    def __init__(self, name: str, reply_us: int, now_us: int) -> None:
        self.name = name
        self.epoch = 0  # not known before the first digest
        self.heard_us = now_us  # the last digest
        self.travel = Pace(0)  # arrival - departure, with the difference of the two clocks
        self.reply = Pace(reply_us)
        self.first = 0  # the first number that we know of; what was before is not owed
        self.told_to = 0  # the highest number that we know of
        self.latest = 0  # the highest number that has come
        self.missing: dict[int, Missing] = {}
        self.untold = Untold()
        self.needs_book = False
        self.greetings = 0  # how often it was told what matters to us,
        self.greeted_us = now_us  # and when last
        self.due_us = NEVER_US  # nothing is due before this

    def next_due_us(self, forget_us: int) -> int:
        missing_us = min((each.due_us for each in self.missing.values()), default=NEVER_US)
        return min(missing_us, self.untold.due_us, self.heard_us + forget_us)
