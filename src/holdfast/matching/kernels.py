"""The inner loops of batch matching, compiled by numba. They know integers only: every column has been turned
into small codes and every test into a comparison of codes (see `slots` and `layout`).

Three passes over the rows of a batch. `open_buckets` looks up which buckets each row's codes open: a list of
hits. `copy_runs` copies, for each hit, the matching slices of the bucket's sorted runs. `check_filters` tests,
for each hit, the bucket's remaining filters. The last two write into a buffer of fixed size, stop at
the first hit that might not fit, and are called again with a new one.

`Image` is the compiled form of a set of subscriptions that they read: flat arrays, written once, shared by memory
mapping. It stands here because numba keeps compiled code until this file changes and looks at no other: what the code
is made from, the order of the arrays and the numbers below, has to change with it.
"""

from typing import NamedTuple

import numba as nb
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


_compiled = nb.njit(cache=True, nogil=True)
# Handing an array to a function that stays a function costs atomic reference counting: too much in a loop.
_inlined = nb.njit(inline="always")

# De Bruijn's way to find the lowest set bit of a word: the top six bits of the product name it.
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_BIT_OF = np.zeros(64, np.int64)
for _bit in range(64):
    _BIT_OF[(0x03F79D71B4CB0A89 << _bit & (1 << 64) - 1) >> 58] = _bit


@_inlined
def _first_not_below(values, low, high, wanted):
    """Where the first value that is not below `wanted` stands in a sorted slice. Without branches to mispredict."""
    left = high - low
    while left > 1:
        half = left >> 1
        low += half * np.int64(values[low + half - 1] < wanted)
        left -= half
    if left == 1:
        low += np.int64(values[low] < wanted)
    return low


@_compiled
def open_buckets(image, codes, patterns, hit_rows, hit_buckets):
    """List the buckets that each row opens; with empty lists, only count them."""
    access_slots, key_offsets = image.access_slots, image.key_offsets
    key_starts, key_buckets, pattern_buckets = image.key_starts, image.key_buckets, image.pattern_buckets
    texts, text_starts, text_patterns = patterns.texts, patterns.starts, patterns.ids
    everywhere = image.run_starts[1] > 0 or image.checked_starts[1] > 0
    write = hit_rows.size > 0
    n = 0
    for row in range(codes.shape[0]):
        start = n
        if everywhere:
            if write:
                hit_buckets[n] = 0
            n += 1
        for a in range(access_slots.size):
            code = codes[row, access_slots[a]]
            if code >= 0:
                at = key_offsets[a] + code
                for key in range(key_starts[at], key_starts[at + 1]):
                    if write:
                        hit_buckets[n] = key_buckets[key]
                    n += 1
        for column in range(texts.shape[0]):
            text = texts[column, row]
            if text >= 0:
                for at in range(text_starts[text], text_starts[text + 1]):
                    bucket = pattern_buckets[text_patterns[at]]
                    if bucket >= 0:
                        if write:
                            hit_buckets[n] = bucket
                        n += 1
        if write:
            hit_rows[start:n] = row
    return n


@_compiled
def copy_runs(image, codes, hit_rows, hit_buckets, hit, last, out_rows, out):
    """Copy what matches in sorted runs; the next hit to do, and the pairs written."""
    run_starts, runs, bounds, subscriptions = image.run_starts, image.runs, image.bounds, image.subscriptions
    n = 0
    while hit < last:
        row, bucket = hit_rows[hit], hit_buckets[hit]
        first_run, end_batch = run_starts[bucket], run_starts[bucket + 1]
        if first_run < end_batch and n + runs[end_batch - 1, 7] - runs[first_run, 6] > out.size:
            break
        begin = n
        for run in range(first_run, end_batch):
            if runs[run, 0] != NO_SLOT and codes[row, runs[run, 0]] != runs[run, 1]:
                continue
            if runs[run, 2] != NO_SLOT and codes[row, runs[run, 2]] != runs[run, 3]:
                continue
            start, end = runs[run, 6], runs[run, 7]
            if runs[run, 4] != NO_SLOT:
                code = codes[row, runs[run, 4]]
                if code < 0:
                    continue
                if runs[run, 5] == AT_LEAST:
                    end = _first_not_below(bounds, start, end, code + 1)
                elif runs[run, 5] == AT_MOST:
                    start = _first_not_below(bounds, start, end, code)
            out[n : n + end - start] = subscriptions[start:end]
            n += end - start
        out_rows[begin:n] = row
        hit += 1
    return hit, n


