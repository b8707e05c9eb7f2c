"""The contract between machines and drivers: a node, and a layer around a node.

A node takes an input and the time, returns effects, says when it is next due, and answers for itself. A driver knows
nothing else about it. Mechanisms compose in one way only: each is a layer, a node around a node. It sees the inputs
before the node inside does, and the effects before the driver does; what does not concern it passes through.
`protocol/stack.py` puts layers together.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from holdfast.model.messages import AttributeValue, Heartbeat, Message, NodeKind, Publication
from holdfast.protocol.effects import Effect, Gauges, Input, PassedOn, Received
from holdfast.protocol.store_changes import Body


def sooner(one_us: int | None, other_us: int | None) -> int | None:
    """The earlier of two times, each of which may be never: when somebody with two timers is due."""
    if one_us is None or other_us is None:
        return other_us if one_us is None else one_us
    return one_us if one_us < other_us else other_us


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

    def beat(self, now_us: int) -> tuple[str, Heartbeat] | None:
        """What a `Wake` does where it sends a heartbeat, and to whom; None: nothing is done, as more may follow."""
        ...

    def hears(self, sender: str, heartbeat: Heartbeat, now_us: int) -> bool:
        """Whether a heartbeat only says that the sender is there, as nearly all do: then that is noted, and all that
        `receive` would do. A driver that has very many may ask this first.
        """
        ...

    def passes_on(self, sender: str, message: Message, now_us: int) -> PassedOn | None:
        """What `receive` would do where it only sends an event on, as brokers mostly do; None where more may follow.

        Nothing has to be looked at afterwards. What this returns None for is to be handed over to `receive`.
        """
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


@runtime_checkable
class Routes(Protocol):
    """What a node offers besides if it keeps nothing about events: where it sends one follows from this alone.

    A driver may then work out the ways of many events at once instead of handing over each.
    """

    @property
    def routes_version(self) -> int:
        """Goes up whenever an event may begin to take another way from here."""
        ...

    def routes(self) -> tuple[Mapping[str, int], dict[str, int]]:
        """Each condition with the neighbours that want it, one bit each; and each neighbour's bit."""
        ...

    def knows(self, neighbour: str) -> bool:
        """Whether events from this neighbour are sent on."""
        ...


@runtime_checkable
class Asks(Protocol):
    """What a node offers besides if it asks others for what it has lost."""

    @property
    def phases_us(self) -> Mapping[str, Iterable[int]]:
        """How long each phase of its last recoveries took, by the phase's name."""
        ...


class GossipBeginning(NamedTuple):
    """Where a broker begins to gossip."""

    draw: Callable[[], float]  # its dice
    phase_us: int  # of its rounds
    brokers: tuple[str, ...]  # its neighbours


@runtime_checkable
class Gossips(Protocol):
    """What a node offers besides if it gossips. A driver that hands it no event and nothing that brokers say about them
    can do in its place what would follow from these.
    """

    def begin_elsewhere(self) -> GossipBeginning: ...

    def take_appeared(self) -> list[str]:
        """Conditions that have appeared in its table since it was last asked."""
        ...

    @property
    def wanted(self) -> Mapping[str, int]:
        """The conditions of its clients, and since when."""
        ...

    def tag_of(self, condition: str) -> int: ...

    def next_due_us(self) -> int: ...


N = TypeVar("N", bound=Node)


class Layer(Generic[N]):
    """A node around a node: passes everything through. A mechanism overrides what concerns it."""

    def __init__(self, inner: N) -> None:
        self.inner = inner
        self.name = inner.name

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        return self.inner.handle(given, now_us)

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for message in messages:
            effects += self.handle(Received(sender, message), now_us)
        return effects

    def beat(self, now_us: int) -> tuple[str, Heartbeat] | None:
        return None  # a layer may have more to do, or to look at; one that has not passes this on

    def hears(self, sender: str, heartbeat: Heartbeat, now_us: int) -> bool:
        return False

    def passes_on(self, sender: str, message: Message, now_us: int) -> PassedOn | None:
        return None  # a layer may have more to do with an event

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

    def backlog(self, neighbour: str) -> list[Body]:
        """What a neighbour is still to get from its store, in the order in which it will get it."""
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

    def backlog(self, neighbour: str) -> list[Body]:
        return self.inner.backlog(neighbour)


