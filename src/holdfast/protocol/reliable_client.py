"""What a client does beyond best effort, as layers around it: `Ordered(Recovering(CoreClient))`.

The client matches an event and drops duplicates. `Recovering` sees what is delivered, finds out what is missing, and
brings it back: control messages never reach the client inside, and what a repair brings does as if it had just arrived.
`Ordered` holds back what came after a missing event: strictly, until recovery knows that nothing earlier is missing, or
(`fifo` without recovery) by a latch, as long as it is likely to come. Either mechanism works without the other: to keep
the order alone, recovery only looks at the records that publications carry and requests nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from holdfast.language.subscription import Subscription
from holdfast.model.errors import PeerError
from holdfast.model.messages import (
    AttributeValue,
    Batch,
    Deliver,
    Message,
    Outage,
    Publication,
    Publish,
    with_statement,
)
from holdfast.protocol.client import CoreClient
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Absence,
    Delivered,
    DeliveredBatch,
    Effect,
    Gauges,
    Incident,
    Input,
    LinkUp,
    Lost,
    PublishCall,
    Received,
    Send,
    SubscribeCall,
    UnsubscribeCall,
    Wake,
)
from holdfast.protocol.node import ClientLayer, sooner
from holdfast.protocol.order.latch import Decision, Dropped, Latch
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.order.strict import StrictQueue
from holdfast.protocol.recovery.control import CONTROL_SEQ
from holdfast.protocol.recovery.recovery import Gaps, Recovery
from holdfast.protocol.signing import UNVERIFIED

EXPIRED = "its lifetime was over when it arrived"


class Recovering(ClientLayer):
    def __init__(self, client: CoreClient, recovery: Recovery, book: ConditionBook, now_us: int) -> None:
        super().__init__(client)
        self._client = client
        self._recovery = recovery
        self._book = book
        self._subscriptions: dict[str, tuple[int, Subscription]] = {}  # since when each is live
        self._states = False  # whether we state what we have published, which only a link that loses nothing may carry
        self._stated = 0  # up to here our broker has been sent all that we have published, or will have no more of it
        recovery.start(now_us)

    def next_due_us(self) -> int | None:
        recovery_us = self._recovery.next_due_us() if self._client.broker is not None else None
        return sooner(self.inner.next_due_us(), recovery_us)

    def has_settled(self, now_us: int) -> bool:
        return self._recovery.settled

    @property
    def has_announced(self) -> bool:
        return self._recovery.has_announced

    def missing(self) -> list[tuple[str, int, int]]:
        return self._recovery.missing()

    def gauges(self) -> Gauges:
        return {**self.inner.gauges(), **self._recovery.gauges()}

    @property
    def counts(self) -> Mapping[str, int]:
        return self._recovery.counts

    @property
    def phases_us(self) -> Mapping[str, Iterable[int]]:
        return self._recovery.phases_us

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        if type(given) is PublishCall:
            return self.publish(given.attributes, given.payload, given.lifetime_us, now_us)
        if type(given) is Wake:
            return self._on_wake(now_us)
        match given:
            case Received():
                return self.receive(given.sender, (given.message,), now_us)
            case LinkUp():
                self._states = given.reliable
                self._recovery.on_link(given.reliable)
                effects = self._with_statements(self.inner.handle(given, now_us))
                if self.last_seq >= self._client.first_seq:
                    self._stated = self.last_seq  # what an earlier broker did not get, this one does not know of
                return effects
            case Absence():
                return self.inner.handle(given, now_us) + self._recovery.on_absence(now_us)
            case SubscribeCall() | UnsubscribeCall():
                return self._on_subscriptions(given, now_us)
            case _:
                return self._with_statements(self.inner.handle(given, now_us))

    def _on_subscriptions(self, call: SubscribeCall | UnsubscribeCall, now_us: int) -> list[Effect]:
        """Which losses matter has changed."""
        if isinstance(call, SubscribeCall) == (call.id in self._subscriptions):
            return self.inner.handle(call, now_us)  # which raises
        if isinstance(call, SubscribeCall):
            self._subscriptions[call.id] = now_us, self._book.subscription(call.condition)
        else:
            del self._subscriptions[call.id]
        followed = self._recovery.on_subscriptions(self._subscriptions.values(), now_us)
        return self.inner.handle(call, now_us) + followed

    def _on_wake(self, now_us: int) -> list[Effect]:
        effects = self._with_statements(self.inner.handle(Wake(), now_us))
        if self._client.broker is None:  # then nothing is requested
            return effects
        if self._states and self.last_seq >= self._client.first_seq and self._recovery.announces(now_us):
            effects.append(self._statement(self._client.broker))
        return effects + self._recovery.on_timer(now_us)

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
        seq = self._client.last_seq + 1
        record = self._recovery.record_for(seq, now_us)
        effects = self._client.publish(attributes, payload, lifetime_us, now_us, encoded, at_once, record)
        kept = Publication(self.name, seq, now_us, lifetime_us, dict(attributes), payload, record)
        self._recovery.on_published(kept, now_us)
        return self._with_statements(effects) if effects else effects

    def _with_statements(self, effects: list[Effect]) -> list[Effect]:
        """What is sent of our events, and after it that this was all, or whoever keeps the order would wait for it."""
        if not self._states:
            return effects
        stating: list[Effect] = []
        for effect in effects:
            if type(effect) is Send and type(effect.message) is Batch:
                since, self._stated = self._stated + 1, effect.message.seqs[-1]
                stating.append(Send(effect.to, with_statement(effect.message, 0, since, self._stated)))
                continue
            stating.append(effect)
            if type(effect) is Send and type(effect.message) is Publish and not effect.message.publication.record:
                stating.append(self._statement(effect.to))
        return stating

    def _statement(self, broker: str) -> Effect:
        """All that we have published was sent before this."""
        last = self.last_seq
        since, self._stated = min(self._stated + 1, last), last
        return Send(broker, Batch((), self.name, (), (), (), 0, since, last))

    # Receiving -----------------------------------------------------------------------------------

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        if len(messages) == 1 and type(messages[0]) is Deliver:
            return self._on_deliver(sender, messages[0], now_us)
        effects: list[Effect] = []
        for message in messages:
            if type(message) is Deliver:
                effects += self._on_deliver(sender, message, now_us)
            elif type(message) is Batch:
                effects += self._on_batch(sender, message, now_us)
            else:
                heard = self.inner.receive(sender, (message,), now_us)
                effects += heard
                if type(message) is Outage and any(type(each) is Lost for each in heard):
                    effects += self._recovery.on_absence(now_us)
        return effects

    def _on_deliver(self, sender: str, deliver: Deliver, now_us: int) -> list[Effect]:
        if deliver.publication.seq == CONTROL_SEQ:
            return self._on_control_message(sender, deliver.publication, now_us)
        effects: list[Effect] = []
        for effect in self.inner.receive(sender, (deliver,), now_us):
            effects.append(effect)
            if type(effect) is Delivered and effect.publication.source != self.name:  # nobody announces to us our own
                effects += self._recovery.on_event(effect.publication, effect.via, now_us)
            elif type(effect) is Incident and effect.kind == "expired" and effect.source != self.name:
                effects += self._on_expired(deliver, now_us)
            elif type(effect) is Incident and effect.kind == UNVERIFIED:
                effects += self._on_unverified(effect, now_us)
        return effects

    def _on_unverified(self, refused: Incident, now_us: int) -> list[Effect]:
        """It has not come, then; its publisher has it, unless there is none who could sign it."""
        if refused.source == self.name or not self._client.may_be_signed(refused.source):
            return [Lost(refused.source, refused.first, refused.first, refused.reason)]
        return self._recovery.on_refused(refused.source, refused.first, refused.reason, now_us)

    def _on_expired(self, deliver: Deliver, now_us: int) -> list[Effect]:
        """It is lost, and we know it: so it is named, and not requested."""
        publication = deliver.publication
        if not self._client.notes_expired(publication):
            return []
        lost = Lost(publication.source, publication.seq, publication.seq, EXPIRED)
        return [lost, *self._recovery.on_event(publication, deliver.via, now_us)]

    def _on_batch(self, sender: str, batch: Batch, now_us: int) -> list[Effect]:
        if CONTROL_SEQ in batch.seqs:
            return self.receive(sender, batch.delivered(), now_us)
        effects = self.inner.receive(sender, (batch,), now_us)
        unverified = [each for each in effects if type(each) is Incident and each.kind == UNVERIFIED]
        first = effects[0] if effects else None
        if batch.source != self.name:
            seqs = [each.seq for each in first.publications] if type(first) is DeliveredBatch else []
            effects += self._recovery.on_batch(batch, seqs, self._client.is_known, now_us)
        for each in unverified:
            effects += self._on_unverified(each, now_us)
        return effects

    def _on_control_message(self, sender: str, publication: Publication, now_us: int) -> list[Effect]:
        try:
            effects, repaired = self._recovery.on_control(publication, now_us)
        except PeerError:
            return [Incident("bad_recovery_message", source=publication.source)]
        for each in repaired:
            came = self._on_deliver(sender, Deliver(each, "repair"), now_us)
            effects += came
            if not any(type(one) is Incident and one.kind == UNVERIFIED for one in came):
                self._recovery.on_repaired(each, now_us)
        return effects


class Ordered(ClientLayer):
    """Holds back deliveries by the gaps that the recovery inside knows of."""

    def __init__(self, recovering: ClientLayer, gaps: Gaps, settings: LatchSettings, recovers: bool) -> None:
        super().__init__(recovering)
        self._gaps = gaps
        self._queue: Latch[Delivered] | StrictQueue[Delivered]
        self._strict: StrictQueue[Delivered] | None = None
        self._latch: Latch[Delivered] | None = None
        # What is lost comes back where it is requested, and fifo has to wait for it as strict does: a client loses too
        # little of a source to learn how long repairs take, and half of the losses are of numbers not yet announced.
        if settings.mode == "strict" or recovers:
            self._queue = self._strict = StrictQueue(settings)
        else:
            self._queue = self._latch = Latch(settings)

    def next_due_us(self) -> int | None:
        return sooner(self.inner.next_due_us(), self._queue.next_due_us())

    def has_settled(self, now_us: int) -> bool:
        return self.inner.has_settled(now_us) and not self._queue.blocked

    def held(self, id_: str | None = None) -> int:
        return sum(id_ is None or id_ in each.subscriptions for each in self._queue.held())

    def gauges(self) -> Gauges:
        return {**self.inner.gauges(), **self._queue.gauges()}

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        if type(given) is Received:
            return self.receive(given.sender, (given.message,), now_us)
        effects = self._in_order(self.inner.handle(given, now_us), now_us)
        if type(given) is Wake:
            if self._strict is not None:
                for each in self._strict.blocked:
                    effects += _released(self._strict.on_frontier(each, self._gaps.frontier(each), now_us))
                effects += self._give_up_overdue(self._strict, now_us)
            elif self._latch is not None:
                effects += _released(self._latch.on_timer(now_us))
                effects += self._advance(self._latch.blocked, now_us)
        return effects

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for message in messages:
            came = self.inner.receive(sender, messages if len(messages) == 1 else (message,), now_us)
            if type(message) is Deliver:
                about: str | None = message.publication.source
            else:
                about = message.source if type(message) is Batch else None
            effects += self._in_order(came, now_us, about)
            if about is not None:
                if self._strict is None:
                    effects += self._advance([about], now_us)
                elif self._strict.too_many:
                    effects += self._give_up_overdue(self._strict, now_us)
        return effects

    def _in_order(self, effects: list[Effect], now_us: int, about: str | None = None) -> list[Effect]:
        """The same effects with those deliveries that may go, and after a loss what need not wait for it any more.

        What is missing of the source that they are `about` may have become less, or clearer.
        """
        strict = self._strict
        if strict is not None and len(effects) <= 1:  # as nearly always
            if effects and type(effects[0]) is Delivered:
                if self._goes_at_once(strict, effects[0].publication):
                    return effects
            elif about is None or not strict.holds(about):
                if not effects or type(effects[0]) is not DeliveredBatch:
                    return effects
        ordered: list[Effect] = []
        came: dict[str, None] = {}
        for effect in effects:
            if type(effect) is Delivered:
                came[effect.publication.source] = None
                ordered += self._on_delivered(effect, now_us)
            elif type(effect) is DeliveredBatch:
                if self._passes(effect.publications, now_us):
                    ordered.append(effect)
                    continue
                came[effect.publications[0].source] = None
                for publication, ids in zip(effect.publications, effect.subscriptions, strict=True):
                    ordered += self._on_delivered(Delivered(publication, tuple(ids), "original"), now_us)
            else:
                ordered.append(effect)
                if type(effect) is Lost and self._latch is not None and effect.source:
                    for seq in self._latch.awaited_within(effect.source, effect.first, effect.last):
                        ordered += _released(self._latch.on_lost(effect.source, seq, now_us))
        if self._strict is not None:  # when all have come: a repair brings several, and nothing below them is missing
            if about is not None:
                came[about] = None
            for source in came:
                if self._strict.holds(source):
                    ordered += _released(self._strict.on_frontier(source, self._gaps.frontier(source), now_us))
        return ordered

    def _goes_at_once(self, strict: StrictQueue[Delivered], publication: Publication) -> bool:
        source = publication.source
        if strict.holds(source):
            return False
        return strict.passes(source, (publication.seq,), publication.time_us, self._gaps.frontier(source))

    def _on_delivered(self, delivered: Delivered, now_us: int) -> list[Effect]:
        publication = delivered.publication
        source, seq, departure_us = publication.source, publication.seq, publication.time_us
        if self._strict is not None:
            return _released(self._strict.on_message(source, seq, departure_us, now_us, 0, delivered))
        if source == self.name:  # our own come as we have published them: nobody learns from their delays
            return [delivered]
        assert self._latch is not None
        gaps, is_repair = self._gaps.noticed(source, seq), delivered.via != "original"
        return _released(self._latch.on_message(source, seq, departure_us, now_us, gaps, delivered, is_repair))

    def _passes(self, publications: list[Publication], now_us: int) -> bool:
        """Whether events that came in a row are in order as they are, and nothing earlier is missing."""
        source, departure_us = publications[-1].source, publications[-1].time_us
        seqs = [each.seq for each in publications]
        if any([after <= before for before, after in pairwise(seqs)]):
            return False
        if self._strict is not None:
            return self._strict.passes(source, seqs, departure_us, self._gaps.frontier(source))
        if source == self.name:
            return True
        assert self._latch is not None
        return not self._gaps.has_noticed(source) and self._latch.passes(source, seqs, departure_us, now_us)

    def _advance(self, sources: Iterable[str], now_us: int) -> list[Effect]:
        """What is missing of these may have become less, or clearer."""
        assert self._latch is not None
        effects: list[Effect] = []
        for each in sources:
            cleared = self._gaps.cleared(each)
            top = self._latch.highest_held(each) if cleared else None
            if top is not None:  # first wait for what is missing in the range, then let go of what stood for it
                self._latch.await_also(each, self._gaps.noticed(each, top), now_us)
                for seq in cleared:
                    effects += _released(self._latch.on_lost(each, seq, now_us))
        return effects

    def _give_up_overdue(self, strict: StrictQueue[Delivered], now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for each, seq, reason in strict.overdue(now_us):
            effects += self._gaps.give_up_below(each, seq, reason)
            effects += _released(strict.on_frontier(each, self._gaps.frontier(each), now_us))
        return effects


def _released(decisions: list[Decision[Delivered]]) -> list[Effect]:
    effects: list[Effect] = []
    for decision in decisions:
        delivered = decision.item
        publication = delivered.publication
        if isinstance(decision, Dropped):
            effects.append(Incident("out_of_order", source=publication.source, first=publication.seq))
        elif decision.held_us:
            effects.append(Delivered(publication, delivered.subscriptions, delivered.via, decision.held_us))
        else:
            effects.append(delivered)
    return effects
