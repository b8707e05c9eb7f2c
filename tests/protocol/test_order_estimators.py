"""Windows, steering and estimators by themselves, at values worked out by hand."""

from math import exp, log
from random import Random
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.order.bernstein import Bernstein, bernstein_quantile, counted_tail
from holdfast.protocol.order.empirical import Measured
from holdfast.protocol.order.estimators import new_estimator
from holdfast.protocol.order.parametric import BROKERS_MAX, EqualRates, fit_equal_rates
from holdfast.protocol.order.sample_window import DifferenceWindow, SampleWindow
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.order.steering import Level, Steering

# Windows ---------------------------------------------------------------------------------------------------------


def window_of(values: list[int], size: int = 1_000, age_us_max: int = 10**9) -> SampleWindow:
    window = SampleWindow(size, age_us_max)
    for now_us, value in enumerate(values):
        window.add(value, now_us)
    return window


def test_of_99_samples_the_largest_is_exceeded_once_in_a_hundred() -> None:
    window = window_of(list(range(1, 100)))
    assert [window.exceeded_with(p) for p in (0.01, 0.05, 0.5, 0.999)] == [99, 95, 50, 1]


def test_beyond_the_sample_the_tail_is_exponential() -> None:
    window = window_of([1_000] * 90 + [1_100] * 9 + [2_000])  # the top ten lie 190 above 1000 on average
    assert window.exceeded_with(0.001) == 1_000 + int(190 * log(100))


@given(st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=60), st.integers(1, 20))
def test_a_window_holds_the_last_samples(values: list[int], size: int) -> None:
    window = window_of(values, size)
    last = sorted(values[-size:])
    assert len(window) == len(last)
    ranks = [1 - (rank + 0.5) / (len(last) + 1) for rank in range(len(last))]
    assert [window.exceeded_with(each) for each in ranks] == last


def test_a_window_forgets_what_is_too_old() -> None:
    window = SampleWindow(size=100, age_us_max=50)
    for now_us in (0, 10, 20, 100, 110):
        window.add(now_us, now_us)
    assert len(window) == 2
    window.add(7, 10_000)
    assert len(window) == 1 and window.exceeded_with(0.5) == 7


def test_each_neighbouring_pair_is_sampled_once_whichever_came_first() -> None:
    in_order, overtaken = DifferenceWindow(100, 64), DifferenceWindow(100, 64)
    travels = {1: 50, 2: 80, 3: 20}
    for seq in (1, 2, 3):
        in_order.add(seq, travels[seq])
    for seq in (2, 1, 3):
        overtaken.add(seq, travels[seq])
    assert sorted(in_order.samples_us) == sorted(overtaken.samples_us) == [-30, 60]


def test_one_that_comes_between_two_others_is_paired_with_both() -> None:
    window = DifferenceWindow(100, 64)
    for seq, travel_us in ((1, 50), (3, 20), (2, 80)):
        window.add(seq, travel_us)
    assert list(window.samples_us) == [30, -30, 60]


def test_neighbours_are_looked_for_among_the_latest_only() -> None:
    window = DifferenceWindow(size=3, neighbours_max=2)
    for seq in range(1, 50):
        window.add(seq, seq)
    window.add(5, 1_000_000)  # its neighbours are forgotten
    assert list(window.samples_us) == [-1, -1, -1]


# Steering --------------------------------------------------------------------------------------------------------


def test_a_level_starts_at_the_target_falls_with_a_violation_and_creeps_back() -> None:
    level = Level(0.05, 0.2, Steering(0.05, 0.2))
    assert level.value == pytest.approx(0.05)
    level.on_found(violated=True)
    assert level.value == pytest.approx(0.05 * exp(-0.4 * 0.95))
    for _ in range(19):
        level.on_found(violated=False)
    assert level.value == pytest.approx(0.05)


def test_violations_elsewhere_lower_the_level_of_a_source_that_has_had_none() -> None:
    shared = Steering(0.05, 0.2)
    here, there = Level(0.05, 0.2, shared), Level(0.05, 0.2, shared)
    there.on_found(violated=True)
    assert there.value < here.value < 0.05


@given(st.integers(0, 2**32), st.floats(0.0, 0.8))
def test_violations_and_target_differ_by_no_more_than_the_level_has_moved(seed: int, stubbornness: float) -> None:
    """The promise of the feedback, for an environment that obeys the level only in part."""
    dice, steering, violations, rounds = Random(seed), Steering(0.05, 0.4), 0, 500
    for _ in range(rounds):
        chance = stubbornness * 0.05 + (1 - stubbornness) * 0.05 * exp(steering.nats)
        violated = dice.random() < chance
        violations += violated
        steering.on_found(violated)
    assert violations - 0.05 * rounds == pytest.approx(-steering.nats / 0.4, abs=1e-6)


# The laws --------------------------------------------------------------------------------------------------------


def laplace_sums(brokers: int, mean_us: float, count: int, seed: int) -> list[float]:
    dice = Random(seed)
    rate = 1 / mean_us
    return [sum(dice.expovariate(rate) - dice.expovariate(rate) for _ in range(brokers)) for _ in range(count)]


def test_the_fit_finds_the_brokers_and_their_rate() -> None:
    fitted = fit_equal_rates(laplace_sums(brokers=3, mean_us=4_000, count=100_000, seed=1))
    assert fitted.brokers == 3
    assert fitted.rate == pytest.approx(1 / 4_000, rel=0.02)


def test_light_tails_are_taken_for_many_brokers_and_no_spread_for_a_microsecond() -> None:
    assert fit_equal_rates([-5.0, 5.0] * 50).brokers == BROKERS_MAX
    assert fit_equal_rates([0.0] * 50).exceeded_with(0.01) < 10


