"""A broker that stores events and hands them over, and meanwhile tries other ways (`hops = "hybrid"`).

Retransmission on the usual way, which waits for whoever is down; and copies round what is down, which may arrive long
before. Copies are neither stored nor acknowledged, and whoever gets an event both ways keeps the first.
"""

from holdfast.model.messages import KeepAlive, Message, Publish
from holdfast.protocol.broker import Broker
from holdfast.protocol.changes import Body, Stored
from holdfast.protocol.effects import Effect, Incident, Input, LinkDown, LinkUp, Persisted, Send, Wake
from holdfast.protocol.hops.durable import DurableBroker
from holdfast.protocol.hops.settings import HandoverSettings, WatchSettings
from holdfast.protocol.hops.watch import Watch

_ALIVE = KeepAlive()


class HybridBroker(DurableBroker):
    def __init__(
        self, broker: Broker, settings: HandoverSettings, stored: Stored, now_us: int, watching: WatchSettings
    ) -> None:
        self._watch = Watch(watching, now_us)
        self._copied: list[Effect] = []  # copies that are to leave with what is being handled
        super().__init__(broker, settings, stored, now_us)
        for name, each in stored.neighbours.items():
            if each.kind == "broker":
                self._watch.begin(name, now_us)

    def next_due_us(self) -> int:
        return min(self._watch.next_due_us(), super().next_due_us())

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if isinstance(given, LinkUp) and given.kind == "broker":
            self._watch.begin(given.neighbour, now_us)
            effects = self._heard(given.neighbour, False, now_us)
        elif isinstance(given, LinkDown) and self._watch.give_up(given.neighbour):
            effects = self._on_down([given.neighbour], now_us)
        elif isinstance(given, Wake):
            down = self._watch.on_timer(now_us)
            if down is not None:
                effects = [Send(name, _ALIVE) for name in self._watch.names()]
                effects += self._on_down(down, now_us)
        effects += super().handle(given, now_us)
        return effects if isinstance(given, Persisted) else self._with_copies(effects)

    def receive(self, sender: str, messages: list[Message], now_us: int) -> list[Effect]:  # type: ignore[override]
        return self._with_copies(super().receive(sender, messages, now_us))

    def _on_received(self, sender: str, message: Message, now_us: int) -> list[Effect]:
        is_beat = type(message) is KeepAlive
        back = self._heard(sender, is_beat, now_us)
        return back if is_beat else back + super()._on_received(sender, message, now_us)

    def _heard(self, neighbour: str, is_beat: bool, now_us: int) -> list[Effect]:
        if not self._watch.on_heard(neighbour, is_beat, now_us):
            return []
        return [*self.broker.suspect(neighbour, False), Incident("neighbour_up", neighbour)]

    def _keep(self, takers: list[str], message: Body, now_us: int) -> None:
        super()._keep(takers, message, now_us)
        for name in takers:
            if self._watch.suspects(name):
                self._copy(name, message)

    def _copy(self, name: str, message: Body) -> None:
        if isinstance(message, Publish):
            self._copied += self.broker.detour(name, message)

    def _on_down(self, down: list[str], now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for name in down:
            effects += [Incident("neighbour_down", name), *self.broker.suspect(name, True)]
        for name in down:
            for kept in self.outgoing[name].kept() if name in self.outgoing else []:
                self._copy(name, kept.message)
        return effects

    def _with_copies(self, effects: list[Effect]) -> list[Effect]:
        copied, self._copied = self._copied, []
        return effects + [each for each in copied if isinstance(each, Send)]  # no way round is no incident: it waits
