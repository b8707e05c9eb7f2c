"""Confidence intervals: Student's t against published tables and against simulation."""

from random import Random
from statistics import mean, stdev

import pytest

from holdfast.model.errors import MisuseError
from holdfast.pipeline.confidence import half_width_factor, probability_within, t_by_series, t_quantile

# Two-sided 95 % from the tables in every statistics book.
PUBLISHED = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228}
PUBLISHED |= {15: 2.131, 19: 2.093, 20: 2.086, 29: 2.045, 30: 2.042, 40: 2.021, 60: 2.000, 120: 1.980}


@pytest.mark.parametrize(("freedom", "published"), PUBLISHED.items())
def test_quantiles_are_those_of_the_tables(freedom: int, published: float) -> None:
    assert t_quantile(freedom) == pytest.approx(published, abs=0.0006)


def test_other_levels_are_right_too() -> None:
    assert t_quantile(10, 0.90) == pytest.approx(1.812, abs=0.0006)
    assert t_quantile(10, 0.99) == pytest.approx(3.169, abs=0.0006)


def test_two_degrees_of_freedom_have_a_closed_form() -> None:
    for t in (0.1, 1.0, 4.3, 50.0):
        assert probability_within(t, 2) == pytest.approx(t / (2 + t * t) ** 0.5)


def test_many_runs_come_near_the_normal_distribution() -> None:
    assert half_width_factor(1_000_000) == pytest.approx(1.96 / 1_000, rel=0.001)


def test_the_series_for_many_runs_goes_on_where_the_exact_sum_ends() -> None:
    for freedom in (100, 200, 1_000):
        assert t_by_series(freedom) == pytest.approx(t_quantile(freedom), rel=1e-9)


def test_the_interval_holds_the_true_mean_in_95_of_100_cases() -> None:
    dice, runs, cases = Random(5), 4, 20_000
    held = 0
    for _ in range(cases):
        drawn = [dice.gauss(10, 3) for _ in range(runs)]
        held += abs(mean(drawn) - 10) <= half_width_factor(runs) * stdev(drawn)
    three_standard_errors = 3 * (0.95 * 0.05 / cases) ** 0.5
    assert held / cases == pytest.approx(0.95, abs=three_standard_errors)


def test_a_single_run_has_no_interval() -> None:
    with pytest.raises(MisuseError):
        half_width_factor(1)
