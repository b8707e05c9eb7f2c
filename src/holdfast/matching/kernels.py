"""The inner loops of batch matching, compiled by numba. They know integers only: every column has been turned
into small codes and every test into a comparison of codes (see `slots` and `layout`).

Four passes over the rows of a batch. `open_buckets` looks up which buckets each row's codes open: a list of
hits. `copy_runs` copies, for each hit, the matching slices of the bucket's sorted runs. `check_filters` tests,
for each hit, the bucket's remaining filters; where there are thousands, `check_blocks` does, which takes the hits of
a bucket together. The last three write into a buffer of fixed size, stop at the first hit that might not fit, and are
called again with a new one. `match_few` makes all four for a few events.

`Image` is the compiled form of a set of subscriptions that they read: flat arrays, written once, shared by memory
mapping. It stands here because numba keeps compiled code until this file changes and looks at no other: what the code
is made from, the order of the arrays and the numbers below, has to change with it.
"""

from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.experimental import structref

from holdfast.matching.block_columns import COLUMN_EVENTS_MIN, check_columns
from holdfast.matching.vectors import (
    BLOCK,
    LINE,
    NUMBERS_AT_ONCE,
    choose,
    fetch,
    find_bytes,
    find_points,
    intersect_lines,
    list_bits,
    lowest_bit,
    within_box,
    write_sure,
)

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

# Tests of a checked filter: (kind, slot, a, b).
IN_RANGE, NOT_IN_RANGE, IN_SET, NOT_IN_SET, PATTERN, NOT_PATTERN = range(6)
# How a run is sorted.
UNSORTED, AT_LEAST, AT_MOST = range(3)
NO_SLOT = -1
CODE_MAX = 2**31 - 1  # the high end of a range without one
BLOCK_ROOM = BLOCK + NUMBERS_AT_ONCE  # pairs that a block may write at once
VECTORS = 1163540542  # the checksum of `vectors`, so that this file changes with it
BLOCK_COLUMNS = 304141630  # likewise of `block_columns`
EXACT = 2**53  # up to here, integers are doubles
HITS_AT_ONCE = 256  # of which all run starts are fetched before the first run is copied: they stay in the cache
RUN_ROOM = 512  # events of a run that may stand side by side
WIDE_ROWS = 4_096  # events that meet a block before the next one: it is fetched from memory once for all of them


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
    wide_of: Ints  # bucket -> its row in wides, or -1
    wides: Longs  # rows of: first axis, end, first block, end, bytes of a point
    # Rows of: slot, first cut, end (of wide_cuts), byte from one cell to the next, shift from code to place in
    # axis_starts, first place there.
    axes: Longs
    wide_cuts: Ints
    axis_starts: npt.NDArray[np.uint8]  # the cell of the first of the codes that share a place
    # Rows of: first side, end, first word of lines that may hold, shift from byte to line, first word of those that
    # surely hold or -1, shift, first checked filter, first byte in block_boxes, boxes say all, bits left that are
    # tested at once; twice an axis, the lowest and the highest byte there that may match; how many tests of a filter
    # are made on all events that stand side by side.
    blocks: Longs
    sides: npt.NDArray[np.uint8]  # axes, counted from the first of the bucket
    block_rows: Words  # a line of bits for each side and cell
    block_boxes: npt.NDArray[np.uint8]  # for each filter of a block the lowest byte on each axis, then the highest
    # For each test of a checked filter, where a bucket has blocks: its axis, the lowest byte there that may match, and
    # how far above that the highest is. The most telling come first.
    test_bytes: npt.NDArray[np.uint8]


class Patterns(NamedTuple):
    """Which patterns each distinct text of a batch matches."""

    texts: Ints  # [pattern column, row] -> distinct text, or -1
    starts: Ints  # distinct text -> first id
    ids: Ints


_compiled = nb.njit(cache=True, nogil=True)
# Handing an array to a function that stays a function costs atomic reference counting: too much in a loop.
_inlined = nb.njit(inline="always")


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


