"""Paper 002's study: the law's test, delays at equal violations, and a network of the paper's size."""

from math import isnan
from random import Random

import numpy as np
import pytest

from holdfast.network.load import parse_text
from holdfast.protocol.order.parametric import EqualRates, fit_equal_rates
from holdfast_papers.fifo.comparison import delay_at, measure_clocks
from holdfast_papers.fifo.law import WINDOW, _distance, _drawn, _tested
from holdfast_papers.fifo.networks import BROKERS, PER_BROKER, PUBLISHERS, network
from holdfast_papers.fifo.overtaking import SCENARIOS


def test_the_network_has_the_papers_clients() -> None:
    made = parse_text(network())
    assert len(made.brokers) == BROKERS == 8
    assert len(made.clients) == BROKERS * PER_BROKER == 400
    assert sum(client.publishes for client in made.clients) == PUBLISHERS == 50
    assert sum(bool(client.subscriptions) for client in made.clients) == 350


def test_a_delay_is_read_between_the_two_nearest_shares() -> None:
    found = [(0.1, 2.0), (0.001, 6.0)]  # two decades apart: one decade down is half of the way
    assert delay_at(found, 0.01) == pytest.approx(4.0)
    assert delay_at(found, 0.1) == 2.0
    assert isnan(delay_at(found, 0.5))  # it never leaves so many
    assert isnan(delay_at(found, 0.0001))


def test_the_distance_of_a_sample_is_kolmogorovs() -> None:
    law = EqualRates(1, 1.0)  # of one broker: P(|S| <= t) = 1 - exp(-t)
    # Two values at the median of |S|: the law has half below, the sample none, and then all.
    assert _distance(np.array([0.6931472, -0.6931472]), law) == pytest.approx(0.5)


def test_the_law_is_kept_where_it_is_true_and_rejected_where_it_is_not() -> None:
    draws, dice = np.random.default_rng(1), Random(1)
    distance, critical, beyond = _tested(_drawn(EqualRates(3, 0.001), draws).tolist(), dice)
    assert distance <= critical
    assert beyond <= 0.05
    two_worlds = np.where(np.arange(WINDOW) % 2, 10.0, 1_000.0) * draws.choice([-1, 1], WINDOW)
    distance, critical, _ = _tested(two_worlds.tolist(), dice)
    assert distance > critical
    assert fit_equal_rates(two_worlds.tolist()).brokers > 3


def test_a_clock_that_is_hours_away_changes_nothing() -> None:
    found = measure_clocks({"scenario": SCENARIOS[0].name, "seed": 1, "publications": 4_000})
    assert found["away"] == found["same"]
    assert found["held_away"] == found["held_same"]