class ClientMachine(Node, Asks, Protocol):
    """A node that publishes and subscribes."""

    @property
    def last_seq(self) -> int:
        """The sequence number of the last publication."""
        ...

    def publish(
        self,
        attributes: Mapping[str, AttributeValue],
        payload: bytes,
        lifetime_us: int | None,
        now_us: int,
        encoded: bytes | None = None,
        at_once: bool = False,
    ) -> list[Effect]:
        """What `PublishCall` does: the one way of an event into a network.

        Events that leave in one message wait for each other, unless one is to leave `at_once`: they leave with the next
        `Wake`, which is due at once.
        `encoded` is the attributes as the wire has them, where the driver has encoded them already.
        """
        ...

    def publish_many(
        self, events: Sequence[Mapping[str, AttributeValue]], encoded: Sequence[bytes], now_us: int
    ) -> list[Effect]:
        """`publish` of each, without payload and lifetime."""
        ...

    @property
    def unacknowledged(self) -> int:
        """Publications that no broker has acknowledged as stored; 0 where brokers store nothing."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether so many are not acknowledged that no more should be published."""
        ...

    @property
    def handed_over(self) -> tuple[int, int]:
        """The stream and number under which the last publication was handed over; (0, 0) where brokers store nothing.

        A broker that begins again finds in its store how far it has taken what was handed over (`StoredNeighbour.at`).
        """
        ...

    @property
    def sent_and_confirmed(self) -> tuple[int, int]:
        """How many events have left over the present link, and how many of the first of them the broker is known to
        have; (0, 0) where the link loses nothing, or nobody says.
        """
        ...

    @property
    def has_sent_enough(self) -> bool:
        """Whether so many of those are not confirmed that one may soon be forgotten: publishing should wait."""
        ...

    @property
    def has_announced(self) -> bool:
        """Whether those who may have lost some of our publications have heard enough to ask for them, or did."""
        ...

    def missing(self) -> list[tuple[str, int, int]]:
        """Publishers, and ranges of their sequence numbers of which events for us are missing, or may be."""
        ...

    def held(self, id_: str | None = None) -> int:
        """Events that are held back from this subscription, or from any, for the sake of order."""
        ...

    def opened(self, publication: Publication) -> Publication | None:
        """One that came another way than by a message, without its proof; None if that has to be right and is not."""
        ...


class ClientLayer(Layer[ClientMachine]):
    """A client around a client."""

    @property
    def last_seq(self) -> int:
        return self.inner.last_seq

    def publish(
        self,
        attributes: Mapping[str, AttributeValue],
        payload: bytes,
        lifetime_us: int | None,
        now_us: int,
        encoded: bytes | None = None,
        at_once: bool = False,
    ) -> list[Effect]:
        return self.inner.publish(attributes, payload, lifetime_us, now_us, encoded, at_once)

    def publish_many(
        self, events: Sequence[Mapping[str, AttributeValue]], encoded: Sequence[bytes], now_us: int
    ) -> list[Effect]:
        each = zip(events, encoded, strict=True)
        return [one for event, body in each for one in self.publish(event, b"", None, now_us, body)]

    @property
    def unacknowledged(self) -> int:
        return self.inner.unacknowledged

    @property
    def is_full(self) -> bool:
        return self.inner.is_full

    @property
    def handed_over(self) -> tuple[int, int]:
        return self.inner.handed_over

    @property
    def sent_and_confirmed(self) -> tuple[int, int]:
        return self.inner.sent_and_confirmed

    @property
    def has_sent_enough(self) -> bool:
        return self.inner.has_sent_enough

    @property
    def has_announced(self) -> bool:
        return self.inner.has_announced

    def missing(self) -> list[tuple[str, int, int]]:
        return self.inner.missing()

    def held(self, id_: str | None = None) -> int:
        return self.inner.held(id_)

    def opened(self, publication: Publication) -> Publication | None:
        return self.inner.opened(publication)

    @property
    def phases_us(self) -> Mapping[str, Iterable[int]]:
        return self.inner.phases_us
