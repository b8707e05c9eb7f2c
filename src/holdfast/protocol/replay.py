"""A subscription that begins in the past: first what its broker has kept, then what comes live, each event once.

What comes live while the past is being read is held back. The broker says where its history ended when it knew the
subscription; when everything up to there has been handed out, what was held back follows. Both may bring the same
event, so each is noted and handed out the first time only. When more comes live than may be held back, it is let go: it
is in the history as well, which is then read up to a later end. So a slow application costs no event, as long as the
history is kept.

What recovery has brought is not in the history, because a repair goes to those alone who have asked for it; it is never
let go. Where the live events of a publisher come in order, its new events keep it (`order.replayed`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from holdfast.model.messages import Via
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.order.replayed import LiveOrder, NumberedEvent
from holdfast.protocol.settings import ProtocolSettings

_WAITING_MAX = 1_000  # new events of the history that wait for earlier ones; repairs, however short the queue
_LATE = "a later event was read from the history before it came"
_TOO_MANY = "more came by recovery, while the history was read, than may wait"


class ReplayedEvent(NumberedEvent, Protocol):
    @property
    def via(self) -> Via: ...


E = TypeVar("E", bound=ReplayedEvent)


class Replay(Generic[E]):
    def __init__(
        self,
        settings: ProtocolSettings,
        held_max: int,
        on_lost: Callable[[E, str], None],
        is_ordered: Callable[[E], bool] | None = None,
    ) -> None:
        """`is_ordered` says of an event that came live whether its publisher's come in order; None: nobody's do."""
        self.is_live = False
        self.came = 0  # live, before it was, and in the history as well
        self.skipped = False  # what was last read had events that are to come live first: to be read again
        self._seen = Seen(settings.dedup_window, settings.dedup_sources)
        self._held: list[E] = []  # what came live since the end of the history was asked for
        self._held_max = held_max
        self._let_go = False  # of it
        self._waiting: list[E] = []  # repairs from before, and new events of the history
        self._on_lost = on_lost
        self._order = None if is_ordered is None else LiveOrder(is_ordered, settings.dedup_sources)

    @property
    def held(self) -> int:
        """How many wait, to be handed out when the past has been."""
        return len(self._held) + len(self._waiting)

    def on_end_asked(self) -> None:
        """The broker is asked where its history ends: what comes from now on need not be in it."""
        held, self._held = self._held, []
        self._keep_repairs(held)
        self._let_go = False

    def on_past(self, events: Sequence[E], is_first: bool = False) -> list[E]:
        """Events of the history, the first of it or what follows; those to hand out."""
        waiting, self._waiting = self._waiting, []
        if self._order is None:
            return self._new([*waiting, *events])
        old, new, unreleased = self._order.parted(events)
        if is_first:
            old, unreleased = [*old, *unreleased], []
        self.skipped = bool(unreleased)
        waiting = self._order.by_number([*waiting, *new])
        first = max(0, len(waiting) - len(_repairs(waiting)) - _WAITING_MAX)
        self._waiting = waiting[first:]
        return self._new([*old, *waiting[:first]])

    def on_live(self, events: Sequence[E]) -> list[E]:
        """Events that have come live; those to hand out."""
        if self._order is not None:
            self._order.on_live(events)
        if self.is_live:
            return self._new(events)
        self.came += len(events) - len(_repairs(events))
        if self._let_go:
            self._keep_repairs(events)
        else:
            self._held += events
            if len(self._held) > self._held_max:
                self._let_go = True
                held, self._held = self._held, []
                self._keep_repairs(held)
        return []

    def _keep_repairs(self, events: Iterable[E]) -> None:
        kept = _repairs(events)
        self._waiting += kept
        repairs = _repairs(self._waiting) if kept else []
        for each in repairs[: max(0, len(repairs) - max(self._held_max, _WAITING_MAX))]:
            self._waiting.remove(each)
            self._on_lost(each, _TOO_MANY)

    def on_end_reached(self, events_max: int) -> list[E] | None:
        """All of the history up to its end was handed out: what follows, or None when it is to be read further.

        So many at once; when there are no more, what comes live is handed out as it comes.
        """
        if self._let_go:
            return None
        waiting, self._held = [*self._waiting, *self._held], []
        if self._order is not None:
            waiting = self._order.by_number(waiting)
        self._waiting = waiting[events_max:]
        self.is_live = not self._waiting
        return self._new(waiting[:events_max])

    def give_up(self) -> list[E]:
        """Read no more of the history: what came live meanwhile."""
        self._let_go = False
        return self.on_end_reached(self.held) or []

    def _new(self, events: Iterable[E]) -> list[E]:
        """Those that have not been handed out, in their publishers' order."""
        first_time = self._seen.first_time
        found = [each for each in events if first_time(each.source, each.seq)]
        if self._order is None:
            return found
        in_time: list[E] = []
        for each in found:
            if self._order.is_next(each):
                in_time.append(each)
            else:
                self._on_lost(each, _LATE)
        return in_time


def _repairs(events: Iterable[E]) -> list[E]:
    return [each for each in events if each.via == "repair"]
