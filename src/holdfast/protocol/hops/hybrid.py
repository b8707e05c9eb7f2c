"""The layer that sends copies round neighbours that are down (`hops = "hybrid"`), around one that stores events.

Retransmission on the usual way, which waits for whoever is down; and copies round what is down, which may arrive long
before. Copies are neither stored nor acknowledged, and whoever gets an event both ways keeps the first.
"""

from collections.abc import Iterable, Sequence

from holdfast.model.messages import KeepAlive, Message, Publish
from holdfast.protocol.effects import Effect, Incident, Input, LinkDown, LinkUp, Persist, Received, Send, Wake
from holdfast.protocol.hops.durable import DurableLayer
from holdfast.protocol.hops.failure_detector import FailureDetector, detour
from holdfast.protocol.hops.settings import WatchSettings
from holdfast.protocol.node import BrokerLayer
from holdfast.protocol.router import Router
from holdfast.protocol.store_changes import Body, Keep

_ALIVE = KeepAlive()


class HybridLayer(BrokerLayer[DurableLayer]):
    def __init__(
        self, broker: DurableLayer, router: Router, settings: WatchSettings, watched: Iterable[str], now_us: int
    ) -> None:
        """With the brokers that it knows from an earlier life."""
        super().__init__(broker)
        self._router = router
        self._watch = FailureDetector(settings, now_us)
        for name in watched:
            self._watch.begin(name, now_us)

    def next_due_us(self) -> int:
        return min(self._watch.next_due_us(), self.inner.next_due_us())

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for each in messages:
            effects += self._heard(sender, type(each) is KeepAlive, now_us)
        others = [each for each in messages if type(each) is not KeepAlive]
        return self._with_copies(effects, self.inner.receive(sender, others, now_us)) if others else effects

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        copied: list[Effect] = []
        if type(given) is Received:
            is_heartbeat = type(given.message) is KeepAlive
            effects = self._heard(given.sender, is_heartbeat, now_us)
            if is_heartbeat:
                return effects
        elif type(given) is LinkUp and given.kind == "broker":
            self._watch.begin(given.neighbour, now_us)
            effects = self._heard(given.neighbour, False, now_us)
        elif type(given) is LinkDown and self._watch.give_up(given.neighbour):
            effects, copied = self._on_down([given.neighbour])
        elif type(given) is Wake:
            down = self._watch.on_timer(now_us)
            if down is not None:
                effects, copied = self._on_down(down)
                effects = [*[Send(name, _ALIVE) for name in self._watch.names()], *effects]
        return self._with_copies(effects, self.inner.handle(given, now_us), copied)

    def _heard(self, neighbour: str, is_heartbeat: bool, now_us: int) -> list[Effect]:
        if not self._watch.on_heard(neighbour, is_heartbeat, now_us):
            return []
        return [*self._router.suspect(neighbour, False), Incident("neighbour_up", neighbour)]

    def _on_down(self, down: list[str]) -> tuple[list[Effect], list[Effect]]:
        """What follows, and copies of what waits for them."""
        effects: list[Effect] = []
        for name in down:
            effects += [Incident("neighbour_down", name), *self._router.suspect(name, True)]
        return effects, [each for name in down for kept in self.inner.backlog(name) for each in self._copy(name, kept)]

    def _with_copies(self, first: list[Effect], effects: list[Effect], copied: Sequence[Effect] = ()) -> list[Effect]:
        """Behind the rest, copies of what has been stored for neighbours that are down."""
        out = [*first, *effects, *copied]
        for effect in effects:
            for change in effect.changes if type(effect) is Persist else ():
                if type(change) is Keep:
                    suspected = [name for name, _ in change.to if self._watch.suspects(name)]
                    out += [each for name in suspected for each in self._copy(name, change.message)]
        return out

    def _copy(self, name: str, message: Body) -> list[Effect]:
        if type(message) is not Publish:
            return []
        copies = detour(self._router, name, message)
        return [each for each in copies if type(each) is not Incident]  # no way round is none: it waits
