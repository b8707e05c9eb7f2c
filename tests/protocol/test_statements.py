"""Brokers in a row whose links lose nothing while they are up: what is stated is true, and holes in it are filled.

Machines are linked in memory. Links deliver in order, at random times; now and then one is cut with all that is under
way on it, a broker begins anew, a client wants something else. In the end every event that a client wanted when it was
published has come, in order where that is strict, and once; or its loss has been named.
"""

from collections import deque
from dataclasses import dataclass, field
from random import Random

import pytest

from holdfast.matching.index import Index
from holdfast.model.messages import Batch, Message, Publication
from holdfast.protocol.broker import CoreBroker
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Delivered,
    DeliveredBatch,
    Effect,
    Input,
    LinkDown,
    LinkUp,
    Lost,
    Multicast,
    PublishCall,
    Send,
    SubscribeCall,
    UnsubscribeCall,
    Wake,
)
from holdfast.protocol.node import ClientMachine
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.recovery.control import CONTROL_SEQ, KIND
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.reliable_client import EXPIRED, Ordered, Recovering
from holdfast.protocol.settings import Guarantees, ProtocolSettings
from holdfast.protocol.stack import new_client
from holdfast.wire.codec import decode_frame_untrusted, encode_message, framed
from tests.protocol.wires import bare_broker

STEP_US = 1_000
MS = 1_000_000


@dataclass
class Network:
    rng: Random
    strict: bool = False
    now_us: int = 10 * MS
    nodes: dict[str, CoreBroker | ClientMachine] = field(default_factory=dict)
    wires: dict[tuple[str, str], deque[Message]] = field(default_factory=dict)
    delivered: dict[str, list[Publication]] = field(default_factory=dict)
    lost: dict[str, list[Lost]] = field(default_factory=dict)
    asked: int = 0  # requests, which somebody only makes who may have missed something

    def __post_init__(self) -> None:
        for name in ("b1", "b2", "b3"):
            self.nodes[name] = self._broker(name)
        order = LatchSettings("strict") if self.strict else None
        for name in ("feed", "c1", "c2", "c3"):
            guarantees = Guarantees(RecoverySettings(), order)
            common = ProtocolSettings(), ConditionBook(), Index, self.now_us, Random(name), 1
            self.nodes[name] = new_client(name, *common, guarantees, batches=True)
            self.delivered[name], self.lost[name] = [], []
        for one, other in (("b1", "b2"), ("b2", "b3"), ("feed", "b1"), ("c1", "b1"), ("c2", "b2"), ("c3", "b3")):
            self.link(one, other)

    def _broker(self, name: str) -> CoreBroker:
        parts = BrokerParts(
            name, "subscriptions", ProtocolSettings(), ConditionBook(), Index, self.now_us, Random(name)
        )
        return bare_broker(parts, states=True)

    def link(self, one: str, other: str) -> None:
        self.wires[one, other], self.wires[other, one] = deque(), deque()
        for name, far in ((one, other), (other, one)):
            kind = "broker" if isinstance(self.nodes[far], CoreBroker) else "client"
            self.give(name, LinkUp(far, kind, reliable=True))  # type: ignore[arg-type]

    def cut(self, one: str, other: str) -> None:
        """All that is under way is gone; both notice, and link again."""
        del self.wires[one, other], self.wires[other, one]
        self.give(one, LinkDown(other))
        self.give(other, LinkDown(one))
        self.link(one, other)

    def restart(self, name: str) -> None:
        far = [two for one, two in self.wires if one == name]
        for each in far:
            del self.wires[name, each], self.wires[each, name]
            self.give(each, LinkDown(name))
        self.nodes[name] = self._broker(name)
        for each in far:
            self.link(name, each)

    def give(self, name: str, given: Input) -> None:
        self._perform(name, self.nodes[name].handle(given, self.now_us))

    def _perform(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to=to, message=message):
                    self._send(name, (to,), message)
                case Multicast(to=several, message=message):
                    self._send(name, several, message)
                case Delivered(publication=publication):
                    self.delivered[name].append(publication)
                case DeliveredBatch(publications=publications):
                    self.delivered[name] += publications
                case Lost():
                    self.lost[name].append(effect)

    def _send(self, name: str, to: tuple[str, ...], message: Message) -> None:
        publication = getattr(message, "publication", None)
        if publication is not None and publication.seq == CONTROL_SEQ and name.startswith("c"):
            self.asked += publication.attributes.get(KIND) == "q"
        for each in to:
            if (name, each) in self.wires:
                self.wires[name, each].append(message)

    def publish(self, attributes: list[dict[str, int]]) -> list[int]:
        """In a batch, or now and then each alone, as events with a lifetime travel."""
        feed = self.nodes["feed"]
        assert isinstance(feed, Recovering | Ordered)
        if self.rng.random() < 0.2:
            first = feed.last_seq + 1
            for each in attributes:
                self.give("feed", PublishCall({**each}, lifetime_us=1_000 * MS))
            return list(range(first, feed.last_seq + 1))
        first = feed.last_seq + 1
        for each in attributes:
            self._perform("feed", feed.publish(each, b"", None, self.now_us, encode_message(each)))
        self.give("feed", Wake())
        return list(range(first, feed.last_seq + 1))

    def deliver_some(self, most: int) -> None:
        for _ in range(most):
            waiting = [route for route, messages in self.wires.items() if messages]
            if not waiting:
                return
            sender, to = self.rng.choice(waiting)
            (message,) = decode_frame_untrusted(framed([encode_message(self.wires[sender, to].popleft())]))
            self._perform(to, self.nodes[to].receive(sender, [message], self.now_us))

    def step(self, most: int = 10) -> None:
        self.now_us += STEP_US
        self.deliver_some(most)
        for name, node in self.nodes.items():
            due_us = node.next_due_us()
            if due_us is not None and due_us <= self.now_us:
                self.give(name, Wake())

    def settle(self, seconds: float = 10) -> None:
        end_us = self.now_us + int(seconds * MS)
        while self.now_us < end_us:
            self.step(10**6)
            due = [due_us for node in self.nodes.values() if (due_us := node.next_due_us()) is not None]
            self.now_us = max(self.now_us, min([*due, end_us]) - STEP_US)