@_inlined
def _passes(test_starts, tests, sets, pattern_columns, texts, text_starts, text_patterns, codes, row, tested):
    """Whether a row passes all tests of a checked filter."""
    passed = True
    for at in range(test_starts[tested], test_starts[tested + 1]):
        kind, a, b = tests[at, 0], tests[at, 2], tests[at, 3]
        code = codes[row, tests[at, 1]]
        if code < 0:
            passed = False
        elif kind == IN_RANGE:
            passed = a <= code <= b
        elif kind == NOT_IN_RANGE:
            passed = code < a or code > b
        elif kind in (IN_SET, NOT_IN_SET):
            place = _first_not_below(sets, a, b, code)
            passed = (place < b and sets[place] == code) == (kind == IN_SET)
        else:
            found = False
            text = texts[pattern_columns[a], row]
            for place in range(text_starts[text], text_starts[text + 1]):
                found = found or text_patterns[place] == a
            passed = found == (kind == PATTERN)
        if not passed:
            break
    return passed


@_inlined
def _find_cells(dimensions, cuts, cells, codes, row, first, end, words, offsets, point):
    """This row's code in each dimension, and where the bit rows of its cell begin."""
    for d in range(first, end):
        code, cell = codes[row, dimensions[d, 0]], 0  # the first bit row is for "unknown"
        if code >= 0 and dimensions[d, 4] >= 0:
            cell = np.int64(cells[dimensions[d, 4] + code])
        elif code >= 0:
            begin = dimensions[d, 1]
            cell = 1 + _first_not_below(cuts, begin, dimensions[d, 2], code + 1) - begin
        offsets[d - first] = dimensions[d, 3] + cell * 2 * words
        point[d - first] = code


@_inlined
def _in_box(boxes, at, depth, point):
    """Whether a row's codes lie within a filter's range in every dimension."""
    inside = True
    for d in range(depth):
        inside &= (boxes[at + 2 * d] <= point[d]) & (point[d] <= boxes[at + 2 * d + 1])
    return inside


@_inlined
def _intersect(bit_rows, offsets, depth, size, left):
    """AND one bit row of each dimension. Slices, not offsets: only then does the compiler use vectors."""
    bits = bit_rows[offsets[0] : offsets[0] + size]
    if depth == 1:
        for w in range(size):
            left[w] = bits[w]
    else:
        more = bit_rows[offsets[1] : offsets[1] + size]
        for w in range(size):
            left[w] = bits[w] & more[w]
    for d in range(2, depth):
        bits = bit_rows[offsets[d] : offsets[d] + size]
        for w in range(size):
            left[w] &= bits[w]


@_inlined
def _lowest_bit(word):
    return _BIT_OF[((word & (~word + np.uint64(1))) * _DE_BRUIJN) >> np.uint64(58)]


