"""Which requests reach a node: those for events that one of its own conditions may match.

For every codebook that publishers use it subscribes to requests as its conditions look under that book. The paper's
filters need one book, known to all; learned books come with the publications.
"""

from collections.abc import Iterable

from holdfast.language.parser import parse
from holdfast.language.subscription import Subscription
from holdfast.model.event import Attributes
from holdfast.protocol.effects import Effect
from holdfast.protocol.records import Codebook, request_conditions
from holdfast.protocol.recovery.recovery import ControlChannel

_BOOKS_MAX = 64  # under which a node listens: each repeats all of its conditions; the one used longest ago goes


class Listening:
    def __init__(self, first_book: Codebook, channel: ControlChannel) -> None:
        self._channel = channel
        self._books: dict[int, Codebook] = {first_book.id: first_book}  # in the order of their last use
        self._subscriptions: list[tuple[int, Subscription]] = []
        self._followed: dict[str, tuple[int, Subscription]] = {}  # since when, and the condition parsed

    def on_subscriptions(self, subscriptions: Iterable[tuple[int, Subscription]], now_us: int) -> list[Effect]:
        """What we want has changed: each condition with the time since when."""
        self._subscriptions = list(subscriptions)
        return self._follow(now_us)

    def on_book(self, book: Codebook, now_us: int) -> list[Effect]:
        """A publisher uses this book."""
        is_new = self._books.pop(book.id, None) is None
        self._books[book.id] = book
        if not is_new:
            return []
        if len(self._books) > _BOOKS_MAX:
            del self._books[next(iter(self._books))]
        return self._follow(now_us)

    def _follow(self, now_us: int) -> list[Effect]:
        wanted: dict[str, int] = {}
        for book in self._books.values():
            for since_us, subscription in self._subscriptions:
                for condition in request_conditions(book, subscription):
                    wanted[condition] = min(since_us, wanted.get(condition, since_us))
        effects: list[Effect] = []
        for condition in self._followed:
            if condition not in wanted:
                effects += self._channel.unfollow(condition, now_us)
        for condition in wanted:
            if condition not in self._followed:
                effects += self._channel.follow(condition, now_us)
        known = self._followed
        self._followed = {
            condition: (since_us, known[condition][1] if condition in known else parse(condition))
            for condition, since_us in wanted.items()
        }
        return effects

    def concerns_us(self, request: Attributes, departure_us: int) -> bool:
        """Whether what is asked for may be ours, and left after we had subscribed."""
        return any(
            departure_us >= since_us and condition.matches(request) for since_us, condition in self._followed.values()
        )
