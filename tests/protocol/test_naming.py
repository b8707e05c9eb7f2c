"""Brokers in a tree whose links lose nothing while they are up: at best effort, every loss is named by its time.

Machines are linked in memory, and messages take a while. Brokers are killed and come back knowing nothing, are stopped
and continued, links break, and clients lose their sessions. In the end every event has come to those who want it, or
they were told of a time when it was under way. It is a nemesis without processes: the same faults, thousands of them.
"""

from collections import deque
from dataclasses import dataclass, field
from random import Random

import pytest

from holdfast.matching.index import Index
from holdfast.model.messages import Deliver, Message, Publication, Publish
from holdfast.protocol.client import CoreClient
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Absence,
    Delivered,
    Effect,
    Input,
    LinkDown,
    LinkUp,
    Lost,
    Multicast,
    Received,
    Send,
    SubscribeCall,
    Wake,
)
from holdfast.protocol.node import BrokerMachine
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.settings import ProtocolSettings, Reliability
from holdfast.protocol.stack import new_broker

MS = 1_000
STEP_US = 10 * MS
SETTINGS = ProtocolSettings(heartbeat_us=500 * MS, lease_us=1_750 * MS)
WAYS = (("b1", "b2"), ("b2", "b3"), ("b2", "b4"), ("b4", "b5"))
HOMES = {"s1": "b1", "s3": "b3", "s5": "b5"}
PUBLISHERS = {"p1": "b1", "p3": "b3", "p4": "b4"}


@dataclass
class Way:
    """One direction of a link."""

    waiting: deque[tuple[int, Input, int]] = field(default_factory=deque)  # when it arrives, what, and when it was sent
    is_up: bool = False


@dataclass
class Event:
    begun_us: int
    last_us: int  # when it was last seen under way


