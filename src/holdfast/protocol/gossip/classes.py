"""Classes of events: the conditions that anybody wants, and the numbers that this broker gives to what it lets in.

A broker numbers each event that one of its own clients publishes, once for every class that the event belongs to. A
class whose condition nobody seems to want any more is numbered on for a while: perhaps only the way to those who
want it is broken, and they shall see later what they have missed. On the wire a class is a tag of 32 bits; should two
conditions ever share one, neither is numbered.
"""

from collections.abc import Callable
from random import Random

from holdfast.language.subscription import Subscription
from holdfast.model.event import RESERVED, Attributes
from holdfast.model.messages import Publication, Stamp
from holdfast.protocol.conditions import ConditionBook, EventIndex
from holdfast.protocol.tables import digest_of

_MS = 1_000


def tag_of(condition: str) -> int:
    return digest_of(condition) >> 32


def is_for_recovery(subscription: Subscription) -> bool:
    """Whether only what clients say to each other about recovery can match: that is not an event."""
    return all(
        any(each.attribute.startswith(RESERVED) and each.op != "IS NULL" for each in filter_)
        for filter_ in subscription.filters
    )


class Classes:
    def __init__(
        self, name: str, epoch: int, fading_us: int, book: ConditionBook, new_index: Callable[[], EventIndex[str]]
    ) -> None:
        self._name = name
        self._epoch = epoch
        self._fading_us = fading_us
        self._book = book
        self._index = new_index()
        self._tags: dict[str, int] = {}  # of the conditions in the index
        self._conditions: dict[int, str] = {}  # by tag
        self._fading: dict[str, int] = {}  # conditions that nobody seems to want, and until when they are numbered
        self._counts: dict[int, list[int]] = {}  # by tag: the last number, and when numbering began
        self._ambiguous: dict[int, None] = {}
        self.has_changed: dict[str, bool] = {}  # not yet taken in: conditions, and whether each is there
        self._wanted: list[int] | None = None

    # What the router's table tells -------------------------------------------------------------------

    def appeared(self, condition: str) -> None:
        self.has_changed[condition] = True

    def vanished(self, condition: str) -> None:
        self.has_changed[condition] = False

    def settle(self, now_us: int) -> None:
        """Take in what has changed, and forget what has faded."""
        self.take_in(now_us)
        for condition, until_us in list(self._fading.items()):
            if until_us <= now_us:
                self._forget(condition)

    def take_in(self, now_us: int) -> None:
        if self.has_changed:
            for condition, is_there in self.has_changed.items():
                if is_there:
                    self._add(condition, now_us)
                elif condition in self._tags:
                    self._fading[condition] = now_us + self._fading_us
            self.has_changed.clear()
            self._wanted = None

    def _add(self, condition: str, now_us: int) -> None:
        self._fading.pop(condition, None)
        subscription = self._book.subscription(condition)
        if condition in self._tags or is_for_recovery(subscription):
            return
        tag = self._tags[condition] = tag_of(condition)
        if self._conditions.setdefault(tag, condition) != condition:
            self._ambiguous[tag] = None
        self._index.add(condition, subscription.filters)
        self._counts[tag] = [0, now_us]

    def _forget(self, condition: str) -> None:
        del self._fading[condition]
        tag = self._tags.pop(condition)
        self._index.remove(condition, self._book.subscription(condition).filters)
        if self._conditions.get(tag) == condition:
            del self._conditions[tag]
        self._counts.pop(tag, None)
        self._wanted = None

    # Events --------------------------------------------------------------------------------------

    def of(self, attributes: Attributes) -> list[str]:
        """The conditions that an event meets."""
        return self._index.match(attributes)

    def tags_of(self, attributes: Attributes) -> list[int]:
        tags = self._tags
        return [tags[each] for each in self._index.match(attributes)]

    def stamp(self, publication: Publication) -> Stamp:
        places = []
        for tag in self.tags_of(publication.attributes):
            if tag not in self._ambiguous:
                count = self._counts[tag]
                count[0] += 1
                places.append((tag, count[0], (count[1] - self._epoch) // _MS))
        return Stamp(self._name, self._epoch, tuple(places))

    def last_number(self, tag: int) -> int:
        """Of what this broker has let in of a class."""
        count = self._counts.get(tag)
        return 0 if count is None else count[0]

    def condition(self, tag: int) -> str | None:
        return None if tag in self._ambiguous else self._conditions.get(tag)

    def any_wanted(self, dice: Random) -> int | None:
        """The tag of a random class that is in the table."""
        if self._wanted is None:
            self._wanted = [
                tag for each, tag in self._tags.items() if each not in self._fading and tag not in self._ambiguous
            ]
        return self._wanted[int(dice.random() * len(self._wanted))] if self._wanted else None

    def __len__(self) -> int:
        return len(self._tags)
