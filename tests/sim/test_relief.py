"""Replicas beside a broker that cannot keep up: they come, share, and leave, and nothing is lost or out of order."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.books.promises import check
from holdfast.books.trace import TraceWriter
from holdfast.model.replication_messages import CopyProtocol
from holdfast.network.load import parse_text
from holdfast.network.provenance import about_run
from holdfast.network.schema import Network
from holdfast.sim.simulator import Simulation
from tests.sim.test_replication import ways

COPYING: tuple[CopyProtocol, ...] = ("synchronous", "incremental", "ordered")
SERVICE_MS = 10
MANY, BURST_S = 24, 10  # senders of 8 events a second: about twice what the middle can do, from the 2nd second on


def wave(copying: CopyProtocol = "synchronous", senders: int = MANY, **more: Any) -> Network:
    """Everybody's events go through one slow broker: too many for a while, and few afterwards."""
    clients: list[dict[str, Any]] = []
    for number in range(senders):
        end = "abc"[number % 3]
        loud = {"at_s": 2 + number / 100, "every_s": 0.125, "until_s": 2 + BURST_S, "attributes": {"v": number}}
        clients.append({"id": f"p{number}", "broker": end, "advertisements": ["v >= 0"], "publish": [loud]})
    for end in "abc":
        soft = {"at_s": 1, "every_s": 0.2, "attributes": {"v": 100}}
        clients.append({"id": f"q{end}", "broker": end, "advertisements": ["v >= 0"], "publish": [soft]})
        clients.append({"id": f"x{end}", "broker": end, "subscriptions": ["v >= 0"]})
        clients.append({"id": f"y{end}", "broker": end, "subscriptions": ["v >= 0"]})
    plan = {"protocol": copying, "relieve_queue": 60, "release_s": 3, "start_s": 0.5, "patience_s": 10}
    return parse_text(
        {
            "routing": "advertisements",
            "duration_s": 50,
            "broker": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "f", "service_ms": SERVICE_MS}],
            "topology": {"links": [["a", "f"], ["b", "f"], ["c", "f"]]},
            "links": {"delay_ms": 1},
            "client": clients,
            "replication": {**plan, **more},
        }
    )


def names(simulation: Simulation, up: bool) -> set[str]:
    return {name for name, host in simulation.hosts.items() if host.kind == "broker" and host.up is up}


@pytest.mark.parametrize("copying", COPYING)
def test_a_relief_replica_is_released_when_the_load_is_over_and_nothing_is_lost(copying: CopyProtocol) -> None:
    simulation = Simulation(wave(copying, relief_replicas=1))
    outcome = simulation.run()
    assert names(simulation, up=True) == {"a", "b", "c", "f"}
    assert names(simulation, up=False) == {"f+1"}
    assert outcome.incidents["replica_released"] == outcome.incidents["replica_ended"] == 1
    assert outcome.incidents["replica_relieved"] == 3
    assert (outcome.lost, outcome.duplicates, outcome.fifo_violations) == (0, 0, 0)
    assert set().union(*ways(simulation, "a").values()) == {"f"}


def test_brokers_that_two_cannot_relieve_get_a_third_and_no_more_than_allowed() -> None:
    for most, expected in ((1, {"f+1"}), (2, {"f+1", "f+2"}), (3, {"f+1", "f+2", "f+3"})):
        simulation = Simulation(wave(senders=45, relief_replicas=most))
        outcome = simulation.run()
        assert {name for name in simulation.hosts if "+" in name} == expected
        assert (outcome.lost, outcome.duplicates, outcome.fifo_violations) == (0, 0, 0)


def test_a_delay_asks_for_a_replica_as_a_queue_does() -> None:
    by_delay = Simulation(wave(relieve_queue=10_000_000, relieve_delay_ms=300)).run()
    assert by_delay.incidents["replica_released"] == by_delay.incidents["replica_ready"] >= 1
    assert (by_delay.lost, by_delay.duplicates, by_delay.fifo_violations) == (0, 0, 0)
    never = Simulation(wave(relieve_queue=10_000_000, relieve_delay_ms=60_000)).run()
    assert "overloaded" not in never.incidents


