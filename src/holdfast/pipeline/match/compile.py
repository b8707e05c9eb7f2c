"""From a table of subscriptions to what the workers open: one index, or shards when one would be too large.

Conditions are parsed and compiled in tasks. For shards, tasks say first where each subscription lives; then one shard
after the other is compiled, so that the driver never holds the bytes of more than one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from holdfast.model.errors import InputError
from holdfast.model.values import Kind
from holdfast.pipeline.match.compiling import REJECTED_MAX, CompiledPart, compiled_in_a_task
from holdfast.pipeline.match.index import IndexFile, share, write_index
from holdfast.pipeline.match.routing import routing_attributes, shard_of
from holdfast.pipeline.match.shards import Shard, ShardedIndex
from holdfast.pipeline.match.subscriptions_table import (
    ANOTHER,
    InvalidSubscriptionsError,
    Rejected,
    check_columns,
    parse_each,
    parsed,
)
from holdfast.pipeline.match.tasks import Finder, WholeIndex

_SAMPLE_ROWS = 10_000  # subscriptions that say which attributes lead to shards; the driver parses them in half a second
# What an index takes for each condition and for each character of its text: a cautious guess, checked afterwards.
_ROW_BYTES, _CHARACTER_BYTES = 64, 4
INDEX_BYTES_MAX = 256 << 20  # one to two million conditions; every Python worker may touch all of it


@dataclass(frozen=True)
class Sorting:
    """A task's work on subscriptions: parse each, and say where it lives or what is wrong with it."""

    attributes: tuple[str, ...]
    shards: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            places: list[int | None] = []
            problems: list[str | None] = []
            for _, _, found in parse_each(batch):
                places.append(None if isinstance(found, str) else shard_of(found, self.attributes, self.shards))
                problems.append(found if isinstance(found, str) else None)
            columns = [*batch.columns, pa.array(places, pa.int32()), pa.array(problems, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, names=["id", "condition", "shard", "problem"])


class Compiled(NamedTuple):
    """Subscriptions ready for the workers, and what the driver still has to know of them."""

    finder: Finder
    files: tuple[IndexFile, ...]
    subscriptions: int
    uses: Counter[tuple[str, Kind | None]]
    has_integer_ids: bool
    rejected: tuple[Rejected, ...]

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset(attribute for attribute, _ in self.uses)


def compile_subscriptions(
    spark: SparkSession, table: DataFrame, budget_bytes: int = INDEX_BYTES_MAX, skip_invalid: bool = False
) -> Compiled:
    """One index when it keeps within the budget, shards otherwise."""
    rows = check_columns(table)
    size = rows.agg(_guessed_bytes()).collect()[0][0] or 0
    if size <= 2 * budget_bytes:  # a guess: the index's own size decides
        part = _valid(compiled_in_a_task(rows, skip_invalid), skip_invalid)
        if part.bytes <= budget_bytes:
            file = share(spark, write_index(part.index))
            figures = part.subscriptions, part.uses, part.has_integer_ids, part.rejected
            return Compiled(WholeIndex(file), (file,), *figures)
        size = max(part.bytes, size)
    return _in_shards(spark, rows, -(-size // budget_bytes), budget_bytes, skip_invalid)


def _valid(part: CompiledPart, skip_invalid: bool) -> CompiledPart:
    _check_rejected(part.rejected, part.rejected_count, skip_invalid)
    return part


def _in_shards(spark: SparkSession, rows: DataFrame, shards: int, budget_bytes: int, skip_invalid: bool) -> Compiled:
    """Compile shard after shard; the driver never holds more than one of them."""
    sample = parsed(rows.limit(_SAMPLE_ROWS).toArrow(), skip_invalid=True)
    attributes = routing_attributes(sample.by_id.values(), shards)
    kind = dict(rows.dtypes)["id"]
    marked = rows.mapInArrow(Sorting(attributes, shards), f"id {kind}, condition string, shard int, problem string")
    # Key: id, unique but for mistakes, so no skew.
    again = F.row_number().over(Window.partitionBy("id").orderBy("condition")) > 1
    problem = F.when(again & F.col("id").isNotNull(), ANOTHER)
    settled = marked.withColumn("problem", F.coalesce("problem", problem)).persist(StorageLevel.DISK_ONLY)
    try:
        rejected = _rejected(settled.where("problem IS NOT NULL"), skip_invalid)
        good = settled.where("problem IS NULL")
        made = _Shards(spark, budget_bytes)
        for number, pieces in _pieces(good, budget_bytes):
            mine = good.where(F.col("shard") == number).select("id", "condition")
            for piece in range(pieces):
                made.add(number, mine, piece, pieces)
    finally:
        settled.unpersist()
    finder = ShardedIndex(attributes, shards, tuple(made.files))
    files = tuple(each.file for each in made.files)
    return Compiled(finder, files, made.size, made.uses, made.has_integer_ids, rejected)


def _rejected(bad: DataFrame, skip_invalid: bool) -> tuple[Rejected, ...]:
    count = bad.count()
    rows = bad.select(F.col("id").cast("string"), "condition", "problem").limit(REJECTED_MAX).collect()
    rejected = tuple(Rejected(*row) for row in rows)
    _check_rejected(rejected, count, skip_invalid)
    return rejected


def _check_rejected(rejected: Sequence[Rejected], count: int, skip_invalid: bool) -> None:
    if count and not skip_invalid:
        raise InvalidSubscriptionsError(rejected, count)
    if count > REJECTED_MAX:
        raise InputError(f"{count:,} subscriptions are not valid, too many to skip; the first: {rejected[0]}")


def _pieces(good: DataFrame, budget_bytes: int) -> list[tuple[int, int]]:
    """Each shard's number, and into how many files it goes."""
    # Key: shard. Few groups, and of each only partial sums are moved.
    sizes = good.groupBy("shard").agg(_guessed_bytes().alias("bytes")).orderBy("shard").collect()
    return [(row["shard"], -(-row["bytes"] // budget_bytes)) for row in sizes]


def _guessed_bytes() -> Column:
    return F.sum(_ROW_BYTES + _CHARACTER_BYTES * F.length(F.coalesce("condition", F.lit(""))))


class _Shards:
    """The shards made so far. Of their conditions only what they look at is kept."""

    def __init__(self, spark: SparkSession, budget_bytes: int) -> None:
        self._spark, self._budget_bytes = spark, budget_bytes
        self.files: list[Shard] = []
        self.size = 0
        self.uses: Counter[tuple[str, Kind | None]] = Counter()
        self.has_integer_ids = False

    def add(self, number: int, rows: DataFrame, piece: int, pieces: int) -> None:
        """One of the pieces of a shard: by hash of the id, so that they are alike in size."""
        mine = rows.where(F.pmod(F.xxhash64("id"), F.lit(pieces)) == piece)
        part = compiled_in_a_task(mine, skip_invalid=False)
        if not part.subscriptions:
            return
        if part.bytes > self._budget_bytes and part.subscriptions > 1:  # the guess was too low
            for half in (piece, piece + pieces):
                self.add(number, rows, half, 2 * pieces)
            return
        self.files.append(Shard(number, share(self._spark, write_index(part.index))))
        self.size += part.subscriptions
        self.uses += part.uses
        self.has_integer_ids = part.has_integer_ids
