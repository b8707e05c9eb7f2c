"""The order of filters in blocks, so that most blocks can be skipped: filters that test the same, close together.

From the top down: filters that test an axis are parted from those that do not, the most telling axis first, until all
filters of a group have one or two such axes in common, its pivots. Then the group is halved, by the middle of the
ranges on the pivot where that narrows most what the halves admit together. What is left is a block.

As `kernels`, this imports nothing of ours, because numba looks for changes in this file alone.
"""

import numba as nb
import numpy as np

_compiled = nb.njit(cache=True, nogil=True)

_DEPTH_MAX = 512  # groups that wait: halves of halves, and as many as there are axes beside them
_PIVOTS_MAX = 2


@_compiled
def _best_axis(boxes, lanes, axes, admitted, order, pivots):
    """The axis, no pivot yet, that lets the fewest through, all filters together; and how many test it."""
    best, least, tested = -1, 0.0, 0
    for axis in range(axes):
        if axis == pivots[0] or axis == pivots[1]:
            continue
        kept, count = 0.0, 0
        for i in order:
            at = 2 * lanes * i + axis
            if boxes[at] > 0:
                kept += 1.0 - admitted[axis, boxes[at + lanes] + 1] + admitted[axis, boxes[at]]
                count += 1
        if kept > least:
            best, least, tested = axis, kept, count
    return best, tested


@_compiled
def _part(boxes, lanes, axis, order, room):
    """Those that test an axis first."""
    n = 0
    for i in order:
        if boxes[2 * lanes * i + axis] > 0:
            room[n] = i
            n += 1
    for i in order:
        if boxes[2 * lanes * i + axis] == 0:
            room[n] = i
            n += 1
    order[:] = room[:n]


@_compiled
def _sort(boxes, lanes, axis, order, room):
    """By the middles of the ranges on an axis."""
    starts = np.zeros(512, np.int64)
    for i in order:
        at = 2 * lanes * i + axis
        starts[np.int64(boxes[at]) + boxes[at + lanes] + 1] += 1
    starts = np.cumsum(starts)
    for i in order:
        at = 2 * lanes * i + axis
        middle = np.int64(boxes[at]) + boxes[at + lanes]
        room[starts[middle]] = i
        starts[middle] += 1
    order[:] = room[: order.size]


@_compiled
def share_of_hull(boxes, lanes, axis, admitted, order):
    """The share of events that some of these filters admit on an axis."""
    low, high = 255, 0
    for i in order:
        at = 2 * lanes * i + axis
        low, high = min(low, np.int64(boxes[at])), max(high, np.int64(boxes[at + lanes]))
    return admitted[axis, high + 1] - admitted[axis, low]


@_compiled
def cluster(boxes, lanes, axes, admitted, size, pivots_wanted, order, ends):
    """Put filters in order; the number of blocks, and where each ends. A block has at most `size` filters.

    `admitted[axis, byte]` is the share of events whose byte is below that one.
    """
    room = np.empty(order.size, np.int32)
    waiting = np.empty((_DEPTH_MAX, 5), np.int64)  # first, end, pivots, how many are wanted
    waiting[0] = 0, order.size, -1, -1, pivots_wanted
    depth, blocks = 1, 0
    while depth > 0:
        depth -= 1
        first, end, wanted = waiting[depth, 0], waiting[depth, 1], waiting[depth, 4]
        pivots, mine = waiting[depth, 2:4].copy(), order[first:end]
        if end - first <= size:
            ends[blocks] = end
            blocks += 1
            continue
        known = np.int64(pivots[0] >= 0) + np.int64(pivots[1] >= 0)
        if known < wanted:
            axis, tested = _best_axis(boxes, lanes, axes, admitted, mine, pivots)
            waiting[depth] = first, end, pivots[0], pivots[1], known
            if tested == mine.size:
                waiting[depth, 2 + known], waiting[depth, 4] = axis, wanted
            elif tested >= size // 2 and mine.size - tested >= size // 2 and depth + 2 < _DEPTH_MAX:
                _part(boxes, lanes, axis, mine, room)
                waiting[depth] = first + tested, end, pivots[0], pivots[1], wanted
                depth += 1
                waiting[depth] = first, first + tested, pivots[0], pivots[1], wanted
                waiting[depth, 2 + known] = axis
            depth += 1
            continue
        parts = -(-mine.size // size)
        half = parts // 2 * -(-mine.size // parts)
        best, least = -1, np.inf
        for axis in pivots[:known]:
            _sort(boxes, lanes, axis, mine, room)
            both = share_of_hull(boxes, lanes, axis, admitted, mine)
            one = share_of_hull(boxes, lanes, axis, admitted, mine[:half])
            other = share_of_hull(boxes, lanes, axis, admitted, mine[half:])
            narrowed = (one * half + other * (mine.size - half)) / max(both, 1e-9)
            if narrowed < least:
                best, least = axis, narrowed
        if best >= 0 and best != pivots[known - 1]:
            _sort(boxes, lanes, best, mine, room)
        for begin, stop in ((first + half, end), (first, first + half)):
            waiting[depth] = begin, stop, pivots[0], pivots[1], wanted
            depth += 1
    return blocks
