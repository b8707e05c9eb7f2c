"""The last retained event of each topic, on which all brokers of a network agree: the one published last.

Brokers learn of retained events as subscribers do, perhaps in another order. So the time decides, and where that is
equal the source and number. A topic is freed by an event without payload, of which only the time is kept for a while.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

import msgspec

from holdfast.model.messages import Publication
from holdfast.mqtt.notes import RETAINED, Notes, key_of
from holdfast.mqtt.topics import matches

TOPICS_MAX = 10_000  # a device has a few; as many as clients may be connected
BYTES_MAX = 64 * 2**20  # of their payloads
LOOK_MAX = 500  # topics that a search looks at before others get their turn: some hundred microseconds
_encode = msgspec.msgpack.Encoder().encode
_EVENT_BYTES = 500  # what an event takes besides


class Retained:
    def __init__(self) -> None:
        self._events: dict[str, tuple[Publication, int]] = {}  # by topic, with the count of changes at its own
        self._changes = 0
        self._freed: dict[str, None] = {}  # topics without an event, the oldest first
        self._bytes = 0
        self.refused = 0  # for want of room

    def __len__(self) -> int:
        return len(self._events) - len(self._freed)

    def put(self, topic: str, event: Publication) -> bool:
        """Whether it changed anything."""
        known = self._events.get(topic)
        if known is not None and _order(known[0]) >= _order(event):
            return False
        if topic in self._freed:
            self._drop(topic)
            known = None
        grown = _EVENT_BYTES + len(event.payload) - (0 if known is None else _EVENT_BYTES + len(known[0].payload))
        while self._freed and not self._has_room(known is None, grown):
            self._drop(next(iter(self._freed)))
        if not self._has_room(known is None, grown):
            self.refused += 1
            return False
        self._changes += 1
        self._events[topic] = event, self._changes
        self._bytes += grown
        if not event.payload:
            self._freed[topic] = None
        return True

    def _has_room(self, is_new: bool, grown: int) -> bool:
        return len(self._events) + is_new <= TOPICS_MAX and self._bytes + grown <= BYTES_MAX

    def _drop(self, freed: str) -> None:
        del self._events[freed], self._freed[freed]
        self._bytes -= _EVENT_BYTES

    def notes(self, topic: str) -> Notes:
        """What is to be written down of a topic."""
        event, _ = self._events.get(topic, (None, 0))
        value = None if event is None or not event.payload else _encode(event)
        return {key_of(RETAINED, topic): value}

    def search(self, filter_: str) -> "Search":
        """For the events of topics that a filter describes."""
        return Search(self._events, filter_, self._changes)


class Search:
    """Finds what there was when it began, but for topics that have changed since: their new events come anyway.

    It looks at a few topics at a time. A client may have thousands of filters, and each would look at all topics.
    """

    def __init__(self, events: Mapping[str, tuple[Publication, int]], filter_: str, changes: int) -> None:
        self._events = events
        self._filter = filter_
        self._changes = changes
        self._topics: Iterator[str] | None = None  # until the first look, a search takes no room
        self.is_over = False

    def look(self, now_us: int) -> list[tuple[str, Publication]]:
        """What a few more topics have; each with its event."""
        if self._topics is None:
            is_name = "+" not in self._filter and "#" not in self._filter
            self._topics = iter([self._filter] if is_name else list(self._events))
        topics = list(islice(self._topics, LOOK_MAX))
        self.is_over = len(topics) < LOOK_MAX
        found: list[tuple[str, Publication]] = []
        for topic in topics:
            event, change = self._events.get(topic, (None, 0))
            if event is None or change > self._changes or not matches(self._filter, topic):
                continue
            if event.payload and not event.expired(now_us):
                found.append((topic, event))
        return found


def _order(event: Publication) -> tuple[int, str, int]:
    return event.time_us, event.source, event.seq