def test_a_laplace_law_is_met_exactly() -> None:
    one = EqualRates(1, 0.001)
    assert one.tail(2_000) == pytest.approx(0.5 * exp(-2))
    assert one.exceeded_with(0.005) == pytest.approx(1_000 * log(100), rel=1e-3)
    assert one.exceeded_with(0.5) == 0


def test_bernsteins_quantile_solves_bernsteins_bound() -> None:
    t = bernstein_quantile(0.01, variance=8.0, scale=1.0)
    assert exp(-(t**2) / (2 * (8.0 + t))) == pytest.approx(0.01)


def test_the_measured_law_counts() -> None:
    sizes = [float(n) for n in range(1, 101)]
    assert counted_tail(sizes, 50.0) == pytest.approx(50.5 / 201)
    assert counted_tail(sizes, 1e9) == pytest.approx(0.5 / 201)
    signed = [x if n % 2 else -x for n, x in enumerate(sizes)]
    assert Measured(signed).exceeded_with(0.25) == 51  # half of them are larger in size
    assert Measured(signed).exceeded_with(0.001) > 100


def test_bernstein_waits_longer_than_the_fit_and_the_fit_about_as_long_as_measured() -> None:
    samples = laplace_sums(brokers=4, mean_us=4_000, count=5_000, seed=2)
    fitted, bound, measured = (law(samples).exceeded_with(0.01) for law in (fit_equal_rates, Bernstein, Measured))
    assert bound > 1.5 * fitted
    assert measured == pytest.approx(fitted, rel=0.1)


# The estimators --------------------------------------------------------------------------------------------------


def trained(name: str, of: str = "missing", travels_us: list[int] | None = None):
    """An estimator that has seen 500 messages which left a millisecond apart."""
    settings = LatchSettings(estimator=name, target=0.05, of=of)  # type: ignore[arg-type]
    window = SampleWindow(settings.window, settings.window_us)
    estimator = new_estimator(settings, window, Steering(0.05, settings.steering_gain))
    dice = Random(3)
    for seq in range(500):
        travel_us = travels_us[seq] if travels_us else int(sum(dice.expovariate(1 / 4_000) for _ in range(4)))
        window.add(travel_us, 1_000 * seq + travel_us)
        estimator.on_arrival(seq, 1_000 * seq, 1_000 * seq + travel_us)
    return estimator


@pytest.mark.parametrize("name", ["age-conformal", "late-conformal", "parametric", "bernstein", "quantile"])
def test_without_samples_every_estimator_waits_for_the_time_of_a_cold_start(name: str) -> None:
    settings = LatchSettings(estimator=name, cold_hold_us=7_000)  # type: ignore[arg-type]
    estimator = new_estimator(settings, SampleWindow(10, 10), Steering(0.05, 0.2))
    assert estimator.deadline_us(0, 1_000, 20_000) == 27_000


def test_the_age_threshold_is_the_quantile_of_the_ages_of_those_that_were_missing() -> None:
    estimator = trained("age-conformal", travels_us=[5_000] * 500)
    for age_us in range(1, 40):  # 39 of them: at a level of 5 % the 38th
        estimator.on_found(1_000 * age_us, 0, violated=False, now_us=600_000)
    raised = 0.05 * exp(39 * 2 * 0.2 * 0.05)
    rank = 40 - int(40 * raised)
    assert estimator.deadline_us(1_000_000, 1_000_500, 1_002_000) == 1_000_000 + 1_000 * rank


def test_ages_say_nothing_when_the_message_that_shows_the_gap_was_held_up_itself() -> None:
    """A broker was away, and what waited for it comes at once: the missing one is a moment away, however old."""
    estimator = trained("age-conformal", travels_us=list(range(1, 501)))
    usual_us = estimator.deadline_us(0, 0, 0)
    assert estimator.deadline_us(1_000_000, 1_000_500, 1_000_600) == 1_000_000 + usual_us
    assert estimator.deadline_us(1_000_000, 1_000_500, 5_000_000) == 5_000_000 + LatchSettings().cold_hold_us


def test_before_that_it_is_taken_from_all_travel_times_at_a_smaller_level() -> None:
    estimator = trained("age-conformal", travels_us=list(range(1, 501)))
    level = 0.05 * 1 / 504  # of 504 one was missing, to begin with
    tail = 450 + int(mean(range(1, 51)) * log(50 / 500 / level))
    assert estimator.deadline_us(0, 0, 0) == tail


def test_the_lateness_threshold_counts_from_now() -> None:
    estimator = trained("late-conformal")
    for late_us in range(1, 100):
        estimator.on_found(0, 100 * late_us, violated=late_us % 20 == 0, now_us=600_000)
    assert 9_000 < estimator.deadline_us(0, 1, 1_000_000) - 1_000_000 < 9_900


@pytest.mark.parametrize("name", ["parametric", "quantile"])
def test_a_share_of_all_messages_asks_for_no_wait_where_a_share_of_the_missing_does(name: str) -> None:
    overtaken_by_30_ms = (0, 30_000, 40_000)
    assert trained(name, of="all").deadline_us(*overtaken_by_30_ms) < 40_000
    assert trained(name, of="missing").deadline_us(*overtaken_by_30_ms) > 45_000


@pytest.mark.parametrize("name", ["parametric", "bernstein", "quantile"])
def test_a_message_that_left_ages_ago_gets_a_wait_like_the_oldest_seen(name: str) -> None:
    estimator = trained(name)
    waits = [estimator.deadline_us(0, delta_us, delta_us) - delta_us for delta_us in (10**6, 10**9, 10**15)]
    assert waits[0] == pytest.approx(waits[1]) and waits[1] == pytest.approx(waits[2], abs=1)
    assert 5_000 < waits[0] < 1_000_000
