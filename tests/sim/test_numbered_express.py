"""The express lane of links that repair their losses changes nothing but the time a run takes."""

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from holdfast.network.schema import Fault, Network
from holdfast.protocol.hops.settings import HopSettings, NackSettings
from holdfast.sim.lanes import suits_numbered
from holdfast.sim.numbered_express import NumberedExpress
from holdfast.sim.numbered_state import IDLE_US
from holdfast.sim.simulator import Simulation
from tests.sim.networks import SECOND, line
from tests.sim.test_express import both_ways, stateless, tree_seeds


def with_nack(network: Network, **settings: int) -> Network:
    hops = HopSettings("nack", NackSettings(**settings))
    return replace(network, reliability=replace(network.reliability, hops=hops))


def numbered(seed: int) -> Network:
    """A drawn scenario without failures: subscriptions come and go, links lose, delay and reorder, rings are small."""
    dice, network = Random(f"{seed}/numbered"), stateless(seed)
    loss = dice.choice([0.0, 0.05, 0.3, 0.9])
    jitters_us = [dice.choice([0, 0, each.delay_us // 2]) for each in network.links]
    changed = zip(network.links, jitters_us, strict=True)
    links = [replace(each, loss_ratio=loss, jitter_us=jitter_us) for each, jitter_us in changed]
    kept = [fault for fault in network.faults if fault.kind in ("subscribe", "unsubscribe")]
    network = replace(network, links=tuple(links), faults=tuple(kept), lossy_control=dice.random() < 0.5)
    return with_nack(network, ring=dice.choice([4, 64, 1_024]), tries=dice.choice([2, 30]))


@pytest.mark.parametrize("seed", tree_seeds(20))
def test_drawn_scenarios_end_the_same(seed: int, tmp_path: Path) -> None:
    network = numbered(seed)
    assert suits_numbered(network)
    (outcome, deliveries), (expected, expected_deliveries) = both_ways(network, tmp_path)
    assert deliveries == expected_deliveries
    assert outcome == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", tree_seeds(400)[20:])
def test_many_drawn_scenarios_end_the_same(seed: int, tmp_path: Path) -> None:
    test_drawn_scenarios_end_the_same(seed, tmp_path)


def busy_tree(seconds: float) -> Network:
    """Equal delays: many things happen in the same microsecond, and who asked first comes first."""
    settings = {"duration_s": seconds, "reliability.hops": "nack", "topology.brokers": 20}
    return parse_text(preset_text("epidemic-100"), "epidemic-100", settings)


def test_things_of_the_same_microsecond_keep_their_order(tmp_path: Path) -> None:
    (outcome, deliveries), (expected, expected_deliveries) = both_ways(busy_tree(0.7), tmp_path)
    assert deliveries == expected_deliveries
    assert outcome == expected
    assert outcome.messages["Nack"]["sent"] > 100
    assert outcome.recovered["retransmission"] > 100


def test_what_is_given_up_is_reported_the_same_way(tmp_path: Path) -> None:
    network = with_nack(line(2, 2_000, 4 * SECOND, loss_ratio=0.9, delay_us=9_001), ring=8, tries=2)
    (outcome, deliveries), (expected, expected_deliveries) = both_ways(network, tmp_path)
    assert (outcome, deliveries) == (expected, expected_deliveries)
    assert outcome.incidents["link_repair_failed"] > 100


def test_a_lane_that_waits_a_little_longer_is_found_out(tmp_path: Path) -> None:
    network = busy_tree(0.4)
    simulation, expected = Simulation(network, 7), Simulation(network, 7, express=False).run()
    lane = simulation._carrier
    assert isinstance(lane, NumberedExpress)
    lane._settings[IDLE_US] += np.int64(1)
    assert simulation.run() != expected


def test_what_touches_links_otherwise_does_not_take_the_lane() -> None:
    plain = with_nack(line(2, 50_000, SECOND))
    assert suits_numbered(plain)
    assert not suits_numbered(line(2, 50_000, SECOND))
    assert not suits_numbered(with_nack(line(2, 50_000, SECOND, lifetime_us=SECOND)))
    assert not suits_numbered(with_nack(line(2, 50_000, SECOND, bytes_per_s=10_000)))
    assert not suits_numbered(with_nack(line(2, 50_000, SECOND, mtbf_us=SECOND, mttr_us=SECOND)))
    assert not suits_numbered(replace(plain, faults=(Fault(SECOND, "crash", broker="b1"),)))
