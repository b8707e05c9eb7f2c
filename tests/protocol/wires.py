"""Nodes linked in memory: every message arrives, in order, at once, unless the test says which ones do not."""

from collections import deque
from collections.abc import Callable
from random import Random

from holdfast.matching.index import Index
from holdfast.model.messages import Message, NodeKind
from holdfast.protocol.broker import CoreBroker
from holdfast.protocol.client import CoreClient
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Delivered,
    Effect,
    Input,
    LinkDown,
    LinkUp,
    Multicast,
    PublishCall,
    Received,
    Send,
    SubscribeCall,
    Unicast,
    Wake,
)
from holdfast.protocol.gossip.settings import GossipSettings
from holdfast.protocol.node import BrokerMachine
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.settings import ProtocolSettings, Reliability, Routing
from holdfast.protocol.stack import new_broker, new_router
from holdfast.protocol.tree import SLICE

SETTINGS = ProtocolSettings()
BEAT_US = SETTINGS.heartbeat_us


class Wires:
    def __init__(self, routing: Routing = "subscriptions", gossip: GossipSettings | None = None) -> None:
        self.now_us = 0
        self.nodes: dict[str, BrokerMachine | CoreClient] = {}
        self.links: dict[tuple[str, str], None] = {}
        self.sent: list[tuple[str, str, Message]] = []
        self.delivered: list[tuple[str, dict[str, object]]] = []
        self.loses: Callable[[str, str, Message], bool] = lambda sender, to, message: False
        self._routing: Routing = routing
        self._gossip = gossip
        self._book = ConditionBook()
        self._waiting: deque[tuple[str, str, Message]] = deque()
        self._beside: deque[tuple[str, str, Message]] = deque()  # between nodes that need no link

    def broker(self, *names: str) -> None:
        for name in names:
            dice = Random(f"0/{name}")
            parts = BrokerParts(name, self._routing, SETTINGS, self._book, Index, self.now_us, dice)
            if self._gossip is None:
                self.nodes[name] = bare_broker(parts)
            else:
                self.nodes[name] = new_broker(parts, Reliability(gossip=self._gossip))

    def client(self, name: str, broker: str, *conditions: str) -> None:
        self.nodes[name] = CoreClient(name, SETTINGS, self._book, Index, self.now_us, Random(f"0/{name}"))
        self.link(broker, name)
        self._subscribe(name, *conditions)

    def _subscribe(self, name: str, *conditions: str) -> None:
        for condition in conditions:
            self.give(name, SubscribeCall(condition, condition))

    def link(self, a: str, b: str) -> None:
        self.links |= {(a, b): None, (b, a): None}
        for one, other in ((a, b), (b, a)):
            self._handle(one, LinkUp(other, self._kind(other)))
        self._carry()

    def _kind(self, name: str) -> NodeKind:
        return "client" if isinstance(self.nodes[name], CoreClient) else "broker"

    def cut(self, a: str, b: str) -> None:
        del self.links[a, b], self.links[b, a]
        self.give(a, LinkDown(b))
        self.give(b, LinkDown(a))

    def restart(self, name: str) -> None:
        """The broker forgets everything; its neighbours are not told."""
        self.broker(name)
        for one, other in self.links:
            if one == name:
                self.give(name, LinkUp(other, self._kind(other)))

    def give(self, name: str, given: Input) -> None:
        self._handle(name, given)
        self._carry()

    def _handle(self, name: str, given: Input) -> None:
        for effect in self.nodes[name].handle(given, self.now_us):
            self._observe(name, effect)
            if isinstance(effect, Send):
                self._waiting.append((name, effect.to, effect.message))
            elif isinstance(effect, Unicast):
                self._beside.append((name, effect.to, effect.message))
            elif isinstance(effect, Multicast):
                self._waiting.extend((name, to, effect.message) for to in effect.to)
            elif isinstance(effect, Delivered):
                self.delivered.append((name, dict(effect.publication.attributes)))

    def _observe(self, name: str, effect: Effect) -> None: ...

    def _carry(self) -> None:
        while self._waiting or self._beside:
            beside = not self._waiting
            sender, to, message = (self._beside if beside else self._waiting).popleft()
            self.sent.append((sender, to, message))
            if (beside or (sender, to) in self.links) and not self.loses(sender, to, message):
                self._handle(to, Received(sender, message))

    def pass_time(self, us: int) -> None:
        end_us = self.now_us + us
        while True:
            due = [(node.next_due_us(), name) for name, node in self.nodes.items() if node.next_due_us() is not None]
            next_us, name = min(due)  # type: ignore[type-var]
            if next_us is None or next_us > end_us:
                break
            self.now_us = next_us
            self.give(name, Wake())
        self.now_us = end_us

    def publish(self, name: str, **attributes: object) -> list[str]:
        """Publish, and say who got it."""
        before = len(self.delivered)
        self.give(name, PublishCall(attributes))  # type: ignore[arg-type]
        return sorted(client for client, _ in self.delivered[before:])

    def told(self, sender: str, to: str) -> set[str]:
        """The conditions that one broker has told another, as the teller sees it."""
        node = self.nodes[sender]
        router = getattr(node, "inner", node)._router
        return set(router.sent_tables(to)["subscriptions"].conditions)


def bare_broker(parts: BrokerParts, states: bool = False, slice_max: int = SLICE) -> CoreBroker:
    return CoreBroker(parts, new_router(parts, states=states, slice_max=slice_max), states)


def line(routing: Routing = "subscriptions") -> Wires:
    """Three brokers in a row with a client at each end, `left` and `right`."""
    wires = Wires(routing)
    wires.broker("b1", "b2", "b3")
    wires.link("b1", "b2")
    wires.link("b2", "b3")
    wires.client("left", "b1")
    wires.client("right", "b3")
    return wires
