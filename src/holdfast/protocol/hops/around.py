"""A broker around a broker that knows nothing of it: what `nack`, `durable` and `multipath` have in common."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from holdfast.model.messages import Message, NodeKind
from holdfast.protocol.broker import Broker
from holdfast.protocol.effects import Effect, Input, Received


class AroundBroker(ABC):
    def __init__(self, broker: Broker) -> None:
        self.name = broker.name
        self.broker = broker

    @abstractmethod
    def handle(self, given: Input, now_us: int) -> list[Effect]: ...

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        """What `Received` with each of these would do, in one go."""
        effects: list[Effect] = []
        for message in messages:
            effects += self.handle(Received(sender, message), now_us)
        return effects

    def has_settled(self, now_us: int) -> bool:
        return self.broker.has_settled(now_us)

    @property
    def counts(self) -> dict[str, int]:
        return self.broker.counts

    def kind_of(self, neighbour: str) -> NodeKind | None:
        return self.broker.kind_of(neighbour)
