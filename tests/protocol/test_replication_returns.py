"""A suspected broker that is back: in the life that we knew, in another one, or in the shape of a replica."""

from random import Random

import pytest

from holdfast.matching.index import Index
from holdfast.model.messages import (
    Delta,
    Heartbeat,
    Message,
    Outage,
    Publication,
    Publish,
    Reachable,
)
from holdfast.model.replication_messages import (
    CopyDone,
    ReplicaRequest,
    Retired,
)
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Effect, Incident, Input, LinkDown, LinkUp, Multicast, Received, Send, Wake
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.settings import ProtocolSettings, Reliability
from holdfast.protocol.stack import new_broker

S = 1_000_000


class Beside:
    """Broker b with a client c, next to f, which has told it of a subscription and whose link goes down at 2 s."""

    def __init__(self) -> None:
        settings = ProtocolSettings(heartbeat_us=S, lease_us=3 * S)
        parts = BrokerParts("b", "subscriptions", settings, ConditionBook(), Index, 0, Random(1))
        self.broker = new_broker(parts, Reliability(replication=ReplicationSettings()))
        self.now_us = 0
        self.give(LinkUp("c", "client", reliable=True))
        self.give(LinkUp("f", "broker", reliable=True))
        self.hear("f", Heartbeat(1, ((0, 0), (0, 0))), Delta("subscriptions", 1, ("v > 0",), ()))
        self.now_us = 2 * S
        self.give(LinkDown("f"))
        self.hear("c", Publish(Publication("c", 1, self.now_us, None, {"v": 1})))

    def give(self, given: Input) -> list[Effect]:
        return self.broker.handle(given, self.now_us)

    def hear(self, name: str, *messages: Message) -> list[Effect]:
        return [effect for each in messages for effect in self.give(Received(name, each))]

    def until(self, time_us: int) -> list[Effect]:
        effects: list[Effect] = []
        while (due_us := self.broker.next_due_us()) <= time_us:
            self.now_us = max(self.now_us, due_us)
            effects += self.give(Wake())
        self.now_us = time_us
        return effects

    def replace(self, replica: str, epoch: int, faulty: str = "f") -> list[Effect]:
        """A replica comes, asks and is done."""
        self.give(LinkUp(replica, "broker", faulty, reliable=True))
        effects = self.hear(replica, ReplicaRequest(epoch, faulty, "ordered", "failover"), CopyDone(epoch, 0))
        return effects + self.until(self.now_us)


def sent(effects: list[Effect], to: str, kind: type) -> list[Message]:
    found = [
        (each.to,) if isinstance(each, Send) else each.to for each in effects if isinstance(each, Send | Multicast)
    ]
    messages = [each.message for each in effects if isinstance(each, Send | Multicast)]
    return [each for names, each in zip(found, messages, strict=True) if to in names and isinstance(each, kind)]


def outages(effects: list[Effect]) -> list[tuple[str, int, bool]]:
    """What the client c hears of links that are down: to whom, since how long, and whether they still are."""
    told = sent(effects, "c", Outage)
    return [(each.other, each.ago_us, each.lasts) for each in told if isinstance(each, Outage)]


@pytest.fixture
def beside() -> Beside:
    return Beside()


def test_a_broker_that_was_only_cut_off_gets_what_waited_at_once(beside: Beside) -> None:
    assert not sent(beside.give(LinkUp("f", "broker", reliable=True)), "f", Publish)
    effects = beside.hear("f", Heartbeat(1, ((0, 0), (0, 0))))
    assert len(sent(effects, "f", Publish)) == 1
    assert not sent(effects, "c", Outage)