@_inlined
def _open_row(image, codes, patterns, row, everywhere, hit_rows, hit_buckets, n):
    """Add the buckets that a row opens to the list of hits; how many there are then."""
    if everywhere:
        hit_buckets[n] = 0
        n += 1
    start = n - np.int64(everywhere)
    for a in range(image.access_slots.size):
        code = codes[row, image.access_slots[a]]
        if code >= 0:
            at = image.key_offsets[a] + code
            for key in range(image.key_starts[at], image.key_starts[at + 1]):
                hit_buckets[n] = image.key_buckets[key]
                n += 1
    for column in range(patterns.texts.shape[0]):
        text = patterns.texts[column, row]
        if text >= 0:
            for at in range(patterns.starts[text], patterns.starts[text + 1]):
                bucket = image.pattern_buckets[patterns.ids[at]]
                if bucket >= 0:
                    hit_buckets[n] = bucket
                    n += 1
    hit_rows[start:n] = row
    return n


@_compiled
def copy_runs(image, codes, patterns, row, end_row, most, out_rows, out, ends, left_rows, left_buckets):
    """Copy what matches in the sorted runs of the buckets that rows open, and list the hits with filters to check.

    With room in `ends`, nothing is copied: where the entries that match begin goes to `out`, where they end to `ends`.

    A row opens at most so many buckets. Returns the next row to do, the pairs written and the hits listed; it stops
    before a row that might not fit. Rows are taken some at a time: where their runs begin is then looked up for all of
    them before the first is copied, so that the processor fetches them from memory meanwhile.
    """
    run_starts, runs, bounds, subscriptions = image.run_starts, image.runs, image.bounds, image.subscriptions
    checked_starts = image.checked_starts
    everywhere = run_starts[1] > 0 or checked_starts[1] > 0
    room = HITS_AT_ONCE + most
    hit_rows, hit_buckets = np.empty(room, np.int32), np.empty(room, np.int32)
    n = left = 0
    while row < end_row and left + room <= left_rows.size:
        hits = 0
        while row < end_row and hits < HITS_AT_ONCE:
            hits = _open_row(image, codes, patterns, row, everywhere, hit_rows, hit_buckets, hits)
            row += 1
        for hit in range(hits):
            fetch(runs, 8 * run_starts[hit_buckets[hit]])
        row_n = row_left = 0
        for hit in range(hits):
            at, bucket = hit_rows[hit], hit_buckets[hit]
            if hit == 0 or at != hit_rows[hit - 1]:
                row_n, row_left = n, left
            left_rows[left], left_buckets[left] = at, bucket
            left += np.int64(checked_starts[bucket] < checked_starts[bucket + 1])
            first_run, end_batch = run_starts[bucket], run_starts[bucket + 1]
            if first_run < end_batch and n + runs[end_batch - 1, 7] - runs[first_run, 6] > out.size:
                return at, row_n, row_left
            begin = n
            for run in range(first_run, end_batch):
                if runs[run, 0] != NO_SLOT and codes[at, runs[run, 0]] != runs[run, 1]:
                    continue
                if runs[run, 2] != NO_SLOT and codes[at, runs[run, 2]] != runs[run, 3]:
                    continue
                start, end = runs[run, 6], runs[run, 7]
                if runs[run, 4] != NO_SLOT:
                    code = codes[at, runs[run, 4]]
                    if code < 0:
                        continue
                    if runs[run, 5] == AT_LEAST:
                        end = _first_not_below(bounds, start, end, code + 1)
                    elif runs[run, 5] == AT_MOST:
                        start = _first_not_below(bounds, start, end, code)
                if ends.size:
                    out[n], ends[n] = start, end
                    n += np.int64(start < end)
                    continue
                for place in range(start, end):
                    out[n] = subscriptions[place]
                    n += 1
            for place in range(begin, n):
                out_rows[place] = at
    return row, n, left


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
def _in_ranges(test_starts, tests, codes, row, tested):
    """`_passes` as 1 or 0, but for tests that are no ranges. Without branches: the next filter is fetched meanwhile."""
    passed = np.int64(1)
    for at in range(test_starts[tested], test_starts[tested + 1]):
        code = codes[row, tests[at, 1]]
        within = np.int64(tests[at, 2] <= code) & np.int64(code <= tests[at, 3])
        passed &= within | np.int64(tests[at, 0] != IN_RANGE)
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


