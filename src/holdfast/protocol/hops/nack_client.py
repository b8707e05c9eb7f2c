"""A client whose link to its broker repairs its own losses (`hops = "nack"`), where the link may lose anything.

A layer around a client, with the same links as a broker's (`nack_links`). What does not come in spite of it is named by
when it was sent (`Lost`). What the application has published counts as flushed when the broker says that it has it, and
publishing waits rather than that an event is forgotten before.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from holdfast.model.messages import AttributeValue, Message
from holdfast.protocol.effects import (
    Absence,
    Effect,
    FlushCall,
    Gauges,
    Input,
    LinkDown,
    LinkUp,
    Lost,
    PublishCall,
    Received,
    Wake,
)
from holdfast.protocol.hops.nack_links import NEVER_US, NackLinks
from holdfast.protocol.hops.nack_receiver import NackReceiver
from holdfast.protocol.hops.settings import NackSettings
from holdfast.protocol.node import ClientLayer, ClientMachine

_WAKE = Wake()


class NackClient(ClientLayer):
    def __init__(self, client: ClientMachine, settings: NackSettings) -> None:
        super().__init__(client)
        self._links = NackLinks(settings, lambda name: "broker" if name == self._broker else None, _given_up)
        self._ring = settings.ring
        self._broker: str | None = None  # that repairs as well
        self._heard_us: int | None = None  # up to when we knew of all that the last such broker had sent us

    def next_due_us(self) -> int | None:
        due_us = self.inner.next_due_us()
        if self._broker is None or self._links.due_us == NEVER_US:
            return due_us
        return self._links.due_us if due_us is None else min(self._links.due_us, due_us)

    def has_settled(self, now_us: int) -> bool:
        return self._links.settled and self.inner.has_settled(now_us)

    def gauges(self) -> Gauges:
        own = {} if self._broker is None else self._links.gauges()
        return {**self.inner.gauges(), **own}

    @property
    def has_sent_enough(self) -> bool:
        sent, confirmed = self.sent_and_confirmed
        return 2 * (sent - confirmed) > self._ring

    @property
    def sent_and_confirmed(self) -> tuple[int, int]:
        return (0, 0) if self._broker is None else self._links.progress(self._broker)

    # Inputs --------------------------------------------------------------------------------------

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        if self._broker is None:
            return self.inner.receive(sender, messages, now_us)
        return super().receive(sender, messages, now_us)

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        match given:
            case LinkUp() | LinkDown():
                return self._on_link(given, now_us)
            case Absence():
                return self.inner.handle(self._widened(given), now_us)
            case FlushCall():
                return [] if self._broker is None else [self._links.announce(self._broker)]
            case _ if self._broker is None:
                return self.inner.handle(given, now_us)
            case Received(sender=sender):
                return self._links.receive(sender, given.message, now_us, self.inner.receive)
            case PublishCall():
                return self.publish(given.attributes, given.payload, given.lifetime_us, now_us)
            case Wake():
                due_us = self.inner.next_due_us()
                is_due = due_us is not None and due_us <= now_us
                effects = self._links.out(self.inner.handle(_WAKE, now_us), now_us) if is_due else []
                return effects + self._links.on_timer(now_us)
            case _:
                return self._links.out(self.inner.handle(given, now_us), now_us)

    def _on_link(self, given: LinkUp | LinkDown, now_us: int) -> list[Effect]:
        if self._broker == given.neighbour:
            self._heard_us = self._links.heard_us(given.neighbour)
        if isinstance(given, LinkUp):
            self._broker = given.neighbour if given.repairs else None
            effects = self._links.on_link(given, True, now_us)
            return effects + self._out(self.inner.handle(given, now_us), now_us)
        effects = self._out(self.inner.handle(given, now_us), now_us)  # it takes leave, if it can
        if self._broker == given.neighbour:
            self._broker = None
            effects += self._links.on_link(given, True, now_us)
        return effects

    def _out(self, effects: list[Effect], now_us: int) -> list[Effect]:
        return effects if self._broker is None else self._links.out(effects, now_us)

    def _widened(self, absence: Absence) -> Absence:
        """An absence began no later than what we last knew of."""
        heard_us, self._heard_us = self._heard_us, None
        return absence if heard_us is None else replace(absence, since_us=min(absence.since_us, heard_us))

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
        return self._out(self.inner.publish(attributes, payload, lifetime_us, now_us, encoded, at_once), now_us)

    def publish_many(
        self, events: Sequence[Mapping[str, AttributeValue]], encoded: Sequence[bytes], now_us: int
    ) -> list[Effect]:
        return self._out(self.inner.publish_many(events, encoded, now_us), now_us)


def _given_up(broker: str, receiver: NackReceiver, now_us: int) -> list[Effect]:
    reason = f"the link from {broker} lost them, and did not bring them in time"
    return [Lost("", 0, 0, reason, receiver.lost_since_us, receiver.lost_until_us, receiver.given_up)]
