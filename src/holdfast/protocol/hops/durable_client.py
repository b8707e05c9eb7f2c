"""A client of brokers that store events: it keeps its publications until a broker has stored them, and acknowledges.

A layer around a client. While there is no broker, or the broker is down, publications wait and go to the next one. What
the broker hands over is handled in order and each once, also when the broker crashed in between.

Its subscriptions outlive it: it leaves without a `Detach`, and the broker keeps its table and its events until it is
back. Where the application `confirms`, events are handed out when it has subscribed to all that it wants (`Begin`), and
acknowledged when it is done with them (`Consumed`).
"""

from collections.abc import Mapping, Sequence

from holdfast.model.messages import (
    AttributeValue,
    Batch,
    Detach,
    GivenUp,
    Handover,
    Heartbeat,
    Message,
    Publication,
    Publish,
    Snapshot,
    StoredAck,
)
from holdfast.protocol.effects import (
    Absence,
    Acknowledged,
    Begin,
    Consumed,
    Effect,
    ForgetCall,
    Gauges,
    HandedOut,
    Incident,
    Input,
    LinkDown,
    LinkUp,
    PublishCall,
    Published,
    Received,
    Send,
    SubscribeCall,
    UnsubscribeCall,
    Wake,
)
from holdfast.protocol.hops.incoming import Incoming
from holdfast.protocol.hops.outgoing import KeptMessage, Outgoing
from holdfast.protocol.hops.settings import HandoverSettings
from holdfast.protocol.hops.unfinished import HandingOut
from holdfast.protocol.node import ClientLayer, ClientMachine, sooner
from holdfast.protocol.recovery.control import CONTROL_SEQ
from holdfast.protocol.store_changes import Body

BATCH_STORED_MAX = 256  # events in one message: what the broker's store then writes as one row
_FOR_EVER_US = 2**61
_ACKNOWLEDGES, _NOT_YET = StoredAck(0, 0), StoredAck(0, 1)


