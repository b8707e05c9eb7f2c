"""The law of the delay difference: against samples, against itself by other roads, and at values known beforehand."""

from functools import cache
from math import sqrt

import numpy as np
import pytest

from holdfast.planner import delay_difference as law
from holdfast.protocol.order.bernstein import bernstein_quantile
from holdfast.protocol.order.parametric import EqualRates

SAMPLES = 200_000
RATES = {
    "one broker": [1.0],
    "equal": [1.0] * 4,
    "distinct": [0.5, 1.0, 2.0, 4.0],
    "some equal": [1.0, 2.0, 2.0, 5.0, 1.0],
    "far apart": [0.1, 5.0],
}


@cache
def sampled_differences(name: str) -> np.ndarray:
    dice = np.random.default_rng(len(name))
    rates = RATES[name]
    scale = 1 / np.asarray(rates)
    there = dice.exponential(scale, (SAMPLES, len(rates))).sum(axis=1)
    other = dice.exponential(scale, (SAMPLES, len(rates))).sum(axis=1)
    return there - other


@pytest.mark.parametrize("name", RATES)
def test_the_general_tail_agrees_with_samples(name: str) -> None:
    samples = sampled_differences(name)
    for quantile in (0.5, 0.8, 0.99, 0.999):
        t = max(float(np.quantile(samples, quantile)), 0.0)
        expected = law.difference_tail(RATES[name], t)
        error = sqrt(expected * (1 - expected) / SAMPLES)
        assert abs(float((samples > t).mean()) - expected) <= 3 * error


@pytest.mark.parametrize("name", RATES)
def test_variance_and_kurtosis_agree_with_samples(name: str) -> None:
    rates, samples = RATES[name], sampled_differences(name)
    squares = samples**2
    assert abs(squares.mean() - law.difference_variance(rates)) <= 3 * squares.std() / sqrt(SAMPLES)
    fourth = samples**4
    expected = (law.difference_excess_kurtosis(rates) + 3) * law.difference_variance(rates) ** 2
    assert abs(fourth.mean() - expected) <= 3 * fourth.std() / sqrt(SAMPLES)


def test_k_equal_brokers_have_an_excess_kurtosis_of_three_over_k() -> None:
    assert [law.difference_excess_kurtosis([7.0] * k) for k in (1, 2, 4)] == pytest.approx([3, 1.5, 0.75])


def test_a_single_broker_gives_a_laplace_law() -> None:
    assert law.difference_tail([2.0], 1.5) == pytest.approx(0.5 * np.exp(-3.0))


def test_four_brokers_at_four_mean_times_is_the_published_value() -> None:
    assert law.difference_tail_equal(4, 1.0, 4.0) == pytest.approx(0.07403, abs=5e-6)


@pytest.mark.parametrize("t", [0.0, 0.3, 4.0, 40.0])
def test_the_three_roads_to_the_tail_meet(t: float) -> None:
    distinct = [0.5, 1.0, 2.0, 4.0]
    assert law.difference_tail(distinct, t) == pytest.approx(law.difference_tail_distinct(distinct, t), rel=1e-8)
    assert law.difference_tail([3.0] * 6, t) == pytest.approx(law.difference_tail_equal(6, 3.0, t), rel=1e-8)


@pytest.mark.parametrize("brokers", [1, 2, 4, 20])
def test_the_latch_computes_the_same_tail(brokers: int) -> None:
    online = EqualRates(brokers, 0.25)
    for t in (0.0, 1.0, 10.0, 60.0):
        assert online.tail(t) == pytest.approx(law.difference_tail_equal(brokers, 0.25, t), rel=1e-9)
    for p in (0.05, 0.001):
        exact = law.exact_quantile([0.25] * brokers, p)
        assert exact <= online.exceeded_with(p) <= exact * 1.001
        assert bernstein_quantile(p, 2 * brokers * 16.0, 4.0) == pytest.approx(
            law.bernstein_quantile([0.25] * brokers, p)
        )


def test_close_rates_ruin_the_sum_over_distinct_rates_but_not_uniformization() -> None:
    close = [1 + i * 1e-9 for i in range(4)]
    erlang = np.exp(-2.0) * (1 + 2 + 2 + 4 / 3)
    assert law.hypoexponential_tail(close, 2.0) == pytest.approx(erlang, rel=1e-6)
    assert abs(law.hypoexponential_tail_distinct(close, 2.0)) > 1000


def test_uniformization_agrees_with_the_sum_where_that_is_sound() -> None:
    rates = [1.0, 2.0, 3.5]
    for t in (0.0, 0.1, 2.0, 30.0, 900.0):  # at 900 a first weight of exp(-3150) would have underflowed
        exact = law.hypoexponential_tail_distinct(rates, t)
        assert law.hypoexponential_tail(rates, t) == pytest.approx(exact, rel=1e-7, abs=1e-16)


@pytest.mark.parametrize(
    ("p", "exact", "chernoff", "bernstein", "cantelli"),
    [(0.05, 4.63, 7.96, 10.5, 12.3), (0.01, 7.01, 10.4, 14.3, 28.1), (0.001, 10.1, 13.6, 19.5, 89.4)],
)
def test_quantiles_of_four_brokers_are_the_published_ones(
    p: float, exact: float, chernoff: float, bernstein: float, cantelli: float
) -> None:
    rates = [1.0] * 4
    assert law.exact_quantile(rates, p) == pytest.approx(exact, rel=5e-3)
    assert law.chernoff_quantile(rates, p) == pytest.approx(chernoff, rel=5e-3)
    assert law.bernstein_quantile(rates, p) == pytest.approx(bernstein, rel=5e-3)
    assert law.cantelli_quantile(law.difference_variance(rates), p) == pytest.approx(cantelli, rel=5e-3)


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("p", [0.3, 0.05, 1e-4])
def test_every_bound_lies_beyond_the_exact_quantile_and_chernoff_is_the_sharper(name: str, p: float) -> None:
    rates = RATES[name]
    exact = law.exact_quantile(rates, p)
    assert exact <= law.chernoff_quantile(rates, p) <= law.bernstein_quantile(rates, p)
    assert exact <= law.cantelli_quantile(law.difference_variance(rates), p)


def test_chernoff_for_unequal_rates_continues_that_for_equal_ones() -> None:
    nearly = [1.0, 1.0, 1.0, 1.0 + 1e-9]
    assert law.chernoff_bound(nearly, 8.0) == pytest.approx(law.chernoff_bound([1.0] * 4, 8.0), rel=1e-6)


def test_certificates_need_as_many_messages_as_published() -> None:
    assert [law.certificate_size(t) for t in (0.05, 0.01, 0.005)] == [174, 862, 1723]
    assert [law.exact_certificate_size(t) for t in (0.05, 0.01, 0.005)] == [59, 299, 598]
    assert law.empirical_bernstein_bound(0, 174) <= 0.05 < law.empirical_bernstein_bound(0, 173)


def test_the_certificate_is_wrong_no_more_often_than_it_says() -> None:
    dice = np.random.default_rng(5)
    bounds = [law.empirical_bernstein_bound(int(v), 2_000) for v in dice.binomial(2_000, 0.02, 2_000)]
    assert sum(bound < 0.02 for bound in bounds) <= 0.05 * 2_000
