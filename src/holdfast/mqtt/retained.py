"""The last retained event of each topic, on which all brokers of a network agree: the one published last.

Brokers learn of retained events as subscribers do, perhaps in another order. So the time decides, and where that is
equal the source and number. A topic is freed by an event without payload, of which only the time is kept for a while.
"""

from collections.abc import Iterator

import msgspec

from holdfast.model.messages import Publication
from holdfast.mqtt.notes import RETAINED, Notes, key_of
from holdfast.mqtt.topics import matches

TOPICS_MAX = 10_000  # a device has a few; as many as clients may be connected
BYTES_MAX = 64 * 2**20  # of their payloads
_encode = msgspec.msgpack.Encoder().encode
_EVENT_BYTES = 500  # what an event takes besides


class Retained:
    def __init__(self) -> None:
        self._events: dict[str, Publication] = {}
        self._bytes = 0
        self.refused = 0  # for want of room

    def __len__(self) -> int:
        return sum(1 for each in self._events.values() if each.payload)

    def put(self, topic: str, event: Publication) -> bool:
        """Whether it changed anything."""
        known = self._events.get(topic)
        if known is not None and _order(known) >= _order(event):
            return False
        size = _EVENT_BYTES + len(event.payload)
        freed = 0 if known is None else _EVENT_BYTES + len(known.payload)
        full = known is None and len(self._events) >= TOPICS_MAX
        if full:
            self._drop_freed()
            full = len(self._events) >= TOPICS_MAX
        if full or self._bytes - freed + size > BYTES_MAX:
            self.refused += 1
            return False
        self._events[topic] = event
        self._bytes += size - freed
        return True

    def _drop_freed(self) -> None:
        for topic in [topic for topic, each in self._events.items() if not each.payload]:
            self._bytes -= _EVENT_BYTES
            del self._events[topic]

    def notes(self, topic: str) -> Notes:
        """What is to be written down of a topic."""
        event = self._events.get(topic)
        value = None if event is None or not event.payload else _encode(event)
        return {key_of(RETAINED, topic): value}

    def find(self, filter_: str, now_us: int) -> Iterator[tuple[str, Publication]]:
        """Topics that a filter describes, each with its event."""
        for topic, each in list(self._events.items()):
            if each.payload and matches(filter_, topic) and not each.expired(now_us):
                yield topic, each


def _order(event: Publication) -> tuple[int, str, int]:
    return event.time_us, event.source, event.seq
