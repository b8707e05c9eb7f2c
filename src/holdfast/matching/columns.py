"""Match a whole table: Arrow in, (event row, subscription) pairs out.

The subscriptions are compiled once into an image; a batch is encoded into codes and handed, rows at a time, to the
kernels. The cost follows the number of pairs: at a hundred thousand subscriptions the time goes into
writing them down.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.language.subscription import Filter
from holdfast.matching.abreast import EVENTS, check_abreast, order_hits
from holdfast.matching.block_columns import COLUMN_EVENTS, COLUMN_EVENTS_MIN, COLUMN_ROOM, check_columns
from holdfast.matching.elements import Known
from holdfast.matching.encoding import EncodedColumn, columns_of, encode, encode_patterns, pooled
from holdfast.matching.gathering import Gathered
from holdfast.matching.kernels import (
    BLOCK_ROOM,
    HITS_AT_ONCE,
    IN_RANGE,
    Image,
    Ints,
    Patterns,
    check_blocks,
    check_filters,
    copy_runs,
)
from holdfast.matching.layout import compile_image
from holdfast.matching.pair_runs import PairRuns
from holdfast.matching.residuals import to_index
from holdfast.matching.row_residuals import RowResiduals, events_in
from holdfast.matching.slots import Slot

_ROWS = 65_536  # events encoded at a time: keeps the codes in the processor's caches and memory flat
_CODES_MAX = 1 << 25  # of them at a time, 128 MB: conditions on thousands of attributes take fewer events at once
_PAIRS = 1 << 20  # pairs per output buffer: 4 MiB a column, large enough that its overhead vanishes
_HITS = 1 << 18  # of one buffer
_SLICES_PER_THREAD = 4  # so that a slow slice of rows does not leave the other threads idle

_ONE_BY_ONE, _ABREAST, _BLOCKS = range(3)

Pairs = tuple[Ints, Ints]


class Columns:
    """A compiled set of subscriptions, numbered from 0 in the order they were given."""

    def __init__(
        self,
        image: Image,
        slots: Sequence[Slot],
        patterns: Sequence[tuple[str, Known]],
        size: int,
        residuals: RowResiduals | None = None,
    ) -> None:
        self.image = image
        self.residuals = residuals  # of the subscriptions with expressions, which the image finds too often
        self.slots = slots
        self.patterns = patterns
        self.size = size
        self._repeats = bool(image.repeated.any())
        self.opened_most = _opened_most(image)
        self._ways = _ways(image)
        self._boxed = bool((image.blocks[:, 8] == 1).all())
        self._capacity = max(_PAIRS, BLOCK_ROOM, EVENTS, COLUMN_ROOM, 4 * _largest_bucket(image))

    @classmethod
    def of(cls, subscriptions: Iterable[Sequence[Filter]]) -> "Columns":
        with_expressions: dict[int, Sequence[Filter]] = {}

        def to_gather() -> Iterator[Sequence[Filter]]:
            for number, filters in enumerate(subscriptions):
                indexed = to_index(filters)
                if indexed is not filters:
                    with_expressions[number] = filters
                yield indexed

        gathered = Gathered(to_gather())
        image = compile_image(gathered)
        size = gathered.repeated.size
        residuals = RowResiduals(with_expressions, size) if with_expressions else None
        patterns = [(attribute, known) for (attribute, _), known in gathered.patterns.items()]
        return cls(image, gathered.slots, patterns, size, residuals)

    def match(self, table: pa.Table, threads: int = 1) -> list[Pairs]:
        """Pairs of row number and subscription number, in buffers."""
        looked_at = () if self.residuals is None else self.residuals.names
        pairs: list[Pairs] = []
        for first, columns, codes, patterns in self._encoded(table, looked_at, threads):
            for rows, subscriptions in self._match_codes(codes, patterns, threads):
                if self.residuals is not None:
                    values = {name: columns[name].array for name in looked_at if name in columns}
                    rows, subscriptions = self.residuals.kept(rows, subscriptions, partial(events_in, values))
                if first:
                    rows += np.int32(first)
                pairs.append((rows, subscriptions))
        return pairs

    def match_runs(self, table: pa.Table) -> tuple[list[PairRuns], list[Pairs]]:
        """The same: those that stand together in the image as runs of it, and the others."""
        if self.residuals is not None:
            return [], self.match(table)
        runs: list[PairRuns] = []
        pairs: list[Pairs] = []
        for first, _, codes, patterns in self._encoded(table, (), 1):
            hits: list[Pairs] = []
            for rows, firsts, ends in self._copied(codes, patterns, 0, codes.shape[0], hits, listed=True):
                runs.append(PairRuns(rows + np.int32(first) if first else rows, firsts, ends, self.image.subscriptions))
            found = self._checked(codes, patterns, hits)
            pairs += [(rows + np.int32(first), numbers) for rows, numbers in found] if first else found
        return runs, pairs

    def _encoded(
        self, table: pa.Table, looked_at: Iterable[str], threads: int
    ) -> Iterator[tuple[int, dict[str, EncodedColumn], Ints, Patterns]]:
        """So many rows at a time: the first one's number, the columns, and what they are in codes."""
        attributes = [*(slot.attribute for slot in self.slots), *looked_at]
        step = min(_ROWS, max(1, _CODES_MAX // max(1, len(self.slots))))
        for first in range(0, table.num_rows, step):
            count = min(step, table.num_rows - first)  # a slice of a table without columns has any length asked for
            columns = columns_of(table.slice(first, count), attributes)
            codes = encode(columns, self.slots, count, threads)
            yield first, columns, codes, encode_patterns(columns, self.patterns, count)

    def _match_codes(self, codes: Ints, patterns: Patterns, threads: int) -> Iterator[Pairs]:
        if threads == 1:
            yield from self._rows(codes, patterns, 0, codes.shape[0])
            return
        cuts = np.linspace(0, codes.shape[0], threads * _SLICES_PER_THREAD + 1).astype(int).tolist()
        with ThreadPoolExecutor(threads) as pool:
            for part in pool.map(lambda each: list(self._rows(codes, patterns, *each)), pairwise(cuts)):
                yield from part

    def _rows(self, codes: Ints, patterns: Patterns, row: int, end: int) -> Iterator[Pairs]:
        """The pairs of some rows: first from sorted runs, then from checked filters."""
        hits: list[Pairs] = []
        for rows, numbers, _ in self._copied(codes, patterns, row, end, hits):
            yield rows, numbers
        yield from self._checked(codes, patterns, hits)

    def _copied(
        self, codes: Ints, patterns: Patterns, row: int, end: int, hits: list[Pairs], *, listed: bool = False
    ) -> Iterator[tuple[Ints, Ints, Ints]]:
        """From sorted runs the pairs, or where they begin and end; `hits` then has what is to be checked."""
        capacity, room = self._capacity, self.opened_most + HITS_AT_ONCE
        while row < end:
            out_rows, out = pooled(capacity), pooled(capacity)
            ends = pooled(capacity) if listed else out[:0]
            left = pooled(2 * max(room, _HITS)).reshape(2, -1)
            next_row, written, more = copy_runs(
                self.image, codes, patterns, row, end, self.opened_most, out_rows, out, ends, left[0], left[1]
            )
            if written:
                yield _trimmed(out_rows, written), _trimmed(out, written), _trimmed(ends, written) if listed else ends
            if more:
                hits.append((left[0, :more], left[1, :more]))
            if next_row == row:  # it alone yields more than fits
                capacity *= 2
            row = next_row

    def _checked(self, codes: Ints, patterns: Patterns, hits: list[Pairs]) -> Iterator[Pairs]:
        if not hits:
            return
        rows, buckets = hits[0] if len(hits) == 1 else tuple(map(np.concatenate, zip(*hits, strict=True)))
        ways = self._ways[buckets]
        parts = [(rows[ways == way], buckets[ways == way]) for way in (_ONE_BY_ONE, _ABREAST, _BLOCKS)]
        if parts[_ABREAST][0].size:
            yield from self._abreast(codes, *parts[_ABREAST])
        tested = self._narrow(codes, patterns, *parts[_ONE_BY_ONE])
        if not parts[_BLOCKS][0].size:
            yield from tested
            return
        blocks = self._wide(codes, patterns, *parts[_BLOCKS])
        yield from chain(tested, blocks) if not self._repeats else self._once(chain(tested, blocks))

    def _abreast(self, codes: Ints, rows: Ints, buckets: Ints) -> Iterator[Pairs]:
        rows, buckets = order_hits(rows, buckets, self._ways.size)
        image, progress = self.image, np.zeros(2, np.int64)
        given = image.checked_starts, image.checked_subscriptions, image.test_starts, image.tests
        while progress[0] < rows.size:
            out_rows, out = pooled(self._capacity), pooled(self._capacity)
            written = check_abreast(*given, codes, rows, buckets, progress, out_rows, out)
            if written:
                yield _trimmed(out_rows, written), _trimmed(out, written)

    def _narrow(self, codes: Ints, patterns: Patterns, rows: Ints, buckets: Ints) -> Iterator[Pairs]:
        image, hit = self.image, 0
        stamps = np.zeros(self.size if self._repeats else 0, np.int32)
        while hit < rows.size and image.checked_subscriptions.size:
            out_rows, out = pooled(self._capacity), pooled(self._capacity)
            hit, written = check_filters(image, codes, patterns, rows, buckets, hit, rows.size, out_rows, out, stamps)
            if written:
                yield _trimmed(out_rows, written), _trimmed(out, written)

    def _wide(self, codes: Ints, patterns: Patterns, rows: Ints, buckets: Ints) -> Iterator[Pairs]:
        rows, buckets = order_hits(rows, buckets, self._ways.size)
        many = np.bincount(buckets, minlength=self._ways.size)[buckets] >= COLUMN_EVENTS_MIN
        yield from self._lines(codes, patterns, rows[~many], buckets[~many], True)
        rows, buckets = rows[many], buckets[many]
        if not rows.size:
            return
        room = COLUMN_EVENTS * int(self.image.wides[:, 4].max())
        by_axis, progress = np.empty(room, np.uint8), np.zeros(4, np.int64)
        while progress[0] < rows.size:
            out_rows, out = pooled(self._capacity), pooled(self._capacity)
            written = check_columns(self.image, codes, rows, buckets, by_axis, progress, out_rows, out)
            if written:
                yield _trimmed(out_rows, written), _trimmed(out, written)
        if not self._boxed:
            yield from self._lines(codes, patterns, rows, buckets, False)

    def _lines(self, codes: Ints, patterns: Patterns, rows: Ints, buckets: Ints, all_blocks: bool) -> Iterator[Pairs]:
        progress = np.zeros(3, np.int64)
        while progress[0] < rows.size:
            out_rows, out = pooled(self._capacity), pooled(self._capacity)
            written = check_blocks(self.image, codes, patterns, rows, buckets, all_blocks, progress, out_rows, out)
            if written:
                yield _trimmed(out_rows, written), _trimmed(out, written)

    def _once(self, pairs: Iterable[Pairs]) -> Iterator[Pairs]:
        """Each pair of a subscription with several filters once: with blocks, its filters are not asked in turn."""
        doubtful = [np.zeros(0, np.int64)]
        for rows, numbers in pairs:
            repeated = self.image.repeated[numbers] == 1
            doubtful.append(rows[repeated].astype(np.int64) * self.size + numbers[repeated])
            if not repeated.all():
                yield rows[~repeated], numbers[~repeated]
        distinct = np.unique(np.concatenate(doubtful))
        if distinct.size:
            yield (distinct // self.size).astype(np.int32), (distinct % self.size).astype(np.int32)


def _ways(image: Image) -> npt.NDArray[np.uint8]:
    """How the filters of each bucket are checked."""
    ways = np.full(image.bitmap_of.size, _ONE_BY_ONE, np.uint8)
    counts = np.diff(image.checked_starts)
    tests, owners = np.diff(image.test_starts), np.repeat(np.arange(ways.size), counts)
    hard = image.repeated[image.checked_subscriptions] == 1
    hard[np.repeat(np.arange(tests.size), tests)[image.tests[:, 0] != IN_RANGE]] = True
    easy = (counts > 0) & (image.bitmap_of < 0)
    easy[owners[hard]] = False
    ways[easy] = _ABREAST
    ways[image.wide_of >= 0] = _BLOCKS
    return ways


def _opened_most(image: Image) -> int:
    """The most buckets that one event can open."""
    per_code = np.diff(image.key_starts).max(initial=0)  # also across two slots: a number below 0, or too many
    return int(1 + max(0, per_code) * image.access_slots.size + np.count_nonzero(image.pattern_buckets >= 0))


def _largest_bucket(image: Image) -> int:
    """The most entries that one hit can yield."""
    ends = np.append(image.runs[:, 6], image.subscriptions.size)
    runs = np.diff(ends[image.run_starts])
    return int(max(runs.max(initial=0), np.diff(image.checked_starts).max(initial=0)))


def _trimmed(buffer: Ints, written: int) -> Ints:
    """The part that was written. A copy when it is small: a view would keep the whole buffer with the answer."""
    if 2 * written >= buffer.size:
        return buffer[:written]
    copy = pooled(written)
    copy[:] = buffer[:written]
    return copy
