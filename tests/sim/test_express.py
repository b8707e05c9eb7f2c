"""The express lane changes nothing but the time a run takes: the same scenarios with it and without it."""

import itertools
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from holdfast.books.outcome import Outcome
from holdfast.books.runs import Run
from holdfast.books.trace import TraceWriter
from holdfast.network.schema import Network, SubscriptionSpec
from holdfast.network.workload.listed import Scheduled
from holdfast.protocol.gossip.settings import GossipSettings
from holdfast.sim.lanes import suits
from holdfast.sim.simulator import Simulation
from holdfast.sim.swarm_scenarios import scenario
from tests.sim.networks import SECOND, line


def stateless(seed: int) -> Network:
    """A drawn scenario, without what has a memory on the way: bursts, duplicates, service times, routing by state."""
    network = scenario(seed)
    return replace(
        network,
        routing="subscriptions" if seed % 2 else "advertisements",
        brokers=tuple([replace(broker, service_us=0) for broker in network.brokers]),
        # Odd delays, so that no two things happen in the same microsecond and their order is never in doubt.
        links=tuple(
            [
                replace(link, burst=None, duplicate_ratio=0.0, delay_us=link.delay_us + 7 * at + 1)
                for at, link in enumerate(network.links)
            ]
        ),
    )


def both_ways(network: Network, folder: Path) -> list[tuple[Outcome, list[str]]]:
    """What came of it with a lane and without one: numbers, and the rows of deliveries and incidents."""
    found = []
    for express in (True, False):
        run = folder / str(express)
        outcome = Simulation(network, 7, TraceWriter(run, {"name": "test", "seed": 7}), express).run()
        tables = [Run(run).table(name).to_pylist() for name in ("deliveries", "incidents")]
        found.append((outcome, sorted(str(row) for table in tables for row in table)))
    return found


@cache
def drawn_with_a_tree(seed: int) -> bool:
    return not scenario(seed).name.startswith("destinations")


def tree_seeds(count: int) -> list[int]:
    """The first scenarios that were drawn with a tree."""
    return list(islice(filter(drawn_with_a_tree, itertools.count()), count))


@pytest.mark.parametrize("seed", tree_seeds(30))
def test_drawn_scenarios_with_faults_and_churn_end_the_same(seed: int, tmp_path: Path) -> None:
    network = stateless(seed)
    assert suits(network)
    (outcome, deliveries), (expected, expected_deliveries) = both_ways(network, tmp_path)
    assert deliveries == expected_deliveries
    assert outcome == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", tree_seeds(300)[30:])
def test_many_drawn_scenarios_end_the_same(seed: int, tmp_path: Path) -> None:
    test_drawn_scenarios_with_faults_and_churn_end_the_same(seed, tmp_path)


def test_events_that_expire_take_the_ordinary_way(tmp_path: Path) -> None:
    network = line(4, 50_000, 4 * SECOND, lifetime_us=35_000, loss_ratio=0.1, delay_us=9_000, jitter_us=4_000)
    (outcome, deliveries), (expected, expected_deliveries) = both_ways(network, tmp_path)
    assert (outcome, deliveries) == (expected, expected_deliveries)
    assert outcome.late > 0


@pytest.mark.parametrize("gossip", [None, GossipSettings(transfer="direct")])
def test_slices_in_which_nobody_is_owed_anything_are_counted_alike(
    gossip: GossipSettings | None, tmp_path: Path
) -> None:
    network = line(2, 50_000, 2 * SECOND)
    publisher, subscriber = network.clients
    late = replace(subscriber, subscriptions=(SubscriptionSpec("all", "x = 1 AND y = 1"),))
    sometimes = replace(publisher, schedule=(*publisher.schedule, Scheduled(SECOND, {"x": 1, "y": 1})))
    reliability = replace(network.reliability, gossip=gossip)
    network = replace(network, clients=(sometimes, late), slice_us=SECOND // 4, reliability=reliability)
    (outcome, _), (expected, _) = both_ways(network, tmp_path)
    assert outcome.slices == expected.slices
    assert list(outcome.slices["owed"].values()) == [1]


def test_what_has_a_memory_does_not_take_the_express_lane() -> None:
    plain = line(2, 50_000, SECOND)
    assert suits(plain)
    assert not suits(line(2, 50_000, SECOND, duplicate_ratio=0.1))
    assert not suits(line(2, 50_000, SECOND, bytes_per_s=10_000))
    assert not suits(replace(plain, routing="destinations"))
    assert not suits(replace(plain, brokers=tuple([replace(each, service_us=10) for each in plain.brokers])))