@_compiled
def check_filters(image, codes, patterns, hit_rows, hit_buckets, hit, last, out_rows, out, stamps):
    """Test the checked filters; the next hit to do, and the pairs written.

    `stamps` remembers for each subscription with several filters the last row that it was written for. Without it,
    one may be written more than once.
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
            for tested in range(first, end):
                candidates[many] = tested
                many += _in_ranges(test_starts, tests, codes, row, tested)
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
                    out[n] = subscriptions[first + 64 * w + lowest_bit(certain)]
                    n += 1
                    certain &= certain - np.uint64(1)
                while possible:
                    at = 64 * w + lowest_bit(possible)
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
                if stamps.size == 0 or not repeated[subscription] or stamps[subscription] != row + 1:
                    if stamps.size > 0 and repeated[subscription]:
                        stamps[subscription] = row + 1
                    out[n] = subscription
                    n += 1
        out_rows[begin:n] = row
        hit += 1
    return hit, n


@_compiled
def check_blocks(image, codes, patterns, hit_rows, hit_buckets, all_blocks, progress, out_rows, out):
    """Test the filters of wide buckets, block by block; the pairs written. Hits are sorted by bucket.

    Without `all_blocks`, those are left out whose filters are boxes: `block_columns` has tested them.
    `progress` says where to go on: the first hit of a group, the block and the place among its rows.
    A subscription with several filters may be written more than once.
    """
    subscriptions, test_starts, tests, sets = image.checked_subscriptions, image.test_starts, image.tests, image.sets
    columns, texts, text_starts, ids = image.pattern_columns, patterns.texts, patterns.starts, patterns.ids
    wides, blocks, sides, bit_rows = image.wides, image.blocks, image.sides, image.block_rows
    boxes = image.block_boxes
    most, bytes_ = min(WIDE_ROWS, hit_rows.size), wides[:, 4].max()
    points = np.empty(most * bytes_, np.uint8)
    by_axis, chosen = np.empty(most * bytes_, np.uint8), np.empty(most, np.int32)
    left, sure, places = np.empty(LINE, np.uint64), np.empty(LINE, np.uint64), np.empty(BLOCK, np.int32)
    n, first = 0, progress[0]
    while first < hit_rows.size:
        wide, last = wides[image.wide_of[hit_buckets[first]]], first + 1
        while last < min(hit_rows.size, first + WIDE_ROWS) and hit_buckets[last] == hit_buckets[first]:
            last += 1
        rows, lanes = hit_rows[first:last], wide[4]
        axes, end_axis = image.axes, wide[1]
        find_bytes(axes, image.wide_cuts, image.axis_starts, codes, rows, wide[0], end_axis, by_axis, most)
        find_points(by_axis, most, end_axis - wide[0], rows.size, lanes, points)
        for b in range(max(progress[1], wide[2]), wide[3]):
            block = blocks[b]
            side, end, few = block[0], block[1], block[9]
            if block[8] and not all_blocks:
                continue
            for i in range(progress[2], choose(block, by_axis, most, rows.size, chosen)):
                if n + BLOCK_ROOM > out.size:
                    progress[0], progress[1], progress[2] = first, b, i
                    return n
                row, point, begin = rows[chosen[i]], lanes * chosen[i], n
                some = intersect_lines(bit_rows, block[2], block[3], sides, side, end, few, points, point, left)
                if some == 0:
                    continue
                if block[4] >= 0 and some > few:
                    intersect_lines(bit_rows, block[4], block[5], sides, side, end, -1, points, point, sure)
                    n = write_sure(subscriptions, block[6], sure, left, out, n)
                unsure = 0
                for at in places[: list_bits(left, places)]:  # without branches: the next box is fetched meanwhile
                    inside = within_box(boxes, block[7] + 2 * lanes * at, lanes, points, point)
                    out[n] = subscriptions[block[6] + at]
                    n += (inside >> 1) & block[8]
                    places[unsure] = at
                    unsure += np.int64(inside > 0) & ~((inside >> 1) & block[8])
                for at in places[:unsure]:
                    tested = block[6] + at
                    out[n] = subscriptions[tested]
                    if block[8]:
                        n += _in_ranges(test_starts, tests, codes, row, tested)
                    elif _passes(test_starts, tests, sets, columns, texts, text_starts, ids, codes, row, tested):
                        n += 1
                out_rows[begin:n] = row
            progress[2] = 0
        progress[1] = 0
        first = last
    progress[0] = first
    return n


@structref.register
class _FewType(types.StructRef):
    def preprocess_fields(self, fields):
        return tuple((name, types.unliteral(kind)) for name, kind in fields)


class FewArrays(structref.StructRefProxy):
    """What `match_few` works on, as one thing: handing over each array takes longer than matching an event."""

    def __new__(cls, *arrays: object) -> Any:
        return _few_arrays(*arrays)


_FEW_FIELDS = "image constants starts slots values codes blank most rows found hit_rows hit_buckets"
structref.define_proxy(FewArrays, _FewType, _FEW_FIELDS.split())


@_compiled
def _few_arrays(*arrays):
    """Numba's own way to make one is compiled anew in every process."""
    return FewArrays(*arrays)


