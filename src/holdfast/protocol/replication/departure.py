"""A relief replica that is released: nothing that was sent to it is lost, because it leaves last.

When every neighbour can spare it, it asks all of them to drain it. Each answers when its last event has left; links
keep order, so by then all that it sent is here and on its way. The replica lingers for what links still repair, says
that its own last event has left, and is forgotten. What is lost of this is said again at the next heartbeat. A replica
that keeps events for a neighbour that failed waits until that one is replaced, and drains its successor, too.
"""

from collections.abc import Sequence
from typing import Literal

from holdfast.model.replication_messages import ReplicaRelease
from holdfast.protocol.effects import Effect, Incident, Multicast, ReplicaReleased
from holdfast.protocol.replication.states import DEPARTURE, DepartureEvent, DepartureState, after

_FRESH_BEATS = 3  # for so long a neighbour that could spare us counts: two messages in a row may be lost


class Departure:
    def __init__(self, faulty: str, epoch: int, heartbeat_us: int, linger_us: int) -> None:
        self.epoch = epoch
        self.state = DepartureState.WORKING
        self.faulty = faulty
        self._fresh_us = _FRESH_BEATS * heartbeat_us
        self._linger_us = linger_us
        self._spared_us: dict[str, int] = {}
        self._drained: dict[str, None] = {}
        self._until_us = 0

    @property
    def is_leaving(self) -> bool:
        """Whether those who forget us do as they are asked."""
        return self.state is DepartureState.LEAVING

    def on_release(self, name: str, step: str, now_us: int) -> None:
        if step == "spare":
            self._spared_us[name] = now_us
        elif step == "last":
            self._drained[name] = None

    def on_gone(self, name: str) -> None:
        self._spared_us.pop(name, None)
        self._drained.pop(name, None)

    def on_heartbeat(self, neighbours: Sequence[str], is_free: bool, now_us: int) -> list[Effect]:
        """`is_free`: whether we have all tables, and keep nothing for anybody."""
        effects: list[Effect] = []
        long_ago_us = now_us - self._fresh_us
        spared = [name for name, at_us in self._spared_us.items() if at_us >= long_ago_us]
        if self.state is DepartureState.WORKING and is_free and neighbours:
            if set(neighbours) <= set(spared):
                self._on(DepartureEvent.SPARED)
                effects.append(Incident(DepartureState.DRAINING.value, self.faulty))
        if self.state in (DepartureState.DRAINING, DepartureState.LINGERING):
            waited_for = [each for each in neighbours if each not in self._drained]
            effects += self._say("drain", waited_for)
            if waited_for or not is_free:
                self._until_us = now_us + self._linger_us
            elif self.state is DepartureState.DRAINING:
                self._until_us = now_us + self._linger_us
                self._on(DepartureEvent.DRAINED)
            elif now_us >= self._until_us:
                self._on(DepartureEvent.LINGERED)
        if self.state is DepartureState.LEAVING:
            effects += self._say("last", neighbours)
            if not neighbours:
                self._on(DepartureEvent.FORGOTTEN)
                effects += [Incident(DepartureState.RELEASED.value, self.faulty), ReplicaReleased()]
        return effects

    def _on(self, event: DepartureEvent) -> None:
        self.state = after(DEPARTURE, self.state, event)

    def _say(self, step: Literal["drain", "last"], neighbours: Sequence[str]) -> list[Effect]:
        return [Multicast(tuple(neighbours), ReplicaRelease(self.epoch, step))] if neighbours else []
