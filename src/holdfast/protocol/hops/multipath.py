"""The layer that sends events round neighbours that are down (`hops = "multipath"`).

The broker inside routes by destinations. Neighbours watch each other; one that is down is told to all
brokers in the link states, and all take other ways. What was sent to it since it was last heard of is sent once more,
another way. Nothing is stored: what no way leads to is lost.
"""

from collections import deque

from holdfast.model.messages import KeepAlive, Publish
from holdfast.protocol.effects import Effect, Gauges, Incident, Input, LinkDown, LinkUp, Received, Send, Wake
from holdfast.protocol.hops.failure_detector import FailureDetector, detour
from holdfast.protocol.hops.settings import WatchSettings
from holdfast.protocol.node import BrokerLayer, BrokerMachine
from holdfast.protocol.router import Router

_WAKE = Wake()
_ALIVE = KeepAlive()


class MultipathLayer(BrokerLayer[BrokerMachine]):
    def __init__(self, broker: BrokerMachine, router: Router, settings: WatchSettings, now_us: int) -> None:
        super().__init__(broker)
        self._router = router
        self._settings = settings
        self._watch = FailureDetector(settings, now_us)
        self._recent: dict[str, deque[tuple[int, Publish]]] = {}  # sent to each neighbour, and when

    def next_due_us(self) -> int:
        return min(self._watch.next_due_us(), self.inner.next_due_us())

    def gauges(self) -> Gauges:
        recent = max(map(len, self._recent.values()), default=0)
        return {**self.inner.gauges(), "recent events for a neighbour": (recent, self._settings.recent_max)}

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if type(given) is Received:
            is_heartbeat = type(given.message) is KeepAlive
            if self._watch.on_heard(given.sender, is_heartbeat, now_us):
                effects = self._back(given.sender)
            return effects if is_heartbeat else effects + self._noted(self.inner.handle(given, now_us), now_us)
        if type(given) is Wake:
            return self._on_wake(now_us)
        if type(given) is LinkDown:
            effects = self._noted(self.inner.handle(given, now_us), now_us)
            self._watch.end(given.neighbour)
            return effects + self._send_round(given.neighbour, 0, now_us)
        if type(given) is LinkUp and given.kind == "broker":
            self._recent.pop(given.neighbour, None)
            self._watch.begin(given.neighbour, now_us)
        return self._noted(self.inner.handle(given, now_us), now_us)

    def _back(self, neighbour: str) -> list[Effect]:
        return [*self._router.suspect(neighbour, False), Incident("neighbour_up", neighbour)]

    def _noted(self, effects: list[Effect], now_us: int) -> list[Effect]:
        """Remember what goes to brokers, for the case that they are down already."""
        for effect in effects:
            if type(effect) is Send and type(effect.message) is Publish:
                recent = self._recent.get(effect.to)
                if recent is None:
                    recent = self._recent[effect.to] = deque(maxlen=self._settings.recent_max)
                recent.append((now_us, effect.message))
        return effects

    def _send_round(self, neighbour: str, since_us: int, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for sent_us, publish in self._recent.pop(neighbour, ()):
            if sent_us >= since_us and not publish.publication.expired(now_us):
                effects += detour(self._router, neighbour, publish)
        return self._noted(effects, now_us)

    def _on_wake(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if self.inner.next_due_us() <= now_us:
            effects = self._noted(self.inner.handle(_WAKE, now_us), now_us)
        down = self._watch.on_timer(now_us)
        if down is None:
            return effects
        effects += [Send(name, _ALIVE) for name in self._watch.names()]
        for name in down:
            effects += [Incident("neighbour_down", name), *self._router.suspect(name, True)]
        for name in down:  # when all that is down is known
            effects += self._send_round(name, self._watch.heard_us(name) - self._settings.beat_us, now_us)
        self._prune()
        return effects

    def _prune(self) -> None:
        """Forget what a neighbour was heard of after: it has that, or the link has lost it."""
        for name, recent in self._recent.items():
            since_us = self._watch.heard_us(name) - self._settings.beat_us
            while recent and recent[0][0] < since_us:
                recent.popleft()
