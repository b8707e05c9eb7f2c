"""A line of brokers that store events, in memory: messages are lost, commits take time, brokers die at any point."""

from collections import deque
from dataclasses import replace
from random import Random

from holdfast.matching.index import Index
from holdfast.model.messages import Handover, Message, StoredAck
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Acknowledged,
    Delivered,
    DeliveredBatch,
    Effect,
    Input,
    LinkUp,
    Multicast,
    Persist,
    Persisted,
    Received,
    Send,
    SubscribeCall,
    Wake,
)
from holdfast.protocol.hops.settings import HandoverSettings, HopSettings
from holdfast.protocol.node import BrokerMachine, ClientLayer, ClientMachine
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.settings import ProtocolSettings, Reliability
from holdfast.protocol.stack import new_broker, new_client
from holdfast.store.memory import MemoryStore
from holdfast.wire.codec import decode_frame_untrusted, encode_message, framed

SETTINGS = HandoverSettings(window=8, wait_max_us=400_000)
HOPS = replace(HopSettings("retransmission"), handover=SETTINGS)


class Line:
    def __init__(self, seed: int, brokers: int, loss: float, runs: bool) -> None:
        self.dice = Random(seed)
        self.loss = loss
        self.now_us = 0
        self.names = [f"b{number}" for number in range(brokers)]
        self.stores = {name: MemoryStore() for name in self.names}
        self.nodes: dict[str, BrokerMachine | ClientMachine] = {}
        self.down: set[str] = set()
        self.acknowledged: list[int] = []
        self.delivered: list[int] = []
        self._book = ConditionBook()
        self._on_the_way: deque[tuple[str, str, Message]] = deque()
        self._to_commit: deque[tuple[str, Persist]] = deque()
        for name in self.names:
            self._begin(name)
        for name in ("p", "s"):
            settings = ProtocolSettings()
            client = new_client(name, settings, self._book, Index, 0, Random(name), hops=HOPS, batches=runs)
            self.nodes[name] = client
        for name in [*self.names, "p", "s"]:
            self._link(name)
        self.give("s", SubscribeCall("all", "n > 0"))
        self.settle()

    def neighbours(self, name: str) -> list[str]:
        if name in ("p", "s"):
            return [self.names[0] if name == "p" else self.names[-1]]
        at = self.names.index(name)
        near = self.names[max(0, at - 1) : at] + self.names[at + 1 : at + 2]
        return near + (["p"] if at == 0 else []) + (["s"] if at == len(self.names) - 1 else [])

    def _begin(self, name: str) -> None:
        parts = BrokerParts(name, "subscriptions", ProtocolSettings(), self._book, Index, self.now_us, Random(name))
        self.nodes[name] = new_broker(parts, Reliability(HOPS), self.stores[name].load())

    def _link(self, name: str) -> None:
        for far in self.neighbours(name):
            # Losses are made up here, below what clients think of their link: so that they send batches.
            self.give(name, LinkUp(far, "client" if far in ("p", "s") else "broker", reliable=name in ("p", "s")))

    def crash(self, name: str) -> None:
        """What it has not committed is gone, and what was on the way to it; what it has sent arrives."""
        self.down.add(name)
        self._to_commit = deque(each for each in self._to_commit if each[0] != name)
        self._on_the_way = deque(each for each in self._on_the_way if each[1] != name)

    def restart(self, name: str) -> None:
        self.down.discard(name)
        self._begin(name)
        self._link(name)

    def publish(self, number: int) -> None:
        publisher, attributes = self.nodes["p"], {"n": number}
        assert isinstance(publisher, ClientLayer)
        self._perform("p", publisher.publish(attributes, b"", None, self.now_us, encode_message(attributes)))

    def give(self, name: str, given: Input) -> None:
        if name not in self.down:
            self._perform(name, self.nodes[name].handle(given, self.now_us))

    def _perform(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send | Multicast):
                for to in effect.to if isinstance(effect, Multicast) else (effect.to,):
                    lossy = isinstance(effect.message, Handover | StoredAck) and self.dice.random() < self.loss
                    if not lossy:
                        self._on_the_way.append((name, to, _as_it_arrives(effect.message)))
            elif isinstance(effect, Persist):
                self._to_commit.append((name, effect))
            elif isinstance(effect, Acknowledged):
                self.acknowledged += range(effect.first, effect.last + 1)
            elif isinstance(effect, Delivered):
                self.delivered.append(effect.publication.seq)
            elif isinstance(effect, DeliveredBatch):
                self.delivered += [each.seq for each in effect.publications]

    def step(self) -> bool:
        """One thing happens: a commit, an arrival, or time passes; False when nothing is left to do."""
        if self._to_commit and (not self._on_the_way or self.dice.random() < 0.4):
            name, persist = self._to_commit.popleft()
            self.stores[name].write(persist.changes)
            self.give(name, Persisted(persist.token))
        elif self._on_the_way:
            sender, to, message = self._on_the_way.popleft()
            self.give(to, Received(sender, message))
        else:
            return False
        return True

    def settle(self, us: int = 5_000_000) -> None:
        """Let everything happen for so long."""
        end_us = self.now_us + us
        while True:
            while self.step():
                pass
            due = [(node.next_due_us(), name) for name, node in self.nodes.items() if name not in self.down]
            next_us, name = min((each for each in due if each[0] is not None), default=(None, ""))
            if next_us is None or next_us > end_us:
                break
            self.now_us = max(self.now_us, next_us)
            self.give(name, Wake())
        self.now_us = end_us


def _as_it_arrives(message: Message) -> Message:
    (arrives,) = decode_frame_untrusted(framed([encode_message(message)]))
    return arrives
