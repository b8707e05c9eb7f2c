"""The inner loops that place values among sorted constants, compiled by numba. As `kernels`, they import nothing of
ours, because numba looks for changes in this file alone.
"""

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)  # odd, with mixed bits
_HALF, _LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)

_compiled = nb.njit(cache=True, nogil=True)
_inlined = nb.njit(inline="always")


@intrinsic
def _word_at(context, address):
    """The eight bytes that begin there. An address, because arrays that are handed on are counted, atomically."""

    def generate(target, builder, signature, args):
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()), align=1)

    return types.uint64(types.int64), generate


@intrinsic
def _byte_at(context, address):
    def generate(target, builder, signature, args):
        byte = builder.load(builder.inttoptr(args[0], ir.IntType(8).as_pointer()))
        return builder.zext(byte, ir.IntType(64))

    return types.uint64(types.int64), generate


@_inlined
def _part(at, end, last):
    """Up to eight bytes of a text as one number; all texts end at `last`."""
    if at + 8 <= last:
        word = _word_at(at)
        if at + 8 > end:
            word &= (np.uint64(1) << np.uint64(8 * (end - at))) - np.uint64(1)
    else:
        word = np.uint64(0)
        for i in range(min(8, end - at)):
            word |= _byte_at(at + i) << np.uint64(8 * i)
    return word


@_inlined
def _hash(begin, end, last):
    """Of a text, for tables that stay in memory: who knows them could make many texts collide, and so compares more."""
    mixed = np.uint64(end - begin) * _FIRST
    at = begin
    while at < end:
        mixed = (mixed ^ _part(at, end, last)) * _SECOND
        mixed ^= mixed >> np.uint64(29)
        at += 8
    return mixed


@_compiled
def table_of(texts, starts):
    """A table of distinct texts: at each place the upper half of a hash and one more than the text's number, or 0."""
    size, base = 16, np.int64(texts.ctypes.data)
    while size < 2 * starts.size:
        size *= 2
    table = np.zeros(size, np.uint64)
    for i in range(starts.size - 1):
        mixed = _hash(base + starts[i], base + starts[i + 1], base + texts.size)
        place = np.int64(mixed & np.uint64(size - 1))
        while table[place] != 0:
            place = (place + 1) & (size - 1)
        table[place] = mixed >> _HALF << _HALF | np.uint64(i + 1)
    return table


@_compiled
def find_texts(texts, starts, constants, constant_starts, table, codes):
    """2i + 1 for each text that equals the i-th of the constants in the table, and 0 for any other."""
    mask, base, others = np.uint64(table.size - 1), np.int64(texts.ctypes.data), np.int64(constants.ctypes.data)
    last, others_last = base + texts.size, others + constants.size
    for t in range(codes.size):
        begin, end = base + starts[t], base + starts[t + 1]
        mixed, code = _hash(begin, end, last), 0
        place = mixed & mask
        entry = table[place]
        while entry != 0:
            if (entry ^ mixed) >> _HALF == 0:
                i = np.int64(entry & _LOWER) - 1
                other, other_end, at = others + constant_starts[i], others + constant_starts[i + 1], begin
                equal = other_end - other == end - begin
                while equal and at < end:
                    equal = _part(at, end, last) == _part(other, other_end, others_last)
                    at, other = at + 8, other + 8
                if equal:
                    code = 2 * i + 1
                    break
            place = (place + np.uint64(1)) & mask
            entry = table[place]
        codes[t] = code


@_inlined
def _place(number, low, scale, last):
    """Which of some even parts a number lies in. Never one before that of a smaller number, whatever is rounded."""
    place = (np.float64(number) - low) * scale
    return np.int64(min(place, last)) if place > 0 else np.int64(0)


@_compiled
def guide_of(values, low, scale, parts):
    """How many of some sorted constants lie before each of some even parts of their range, and behind the last."""
    guide, part = np.empty(parts + 1, np.int32), 0
    for i in range(values.size):
        place = _place(values[i], low, scale, np.float64(parts - 1))
        while part <= place:
            guide[part] = i
            part += 1
    guide[part:] = values.size
    return guide


@_compiled
def place_numbers(values, exact, below, guide, low, scale, column, codes):
    """The code of each number among sorted constants: 2i + 1 when it equals the i-th, 2i when it lies before it.

    Where a constant is not `exact` (all are when that is empty), none equals it; `below` is how many lie before the
    first. NaN has the code -1. The guide says between which constants to look: few, where they are spread evenly.
    Sixty-four binary searches go in step, without branches: the processor then waits for all their loads at once.
    """
    places, last = np.empty(64, np.int64), np.float64(guide.size - 2)
    for first in range(0, column.size, 64):
        numbers, found = column[first : first + 64], codes[first : first + 64]
        at, most = places[: numbers.size], np.int64(0)
        for k in range(numbers.size):
            part = _place(numbers[k], low, scale, last)
            at[k] = guide[part]
            most = max(most, np.int64(guide[part + 1]) - at[k])
        step = np.int64(1)
        while 2 * step <= most:
            step *= 2
        while step > 0 and most > 0:
            for k in range(numbers.size):
                end = at[k] + step
                at[k] += step * np.int64(end <= values.size and values[min(end, values.size) - 1] <= numbers[k])
            step >>= 1
        for k in range(numbers.size):
            after = at[k]
            before = max(after - 1, 0)
            equal = after > 0 and values[before] == numbers[k] and (exact.size == 0 or exact[before] == 1)
            code = 2 * (after + below) - np.int64(equal)
            found[k] = code if numbers[k] == numbers[k] else -1


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
