"""A bus in the simulator beside closed forms, and beside what the planner says of the same file."""

from math import sqrt
from typing import Any

import pytest

from holdfast.books.outcome import Outcome
from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from holdfast.planner.bus import delivered_share, predict_bus
from holdfast.sim.simulator import Simulation

FILE = """
seed = 5
duration_s = 12
[carrier]
lanes = "plant.{site}"
[[client]]
id = "p"
count = 2
publish = [
  {every_s = 0.01, attributes = {site = "north", temp = 31}},
  {every_s = 0.02, at_s = 0.005, attributes = {site = "north", temp = 20}},
  {every_s = 0.02, attributes = {site = "south", temp = 35}},
]
[[client]]
id = "north"
count = 3
subscriptions = ["site = 'north' AND temp > 30"]
[[client]]
id = "hot"
subscriptions = ["temp > 30"]
"""
NORTH_PER_S, ALL_PER_S = 300, 400  # that travel on the lanes of one and of both sites
SECONDS = 12
OWED = SECONDS * (3 * 200 + 300)  # of three subscribers of the north's hot ones, and one of all hot ones


def network(**settings: Any) -> Network:
    return parse_text(FILE, settings={f"carrier.{key}": value for key, value in settings.items()})


def outcome(found: Network) -> Outcome:
    return Simulation(found).run()


def recovering(**settings: Any) -> Network:
    kept = {f"carrier.{key}": value for key, value in settings.items()}
    return parse_text(FILE, settings={**kept, "reliability.recovery": "end-to-end", "reliability.order": "strict"})


def test_a_bus_sends_whole_lanes_and_clients_match_again():
    found = outcome(network())
    assert (found.owed, found.delivered) == (OWED, OWED)
    assert found.messages["Deliver"]["sent"] == SECONDS * (3 * NORTH_PER_S + ALL_PER_S)


def test_losses_on_both_ways_cost_what_they_multiply_to():
    expected = (1 - 0.05) * (1 - 0.1)
    found = outcome(network(up_loss=0.05, down_loss=0.1))
    # Subscribers share what is lost on the way up, so the published events are the independent ones.
    error = sqrt(expected * (1 - expected) / found.published)
    assert found.delivered / OWED == pytest.approx(expected, abs=3 * error)


def test_each_way_takes_its_time():
    found = outcome(network(up_delay_ms=20, down_delay_ms=5))
    assert found.delay_us["p50"] == pytest.approx(25_000, rel=0.02)


def slow(takes_per_s: int) -> Network:
    """Subscribers that want all that travels on their lane, so that chance decides nothing about what is dropped."""
    text = FILE.replace(" AND temp > 30", "").replace('"temp > 30"', '"temp > 0"')
    return parse_text(text, settings={"carrier.takes_per_s": takes_per_s, "carrier.queue": 20})


def test_a_slow_subscriber_gets_what_it_takes_and_the_bus_drops_the_rest():
    found = outcome(slow(100))
    waiting = 4 * 20  # at the end, for each of four
    assert SECONDS * 4 * 98 <= found.delivered <= SECONDS * 4 * 100 + waiting + 4


def test_what_a_bus_loses_is_recovered_in_order():
    found = outcome(recovering(up_loss=0.02, down_loss=0.05))
    assert (found.delivered, found.lost, found.duplicates, found.fifo_violations) == (OWED, 0, 0, 0)


def test_a_bus_that_is_killed_costs_nothing_with_recovery():
    crash = '[[fault]]\nkind = "crash"\nbroker = "bus"\nat_s = 4\nfor_s = 2\n'
    lossy = outcome(parse_text(FILE + crash))
    assert 0 < lossy.delivered <= OWED * 10 / 12
    found = outcome(parse_text(FILE + crash, settings={"reliability.recovery": "end-to-end"}))
    assert found.delivered == OWED


@pytest.mark.parametrize(
    "found",
    [network(up_loss=0.04, down_loss=0.08), network(down_loss=0.2), slow(100), slow(150)],
    ids=["both ways", "one way", "slow", "less slow"],
)
def test_prediction_and_simulation_agree(found: Network):
    predicted = {each.subscriber: each for each in predict_bus(found, digests=2)}
    simulated = outcome(found)
    owed = sum(each.owed_per_s for each in predicted.values())
    assert owed * SECONDS == pytest.approx(simulated.owed, rel=0.01)
    expected = sum(each.owed_per_s * each.best_effort for each in predicted.values()) / owed
    assert simulated.delivery_ratio == pytest.approx(expected, rel=0.03)
    assert found.carrier is not None
    assert (predicted["hot"].end_to_end is None) == (found.carrier.takes_per_s is not None)


def test_shares_by_hand():
    assert delivered_share(0.0, 0.0, 1_000, None) == 1.0
    assert delivered_share(0.5, 0.2, 1_000, None) == pytest.approx(0.4)
    assert delivered_share(0.0, 0.0, 1_000, 250) == pytest.approx(0.25)
    assert delivered_share(0.5, 0.0, 1_000, 250) == pytest.approx(0.25)  # 500 arrive, half of them are taken
