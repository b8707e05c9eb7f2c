"""The nine protocols of paper 003 exactly as its algorithms say, in a model of a few brokers: Table 1 put to the test.

The product runs them mended (`table`): this is what the printed lines do. A publishers' broker, a faulty broker that is
dead or slow, two brokers with subscribers, and a replica; links keep order, brokers take one message after the other,
and an output queue waits for its receiver, as a remote call does. Advertisements and subscriptions are as in
algorithms 1 to 4. Where the text leaves something open: basic sends events to the replica, in order, once a first
subscription has come from there; signals go both ways with the last number published.

Two places matter most. Lines 12 to 14 of algorithm 5 forward an event once for every matching subscription, and two may
share a way: the second copy is delivered. And re-ordering, by its sentence, forwards "all pending messages except the
last received" of each queue: of 1, 9, 10 from one side and 3 from the other it forwards 1 and 9, and 3 comes after. Its
footnote merges "greedily the publications at the head of each queue", which waits at 9; both readings are run.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Any, Literal

from holdfast.books.replication_promises import EventId
from holdfast.model.replication_messages import CopyProtocol, ReplicaUse
from holdfast_papers.replication.model import SOURCE, zipf

_SIDES = ("s0", "s1")  # brokers with subscribers
_DELAY_US = 200
_MORE = 100  # publications while the replica is built
_SIGNALS_AFTER = 30  # the last publication
Message = tuple[str, Any]  # what it is, and what it is about
Reading = Literal["sentence", "footnote"]  # of how messages are put in order again


class AsWritten:
    def __init__(self, copying: CopyProtocol, use: ReplicaUse, reading: Reading, seed: int) -> None:
        dice = Random(f"{seed}/as written")
        self.copying, self.use, self.reading = copying, use, reading
        self._pending = dice.randrange(5, 40)
        self.values = zipf(dice, dice.choice((0.1, 0.5, 1.0)), self._pending + _MORE, False)
        wanted = zipf(dice, 0.5, 2 * dice.randrange(10, 40), False)
        self.wants = {side: wanted[number::2] for number, side in enumerate(_SIDES)}
        self.side_of = {number: _SIDES[number % 2] for number in range(len(wanted))}
        self.wanted = wanted
        self._every_us = dice.randrange(300, 1_500)
        self.scan_us = {side: dice.randrange(500, 20_000) for side in _SIDES}  # until it has its subscriptions together
        self.service_us = {"a": 50, "f": dice.randrange(500, 3_000), "r": dice.choice((100, 1_000)), "s0": 50, "s1": 50}
        # Everybody got an event before the failure, so that one lost after it lies between two that both got.
        self.deliveries: dict[str, list[EventId]] = {name: [(SOURCE, 0)] for name in ("t0", "t1", "c0", "c1")}
        self.now_us, self._count = 0, 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._inbox: dict[str, deque[tuple[str, Message]]] = defaultdict(deque)
        self._busy: set[str] = set()
        self._a = _Publishers(self)
        self._r = _Replica(self)
        self._sides = {side: _Subscribers(self, side) for side in _SIDES}

    def run(self) -> dict[str, list[EventId]]:
        for _ in range(self._pending):
            self._a.publish()
        self._r.start()
        for number in range(1, _MORE + _SIGNALS_AFTER + 1):
            act = self._a.publish if number <= _MORE else self._a.signal
            self.at(self._every_us * number, act)
        while self._heap:
            self.now_us, _, act = heappop(self._heap)
            act()
        return self.deliveries

    def at(self, time_us: int, act: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._heap, (time_us, self._count, act))

    def matching(self, seq: int) -> Iterator[int]:
        """The subscriptions that an event matches."""
        return (number for number, least in enumerate(self.wanted) if self.values[seq - 1] > least)

    def send(self, sender: str, receiver: str, message: Message, after_us: int = 0) -> None:
        self.at(self.now_us + after_us + _DELAY_US, partial(self._arrive, sender, receiver, message))

    def _arrive(self, sender: str, receiver: str, message: Message) -> None:
        self._inbox[receiver].append((sender, message))
        if receiver not in self._busy:
            self._serve(receiver)

    def _serve(self, name: str) -> None:
        self._busy.add(name)
        self.at(self.now_us + self.service_us[name], partial(self._served, name))

    def _served(self, name: str) -> None:
        sender, message = self._inbox[name].popleft()
        self._handle(name, sender, message)
        self._busy.discard(name)
        if self._inbox[name]:
            self._serve(name)

    def _handle(self, name: str, sender: str, message: Message) -> None:
        if name == "a":
            self._a.on(message)
        elif name == "r":
            self._r.on(sender, message)
        elif name == "f":
            self._forward(message)
            self._a.on_taken("f")
        else:
            self._sides[name].on(sender, message)

    def on_returned(self) -> None:
        """The replica has taken what was sent to it."""
        self._a.on_taken("r")

    def _forward(self, message: Message) -> None:
        """The faulty broker, while it is only slow: every way once."""
        kind, seq = message
        ways = _SIDES if kind == "signal" else sorted({self.side_of[number] for number in self.matching(seq)})
        for side in ways:
            self.send("f", side, message)


class _Publishers:
    """The advertisement-forwarding broker: algorithms 2 and 3, figure 5, and message scheduling."""

    def __init__(self, world: AsWritten) -> None:
        self._world = world
        self._seq = 0
        self._by_replica: set[int] = set()  # subscriptions that have come from there
        self._is_done = False
        self._wait: list[int] = []  # events that wait for the replica, in order
        self._ready: dict[int, deque[int]] = {}  # incremental: events by subscription
        self._log: set[int] = set()  # events that were forwarded to the replica
        self._out: dict[str, deque[Message]] = {"f": deque(), "r": deque()}
        self._calls: set[str] = set()  # to whom a message is under way

    def publish(self) -> None:
        self._seq += 1
        world, seq = self._world, self._seq
        value = world.values[seq - 1]
        for number, side in enumerate(_SIDES):
            if value > min(world.wants[side]):
                world.deliveries[f"t{number}"].append((SOURCE, seq))
        if value <= min(world.wanted):
            return
        if world.use == "failover":
            self._wait.append(seq)
            self._move()
        elif self._may_go(seq) and len(self._out["r"]) < len(self._out["f"]) + ("f" in self._calls):
            self._put("r", ("event", seq))
        else:
            self._put("f", ("event", seq))

    def signal(self) -> None:
        """Re-ordering: so that the merge goes on while nothing is published."""
        if self._world.use == "reordering":
            for way in ("f", "r"):
                self._put(way, ("signal", self._seq))

    def on(self, message: Message) -> None:
        kind, about = message
        if kind == "request":
            self._world.send("a", "r", ("advertisement", None))
            self._world.send("a", "r", ("last advertisement", None))
        elif kind == "subscription":
            self._by_replica.add(about)
            if self._world.copying == "incremental" and self._world.use == "failover":
                self._make_ready(about)
        elif kind == "done":
            self._is_done = True
        self._move()

    def _may_go(self, seq: int) -> bool:
        if self._is_done or self._world.copying == "basic":
            return self._is_done or bool(self._by_replica)
        return self._world.copying == "incremental" and not self._by_replica.isdisjoint(self._world.matching(seq))

    def _move(self) -> None:
        """What waits and may go."""
        if self._world.copying == "incremental" and not self._is_done:
            for seq in [each for each in self._wait if each not in self._log]:
                for number in self._by_replica.intersection(self._world.matching(seq)):
                    if seq not in self._ready.setdefault(number, deque()):
                        self._ready[number].append(seq)
            self._call("r")
        elif self._wait and self._may_go(self._wait[0]):
            going, self._wait = self._wait, []
            for seq in going:
                if seq not in self._log:
                    self._put("r", ("event", seq))

    def _make_ready(self, number: int) -> None:
        found = [seq for seq in self._wait if number in self._world.matching(seq)]
        self._ready[number] = deque(found)

    def _put(self, way: str, message: Message) -> None:
        self._out[way].append(message)
        self._call(way)

    def _call(self, way: str) -> None:
        """A call at a time; the ready queues take turns."""
        if way in self._calls:
            return
        message = self._out[way].popleft() if self._out[way] else self._next_ready() if way == "r" else None
        if message is not None:
            self._calls.add(way)
            self._world.send("a", way, message)

    def _next_ready(self) -> Message | None:
        while self._ready:
            number = next(iter(self._ready))
            queue = self._ready.pop(number)
            while queue and queue[0] in self._log:
                queue.popleft()
            if queue:
                seq = queue.popleft()
                self._ready[number] = queue  # behind the others
                self._log.add(seq)
                return "event", seq
        return None

    def on_taken(self, way: str) -> None:
        self._calls.discard(way)
        self._call(way)


class _Replica:
    """Algorithms 1, 4 and 5."""

    def __init__(self, world: AsWritten) -> None:
        self._world = world
        self._table: list[int] = []  # subscriptions, in the order in which they came
        self._pending_advertisements, self._pending_subscriptions = 1 + len(_SIDES), 0
        self._sent_to: dict[int, set[str]] = defaultdict(set)
        self._matches: dict[int, list[int]] = defaultdict(list)

    def start(self) -> None:
        for name in ("a", *_SIDES):
            self._world.send("r", name, ("request", None))

    def on(self, sender: str, message: Message) -> None:
        kind, about = message
        if kind == "advertisement":
            for side in _SIDES:
                self._world.send("r", side, message)
            self._pending_subscriptions += len(_SIDES)
        elif kind == "subscription":
            self._on_subscription(about)
        elif kind == "last advertisement":
            self._pending_advertisements -= 1
            self._finish()
        elif kind == "last subscription":
            self._pending_subscriptions -= 1
            self._finish()
        elif kind == "event":
            self._on_event(about)
            self._world.on_returned()
        else:
            for side in _SIDES:
                self._world.send("r", side, message)
            self._world.on_returned()

    def _finish(self) -> None:
        if self._world.copying != "basic" and not self._pending_advertisements and not self._pending_subscriptions:
            self._world.send("r", "a", ("done", None))

    def _on_subscription(self, number: int) -> None:
        self._table.append(number)
        self._world.send("r", "a", ("subscription", number))
        way = self._world.side_of[number]
        for seq in self._matches.pop(number, ()):
            if way not in self._sent_to[seq]:
                self._world.send("r", way, ("event", seq))
                self._sent_to[seq].add(way)

    def _on_event(self, seq: int) -> None:
        matching = set(self._world.matching(seq))
        ways = [self._world.side_of[number] for number in self._table if number in matching]
        if self._world.copying != "incremental":
            ways = sorted(set(ways))
        for way in ways:  # incremental: line 13 does not ask whether it was sent there already
            self._world.send("r", way, ("event", seq))
            self._sent_to[seq].add(way)
        if self._world.copying == "incremental":
            for number in matching.difference(self._table):
                if self._world.side_of[number] not in self._sent_to[seq]:
                    self._matches[number].append(seq)


class _Subscribers:
    """A subscription-forwarding broker: algorithm 2, lastSub, and re-ordering."""

    def __init__(self, world: AsWritten, name: str) -> None:
        self._world, self._name = world, name
        self._queues: dict[str, list[Message]] = {"f": [], "r": []}

    def on(self, sender: str, message: Message) -> None:
        kind, _ = message
        world = self._world
        if kind == "request":
            world.send(self._name, "r", ("last advertisement", None))
        elif kind == "advertisement":
            mine = [number for number, side in world.side_of.items() if side == self._name]
            for number in mine:
                world.send(self._name, "r", ("subscription", number), world.scan_us[self._name])
            world.send(self._name, "r", ("last subscription", None), world.scan_us[self._name])
        elif world.use == "reordering":
            self._queues[sender].append(message)
            if all(self._queues.values()):
                self._merge()
        else:
            self._deliver(message)

    def _merge(self) -> None:
        queues = self._queues.values()
        if self._world.reading == "footnote":
            while all(queues):
                self._deliver(min(queues, key=lambda queue: int(queue[0][1])).pop(0))
            return
        going = sorted((each for queue in queues for each in queue[:-1]), key=lambda each: int(each[1]))
        for queue in queues:
            del queue[:-1]
        for message in going:
            self._deliver(message)

    def _deliver(self, message: Message) -> None:
        kind, seq = message
        if kind == "event" and self._world.values[seq - 1] > min(self._world.wants[self._name]):
            self._world.deliveries[f"c{_SIDES.index(self._name)}"].append((SOURCE, seq))
