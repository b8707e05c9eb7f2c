"""Brokers on a tree, and members of groups at some of them: links take time, lose what the test says, and break.

The application of a member is done with each event a while after it has got it. What became of each event is written
down: who was handed it, and who was done with it.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random

from holdfast.matching.index import Index
from holdfast.model.messages import Message
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Delivered,
    DeliveredBatch,
    Effect,
    GroupDone,
    Incident,
    Input,
    LinkDown,
    LinkUp,
    Lost,
    Multicast,
    Persist,
    Persisted,
    PublishCall,
    Received,
    Send,
    SubscribeCall,
    UnsubscribeCall,
    Wake,
)
from holdfast.protocol.hops.settings import BASIC, HopSettings
from holdfast.protocol.node import BrokerMachine, ClientMachine
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.settings import ProtocolSettings, Reliability, Routing
from holdfast.protocol.stack import new_broker, new_client
from holdfast.store.memory import MemoryStore
from holdfast.wire.codec import decode_frame_untrusted, encode_message, framed

SETTINGS = ProtocolSettings()
MS = 1_000


class GroupNetwork:
    def __init__(self, seed: int = 1, hops: HopSettings = BASIC, routing: Routing = "subscriptions") -> None:
        self.dice = Random(seed)
        self.now_us = 1_000_000
        self.nodes: dict[str, BrokerMachine | ClientMachine] = {}
        self.links: dict[tuple[str, str], int] = {}  # when the last message on each arrives
        self.loses: Callable[[str, str, Message], bool] = lambda sender, to, message: False
        self.delivered: list[tuple[str, int]] = []  # client, number of the event
        self.done: Counter[int] = Counter()
        self.incidents: Counter[str] = Counter()
        self.lost: list[Lost] = []
        self.ahead_us: dict[str, int] = {}  # of the true time, a broker's clock
        self.work_us: dict[str, int] = {}  # that a member's application takes for an event; absent: it never finishes
        self._finished: Counter[tuple[str, str]] = Counter()
        self._stopped: dict[str, tuple[BrokerMachine | ClientMachine, list[Input]]] = {}
        self._stores: dict[str, MemoryStore] = {}
        self._clients: dict[str, str] = {}  # and their brokers
        self._hops = hops
        self._routing: Routing = routing
        self._book = ConditionBook()
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def broker(self, *names: str) -> None:
        for name in names:
            store = self._stores.setdefault(name, MemoryStore())
            born_us = self.now_us + self.ahead_us.get(name, 0)
            parts = BrokerParts(name, self._routing, SETTINGS, self._book, Index, born_us, Random(name), groups=True)
            self.nodes[name] = new_broker(parts, Reliability(self._hops), store.load() if self._hops.durable else None)

    def client(self, name: str, broker: str) -> None:
        made = name, SETTINGS, self._book, Index, self.now_us, Random(name), self.now_us
        self.nodes[name] = new_client(*made, hops=self._hops, groups=True)
        self._clients[name] = broker
        self.link(broker, name)

    def member(self, name: str, broker: str, condition: str = "n > 0", work_us: int = MS, window: int = 0) -> None:
        self.client(name, broker)
        self.work_us[name] = work_us
        self.give(name, SubscribeCall("g", condition, "workers", window))

    def leave(self, name: str) -> None:
        self.give(name, UnsubscribeCall("g"))

    def kill(self, name: str) -> None:
        """A process is gone; who is linked to it notices."""
        del self.nodes[name]
        for one, other in [each for each in self.links if each[0] == name]:
            self.cut(one, other)

    def stop(self, name: str) -> None:
        """A process stands still; what comes for it waits."""
        self._stopped[name] = self.nodes.pop(name), []

    def go_on(self, name: str) -> None:
        self.nodes[name], waiting = self._stopped.pop(name)
        for each in waiting:
            self.give(name, each)

    def link(self, a: str, b: str) -> None:
        for one, other in ((a, b), (b, a)):
            self.links[one, other] = self.now_us
        for one, other in ((a, b), (b, a)):
            self.give(one, LinkUp(other, "client" if other in self._clients else "broker", reliable=True))

    def cut(self, a: str, b: str) -> None:
        for one, other in ((a, b), (b, a)):
            del self.links[one, other]
        for one, other in ((a, b), (b, a)):
            self.give(one, LinkDown(other))

    def publish(self, client: str, *numbers: int) -> None:
        for number in numbers:
            self.give(client, PublishCall({"n": number}))

    def give(self, name: str, given: Input) -> None:
        node = self.nodes.get(name)
        if name in self._stopped:
            self._stopped[name][1].append(given)
        if node is not None:
            for effect in node.handle(given, self.now_us + self.ahead_us.get(name, 0)):
                self._perform(name, effect)

    def _at(self, us: int, action: Callable[[], None]) -> None:
        heappush(self._heap, (us, next(self._order), action))

    def _perform(self, name: str, effect: Effect) -> None:
        if isinstance(effect, Send | Multicast):
            for to in effect.to if isinstance(effect, Multicast) else (effect.to,):
                self._send(name, to, effect.message)
        elif isinstance(effect, Delivered):
            self._deliver(name, effect.subscriptions[0], int(effect.publication.attributes["n"]))  # type: ignore[arg-type]
        elif isinstance(effect, DeliveredBatch):
            for each in effect.publications:
                self._deliver(name, "", int(each.attributes["n"]))  # type: ignore[arg-type]
        elif isinstance(effect, Incident):
            self.incidents[effect.kind] += effect.count
        elif isinstance(effect, Lost):
            self.lost.append(effect)
        elif isinstance(effect, Persist):
            node = self.nodes[name]
            self._at(self.now_us + 2 * MS, partial(self._persisted, name, node, effect))

    def _persisted(self, name: str, node: object, persist: Persist) -> None:
        if self.nodes.get(name) is node:  # else the process is gone, and this was not written
            self._stores[name].write(persist.changes)
            self.give(name, Persisted(persist.token))

    def _send(self, sender: str, to: str, message: Message) -> None:
        if (sender, to) not in self.links or self.loses(sender, to, message):
            return
        arrives_us = max(self.links[sender, to], self.now_us + self.dice.randrange(MS, 5 * MS))
        self.links[sender, to] = arrives_us
        (as_it_arrives,) = decode_frame_untrusted(framed([encode_message(message)]))
        self._at(arrives_us, partial(self._arrive, sender, to, as_it_arrives))

    def _arrive(self, sender: str, to: str, message: Message) -> None:
        if (sender, to) in self.links:
            self.give(to, Received(sender, message))

    def _deliver(self, name: str, id_: str, number: int) -> None:
        self.delivered.append((name, number))
        if name in self.work_us and id_ == "g":
            node = self.nodes[name]
            self._at(self.now_us + self.work_us[name], partial(self._finish, name, node, id_, number))

    def _finish(self, name: str, node: object, id_: str, number: int) -> None:
        if self.nodes.get(name) is node and name in self.work_us:
            self.done[number] += 1
            self._finished[name, id_] += 1
            self.give(name, GroupDone(id_, self._finished[name, id_]))

    def run(self, us: int) -> None:
        end_us = self.now_us + us
        while True:
            due = [(node.next_due_us(), name) for name, node in self.nodes.items()]
            true = [(at_us - self.ahead_us.get(name, 0), name) for at_us, name in due if at_us is not None]
            wake_us, name = min(true, default=(None, ""))
            first_us = self._heap[0][0] if self._heap else None
            if first_us is not None and (wake_us is None or first_us <= wake_us):
                if first_us > end_us:
                    break
                self.now_us = max(self.now_us, first_us)
                heappop(self._heap)[2]()
            else:
                if wake_us is None or wake_us > end_us:
                    break
                self.now_us = max(self.now_us, wake_us)
                self.give(name, Wake())
        self.now_us = end_us

    def by_member(self) -> dict[str, int]:
        return dict(Counter(name for name, _ in self.delivered))


def star(seed: int = 1, hops: HopSettings = BASIC, routing: Routing = "subscriptions") -> GroupNetwork:
    """b1, b2 and b3 around b0, with a publisher at b3."""
    network = GroupNetwork(seed, hops, routing)
    network.broker("b0", "b1", "b2", "b3")
    for name in ("b1", "b2", "b3"):
        network.link("b0", name)
    network.client("p", "b3")
    network.run(100 * MS)
    return network
