"""A replica is complete when everybody who lost the broker has answered: early, adjacent and hung brokers."""

import pytest

from holdfast.model.replication_messages import CopyProtocol
from holdfast.network.load import parse_text
from holdfast.network.schema import LinkSpec, Network
from holdfast.protocol.effects import ReplicaWanted
from holdfast.sim.simulator import Simulation

COPYING: tuple[CopyProtocol, ...] = ("synchronous", "incremental", "ordered")
EVERY_S = 0.05


def star(copying: CopyProtocol, crash_s: float) -> Network:
    """A publisher and two subscribers at the ends, and a broker in the middle that dies soon."""
    at_ends = [{"id": f"s{end}", "broker": end, "subscriptions": ["v > 100"]} for end in ("b", "c")]
    publish = [{"at_s": 8, "every_s": EVERY_S, "until_s": 18, "attributes": {"v": 120}}]
    return parse_text(
        {
            "routing": "advertisements",
            "duration_s": 20,
            "topology": {"kind": "star", "brokers": ["m", "a", "b", "c"]},
            "replication": {"protocol": copying},
            "client": [{"id": "p", "broker": "a", "advertisements": ["v > 0"], "publish": publish}, *at_ends],
            "fault": [{"at_s": crash_s, "kind": "crash", "broker": "m"}],
        }
    )


def line(copying: CopyProtocol, killed: dict[str, float]) -> Network:
    """Six brokers, with a publisher and a subscriber at either end."""
    publish = [{"at_s": 1, "every_s": EVERY_S, "until_s": 29, "attributes": {"v": 120}}]
    clients = []
    for end in ("b0", "b5"):
        clients.append({"id": f"p-{end}", "broker": end, "advertisements": ["v > 0"], "publish": publish})
        clients.append({"id": f"s-{end}", "broker": end, "subscriptions": ["v > 100"]})
    return parse_text(
        {
            "routing": "advertisements",
            "duration_s": 30,
            "topology": {"kind": "line", "brokers": [f"b{at}" for at in range(6)]},
            "replication": {"protocol": copying},
            "client": clients,
            "fault": [{"at_s": at_s, "kind": "crash", "broker": broker} for broker, at_s in killed.items()],
        }
    )


@pytest.mark.parametrize("copying", COPYING)
@pytest.mark.parametrize("crash_s", [0.001, 0.4, 1.2])
def test_a_broker_that_dies_soon_after_the_start_is_replaced_for_all_its_neighbours(
    copying: CopyProtocol, crash_s: float
) -> None:
    outcome = Simulation(star(copying, crash_s)).run()
    assert outcome.incidents["replaced_by"] == 3
    assert outcome.incidents["replica_ready"] == 1
    assert (outcome.lost, outcome.duplicates) == (0, 0)


@pytest.mark.parametrize("copying", COPYING)
@pytest.mark.parametrize(
    "killed",
    [
        {"b2": 8.0, "b3": 8.0},
        {"b2": 8.0, "b3": 8.7},
        {"b3": 8.0, "b2": 11.3},  # when its neighbours have just suspected the first one
        {"b2": 8.0, "b3": 8.0, "b4": 8.0},  # the one in the middle has nobody who could ask for its replica
        {"b1": 8.0, "b2": 9.5, "b3": 12.6},
    ],
)
def test_adjacent_brokers_are_replaced_and_only_what_they_had_is_lost(
    copying: CopyProtocol, killed: dict[str, float]
) -> None:
    outcome = Simulation(line(copying, killed)).run()
    assert outcome.incidents["replica_ready"] == len(killed)
    assert outcome.incidents["replaced_by"] == 2 * len(killed)
    detected_s = 3.5 + 1.0  # the lease, which runs out at some heartbeat
    silent_s = max(killed.values()) - min(killed.values()) + detected_s
    assert outcome.lost <= 2 * silent_s / EVERY_S
    assert outcome.duplicates == 0
    assert "replica_incomplete" not in outcome.incidents


