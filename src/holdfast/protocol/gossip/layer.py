"""The layer that makes a broker recover losses by gossip.

Events that the broker does not refuse take their way through `gossip`, and so does what brokers say to each other
about them. Everything else is the broker's own.
"""

from collections.abc import Sequence
from typing import get_args

from holdfast.model.messages import Batch, Message, Publish, Stamped
from holdfast.model.messages import Gossip as GossipMessage
from holdfast.protocol.broker import CoreBroker
from holdfast.protocol.effects import Effect, Gauges, Input, Received, Wake
from holdfast.protocol.gossip.classes import tag_of
from holdfast.protocol.gossip.gossip import Gossip
from holdfast.protocol.node import BrokerLayer, GossipBeginning

_BETWEEN_BROKERS = get_args(GossipMessage)


class GossipLayer(BrokerLayer[CoreBroker]):
    def __init__(self, broker: CoreBroker, gossip: Gossip) -> None:
        super().__init__(broker)
        self._gossip = gossip

    def begin_elsewhere(self) -> GossipBeginning:
        return self._gossip.begin_elsewhere()

    def take_appeared(self) -> list[str]:
        return self._gossip.take_appeared()

    @property
    def wanted(self) -> dict[str, int]:
        return self._gossip.wanted

    def tag_of(self, condition: str) -> int:
        return tag_of(condition)

    def next_due_us(self) -> int:
        due_us, round_us = self.inner.next_due_us(), self._gossip.due_us
        return due_us if round_us is None or due_us < round_us else round_us

    def has_settled(self, now_us: int) -> bool:
        return self._gossip.has_settled(now_us)

    @property
    def counts(self) -> dict[str, int]:
        return self._gossip.counts

    def gauges(self) -> Gauges:
        return {**self.inner.gauges(), **self._gossip.gauges()}

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        if len(messages) == 1:  # nearly always
            return self._on_received(sender, messages[0], now_us)
        return [effect for each in messages for effect in self._on_received(sender, each, now_us)]

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        if type(given) is Received:
            return self._on_received(given.sender, given.message, now_us)
        effects = self.inner.handle(given, now_us)
        return effects + self._gossip.on_timer(now_us) if type(given) is Wake else effects

    def _on_received(self, sender: str, message: Message, now_us: int) -> list[Effect]:
        if type(message) is Stamped or type(message) is Publish or type(message) is Batch:
            refused = self.inner.refusal(sender, message, now_us)
            if refused is not None:
                return [refused]
            from_client, on_event = self.inner.kind_of(sender) == "client", self._gossip.on_event
            if not isinstance(message, Batch):
                return on_event(sender, from_client, message, now_us)
            singles = message.published()
            return [effect for each in singles for effect in on_event(sender, from_client, each, now_us)]
        if isinstance(message, _BETWEEN_BROKERS):
            kind = self.inner.kind_of(sender)
            if kind == "broker":
                return self.inner.heard(sender, now_us) + self._gossip.on_message(sender, message, now_us)
            if kind is None and self._gossip.by_unicast:
                return self._gossip.on_message(sender, message, now_us)
        return self.inner.receive(sender, (message,), now_us)
