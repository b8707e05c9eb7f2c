"""The bits beside the keys of a compiled level, found without the keys: an event may match thousands of them.

Most keys share their bits with many others, because there are fewer neighbours than conditions. So different bits are
numbered. Where all of them fit into a word, a kernel joins the words of all pairs; otherwise each number becomes a
Python object once for each event.
"""

import numba as nb
import numpy as np

from holdfast.matching.kernels import Ints
from holdfast.matching.levels import ROWS_MAX

_UNUSED_MAX = 1_024  # numbers that nobody uses any more, before all are given anew
_WORDS = 64  # room to begin with; it grows
_WORD = 1 << 64  # bits from here on do not fit


class LevelMarks:
    def __init__(self, size: int) -> None:
        self._number_of = np.zeros(size, np.int32)  # of each key's bits; 0 for none
        self._bits = [0]
        self._numbers = {0: 0}
        self._words = np.zeros(_WORDS, np.uint64)  # the bits of each number, unless some do not fit
        self._too_wide = 0  # numbers whose bits do not
        self._joined = np.zeros(ROWS_MAX, np.uint64)
        self._seen = np.zeros(1, np.int64)
        self._stamp = 1

    def put(self, at: int, bits: int) -> None:
        number = self._numbers.get(bits)
        if number is None:
            if len(self._bits) > self._number_of.size + _UNUSED_MAX:
                self._number_anew()
            number = self._take_number(bits)
        self._number_of[at] = number

    def _take_number(self, bits: int) -> int:
        number = self._numbers[bits] = len(self._bits)
        self._bits.append(bits)
        if bits >= _WORD:
            self._too_wide += 1
        elif not self._too_wide:
            if number == self._words.size:
                self._words = np.concatenate([self._words, np.zeros_like(self._words)])
            self._words[number] = bits
        return number

    def _number_anew(self) -> None:
        bits = [self._bits[number] for number in self._number_of.tolist()]
        self._bits, self._numbers, self._too_wide = [0], {0: 0}, 0
        for each in dict.fromkeys(bits):
            if each:
                self._take_number(each)
        self._number_of[:] = [self._numbers[each] for each in bits]

    def collect(self, rows: Ints, found: Ints, out: list[int]) -> None:
        """Add the bits of what was found to those of each row."""
        if self._too_wide:
            self._collect_many(rows, found, out)
            return
        joined = self._joined[: len(out)]
        _join_words(rows, found, self._number_of, self._words, joined)
        for row, bits in enumerate(joined.tolist()):
            out[row] |= bits

    def _collect_many(self, rows: Ints, found: Ints, out: list[int]) -> None:
        if self._seen.size < len(self._bits):
            self._seen = np.zeros(2 * len(self._bits), np.int64)
        out_rows, numbers = np.empty_like(rows), np.empty_like(rows)
        count = _distinct(rows, found, self._number_of, self._seen, self._stamp, out_rows, numbers)
        self._stamp += len(out)
        bits = self._bits
        for row, number in zip(out_rows[:count].tolist(), numbers[:count].tolist(), strict=True):
            out[row] |= bits[number]


def use_every_kernel() -> None:
    """Call each kernel of this way once; `few.use_every_kernel` says why."""
    pairs = np.zeros(1, np.int32)
    for bits in (1, _WORD):
        marks = LevelMarks(1)
        marks.put(0, bits)
        marks.collect(pairs, pairs, [0])


_compiled = nb.njit(cache=True, nogil=True)


@_compiled
def _join_words(rows, found, number_of, words, joined):
    """For each row the bits of all that was found."""
    joined[:] = 0
    for at in range(rows.size):
        joined[rows[at]] |= words[number_of[found[at]]]


@_compiled
def _distinct(rows, found, number_of, seen, stamp, out_rows, out):
    """The number of each pair where it is not that of an earlier one of its row; some come again all the same."""
    count = 0
    for at in range(rows.size):
        number = number_of[found[at]]
        if number != 0 and seen[number] != stamp + rows[at]:
            seen[number] = stamp + rows[at]
            out_rows[count], out[count] = rows[at], number
            count += 1
    return count
