"""The inner loops that fill bit rows, compiled by numba: see `bitmaps` and `blocks`. As `kernels`, they import nothing
of ours, because numba looks for changes in this file alone.
"""

import numba as nb
import numpy as np

_compiled = nb.njit(cache=True, nogil=True)

_CODE_MAX = 2**31 - 1  # the high end of a range without one


@_compiled
def fill_bitmap(bit_rows, words, cuts, boxes, depth, dimension, boxed):
    """Set each filter's bit in every cell of one dimension that its range touches, or fills.

    Cell 0 is for unknown; cell c holds the codes from cuts[c - 2] up to, not including, cuts[c - 1].
    """
    cells = cuts.size + 2
    for filter_ in range(boxed.size):
        low, high = boxes[2 * (depth * filter_ + dimension)], boxes[2 * (depth * filter_ + dimension) + 1]
        bit = np.uint64(1) << np.uint64(filter_ % 64)
        for cell in range(cells):
            start = -1 if cell == 0 else 0 if cell == 1 else cuts[cell - 2]
            last = -1 if cell == 0 else _CODE_MAX if cell == cells - 1 else cuts[cell - 1] - 1
            at = cell * 2 * words + filter_ // 64
            if low <= last and high >= start:
                bit_rows[at] |= bit
            if low <= start and high >= last and boxed[filter_]:
                bit_rows[at + words] |= bit


@_compiled
def fill_block(bit_rows, words, per_cell, test_starts, tests, is_range, side_of, cut_starts, cuts, firsts, exact):
    """Clear each filter's bits in the cells of a block that its ranges do not touch or, behind those, do not fill.

    Tests and filters are those of the block. Cells are those of `fill_bitmap`.
    """
    for filter_ in range(test_starts.size - 1):
        word, bit = filter_ // 64, np.uint64(1) << np.uint64(filter_ % 64)
        for k in range(firsts.size):
            for cell in range(cut_starts[k + 1] - cut_starts[k] + 2):
                at = firsts[k] + cell * per_cell * words + word
                bit_rows[at] |= bit
                if per_cell == 2 and exact[filter_]:
                    bit_rows[at + words] |= bit
        for t in range(test_starts[filter_] - test_starts[0], test_starts[filter_ + 1] - test_starts[0]):
            k = side_of[tests[t, 1]]
            if not is_range[t] or k < 0:
                continue
            low, high = tests[t, 2], tests[t, 3]
            begin, cells = cut_starts[k], cut_starts[k + 1] - cut_starts[k] + 2
            for cell in range(cells):
                start = -1 if cell == 0 else 0 if cell == 1 else cuts[begin + cell - 2]
                last = -1 if cell == 0 else _CODE_MAX if cell == cells - 1 else cuts[begin + cell - 1] - 1
                at = firsts[k] + cell * per_cell * words + word
                if low > last or high < start:
                    bit_rows[at] &= ~bit
                if per_cell == 2 and (low > start or high < last):
                    bit_rows[at + words] &= ~bit
