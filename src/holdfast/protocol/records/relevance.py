"""Which entries concern a subscriber: its conditions as patterns, made once for each codebook."""

from collections.abc import Iterable

from holdfast.language.subscription import Subscription, necessary
from holdfast.protocol.records.digest import Codebook, Entry, Pattern, Sieve, pattern_of

_BOOKS_MAX = 256  # whose patterns are kept: 30 kB each for a hundred conditions; the one made first goes first


class Relevance:
    """Make a new one when the subscriptions change."""

    def __init__(self, subscriptions: Iterable[Subscription]) -> None:
        self._subscriptions = tuple(subscriptions)
        self._patterns: dict[Codebook, tuple[Pattern, Sieve, bool]] = {}  # a book is itself, and equal to no other

    def covers(self, book: Codebook, entry: Entry) -> bool:
        """Whether one of the conditions may match the event behind the entry."""
        return bool(self._of(book)[1].covered((entry,)))

    def sieve(self, book: Codebook) -> Sieve:
        """The same for many entries of one book."""
        return self._of(book)[1]

    def blind(self, book: Codebook) -> bool:
        """Whether some filter tests only attributes that the book does not know, so that most entries pass."""
        return self._of(book)[2]

    def _is_blind(self, book: Codebook) -> bool:
        filters = (necessary(filter_) for each in self._subscriptions for filter_ in each.filters)
        return any(filter_ and not any(book.knows(test.attribute) for test in filter_) for filter_ in filters)

    def pattern(self, book: Codebook) -> Pattern:
        return self._of(book)[0]

    def _of(self, book: Codebook) -> tuple[Pattern, Sieve, bool]:
        found = self._patterns.get(book)
        if found is None:
            if len(self._patterns) >= _BOOKS_MAX:
                del self._patterns[next(iter(self._patterns))]
            made = pattern_of(each for subscription in self._subscriptions for each in book.pattern(subscription))
            found = self._patterns[book] = made, Sieve(made), self._is_blind(book)
        return found