CONDITIONS = ("n = 1", "n < 3", "n > 6", "n IN (2, 5, 9)", "TRUE")


def scene(seed: int, faults: bool, strict: bool) -> tuple[Network, dict[str, list[int]]]:
    """Some thousand events; for each client the numbers of those that a subscription, which it still has, wanted when
    they were published.
    """
    rng = Random(seed)
    net = Network(rng, strict)
    wants: dict[str, dict[str, str]] = {name: {} for name in ("c1", "c2", "c3")}
    owed: dict[str, dict[int, set[str]]] = {name: {} for name in wants}  # and for which subscriptions
    book = ConditionBook()
    for name, conditions in wants.items():
        conditions["s"] = rng.choice(CONDITIONS)
        net.give(name, SubscribeCall("s", conditions["s"]))
    net.settle(1)
    for turn in range(150):
        events = [{"n": rng.randrange(10)} for _ in range(rng.choice((1, 3, 20)))]
        for seq, event in zip(net.publish(events), events, strict=True):
            for name, conditions in wants.items():
                owed[name][seq] = {id_ for id_, each in conditions.items() if book.subscription(each).matches(event)}
        name = rng.choice(list(wants))
        if rng.random() < 0.1:
            wants[name][f"x{turn}"] = rng.choice(CONDITIONS)
            net.give(name, SubscribeCall(f"x{turn}", wants[name][f"x{turn}"]))
        elif rng.random() < 0.05 and len(wants[name]) > 1:
            gone = rng.choice(list(wants[name]))
            del wants[name][gone]
            net.give(name, UnsubscribeCall(gone))
            for ids in owed[name].values():
                ids.discard(gone)
        if faults and rng.random() < 0.06:
            rng.choice([lambda: net.cut("b1", "b2"), lambda: net.cut("b2", "b3"), lambda: net.restart("b2")])()
        for _ in range(rng.choice((0, 2, 20))):
            net.step(rng.choice((1, 10, 100)))
    net.settle(30)
    return net, {name: [seq for seq, ids in each.items() if ids] for name, each in owed.items()}


