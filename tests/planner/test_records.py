"""The closed forms of publication records, against values worked out by hand, by sums and by other formulas."""

from math import comb, isclose

import pytest

from holdfast.planner.records import (
    detection_probability,
    mean_detection,
    mean_detection_even,
    shared_detection_probability,
    spurious_per_loss,
)
from holdfast.protocol.records.formulas import best_hashes, false_positive_ratio, fill_ratio


def test_a_loss_is_found_when_a_later_publication_concerns_the_subscriber_and_arrives() -> None:
    assert detection_probability(match=1, loss=0, record=1) == 1
    assert detection_probability(match=0.5, loss=0.5, record=1) == 0.25
    assert detection_probability(match=0.5, loss=0, record=2) == 0.75
    assert detection_probability(match=0.5, loss=0.3, record=0) == 0


def test_eq_1_gives_the_values_that_the_paper_prints() -> None:
    assert round(detection_probability(match=0.05, loss=0.01, record=10), 3) == 0.398
    assert round(detection_probability(match=0.001, loss=0.01, record=10), 4) == 0.0099


def test_eq_1_is_the_sum_over_how_many_of_the_later_publications_matched() -> None:
    match, loss, record = 0.07, 0.04, 12
    found = sum(comb(record, n) * match**n * (1 - match) ** (record - n) * (1 - loss**n) for n in range(record + 1))
    assert isclose(found, detection_probability(match, loss, record))


def test_a_lost_delivery_is_likelier_that_of_a_busy_pair() -> None:
    pairs = [0.01, 0.1]
    small, large = (detection_probability(match, 0.03, 10) for match in pairs)
    assert isclose(mean_detection(pairs, 0.03, 10), (small + 10 * large) / 11)
    assert mean_detection([], 0.03, 10) == 0


@pytest.mark.parametrize(("record", "expected"), [(1, 0.065), (5, 0.280), (10, 0.473), (20, 0.704), (40, 0.886)])
def test_evenly_spread_match_probabilities_give_the_worked_values(record: int, expected: float) -> None:
    assert round(mean_detection_even(0.1, 0.03, record), 3) == expected
    fine = [(n + 0.5) / 10_000 * 0.1 for n in range(10_000)]
    assert isclose(mean_detection(fine, 0.03, record), mean_detection_even(0.1, 0.03, record), rel_tol=1e-6)


@pytest.mark.parametrize(
    ("match", "record", "expected"),
    [
        (0.01, 10, (0.139, 0.182, 0.260)),
        (0.01, 50, (0.528, 0.633, 0.778)),
        (0.05, 10, (0.539, 0.646, 0.792)),
        (0.05, 20, (0.787, 0.875, 0.957)),
    ],
)
def test_a_shared_loss_is_found_by_any_of_those_who_share_it(
    match: float, record: int, expected: tuple[float, ...]
) -> None:
    # The worked values are for 2, 3 and 5 nodes that all lost it, at a loss of 1 %.
    found = [shared_detection_probability(match, 0.01, record, others=nodes - 1) for nodes in (2, 3, 5)]
    assert found == pytest.approx(expected, abs=6e-4)


def test_a_loss_that_nobody_shares_is_found_as_by_eq_1() -> None:
    assert isclose(shared_detection_probability(0.05, 0.02, 7, others=0), detection_probability(0.05, 0.02, 7))


def test_false_positives_outnumber_losses_as_worked_out() -> None:
    assert round(spurious_per_loss(match=0.05, loss=0.03, false_positive=0.022)) == 14
    assert spurious_per_loss(match=0.05, loss=0.03, false_positive=1.57e-4) < 0.1


def test_one_tag_of_one_hash_sets_one_bit() -> None:
    assert isclose(fill_ratio(bits=64, hashes=1, items=1), 1 / 64)
    assert isclose(false_positive_ratio(bits=64, hashes=1, items=1), 1 / 64)
    assert isclose(false_positive_ratio(bits=64, hashes=1, items=1, absent=2), 1 / 64**2)


@pytest.mark.parametrize(
    ("bits", "hashes", "items", "expected"),
    [
        (64, 4, 10, 0.048),
        (64, 2, 20, 0.218),
        (128, 4, 10, 0.0053),
        (128, 9, 10, 0.0022),
        (128, 2, 20, 0.073),
        (256, 4, 10, 4.4e-4),
        (256, 18, 10, 4.7e-6),
        (256, 2, 20, 0.021),
        (256, 9, 20, 0.0022),
    ],
)
def test_the_false_positive_ratio_is_that_of_the_table(bits: int, hashes: int, items: int, expected: float) -> None:
    # To two digits.
    assert false_positive_ratio(bits, hashes, items) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("bits", [48, 96, 128, 192])
def test_no_other_number_of_hashes_does_better(bits: int) -> None:
    for items in (1, 3, 10, 30, 200):
        best = best_hashes(bits, items)
        others = [false_positive_ratio(bits, hashes, items) for hashes in range(1, 9)]
        # Rounding the best real number to a whole one may miss the best whole one by a little.
        assert false_positive_ratio(bits, best, items) <= 1.06 * min(others)


def test_the_hashes_of_the_paper_s_filters() -> None:
    assert best_hashes(bits=192, items=10) == 8  # 13 without the cap
    assert best_hashes(bits=64, items=10) == 4
    assert best_hashes(bits=64, items=1_000) == 1
