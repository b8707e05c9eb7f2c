"""Blocks: bit rows for buckets with thousands of checked filters, where each has many wide ranges.

The idea is that of `bitmaps`, laid out for numbers: a bucket's filters are cut into blocks whose bit rows fit into the
processor's cache, and a batch of events meets one block after the other. The codes of each slot are cut into cells, and
a cell's bit row says which filters a code in it may satisfy. An event is the AND of one bit row per slot; what is left
is tested exactly, and most of it matches: only in the cells where a range ends is it not sure that it holds. HEM, a
matcher for wide ranges, does the same with the filters that surely fail.

Filters lie in a block in the order of their narrowest range, so whole stripes of a block can be skipped by one
comparison. Where an event matches many filters, a second bit row says which surely hold, and those are not tested.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.matching.filling import fill_block
from holdfast.matching.kernels import CODE_MAX, IN_RANGE, NO_SLOT, STRIPE
from holdfast.matching.slots import Slot

FILTERS_MIN = 1_024  # fewer are one bitmap
_WORDS = 128  # of a bit row, 1 KiB: with twenty slots the block takes half of a cache of 1 MiB
_CELLS_MAX = 32  # on a slot; each filter is unsure in one or two of them
_CELLS_MIN = 8
_CELLS_OF_BLOCK = 1_600  # on all slots: with a hundred of them cells become coarser before memory becomes large
_SHARE_MIN = 1 / 512  # of a block's filters that test a slot, for bit rows of that slot to pay
_SIDES_MAX = 256
_MATCHES_SHARE = 1 / 64  # expected, above which exact tests would cost more than a second bit row
_SAMPLE = 1_000_000  # ranges that decide on the cells of a bucket

Arrays = dict[str, npt.NDArray[Any]]


@dataclass
class _BlockParts:
    """The arrays of all blocks, as they grow."""

    wides: list[tuple[int, int, int, int]] = field(default_factory=list)
    axes: list[tuple[int, int, int]] = field(default_factory=list)
    cuts: list[npt.NDArray[np.int32]] = field(default_factory=lambda: [np.zeros(0, np.int32)])
    cut_count: int = 0
    blocks: list[tuple[int, ...]] = field(default_factory=list)
    sides: list[tuple[int, int]] = field(default_factory=list)
    stripes: list[tuple[int, int, int]] = field(default_factory=list)
    rows: list[npt.NDArray[np.uint64]] = field(default_factory=lambda: [np.zeros(0, np.uint64)])
    row_words: int = 0


def build_blocks(arrays: Arrays, slots: Sequence[Slot]) -> Arrays:
    """Blocks for the buckets that have enough checked filters."""
    starts = arrays["checked_starts"]
    wide_of = np.full(starts.size - 1, -1, np.int32)
    parts = _BlockParts()
    for bucket in np.flatnonzero(np.diff(starts) >= FILTERS_MIN).tolist():
        wide_of[bucket] = len(parts.wides)
        _add(parts, arrays, slots, int(starts[bucket]), int(starts[bucket + 1]))
    axes = [end - first for first, end, _, _ in parts.wides]
    return {
        "wide_of": wide_of,
        "wides": np.array(parts.wides, np.int64).reshape(-1, 4),
        "axes": np.array(parts.axes, np.int64).reshape(-1, 3),
        "wide_cuts": np.concatenate(parts.cuts),
        "blocks": np.array(parts.blocks, np.int64).reshape(-1, 7),
        "sides": np.array(parts.sides, np.int64).reshape(-1, 2),
        "wide_scratch": np.array([max((row[2] for row in parts.blocks), default=0), max(axes, default=0)], np.int64),
        "stripes": np.array(parts.stripes, np.int32).reshape(-1, 3),
        "block_rows": np.concatenate(parts.rows),
    }


def _add(parts: _BlockParts, arrays: Arrays, known: Sequence[Slot], first: int, end: int) -> None:
    """The blocks of one bucket. All of them have the same cells, so that an event looks up its own once."""
    size = end - first
    blocks = -(-size // (64 * _WORDS))
    words = STRIPE * -(-size // (64 * STRIPE * blocks))
    views = [_View(arrays, known, at, min(at + 64 * words, end)) for at in range(first, end, 64 * words)]
    chosen = [view.sides() for view in views]
    slots = sorted(set().union(*chosen))
    axis_of = {slot: axis for axis, slot in enumerate(slots)}
    dense = [view.matches_share() > _MATCHES_SHARE for view in views]
    most = _CELLS_MAX * (2 if any(dense) else 1)  # where much matches, what is unsure costs more than the bit rows
    cells = int(np.clip(_CELLS_OF_BLOCK // max(map(len, chosen)), _CELLS_MIN, most))
    sample = _Sample(arrays, first, end)
    cuts = {slot: sample.cuts(slot, cells) for slot in slots}
    parts.wides.append(
        (len(parts.axes), len(parts.axes) + len(slots), len(parts.blocks), len(parts.blocks) + len(views))
    )
    for slot in slots:
        parts.axes.append((slot, parts.cut_count, parts.cut_count + cuts[slot].size))
        parts.cuts.append(cuts[slot])
        parts.cut_count += cuts[slot].size
    for view, sides, per_cell in zip(views, chosen, [1 + each for each in dense], strict=True):
        rows, firsts = view.bit_rows(sides, [cuts[slot] for slot in sides], words, per_cell)
        first_side, first_stripe = len(parts.sides), len(parts.stripes)
        parts.blocks.append(
            (first_side, first_side + len(sides), words, view.first, per_cell, first_stripe, view.ranges_only)
        )
        parts.sides += [(axis_of[slot], parts.row_words + at) for slot, at in zip(sides, firsts, strict=True)]
        parts.stripes += view.stripes(words)
        parts.rows.append(rows)
        parts.row_words += rows.size


class _Sample:
    """Some of a bucket's ranges, which decide on the cells of all its slots."""

    def __init__(self, arrays: Arrays, first: int, end: int) -> None:
        begin, stop = arrays["test_starts"][[first, end]].tolist()
        rows: slice | npt.NDArray[np.int64] = slice(begin, stop)
        if stop - begin > _SAMPLE:
            rows = np.random.default_rng(0).integers(begin, stop, _SAMPLE)  # seeded: equal images for equal conditions
        tests = arrays["tests"][rows]
        self._tests = tests[tests[:, 0] == IN_RANGE]

    def cuts(self, slot: int, cells: int) -> npt.NDArray[np.int32]:
        """Where to cut a slot's codes: so that about as many ranges end in one cell as in another."""
        ranges = self._tests[self._tests[:, 1] == slot, 2:]
        edges = np.sort(np.concatenate([ranges[:, 0], ranges[:, 1].astype(np.int64) + 1]))
        edges = edges[(edges > 0) & (edges < CODE_MAX)]
        if edges.size >= cells:
            edges = edges[np.linspace(0, edges.size - 1, cells + 1).astype(int)[1:-1]]
        return np.unique(edges).astype(np.int32)