@_compiled
def check_filters(image, codes, patterns, hit_rows, hit_buckets, hit, last, out_rows, out, stamps):
    """Test the checked filters; the next hit to do, and the pairs written.

    `stamps` remembers for each subscription with several filters the last row that it was written for.
    """
    starts, subscriptions, repeated = image.checked_starts, image.checked_subscriptions, image.repeated
    test_starts, tests, sets, pattern_columns = image.test_starts, image.tests, image.sets, image.pattern_columns
    texts, text_starts, text_patterns = patterns.texts, patterns.starts, patterns.ids
    bitmap_of, bitmaps, dimensions, cuts = image.bitmap_of, image.bitmaps, image.dimensions, image.cuts
    cells, boxes, boxed = image.cells, image.boxes, image.boxed
    left = np.empty(2 * image.scratch_sizes[0], np.uint64)
    offsets, point = np.empty(image.scratch_sizes[1], np.int64), np.empty(image.scratch_sizes[1], np.int32)
    candidates = np.empty(image.scratch_sizes[2], np.int32)
    n = 0
    while hit < last:
        row, bucket = hit_rows[hit], hit_buckets[hit]
        first, end = starts[bucket], starts[bucket + 1]
        if n + end - first > out.size:
            break
        begin, many = n, 0
        bitmap = bitmap_of[bucket]
        if bitmap < 0:
            many = end - first
            for i in range(many):
                candidates[i] = first + i
        else:
            size, depth, box = bitmaps[bitmap, 2], bitmaps[bitmap, 1] - bitmaps[bitmap, 0], bitmaps[bitmap, 3]
            _find_cells(
                dimensions, cuts, cells, codes, row, bitmaps[bitmap, 0], bitmaps[bitmap, 1], size, offsets, point
            )
            _intersect(image.bit_rows, offsets, depth, 2 * size, left)
            for w in range(size):
                if left[w] == 0:
                    continue
                certain, possible = left[size + w], left[w] ^ left[size + w]  # what is sure is possible too
                while certain:
                    out[n] = subscriptions[first + 64 * w + _lowest_bit(certain)]
                    n += 1
                    certain &= certain - np.uint64(1)
                while possible:
                    at = 64 * w + _lowest_bit(possible)
                    possible &= possible - np.uint64(1)
                    if _in_box(boxes, box + 2 * depth * at, depth, point):
                        if boxed[first + at]:
                            out[n] = subscriptions[first + at]
                            n += 1
                        else:
                            candidates[many] = first + at
                            many += 1
        for i in range(many):
            tested = candidates[i]
            if _passes(
                test_starts, tests, sets, pattern_columns, texts, text_starts, text_patterns, codes, row, tested
            ):
                subscription = subscriptions[tested]
                if not repeated[subscription] or stamps[subscription] != row + 1:
                    if repeated[subscription]:
                        stamps[subscription] = row + 1
                    out[n] = subscription
                    n += 1
        out_rows[begin:n] = row
        hit += 1
    return hit, n


@_compiled
def place_numbers(values, column, after):
    """How many of the sorted values are not above each number of a column.

    Sixty-four binary searches go in step, without branches: the processor then waits for all their loads at once.
    """
    places = np.empty(64, np.int64)
    for first in range(0, column.size, 64):
        numbers, found = column[first : first + 64], after[first : first + 64]
        at = places[: numbers.size]
        for k in range(numbers.size):
            at[k] = 0
        left = values.size
        while left > 1:
            half = left >> 1
            for k in range(numbers.size):
                at[k] += half * np.int64(values[at[k] + half - 1] <= numbers[k])
            left -= half
        for k in range(numbers.size):
            found[k] = at[k] + np.int64(values[at[k]] <= numbers[k])


@_compiled
def place_texts(texts, text_starts, constants, constant_starts, codes):
    """The code of each text among sorted constants: 2i + 1 when it equals the i-th, 2i when it lies before it.

    Texts are UTF-8 bytes; their byte order is the order of their code points.
    """
    count = constant_starts.size - 1
    for t in range(codes.size):
        begin, length = text_starts[t], text_starts[t + 1] - text_starts[t]
        low, high, equal = 0, count, False
        while low < high:
            middle = (low + high) // 2
            start = constant_starts[middle]
            other = constant_starts[middle + 1] - start
            shorter = min(length, other)
            i = 0
            while i < shorter and texts[begin + i] == constants[start + i]:
                i += 1
            if i < shorter:
                less = constants[start + i] < texts[begin + i]
            else:
                less = other < length
                equal = equal or other == length
            if less:
                low = middle + 1
            else:
                high = middle
        codes[t] = 2 * low + 1 if equal else 2 * low


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
            last = -1 if cell == 0 else CODE_MAX if cell == cells - 1 else cuts[cell - 1] - 1
            at = cell * 2 * words + filter_ // 64
            if low <= last and high >= start:
                bit_rows[at] |= bit
            if low <= start and high >= last and boxed[filter_]:
                bit_rows[at + words] |= bit
