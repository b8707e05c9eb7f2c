"""Filters that are tested on many events at once, compiled by numba: those of a bucket that only ask for ranges.

Events that open the same bucket stand side by side, a column for each slot that its filters test. A filter then goes
down two or three columns, and the processor compares a dozen events at a time. Filter by filter and event by event, it
would look up each test anew. As `placing`, this imports nothing of ours, because numba looks for changes in this file
alone.
"""

import numba as nb
import numpy as np

EVENTS = 4_096  # that stand side by side: their columns stay in the processor's cache
_COLUMNS = 8
_FEW = 4  # events are tested one by one: columns would take longer

_compiled = nb.njit(cache=True, nogil=True)


@_compiled
def order_hits(rows, buckets, count):
    """Hits by bucket, of which there are so many, those of one in the order of the rows."""
    starts = np.zeros(count + 1, np.int64)
    for bucket in buckets:
        starts[bucket + 1] += 1
    for bucket in range(count):
        starts[bucket + 1] += starts[bucket]
    ordered_rows, ordered_buckets = np.empty_like(rows), np.empty_like(buckets)
    for hit in range(rows.size):
        bucket = buckets[hit]
        at = starts[bucket]
        ordered_rows[at], ordered_buckets[at] = rows[hit], bucket
        starts[bucket] = at + 1
    return ordered_rows, ordered_buckets


@_compiled
def check_abreast(checked_starts, subscriptions, test_starts, tests, codes, rows, buckets, progress, out_rows, out):
    """Test the filters of buckets on the hits, which are sorted by bucket; the pairs written.

    `progress` says where to go on: the first hit of a group, and the filter.
    """
    columns = np.empty((_COLUMNS, EVENTS), np.int32)
    slots = np.empty(_COLUMNS, np.int32)
    passed_words = np.empty(EVENTS // 8, np.uint64)
    passed = passed_words.view(np.uint8)
    n, first = 0, progress[0]
    while first < rows.size:
        bucket, last = buckets[first], first + 1
        while last < min(rows.size, first + EVENTS) and buckets[last] == bucket:
            last += 1
        count = last - first
        words = (count + 7) // 8
        if count < _FEW:
            end = checked_starts[bucket + 1]
            if n + count * (end - checked_starts[bucket]) > out.size:
                progress[0] = first
                return n
            for hit in range(first, last):
                row = rows[hit]
                for tested in range(checked_starts[bucket], end):
                    inside = np.int64(1)
                    for at in range(test_starts[tested], test_starts[tested + 1]):
                        code = codes[row, tests[at, 1]]
                        inside &= np.int64(tests[at, 2] <= code) & np.int64(code <= tests[at, 3])
                    out_rows[n], out[n] = row, subscriptions[tested]
                    n += inside
            first = last
            continue
        known = 0  # columns; the next one takes the place of the oldest
        for tested in range(max(progress[1], checked_starts[bucket]), checked_starts[bucket + 1]):
            if n + count > out.size:
                progress[0], progress[1] = first, tested
                return n
            passed_words[:words] = np.uint64(0x0101010101010101)
            for i in range(count, 8 * words):
                passed[i] = 0
            for at in range(test_starts[tested], test_starts[tested + 1]):
                slot, low, high = tests[at, 1], tests[at, 2], tests[at, 3]
                place = 0
                while place < min(known, _COLUMNS) and slots[place] != slot:
                    place += 1
                if place == min(known, _COLUMNS):
                    place = known % _COLUMNS
                    known += 1
                    slots[place] = slot
                    for i in range(count):
                        columns[place, i] = codes[rows[first + i], slot]
                column = columns[place]
                for i in range(count):
                    passed[i] &= np.uint8(low <= column[i]) & np.uint8(column[i] <= high)
            for word in range(words):
                if passed_words[word] != 0:
                    for i in range(8 * word, 8 * word + 8):
                        if passed[i]:
                            out_rows[n], out[n] = rows[first + i], subscriptions[tested]
                            n += 1
        progress[1] = 0
        first = last
    progress[0] = first
    return n
