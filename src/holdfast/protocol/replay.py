"""A subscription that begins in the past: first what its broker has kept, then what comes live, each event once.

What comes live while the past is being read is held back. The broker says where its history ended when it knew the
subscription; when everything up to there has been handed out, what was held back follows. Both may bring the same
event, so each is noted and handed out the first time only. When more comes live than may be held back, all of it is let
go: it is in the history as well, which is then read up to a later end. So a slow application costs no event, as long as
the history is kept.
"""

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from holdfast.protocol.duplicates import Seen
from holdfast.protocol.settings import ProtocolSettings


class NumberedEvent(Protocol):
    @property
    def source(self) -> str: ...
    @property
    def seq(self) -> int: ...


E = TypeVar("E", bound=NumberedEvent)


class Replay(Generic[E]):
    def __init__(self, settings: ProtocolSettings, held_max: int) -> None:
        self.is_live = False
        self._seen = Seen(settings.dedup_window, settings.dedup_sources)
        self._held: list[E] = []
        self._held_max = held_max
        self._let_go = False  # of what came live since the end of the history was asked for

    @property
    def held(self) -> int:
        return len(self._held)

    def on_end_asked(self) -> None:
        """The broker is asked where its history ends: what comes from now on need not be in it."""
        self._held.clear()
        self._let_go = False

    def on_past(self, events: Iterable[E]) -> list[E]:
        """Events of the history; those to hand out."""
        return self._new(events)

    def on_live(self, events: Iterable[E]) -> list[E]:
        """Events that have come live; those to hand out."""
        if self.is_live:
            return self._new(events)
        if not self._let_go:
            self._held += events
            if len(self._held) > self._held_max:
                self._let_go = True
                self._held.clear()
        return []

    def on_end_reached(self) -> list[E] | None:
        """All of the history up to its end was handed out: what follows it, or None when it is to be read further."""
        if self._let_go:
            return None
        return self.give_up()

    def give_up(self) -> list[E]:
        """Read no more of the history: what came live meanwhile."""
        self.is_live = True
        held, self._held = self._held, []
        return self._new(held)

    def _new(self, events: Iterable[E]) -> list[E]:
        first_time = self._seen.first_time
        return [each for each in events if first_time(each.source, each.seq)]
