"""The compiled form of a set of subscriptions: flat arrays, written once, shared by memory mapping.

`Image` is what the kernels read; `Slot` says how a column becomes codes. A saved image is an Arrow file of named
byte strings, so that any number of processes can map it and share its pages.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

# Tests of a checked filter: (kind, slot, a, b).
IN_RANGE, NOT_IN_RANGE, IN_SET, NOT_IN_SET, PATTERN, NOT_PATTERN = range(6)
# How a run is sorted.
UNSORTED, AT_LEAST, AT_MOST = range(3)
NO_SLOT = -1
CODE_MAX = 2**31 - 1  # the high end of a range without one


class Image(NamedTuple):
    """Subscriptions as arrays. Bucket 0 holds the filters that every row must ask."""

    access_slots: Ints  # slots whose codes open buckets
    key_offsets: Longs  # where each access slot's part of key_starts begins
    key_starts: Ints  # code -> first key; one more entry than the slot has codes
    key_buckets: Ints
    pattern_buckets: Ints  # pattern -> its bucket, or -1 when it is only tested
    pattern_columns: Ints  # pattern -> the pattern column it belongs to
    run_starts: Ints  # bucket -> first run
    runs: Ints  # rows of: guard slot, code, guard slot, code, order slot, direction, first entry, end
    bounds: Ints  # entry -> the code it is sorted by
    subscriptions: Ints  # entry -> subscription
    checked_starts: Ints  # bucket -> first checked filter
    checked_subscriptions: Ints
    test_starts: Ints  # checked filter -> first test
    tests: Ints  # rows of: kind, slot, a, b
    sets: Ints  # the sorted codes of IN lists
    repeated: npt.NDArray[np.uint8]  # subscription -> 1 when several of its filters may match one row
    bitmap_of: Ints  # bucket -> its bitmap, or -1
    bitmaps: Longs  # rows of: first dimension, end, words per bit row, first number in boxes
    dimensions: Longs  # rows of: slot, first cut, end, first word, first of cells or -1
    cuts: Ints  # the codes at which a dimension's cells begin
    cells: npt.NDArray[np.int16]  # code -> cell, where a bitmap is worth the table
    boxes: Ints  # for each filter of a bitmap and each dimension: the lowest and the highest code
    boxed: npt.NDArray[np.uint8]  # checked filter -> 1 when its box says it all
    bit_rows: Words  # for each cell the filters that may hold for a code in it, then those that surely do
    scratch_sizes: Longs  # the widest bit row, the most dimensions, the most checked filters of any bucket


class Patterns(NamedTuple):
    """Which patterns each distinct text of a batch matches."""

    texts: Ints  # [pattern column, row] -> distinct text, or -1
    starts: Ints  # distinct text -> first id
    ids: Ints


def frozen(arrays: dict[str, npt.NDArray[Any]]) -> Image:
    """An image of read-only, contiguous arrays: mapped and freshly built ones are then the same type to numba."""
    contiguous = {name: np.ascontiguousarray(each) for name, each in arrays.items()}
    for each in contiguous.values():
        each.flags.writeable = False
    return Image(**contiguous)