def test_a_broker_that_began_anew_gets_what_waited_when_others_have_told_it_what_they_want(beside: Beside) -> None:
    beside.give(LinkUp("f", "broker", reliable=True))
    effects = beside.hear("f", Heartbeat(2, ((0, 0), (0, 0))))
    assert not sent(effects, "f", Publish)
    assert outages(effects) == [("f", 2 * S, True), ("f", 2 * S, False)]  # it wants nothing, and so knows everything
    assert not sent(beside.until(beside.now_us + 2 * S - 1), "f", Publish)
    assert len(sent(beside.until(beside.now_us + 1), "f", Publish)) == 1


def test_a_broker_that_began_anew_and_is_gone_again_is_waited_for(beside: Beside) -> None:
    beside.give(LinkUp("f", "broker", reliable=True))
    beside.hear("f", Heartbeat(2, ((0, 0), (0, 0))))
    assert Incident("suspected", "f") in beside.give(LinkDown("f"))
    assert not sent(beside.until(beside.now_us + 2 * S), "f", Publish)
    assert len(sent(beside.replace("f+1", 5), "f+1", Publish)) == 1


def test_clients_are_told_since_when_a_broker_that_was_replaced_may_have_kept_events_for_them(beside: Beside) -> None:
    beside.until(4 * S)
    effects = beside.replace("f+1", 5)
    assert Incident("replaced_by", "f", other="f+1") in effects
    assert outages(effects) == [("f+1", 4 * S, True)]


def test_the_outage_of_a_broker_that_was_given_up_ends_for_all_when_it_is_replaced_after_all(beside: Beside) -> None:
    patience_us = ReplicationSettings().patience_us
    assert ("f", True) in [(name, lasts) for name, _, lasts in outages(beside.until(3 * S + patience_us))]
    effects = beside.replace("f+1", 5)
    assert [(name, lasts) for name, _, lasts in outages(effects)] == [("f", False), ("f+1", True)]
    told = [each for each in sent(effects, "f+1", Outage) if isinstance(each, Outage)]
    assert [(each.other, each.lasts) for each in told] == [("f", False), ("f+1", True)]


def test_nobody_misses_a_broker_while_its_replica_is_reached(beside: Beside) -> None:
    effects = beside.replace("f+1", 5)
    told = [each.names for each in sent(effects, "c", Reachable) if isinstance(each, Reachable)]
    assert set(told[-1]) >= {"f", "f+1"}
    beside.hear("f+1", Heartbeat(5, ((0, 0), (0, 0))))
    assert outages(beside.hear("f+1", Reachable(()))) == []
    assert outages(beside.give(LinkUp("d", "client", reliable=True))) == []


def test_a_replica_that_began_anew_is_told_everything_again(beside: Beside) -> None:
    beside.replace("f+1", 5)
    beside.give(LinkDown("f+1"))
    effects = beside.replace("f+1", 4)  # its clock was set back
    assert Incident("replaced_by", "f", other="f+1") in effects
    again = beside.hear("f+1", ReplicaRequest(4, "f", "ordered", "failover"))
    assert again == []  # it has everything


def test_a_replica_that_failed_is_replaced_also_in_the_name_of_the_broker_before_it(beside: Beside) -> None:
    beside.replace("f+1", 5)
    beside.give(LinkDown("f+1"))
    effects = beside.replace("f+2", 6)  # somebody who has never heard of f+1 has asked for it
    assert Incident("replaced_by", "f+1", other="f+2") in effects
    outdated = beside.replace("f+0", 3)
    assert sent(outdated, "f+0", Retired)


def test_a_broker_whose_replica_died_before_it_took_over_is_meant_by_the_next_ones_name(beside: Beside) -> None:
    beside.give(LinkUp("f+1", "broker", "f", reliable=True))
    beside.hear("f+1", ReplicaRequest(5, "f", "ordered", "failover"))
    beside.give(LinkDown("f+1"))
    effects = beside.replace("f+1+2", 6, faulty="f+1")  # others had it in the place of f already
    assert Incident("replaced_by", "f", other="f+1+2") in effects
    assert len(sent(effects, "f+1+2", Publish)) == 1
