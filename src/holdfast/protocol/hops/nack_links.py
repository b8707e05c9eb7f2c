"""The numbered links of one node, broker or client: what it sends is numbered, what it misses is asked for.

A node that knows nothing of it is inside: its events are numbered on the way out, and numbered ones come in without
their numbers. Where both ends of a link have agreed on it (`LinkUp.repairs`), outages are numbered as well, a client
is told with each heartbeat how far its broker has got, and the other way round; and what is still missing when the
link ends is given up and reported.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from holdfast.model.messages import (
    Arrived,
    Batch,
    Deliver,
    Heartbeat,
    HighestSent,
    Message,
    Nack,
    NodeKind,
    Numbered,
    NumberedOutage,
    Outage,
    Publish,
    Stamped,
)
from holdfast.protocol.effects import Effect, Gauges, LinkDown, LinkUp, Multicast, Send
from holdfast.protocol.hops.nack_receiver import NackReceiver
from holdfast.protocol.hops.nack_sender import NackSender
from holdfast.protocol.hops.settings import NackSettings

NEVER_US = 2**62
_Receive = Callable[[str, Sequence[Message], int], list[Effect]]


class NackLinks:
    def __init__(
        self,
        settings: NackSettings,
        kind_of: Callable[[str], NodeKind | None],
        report: Callable[[str, NackReceiver, int], list[Effect]],
    ) -> None:
        """`kind_of` says what a neighbour is, None of a stranger; `report` what follows from events given up."""
        self.due_us = NEVER_US  # never late, sometimes early
        self._settings = settings
        self._kind_of = kind_of
        self._report = report
        self._agreed: dict[str, bool] = {}  # neighbours that repair as well; whether they or we are a client
        self._senders: dict[str, NackSender] = {}
        self._receivers: dict[str, NackReceiver] = {}

    @property
    def settled(self) -> bool:
        announced = all(each.has_announced for each in self._senders.values())
        return announced and not any(map(len, self._receivers.values()))

    def gauges(self) -> Gauges:
        kept = max(map(len, self._senders.values()), default=0)
        missing = max(map(len, self._receivers.values()), default=0)
        ring = self._settings.ring
        return {"kept for a link": (kept, ring), "missing on a link": (missing, ring)}

    def agree_with(self, neighbour: str) -> bool:
        """Whether this neighbour repairs as well."""
        return neighbour in self._agreed

    def progress(self, neighbour: str) -> tuple[int, int]:
        """The last number that was sent, and up to which all are known to have arrived."""
        sender = self._senders[neighbour]
        return sender.seq, sender.confirmed

    def heard_us(self, neighbour: str) -> int | None:
        """Up to when we know of everything that this neighbour has sent to us."""
        receiver = self._receivers.get(neighbour)
        return None if receiver is None else receiver.heard_us

    # Links ---------------------------------------------------------------------------------------

    def on_link(self, given: LinkUp | LinkDown, client: bool, now_us: int) -> list[Effect]:
        """A link begins or ends; one of its ends may be a `client`."""
        name = given.neighbour
        receiver = self._receivers.pop(name, None)
        effects: list[Effect] = []
        if receiver is not None and name in self._agreed:
            receiver.abandon()
            effects = self._reported(name, receiver, now_us)
        self._senders.pop(name, None)
        self._agreed.pop(name, None)
        if isinstance(given, LinkDown):
            return effects
        if given.repairs:
            self._agreed[name] = client
            self._senders[name] = NackSender(now_us, self._settings)
        if given.repairs or not client:
            self._receivers[name] = NackReceiver(self._settings, now_us, fresh=given.repairs)
        return effects

    # Coming in -----------------------------------------------------------------------------------

    def receive(self, sender: str, message: Message, now_us: int, inner: _Receive) -> list[Effect]:
        """What follows from a message; the node inside is given what concerns it."""
        kind = type(message)
        if kind is Numbered or kind is NumberedOutage:
            return self._on_numbered(sender, message, now_us, inner)  # type: ignore[arg-type]
        if kind is Nack:
            numbering = self._senders.get(sender)
            missing = [] if numbering is None else numbering.on_missing(message, now_us)  # type: ignore[arg-type]
            return [Send(sender, each) for each in missing]
        if kind is HighestSent:
            receiver = self._receiver(sender, now_us)
            receiver.on_latest(message, now_us)  # type: ignore[arg-type]
            effects = self._ask(sender, receiver, now_us)
            return [*effects, Send(sender, receiver.arrived())] if self._agreed.get(sender) else effects
        if kind is Arrived:
            if sender in self._senders:
                self._senders[sender].on_arrived(message)  # type: ignore[arg-type]
            return []
        effects = inner(sender, (message,), now_us)
        return self.out(effects, now_us) if effects else effects  # none, to most heartbeats

    def _on_numbered(
        self, sender: str, numbered: Numbered | NumberedOutage, now_us: int, inner: _Receive
    ) -> list[Effect]:
        receiver = self._receiver(sender, now_us)
        effects: list[Effect] = []
        if receiver.on_numbered(numbered, now_us):
            effects = self.out(inner(sender, (_carried(numbered),), now_us), now_us)
        return effects + self._ask(sender, receiver, now_us) if receiver.due_us is not None else effects

    def _receiver(self, neighbour: str, now_us: int) -> NackReceiver:
        receiver = self._receivers.get(neighbour)
        if receiver is None:
            receiver = NackReceiver(self._settings, now_us)
            if self._kind_of(neighbour) is not None:  # nothing is kept about strangers
                self._receivers[neighbour] = receiver
        return receiver

    def _ask(self, neighbour: str, receiver: NackReceiver, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if receiver.due_us is not None:
            request = receiver.ask(now_us) if receiver.due_us <= now_us else None
            if request is not None:
                effects.append(Send(neighbour, request))
            self.due_us = min(self.due_us, receiver.due_us or NEVER_US)
        return effects + self._reported(neighbour, receiver, now_us) if receiver.given_up else effects

    def _reported(self, neighbour: str, receiver: NackReceiver, now_us: int) -> list[Effect]:
        effects = self._report(neighbour, receiver, now_us) if receiver.given_up else []
        receiver.given_up = 0
        return effects

    # Going out -----------------------------------------------------------------------------------

    def out(self, effects: list[Effect], now_us: int) -> list[Effect]:
        """The same, with numbers on all events that go to brokers, and on what else is numbered by agreement."""
        out: list[Effect] = []
        for effect in effects:
            names = effect.to if type(effect) is Multicast else (effect.to,) if type(effect) is Send else ()
            message = effect.message if names else None  # type: ignore[union-attr]
            if type(message) is Publish or type(message) is Stamped:
                out += [self._numbered(name, message, now_us) for name in names]
            elif type(message) is Batch:
                out += self._numbered_batch(names, message, now_us)
            elif self._agreed and (type(message) is Deliver or type(message) is Outage):
                agreed = self._agreed
                out += [
                    self._numbered(name, message, now_us) if name in agreed else Send(name, message) for name in names
                ]
            else:
                out.append(effect)
                if type(message) is Heartbeat:
                    out += [self.announce(name) for name in names if self._agreed.get(name)]
        return out

    def _numbered(self, name: str, message: Publish | Stamped | Deliver | Outage, now_us: int) -> Effect:
        sender = self._senders.get(name)
        if sender is None:
            sender = self._senders[name] = NackSender(now_us, self._settings)
        numbered = sender.send(message, now_us)
        self.due_us = min(self.due_us, sender.due_us or NEVER_US)
        return Send(name, numbered)

    def _numbered_batch(self, names: Sequence[str], batch: Batch, now_us: int) -> list[Effect]:
        """Each event of a batch may be lost by itself, and so has its own number."""
        out: list[Effect] = []
        for name in names:
            if self._kind_of(name) != "client":
                out += [self._numbered(name, each, now_us) for each in batch.published()]
            elif name in self._agreed:
                out += [self._numbered(name, each, now_us) for each in batch.delivered()]
            else:
                out.append(Multicast((name,), batch))
        return out

    def announce(self, neighbour: str) -> Effect:
        """Say to a neighbour that repairs how far we have got."""
        return Send(neighbour, self._senders[neighbour].latest())

    # Time ----------------------------------------------------------------------------------------

    def on_timer(self, now_us: int) -> list[Effect]:
        if self.due_us > now_us:
            return []
        effects: list[Effect] = []
        self.due_us = NEVER_US
        for name, receiver in self._receivers.items():
            effects += self._ask(name, receiver, now_us)
        for name, sender in self._senders.items():
            latest = sender.on_timer(now_us)
            if latest is not None:
                effects.append(Send(name, latest))
            self.due_us = min(self.due_us, sender.due_us or NEVER_US)
        return effects


def _carried(numbered: Numbered | NumberedOutage) -> Message:
    if isinstance(numbered, NumberedOutage):
        return numbered.outage
    return replace(numbered.publish, via="retransmission") if numbered.again else numbered.publish
