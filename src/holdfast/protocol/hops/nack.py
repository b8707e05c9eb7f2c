"""The layer whose links to other brokers repair their own losses (`hops = "nack"`).

The broker inside knows nothing of it: events that the broker sends to another broker are numbered on the
way out, and numbered ones come in without their numbers. A crash, a full queue and a link that fails for long lose
what they lose; recovery from end to end or gossip may stand behind it.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.model.messages import Batch, HighestSent, Message, Nack, Numbered, Publish, Stamped
from holdfast.protocol.effects import Effect, Gauges, Incident, Input, LinkDown, LinkUp, Multicast, Received, Send, Wake
from holdfast.protocol.hops.nack_receiver import NackReceiver
from holdfast.protocol.hops.nack_sender import NackSender
from holdfast.protocol.hops.settings import NackSettings
from holdfast.protocol.node import BrokerLayer, BrokerMachine

_WAKE = Wake()
_NEVER_US = 2**62


class NackLayer(BrokerLayer[BrokerMachine]):
    def __init__(self, broker: BrokerMachine, settings: NackSettings) -> None:
        super().__init__(broker)
        self._settings = settings
        self._senders: dict[str, NackSender] = {}
        self._receivers: dict[str, NackReceiver] = {}
        self._due_us = _NEVER_US  # of the links; never late, sometimes early

    def next_due_us(self) -> int:
        return min(self._due_us, self.inner.next_due_us())

    def has_settled(self, now_us: int) -> bool:
        announced = all(each.has_announced for each in self._senders.values())
        return announced and not any(map(len, self._receivers.values())) and self.inner.has_settled(now_us)

    def gauges(self) -> Gauges:
        kept = max(map(len, self._senders.values()), default=0)
        missing = max(map(len, self._receivers.values()), default=0)
        ring = self._settings.ring
        return {**self.inner.gauges(), "kept for a link": (kept, ring), "missing on a link": (missing, ring)}

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        if len(messages) == 1:  # nearly always
            return self._on_received(sender, messages[0], now_us)
        return [effect for each in messages for effect in self._on_received(sender, each, now_us)]

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        if type(given) is Received:
            return self._on_received(given.sender, given.message, now_us)
        if type(given) is Wake:
            return self._on_wake(now_us)
        if type(given) is LinkUp or type(given) is LinkDown:
            self._senders.pop(given.neighbour, None)
            self._receivers.pop(given.neighbour, None)
            if type(given) is LinkUp and given.kind == "broker":
                self._receivers[given.neighbour] = NackReceiver(self._settings, now_us)
        return self._numbered(self.inner.handle(given, now_us), now_us)

    # Coming in -----------------------------------------------------------------------------------

    def _on_received(self, name: str, message: Message, now_us: int) -> list[Effect]:
        if type(message) is Numbered:
            return self._on_numbered(name, message, now_us)
        if type(message) is Nack:
            sender = self._senders.get(name)
            return [] if sender is None else [Send(name, each) for each in sender.on_missing(message)]
        if type(message) is HighestSent:
            receiver = self._receiver(name, now_us)
            receiver.on_latest(message, now_us)
            return self._ask(name, receiver, now_us)
        return self._numbered(self.inner.receive(name, (message,), now_us), now_us)

    def _on_numbered(self, sender: str, numbered: Numbered, now_us: int) -> list[Effect]:
        receiver = self._receiver(sender, now_us)
        effects: list[Effect] = []
        if receiver.on_numbered(numbered, now_us):
            publish = replace(numbered.publish, via="retransmission") if numbered.again else numbered.publish
            effects = self._numbered(self.inner.receive(sender, (publish,), now_us), now_us)
        return effects + self._ask(sender, receiver, now_us) if receiver.due_us is not None else effects

    def _receiver(self, neighbour: str, now_us: int) -> NackReceiver:
        receiver = self._receivers.get(neighbour)
        if receiver is None:
            receiver = NackReceiver(self._settings, now_us)
            if self.inner.kind_of(neighbour) is not None:  # nothing is kept about strangers
                self._receivers[neighbour] = receiver
        return receiver

    def _ask(self, neighbour: str, receiver: NackReceiver, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if receiver.due_us is not None:
            request = receiver.ask(now_us) if receiver.due_us <= now_us else None
            if request is not None:
                effects.append(Send(neighbour, request))
            self._due_us = min(self._due_us, receiver.due_us or _NEVER_US)
        if receiver.given_up:
            effects.append(Incident("link_repair_failed", neighbour, receiver.given_up))
            receiver.given_up = 0
        return effects

    # Going out -----------------------------------------------------------------------------------

    def _numbered(self, effects: list[Effect], now_us: int) -> list[Effect]:
        """The same, with numbers on all events that go to brokers."""
        out: list[Effect] = []
        for effect in effects:
            names = effect.to if type(effect) is Multicast else (effect.to,) if type(effect) is Send else ()
            message = effect.message if names else None  # type: ignore[union-attr]
            if type(message) is Publish or type(message) is Stamped:
                for name in names:
                    out.append(Send(name, self._send(name, message, now_us)))
            elif type(message) is Batch:
                out += self._numbered_batch(names, message, now_us)
            else:
                out.append(effect)
        return out

    def _numbered_batch(self, names: Sequence[str], batch: Batch, now_us: int) -> list[Effect]:
        """Each event of a batch may be lost by itself, and so has its own number."""
        out: list[Effect] = []
        for name in names:
            if self.inner.kind_of(name) == "client":
                out.append(Multicast((name,), batch))
            else:
                out += [Send(name, self._send(name, each, now_us)) for each in batch.published()]
        return out

    def _send(self, neighbour: str, publish: Publish | Stamped, now_us: int) -> Numbered:
        sender = self._senders.get(neighbour)
        if sender is None:
            sender = self._senders[neighbour] = NackSender(now_us, self._settings)
        numbered = sender.send(publish, now_us)
        self._due_us = min(self._due_us, sender.due_us or _NEVER_US)
        return numbered

    # Time ----------------------------------------------------------------------------------------

    def _on_wake(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if self.inner.next_due_us() <= now_us:
            effects = self._numbered(self.inner.handle(_WAKE, now_us), now_us)
        if self._due_us > now_us:
            return effects
        self._due_us = _NEVER_US
        for name, receiver in self._receivers.items():
            effects += self._ask(name, receiver, now_us)
        for name, sender in self._senders.items():
            latest = sender.on_timer(now_us)
            if latest is not None:
                effects.append(Send(name, latest))
            self._due_us = min(self._due_us, sender.due_us or _NEVER_US)
        return effects
