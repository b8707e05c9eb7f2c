"""How often a Bloom filter is wrong, against values worked out by hand and by a table."""

from math import isclose

import pytest

from holdfast.protocol.records.formulas import best_hashes, false_positive_ratio, fill_ratio


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
