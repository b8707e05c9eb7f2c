"""The contract between machines and drivers: a node, and a layer around a node.

A node takes an input and the time, returns effects, says when it is next due, and answers for itself. A driver knows
nothing else about it. Mechanisms compose in one way only: each is a layer, a node around a node. It sees the inputs
before the node inside does, and the effects before the driver does; what does not concern it passes through.
`protocol/stack.py` puts layers together.
"""

from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from holdfast.model.messages import Message, NodeKind
from holdfast.protocol.effects import Effect, Gauges, Input, Received


class Node(Protocol):
    """What drivers run."""

    @property
    def name(self) -> str: ...

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        """What follows from one input."""
        ...

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        """What `Received` with each of these messages would do, in one call: the messages of one frame."""
        ...

    def next_due_us(self) -> int | None:
        """When it wants a `Wake`; None if only another input can change anything."""
        ...

    def has_settled(self, now_us: int) -> bool:
        """Whether it has nothing left to recover, to release or to announce."""
        ...

    def gauges(self) -> Gauges:
        """What it holds, each with its limit."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """What it has done to recover losses, by its own count."""
        ...


N = TypeVar("N", bound=Node)


class Layer(Generic[N]):
    """A node around a node: passes everything through. A mechanism overrides what concerns it."""

    def __init__(self, inner: N) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        return self.inner.handle(given, now_us)

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for message in messages:
            effects += self.handle(Received(sender, message), now_us)
        return effects

    def next_due_us(self) -> int | None:
        return self.inner.next_due_us()

    def has_settled(self, now_us: int) -> bool:
        return self.inner.has_settled(now_us)

    def gauges(self) -> Gauges:
        return self.inner.gauges()

    @property
    def counts(self) -> Mapping[str, int]:
        return self.inner.counts


class BrokerMachine(Node, Protocol):
    """A node that others attach to."""

    def next_due_us(self) -> int: ...

    def kind_of(self, neighbour: str) -> NodeKind | None:
        """What a neighbour is; None if it is not known here."""
        ...

    def keeps_for(self, client: str) -> bool:
        """Whether it has anything that a durable client of this name would come back to."""
        ...


B = TypeVar("B", bound=BrokerMachine)


class BrokerLayer(Layer[B]):
    """A broker around a broker."""

    def next_due_us(self) -> int:
        return self.inner.next_due_us()

    def kind_of(self, neighbour: str) -> NodeKind | None:
        return self.inner.kind_of(neighbour)

    def keeps_for(self, client: str) -> bool:
        return self.inner.keeps_for(client)
