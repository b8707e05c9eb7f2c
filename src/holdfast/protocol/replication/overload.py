"""Decides when a broker needs one more relief replica, and when it can do with one less.

It looks at the load of each way through a place, the broker and its relief replicas: how many messages wait for it, or
how long they do. The ways share events by queue length, so the shortest shows whether all of them together keep up, and
the longest whether one could be missed. Two limits a factor apart and a long wait keep one burst from starting and
stopping replicas in turn. If a release proves to be a mistake, the next one takes twice as long.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.protocol.replication.settings import ReplicationSettings

_QUIET_SHARE = 4  # below a quarter of the limit is short: what one way less means for the others is a factor of two
_LOOKS = 2  # heartbeats in a row above the limit: one may only have met a burst
_DOUBLED_MAX = 6  # releases that were mistakes, after which the wait grows no more: half an hour by default


@dataclass(frozen=True)
class Load:
    """Of one way, at one look."""

    queue: int
    delay_us: int


@dataclass
class _PlaceLoad:
    above: int = 0  # looks in a row
    quiet_since_us: int | None = None
    released_us: int | None = None  # the last time that a replica could be missed
    mistakes: int = 0


class LoadWatch:
    def __init__(self, settings: ReplicationSettings) -> None:
        self._queue_max = settings.relieve_queue
        self._delay_max_us = settings.relieve_delay_us
        self._release_us = settings.release_us
        self._of: dict[str, _PlaceLoad] = {}

    @property
    def is_on(self) -> bool:
        return self._queue_max is not None or self._delay_max_us is not None

    def look(self, place: str, ways: Sequence[Load], now_us: int) -> None:
        watched = self._of.setdefault(place, _PlaceLoad())
        watched.above = watched.above + 1 if all(self._is_over(each, 1) for each in ways) else 0
        if any(self._is_over(each, _QUIET_SHARE) for each in ways):
            watched.quiet_since_us = None
        elif watched.quiet_since_us is None:
            watched.quiet_since_us = now_us

    def wants_one_more(self, place: str) -> bool:
        return self._of[place].above >= _LOOKS

    def on_joined(self, place: str, now_us: int) -> None:
        """A replica has come; soon after another one was released, that was a mistake."""
        watched = self._of.setdefault(place, _PlaceLoad())
        released_us, watched.released_us = watched.released_us, None
        if released_us is not None:
            soon = now_us - released_us < 2 * self._wait_us(watched)
            watched.mistakes = min(watched.mistakes + 1, _DOUBLED_MAX) if soon else 0
        watched.above, watched.quiet_since_us = 0, None

    def on_released(self, place: str, now_us: int) -> None:
        watched = self._of.setdefault(place, _PlaceLoad())
        watched.released_us, watched.quiet_since_us = now_us, None

    def can_miss_one(self, place: str, now_us: int) -> bool:
        watched = self._of[place]
        return watched.quiet_since_us is not None and now_us - watched.quiet_since_us >= self._wait_us(watched)

    def forget(self, places: Sequence[str]) -> None:
        """All but these."""
        self._of = {place: watched for place, watched in self._of.items() if place in places}

    def _wait_us(self, watched: _PlaceLoad) -> int:
        return self._release_us << watched.mistakes

    def _is_over(self, load: Load, share: int) -> bool:
        """Whether it is above this part of a limit."""
        too_long = self._queue_max is not None and load.queue * share > self._queue_max
        too_slow = self._delay_max_us is not None and load.delay_us * share > self._delay_max_us
        return too_long or too_slow