class _View:
    """The filters of one block."""

    def __init__(self, arrays: Arrays, slots: Sequence[Slot], first: int, end: int) -> None:
        self.first = first
        self._slots = slots
        self._starts = arrays["test_starts"][first : end + 1]
        self._tests = arrays["tests"][self._starts[0] : self._starts[-1]]
        self._is_range = self._tests[:, 0] == IN_RANGE
        self.ranges_only = bool(self._is_range.all())

    def sides(self) -> list[int]:
        """The slots that get bit rows."""
        counts = np.bincount(self._tests[self._is_range, 1], minlength=1)
        busiest = np.argsort(-counts, kind="stable")[:_SIDES_MAX]
        return busiest[(counts[busiest] > 0) & (counts[busiest] >= _SHARE_MIN * (self._starts.size - 1))].tolist() or [
            0
        ]

    def matches_share(self) -> float:
        """How many of the filters an event may be expected to match, if values are spread evenly and independent."""
        if not self._tests.size:
            return 1.0
        return float(np.exp(self._sums(np.log(np.maximum(self._widths(), 1e-9)))).mean())

    def _widths(self) -> npt.NDArray[np.float64]:
        """The share of its slot's values that a test admits; for one that is no range, half."""
        widths = np.full(self._tests.shape[0], 0.5)
        for slot in np.unique(self._tests[self._is_range, 1]).tolist():
            mine = self._is_range & (self._tests[:, 1] == slot)
            begin, end = (_depth(self._slots[slot], self._tests[mine, column]) for column in (2, 3))
            widths[mine] = end - begin
        return widths

    def _sums(self, per_test: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        totals = np.concatenate([[0.0], np.cumsum(per_test)])
        return np.asarray(totals[self._starts[1:] - self._starts[0]] - totals[self._starts[:-1] - self._starts[0]])

    def bit_rows(
        self, sides: list[int], cuts: list[npt.NDArray[np.int32]], words: int, per_cell: int
    ) -> tuple[npt.NDArray[np.uint64], list[int]]:
        cut_starts = np.concatenate([[0], np.cumsum([each.size for each in cuts])])
        firsts = (cut_starts[:-1] + 2 * np.arange(len(cuts))) * per_cell * words
        rows = np.zeros((int(cut_starts[-1]) + 2 * len(cuts)) * per_cell * words, np.uint64)
        side_of = np.full(len(self._slots), -1, np.int64)
        side_of[sides] = np.arange(len(sides))
        beside = ~self._is_range | (side_of[self._tests[:, 1]] < 0)
        exact = self._sums(beside.astype(np.float64)) == 0
        given = self._starts, self._tests, self._is_range, side_of, cut_starts, np.concatenate(cuts), firsts, exact
        fill_block(rows, words, per_cell, *given)
        return rows, firsts.tolist()

    def stripes(self, words: int) -> list[tuple[int, int, int]]:
        """For each stripe the codes that some of its filters admit, on the slot where these are fewest.

        Only a slot that all of them test says something; they lie in the order of their narrowest ranges, so there
        usually is one.
        """
        found = []
        count = self._starts.size - 1
        for first in range(0, 64 * words, 64 * STRIPE):
            begin, end = self._starts[[min(first, count), min(first + 64 * STRIPE, count)]] - self._starts[0]
            tests = self._tests[begin:end][self._is_range[begin:end]]
            size = min(first + 64 * STRIPE, count) - first
            counts = np.bincount(tests[:, 1], minlength=1)
            hulls = [(NO_SLOT, 0, 0)]
            for slot in np.flatnonzero(counts == size).tolist() if size > 0 else []:
                mine = tests[tests[:, 1] == slot]
                hulls.append((slot, int(mine[:, 2].min()), int(mine[:, 3].max())))
            found.append(min(hulls, key=self._share_of))
        return found

    def _share_of(self, hull: tuple[int, int, int]) -> float:
        slot, low, high = hull
        if slot == NO_SLOT:
            return 1.0
        begin, end = _depth(self._slots[slot], np.array([low, high])).tolist()
        return float(end - begin)


def _depth(slot: Slot, codes: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """How far into a slot's values some codes lie, from 0 to 1: numbers by what they are, others by their rank."""
    edges = slot.edges.get("float64")
    if edges is None or edges.values.size < 2:
        return np.asarray(np.minimum(codes, slot.codes - 1) / slot.codes)
    values = edges.values[np.minimum(codes // 2, edges.values.size - 1)]
    lowest, highest = edges.values[0] / 2, edges.values[-1] / 2  # halves: their difference is a double
    return np.asarray((values / 2 - lowest) / (highest - lowest))
