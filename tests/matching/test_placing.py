"""Numbers find their place among constants, however unevenly these are spread."""

import numpy as np
import numpy.typing as npt
import pytest

from holdfast.matching.slots import ConstantEdges

DICE = np.random.default_rng(3)
SPREADS: dict[str, npt.NDArray[np.generic]] = {
    "none": np.zeros(0),
    "one": np.array([7.0]),
    "even": DICE.random(5_000),
    "nearly all in one place": np.concatenate([DICE.random(3_000), [-1e300, 1e300]]),
    "next to each other": 1 + np.arange(2_000) * np.spacing(1.0),
    "hardly more than nothing": np.arange(500) * np.nextafter(0.0, 1.0),
    "from end to end": np.concatenate([-np.exp(DICE.uniform(0, 709, 900)), np.exp(DICE.uniform(0, 709, 900))]),
    "with infinities": np.array([-np.inf, -1.0, 0.0, 3.0, np.inf]),
    "integers beyond doubles": 2**53 + np.arange(1_000),
    "the ends of integers": np.array([-(2**63), -(2**63) + 1, 0, 2**63 - 2, 2**63 - 1]),
    "integers without sign": np.array([0, 1, 2**63, 2**64 - 1], np.uint64),
}


@pytest.mark.parametrize("spread", SPREADS)
def test_a_number_has_the_code_that_a_binary_search_finds(spread: str) -> None:
    constants = np.unique(SPREADS[spread])
    near = [constants, constants[::-1], constants - constants.dtype.type(1), constants + constants.dtype.type(1)]
    column = np.concatenate([*near, DICE.integers(0, 100, 200).astype(constants.dtype)])
    if column.dtype.kind == "f":
        column = np.concatenate([column, np.nextafter(constants, np.inf), [np.inf, -np.inf, np.nan, -0.0]])
    codes = np.zeros(column.size, np.int32)
    ConstantEdges(constants, np.ones(constants.size, np.uint8), 0).put(column, codes)
    known = ~np.isnan(column)
    before, after = (np.searchsorted(constants, column, side) for side in ("left", "right"))
    assert codes[known].tolist() == (2 * before + (after > before))[known].tolist()
    assert (codes[~known] == -1).all()


def test_a_constant_that_was_rounded_equals_no_number() -> None:
    constants, exact = np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1], np.uint8)
    column, codes = np.array([1.0, 2.0, 3.0, 2.5]), np.zeros(4, np.int32)
    ConstantEdges(constants, exact, 0).put(column, codes)
    assert codes.tolist() == [1, 4, 5, 4]
