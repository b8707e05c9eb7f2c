"""The last hop: a client and its broker repair what the link between them loses, and name what they cannot."""

from collections.abc import Callable
from random import Random

import pytest

from holdfast.matching.index import Index
from holdfast.model.messages import (
    Arrived,
    Deliver,
    HighestSent,
    Message,
    Nack,
    NodeKind,
    Numbered,
    NumberedOutage,
    Outage,
)
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Absence,
    Effect,
    FlushCall,
    Incident,
    LinkDown,
    LinkUp,
    Lost,
)
from holdfast.protocol.hops.nack_sender import NackSender
from holdfast.protocol.hops.settings import HopSettings, NackSettings
from holdfast.protocol.node import ClientMachine
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.settings import Reliability
from holdfast.protocol.stack import new_broker, new_client
from tests.protocol.wires import BEAT_US, SETTINGS, Wires

MS = 1_000
SECOND = 1_000_000
ON_LINKS = Numbered | NumberedOutage | Nack | HighestSent | Arrived


class Repairing(Wires):
    """Brokers and clients with `hops = "nack"`, whose links were agreed to repair."""

    def __init__(self, nack: NackSettings | None = None, agreed: bool = True) -> None:
        super().__init__()
        self.lost: list[tuple[str, Lost]] = []
        self.incidents: list[tuple[str, Incident]] = []
        self._hops = HopSettings("nack", nack=nack or NackSettings())
        self._agreed = agreed
        self._clients: set[str] = set()

    def broker(self, *names: str) -> None:
        for name in names:
            parts = BrokerParts(name, "subscriptions", SETTINGS, self._book, Index, self.now_us, Random(f"0/{name}"))
            self.nodes[name] = new_broker(parts, Reliability(self._hops))

    def client(self, name: str, broker: str, *conditions: str) -> None:
        self._clients.add(name)
        dice = Random(f"0/{name}")
        self.nodes[name] = new_client(  # type: ignore[assignment]
            name, SETTINGS, self._book, Index, self.now_us, dice, hops=self._hops
        )
        self.link(broker, name)
        self._subscribe(name, *conditions)

    def link(self, a: str, b: str) -> None:
        self.links |= {(a, b): None, (b, a): None}
        for one, other in ((a, b), (b, a)):
            self._handle(one, LinkUp(other, self._kind(other), repairs=self._agreed))
        self._carry()

    def _kind(self, name: str) -> NodeKind:
        return "client" if name in self._clients else "broker"

    def _observe(self, name: str, effect: Effect) -> None:
        if isinstance(effect, Lost):
            self.lost.append((name, effect))
        elif isinstance(effect, Incident):
            self.incidents.append((name, effect))

    def as_client(self, name: str) -> ClientMachine:
        return self.nodes[name]  # type: ignore[return-value]

    def got(self, name: str) -> list[object]:
        return [each["n"] for client, each in self.delivered if client == name]


def pair(nack: NackSettings | None = None, agreed: bool = True) -> Repairing:
    """A publisher and a subscriber at one broker."""
    wires = Repairing(nack, agreed)
    wires.broker("b1")
    wires.client("p", "b1")
    wires.client("s", "b1", "n > 0")
    return wires


def publish(wires: Repairing, numbers: range) -> None:
    for number in numbers:
        wires.publish("p", n=number)
        wires.pass_time(2 * MS)


def on(link: set[str]) -> Callable[[str, str, Message], bool]:
    """Lose everything on this link."""
    return lambda sender, to, message: {sender, to} == link


@pytest.mark.parametrize("seed", range(5))
def test_a_client_gets_and_gives_everything_once_whatever_its_link_loses(seed: int) -> None:
    wires, dice = pair(), Random(seed)
    wires.loses = lambda sender, to, message: isinstance(message, ON_LINKS) and dice.random() < 0.3
    publish(wires, range(1, 201))
    wires.pass_time(10 * SECOND)
    assert sorted(wires.got("s")) == list(range(1, 201))  # type: ignore[type-var]
    assert wires.lost == []


def test_the_last_event_before_a_long_silence_is_found_with_a_heartbeat() -> None:
    wires = pair(NackSettings(beats=1))
    wires.loses = lambda sender, to, message: to == "s" and isinstance(message, Numbered | HighestSent)
    wires.publish("p", n=1)
    wires.pass_time(200 * MS)  # by now its broker has said the number for the last time, and in vain
    wires.loses = lambda sender, to, message: False
    wires.pass_time(2 * BEAT_US)
    assert wires.got("s") == [1]


def test_nothing_is_numbered_where_the_other_end_does_not_take_part() -> None:
    wires = pair(agreed=False)
    wires.publish("p", n=1)
    wires.pass_time(3 * BEAT_US)
    assert wires.got("s") == [1]
    assert not any(isinstance(message, ON_LINKS) for _, _, message in wires.sent)
    assert wires.as_client("p").sent_and_confirmed == (0, 0)


