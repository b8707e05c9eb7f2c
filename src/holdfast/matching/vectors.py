"""The steps of matching with blocks, and the vector instructions for them, written as LLVM code: loops over so few
words or bytes are not made vectors of.

Numba keeps the compiled kernels until `kernels` changes and does not look here: `kernels.VECTORS` has this file's
checksum, and a test compares them.
"""

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LINE = 8  # words of 64 bits: a cache line, and the widest register
BLOCK = 64 * LINE  # filters whose bits are one cache line
SIDES_AT_ONCE = 8  # ANDed before it is looked how many bits are left
UNKNOWN_BYTE, FIRST_BYTE = 1, 2  # what a missing value is in a block, and the lowest code
LANES = 32  # bytes that are compared at once
NUMBERS_AT_ONCE = 16  # that `write_chosen` stores, wanted or not
_BITS = ir.IntType(64)
_LINE = ir.VectorType(_BITS, LINE)
_BYTES = ir.VectorType(ir.IntType(8), LANES)
_FLAGS = ir.VectorType(ir.IntType(1), LANES)
_BYTE_POINTER = ir.IntType(8).as_pointer()
_NUMBERS = ir.VectorType(ir.IntType(32), NUMBERS_AT_ONCE)


def _data(target, builder, signature, args, at):
    return target.make_array(signature.args[at])(target, builder, args[at]).data


def _load(builder, pointer, at, kind, align):
    return builder.load(builder.bitcast(builder.gep(pointer, [at]), kind.as_pointer()), align=align)


