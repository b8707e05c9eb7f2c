"""Blocks that are tested on many events at once, compiled by numba: filters go down the columns of their slots.

One event meets a block as lines of bits (`kernels.check_blocks`), which leaves filters that have to be looked up one by
one. With hundreds of events the other direction takes less: those that can match anything in a block stand side by
side, a column of bytes for each axis, and the processor compares a filter with 64 of them at a time. The first tests of
a filter are made on all events, the others where some are left. Where an event's byte is on an edge of a filter's
range, its code decides.
"""

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from holdfast.matching.vectors import find_bytes, lowest_bit, write_chosen

VECTORS = 1163540542  # the checksum of `vectors`, so that this file changes with it
COLUMN_EVENTS = 4_352  # that stand side by side: columns of 4,096 bytes would share the same few lines of a cache
COLUMN_EVENTS_MIN = 64  # fewer in a bucket are matched with lines
_LANES = 64  # events that are compared at once
COLUMN_ROOM = COLUMN_EVENTS + _LANES  # pairs that a filter may write
_TIMES = 4  # that this is done with one bound in a register
_TEST = 3  # bytes: axis, lowest, how far above that the highest is
_INT = types.int64
_BITS = ir.IntType(64)
_BYTES = ir.VectorType(ir.IntType(8), _LANES)
_NONE = ir.Constant(_BYTES, None)

_compiled = nb.njit(cache=True, nogil=True)


def _place(target, builder, signature, args, array, *at):
    pointer = target.make_array(signature.args[array])(target, builder, args[array]).data
    for each in at:
        pointer = builder.gep(pointer, [each])
    return pointer


def _load(builder, pointer):
    return builder.load(builder.bitcast(pointer, _BYTES.as_pointer()), align=1)


def _spread(builder, byte):
    nothing, first = ir.Constant(_BYTES, ir.Undefined), ir.Constant(ir.IntType(32), 0)
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), None)
    return builder.shuffle_vector(builder.insert_element(nothing, byte, first), nothing, everywhere)


