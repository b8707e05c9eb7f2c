"""The last events of a network and what became of each, for whoever asks about one: a bounded number of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

EVENTS_MAX = 2_000  # some minutes of a calm network, some seconds of a busy one
_ATTRIBUTE_BYTES_MAX = 4_096  # of one event; a longer one is shown without its longest values
SubscriptionId = tuple[str, str]  # a client, and the id among its subscriptions


@dataclass(frozen=True)
class Arrival:
    time_us: int
    via: str
    held_us: int


@dataclass
class RecentEvent:
    source: str
    seq: int
    time_us: int
    attributes: Mapping[str, Any]
    lifetime_us: int | None
    matching: frozenset[SubscriptionId]
    arrivals: dict[str, Arrival] = field(default_factory=dict)  # by client

    @property
    def key(self) -> tuple[str, int]:
        return self.source, self.seq


class RecentEvents:
    def __init__(self, most: int = EVENTS_MAX) -> None:
        self._most = most
        self._events: dict[tuple[str, int], RecentEvent] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: RecentEvent) -> None:
        self._events[event.key] = event
        if len(self._events) > self._most:
            del self._events[next(iter(self._events))]

    def get(self, source: str, seq: int) -> RecentEvent | None:
        return self._events.get((source, seq))

    def last(self, most: int) -> list[RecentEvent]:
        """The latest first."""
        return list(reversed(self._events.values()))[:most]


def shown(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON has them, without what nobody would read."""
    text = {name: value for name, value in attributes.items() if not name.startswith("~")}
    if sum(len(str(value)) for value in text.values()) > _ATTRIBUTE_BYTES_MAX:
        text = {name: value if len(str(value)) < 200 else f"{str(value)[:200]}…" for name, value in text.items()}
    return {name: value if isinstance(value, (str, int, float, bool)) else str(value) for name, value in text.items()}


def as_json(events: Sequence[RecentEvent]) -> list[dict[str, Any]]:
    return [
        {"source": each.source, "seq": each.seq, "time_us": each.time_us, "attributes": shown(each.attributes)}
        for each in events
    ]