@pytest.mark.parametrize("copying", COPYING)
def test_a_neighbour_that_nobody_knew_of_is_taken_in_when_it_comes(copying: CopyProtocol) -> None:
    network = star(copying, 1.2)
    simulation = Simulation(network)
    # Somebody who does not know c starts the replica by hand, and c finds it later.
    simulation.at(1_300_000, lambda: simulation.disconnect("m", "c"))
    simulation.at(1_400_000, lambda: simulation.provisioner.want(ReplicaWanted("m", ("a", "b"), copying, "failover")))
    simulation.at(6_000_000, lambda: simulation.connect(LinkSpec("c", "m+1"), replaces="m"))
    outcome = simulation.run()
    assert outcome.incidents["neighbour_came_late"] == 1
    assert outcome.incidents["replaced_by"] == 3
    assert (outcome.lost, outcome.duplicates) == (0, 0)


@pytest.mark.parametrize("copying", COPYING)
@pytest.mark.parametrize("hangs_s", [0.5, 3.0])
def test_a_broker_that_hangs_for_a_moment_goes_on_and_nothing_is_lost(copying: CopyProtocol, hangs_s: float) -> None:
    simulation = Simulation(line(copying, {}))
    simulation.at(8_000_000, lambda: simulation.hang("b2"))
    simulation.at(8_000_000 + int(hangs_s * 1_000_000), lambda: simulation.resume("b2"))
    outcome = simulation.run()
    assert (outcome.lost, outcome.duplicates) == (0, 0)
    assert "replica_started" not in outcome.incidents


@pytest.mark.parametrize("copying", COPYING)
@pytest.mark.parametrize("resumes_s", [4.7, 6.0, 12.0])
def test_a_broker_that_hung_and_was_replaced_does_no_harm_when_it_goes_on(
    copying: CopyProtocol, resumes_s: float
) -> None:
    simulation = Simulation(line(copying, {}))
    simulation.at(8_000_000, lambda: simulation.hang("b2"))
    simulation.at(8_000_000 + int(resumes_s * 1_000_000), lambda: simulation.resume("b2"))
    outcome = simulation.run()
    assert outcome.incidents["replaced_by"] == 2
    assert outcome.duplicates == 0
    assert outcome.lost <= 2 * 4.5 / EVERY_S  # what it had got before its neighbours noticed


@pytest.mark.parametrize("copying", COPYING)
def test_a_broker_restarted_under_its_name_after_its_replacement_and_its_neighbours_does_no_harm(
    copying: CopyProtocol,
) -> None:
    simulation = Simulation(line(copying, {"b2": 8.0}))
    for name, at_s in (("b1", 16.0), ("b3", 16.0)):  # they forget that b2 was replaced
        simulation.at(int(at_s * 1_000_000), lambda name=name: simulation.crash(name))  # type: ignore[misc]
        simulation.at(int(at_s * 1_000_000) + 100_000, lambda name=name: simulation.restart(name))  # type: ignore[misc]
    simulation.at(16_150_000, lambda: simulation.restart("b2"))
    outcome = simulation.run()
    assert outcome.duplicates == 0
    assert "too_many_hops" not in outcome.incidents
    assert outcome.incidents["replaced_broker_returned"] < 10  # they do not answer each other's answers
    assert outcome.lost <= 2 * (4.5 + 2.0) / EVERY_S


@pytest.mark.parametrize("copying", COPYING)
@pytest.mark.parametrize("killed", [{"b2": 8.0}, {"b2": 8.0, "b3": 8.0}])
def test_a_replica_that_is_restarted_under_its_name_gets_its_tables_again(
    copying: CopyProtocol, killed: dict[str, float]
) -> None:
    simulation = Simulation(line(copying, killed))
    replica = "b2+1"
    simulation.at(18_000_000, lambda: simulation.crash(replica))
    simulation.at(18_100_000, lambda: simulation.restart(replica))
    outcome = simulation.run()
    assert outcome.incidents["replica_ready"] == len(killed) + 1
    assert outcome.duplicates == 0
    assert outcome.lost <= 2 * (4.5 + 2.0) / EVERY_S
