"""The simulator against closed forms; tolerances are three standard errors of the sample."""

from math import sqrt

import pytest

from holdfast.network.schema import BrokerSpec, Burst, ClientSpec, Network, SubscriptionSpec
from holdfast.network.workload.patterns import Patterns
from holdfast.network.workload.publication import PublishingWindow
from holdfast.network.workload.traffic import Traffic
from holdfast.sim.simulator import Simulation
from tests.sim.networks import SECOND, line


@pytest.mark.parametrize(("hops", "loss"), [(1, 0.1), (3, 0.05), (6, 0.2), (2, 0.0)])
def test_a_lossy_path_delivers_as_the_product_of_its_links(hops: int, loss: float) -> None:
    outcome = Simulation(line(hops, every_us=1_000, duration_us=21 * SECOND, loss_ratio=loss), seed=3).run()
    expected = (1 - loss) ** hops
    error = sqrt(expected * (1 - expected) / outcome.owed)
    assert outcome.owed == 20_000
    assert abs(outcome.delivery_ratio - expected) <= 3 * error
    assert outcome.delivered + outcome.lost == outcome.owed


def test_bursts_lose_the_stationary_share() -> None:
    burst = Burst(to_bad_ratio=0.02, to_good_ratio=0.2, loss_ratio=0.8)
    outcome = Simulation(line(1, 1_000, 41 * SECOND, loss_ratio=0.01, burst=burst), seed=4).run()
    bad = 0.02 / 0.22
    expected = 1 - (bad * 0.8 + (1 - bad) * 0.01)
    # Losses in a burst come together: the variance of the mean is larger by (1 + r) / (1 - r), r = 1 - .02 - .2.
    error = sqrt(expected * (1 - expected) / outcome.owed * (1 + 0.78) / (1 - 0.78))
    assert abs(outcome.delivery_ratio - expected) <= 3 * error


def test_delays_add_up() -> None:
    outcome = Simulation(line(4, 10_000, 3 * SECOND, delay_us=2_500)).run()
    assert outcome.delay_us["max"] == 4 * 2_500


def test_jitter_stays_within_its_bounds_and_reordering_breaks_order() -> None:
    outcome = Simulation(line(1, 1_000, 6 * SECOND, delay_us=5_000, jitter_us=4_000), seed=2).run()
    assert outcome.delay_us["max"] <= 9_000
    assert outcome.fifo_violations > 0
    assert outcome.delivered == outcome.owed


def test_duplicates_on_a_link_are_not_delivered_twice() -> None:
    outcome = Simulation(line(2, 1_000, 6 * SECOND, duplicate_ratio=0.3), seed=2).run()
    assert outcome.delivered == outcome.owed == 5_000
    assert outcome.duplicates == 0
    assert outcome.incidents["duplicate"] > 1_000


def test_a_full_link_queue_drops_and_a_short_one_delays() -> None:
    full = Simulation(line(1, 1_000, 6 * SECOND, bytes_per_s=10_000, queue_max=5, delay_us=0), seed=2).run()
    assert full.lost > full.owed / 2
    sparse = Simulation(line(1, 100_000, 6 * SECOND, bytes_per_s=10_000, queue_max=5, delay_us=0), seed=2).run()
    assert sparse.lost == 0
    assert 1_000 < sparse.delay_us["p50"] < 100_000


def test_an_event_that_expires_on_its_way_is_late_not_lost() -> None:
    outcome = Simulation(line(3, 10_000, 2 * SECOND, lifetime_us=5_000, delay_us=2_000)).run()
    assert (outcome.owed, outcome.delivered, outcome.late, outcome.lost) == (100, 0, 100, 0)


def one_broker(spec: BrokerSpec, rate_per_s: float, seconds: int) -> Network:
    return Network(
        name="a queue",
        seed=5,
        duration_us=seconds * SECOND,
        routing="subscriptions",
        brokers=(spec,),
        links=(),
        clients=(ClientSpec("c", "b", (SubscriptionSpec("s", "p1 = TRUE"),), publishes=True, works=True),),
        workload=Patterns(Traffic(rate_per_s), patterns=1, per_event=1, per_client=1),
        window=PublishingWindow(SECOND, seconds * SECOND),
    )


def test_a_single_broker_waits_as_the_m_m_1_formula_says() -> None:
    rate_per_s, service_us = 500.0, 1_000
    spec = BrokerSpec("b", service_us=service_us, service="exponential", queue_max=10**6)
    outcome = Simulation(one_broker(spec, rate_per_s, 120)).run()
    assert outcome.fifo_violations == 0
    # Sojourn times of M/M/1 are exponential with rate mu - lambda: here mean 2 ms, median 2 ms * ln 2.
    mean_us = 1 / (1e6 / service_us - rate_per_s) * 1e6
    median_us = mean_us * 0.693
    # Successive waits are correlated; at load 1/2 about (1 + rho) / (1 - rho) squared customers make one sample.
    error_us = 1.25 * mean_us / sqrt(outcome.owed / 9)
    assert abs(outcome.delay_us["p50"] - median_us) <= 3 * error_us + 0.02 * median_us


def test_messages_overtake_each_other_where_servers_are_many() -> None:
    rate_per_s, service_us = 100.0, 10_000
    spec = BrokerSpec("b", service_us=service_us, service="exponential", queue_max=10**6, servers=50)
    outcome = Simulation(one_broker(spec, rate_per_s, 60)).run()
    # Nobody waits, so that the time here is the service time: its median is 10 ms * ln 2.
    error_us = 1.25 * service_us / sqrt(outcome.owed)
    assert abs(outcome.delay_us["p50"] - 0.693 * service_us) <= 3 * error_us + 0.02 * service_us
    # A message violates the order when the one behind it is through first, or one further behind: of two that leave an
    # exponential gap apart (mean 10 ms), the second is ahead with chance 1/2 * lambda / (lambda + mu) = 1/4, and at
    # most as many again come from further behind.
    assert 0.25 <= outcome.fifo_violations / outcome.owed <= 0.5


def test_memory_of_the_books_is_bounded_by_the_age_of_events() -> None:
    simulation = Simulation(line(1, 10_000, 100 * SECOND, loss_ratio=0.5), seed=2)
    simulation.run()
    assert len(simulation.ledger._ages) == 0
    assert simulation.ledger.outcome.owed == 9_900