def test_what_the_broker_no_longer_has_is_named_by_number_of_events_and_time() -> None:
    wires = pair(NackSettings(ring=4))
    publish(wires, range(1, 3))
    wires.loses = on({"b1", "s"})
    began_us = wires.now_us
    publish(wires, range(3, 13))
    wires.loses = lambda sender, to, message: False
    ended_us = wires.now_us
    publish(wires, range(13, 14))
    wires.pass_time(SECOND)
    assert sorted(wires.got("s")) == [1, 2, 10, 11, 12, 13]  # type: ignore[type-var]
    assert {name for name, _ in wires.lost} == {"s"}
    assert sum(loss.events for _, loss in wires.lost) == 7
    for _, loss in wires.lost:
        assert began_us - 2 * MS <= loss.since_us <= began_us
        assert loss.until_us == ended_us


def test_what_is_missing_when_the_link_ends_is_named() -> None:
    wires = pair()
    publish(wires, range(1, 2))
    wires.loses = lambda sender, to, message: to == "s" and isinstance(message, Numbered) and message.seq == 2
    publish(wires, range(2, 4))
    wires.give("s", LinkDown("b1"))
    [(name, loss)] = wires.lost
    assert (name, loss.events) == ("s", 1)
    assert "b1" in loss.reason


def test_an_absence_begins_when_the_broker_was_last_known_to_have_sent_nothing_else() -> None:
    wires = pair()
    publish(wires, range(1, 2))
    heard_us = wires.now_us - 2 * MS
    wires.loses = lambda sender, to, message: to == "s" and isinstance(message, Numbered | HighestSent)
    publish(wires, range(2, 4))
    wires.give("s", LinkDown("b1"))
    wires.give("s", Absence(wires.now_us + 5, wires.now_us + 9, "b1 was restarted"))
    assert wires.lost == [("s", Lost("", 0, 0, "b1 was restarted", heard_us, wires.now_us + BEAT_US))]


def test_a_client_that_its_broker_has_forgotten_is_told_when_it_is_back() -> None:
    wires = pair()
    wires.pass_time(BEAT_US)
    began_us = wires.now_us
    wires.loses = on({"b1", "s"})
    wires.pass_time(SETTINGS.lease_us + 2 * BEAT_US)
    wires.publish("p", n=1)  # nobody wants it, as far as the broker knows
    wires.loses = lambda sender, to, message: False
    wires.pass_time(2 * BEAT_US)
    wires.publish("p", n=2)
    assert wires.got("s") == [2]
    [(name, loss)] = wires.lost
    assert name == "s"
    assert began_us - 2 * BEAT_US <= loss.since_us <= began_us
    assert loss.until_us >= began_us + SETTINGS.lease_us + 2 * BEAT_US


def test_a_client_that_took_leave_is_told_of_no_outage() -> None:
    wires = pair()
    wires.give("s", LinkDown("b1"))
    wires.pass_time(SETTINGS.lease_us + 2 * BEAT_US)
    wires.link("b1", "s")
    wires.pass_time(2 * BEAT_US)
    assert wires.lost == []


def test_clients_on_both_sides_learn_that_brokers_had_forgotten_each_other_even_if_that_is_lost_at_first() -> None:
    wires = Repairing()
    wires.broker("b1", "b2")
    wires.link("b1", "b2")
    wires.client("p", "b1", "n > 0")
    wires.client("s", "b2", "n > 0")
    wires.pass_time(2 * BEAT_US)
    wires.loses = on({"b1", "b2"})
    wires.pass_time(SETTINGS.lease_us + 3 * BEAT_US)
    wires.publish("p", n=1)
    published_us, wires.lost = wires.now_us, []
    lost: set[tuple[str, int]] = set()

    def loses_each_once(sender: str, to: str, message: Message) -> bool:
        if not isinstance(message, NumberedOutage) or (to, message.seq) in lost:
            return False
        lost.add((to, message.seq))
        return True

    wires.loses = loses_each_once
    wires.pass_time(4 * BEAT_US)
    for client in ("p", "s"):
        named = [loss for name, loss in wires.lost if name == client]
        assert any(loss.since_us < published_us < loss.until_us for loss in named), client
    assert wires.publish("p", n=2) == ["p", "s"]


def test_clients_of_a_broker_that_was_forgotten_and_noticed_nothing_learn_of_it() -> None:
    wires = Repairing()
    wires.broker("b1", "b2")
    wires.link("b1", "b2")
    wires.client("p", "b2", "n > 0")
    wires.client("s", "b1", "n > 0")
    wires.pass_time(2 * BEAT_US)
    wires.loses = lambda sender, to, message: (sender, to) == ("b1", "b2")  # as if b1 were stopped
    wires.pass_time(SETTINGS.lease_us + 2 * BEAT_US)
    assert wires.publish("p", n=1) == ["p"]
    published_us = wires.now_us
    wires.loses = lambda sender, to, message: False
    wires.pass_time(4 * BEAT_US)
    named = [loss for name, loss in wires.lost if name == "s"]
    assert any(loss.since_us < published_us < loss.until_us for loss in named)
    assert wires.publish("p", n=2) == ["p", "s"]


