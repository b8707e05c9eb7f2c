"""The inner loops that fill bit rows and boxes, compiled by numba: see `bitmaps` and `blocks`. As `kernels`, they
import nothing of ours, because numba looks for changes in this file alone.
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
def fill_boxes(boxes, lanes, exact, test_starts, tests, axis_of, axes, cuts):
    """For each filter the bytes that it admits on each axis; where it asks nothing, all, and none is an edge.

    An edge is a byte whose codes the filter may admit in part. Where cells are more than a byte apart, a range that
    ends with a cell ends between two bytes and has no edge. `exact` is cleared for filters with more tests than these.
    """
    for filter_ in range(test_starts.size - 1):
        at = 2 * lanes * filter_
        boxes[at : at + lanes] = 0
        boxes[at + lanes : at + 2 * lanes] = 255
        for t in range(test_starts[filter_] - test_starts[0], test_starts[filter_ + 1] - test_starts[0]):
            axis = axis_of[tests[t, 1]]
            if tests[t, 0] != 0 or axis < 0:
                exact[filter_] = 0
                continue
            begin, end, step = axes[axis, 1], axes[axis, 2], axes[axis, 3]
            low, high = tests[t, 2], tests[t, 3]
            boxes[at + axis], boxes[at + lanes + axis] = 1, 254
            if low > 0:
                cell = np.searchsorted(cuts[begin:end], low, side="right")
                start = cuts[begin + cell - 1] if cell > 0 else 0
                boxes[at + axis] = 2 + step * cell - np.int64(step > 1 and start == low)
            if high < _CODE_MAX:
                cell = np.searchsorted(cuts[begin:end], high, side="right")
                whole = step > 1 and begin + cell < end and cuts[begin + cell] == high + 1
                boxes[at + lanes + axis] = 2 + step * cell + np.int64(whole)


@_compiled
def fill_tests(test_bytes, tests, test_starts, axis_of, boxes, lanes, first, last):
    """For each test of some filters its axis, lowest byte and how far above that the highest is: put in order.

    The narrowest first; but last those on the axes `first` and `last`, which hardly any event fails that comes so far.
    """
    for filter_ in range(test_starts.size - 1):
        begin, end = test_starts[filter_] - test_starts[0], test_starts[filter_ + 1] - test_starts[0]
        for t in range(begin, end):
            axis = axis_of[tests[t, 1]]
            at = 2 * lanes * filter_ + axis
            low = np.int64(boxes[at])
            span = boxes[at + lanes] - low
            if tests[t, 0] != 0 or axis < 0:
                axis, low, span = 0, 0, 255
            elif span < 0:
                low, span = 255, 0  # no event has that byte
            rank = span + 256 * np.int64(axis in (first, last))
            kind, slot, a, b = tests[t]
            place = t
            while place > begin:
                before = np.int64(test_bytes[place - 1, 2])
                before += 256 * np.int64(test_bytes[place - 1, 0] in (first, last))
                if before <= rank:
                    break
                test_bytes[place], tests[place] = test_bytes[place - 1], tests[place - 1]
                place -= 1
            test_bytes[place, 0], test_bytes[place, 1], test_bytes[place, 2] = axis, low, span
            tests[place, 0], tests[place, 1], tests[place, 2], tests[place, 3] = kind, slot, a, b


@_compiled
def fill_lines(bit_rows, shift, sides, boxes, lanes, exact, surely):
    """Set each filter's bit in the lines of a block that its bytes touch or, to be sure, that they fill."""
    cells = 256 >> shift
    for filter_ in range(exact.size):
        if surely and not exact[filter_]:
            continue
        word, bit = filter_ // 64, np.uint64(1) << np.uint64(filter_ % 64)
        for k in range(sides.size):
            at = 2 * lanes * filter_ + sides[k]
            low, high = np.int64(boxes[at]), np.int64(boxes[at + lanes])
            first, last = low >> shift, (high >> shift) + 1
            if surely:
                first = 0 if low == 0 else first + 1
                last = cells if high >= 254 else last - 1
            for cell in range(first, last):
                bit_rows[8 * (k * cells + cell) + word] |= bit