@_compiled
def match_few(few, count, patterns, doubles):
    """All passes for the first `count` events in one call, which leaves their codes and values blank.

    The pairs written; -1 when there may not be room for them; -2 when a value is too large for an exact integer, and
    `doubles` says that it may have been one. `values` holds the numbers that have no code yet, NaN elsewhere. A
    subscription with several filters may be written more than once.
    """
    image, values, codes, out_rows, out = few.image, few.values[:count], few.codes[:count], few.rows, few.found
    for column in range(few.slots.size):
        slot, begin, end = few.slots[column], few.starts[column], few.starts[column + 1]
        for row in range(count):
            value = values[row, column]
            if value == value:
                if doubles and abs(value) >= EXACT:  # 2**53 + 1 becomes 2**53
                    return -2
                at = _first_not_below(few.constants, begin, end, value)
                codes[row, slot] = 2 * (at - begin) + np.int64(at < end and few.constants[at] == value)
    rows, buckets, nothing = few.hit_rows, few.hit_buckets, out[:0]
    done, n, hits = copy_runs(image, codes, patterns, 0, count, few.most, out_rows, out, nothing, rows, buckets)
    if done < count:
        return -1
    narrow, wide_rows, wide_buckets, alike = 0, np.empty(hits, np.int32), np.empty(hits, np.int32), True
    for hit in range(hits):
        row, bucket = rows[hit], buckets[hit]
        if image.wide_of[bucket] < 0:
            rows[narrow], buckets[narrow] = row, bucket
            narrow += 1
        else:
            wide_rows[hit - narrow], wide_buckets[hit - narrow] = row, bucket
            alike = alike and bucket == wide_buckets[0]
    wide, progress = hits - narrow, np.zeros(4, np.int64)
    if narrow > 0:
        done, written = check_filters(image, codes, patterns, rows, buckets, 0, narrow, out_rows[n:], out[n:], nothing)
        if done < narrow:
            return -1
        n += written
    wide_rows, wide_buckets, abreast = wide_rows[:wide], wide_buckets[:wide], alike and wide >= COLUMN_EVENTS_MIN
    if abreast:
        by_axis = np.empty(RUN_ROOM * image.wides[:, 4].max(), np.uint8)
        n += check_columns(image, codes, wide_rows, wide_buckets, by_axis, progress, out_rows[n:], out[n:])
        if progress[0] < wide:
            return -1
        progress[:] = 0
    if wide > 0:
        n += check_blocks(image, codes, patterns, wide_rows, wide_buckets, not abreast, progress, out_rows[n:], out[n:])
        if progress[0] < wide:
            return -1
    values[:] = np.nan
    codes[:] = few.blank[:count]
    return n