def _call(builder, name, *args):
    kind = ir.FunctionType(_BYTES, [each.type for each in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def _for_tests(target, builder, signature, args, body):
    """Call `body` with the place of each test's first value, and its bounds, 64 times each.

    The arguments are: columns, the bytes of one, where to begin in each, tests, the first and the last of them.
    """
    size, at, first, last = args[1], args[2], args[4], args[5]
    step = ir.Constant(_BITS, _TEST)
    with cgutils.for_range_slice(builder, builder.mul(first, step), builder.mul(last, step), step) as (test, _):
        begin = _place(target, builder, signature, args, 3, test)
        axis, low, span = (builder.load(builder.gep(begin, [ir.Constant(_BITS, each)])) for each in range(_TEST))
        column = builder.mul(builder.zext(axis, _BITS), size)
        body(_place(target, builder, signature, args, 0, column, at), _spread(builder, low), _spread(builder, span))


def _passing(times):
    """An intrinsic: which of so many times 64 events pass some tests, as words of bits."""

    def generate(target, builder, signature, args):
        outside = [cgutils.alloca_once_value(builder, _NONE) for _ in range(times)]

        def narrow(place, low, span):
            for time in range(times):
                above = builder.sub(_load(builder, builder.gep(place, [ir.Constant(_BITS, _LANES * time)])), low)
                beyond = _call(builder, f"llvm.usub.sat.v{_LANES}i8", above, span)
                builder.store(builder.or_(builder.load(outside[time]), beyond), outside[time])

        _for_tests(target, builder, signature, args, narrow)
        for time in range(times):
            inside = builder.bitcast(builder.icmp_unsigned("==", builder.load(outside[time]), _NONE), _BITS)
            builder.store(inside, _place(target, builder, signature, args, 6, args[7], ir.Constant(_BITS, time)))
        return target.get_dummy_value()

    @intrinsic
    def passing(context, columns, size, at, tests, first, last, words, word):
        return types.void(columns, _INT, _INT, tests, _INT, _INT, words, _INT), generate

    return passing


_passing_many, _passing_some = _passing(_TIMES), _passing(1)


@intrinsic
def _on_edges(context, columns, size, at, tests, first, last):
    """Which of 64 events have the lowest or the highest byte of a test."""

    def generate(target, builder, signature, args):
        least = cgutils.alloca_once_value(builder, ir.Constant(_BYTES, [255] * _LANES))

        def narrow(place, low, span):
            above = builder.sub(_load(builder, place), low)
            for off in (above, builder.xor(above, span)):
                builder.store(_call(builder, f"llvm.umin.v{_LANES}i8", builder.load(least), off), least)

        _for_tests(target, builder, signature, args, narrow)
        return builder.bitcast(builder.icmp_unsigned("==", builder.load(least), _NONE), _BITS)

    return types.uint64(columns, _INT, _INT, tests, _INT, _INT), generate


@intrinsic
def _move_chosen(context, values, at, word, moved, to):
    """Move those of 64 bytes whose bit is set end to end. All 64 places are written to."""

    def generate(target, builder, signature, args):
        flags = builder.bitcast(args[2], ir.VectorType(ir.IntType(1), _LANES))
        given = _load(builder, _place(target, builder, signature, args, 0, args[1]))
        name = f"llvm.experimental.vector.compress.v{_LANES}i8"
        place = builder.bitcast(_place(target, builder, signature, args, 3, args[4]), _BYTES.as_pointer())
        builder.store(_call(builder, name, given, flags, _NONE), place, align=1)
        return target.get_dummy_value()

    return types.void(values, _INT, types.uint64, moved, _INT), generate


@intrinsic
def _bits_of(context, word):
    return types.int64(types.uint64), lambda target, builder, signature, args: builder.ctpop(args[0])


_inlined = nb.njit(inline="always")


@_inlined
def _choose(block, by_axis, size, rows, sides, hull, words, columns, chosen):
    """Put the events that can match anything in a block side by side; how many."""
    for k in range(2):
        axis, low, high = block[10 + 3 * k : 13 + 3 * k]
        hull[_TEST * k], hull[_TEST * k + 1], hull[_TEST * k + 2] = axis, low, high - low
    used, n = (rows.size + _LANES - 1) // _LANES, 0
    for w in range(0, used, _TIMES):
        _passing_many(by_axis, size, _LANES * w, hull, 0, 2, words, w)
    words[used - 1] &= ~np.uint64(0) >> np.uint64(-rows.size % _LANES)
    for w in range(used):
        left = words[w]
        while left != 0:
            chosen[n] = rows[_LANES * w + lowest_bit(left)]
            left &= left - np.uint64(1)
            n += 1
    for side in sides:
        begin = size * np.int64(side)
        to = begin
        for w in range(used):
            _move_chosen(by_axis, begin + _LANES * w, words[w], columns, to)
            to += _bits_of(words[w])
    return n


@_compiled
def check_columns(image, codes, hit_rows, hit_buckets, by_axis, progress, out_rows, out):
    """Test the filters of wide buckets that are boxes on hundreds of events, block by block; the pairs written.

    Hits are sorted by bucket. `progress` says where to go on: the first hit of a group, the block, the filter in it,
    and whether `by_axis` has the bytes of the group. A subscription with several filters may be written more than once.
    """
    subscriptions, starts, tests = image.checked_subscriptions, image.test_starts, image.tests
    wides, blocks, sides, test_bytes = image.wides, image.blocks, image.sides, image.test_bytes
    size = by_axis.size // wides[:, 4].max()
    columns, chosen = np.empty(by_axis.size + _LANES, np.uint8), np.empty(size + _LANES, np.int32)
    words, one, hull = np.empty(size // _LANES, np.uint64), np.empty(1, np.uint64), np.empty(2 * _TEST, np.uint8)
    some, n, first = np.empty(size // _LANES, np.int64), 0, progress[0]
    while first < hit_rows.size:
        wide, last = wides[image.wide_of[hit_buckets[first]]], first + 1
        while last < min(hit_rows.size, first + size) and hit_buckets[last] == hit_buckets[first]:
            last += 1
        rows = hit_rows[first:last]
        if progress[3] == 0:
            cuts, cells = image.wide_cuts, image.axis_starts
            find_bytes(image.axes, cuts, cells, codes, rows, wide[0], wide[1], by_axis, size)
            progress[3] = 1
        for b in range(max(progress[1], wide[2]), wide[3]):
            block, mine, begin = blocks[b], sides[blocks[b, 0] : blocks[b, 1]], blocks[b, 6]
            count = _choose(block, by_axis, size, rows, mine, hull, words, columns, chosen) if block[8] else 0
            end = blocks[b + 1, 6] if b + 1 < wide[3] else np.int64(image.checked_starts[hit_buckets[first] + 1])
            if count == 0:
                end = begin
            used, tail = (count + _LANES - 1) // _LANES, ~np.uint64(0) >> np.uint64(-count % _LANES)
            for filter_ in range(begin + progress[2], end):
                if n + count + _LANES > out.size:
                    progress[0], progress[1], progress[2] = first, b, filter_ - begin
                    return n
                test, stop, start = starts[filter_], starts[filter_ + 1], n
                early = min(test + block[16], stop)
                if used == 1:
                    _passing_some(columns, size, 0, test_bytes, test, early, words, 0)
                    if words[0] & tail == 0:
                        continue
                else:
                    for w in range(0, used, _TIMES):
                        _passing_many(columns, size, _LANES * w, test_bytes, test, early, words, w)
                words[used - 1] &= tail
                found = 0
                for w in range(used):
                    some[found] = w
                    found += np.int64(words[w] != 0)
                for w in some[:found]:
                    left, at = words[w], _LANES * w
                    if early < stop:
                        _passing_some(columns, size, at, test_bytes, early, stop, one, 0)
                        left &= one[0]
                    if left == 0:
                        continue
                    unsure = left & _on_edges(columns, size, at, test_bytes, test, stop)
                    while unsure != 0:
                        i, inside = lowest_bit(unsure), np.int64(1)
                        row = np.uint32(chosen[at + i])  # unsigned: a negative place would be looked for from the end
                        for t in range(np.uint64(test), np.uint64(stop)):
                            code = codes[row, np.uint32(tests[t, 1])]
                            inside &= np.int64(tests[t, 2] <= code) & np.int64(code <= tests[t, 3])
                        left ^= np.uint64(1 - inside) << np.uint64(i)
                        unsure &= unsure - np.uint64(1)
                    n = write_chosen(chosen, at, left, out_rows, n)
                out[start:n] = subscriptions[filter_]
            progress[2] = 0
        progress[1] = progress[3] = 0
        first = last
    progress[0] = first
    return n
