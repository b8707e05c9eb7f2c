"""The express lane of brokers that gossip changes nothing but the time a run takes."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import get_args

import pytest

from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from holdfast.network.schema import Fault, Network, SubscriptionSpec
from holdfast.network.workload.listed import Scheduled
from holdfast.protocol.gossip.classes import tag_of
from holdfast.protocol.gossip.settings import GossipSettings, StyleName
from holdfast.protocol.settings import ProtocolSettings
from holdfast.sim.gossip_express import GossipExpress
from holdfast.sim.gossip_state import INTERVAL_US
from holdfast.sim.lanes import suits_gossip
from holdfast.sim.simulator import Simulation
from tests.sim.networks import SECOND, line
from tests.sim.test_express import both_ways, stateless, tree_seeds

STYLES = get_args(StyleName)


def with_gossip(network: Network, **settings: object) -> Network:
    gossip = GossipSettings(**{"transfer": "direct", **settings})  # type: ignore[arg-type]
    return replace(network, reliability=replace(network.reliability, gossip=gossip))


def gossiping(seed: int) -> Network:
    """A drawn scenario in which nothing fails: links lose, delay and reorder, and buffers are small."""
    dice, network = Random(f"{seed}/gossiping"), stateless(seed)
    loss, alike = dice.choice([0.0, 0.05, 0.3, 0.6]), dice.random() < 0.3
    links = []
    for link in network.links:
        delay_us = 1_000 if alike else link.delay_us
        jitter_us = dice.choice([0, 0, delay_us // 2])
        links.append(replace(link, loss_ratio=loss, delay_us=delay_us, jitter_us=jitter_us))
    clients = []
    for client in network.clients:
        wanted = tuple([replace(each, from_us=0, until_us=None) for each in client.subscriptions])
        schedule = tuple([replace(each, every_us=dice.choice([9_000, 40_000])) for each in client.schedule])
        clients.append(replace(client, subscriptions=wanted, schedule=schedule))
    duration_us = SECOND // 2 + dice.randrange(SECOND)
    network = replace(network, links=tuple(links), clients=tuple(clients), duration_us=duration_us)
    return with_gossip(
        replace(network, faults=(), lossy_control=False),
        style=STYLES[seed % len(STYLES)],
        interval_us=dice.choice([10_000, 30_000, 100_000]),
        buffer=dice.choice([5, 1_500]),
        forward_ratio=dice.choice([0.5, 0.85, 1.0]),
        lost_us=dice.choice([None, SECOND // 5]),
        adaptive=dice.random() < 0.3,
        transfer_delay_us=dice.choice([0, 1_000, 30_000]),
        kept_us=dice.choice([SECOND // 5, 60 * SECOND]),
        lost_max=dice.choice([3, 20_000]),
        places_max=dice.choice([20, 400_000]),
        digest_max=dice.choice([3, 1_000]),
    )


@pytest.mark.parametrize("seed", tree_seeds(24))
def test_drawn_scenarios_end_the_same(seed: int, tmp_path: Path) -> None:
    network = gossiping(seed)
    assert suits_gossip(network)
    (outcome, deliveries), (expected, expected_deliveries) = both_ways(network, tmp_path)
    assert deliveries == expected_deliveries
    assert outcome == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", tree_seeds(400)[24:])
def test_many_drawn_scenarios_end_the_same(seed: int, tmp_path: Path) -> None:
    test_drawn_scenarios_end_the_same(seed, tmp_path)


def queueing(seed: int) -> Network:
    """The same where messages wait for their line, and are dropped where too many do."""
    dice, network = Random(f"{seed}/queueing"), gossiping(seed)
    wide = {"bytes_per_s": dice.choice([20_000, 60_000, 1_250_000]), "queue_max": dice.choice([20, 10_000])}
    return replace(network, links=tuple(replace(link, **wide) for link in network.links))


@pytest.mark.parametrize("seed", tree_seeds(12))
def test_drawn_scenarios_with_queues_before_links_end_the_same(seed: int) -> None:
    network = queueing(seed)
    assert isinstance(Simulation(network)._carrier, GossipExpress)
    assert Simulation(network).run() == Simulation(network, express=False).run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", tree_seeds(400)[12:])
def test_many_drawn_scenarios_with_queues_before_links_end_the_same(seed: int) -> None:
    test_drawn_scenarios_with_queues_before_links_end_the_same(seed)


def test_where_heartbeats_wait_too_long_machines_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    network = with_gossip(line(3, 400, 5 * SECOND, bytes_per_s=20_000))
    begun = []
    build = Simulation._build
    monkeypatch.setattr(Simulation, "_build", lambda self: (begun.append(self._carrier), build(self)))
    outcome = Simulation(network).run()
    assert [isinstance(each, GossipExpress) for each in begun] == [True, False]
    assert outcome.incidents["lease_expired"] > 0
    assert outcome == Simulation(network, express=False).run()


def busy_tree(style: str, seconds: float) -> Network:
    """Equal delays: many things happen in the same microsecond, and who asked first comes first."""
    about = {"reliability.gossip": style, "reliability.gossip_transfer": "direct", "links.lossy_control": False}
    settings = {**about, "duration_s": seconds, "topology.brokers": 20}
    return parse_text(preset_text("epidemic-100"), "epidemic-100", settings)


@pytest.mark.parametrize("style", STYLES)
def test_things_of_the_same_microsecond_keep_their_order(style: str, tmp_path: Path) -> None:
    network = busy_tree(style, 0.8)
    assert suits_gossip(network)
    (outcome, deliveries), (expected, expected_deliveries) = both_ways(network, tmp_path)
    assert deliveries == expected_deliveries
    assert outcome == expected
    assert outcome.recovered["gossip"] > 5


def test_what_is_given_up_is_reported_the_same_way(tmp_path: Path) -> None:
    network = line(2, 2_000, 4 * SECOND, loss_ratio=0.7, delay_us=9_001)
    network = with_gossip(network, style="publisher-pull", buffer=5, lost_us=100_000)
    (outcome, deliveries), (expected, expected_deliveries) = both_ways(network, tmp_path)
    assert (outcome, deliveries) == (expected, expected_deliveries)
    assert outcome.incidents["gossip_gave_up"] > 100


def test_a_lane_that_waits_a_little_longer_is_found_out() -> None:
    network = busy_tree("push", 0.4)
    simulation, expected = Simulation(network, 7), Simulation(network, 7, express=False).run()
    lane = simulation._carrier
    assert isinstance(lane, GossipExpress)
    lane.settings[INTERVAL_US] += 100
    assert simulation.run() != expected


def test_conditions_that_share_a_tag_are_left_to_machines(tmp_path: Path) -> None:
    """Brokers number neither of them, so that nothing is recovered."""
    conditions = "x = 14847", "x = 24838"
    assert tag_of(conditions[0]) == tag_of(conditions[1])
    published = tuple([Scheduled(SECOND, {"x": number}, 50_000) for number in (14_847, 24_838)])
    network = line(1, 50_000, 2 * SECOND, loss_ratio=0.3)
    publisher, subscriber = network.clients
    wanted = tuple([SubscriptionSpec(condition, condition) for condition in conditions])
    clients = replace(publisher, schedule=published), replace(subscriber, subscriptions=wanted)
    network = with_gossip(replace(network, clients=clients), style="subscriber-pull")
    (outcome, deliveries), (expected, expected_deliveries) = both_ways(network, tmp_path)
    assert (outcome, deliveries) == (expected, expected_deliveries)
    assert outcome.delivered > 0
    assert "gossip" not in outcome.recovered


def test_where_leases_may_run_out_machines_carry_all() -> None:
    """Heartbeats that are held up for longer than a lease: neighbours forget each other's conditions for a while."""
    held_up = line(2, 50_000, 4 * SECOND, delay_us=SECOND, jitter_us=SECOND, reorder_ratio=0.5)
    held_up = with_gossip(
        replace(held_up, protocol=ProtocolSettings(heartbeat_us=SECOND, lease_us=SECOND + SECOND // 5))
    )
    assert Simulation(held_up, 3).run().incidents["lease_expired"] > 0
    assert suits_gossip(replace(held_up, protocol=ProtocolSettings(heartbeat_us=SECOND, lease_us=9 * SECOND)))
    assert not suits_gossip(replace(held_up, protocol=ProtocolSettings(heartbeat_us=SECOND, lease_us=8 * SECOND)))


def test_what_the_lane_knows_nothing_of_does_not_take_it() -> None:
    plain = with_gossip(line(2, 50_000, SECOND, loss_ratio=0.1))
    assert suits_gossip(plain)
    assert not suits_gossip(line(2, 50_000, SECOND))
    assert not suits_gossip(with_gossip(plain, transfer="overlay"))
    assert not suits_gossip(with_gossip(plain, transfer_loss_ratio=0.1))
    assert not suits_gossip(with_gossip(plain, streams_max=1))
    assert not suits_gossip(replace(plain, lossy_control=True))
    assert not suits_gossip(with_gossip(line(2, 50_000, SECOND, lifetime_us=SECOND)))
    assert not suits_gossip(with_gossip(line(2, 50_000, SECOND, duplicate_ratio=0.1)))
    assert not suits_gossip(with_gossip(line(2, 50_000, SECOND, mtbf_us=SECOND, mttr_us=SECOND)))
    assert not suits_gossip(replace(plain, faults=(Fault(SECOND // 2, "crash", broker="b1"),)))
