"""`bench scaling`: slopes against values worked by hand, and a cell against its closed form."""

import pytest

from bench.scaling import AXES, sizes, wanted
from bench.scaling_cells import MECHANISMS, ROLES, Size, run
from bench.scaling_large import expected
from bench.scaling_laws import fitted


def test_a_power_law_has_its_exponent_as_slope_without_doubt():
    found = fitted([10, 100, 1_000], [7.0, 700.0, 70_000.0])
    assert found is not None
    assert found == pytest.approx((2.0, 2.0, 2.0))


def test_the_interval_of_a_slope_is_student_s():
    # Logarithms to base 10: x = 0, 1, 2 and y = 0, 1, 1. Slope 1/2, errors -1/6, 1/3, -1/6: their squares add up to
    # 1/6, over one degree of freedom and a spread of 2, times 12.706.
    found = fitted([1, 10, 100], [1.0, 10.0, 10.0])
    assert found is not None
    assert found.slope == pytest.approx(0.5)
    assert found.high - found.slope == pytest.approx(12.706 * (1 / 12) ** 0.5)


def test_what_is_nothing_somewhere_has_no_slope():
    assert fitted([1, 2, 3], [1.0, 0.0, 2.0]) is None


def test_every_axis_has_four_sizes_for_every_mechanism_and_one_cell_is_on_most_axes():
    for name in MECHANISMS:
        for axis in AXES:
            assert len({getattr(size, axis) for size in sizes(name, axis, 0)}) == 4
    cells = list(wanted(["nack"], 0))
    assert cells.count(("nack", Size())) == 4


def test_a_best_effort_cell_has_the_heartbeats_of_its_closed_form():
    size = Size(brokers=4, subscribers=8, conditions=2, publishers=2, rate=3)
    cell = run("best effort", size)
    assert cell["publisher"]["messages"] == pytest.approx(2 + 3, abs=0.7)
    assert cell["subscriber"]["control"] == pytest.approx(2, abs=0.1)
    assert cell["broker"]["control"] == pytest.approx((4 * 3 + 2 * 10) / 4, rel=0.1)
    assert all(cell[role]["state_bytes"] > 1_000 for role in ROLES)


def test_a_larger_network_is_expected_to_take_what_the_last_step_took_more():
    row = {"mechanism": "nack", "heartbeat_s": 1.0, "seconds": 60, "rest_s": 0.0}
    rows = [
        {**row, "subscribers": 10, "cpu_s": 5.0, "mib": 100.0},
        {**row, "subscribers": 110, "cpu_s": 15.0, "mib": 120},
    ]
    assert expected(rows, "nack", 1.0, 1_110) == {"cpu_s": 115.0, "mib": 320.0}
    assert expected(rows[:1], "nack", 1.0, 1_110) is None
    shorter = {**rows[1], "seconds": 31, "rest_s": 10.0}  # of 29 s after the start, where there are 58
    assert expected([rows[0], shorter], "nack", 1.0, 1_110) == {"cpu_s": 225.0, "mib": 320.0}
