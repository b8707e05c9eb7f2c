"""Blocks: bit rows for buckets with thousands of checked filters, where each has many wide ranges.

A block is 512 filters, whose bits are one cache line. The codes of each slot are cut into 250 cells or fewer, so that
an event is a byte per slot, and a filter a box: a lowest and a highest byte per slot. Some neighbouring cells together
have one line, which says which filters a code there may satisfy. An event is the AND of one line per slot; what is left
is looked up in its box, all slots at once. Only where the event is on an edge of the box, the codes are compared. Where
an event matches many filters, a second line says which surely hold. A
batch of events meets one block after the other, while its lines are in the cache. HEM, a matcher for wide ranges, does
the same with the filters that surely fail.

Filters that test the same slots in the same places share a block (see `clustering`), so most blocks can be skipped by
comparing two bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.matching.clustering import cluster
from holdfast.matching.filling import fill_boxes, fill_lines, fill_tests
from holdfast.matching.kernels import CODE_MAX, IN_RANGE
from holdfast.matching.slots import Slot
from holdfast.matching.vectors import BLOCK, FIRST_BYTE, LANES, LINE

FILTERS_MIN = 1_024  # fewer are one bitmap
_CELLS = 251  # bytes that are left for them
_LINES_MAX = 800  # of a block, 50 KiB: with many slots, cells become coarser
_SURE_LINES_MAX = 1_600
_SHIFT_MIN, _SHIFT_MAX = 2, 4  # from 64 cells that have a line to 16
_PLACES_BITS = 12  # of the tables that find the cell of a code
_AXES_MAX = 256  # slots that bytes can number
_SHARE_MIN = 1 / 512  # of a bucket's filters that test a slot, for lines of that slot to pay
_MATCHES_SHARE = 1 / 64  # expected, above which looking up boxes would cost more than a second line
_LOOKUPS_PER_LINE = 0.2  # how many boxes can be looked up while a line is ANDed
_LEFT_MAX = 0.5  # of 64 events, expected after the tests that are made on all of them
_SAMPLE = 1_000_000  # ranges that decide on the cells of a bucket

Arrays = dict[str, npt.NDArray[Any]]
Bytes = npt.NDArray[np.uint8]


@dataclass
class _BlockParts:
    """The arrays of all blocks, as they grow."""

    wides: list[tuple[int, ...]] = field(default_factory=list)
    axes: list[npt.NDArray[np.int64]] = field(default_factory=lambda: [np.zeros((0, 6), np.int64)])
    axis_count: int = 0
    cuts: list[npt.NDArray[np.int32]] = field(default_factory=lambda: [np.zeros(0, np.int32)])
    cut_count: int = 0
    starts: list[Bytes] = field(default_factory=lambda: [np.zeros(0, np.uint8)])
    start_count: int = 0
    blocks: list[tuple[int, ...]] = field(default_factory=list)
    sides: list[Bytes] = field(default_factory=lambda: [np.zeros(0, np.uint8)])
    side_count: int = 0
    rows: list[npt.NDArray[np.uint64]] = field(default_factory=lambda: [np.zeros(0, np.uint64)])
    row_words: int = 0
    boxes: list[Bytes] = field(default_factory=lambda: [np.zeros(0, np.uint8)])
    box_bytes: int = 0


def build_blocks(arrays: Arrays, slots: Sequence[Slot]) -> Arrays:
    """Blocks for the buckets that have enough checked filters, which are put in order."""
    starts = arrays["checked_starts"]
    wide_of = np.full(starts.size - 1, -1, np.int32)
    parts = _BlockParts()
    wide = np.flatnonzero(np.diff(starts) >= FILTERS_MIN).tolist()
    test_bytes = arrays["test_bytes"] = np.zeros((arrays["tests"].shape[0] if wide else 0, 3), np.uint8)
    for bucket in wide:
        wide_of[bucket] = len(parts.wides)
        _add(parts, _Bucket(arrays, slots, int(starts[bucket]), int(starts[bucket + 1])))
    return {
        "wide_of": wide_of,
        "wides": np.array(parts.wides, np.int64).reshape(-1, 5),
        "axes": np.concatenate(parts.axes),
        "wide_cuts": np.concatenate(parts.cuts),
        "axis_starts": np.concatenate(parts.starts),
        "blocks": np.array(parts.blocks, np.int64).reshape(-1, 17),
        "sides": np.concatenate(parts.sides),
        "block_rows": _aligned(parts.rows, parts.row_words),
        "block_boxes": np.concatenate(parts.boxes),
        "test_bytes": test_bytes.reshape(-1),
    }


def _aligned(rows: list[npt.NDArray[np.uint64]], words: int) -> npt.NDArray[np.uint64]:
    """End to end, beginning with a cache line: otherwise each line of a block would be two. Empties the list."""
    room = np.empty(words + LINE, np.uint64)
    begin = -room.ctypes.data // 8 % LINE
    found, at = room[begin : begin + words], 0
    for each in rows:
        found[at : at + each.size] = each
        at += each.size
    rows.clear()
    return found


def _add(parts: _BlockParts, bucket: "_Bucket") -> None:
    ends = bucket.arrange()
    planned = [bucket.plan(first, end) for first, end in zip([0, *ends[:-1]], ends, strict=True)]
    axes = bucket.axes.copy()
    axes[:, 1:3] += parts.cut_count
    axes[:, 5] += parts.start_count
    axis_range = parts.axis_count, parts.axis_count + len(axes)
    parts.wides.append((*axis_range, len(parts.blocks), len(parts.blocks) + len(planned), bucket.lanes))
    parts.axes.append(axes)
    parts.axis_count += len(axes)
    parts.cuts.append(bucket.cuts)
    parts.cut_count += bucket.cuts.size
    parts.starts.append(bucket.starts)
    parts.start_count += bucket.starts.size
    for each in planned:
        may, may_shift = _lines(parts, bucket, each, surely=False)
        sure, sure_shift = _lines(parts, bucket, each, surely=True) if each.dense else (-1, 0)
        side_range = parts.side_count, parts.side_count + each.sides.size
        box = parts.box_bytes + 2 * bucket.lanes * each.first
        lines = may, may_shift, sure, sure_shift
        parts.blocks.append(
            (*side_range, *lines, bucket.first + each.first, box, int(each.boxed), each.few, *each.hulls, each.early)
        )
        bucket.put_tests(each)
        parts.sides.append(each.sides)
        parts.side_count += each.sides.size
    parts.boxes.append(bucket.boxes.reshape(-1))
    parts.box_bytes += bucket.boxes.size


def _lines(parts: _BlockParts, bucket: "_Bucket", plan: "_Plan", surely: bool) -> tuple[int, int]:
    """The lines of a block; where they begin and how bytes are shifted."""
    most = (_SURE_LINES_MAX if surely else _LINES_MAX) // max(1, plan.sides.size)
    shift = int(np.clip(8 - int(np.log2(max(most, 1))), _SHIFT_MIN, _SHIFT_MAX))
    rows = np.zeros(plan.sides.size * (256 >> shift) * LINE, np.uint64)
    boxes, exact = bucket.boxes[plan.first : plan.end].reshape(-1), bucket.exact[plan.first : plan.end]
    fill_lines(rows, shift, plan.sides, boxes, bucket.lanes, exact, surely)
    parts.rows.append(rows)
    parts.row_words += rows.size
    return parts.row_words - rows.size, shift


@dataclass
class _Plan:
    """What a block will be."""

    first: int
    end: int
    sides: Bytes  # axes that have lines, the most telling first
    dense: bool  # has lines of what surely holds too
    boxed: bool
    few: int
    hulls: tuple[int, ...]  # twice an axis, and the lowest and the highest byte there that may match
    early: int  # tests after which events are looked at 64 by 64


class _Bucket:
    """The filters of a bucket, as boxes."""

    def __init__(self, arrays: Arrays, slots: Sequence[Slot], first: int, end: int) -> None:
        self.first, self._arrays, self._end = first, arrays, end
        starts = arrays["test_starts"][first : end + 1]
        tests = arrays["tests"][starts[0] : starts[-1]]
        sample = tests
        if tests.shape[0] > _SAMPLE:  # seeded: equal images for equal conditions
            sample = tests[np.random.default_rng(0).integers(0, tests.shape[0], _SAMPLE)]
        sample = sample[sample[:, 0] == IN_RANGE]
        counts = np.bincount(sample[:, 1], minlength=1)
        busiest = np.argsort(-counts, kind="stable")[:_AXES_MAX]
        least = max(1.0, _SHARE_MIN * (end - first) * sample.shape[0] / max(1, tests.shape[0]))
        chosen = np.sort(busiest[counts[busiest] >= least])
        if not chosen.size:
            chosen = np.zeros(1, np.int64)  # a slot that nobody tests: its lines say which filters there are
        cuts = [_cuts(sample[sample[:, 1] == slot, 2:]) for slot in chosen.tolist()]
        cut_ends = np.cumsum([each.size for each in cuts], dtype=np.int64)
        steps = [_CELLS // (each.size + 1) for each in cuts]
        self.cuts = np.concatenate([np.zeros(0, np.int32), *cuts])
        begins = cut_ends - [each.size for each in cuts]
        shifts, self.starts, places = _places([slots[slot].codes for slot in chosen.tolist()], cuts)
        self.axes = np.stack([chosen, begins, cut_ends, steps, shifts, places], axis=1).astype(np.int64)
        self.lanes = max(1, -(-len(cuts) // LANES)) * LANES
        self._admitted = _admitted([slots[slot] for slot in chosen.tolist()], cuts, steps)
        self._axis_of = np.full(len(slots), -1, np.int64)
        self._axis_of[chosen] = np.arange(chosen.size)
        self.boxes = np.empty((end - first, 2 * self.lanes), np.uint8)
        self.exact = np.ones(end - first, np.uint8)
        flat = self.boxes.reshape(-1)
        fill_boxes(flat, self.lanes, self.exact, starts, tests, self._axis_of, self.axes, self.cuts)

    def arrange(self) -> list[int]:
        """Put the filters in order; where each block ends. With one pivot or two, whatever lets events skip more."""
        best: tuple[float, npt.NDArray[np.int32], list[int]] | None = None
        for pivots in (1, 2):
            order, ends = np.arange(self.exact.size, dtype=np.int32), np.empty(self.exact.size, np.int64)
            given = self.boxes.reshape(-1), self.lanes, len(self.axes), self._admitted, BLOCK, pivots
            ends = ends[: cluster(*given, order, ends)]
            first = np.concatenate([[0], ends[:-1]])
            boxes = self.boxes[order, : self.lanes + len(self.axes)]
            low = np.minimum.reduceat(boxes[:, : len(self.axes)], first, axis=0)
            high = np.maximum.reduceat(boxes[:, self.lanes :], first, axis=0).astype(np.int64)
            axis = np.arange(len(self.axes))
            shares = np.sort(self._admitted[axis, high + 1] - self._admitted[axis, low], axis=1)[:, :2].prod(axis=1)
            met = float(shares.sum())
            if best is None or met < best[0]:
                best = met, order, ends.tolist()
        assert best is not None
        _, order, found = best
        self.boxes, self.exact = self.boxes[order], self.exact[order]
        self._reorder(order)
        return found

    def _reorder(self, order: npt.NDArray[np.int32]) -> None:
        """The bucket's part of the checked filters and their tests."""
        arrays, first, end = self._arrays, self.first, self._end
        arrays["checked_subscriptions"][first:end] = arrays["checked_subscriptions"][first:end][order]
        starts = arrays["test_starts"][first : end + 1].astype(np.int64)
        lengths = np.diff(starts)[order]
        begins = np.cumsum(lengths) - lengths
        rows = np.repeat(starts[:-1][order] - begins, lengths) + np.arange(lengths.sum())
        arrays["tests"][starts[0] : starts[-1]] = arrays["tests"][rows]
        arrays["test_starts"][first:end] = starts[0] + begins

    def put_tests(self, plan: _Plan) -> None:
        """The bytes of a block's tests, which are put in order."""
        arrays, boxes = self._arrays, self.boxes[plan.first : plan.end].reshape(-1)
        starts = arrays["test_starts"][self.first + plan.first : self.first + plan.end + 1]
        mine = slice(starts[0], starts[-1])
        given = arrays["test_bytes"][mine], arrays["tests"][mine], starts, self._axis_of, boxes, self.lanes
        fill_tests(*given, plan.hulls[0], plan.hulls[3])

    def plan(self, first: int, end: int) -> _Plan:
        count = len(self.axes)
        low, high = (
            self.boxes[first:end, :count],
            self.boxes[first:end, self.lanes : self.lanes + count].astype(np.int64),
        )
        axis, size = np.arange(count), end - first
        may = self._admitted[axis, high + 1] - self._admitted[axis, low]
        inside = np.maximum(self._admitted[axis, high] - self._admitted[axis, low.astype(np.int64) + 1], 0)
        share = np.where(low > 0, (may + inside) / 2, 1.0)
        tested = np.count_nonzero(low, axis=0)
        kept = share.mean(axis=0)
        sides = np.argsort(kept, kind="stable")
        sides = sides[tested[sides] > 0] if tested.any() else sides[:1]  # one says which filters there are
        lost = 1 - kept[sides].mean() if sides.size else 1.0
        return _Plan(
            first,
            end,
            sides.astype(np.uint8),
            bool(share.prod(axis=1).mean() > _MATCHES_SHARE),
            bool(self.exact[first:end].all()),
            int(np.clip(_LOOKUPS_PER_LINE / max(lost, 1e-3), 1, BLOCK // 8)),
            self._hulls(low, high, np.flatnonzero(tested == size)),
            _early(share[low > 0]),
        )

    def _hulls(self, low: Bytes, high: npt.NDArray[np.int64], shared: npt.NDArray[np.int64]) -> tuple[int, ...]:
        """The two axes, of those that all test, on which the fewest events can match anything."""
        found = [(1.0, 0, 0, 255), (1.0, 0, 0, 255)]
        for axis in shared.tolist():
            least, most = int(low[:, axis].min()), int(high[:, axis].max())
            found.append((float(self._admitted[axis, most + 1] - self._admitted[axis, least]), axis, least, most))
        one, other = sorted(found)[:2]
        return one[1:] + other[1:]


def _early(shares: npt.NDArray[np.float64]) -> int:
    """After how many tests that let such shares of the events through few of 64 are left."""
    share = float(np.clip(shares.mean(), 0.01, 0.99)) if shares.size else 1.0
    return int(np.ceil(np.log(_LEFT_MAX / 64) / np.log(share))) if share < 1 else 0


def _cuts(ranges: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Where to cut a slot's codes: so that about as many ranges end in one cell as in another."""
    edges = np.sort(np.concatenate([ranges[:, 0], ranges[:, 1].astype(np.int64) + 1]))
    edges = edges[(edges > 0) & (edges < CODE_MAX)]
    distinct = np.unique(edges)
    if distinct.size >= _CELLS:
        distinct = np.unique(edges[np.linspace(0, edges.size - 1, _CELLS + 1).astype(int)[1:-1]])
    return distinct.astype(np.int32)


def _places(codes: Sequence[int], cuts: Sequence[npt.NDArray[np.int32]]) -> tuple[list[int], Bytes, list[int]]:
    """How to find the cell of a code: a shift, a table of cells and an axis's place in it."""
    shifts, tables, places, place = [], [np.zeros(0, np.uint8)], [], 0
    for count, mine in zip(codes, cuts, strict=True):
        shift = max(0, int(count).bit_length() - _PLACES_BITS)
        firsts = np.arange((count >> shift) + 1, dtype=np.int64) << shift
        tables.append(np.searchsorted(mine, firsts, side="right").astype(np.uint8))
        shifts.append(shift)
        places.append(place)
        place += tables[-1].size
    return shifts, np.concatenate(tables), places


def _admitted(
    slots: Sequence[Slot], cuts: Sequence[npt.NDArray[np.int32]], steps: Sequence[int]
) -> npt.NDArray[np.float64]:
    """For each axis and byte the share of events with a lower byte, if values are spread evenly."""
    found = np.ones((len(slots), 257))
    for at, (slot, mine, step) in enumerate(zip(slots, cuts, steps, strict=True)):
        begins = np.concatenate([[0.0], np.clip(_depth(slot, mine), 0, 1)])
        cell = -(-(np.arange(257) - FIRST_BYTE) // step)
        found[at] = np.where(cell < begins.size, begins[np.clip(cell, 0, begins.size - 1)], 1.0)
    return found


def _depth(slot: Slot, codes: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """How far into a slot's values some codes lie, from 0 to 1: numbers by what they are, others by their rank."""
    edges = slot.edges.get("float64")
    if edges is None or edges.values.size < 2:
        return np.asarray(np.minimum(codes, slot.codes - 1) / slot.codes)
    values = edges.values[np.minimum(codes // 2, edges.values.size - 1)]
    lowest, highest = edges.values[0] / 2, edges.values[-1] / 2  # halves: their difference is a double
    return np.asarray((values / 2 - lowest) / (highest - lowest))