def _intrinsic(builder, name, result, *args):
    kind = ir.FunctionType(result, [each.type for each in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


@intrinsic
def lowest_bit(context, word):
    """The place of the lowest bit of a word that is not zero."""
    return types.int64(types.uint64), lambda target, builder, signature, args: builder.cttz(args[0], ir.IntType(1)(1))


@intrinsic
def fetch(context, numbers, at):
    """Have the processor fetch a number's cache line, and go on meanwhile."""

    def generate(target, builder, signature, args):
        place = builder.bitcast(builder.gep(_data(target, builder, signature, args, 0), [args[1]]), _BYTE_POINTER)
        given = [ir.Constant(ir.IntType(32), each) for each in (0, 3, 1)]  # to read, and to keep
        _intrinsic(builder, "llvm.prefetch.p0", ir.VoidType(), place, *given)
        return target.get_dummy_value()

    return types.void(numbers, types.int64), generate


@intrinsic
def and_lines(context, rows, base, step, shift, sides, first, last, point, point_at, left):
    """left &= one line of each side; how many bits are left.

    The lines of a side begin at `base + side * step`; which of them it is says the event's byte for the side's axis,
    shifted.
    """

    def generate(target, builder, signature, args):
        words, axes, bytes_, kept = (_data(target, builder, signature, args, at) for at in (0, 4, 7, 9))
        place, found = builder.bitcast(kept, _LINE.as_pointer()), cgutils.alloca_once(builder, _LINE)
        builder.store(builder.load(place, align=8), found)
        with cgutils.for_range_slice(builder, args[5], args[6], ir.Constant(_BITS, 1)) as (side, _):
            axis = builder.zext(builder.load(builder.gep(axes, [side])), _BITS)
            value = builder.zext(builder.load(builder.gep(bytes_, [builder.add(args[8], axis)])), _BITS)
            at = builder.mul(builder.lshr(value, args[3]), ir.Constant(_BITS, LINE))
            at = builder.add(at, builder.add(args[1], builder.mul(builder.sub(side, args[5]), args[2])))
            builder.store(builder.and_(builder.load(found), _load(builder, words, at, _LINE, 8)), found)
        whole = builder.load(found)
        builder.store(whole, place, align=8)
        counted = _intrinsic(builder, f"llvm.ctpop.v{LINE}i64", _LINE, whole)
        return _intrinsic(builder, f"llvm.vector.reduce.add.v{LINE}i64", _BITS, counted)

    given = rows, base, step, shift, sides, first, last, point, point_at, left
    return types.int64(*given), generate


def _inside(builder, outside, edge):
    """Flags of all lanes as 0 for outside, 1 for on an edge, 2 for inside."""
    whole = ir.IntType(LANES)
    some, close = (
        builder.icmp_unsigned("!=", builder.bitcast(builder.load(each), whole), ir.Constant(whole, 0))
        for each in (outside, edge)
    )
    inside = builder.select(close, ir.Constant(_BITS, 1), ir.Constant(_BITS, 2))
    return builder.select(some, ir.Constant(_BITS, 0), inside)


@intrinsic
def within_box(context, boxes, at, lanes, point, point_at):
    """Whether bytes lie in a box, its lowest ones and then its highest: 0 no, 1 perhaps (one is on an edge), 2 yes."""

    def generate(target, builder, signature, args):
        outside, edge = (cgutils.alloca_once_value(builder, ir.Constant(_FLAGS, None)) for _ in range(2))
        bounds, values = (_data(target, builder, signature, args, at) for at in (0, 3))
        for_lanes = cgutils.for_range_slice(builder, ir.Constant(_BITS, 0), args[2], ir.Constant(_BITS, LANES))
        with for_lanes as (lane, _):
            place = builder.add(args[1], lane)
            low = _load(builder, bounds, place, _BYTES, 1)
            high = _load(builder, bounds, builder.add(place, args[2]), _BYTES, 1)
            value = _load(builder, values, builder.add(args[4], lane), _BYTES, 1)
            beyond = builder.or_(builder.icmp_unsigned("<", value, low), builder.icmp_unsigned(">", value, high))
            on = builder.or_(builder.icmp_unsigned("==", value, low), builder.icmp_unsigned("==", value, high))
            builder.store(builder.or_(builder.load(outside), beyond), outside)
            builder.store(builder.or_(builder.load(edge), on), edge)
        return _inside(builder, outside, edge)

    return types.int64(boxes, at, lanes, point, point_at), generate


@intrinsic
def write_chosen(context, numbers, first, word, out, n):
    """Write those of 64 numbers whose bit is set; what n is then. Up to NUMBERS_AT_ONCE more places are written to."""

    def generate(target, builder, signature, args):
        given, written = (_data(target, builder, signature, args, at) for at in (0, 3))
        flags = ir.VectorType(ir.IntType(1), NUMBERS_AT_ONCE)
        part = ir.IntType(NUMBERS_AT_ONCE)
        compress = f"llvm.experimental.vector.compress.v{NUMBERS_AT_ONCE}i32"
        n = args[4]
        for shift in range(0, 64, NUMBERS_AT_ONCE):
            some = _load(builder, given, builder.add(args[1], ir.Constant(_BITS, shift)), _NUMBERS, 4)
            bits = builder.trunc(builder.lshr(args[2], ir.Constant(_BITS, shift)), part)
            given_bits = builder.bitcast(bits, flags), ir.Constant(_NUMBERS, None)
            chosen = _intrinsic(builder, compress, _NUMBERS, some, *given_bits)
            place = builder.bitcast(builder.gep(written, [n]), _NUMBERS.as_pointer())
            builder.store(chosen, place, align=4)
            n = builder.add(n, builder.zext(builder.ctpop(bits), _BITS))
        return n

    return types.int64(numbers, first, word, out, n), generate


_inlined = nb.njit(inline="always")


@_inlined
def find_bytes(axes, cuts, starts, codes, rows, first, end, columns, stride):
    """For each axis of a wide bucket the byte of each row."""
    for axis in range(end - first):
        slot, begin, stop, step, shift, start = axes[first + axis]
        for i in range(rows.size):
            code, byte = np.int64(codes[rows[i], slot]), np.int64(UNKNOWN_BYTE)
            if code >= 0:
                at = begin + starts[start + (code >> shift)]
                while at < stop and cuts[at] <= code:
                    at += 1
                byte = FIRST_BYTE + step * (at - begin)
            columns[stride * axis + i] = byte


@_inlined
def find_points(columns, stride, axes, rows, lanes, points):
    """The same bytes row by row."""
    points[: lanes * rows] = UNKNOWN_BYTE
    for axis in range(axes):
        for i in range(rows):
            points[lanes * i + axis] = columns[stride * axis + i]


@_inlined
def choose(block, columns, stride, count, chosen):
    """The rows that can match anything in a block; how many."""
    one, other = stride * block[10], stride * block[13]
    some = 0
    for i in range(count):
        chosen[some] = i
        value, second = np.int64(columns[one + i]), np.int64(columns[other + i])
        within = np.int64(block[11] <= value) & np.int64(value <= block[12])
        some += within & np.int64(block[14] <= second) & np.int64(second <= block[15])
    return some


@_inlined
def intersect_lines(bit_rows, base, shift, sides, first, last, few, points, point, left):
    """AND one line of each side of a block until few bits are left; how many."""
    left[:] = ~np.uint64(0)
    step, side, some = (256 >> shift) * LINE, first, np.int64(BLOCK)
    while side < last and some > few:
        end = min(side + SIDES_AT_ONCE, last)
        some = and_lines(bit_rows, base + (side - first) * step, step, shift, sides, side, end, points, point, left)
        side = end
    return some


@_inlined
def write_sure(subscriptions, first, sure, left, out, n):
    """Write what surely holds and take it from what is left; how many pairs are written then."""
    for w in range(LINE):
        if sure[w] != 0 and first + 64 * w + 64 <= subscriptions.size:
            n = write_chosen(subscriptions, first + 64 * w, sure[w], out, n)
            left[w] ^= sure[w]  # what is sure is possible too
    return n


@_inlined
def list_bits(left, places):
    """The places of all bits; how many."""
    count = 0
    for w in range(LINE):
        word = left[w]
        while word:
            places[count] = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            count += 1
    return count