def test_a_client_that_comes_back_after_an_outage_was_told_learns_of_it() -> None:
    wires = Repairing()
    wires.broker("b1", "b2")
    wires.link("b1", "b2")
    wires.client("s", "b2", "n > 0")
    wires.pass_time(2 * BEAT_US)
    began_us = wires.now_us
    wires.cut("b2", "s")
    wires.cut("b1", "b2")
    wires.pass_time(BEAT_US)
    wires.link("b1", "b2")
    assert wires.lost == []
    wires.link("b2", "s")
    assert any(loss.since_us <= began_us for _, loss in wires.lost)


def test_an_outage_goes_on_if_a_broker_is_lost_again_before_its_clients_were_back() -> None:
    wires = Repairing()
    wires.broker("b1", "b2")
    wires.link("b1", "b2")
    wires.client("s", "b2", "n > 0")
    wires.pass_time(2 * BEAT_US)
    began_us = wires.now_us
    for _ in range(2):
        wires.cut("b1", "b2")
        wires.cut("b2", "s") if ("b2", "s") in wires.links else None
        wires.pass_time(BEAT_US)
        wires.broker("b2")  # it is restarted, and knows of nothing
        wires.link("b1", "b2")
    wires.link("b2", "s")
    assert any(loss.since_us <= began_us for _, loss in wires.lost)


def test_clients_learn_what_the_link_between_two_brokers_has_lost_for_good() -> None:
    wires = Repairing(NackSettings(ring=4))
    wires.broker("b1", "b2")
    wires.link("b1", "b2")
    wires.client("p", "b1")
    wires.client("s", "b2", "n > 0")
    wires.pass_time(2 * BEAT_US)
    began_us = wires.now_us
    wires.loses = on({"b1", "b2"})
    publish(wires, range(1, 11))
    ended_us, wires.loses = wires.now_us, lambda sender, to, message: False
    wires.pass_time(SECOND)
    assert sorted(wires.got("s")) == [7, 8, 9, 10]  # type: ignore[type-var]
    assert ("b2", Incident("link_repair_failed", "b1", 6)) in wires.incidents
    assert any(name == "s" and loss.since_us <= began_us and loss.until_us >= ended_us for name, loss in wires.lost)


def test_a_client_that_has_sent_half_its_ring_waits_for_its_broker() -> None:
    wires = pair(NackSettings(ring=8))
    wires.loses = on({"p", "b1"})
    publish(wires, range(1, 5))
    client = wires.as_client("p")
    assert not client.has_sent_enough
    publish(wires, range(5, 6))
    assert client.has_sent_enough
    wires.loses = lambda sender, to, message: False
    wires.pass_time(SECOND)
    assert not client.has_sent_enough
    assert sorted(wires.got("s")) == [1, 2, 3, 4, 5]  # type: ignore[type-var]


def test_a_flush_is_confirmed_when_the_broker_has_everything() -> None:
    wires = pair()
    wires.loses = lambda sender, to, message: sender == "p" and isinstance(message, Numbered) and not message.again
    wires.publish("p", n=1)
    client = wires.as_client("p")
    wires.loses = lambda sender, to, message: isinstance(message, Numbered)
    wires.give("p", FlushCall())
    assert client.sent_and_confirmed == (1, 0)
    wires.loses = lambda sender, to, message: False
    wires.pass_time(SECOND)
    wires.give("p", FlushCall())
    assert client.sent_and_confirmed == (1, 1)
    assert wires.got("s") == [1]


def test_an_outage_that_is_sent_again_tells_how_long_ago_it_began_by_then() -> None:
    sender = NackSender(5, NackSettings())
    assert sender.send(Outage("b1", "b2", 300), 1_000) == NumberedOutage(5, 1, False, Outage("b1", "b2", 300))
    assert sender.on_missing(Nack(5, (1,)), 1_500) == [NumberedOutage(5, 1, True, Outage("b1", "b2", 800))]


def test_a_client_without_the_layer_is_served_by_the_same_broker() -> None:
    wires = pair()
    wires.nodes["old"] = new_client(  # type: ignore[assignment]
        "old", SETTINGS, ConditionBook(), Index, 0, Random(0)
    )
    wires._clients.add("old")
    wires._agreed = False
    wires.link("b1", "old")
    wires._subscribe("old", "n > 0")
    assert wires.publish("p", n=1) == ["old", "s"]
    kinds = {to: type(message) for _, to, message in wires.sent if isinstance(message, Deliver | Numbered)}
    assert kinds["old"] is Deliver