class DurableClient(ClientLayer):
    def __init__(self, client: ClientMachine, settings: HandoverSettings, confirms: bool = False) -> None:
        super().__init__(client)
        self._settings = settings
        self._incoming: dict[str, Incoming] = {}  # by broker: we may come back to one
        self._broker: str | None = None
        self._link: LinkUp | None = None  # the last one
        self._outgoing = Outgoing(0, settings)
        self._for: str | None = None  # the broker whose numbers these are
        self._unacknowledged = 0  # publications
        self._out = HandingOut(settings.untaken_max, settings.window) if confirms else None
        self._before = 0  # of the batch that the application is at, it is done with all before this number
        self._handed_out_to = 0  # the token of the last `HandedOut`
        self._begun = not confirms
        self._subscriptions = 0
        self._left: tuple[str, int] | None = None  # the broker that we are away from, and since when
        self._given_up: dict[str, tuple[int, int]] = {}  # by broker, what it last gave up: since when and how many

    @property
    def unacknowledged(self) -> int:
        return self._unacknowledged

    @property
    def is_full(self) -> bool:
        return self._unacknowledged >= self._settings.published_max

    @property
    def handed_over(self) -> tuple[int, int]:
        return self._outgoing.stream, self._outgoing.seq

    def has_settled(self, now_us: int) -> bool:
        return self.inner.has_settled(now_us) and not self._unacknowledged

    def gauges(self) -> Gauges:
        untaken = 0 if self._out is None else self._out.untaken
        return {
            **self.inner.gauges(),
            "not acknowledged": (self._unacknowledged, self._settings.published_max),
            "not taken": (untaken, self._settings.handed_out_max),
        }

    def next_due_us(self) -> int | None:
        return sooner(self.inner.next_due_us(), self._outgoing.due_us if self._broker else None)

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        handed = False
        for message in messages:
            if type(message) is Handover:
                handed = True
                effects += self._on_handover(sender, message, now_us)
            elif type(message) is StoredAck:
                effects += self._on_acknowledged(message, now_us)
            elif type(message) is GivenUp:
                effects += self._on_given_up(sender, message, now_us)
            else:
                effects += self._unless_early(self.inner.receive(sender, (message,), now_us))
                effects += self._handed_out() if self._out is not None else []
        if handed and sender in self._incoming:
            effects += [*self._hand_out(now_us), Send(sender, self._acknowledgement(sender))]
        return effects

    def _unless_early(self, effects: list[Effect]) -> list[Effect]:
        """Before we have begun the broker has the table of an earlier life, which is not to be mended yet."""
        if self._begun:
            return effects
        return [each for each in effects if not (isinstance(each, Send) and isinstance(each.message, Snapshot))]

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        match given:
            case Received():
                return self.receive(given.sender, (given.message,), now_us)
            case PublishCall():
                return self.publish(given.attributes, given.payload, given.lifetime_us, now_us)
            case Wake():
                return self._on_wake(now_us)
            case LinkUp():
                return self._attach(given, now_us)
            case LinkDown():
                return self._detach(given, now_us)
            case Begin():
                return self._begin()
            case Consumed():
                return self._on_consumed(given, now_us)
            case ForgetCall():
                return self._leave_for_good(given, now_us)
            case SubscribeCall() | UnsubscribeCall():
                self._subscriptions += 1 if isinstance(given, SubscribeCall) else -1
                return self.inner.handle(given, now_us)
            case _:
                return self.inner.handle(given, now_us)

    # Publishing ----------------------------------------------------------------------------------

    def publish(
        self,
        attributes: Mapping[str, AttributeValue],
        payload: bytes,
        lifetime_us: int | None,
        now_us: int,
        encoded: bytes | None = None,
        at_once: bool = False,
    ) -> list[Effect]:
        if self.is_full:
            return [Incident("unacknowledged_limit", self.name)]
        self._unacknowledged += 1
        return self._handed_over(self.inner.publish(attributes, payload, lifetime_us, now_us, encoded, at_once), now_us)

    def _handed_over(self, effects: list[Effect], now_us: int) -> list[Effect]:
        """The same effects, but our publications are handed over, also while there is no broker."""
        instead: list[Effect] = []
        published: Publication | None = None
        for effect in effects:
            message = effect.message if type(effect) is Send else None
            if type(effect) is Published:
                published = effect.publication
                instead.append(effect)
            elif type(effect) is Incident and effect.kind == "published_while_detached":
                assert published is not None
                instead += self._put(Publish(published), now_us)
            elif type(message) is Publish and message.publication.seq != CONTROL_SEQ:
                instead += self._put(message, now_us)
            elif type(message) is Batch and not message.seqs:
                continue  # a statement that all was sent, while some of it waits here
            elif type(message) is Batch:
                instead += self._put(message, now_us)
            else:
                instead.append(effect)
        return instead

    def _put(self, message: Body, now_us: int) -> list[Effect]:
        self._outgoing.put(KeptMessage(0, message, now_us, _FOR_EVER_US))
        return self._hand_over(self._outgoing.release(self._outgoing.seq, now_us)) if self._broker else []

    def _hand_over(self, handovers: list[Handover]) -> list[Effect]:
        assert self._broker is not None
        return [Send(self._broker, each) for each in handovers]

    def _on_acknowledged(self, ack: StoredAck, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for kept in self._outgoing.on_ack(ack, now_us):
            self._unacknowledged -= kept.events
            message = kept.message
            seqs = message.seqs if isinstance(message, Batch) else (message.publication.seq,)
            effects.append(Acknowledged(seqs[0], seqs[-1]))
        if self._broker is not None:
            again = [*self._outgoing.missed(ack, now_us), *self._outgoing.fill(now_us)]
            effects += self._hand_over(again)
        return effects

    # The broker ----------------------------------------------------------------------------------

    def _attach(self, given: LinkUp, now_us: int) -> list[Effect]:
        effects = self._away_from_another(given.neighbour, now_us)
        self._broker, self._left, self._link = given.neighbour, None, given
        for each in _without_detach(self._handed_over(self.inner.handle(given, now_us), now_us)):
            effects.append(each)
            if isinstance(each, Send) and isinstance(each.message, Heartbeat):  # it belongs to this incarnation of us
                effects.append(Send(self._broker, _ACKNOWLEDGES if self._begun else _NOT_YET))
        if self._broker in self._incoming:
            effects.append(Send(self._broker, self._acknowledgement(self._broker)))
        if self._for != self._broker:
            self._for = self._broker
            waiting = self._outgoing.kept()
            self._outgoing = Outgoing(now_us, self._settings)
            for kept in waiting:
                self._outgoing.put(kept)
            return effects + self._hand_over(self._outgoing.release(self._outgoing.seq, now_us))
        self._outgoing.release(self._outgoing.seq, now_us)
        return effects + self._hand_over(self._outgoing.try_again(now_us))

    def _away_from_another(self, broker: str, now_us: int) -> list[Effect]:
        """What was for us while we were away is kept at the broker that we left, and this is another."""
        if self._left is None or self._left[0] == broker or not self._subscriptions:
            return []
        left, since_us = self._left
        reason = f"the events of the meantime are stored at {left}, and this is {broker}"
        return self.inner.handle(Absence(since_us, now_us, reason), now_us)

    def _detach(self, given: LinkDown, now_us: int) -> list[Effect]:
        if given.neighbour == self._broker:
            self._left, self._broker = (self._broker, now_us), None
        return _without_detach(self._handed_over(self.inner.handle(given, now_us), now_us))

    def _leave_for_good(self, call: ForgetCall, now_us: int) -> list[Effect]:
        if self._broker is None or self._link is None:
            return []
        effects = self._handed_over(self.inner.handle(LinkDown(self._broker), now_us), now_us)
        if call.stays:
            return effects + self._attach(self._link, now_us)
        self._broker = None
        return effects

    def _begin(self) -> list[Effect]:
        if self._begun:
            return []
        self._begun = True
        return [] if self._broker is None else [Send(self._broker, _ACKNOWLEDGES)]

    # What comes ----------------------------------------------------------------------------------

    def _on_given_up(self, sender: str, given_up: GivenUp, now_us: int) -> list[Effect]:
        heard: list[Effect] = [Send(sender, given_up)]
        about = given_up.since_us, given_up.events
        if self._given_up.get(sender) == about:
            return heard
        self._given_up[sender] = about
        absence = Absence(given_up.since_us, given_up.until_us, given_up.reason, given_up.events)
        return heard + self.inner.handle(absence, now_us)

    def _acknowledgement(self, broker: str) -> StoredAck:
        incoming = self._incoming[broker]
        ack = incoming.ack
        if incoming.accepted == incoming.stored:
            return ack
        return StoredAck(ack.stream, ack.seq, ack.missing, incoming.accepted, self._before)

    def _on_consumed(self, given: Consumed, now_us: int) -> list[Effect]:
        assert self._out is not None
        done = given.seq > 0
        self._before = 0
        for broker, stream, seq in self._out.consumed(given.token):
            incoming = self._incoming[broker]
            if incoming.stream == stream:
                incoming.stored = max(incoming.stored, seq)
            done = done or broker == self._broker
        if self._broker is not None and given.seq:
            self._before = self._out.batch_done_to(self._broker, given.source, given.seq)
        effects = self._hand_out(now_us)
        if done and self._broker is not None:
            effects.append(Send(self._broker, self._acknowledgement(self._broker)))
        return effects

    def _on_handover(self, sender: str, handover: Handover, now_us: int) -> list[Effect]:
        if not self._begun or (self._out is not None and self._out.full):
            return []  # it comes again
        incoming = self._incoming.get(sender)
        if incoming is None:
            incoming = self._incoming[sender] = Incoming(self._settings.window)
        accepted = incoming.take(handover) or []
        if self._out is None:
            ready = [each for each in accepted if each is not None]
            incoming.stored = incoming.accepted
            return self.inner.receive(sender, ready, now_us) if ready else []
        for seq, each in enumerate(accepted, incoming.accepted - len(accepted) + 1):
            self._out.put((sender, incoming.stream, seq), each)
        return []

    def _hand_out(self, now_us: int) -> list[Effect]:
        """To the application, as much as it may have at a time."""
        if self._out is None:
            return []
        effects: list[Effect] = []
        while (found := self._out.next()) is not None:
            broker, message = found
            effects += self.inner.receive(broker, (message,), now_us) if message is not None else []
            effects += self._handed_out()
        return effects

    def _handed_out(self) -> list[Effect]:
        """The application has all of it, unless something is held back for the sake of order."""
        assert self._out is not None
        if self.inner.held() or self._handed_out_to == self._out.token:
            return []
        self._handed_out_to = self._out.token
        return [HandedOut(self._out.token)]

    def _on_wake(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        due_us = self.inner.next_due_us()
        if due_us is not None and due_us <= now_us:
            effects += self._handed_over(self.inner.handle(Wake(), now_us), now_us)
            effects += self._handed_out() if self._out is not None else []
        if self._broker is not None:
            effects += self._hand_over(self._outgoing.on_timer(now_us))
        return effects


def _without_detach(effects: list[Effect]) -> list[Effect]:
    """What the broker has of us is to stay."""
    return [each for each in effects if not (isinstance(each, Send) and isinstance(each.message, Detach))]
