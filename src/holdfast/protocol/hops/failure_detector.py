"""Who of our neighbours is there? Each says so regularly, and a silence that is too long for it means that it is down.

How long is too long is learned from how regular a neighbour has been (phi accrual, after Hayashibara and others 2004):
the silences between its beats are taken for normally distributed, and it is suspected once the chance of a longer one
falls below 10**-phi. A neighbour behind a link that loses beats is so given more time than a regular one.
"""

from collections import deque
from math import sqrt
from statistics import NormalDist

from msgspec.structs import replace

from holdfast.model.messages import Publish
from holdfast.protocol.effects import Effect
from holdfast.protocol.hops.settings import WatchSettings
from holdfast.protocol.router import Router


def detour(router: Router, neighbour: str, publish: Publish) -> list[Effect]:
    """Send an event that was for this neighbour another way."""
    return router.forward(neighbour, replace(publish, via="multipath"))


class _Watched:
    def __init__(self, now_us: int, settings: WatchSettings) -> None:
        self.heard_us = now_us
        self.suspected = False
        self._heartbeat_us: int | None = None  # when it last said so
        self._silences: deque[int] = deque([2 * settings.beat_us], settings.samples)  # doubtful at first

    def on_heartbeat(self, now_us: int) -> None:
        if self._heartbeat_us is not None and not self.suspected:
            self._silences.append(now_us - self._heartbeat_us)
        self._heartbeat_us = now_us

    def patience_us(self, settings: WatchSettings, deviations: float) -> int:
        count = len(self._silences)
        mean_us = sum(self._silences) / count
        spread_us = sqrt(sum([(each - mean_us) ** 2 for each in self._silences]) / count)
        return int(mean_us + deviations * max(spread_us, settings.doubt_ratio * settings.beat_us))


class FailureDetector:
    def __init__(self, settings: WatchSettings, now_us: int) -> None:
        self._settings = settings
        self._deviations = -NormalDist().inv_cdf(10**-settings.phi)
        self._watched: dict[str, _Watched] = {}
        self._due_us = now_us + settings.beat_us

    def next_due_us(self) -> int:
        return self._due_us

    def names(self) -> list[str]:
        return list(self._watched)

    def begin(self, neighbour: str, now_us: int) -> None:
        self._watched.setdefault(neighbour, _Watched(now_us, self._settings))

    def end(self, neighbour: str) -> None:
        self._watched.pop(neighbour, None)

    def suspects(self, neighbour: str) -> bool:
        watched = self._watched.get(neighbour)
        return watched is not None and watched.suspected

    def heard_us(self, neighbour: str) -> int:
        """When it was last heard of."""
        watched = self._watched.get(neighbour)
        return 0 if watched is None else watched.heard_us

    def on_heard(self, neighbour: str, is_heartbeat: bool, now_us: int) -> bool:
        """Whether it was taken for down until now."""
        watched = self._watched.get(neighbour)
        if watched is None:
            return False
        watched.heard_us = now_us
        if is_heartbeat:
            watched.on_heartbeat(now_us)
        was, watched.suspected = watched.suspected, False
        return was

    def give_up(self, neighbour: str) -> bool:
        """It is known to be out of reach; whether that is new."""
        watched = self._watched.get(neighbour)
        if watched is None or watched.suspected:
            return False
        watched.suspected = True
        return True

    def on_timer(self, now_us: int) -> list[str] | None:
        """At a beat, those who are down from now on; it is time to say that we are here. None between beats."""
        if now_us < self._due_us:
            return None
        self._due_us = max(self._due_us + self._settings.beat_us, now_us + 1)
        return [name for name in self._watched if self.gives_up(name, now_us)]

    def gives_up(self, neighbour: str, now_us: int) -> bool:
        """Whether it is down from now on: silent for longer than it ever was by chance."""
        watched = self._watched[neighbour]
        silent_us = now_us - watched.heard_us
        if watched.suspected or silent_us <= self._settings.beat_us:
            return False
        watched.suspected = silent_us > watched.patience_us(self._settings, self._deviations)
        return watched.suspected
