"""Bitmaps for buckets with many checked filters: one bit per filter, one bit row per cell of a slot's codes.

The codes of a slot are cut into cells at the filters' own bounds. A bit row says which filters a code in that cell may
satisfy, a second one right behind it which it surely does. ANDing one row per slot leaves the candidates; those
that are sure in every slot need no further look, the others' boxes decide (a lowest and a highest code per slot).
Cost per event: a few words per 64 filters, and a little per match.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.matching.blocks import FILTERS_MIN
from holdfast.matching.filling import fill_bitmap
from holdfast.matching.kernels import CODE_MAX, IN_RANGE
from holdfast.matching.slots import UNKNOWN

_FILTERS_MIN = 16  # fewer are as quickly tested one by one (measured on the stock workload)
_DIMENSIONS_MAX = 8  # slots that get bit rows; tests on further ones are made on the candidates
_CELLS_MAX = 256  # finer cuts make fewer filters unsure but more rows to build
_CODES_PER_FILTER_MAX = 8  # a table of cells by code may have this many entries (of 2 bytes) per filter
_WORDS_MAX = 4_000_000  # 32 MB of bit rows per bucket: cells become coarser before memory becomes large


@dataclass
class _Parts:
    """The arrays of all bitmaps, as they grow."""

    bitmaps: list[tuple[int, int, int, int]] = field(default_factory=list)
    dimensions: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    cuts: list[npt.NDArray[np.int32]] = field(default_factory=lambda: [np.zeros(0, np.int32)])
    cells: list[npt.NDArray[np.int16]] = field(default_factory=lambda: [np.zeros(0, np.int16)])
    boxes: list[npt.NDArray[np.int32]] = field(default_factory=lambda: [np.zeros(0, np.int32)])
    bit_rows: list[npt.NDArray[np.uint64]] = field(default_factory=lambda: [np.zeros(0, np.uint64)])


def build_bitmaps(
    arrays: dict[str, npt.NDArray[Any]], repeated: npt.NDArray[np.uint8], codes: Sequence[int]
) -> dict[str, npt.NDArray[Any]]:
    """Bitmaps for the buckets that have enough checked filters; `codes` says how many codes each slot has."""
    starts = arrays["checked_starts"]
    sizes = np.diff(starts)
    bitmap_of = np.full(starts.size - 1, -1, np.int32)
    boxed = np.zeros(starts[-1], np.uint8)
    parts = _Parts()
    for bucket in np.flatnonzero((sizes >= _FILTERS_MIN) & (sizes < FILTERS_MIN)).tolist():
        first, end = int(starts[bucket]), int(starts[bucket + 1])
        block = _Block(arrays, first, end, repeated)
        slots = block.busiest_slots()
        if slots:
            bitmap_of[bucket] = len(parts.bitmaps)
            boxed[first:end] = block.decided_by_boxes(slots)
            _add(parts, block, slots, boxed[first:end], codes)
    widest = max((words for _, _, words, _ in parts.bitmaps), default=0)
    return {
        "bitmap_of": bitmap_of,
        "bitmaps": np.array(parts.bitmaps, np.int64).reshape(-1, 4),
        "dimensions": np.array(parts.dimensions, np.int64).reshape(-1, 5),
        "cuts": np.concatenate(parts.cuts),
        "cells": np.concatenate(parts.cells),
        "boxes": np.concatenate(parts.boxes),
        "boxed": boxed,
        "bit_rows": np.concatenate(parts.bit_rows),
        "scratch_sizes": np.array([widest, _DIMENSIONS_MAX, int(sizes[sizes < FILTERS_MIN].max(initial=0))], np.int64),
    }


def _add(parts: _Parts, block: "_Block", slots: list[int], boxed: npt.NDArray[np.uint8], codes: Sequence[int]) -> None:
    boxes = block.boxes(slots)
    first = len(parts.dimensions)
    parts.bitmaps.append((first, first + len(slots), block.words, _size(parts.boxes)))
    parts.boxes.append(boxes.reshape(-1))
    for dimension, slot in enumerate(slots):
        cuts = _cuts(boxes[:, dimension], block.words * len(slots))
        bit_rows = np.zeros((cuts.size + 2) * 2 * block.words, np.uint64)
        fill_bitmap(bit_rows, block.words, cuts, boxes.reshape(-1), len(slots), dimension, boxed)
        table = -1
        if codes[slot] <= _CODES_PER_FILTER_MAX * block.size:
            table = _size(parts.cells)
            cells = 1 + np.searchsorted(cuts, np.arange(codes[slot]), side="right")
            parts.cells.append(cells.astype(np.int16))
        cut = _size(parts.cuts)
        parts.dimensions.append((slot, cut, cut + cuts.size, _size(parts.bit_rows), table))
        parts.cuts.append(cuts)
        parts.bit_rows.append(bit_rows)


def _size(arrays: Sequence[npt.NDArray[Any]]) -> int:
    return sum(each.size for each in arrays)


def _cuts(ranges: npt.NDArray[np.int32], words_per_cell: int) -> npt.NDArray[np.int32]:
    """Where to cut a slot's codes: at the filters' own bounds, but not into more cells than memory allows."""
    edges = np.unique(np.concatenate([ranges[:, 0], ranges[:, 1].astype(np.int64) + 1]))
    edges = edges[(edges > 0) & (edges < CODE_MAX)]
    cells = int(np.clip(_WORDS_MAX // words_per_cell, 16, _CELLS_MAX))
    if edges.size > cells:
        edges = edges[np.linspace(0, edges.size - 1, cells).astype(int)]
    return edges.astype(np.int32)


class _Block:
    """The checked filters of one bucket."""

    def __init__(
        self, arrays: dict[str, npt.NDArray[Any]], first: int, end: int, repeated: npt.NDArray[np.uint8]
    ) -> None:
        starts = arrays["test_starts"][first : end + 1]
        self.tests = arrays["tests"][starts[0] : starts[-1]]
        self.owner = np.repeat(np.arange(end - first), np.diff(starts))
        self.size = end - first
        self.words = (self.size + 63) // 64
        self.repeated = repeated[arrays["checked_subscriptions"][first:end]] == 1

    def busiest_slots(self) -> list[int]:
        slots = self.tests[self.tests[:, 0] == IN_RANGE, 1]
        count = np.bincount(slots)
        busy = np.flatnonzero(count)
        return busy[np.argsort(-count[busy], kind="stable")][:_DIMENSIONS_MAX].tolist()  # type: ignore[no-any-return]

    def decided_by_boxes(self, slots: list[int]) -> npt.NDArray[np.bool_]:
        """Filters whose every test is a range on these slots, and that no other filter can repeat."""
        decided: npt.NDArray[np.bool_] = ~self.repeated
        decided[self.owner[(self.tests[:, 0] != IN_RANGE) | ~np.isin(self.tests[:, 1], slots)]] = False
        return decided

    def boxes(self, slots: list[int]) -> npt.NDArray[np.int32]:
        """Each filter's range on each slot; one that it does not test admits every code, unknown too."""
        boxes = np.empty((self.size, len(slots), 2), np.int32)
        boxes[:, :, 0], boxes[:, :, 1] = UNKNOWN, CODE_MAX
        for dimension, slot in enumerate(slots):
            mine = (self.tests[:, 0] == IN_RANGE) & (self.tests[:, 1] == slot)
            boxes[self.owner[mine], dimension] = self.tests[mine, 2:]
        return boxes
