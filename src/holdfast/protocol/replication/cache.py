"""Events that an incremental replica keeps until its tables are complete, and to whom each was sent.

A subscription that comes late gets the earlier events that it matches, unless its neighbour has them already. The paper
has events carry the ids of their subscriptions, and notes them under those that are missing. Ids do not
survive covering: a neighbour may only know a wider subscription that stands for many. So every event is kept, and what
comes is matched against all of them.
"""

from collections.abc import Iterable

from holdfast.model.messages import Publish
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.replication.out_queue import EventId, id_of


class EventCache:
    def __init__(self, book: ConditionBook, events_max: int) -> None:
        self._book = book
        self._events_max = events_max
        self._kept: dict[EventId, Publish] = {}
        self._sent_to: dict[EventId, dict[str, None]] = {}  # with the neighbour that it came from
        self.dropped = 0
        self.matched = 0  # events that a subscription was found to match: what it costs

    def __len__(self) -> int:
        return len(self._kept)

    def on_event(self, sender: str, publish: Publish, sent_to: Iterable[str]) -> None:
        event = id_of(publish)
        self._kept[event] = publish
        self._sent_to.setdefault(event, {}).update(dict.fromkeys((sender, *sent_to)))
        if len(self._kept) > self._events_max:
            oldest = next(iter(self._kept))
            del self._kept[oldest], self._sent_to[oldest]
            self.dropped += 1

    def on_subscriptions(self, neighbour: str, conditions: Iterable[str]) -> list[Publish]:
        """What this neighbour is still to get, in the order in which it came here."""
        wanted = [self._book.subscription(each) for each in conditions]
        found = []
        for event, publish in self._kept.items():
            attributes = publish.publication.attributes
            matching = sum(each.matches(attributes) for each in wanted)
            self.matched += matching
            if matching and neighbour not in self._sent_to[event]:
                self._sent_to[event][neighbour] = None
                found.append(publish)
        return found

    def clear(self) -> None:
        self._kept.clear()
        self._sent_to.clear()
