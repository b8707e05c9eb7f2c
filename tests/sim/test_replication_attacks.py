"""Everything that can go wrong while a broker is replaced: the network ends whole, or says what is missing."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from holdfast.model.replication_messages import CopyProtocol
from holdfast.protocol.effects import ReplicaWanted
from holdfast.sim.simulator import Simulation
from tests.sim.test_replication import COPYING, FAILS_S, network, ways

SLOW = pytest.mark.slow
FAILS_US = FAILS_S * 1_000_000


def failing(copying: CopyProtocol, **more: Any) -> Simulation:
    simulation = Simulation(network(copying, **more))
    simulation.at(FAILS_US, lambda *_: simulation.crash("f"))
    return simulation


def when_there(simulation: Simulation, name: str, after_us: int, action: Any) -> None:
    """Do something so long after a broker has appeared."""

    def look(*_: object) -> None:
        if name in simulation.hosts:
            simulation.at(simulation.now_us + after_us, action)
        else:
            simulation.at(simulation.now_us + 100, look)

    simulation.at(FAILS_US, look)


def is_whole(simulation: Simulation, middle: str, neighbours_of: Sequence[str] = "abc") -> bool:
    """Whether every condition leads to the middle and from there to those who want it, and nowhere else."""
    outside = {name for each in neighbours_of for names in ways(simulation, each).values() for name in names}
    inside = {name for names in ways(simulation, middle).values() for name in names}
    return outside == {middle} and inside == set(neighbours_of)


@pytest.mark.parametrize("copying", COPYING)
@pytest.mark.parametrize("after_us", [*(pytest.param(each, marks=SLOW) for each in (0, 2_500, 10_000)), 1_500, 4_500])
def test_a_replica_may_die_at_any_moment(copying: CopyProtocol, after_us: int) -> None:
    simulation = failing(copying)
    when_there(simulation, "f+1", after_us, lambda *_: simulation.crash("f+1"))
    outcome = simulation.run()
    last = max(each for each in simulation.hosts if each.startswith("f+"))
    assert last != "f+1"
    assert is_whole(simulation, last)
    assert outcome.duplicates == 0


@pytest.mark.parametrize("copying", COPYING)
@pytest.mark.parametrize("after_us", [*(pytest.param(each, marks=SLOW) for each in (0, 3_000, 500_000)), 1_500])
def test_the_broker_may_come_back_at_any_moment(copying: CopyProtocol, after_us: int) -> None:
    simulation = failing(copying)
    when_there(simulation, "f+1", after_us, lambda *_: simulation.restart("f"))
    outcome = simulation.run()
    assert is_whole(simulation, "f+1")
    assert outcome.duplicates == 0
    assert sum(outcome.incidents.get(kind, 0) for kind in ("replaced_broker_returned", "replaced")) >= 1


@pytest.mark.parametrize("copying", COPYING)
def test_a_neighbour_that_restarts_after_the_replacement_is_told_everything(copying: CopyProtocol) -> None:
    simulation = failing(copying)
    when_there(simulation, "f+1", 1_000_000, lambda *_: simulation.crash("c"))
    when_there(simulation, "f+1", 1_500_000, lambda *_: simulation.restart("c"))
    outcome = simulation.run()
    assert is_whole(simulation, "f+1")
    assert outcome.duplicates == 0


def test_a_neighbour_that_was_away_joins_when_it_is_back() -> None:
    simulation = failing("synchronous", retry_us=200_000, patience_us=30_000_000)
    when_there(simulation, "f+1", 0, lambda *_: simulation.set_link("c", "f+1", False))
    when_there(simulation, "f+1", 2_000_000, lambda *_: simulation.set_link("c", "f+1", True))
    outcome = simulation.run()
    assert outcome.incidents["neighbour_left_out"] == 1
    assert outcome.incidents["replica_incomplete"] == 1
    assert outcome.incidents["replica_ready"] == 1  # since it is back, and not before
    assert is_whole(simulation, "f+1")


def test_a_neighbour_that_is_restarted_after_its_replacement_does_no_harm() -> None:
    simulation = failing("synchronous", retry_us=200_000, patience_us=30_000_000)
    when_there(simulation, "f+1", 0, lambda *_: simulation.crash("c"))
    when_there(simulation, "f+1", 2_000_000, lambda *_: simulation.restart("c"))
    outcome = simulation.run()
    assert outcome.incidents["replaced_broker_returned"] >= 1
    assert is_whole(simulation, "f+1", ("a", "b", "c+2"))
    assert outcome.duplicates == 0


@pytest.mark.parametrize("copying", COPYING)
def test_of_two_replicas_the_later_one_stays_and_the_other_is_told(copying: CopyProtocol) -> None:
    simulation = failing(copying)
    wanted = ReplicaWanted("f", ("a", "b", "c"), copying, "failover")

    def second(*_: object) -> None:
        simulation.provisioner.forget("f")  # somebody starts another one by hand
        simulation.provisioner.want(wanted)

    when_there(simulation, "f+1", 0, second)
    outcome = simulation.run()
    assert "f+2" in simulation.hosts
    assert is_whole(simulation, "f+2") or is_whole(simulation, "f+1")
    assert outcome.incidents["replica_outdated"] >= 1
    assert outcome.duplicates == 0


def test_a_replica_that_nobody_answers_says_so_and_asks_on() -> None:
    simulation = failing("synchronous", retry_us=100_000, provision_us=1_000_000)
    when_there(simulation, "f+1", 0, lambda *_: [simulation.crash(each) for each in "abc"])
    outcome = simulation.run()
    assert outcome.incidents["replication_failed"] >= 1
    assert "replica_ready" in outcome.incidents  # in the end, with replicas of its neighbours


def test_a_broker_that_others_only_cannot_hear_is_not_replaced() -> None:
    simulation = Simulation(network("synchronous"))
    for each in "abc":
        simulation.at(FAILS_US, partial(simulation.set_link, each, "f", False))
        simulation.at(FAILS_US + 6_000_000, partial(simulation.set_link, each, "f", True))
    outcome = simulation.run()
    assert outcome.incidents["replica_not_needed"] >= 1
    assert "replica_started" not in outcome.incidents
    assert outcome.incidents["suspect_returned"] >= 3
    assert is_whole(simulation, "f")
