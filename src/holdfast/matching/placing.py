"""The inner loops that place values among sorted constants, compiled by numba. As `kernels`, they import nothing of
ours, because numba looks for changes in this file alone.
"""

import numba as nb
import numpy as np

_compiled = nb.njit(cache=True, nogil=True)


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
