"""Bitmaps for buckets with many checked filters: one bit per filter, one bit row per cell of a slot's codes.

The codes of a slot are cut into cells at the filters' own bounds. A row of `maybe` bits says which filters a code in
that cell can satisfy, a row of `sure` bits which ones it does. ANDing one row per slot leaves the candidates;
those that are sure in every slot need no further look. Cost per event: a few words per 64 filters.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.matching.image import CODE_MAX, IN_RANGE
from holdfast.matching.kernels import fill_bitmap

_FILTERS_MIN = 16  # fewer are as quickly tested one by one (measured on the stock workload)
_DIMENSIONS_MAX = 8  # slots that get bit rows; tests on further ones are made on the candidates
_CELLS_MAX = 256  # finer cuts make fewer filters unsure but more rows to build
_WORDS_MAX = 4_000_000  # 32 MB of bit rows per bucket: cells become coarser before memory becomes large


def build_bitmaps(arrays: dict[str, npt.NDArray[Any]], repeated: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[Any]]:
    starts = arrays["checked_starts"]
    bitmap_of = np.full(starts.size - 1, -1, np.int32)
    bitmaps: list[tuple[int, int, int]] = []
    dimensions: list[tuple[int, int, int, int]] = []
    cuts: list[npt.NDArray[np.int32]] = []
    maybe: list[npt.NDArray[np.uint64]] = []
    sure: list[npt.NDArray[np.uint64]] = []
    cut = word = 0
    for bucket in np.flatnonzero(np.diff(starts) >= _FILTERS_MIN).tolist():
        first, end = int(starts[bucket]), int(starts[bucket + 1])
        block = _Block(arrays, first, end, repeated)
        slots = block.busiest_slots()
        if not slots:
            continue
        bitmap_of[bucket] = len(bitmaps)
        bitmaps.append((len(dimensions), len(dimensions) + len(slots), block.words))
        for slot in slots:
            lows, highs, cells = block.ranges(slot, len(slots))
            bits = np.zeros((2, (cells.size + 2) * block.words), np.uint64)
            rows = np.arange(end - first)
            fill_bitmap(bits[0], bits[1], 0, block.words, cells, rows, lows, highs, block.can_be_sure(slots))
            dimensions.append((slot, cut, cut + cells.size, word))
            cuts.append(cells)
            maybe.append(bits[0])
            sure.append(bits[1])
            cut += cells.size
            word += bits.shape[1]
    widest = max((words for _, _, words in bitmaps), default=0)
    return {
        "bitmap_of": bitmap_of,
        "bitmaps": np.array(bitmaps, np.int64).reshape(-1, 3),
        "dimensions": np.array(dimensions, np.int64).reshape(-1, 4),
        "cuts": np.concatenate([np.zeros(0, np.int32), *cuts]),
        "maybe": np.concatenate([np.zeros(0, np.uint64), *maybe]),
        "sure": np.concatenate([np.zeros(0, np.uint64), *sure]),
        "scratch_sizes": np.array([widest, _DIMENSIONS_MAX, int(np.diff(starts).max())], np.int64),
    }


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

    def can_be_sure(self, slots: list[int]) -> npt.NDArray[np.bool_]:
        """Filters whose every test is a range on these slots, and that no other filter can repeat."""
        sure: npt.NDArray[np.bool_] = ~self.repeated
        sure[self.owner[(self.tests[:, 0] != IN_RANGE) | ~np.isin(self.tests[:, 1], slots)]] = False
        return sure

    def ranges(
        self, slot: int, slots: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Each filter's range on a slot (-1, -1 for none), and where to cut the slot's codes."""
        mine = (self.tests[:, 0] == IN_RANGE) & (self.tests[:, 1] == slot)
        lows = np.full(self.size, -1, np.int64)
        highs = np.full(self.size, -1, np.int64)
        lows[self.owner[mine]] = self.tests[mine, 2]
        highs[self.owner[mine]] = self.tests[mine, 3]
        edges = np.unique(np.concatenate([self.tests[mine, 2], self.tests[mine, 3].astype(np.int64) + 1]))
        edges = edges[(edges > 0) & (edges < CODE_MAX)]
        cells = int(np.clip(_WORDS_MAX // (self.words * slots), 16, _CELLS_MAX))
        if edges.size > cells:
            edges = edges[np.linspace(0, edges.size - 1, cells).astype(int)]
        return lows, highs, edges.astype(np.int32)