def test_a_broker_with_subscribers_of_its_own_is_not_relieved() -> None:
    """A replica beside it would not have their subscriptions."""
    network = wave()
    own = replace(network.clients[-1], id="own", broker="f")
    outcome = Simulation(replace(network, clients=(*network.clients, own))).run()
    assert outcome.incidents["overloaded"] > 0
    assert "replica_started" not in outcome.incidents
    assert (outcome.lost, outcome.duplicates, outcome.fifo_violations) == (0, 0, 0)


def test_a_broker_that_gets_a_subscriber_of_its_own_gives_its_replicas_up_and_nothing_is_lost() -> None:
    simulation = Simulation(wave())
    simulation.at(7_000_000, lambda: simulation.detach("xa"))
    simulation.at(7_100_000, lambda: simulation.attach("xa", "f"))
    outcome = simulation.run()
    assert outcome.incidents["replica_released"] == outcome.incidents["replica_ready"] >= 1
    assert (outcome.duplicates, outcome.fifo_violations) == (0, 0)
    last = set().union(*ways(simulation, "b").values())
    assert last == {"f"}


@pytest.mark.parametrize("copying", ["synchronous", "ordered"])
def test_two_adjacent_brokers_that_are_relieved_at_once_lose_nothing_and_give_all_replicas_up(
    copying: CopyProtocol,
) -> None:
    network = wave(copying)
    at_ends = tuple(replace(each, broker="b" if each.broker == "c" else each.broker) for each in network.clients)
    known = {each.id: each for each in network.brokers}
    brokers = tuple(replace(known["f" if name in "fg" else name], id=name) for name in "abfg")
    links = tuple(replace(network.links[0], a=one, b=other) for one, other in ("af", "fg", "gb"))
    line = replace(network, brokers=brokers, links=links, clients=at_ends, duration_us=90_000_000)
    simulation = Simulation(line)
    outcome = simulation.run()
    assert outcome.incidents["replica_released"] == outcome.incidents["replica_ready"] >= 2
    assert (outcome.lost, outcome.duplicates) == (0, 0)  # and order is not promised where both had one


# Whatever happens -------------------------------------------------------------------------------------------------

HAPPENS = ("crash the broker", "crash a replica", "hang a replica", "crash a neighbour", "subscribe")
SCHEDULES = st.lists(st.tuples(st.sampled_from(HAPPENS), st.integers(3_000, 30_000)), min_size=1, max_size=3)


def reliefs(simulation: Simulation) -> list[str]:
    roles = {name: simulation.provisioner.role(name) for name in sorted(names(simulation, up=True))}
    return [name for name, role in roles.items() if role is not None and role.use != "failover"]


def happen(simulation: Simulation, what: str) -> None:
    beside = reliefs(simulation)[:1]
    if what == "subscribe":
        simulation.subscribe("xa", f"late{simulation.now_us}", "v >= 1 AND v < 50")
    elif what == "hang a replica":
        for name in beside:
            simulation.hang(name)
            simulation.at(simulation.now_us + 2_000_000, partial(simulation.resume, name))
    else:
        of = {"crash the broker": ["f"], "crash a replica": beside, "crash a neighbour": ["c"]}
        for name in of[what]:
            if simulation.hosts[name].up:
                simulation.crash(name)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(COPYING), SCHEDULES, st.integers(0, 10_000))
def test_failures_around_replicas_lose_only_what_the_dead_had_and_break_no_promise(
    copying: CopyProtocol, schedule: list[tuple[str, int]], seed: int
) -> None:
    network = wave(copying)
    with TemporaryDirectory() as folder:
        writer = TraceWriter(Path(folder) / "run", about_run(network, "sim", seed))
        simulation = Simulation(network, seed, trace=writer)
        for what, at_ms in schedule:
            simulation.at(at_ms * 1_000, partial(happen, simulation, what))
        outcome = simulation.run()
        verdicts = check(Path(folder) / "run")
    assert verdicts["P6"].holds, verdicts["P6"]
    assert outcome.duplicates == 0
    assert not reliefs(simulation)
    assert len(names(simulation, up=True)) == 4
    if not any(what.startswith("crash") for what, _ in schedule):
        assert (outcome.lost, outcome.fifo_violations) == (0, 0)
