"""The vector instructions do what loops would, and kernels are compiled anew when they change."""

from types import ModuleType
from zlib import crc32

import numba as nb
import numpy as np
import pytest

from holdfast.matching import block_columns, kernels, vectors


@pytest.mark.parametrize("module", [kernels, block_columns])
def test_kernels_change_when_vectors_do(module: ModuleType) -> None:
    with open(vectors.__file__, "rb") as file:
        found = crc32(file.read())
    assert found == module.VECTORS, f"numba keeps kernels until their file changes: write VECTORS = {found} there"


def test_kernels_change_when_those_side_by_side_do() -> None:
    with open(block_columns.__file__, "rb") as file:
        found = crc32(file.read())
    assert found == kernels.BLOCK_COLUMNS, f"as above: write BLOCK_COLUMNS = {found} in kernels.py"


@pytest.mark.parametrize("seed", range(3))
def test_vectors_do_what_loops_would(seed: int) -> None:
    dice = np.random.default_rng(seed)
    numbers, out = dice.integers(0, 1_000, 100, np.int32), np.zeros(200, np.int32)
    word = dice.integers(0, 2**63, dtype=np.uint64)
    n = _write_chosen(numbers, 7, word, out, 3)
    assert out[3:n].tolist() == [numbers[7 + bit] for bit in range(64) if int(word) >> bit & 1]
    rows, left = dice.integers(0, 2**63, (3, 4, vectors.LINE), np.uint64), np.full(vectors.LINE, 2**64 - 1, np.uint64)
    sides, point = np.array([3, 1, 2], np.uint8), np.array([0, 200, 70, 130], np.uint8)
    some = _and_lines(rows.reshape(-1), 0, 4 * vectors.LINE, 6, sides, 0, 3, point, 0, left)
    expected = rows[0, 130 >> 6] & rows[1, 200 >> 6] & rows[2, 70 >> 6]
    assert left.tolist() == expected.tolist() and some == sum(int(each).bit_count() for each in expected)


@pytest.mark.parametrize(("value", "inside"), [(50, 2), (10, 1), (90, 1), (9, 0), (91, 0)])
def test_a_byte_is_in_a_box_outside_or_on_an_edge(value: int, inside: int) -> None:
    lanes = 2 * vectors.LANES
    boxes, point = np.full(2 * lanes, 255, np.uint8), np.ones(lanes, np.uint8)
    boxes[:lanes] = 0
    boxes[40], boxes[lanes + 40], point[40] = 10, 90, value
    assert _within_box(boxes, 0, lanes, point, 0) == inside


@nb.njit
def _write_chosen(numbers, first, word, out, n):
    return vectors.write_chosen(numbers, first, word, out, n)


@nb.njit
def _and_lines(rows, base, step, shift, sides, first, last, point, point_at, left):
    return vectors.and_lines(rows, base, step, shift, sides, first, last, point, point_at, left)


@nb.njit
def _within_box(boxes, at, lanes, point, point_at):
    return vectors.within_box(boxes, at, lanes, point, point_at)