def judge(net: Network, owed: dict[str, list[int]]) -> None:
    for name, seqs in owed.items():
        came = [each.seq for each in net.delivered[name]]
        assert len(came) == len(set(came)), f"{name} got something twice"
        if net.strict:
            assert came == sorted(came), f"{name} got something out of order"
        named = {seq for each in net.lost[name] for seq in range(each.first, each.last + 1)}
        silent = sorted(set(seqs) - set(came) - named)
        assert not silent, f"{name} lost {silent[:5]} without a word"
        assert not set(seqs) & named, "the publisher keeps all of it"


@pytest.mark.parametrize("strict", [False, True], ids=["any order", "strict"])
@pytest.mark.parametrize("seed", range(12))
def test_what_a_cut_link_or_a_new_broker_costs_is_noticed_and_recovered(seed: int, strict: bool) -> None:
    judge(*scene(seed, faults=True, strict=strict))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_the_same_for_many_seeds(seed: int) -> None:
    judge(*scene(seed, faults=True, strict=bool(seed % 2)))


@pytest.mark.parametrize("seed", range(6))
def test_where_nothing_is_lost_and_nobody_changes_their_mind_nobody_asks(seed: int) -> None:
    rng = Random(seed)
    net = Network(rng, strict=True)
    for name in ("c1", "c2", "c3"):
        net.give(name, SubscribeCall("s", rng.choice(CONDITIONS)))
    net.settle(2)
    for _ in range(100):
        net.publish([{"n": rng.randrange(10)} for _ in range(rng.choice((1, 20)))])
        for _ in range(rng.choice((0, 5))):
            net.step(rng.choice((1, 50)))
    net.settle(5)
    assert net.asked == 0
    assert all(net.delivered[name] for name in ("c1", "c2", "c3"))


def test_an_event_that_travels_alone_waits_for_no_digest_where_order_is_strict() -> None:
    net = Network(Random(1), strict=True)
    net.give("c3", SubscribeCall("s", "TRUE"))
    net.settle(1)
    for n in range(3):
        net.give("feed", PublishCall({"n": n}, lifetime_us=60 * MS))
        net.deliver_some(100)  # and no time passes
        assert [each.attributes["n"] for each in net.delivered["c3"]] == list(range(n + 1))


@pytest.mark.parametrize("strict", [False, True], ids=["any order", "strict"])
@pytest.mark.parametrize("last", [False, True], ids=["others follow", "none follows"])
def test_an_event_that_expires_at_a_broker_is_named_and_fetched_once(strict: bool, last: bool) -> None:
    net = Network(Random(1), strict=strict)
    net.give("c3", SubscribeCall("s", "TRUE"))
    net.settle(1)
    net.publish([{"n": 1}])
    net.settle(1)
    before = net.asked
    net.give("feed", PublishCall({"n": 2}, lifetime_us=MS // 10))
    net.now_us += MS  # on its way to the first broker
    if not last:
        net.publish([{"n": 3}])
    net.settle(20)
    assert [each.attributes["n"] for each in net.delivered["c3"]] == ([1] if last else [1, 3])
    assert [(each.source, each.first, each.last, each.reason) for each in net.lost["c3"]] == [("feed", 2, 2, EXPIRED)]
    assert net.asked - before == 2  # what there was, and then for the event


def test_a_statement_that_is_tampered_with_loses_events_and_the_judge_says_so() -> None:
    """A broker that says "this is all" when it is not: what this test's judge is there to convict."""
    net = Network(Random(1))
    for name in ("c1", "c2", "c3"):
        net.give(name, SubscribeCall("s", "TRUE"))
    net.settle(1)
    net.publish([{"n": 1}])
    net.settle(1)
    net.publish([{"n": 2}, {"n": 3}])
    batch = next(each for each in net.wires["feed", "b1"] if isinstance(each, Batch) and each.seqs)
    net.wires["feed", "b1"].remove(batch)
    net.wires["feed", "b1"].append(Batch(batch.seqs[1:], "feed", batch.times_us[1:], ({"n": 3},), (), 0, 2, 3))
    net.settle(10)
    with pytest.raises(AssertionError, match="without a word"):
        judge(net, {"c1": [1, 2, 3]})