class Network:
    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.now_us = 10_000 * MS
        self.nodes: dict[str, BrokerMachine | CoreClient] = {}
        self.stopped: dict[str, int] = {}  # until when
        self.dead: dict[str, int] = {}
        self.ways: dict[tuple[str, str], Way] = {}
        self.down: dict[tuple[str, str], int] = {}  # links, and when they may be up again
        self.events: dict[int, Event] = {}
        self.delivered: dict[str, set[int]] = {name: set() for name in HOMES}
        self.lost: dict[str, list[Lost]] = {name: [] for name in HOMES}
        self.complete_us: dict[str, int] = {}  # up to when a client has everything that its broker had for it
        self.away: dict[str, int] = {}
        self.log: list[tuple[int, str]] = []
        self._book = ConditionBook()
        for name in {name: None for way in WAYS for name in way}:
            self.begin(name)
        for name in HOMES:
            self.nodes[name] = CoreClient(name, SETTINGS, self._book, Index, self.now_us, Random(f"{seed}/{name}"))
            self.handle(name, SubscribeCall("all", "n >= 0"))
        for one, other in (*WAYS, *HOMES.items()):
            self.down[one, other] = self.now_us
            self.ways[one, other], self.ways[other, one] = Way(), Way()

    def begin(self, name: str) -> None:
        parts = BrokerParts(name, "subscriptions", SETTINGS, self._book, Index, self.now_us, Random(self.dice.random()))
        self.nodes[name] = new_broker(parts, Reliability())
        for publisher, home in PUBLISHERS.items():
            if home == name:
                self.handle(name, LinkUp(publisher, "client", reliable=True))

    # What happens --------------------------------------------------------------------------------

    def handle(self, name: str, given: Input) -> None:
        if isinstance(given, Received):
            self.note(given.message)
        self.do(name, self.nodes[name].handle(given, self.now_us))

    def do(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.send(name, effect.to, effect.message)
            elif isinstance(effect, Multicast):
                for to in effect.to:
                    self.send(name, to, effect.message)
            elif isinstance(effect, Delivered):
                self.delivered[name].add(effect.publication.seq)
            elif isinstance(effect, Lost):
                self.lost[name].append(effect)

    def note(self, message: Message) -> None:
        if isinstance(message, Publish | Deliver):
            self.events[message.publication.seq].last_us = self.now_us

    def send(self, name: str, to: str, message: Message) -> None:
        way = self.ways.get((name, to))
        if way is None or not way.is_up:
            self.note(message)
            return
        last_us = way.waiting[-1][0] if way.waiting else 0
        arrives_us = max(last_us, self.now_us + self.dice.choice((0, 0, 10, 30)) * MS)
        way.waiting.append((arrives_us, Received(name, message), self.now_us))

    def step(self) -> None:
        self.now_us += STEP_US
        for name, until_us in list(self.dead.items()):
            if self.now_us >= until_us:
                del self.dead[name]
                self.begin(name)
                self.log.append((self.now_us, f"{name} is back"))
        for name, until_us in list(self.stopped.items()):
            if self.now_us >= until_us:
                del self.stopped[name]
        for (one, other), from_us in list(self.down.items()):
            if self.now_us >= from_us and self.is_free(one, other) and self.is_free(other, one):
                self.connect(one, other)
        for name in list(self.nodes):
            if self.runs(name):
                self.run(name)

    def runs(self, name: str) -> bool:
        return name not in self.dead and name not in self.stopped

    def is_free(self, name: str, other: str) -> bool:
        """Whether it knows that the last connection is gone."""
        return self.runs(name) and not self.ways[other, name].waiting

    def connect(self, one: str, other: str) -> None:
        del self.down[one, other]
        self.log.append((self.now_us, f"{one}-{other} is up"))
        for to, sender in ((one, other), (other, one)):
            way = self.ways[sender, to]
            way.is_up = True
            kind = "client" if sender in HOMES else "broker"
            way.waiting.append((self.now_us, LinkUp(sender, kind, reliable=True), self.now_us))  # type: ignore[arg-type]
        if one in self.away:
            absence = Absence(self.away.pop(one), self.now_us, f"{one} was away")
            self.ways[other, one].waiting.append((self.now_us, absence, self.now_us))

    def run(self, name: str) -> None:
        node = self.nodes[name]
        senders = [sender for sender, to in self.ways if to == name]
        self.dice.shuffle(senders)
        for sender in senders:
            waiting = self.ways[sender, name].waiting
            while waiting and waiting[0][0] <= self.now_us:
                _, given, sent_us = waiting.popleft()
                if name in HOMES and isinstance(given, Received):
                    self.complete_us[name] = sent_us
                self.handle(name, given)
        due_us = node.next_due_us()
        if due_us is not None and due_us <= self.now_us:
            self.handle(name, Wake())

    # Faults --------------------------------------------------------------------------------------

    def cut(self, one: str, other: str, for_us: int) -> None:
        """Nothing more passes; what has arrived already may be read."""
        if (one, other) in self.down:
            return
        self.down[one, other] = self.now_us + for_us
        self.log.append((self.now_us, f"{one}-{other} is cut for {for_us / 1e6}"))
        for sender, to in ((one, other), (other, one)):
            way = self.ways[sender, to]
            kept = [each for each in way.waiting if each[0] <= self.now_us] if self.dice.random() < 0.5 else []
            kept += [each for each in way.waiting if each not in kept and not isinstance(each[1], Received)]
            for each in way.waiting:
                if each not in kept and isinstance(each[1], Received):
                    self.note(each[1].message)
            way.waiting = deque(kept)
            way.waiting.append((self.now_us, LinkDown(sender), self.now_us))
            way.is_up = False
        if one in HOMES:
            self.away[one] = min(self.away.get(one, self.now_us), self.complete_us.get(one, self.now_us))

    def kill(self, name: str, for_us: int) -> None:
        self.log.append((self.now_us, f"{name} is killed for {for_us / 1e6}"))
        self.dead[name] = self.now_us + for_us
        for one, other in (*WAYS, *HOMES.items()):
            if name in (one, other):
                self.cut(one, other, for_us + self.dice.randrange(1_500) * MS)
                self.down[one, other] = max(self.down[one, other], self.dead[name])
                mine = self.ways[one if name == other else other, name]
                for each in mine.waiting:
                    if isinstance(each[1], Received):
                        self.note(each[1].message)
                mine.waiting.clear()

    def strike(self) -> None:
        for_us = self.dice.randrange(100, 4_000) * MS
        brokers = [name for name in self.nodes if name not in HOMES and self.runs(name)]
        match self.dice.choice(("kill", "stop", "cut", "leave")):
            case "kill" if brokers:
                self.kill(self.dice.choice(brokers), for_us)
            case "stop" if brokers:
                name = self.dice.choice(brokers)
                self.stopped[name] = self.now_us + for_us
                self.log.append((self.now_us, f"{name} is stopped for {for_us / 1e6}"))
            case "cut":
                self.cut(*self.dice.choice(WAYS), for_us)
            case "leave":
                self.cut(*self.dice.choice(list(HOMES.items())), for_us)

    def publish(self) -> None:
        publisher = self.dice.choice(list(PUBLISHERS))
        home = PUBLISHERS[publisher]
        if self.runs(home):
            seq = len(self.events) + 1
            self.events[seq] = Event(self.now_us, self.now_us)
            self.handle(home, Received(publisher, Publish(Publication(publisher, seq, self.now_us, None, {"n": seq}))))

    def unnamed(self, slack_us: int = 2 * STEP_US) -> list[tuple[str, int, Event]]:
        found = []
        for client, lost in self.lost.items():
            spans = [(each.since_us - slack_us, each.until_us + slack_us) for each in lost]
            for seq, event in self.events.items():
                is_named = any(event.last_us >= since_us and event.begun_us <= until_us for since_us, until_us in spans)
                if seq not in self.delivered[client] and not is_named:
                    found.append((client, seq, event))
        return found


def quiet(seed: int = 0) -> Network:
    """A network that has been up for a while."""
    network = Network(seed)
    for _ in range(200):
        network.step()
    return network


def run(network: Network, seconds: float) -> None:
    end_us = network.now_us + int(seconds * 1e6)
    while network.now_us < end_us:
        network.step()
        network.publish()


def heal(network: Network) -> None:
    for _ in range(1_500):
        network.step()


def attacked(seed: int, seconds: int = 40) -> Network:
    network = quiet(seed)
    assert not any(network.lost.values())  # a network that is new has lost nothing
    end_us = network.now_us + seconds * 1_000 * MS
    strike_us = network.now_us
    while network.now_us < end_us:
        network.step()
        network.publish()
        if network.now_us >= strike_us:
            network.strike()
            strike_us += int(network.dice.expovariate(1 / 1_000)) * MS
    heal(network)
    return network


@pytest.mark.parametrize("seed", range(10))
def test_every_loss_is_named_by_its_time(seed: int) -> None:
    network = attacked(seed)
    assert not network.unnamed()
    assert all(network.delivered.values())


def test_an_absence_lasts_until_a_broker_that_was_stopped_knows_the_subscriptions_again() -> None:
    network = quiet()
    network.kill("b1", 500 * MS)
    network.down["b1", "b2"] = network.dead["b1"]
    network.down["s1", "b1"] = network.dead["b1"] + 500 * MS
    run(network, 0.9)
    network.stopped["b2"] = network.now_us + 3_000 * MS  # it knows b1, but not yet what s1 wants
    run(network, 5)
    heal(network)
    assert not network.unnamed()
    first, *_, last = [each for each in network.lost["s1"] if each.reason == "s1 was away"]
    assert last.since_us == first.since_us
    assert last.until_us - first.until_us > 2_000 * MS


def test_an_outage_is_named_although_the_broker_that_noticed_it_dies_before_its_end() -> None:
    network = quiet()
    network.cut("b2", "b3", 8_000 * MS)
    run(network, 1)  # less than a lease
    network.kill("b2", 500 * MS)
    run(network, 5)
    heal(network)
    assert not network.unnamed()
    assert {each.reason for each in network.lost["s1"]} >= {"the link between b2 and b3 was down"}


def test_an_outage_lasts_until_a_restarted_broker_has_found_all_that_were_next_to_it() -> None:
    network = quiet()
    network.kill("b2", 500 * MS)
    network.down["b1", "b2"] = network.dead["b2"]
    network.down["b2", "b3"] = network.now_us + 60_000 * MS
    run(network, 2)
    network.kill("b1", 500 * MS)  # it alone remembers that b3 was next to b2
    run(network, 4)
    network.kill("b3", 500 * MS)  # and b3, that b2 was next to it
    network.down["b2", "b3"] = network.dead["b3"]
    heal(network)
    assert not network.unnamed()


def test_an_absence_begins_when_a_broker_was_stopped_that_could_not_tell_of_an_outage() -> None:
    network = quiet()
    network.stopped["b2"] = network.now_us + 2_000 * MS
    run(network, 0.5)
    network.cut("b2", "b4", 2_500 * MS)
    run(network, 1)
    network.cut("s1", "b1", 6_000 * MS)  # b2 says that it has lost b4, and that it is back, while s1 is away
    run(network, 7)
    heal(network)
    assert not network.unnamed()


def test_those_who_were_whole_are_told_nothing_of_a_broker_that_is_new() -> None:
    network = quiet()
    network.ways["b3", "b6"], network.ways["b6", "b3"] = Way(), Way()
    network.begin("b6")
    network.down["b3", "b6"] = network.now_us
    run(network, 5)
    heal(network)
    assert not any(network.lost.values())
    assert all(len(each) == len(network.events) for each in network.delivered.values())


def test_a_link_over_which_nobody_wants_anything_is_whole_at_once() -> None:
    network = quiet()
    for broker in ("b1", "b2", "b3", "b4", "b5"):
        assert not list(network.nodes[broker].outages.lasting("", network.now_us))  # type: ignore[union-attr]
