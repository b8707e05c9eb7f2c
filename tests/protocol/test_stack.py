"""One factory builds every broker: at best effort the bare machine, and a layer for each thing more."""

from random import Random

import pytest

from holdfast.matching.index import Index
from holdfast.model.messages import (
    Delta,
    Heartbeat,
    KeepAlive,
    LinkState,
    Publication,
    Publish,
)
from holdfast.model.replication_messages import (
    ReplicaRequest,
    Retired,
)
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Incident, LinkUp, Received, Send
from holdfast.protocol.gossip.settings import GossipSettings
from holdfast.protocol.hops.settings import Hops, HopSettings
from holdfast.protocol.node import BrokerMachine, Layer
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.replication.settings import ReplicationSettings, Role
from holdfast.protocol.settings import ProtocolSettings, Reliability, Routing
from holdfast.protocol.stack import new_broker

GOSSIP, REPLICATION = GossipSettings(), ReplicationSettings()


def broker(reliability: Reliability, routing: Routing = "subscriptions") -> BrokerMachine:
    return new_broker(BrokerParts("b1", routing, ProtocolSettings(), ConditionBook(), Index, 1, Random(1)), reliability)


def names(node: object) -> list[str]:
    """Of the machines in a stack, the outermost first."""
    return [type(node).__name__, *(names(node.inner) if isinstance(node, Layer) else [])]


@pytest.mark.parametrize(
    ("reliability", "stack"),
    [
        (Reliability(), ["CoreBroker"]),
        (Reliability(HopSettings("nack")), ["NackLayer", "CoreBroker"]),
        (Reliability(HopSettings("multipath")), ["MultipathLayer", "CoreBroker"]),
        (Reliability(HopSettings("retransmission")), ["DurableLayer", "CoreBroker"]),
        (Reliability(HopSettings("hybrid")), ["HybridLayer", "DurableLayer", "CoreBroker"]),
        (Reliability(gossip=GOSSIP), ["GossipLayer", "CoreBroker"]),
        (Reliability(HopSettings("nack"), gossip=GOSSIP), ["NackLayer", "GossipLayer", "CoreBroker"]),
        (Reliability(HopSettings("multipath"), gossip=GOSSIP), ["MultipathLayer", "GossipLayer", "CoreBroker"]),
        (Reliability(replication=REPLICATION), ["ReplicationLayer", "CoreBroker"]),
        (Reliability(HopSettings("nack"), replication=REPLICATION), ["NackLayer", "ReplicationLayer", "CoreBroker"]),
    ],
)
def test_a_broker_has_a_layer_for_each_thing_beyond_best_effort(reliability: Reliability, stack: list[str]) -> None:
    assert names(broker(reliability)) == stack


@pytest.mark.parametrize("routing", ["subscriptions", "advertisements", "destinations"])
@pytest.mark.parametrize("hops", ["basic", "nack"])
@pytest.mark.parametrize("gossip", [None, GOSSIP])
def test_with_any_layers_and_routing_strangers_and_clients_cannot_speak_for_others(
    routing: Routing, gossip: GossipSettings | None, hops: Hops
) -> None:
    made = broker(Reliability(HopSettings(hops), gossip=gossip), routing)
    made.handle(LinkUp("c", "client"), 1)
    forged = Publish(Publication("d", 1, 1, None, {"x": 1}))
    assert made.receive("c", [forged], 1) == [Incident("forged_source", "c")]
    assert made.receive("d", [forged], 1) == [Incident("unknown_neighbour", "d")]
    assert made.receive("c", [KeepAlive()], 1) == [Incident("unexpected_message", "c")]
    assert made.receive("c", [LinkState("c", 1, 1, (), ())], 1) == [Incident("unexpected_message", "c")]
    assert (made.kind_of("c"), made.kind_of("d"), made.keeps_for("c")) == ("client", None, False)


def test_a_table_that_is_refused_does_not_stop_a_replica() -> None:
    parts = BrokerParts("f+1", "advertisements", ProtocolSettings(), ConditionBook(), Index, 1, Random(1))
    replica = new_broker(parts, Reliability(replication=REPLICATION), role=Role("f", ("a",), "incremental", "failover"))
    replica.handle(LinkUp("a", "broker"), 1)
    effects = replica.handle(Received("a", Delta("subscriptions", 1, ("not a condition",), ())), 2)
    assert Incident("bad_condition", "a") in effects


def test_a_broker_that_is_replaced_and_was_never_a_neighbour_learns_of_its_replica() -> None:
    made = broker(Reliability(replication=REPLICATION))
    made.handle(Received("f+1", ReplicaRequest(7, "f", "basic", "failover")), 1)
    assert Send("f", Retired("f+1")) in made.handle(Received("f", Heartbeat(3, ((0, 0), (0, 0)))), 2)
