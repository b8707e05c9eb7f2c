"""The events of one place, shared between the broker that holds it and its relief replicas (section 4.3 of paper 003).

Each event takes one way: that with the shortest queue, of those that can take it. Where the order is restored behind
them, every way also gets marks: how far each source is, of which it had no event lately. They go on for a while after
the last event, and to a replica that leaves until it is gone, because those behind it wait for them.
"""

from collections.abc import Callable, Sequence

from holdfast.model.limits import NODES_MAX
from holdfast.model.messages import Publication
from holdfast.model.replication_messages import HighWaterMarks
from holdfast.protocol.effects import Effect, Send
from holdfast.protocol.replication.settings import ReplicationSettings

_MARKS_REPEATED = 4  # a mark is said so often, in case it is lost


def shortest(ways: Sequence[str], length: Callable[[str], int]) -> str:
    """The first of the ways with the shortest queue."""
    return min(ways, key=length)


class WayMarks:
    """How far the sources are whose events are shared, as every way is to say."""

    def __init__(self, settings: ReplicationSettings, now_us: int) -> None:
        self._settings = settings
        self._upto: dict[str, int] = {}  # source -> the last number sent by any way; the latest comes last
        self._used: dict[str, dict[str, None]] = {}  # way -> sources of which it had an event since the last marks
        self._left = 0  # times that they are still to be said
        self._due_us = now_us

    @property
    def due_us(self) -> int | None:
        return self._due_us if self._left else None

    def on_event(self, publication: Publication, way: str) -> None:
        source = publication.source
        self._upto[source] = max(self._upto.pop(source, 0), publication.seq)
        if len(self._upto) > self._settings.sources_max:
            del self._upto[next(iter(self._upto))]
        self._used.setdefault(way, {})[source] = None
        self._left = _MARKS_REPEATED

    def on_ways_changed(self) -> None:
        """Somebody may wait for a way of which we have said nothing yet."""
        self._used.clear()
        self._left = _MARKS_REPEATED if self._upto else 0

    def repeat(self) -> None:
        """Once more, at a heartbeat: what was said lately may have been lost with a broker on the way."""
        self._left = max(self._left, bool(self._upto))

    def take(self, ways: Sequence[str], now_us: int) -> list[Effect]:
        """For each way, how far the sources are of which it had no event lately: an event says as much by itself."""
        if not self._left or now_us < self._due_us:
            return []
        self._left -= 1
        self._due_us = now_us + self._settings.marks_us
        used, self._used = self._used, {}
        effects: list[Effect] = []
        for way in ways:
            quiet = [each for each in self._upto.items() if each[0] not in used.get(way, ())]
            for start in range(0, len(quiet), NODES_MAX):
                effects.append(Send(way, HighWaterMarks(tuple(quiet[start : start + NODES_MAX]), onwards=True)))
        return effects
