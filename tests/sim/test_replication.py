"""Brokers that fail or cannot keep up get replicas: stories in the simulator, with the real machines."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.model.replication_messages import CopyProtocol, ReplicaUse
from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from holdfast.network.schema import Network
from holdfast.protocol.effects import ReplicaWanted
from holdfast.protocol.hops.settings import Hops, HopSettings
from holdfast.protocol.replication.layer import ReplicationLayer
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.sim.simulator import Simulation
from holdfast_papers.replication.table import table

FAILS_S, DETECTED_S = 5, 3.5  # the lease
COPYING: tuple[CopyProtocol, ...] = ("basic", "synchronous", "incremental", "ordered")


def network(copying: CopyProtocol = "incremental", loss: float = 0.0, **more: Any) -> Network:
    """Figure 3 of paper 003 and a little more: everybody publishes and subscribes, through one broker in the middle."""
    clients = []
    for number, broker in enumerate("abc"):
        publish = [{"at_s": 1 + number / 100, "every_s": 0.05, "attributes": {"v": number * 3 + 1}}]
        wants = [f"v > {number}", "v > 5"]
        clients.append({"id": f"x{broker}", "broker": broker, "advertisements": ["v >= 0"], "publish": publish})
        clients.append({"id": f"y{broker}", "broker": broker, "subscriptions": wants})
    data = {
        "routing": "advertisements",
        "duration_s": 20,
        "broker": [{"id": each} for each in "abcf"],
        "topology": {"links": [["a", "f"], ["b", "f"], ["c", "f"]]},
        "links": {"delay_ms": 1, "loss": loss},
        "client": clients,
    }
    plan = replace(ReplicationSettings(copying=copying, provision_us=200_000), **more)
    return replicated(parse_text(data), plan)


def test_the_preset_replaces_the_broker_that_fails() -> None:
    few = {"client.0.count": 10, "client.1.count": 20, "duration_s": 30}
    outcome = Simulation(parse_text(preset_text("replication-star"), settings=few), seed=1).run()
    assert outcome.incidents["replica_ready"] == 1
    assert "queue_full" not in outcome.incidents
    assert outcome.delivered >= 0.85 * outcome.owed  # what was sent before it was missed is lost


def replicated(network: Network, plan: ReplicationSettings | None) -> Network:
    return replace(network, reliability=replace(network.reliability, replication=plan))


def ways(simulation: Simulation, broker: str) -> dict[str, set[str]]:
    """The neighbouring brokers that an event with each condition is sent to."""
    machine = simulation.hosts[broker].machine
    assert isinstance(machine, ReplicationLayer)
    wanted, bits = machine.inner.routes()
    return {
        condition: {name for name, bit in bits.items() if bit & mask and simulation.hosts[name].kind == "broker"}
        for condition, mask in wanted.items()
    }


@pytest.mark.parametrize("copying", COPYING)
def test_a_broker_that_dies_is_replaced_and_only_what_it_had_is_lost(copying: CopyProtocol) -> None:
    simulation = Simulation(network(copying))
    simulation.at(FAILS_S * 1_000_000, lambda *_: simulation.crash("f"))
    outcome = simulation.run()
    sent = 3 * 20 * (DETECTED_S + 1.0)  # until the lease runs out at some heartbeat
    assert outcome.incidents["replaced_by"] == 3
    assert outcome.duplicates == 0
    assert 0 < outcome.lost <= sent * 2  # each is wanted by at most two others
    assert outcome.recovered["replica"] > 0


@pytest.mark.parametrize("copying", COPYING)
@pytest.mark.parametrize("use", ["failover", "scheduling", "reordering"])
def test_no_event_takes_two_ways_or_a_circle(copying: CopyProtocol, use: ReplicaUse) -> None:
    simulation = Simulation(network(copying, marks_us=20_000))
    wanted = ReplicaWanted("f", ("a", "b", "c"), copying, use)
    simulation.at(FAILS_S * 1_000_000, lambda *_: simulation.provisioner.want(wanted))
    outcome = simulation.run()
    assert outcome.duplicates == 0
    published = outcome.messages["Publish"]["sent"] - outcome.published
    assert published <= outcome.published * 3  # to the broker in the middle and from there to the two others
    both = {"f", "f+1"}
    for broker in "abc":
        for names in ways(simulation, broker).values():
            assert names <= (both if use != "failover" else {"f+1"})
    for middle in both if use != "failover" else {"f+1"}:
        assert all(names <= {"a", "b", "c"} for names in ways(simulation, middle).values())
    if copying != "basic" and use != "failover":
        assert outcome.lost == 0


def test_tables_after_a_replacement_are_those_from_before() -> None:
    simulation = Simulation(network("synchronous"))
    before: dict[str, dict[str, set[str]]] = {}
    simulation.at(4_000_000, lambda *_: before.update({each: ways(simulation, each) for each in "abcf"}))
    simulation.at(FAILS_S * 1_000_000, lambda *_: simulation.crash("f"))
    simulation.run()
    assert ways(simulation, "f+1") == before["f"]
    for broker in "abc":
        renamed = {
            condition: {name.replace("f", "f+1") for name in names} for condition, names in before[broker].items()
        }
        assert ways(simulation, broker) == renamed


@pytest.mark.parametrize("copying", COPYING)
def test_nothing_is_left_behind_when_a_replacement_is_over(copying: CopyProtocol) -> None:
    simulation = Simulation(network(copying))
    simulation.at(FAILS_S * 1_000_000, lambda *_: simulation.crash("f"))
    simulation.run()
    for broker in ("a", "b", "c", "f+1"):
        gauges = simulation.hosts[broker].machine.gauges()
        assert [gauges[name][0] for name in gauges if "replica" in name or "order" in name] == [0, 0, 0]


def test_a_replica_that_dies_is_followed_by_another() -> None:
    simulation = Simulation(network("synchronous"))
    simulation.at(FAILS_S * 1_000_000, lambda *_: simulation.crash("f"))

    def kill(*_: object) -> None:
        if "f+1" in simulation.hosts:
            simulation.crash("f+1")
        else:
            simulation.at(simulation.now_us + 100, kill)

    simulation.at(FAILS_S * 1_000_000, kill)
    outcome = simulation.run()
    assert outcome.incidents["replica_lost"] >= 1
    assert "f+2" in simulation.hosts
    assert outcome.incidents["replaced_by"] == 3
    assert outcome.duplicates == 0


def test_a_neighbour_that_dies_meanwhile_is_replaced_too() -> None:
    simulation = Simulation(network("synchronous", retry_us=500_000))
    simulation.at(FAILS_S * 1_000_000, lambda *_: (simulation.crash("f"), simulation.crash("c")))
    outcome = simulation.run()
    assert "neighbour_left_out" not in outcome.incidents
    assert outcome.incidents["replaced_by"] == 4  # for a and b, and for the two replicas, each other's neighbour
    assert "c+2" in simulation.hosts
    assert outcome.recovered["replica"] > 0


@pytest.mark.parametrize("copying", COPYING)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_lost_control_messages_delay_a_replication_but_do_not_stop_it(copying: CopyProtocol, seed: int) -> None:
    simulation = Simulation(network(copying, loss=0.3, retry_us=300_000), seed)
    simulation.at(FAILS_S * 1_000_000, lambda *_: simulation.crash("f"))
    outcome = simulation.run()
    assert outcome.incidents["replaced_by"] == 3
    assert outcome.duplicates == 0


def test_a_broker_that_comes_back_in_time_is_not_replaced() -> None:
    simulation = Simulation(network(replace=True, provision_us=30_000_000))
    simulation.at(FAILS_S * 1_000_000, lambda *_: simulation.crash("f"))
    simulation.at((FAILS_S + 6) * 1_000_000, lambda *_: simulation.restart("f"))
    outcome = simulation.run()
    assert outcome.incidents["suspect_returned"] == 3
    assert "replaced_by" not in outcome.incidents


def test_a_broker_that_comes_back_too_late_is_told_that_it_was_replaced() -> None:
    simulation = Simulation(network())
    simulation.at(FAILS_S * 1_000_000, lambda *_: simulation.crash("f"))
    simulation.at((FAILS_S + 8) * 1_000_000, lambda *_: simulation.restart("f"))
    outcome = simulation.run()
    assert outcome.incidents["replaced_broker_returned"] >= 3
    assert outcome.duplicates == 0
    assert set().union(*ways(simulation, "a").values()) == {"f+1"}


def test_without_any_replica_the_network_goes_on_as_if_there_were_no_replication() -> None:
    simulation = Simulation(network(patience_us=2_000_000, provision_us=10**12))
    simulation.at(FAILS_S * 1_000_000, lambda *_: simulation.crash("f"))
    outcome = simulation.run()
    assert outcome.incidents["no_replica"] == 3
    assert ways(simulation, "a") == {condition: set() for condition in ways(simulation, "a")}


def test_a_broker_that_cannot_keep_up_gets_a_replica_beside_it() -> None:
    plain = network("synchronous", relieve_queue=20)
    slow = tuple(replace(each, service_us=40_000 if each.id == "f" else 0) for each in plain.brokers)
    plain = replace(plain, brokers=slow)
    alone = Simulation(replicated(plain, replace(plain.replication, relieve_queue=None))).run()  # type: ignore[type-var]
    outcome = Simulation(plain).run()
    assert outcome.incidents["overloaded"] >= 1
    assert outcome.lost == outcome.duplicates == outcome.fifo_violations == 0
    assert outcome.delay_us["p90"] < alone.delay_us["p90"] / 2


def test_while_nothing_is_wrong_replication_only_tells_neighbours_of_neighbours() -> None:
    with_it = Simulation(network()).run()
    without = Simulation(replicated(network(), None), express=False).run()
    more = {kind for kind in with_it.messages if kind not in without.messages}
    assert more == {"Neighbours"}
    assert {kind: with_it.messages[kind] for kind in without.messages} == without.messages


@pytest.mark.slow
def test_every_cell_of_the_papers_table_1() -> None:
    cells = table(range(1, 41))
    assert {(each.copying, each.use, each.promise) for each in cells if each.kept is not each.paper} == {
        (each.copying, each.use, each.promise) for each in cells if each.paper is None
    }


def test_the_papers_table_1_on_some_seeds() -> None:
    for each in table(range(1, 4)):
        if each.paper is not None:
            assert each.kept is each.paper, each
        elif (each.use, each.promise) != ("scheduling", "ordered"):
            assert each.kept, each


@pytest.mark.parametrize("hops", ["basic", "nack"])
def test_a_run_waits_for_events_that_wait_for_a_replica(hops: Hops) -> None:
    plain = network("synchronous", provision_us=3_000_000)
    simulation = Simulation(replace(plain, reliability=replace(plain.reliability, hops=HopSettings(hops))))
    simulation.at(15_000_000, lambda *_: simulation.crash("f"))  # the replica comes after the end
    outcome = simulation.run()
    assert outcome.incidents["replaced_by"] == 3
    assert outcome.recovered["replica"] > 0
