"""What a task of the matching job does: blocks of events in, pairs out. Plain Arrow, tested without Spark.

A task is a source that makes blocks of events, an index that finds their pairs, and a sink that writes the pairs down.
Each part is a small frozen value that travels to the workers; only there is anything opened.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.pipeline.match.index import IndexFile, opened

if TYPE_CHECKING:
    from holdfast.matching.matcher import Matcher
    from holdfast.matching.pair_runs import PairRuns

PAIRS_MAX = 4 << 20  # looked for at a time: 32 MiB of them, and enough that the cost of a call vanishes
CARRIED_BYTES_MAX = 64 << 20  # of event columns repeated beside pairs at a time: wide events make shorter batches
_GROWTH_MAX = 8  # from one slice to the next, should the events at hand be unlike those before


class Block(NamedTuple):
    """Some events: the columns that conditions look at, and those that the result repeats."""

    events: pa.RecordBatch
    carried: pa.RecordBatch

    def slice(self, first: int, count: int) -> "Block":
        return Block(self.events.slice(first, count), self.carried.slice(first, count))


class Found(NamedTuple):
    """Some pairs: rows of `carried`, each with a subscription that wants that event."""

    carried: pa.RecordBatch
    rows: pa.Array
    subscriptions: pa.DictionaryArray

    @property
    def ids(self) -> pa.Array:
        return self.subscriptions.dictionary

    def one_by_one(self) -> "Found":
        return self


class FoundRuns(NamedTuple):
    """Some pairs as slices of the index: for sinks that have no need to look at each."""

    carried: pa.RecordBatch
    runs: "PairRuns"
    ids: pa.Array

    def one_by_one(self) -> Found:
        rows, numbers = map(pa.array, self.runs.pairs())
        return Found(self.carried, rows, pa.DictionaryArray.from_arrays(numbers, self.ids, safe=False))


Blocks = Iterator[Block]
Batches = Iterable[pa.RecordBatch]
Source = Callable[[Batches], Blocks]
AnyFound = Found | FoundRuns
Sink = Callable[[Iterator[AnyFound]], Iterator[pa.RecordBatch]]


class Finder(Protocol):
    """An index, or a set of them: it finds the pairs of each block."""

    def found(self, blocks: Blocks) -> Iterator[AnyFound]: ...


@dataclass(frozen=True)
class Task:
    source: Source
    finder: Finder
    sink: Sink

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        return self.sink(self.finder.found(self.source(batches)))


@dataclass(frozen=True)
class BatchSource:
    """Events as Spark hands them over, with a place among their columns for each name."""

    mentioned: tuple[tuple[str, int], ...]
    carried: tuple[tuple[str, int], ...]

    def __call__(self, batches: Batches) -> Blocks:
        for batch in batches:
            yield Block(_chosen(batch, self.mentioned or (("", 0),)), _chosen(batch, self.carried))


def _chosen(batch: pa.RecordBatch, places: tuple[tuple[str, int], ...]) -> pa.RecordBatch:
    # Without a column a batch has no length: hence the nameless one that no condition can mention.
    return pa.RecordBatch.from_arrays([batch.column(at) for _, at in places], names=[name for name, _ in places])


@dataclass(frozen=True)
class WholeIndex:
    """One index for all subscriptions, the usual case."""

    file: IndexFile

    def found(self, blocks: Blocks) -> Iterator[AnyFound]:
        return HeldIndex(opened(self.file)).found(blocks)


@dataclass(frozen=True)
class HeldIndex:
    """The same in the process that made it."""

    matcher: "Matcher"

    def found(self, blocks: Blocks) -> Iterator[AnyFound]:
        slicing = Slicing(self.matcher)
        for block in blocks:
            yield from slicing.found(block)


class Slicing:
    """Matches slices of blocks, cut so that the pairs of one slice fit into memory.

    How many pairs an event has is learned on the way: the first slice is short enough for every subscription to match.
    """

    def __init__(self, matcher: "Matcher") -> None:
        self._matcher = matcher
        self._rows = max(1, PAIRS_MAX // max(1, len(matcher)))

    def found(self, block: Block) -> Iterator[AnyFound]:
        from holdfast.matching.matcher import match_grouped  # noqa: PLC0415 - loads numba, and few events do without

        first, total = 0, block.events.num_rows
        while first < total:
            count = min(self._rows, total - first)
            part = block.slice(first, count)
            grouped = match_grouped(self._matcher, part.events)
            first += count
            pairs = grouped.pairs.num_rows + sum(int(each.lengths.sum()) for each in grouped.runs)
            fitting = count * PAIRS_MAX // max(1, pairs)
            self._rows = max(1, min(fitting, count * _GROWTH_MAX if pairs else total))
            for runs in grouped.runs:
                yield FoundRuns(part.carried, runs, grouped.ids)
            for chunk in grouped.pairs.to_batches():
                yield Found(part.carried, chunk["event"], chunk["subscription"])


@dataclass(frozen=True)
class RowSink:
    """Pairs as rows for Spark: the event's key, the subscription, the columns to keep."""

    keys: int  # how many of the carried columns come before the subscription
    id_type: pa.DataType

    def __call__(self, pairs: Iterator[AnyFound]) -> Iterator[pa.RecordBatch]:
        for some in pairs:
            found = some.one_by_one()
            for rows, subscriptions in in_portions(found):
                yield beside(found.carried.take(rows), subscriptions.cast(self.id_type), self.keys)


def beside(carried: pa.RecordBatch, subscriptions: pa.Array, keys: int) -> pa.RecordBatch:
    columns = [*carried.columns[:keys], subscriptions, *carried.columns[keys:]]
    names = carried.schema.names
    return pa.RecordBatch.from_arrays(columns, names=[*names[:keys], "subscription", *names[keys:]])


def in_portions(found: Found) -> Iterator[tuple[pa.Array, pa.DictionaryArray]]:
    """The pairs, so many at a time that their repeated columns stay within the limit, or one that does not."""
    widths = _widths(found.carried)
    cuts = [0, len(found.rows)]
    if int(widths.max(initial=0)) * len(found.rows) > CARRIED_BYTES_MAX:
        sums = np.cumsum(widths[found.rows.to_numpy()])
        limits = np.arange(CARRIED_BYTES_MAX, sums[-1], CARRIED_BYTES_MAX)
        # The pair that would step over a multiple of the limit begins the next portion.
        cuts[1:1] = [int(cut) for cut in np.unique(np.searchsorted(sums, limits, "right")) if 0 < cut < len(sums)]
    for first, end in pairwise(cuts):
        yield found.rows.slice(first, end - first), found.subscriptions.slice(first, end - first)


def _widths(carried: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The bytes of each row; a column of lists or maps counts with its average."""
    widths = np.zeros(carried.num_rows, np.int64)
    for column in carried.columns:
        if pa.types.is_large_string(column.type) or pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            widths += pc.fill_null(pc.binary_length(column), 0).to_numpy() + 4
        else:
            widths += column.nbytes // max(1, len(column)) + 1
    return widths
