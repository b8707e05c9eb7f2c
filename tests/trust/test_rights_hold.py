"""Whatever is published, subscribed, lost, repaired, stored and reloaded, nothing outside a right reaches a client.

Two brokers and three clients in memory. Everything that a broker sends to a client is read as it leaves, down to the
events inside repairs, and judged by the conditions themselves, which the machines never see in this form.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.language.parser import parse
from holdfast.matching.index import Index
from holdfast.model.errors import PeerError
from holdfast.model.event import RESERVED
from holdfast.model.messages import Batch, Deliver, Handover, Message, Numbered, Publication, Publish
from holdfast.net.denials import Denials
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Deny,
    Effect,
    Input,
    LinkDown,
    LinkUp,
    Multicast,
    Persist,
    Persisted,
    PublishCall,
    Send,
    SubscribeCall,
    UnsubscribeCall,
    Wake,
)
from holdfast.protocol.hops.settings import HopSettings
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.recovery.control import (
    Repair,
    Repaired,
    address_of,
    decode_untrusted,
    encoded,
    is_open_repair,
)
from holdfast.protocol.settings import ClientReliability, ProtocolSettings, Reliability
from holdfast.protocol.stack import new_broker, new_client
from holdfast.trust.enforcement import RightsInForce
from holdfast.trust.identity import Principal
from holdfast.trust.rights import rights_of
from holdfast.wire.signals import Denied

HOMES = {"feed": "b1", "desk": "b1", "eve": "b2"}
LEVELS = ("a = 1", "a IN (1, 2)", "b > 1", "a = 1 OR b = 3", "a <> 2", "a IS NULL OR b < 3", "TRUE", "who = $name", "")
CONDITIONS = ("TRUE", "a = 1", "a >= 1 AND b >= 1", "b = 3 OR a = 2", "a IS NULL OR a = 1", "who = 'eve'", "a <> 1")
STEP_US = 400_000


@dataclass(frozen=True)
class Rule:
    publish: str
    subscribe: str
    narrow: bool

    def allows(self, client: str, what: str, attributes: dict[str, Any]) -> bool:
        condition = getattr(self, what).replace("$name", f"'{client}'")
        return bool(condition) and parse(condition).matches(attributes)


Rules = dict[str, Rule]


@dataclass(frozen=True)
class Forgery:
    """A repair that is marked as it should be, or as something else."""

    event: dict[str, Any]
    marks: dict[str, Any]
    of: str
    is_open: bool


def written(rules: Rules) -> dict[str, Any]:
    return {"right": [{"who": name, **vars(rule)} for name, rule in rules.items()]}


class Network:
    def __init__(self, rules: Rules, reliability: ClientReliability, loss: float, seed: int) -> None:
        self.rules = rules
        self.all_rules = [rules]
        self.now_us, self._dice, self._loss = 1_000_000, Random(seed), loss
        self._book, self._reliability = ConditionBook(), reliability
        self._hops: HopSettings = reliability.hop_settings
        self._nodes: dict[str, Any] = {}
        self._rights: dict[str, RightsInForce] = {}
        self._denials: dict[str, Denials] = {}
        self._waiting: deque[tuple[str, str, Message]] = deque()
        self.seen = 0
        for name in ("b1", "b2"):
            rights = self._rights[name] = RightsInForce(rights_of(written(rules), "rights"))
            own = name, "subscriptions", ProtocolSettings(), self._book, Index, self.now_us, Random(f"{seed}/{name}")
            self._nodes[name] = new_broker(BrokerParts(*own, rights=rights), Reliability(self._hops))
        self._link("b1", "broker", "b2", "broker")
        for name, home in HOMES.items():
            about = name, ProtocolSettings(), self._book, Index, self.now_us, Random(f"{seed}/{name}")
            self._nodes[name] = new_client(*about, 1, reliability.guarantees, self._hops)
            self._denials[name] = Denials(lambda each, name=name: self.give(name, each), lambda reason: None)
            self._rights[home].set(name, Principal(name))
            self._attach(name)

    def _attach(self, client: str) -> None:
        self._link(client, "client", HOMES[client], "broker")

    def _link(self, one: str, kind: Any, other: str, other_kind: Any) -> None:
        repairs = self._hops.hops == "nack"
        for end, far, far_kind in ((other, one, kind), (one, other, other_kind)):
            self.give(end, LinkUp(far, far_kind, reliable=not self._loss, repairs=repairs))

    def give(self, node: str, given: Input) -> None:
        self._perform(node, self._nodes[node].handle(given, self.now_us))

    def _perform(self, node: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send | Multicast):
                for to in effect.to if isinstance(effect, Multicast) else (effect.to,):
                    self._judge(node, to, effect.message)
                    self._waiting.append((node, to, effect.message))
            elif isinstance(effect, Persist):
                self.give(node, Persisted(effect.token))
            elif isinstance(effect, Deny):
                said = effect.condition, effect.instead, effect.reason, effect.seq, effect.events
                self._denials[effect.client].on_denied(Denied(*said))

    def run(self) -> None:
        for _ in range(20_000):
            if not self._waiting:
                return
            sender, to, message = self._waiting.popleft()
            if self._dice.random() >= self._loss:
                self._perform(to, self._nodes[to].receive(sender, [message], self.now_us))
        raise AssertionError("the network does not come to rest")

    def forge(self, client: str, forgery: "Forgery") -> None:
        """A client says what no client of ours would: a repair of an event that nobody has published."""
        attributes: dict[str, Any] = {address_of(each): True for each in HOMES} | forgery.marks
        payload = encoded(Repair((Repaired(self.now_us, self.now_us, None, forgery.event, b""),)))
        if forgery.is_open:
            attributes |= {"~of": forgery.of, "~seq": self.now_us, "~time": self.now_us, **forgery.event}
        publish = Publish(Publication(client, 0, self.now_us, None, attributes, payload))
        broker = HOMES[client]
        self._perform(broker, self._nodes[broker].receive(client, [publish], self.now_us))
        self.run()

    def pass_time(self) -> None:
        self.now_us += STEP_US
        for name, node in self._nodes.items():
            due_us = node.next_due_us()
            if due_us is not None and due_us <= self.now_us:
                self.give(name, Wake())
        self.run()

    def reload(self, rules: Rules) -> None:
        """The files change; whose rights have changed is disconnected, and what is under way to it is gone."""
        self.rules = rules
        self.all_rules.append(rules)
        for broker, rights in self._rights.items():
            for client in rights.change(rights_of(written(rules), "rights")):
                self._waiting = deque([each for each in self._waiting if client not in each[:2]])
                self.give(broker, LinkDown(client))
                self.give(client, LinkDown(broker))
                self._attach(client)
        self.run()

    # The judge -----------------------------------------------------------------------------------

    def _judge(self, sender: str, to: str, message: Message) -> None:
        """That whatever leaves a broker is allowed to the client that gets it, and was to the one that published it."""
        for source, attributes in events_in(message) if sender in self._rights else ():
            if to in HOMES:
                assert self.rules[to].allows(to, "subscribe", attributes), f"{to} gets {attributes}"
                self.seen += 1
            allowed = [each[source].allows(source, "publish", attributes) for each in self.all_rules]
            assert any(allowed), f"{attributes} of {source} is on its way to {to}"


def events_in(message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
    """Publisher and attributes of every event that a message brings, also inside of a repair."""
    if isinstance(message, Publish | Deliver):
        yield from _inside(message.publication)
    elif isinstance(message, Batch):
        yield from ((message.source, each) for each in message.attributes)  # type: ignore[misc]
    elif isinstance(message, Numbered):
        yield from events_in(message.publish)
    elif isinstance(message, Handover) and message.message is not None:
        yield from events_in(message.message)


def _inside(publication: Publication) -> Iterator[tuple[str, dict[str, Any]]]:
    """However it is marked: whoever gets it looks at what is in it."""
    attributes: dict[str, Any] = dict(publication.attributes)
    if publication.seq or is_open_repair(attributes):
        yield publication.source, {name: value for name, value in attributes.items() if not name.startswith(RESERVED)}
        return
    with suppress(PeerError):
        control = decode_untrusted(publication)
        if isinstance(control, Repair):
            yield from ((publication.source, each.attributes) for each in control.publications)


names = st.sampled_from(sorted(HOMES))
rule = st.builds(Rule, st.sampled_from(LEVELS), st.sampled_from(LEVELS), st.booleans())
rules = st.fixed_dictionaries(dict.fromkeys(sorted(HOMES), rule))
event = st.fixed_dictionaries(
    {"b": st.integers(0, 3)}, optional={"a": st.integers(0, 3), "who": st.sampled_from(sorted(HOMES))}
)
forgery = st.builds(
    Forgery, event, st.sampled_from([{}, *[{"~": each} for each in "rgqdpwz"], {"~of": "feed"}]), names, st.booleans()
)
step = st.one_of(
    st.tuples(st.just("forge"), names, forgery),
    st.tuples(st.just("publish"), names, event),
    st.tuples(st.just("publish"), names, event),
    st.tuples(st.just("subscribe"), names, st.sampled_from(CONDITIONS)),
    st.tuples(st.just("unsubscribe"), names, st.integers(0, 3)),
    st.tuples(st.just("time"), names, st.none()),
    st.tuples(st.just("reload"), names, rules),
)
reliability = st.sampled_from(
    [
        ClientReliability(),
        ClientReliability(recovery="end-to-end"),
        ClientReliability(recovery="end-to-end", order="strict"),
        ClientReliability(hops="nack"),
        ClientReliability(hops="retransmission"),
    ]
)


Story = tuple[Rules, ClientReliability, float, int, list[tuple[str, str, Any]]]
stories = st.tuples(
    rules, reliability, st.sampled_from([0.0, 0.3]), st.integers(0, 2**16), st.lists(step, min_size=20, max_size=60)
)
CAREFREE = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=60, **CAREFREE)  # type: ignore[arg-type]
@given(stories)
def test_nothing_outside_a_right_ever_reaches_a_client(story: Story) -> None:
    nothing_reaches(*story)


@pytest.mark.slow
@settings(max_examples=10_000, **CAREFREE)  # type: ignore[arg-type]
@given(stories)
def test_nothing_outside_a_right_reaches_a_client_in_10_000_stories(story: Story) -> None:
    nothing_reaches(*story)


def nothing_reaches(
    given: Rules, reliability: ClientReliability, loss: float, seed: int, steps: list[tuple[str, str, Any]]
) -> None:
    network = Network(given, reliability, loss, seed)
    network.run()
    open_: dict[str, list[str]] = {name: [] for name in HOMES}
    first = [("subscribe", name, CONDITIONS[(seed + at) % len(CONDITIONS)]) for at, name in enumerate(HOMES)]
    for number, (what, name, of) in enumerate([*first, ("time", "", None), *steps]):
        if what == "publish":
            network.give(name, PublishCall(of, b""))
        elif what == "subscribe":
            id_ = f"s{number}"
            open_[name].append(id_)
            text = str(parse(of))
            network._denials[name].on_subscribed(id_, text)
            network.give(name, SubscribeCall(id_, text))
        elif what == "unsubscribe" and of < len(open_[name]):
            id_ = open_[name].pop(of)
            if network._denials[name].on_unsubscribed(id_):
                network.give(name, UnsubscribeCall(id_))
        elif what == "reload":
            network.reload(of)
        elif what == "forge":
            network.forge(name, of)
        network.run()
        if what == "time":
            network.pass_time()
    for _ in range(10):
        network.pass_time()


def test_the_judge_sees_what_is_delivered() -> None:
    """Or the test above would hold of a network that delivers nothing."""
    open_rule = Rule("TRUE", "a = 1", True)
    for each in (ClientReliability(), ClientReliability(hops="nack"), ClientReliability(hops="retransmission")):
        network = Network(dict.fromkeys(HOMES, open_rule), each, 0.0, 1)
        network.run()
        network._denials["eve"].on_subscribed("s", "TRUE")
        network.give("eve", SubscribeCall("s", "TRUE"))
        network.run()
        network.pass_time()
        for a in (1, 2, 1):
            network.give("desk", PublishCall({"a": a}, b""))
        network.run()
        network.pass_time()
        assert network.seen >= 2


@pytest.mark.parametrize(
    "marks", [{"~": "r"}, {"~": "g"}, {"~": "d"}, {}], ids=["repair", "greeting", "digest", "none"]
)
def test_of_a_repair_that_another_broker_lets_in_a_client_sees_what_it_may(marks: dict[str, Any]) -> None:
    everything, some = Rule("TRUE", "TRUE", True), Rule("TRUE", "a = 1", True)
    network = Network(
        {**dict.fromkeys(HOMES, everything), "desk": some}, ClientReliability(recovery="end-to-end"), 0.0, 1
    )
    network.run()
    inside = tuple([Repaired(seq, 1, None, {"a": seq}, b"") for seq in (1, 2)])
    said = Publication("eve", 0, 1, None, {address_of("desk"): True, **marks}, encoded(Repair(inside)))
    network._perform("b1", network._nodes["b1"].receive("b2", [Publish(said)], network.now_us))
    assert network.seen == 1


@pytest.mark.parametrize(("of", "seen"), [("eve", True), ("feed", False)])
@pytest.mark.parametrize("is_open", [True, False])
def test_only_its_publisher_repairs_an_event(of: str, seen: bool, is_open: bool) -> None:
    everything = dict.fromkeys(HOMES, Rule("TRUE", "TRUE", True))
    network = Network(everything, ClientReliability(recovery="end-to-end"), 0.0, 1)
    network.run()
    marks = {} if is_open else {"~": "r", "~of": of}
    network._denials["desk"].on_subscribed("s", "a = 1")
    network.give("desk", SubscribeCall("s", "a = 1"))
    network.run()
    network.forge("eve", Forgery({"a": 1, "b": 1}, marks, of, is_open))
    assert bool(network.seen) == seen
