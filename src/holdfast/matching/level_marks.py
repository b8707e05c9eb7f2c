"""The bits beside the keys of a compiled level, found without the keys: an event may match thousands of them.

Most keys share their bits with many others, because there are fewer neighbours than conditions. So different bits are
numbered, and of the pairs that the kernels find only each number once becomes a Python object; where there are few
numbers, only the set of them.
"""

import numba as nb
import numpy as np

from holdfast.matching.kernels import Ints
from holdfast.matching.levels import ROWS_MAX

_UNUSED_MAX = 1_024  # numbers that nobody uses any more, before all are given anew
_FEW = 64  # numbers whose sets fit into a word
_SETS_MAX = 4_096  # whose bits are remembered; then all are worked out again


class LevelMarks:
    def __init__(self, size: int) -> None:
        self._number_of = np.zeros(size, np.int32)  # of each key's bits; 0 for none
        self._bits = [0]
        self._numbers = {0: 0}
        self._sets = np.zeros(ROWS_MAX, np.uint64)
        self._bits_of_set: dict[int, int] = {}
        self._seen = np.zeros(1, np.int64)
        self._stamp = 1

    def put(self, at: int, bits: int) -> None:
        number = self._numbers.get(bits)
        if number is None:
            if len(self._bits) > self._number_of.size + _UNUSED_MAX:
                self._number_anew()
            number = self._numbers[bits] = len(self._bits)
            self._bits.append(bits)
        self._number_of[at] = number

    def _number_anew(self) -> None:
        bits = [self._bits[number] for number in self._number_of.tolist()]
        self._bits = list(dict.fromkeys([0, *bits]))
        self._numbers = {each: number for number, each in enumerate(self._bits)}
        self._number_of[:] = [self._numbers[each] for each in bits]
        self._bits_of_set.clear()

    def collect(self, rows: Ints, found: Ints, out: list[int]) -> None:
        """Add the bits of what was found to those of each row."""
        if len(self._bits) > _FEW:
            self._collect_many(rows, found, out)
            return
        _put_in_sets(rows, found, self._number_of, self._sets, len(out))
        known = self._bits_of_set
        for row, numbers in enumerate(self._sets[: len(out)].tolist()):
            bits = known.get(numbers)
            out[row] |= self._join(numbers) if bits is None else bits

    def _join(self, numbers: int) -> int:
        if len(self._bits_of_set) >= _SETS_MAX:
            self._bits_of_set.clear()
        joined = 0
        for number, bits in enumerate(self._bits):
            joined |= bits if numbers >> number & 1 else 0
        self._bits_of_set[numbers] = joined
        return joined

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
    for size in (1, _FEW):
        marks = LevelMarks(size)
        for at in range(size):
            marks.put(at, 1 << at)
        marks.collect(pairs, pairs, [0])


_compiled = nb.njit(cache=True, nogil=True)


@_compiled
def _put_in_sets(rows, found, number_of, sets, count):
    """For each row the set of the numbers found, one bit each."""
    sets[:count] = 0
    for at in range(rows.size):
        sets[rows[at]] |= np.uint64(1) << np.uint64(number_of[found[at]])


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
