"""Paper 002's study: the law's test, delays at equal violations, and a network of the paper's size."""

from math import isnan, log
from pathlib import Path
from random import Random

import numpy as np
import pytest

from holdfast.network.load import parse_text
from holdfast.protocol.order.parametric import EqualRates, fit_equal_rates
from holdfast_papers.claims import markdown
from holdfast_papers.fifo import activemq, comparison, law, networks
from holdfast_papers.fifo.comparison import delay_at, measure_clocks
from holdfast_papers.fifo.experiment import STUDY
from holdfast_papers.fifo.law import WINDOW, _distance, _drawn, _tested
from holdfast_papers.fifo.networks import BROKERS, PER_BROKER, PUBLISHERS, network
from holdfast_papers.fifo.overtaking import SCENARIOS
from holdfast_papers.study import Runs


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


def invented() -> dict[str, Runs]:
    """Runs as a study would read them: best effort violates in 8 %, everything else in a hundredth of that."""
    seeds = range(1, 6)
    violations = dict.fromkeys(networks.VARIANTS, 0.0008) | {networks.NONE: 0.08, networks.IN_TURN: 0.0}
    parallel = [
        {"variant": name, "duration_s": seconds, "seed": seed, "delivered": 3_000 * seconds}
        | {"fifo_violations": 3_000 * seconds * share, "held_total_us": 3_000_000 * seconds, "delay_us.p50": 30_000}
        for name, share in violations.items()
        for seconds in (10.0, 25.0)
        for seed in seeds
    ]
    fits = {"windows": 40, "rejected": 0.05, "distance": 0.04, "critical": 0.07}
    fits |= {"beyond_bound": 0.001, "swapped": 0.1, "swapped_gap": 0.2}
    swept = {f"share@{target:g}": target for target in comparison.SWEPT}
    swept |= {f"added@{target:g}": -log(target) for target in comparison.SWEPT}
    spent_s = {"none": 2.0, "fifo": 2.1, "strict": 3.0, "idle": 1.0}
    return {
        "parallel": Runs(parallel),
        "law": Runs([{**cell, **fits} for cell in law.cells("quick")]),
        "clocks": Runs([{**cell, "away": 3, "same": 3} for cell in comparison.clock_cells("quick")]),
        "comparison": Runs([{**cell, **swept} for cell in comparison.cells("quick")]),
        "live": Runs(
            [
                {"order": order, "seed": seed, "cpu_s": spent, "delivered": 1_000}
                for order, spent in spent_s.items()
                for seed in seeds
            ]
        ),
        "activemq": Runs(
            [
                {"kind": kind, "seed": seed, "cpu_s": 4.0, "owed": 1_000, "delivered": 1_000, "taken": 2_000}
                | {"violations": 0 if kind == "topic" else 500}
                for kind in ("topic", "queue")
                for seed in seeds
            ]
        ),
    }


def test_claims_and_figures_follow_from_the_runs() -> None:
    runs = invented()
    found = {each.id: each for each in STUDY.claims(runs)}
    assert found["002-removed-law"].ours == pytest.approx(0.99)
    assert found["002-removed-law"].verdict == "does not hold"
    assert found["002-rule"].verdict == found["002-cause"].verdict == found["002-fit"].verdict == "holds"
    assert found["002-delay-law"].ours == pytest.approx(1 / 30)  # one millisecond of 30
    assert found["002-throughput-fifo"].ours == pytest.approx(1 / 1.1)
    assert found["ours-equal-bernstein-0.05-loss 5 %"].ours == pytest.approx(1)
    assert found["002-activemq"].verdict == "holds"
    assert found["002-activemq-threads"].ours == pytest.approx(0.25)
    assert found["002-activemq-throughput"].ours == pytest.approx(0.25)  # 250 a second, ours 1,000
    assert len(list(STUDY.figures(runs))) == len(SCENARIOS)


def test_without_activemq_its_rows_are_not_tested() -> None:
    found = {each.id: each for each in STUDY.claims({**invented(), "activemq": Runs([])})}
    assert found["002-activemq"].verdict is None
    assert "| not tested |" in markdown([found["002-activemq"]])


def test_an_event_behind_a_later_one_violates_the_order_of_its_subscriber() -> None:
    book = activemq._Book()
    for number in (0, 1, 4, 2, 3, 5):
        book.take(number)
    assert (book.taken, book.violations) == (6, 2)


@pytest.mark.slow
@pytest.mark.skipif(bool(activemq.missing()), reason="ActiveMQ is not installed")
def test_a_real_activemq_keeps_the_order_of_one_thread_and_not_of_four(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activemq, "EVENTS", 4_000)
    monkeypatch.setattr(activemq, "_WARM", 1_000)
    topic = activemq._measure("topic-1", tmp_path / "topic-1.toml")
    assert (topic["delivered"], topic["owed"], topic["violations"]) == (16_000, 16_000, 0)
    queue = activemq._measure("queue-1", tmp_path / "queue-1.toml")
    assert queue["delivered"] == 4_000
    assert queue["violations"] > 0
