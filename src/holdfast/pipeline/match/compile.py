"""From a table of subscriptions to what the workers open: one index, or shards when one would be too large.

A small table is parsed and compiled on the driver. A large one is parsed in tasks, which also say where each
subscription lives; the driver then compiles shard after shard and never holds more than one of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from holdfast.model.errors import InputError
from holdfast.model.values import Kind
from holdfast.pipeline.match.index import IndexFile, share, write_index
from holdfast.pipeline.match.routing import routing_attributes, shard_of
from holdfast.pipeline.match.shards import Shard, ShardedIndex
from holdfast.pipeline.match.subscriptions_table import (
    ANOTHER,
    InvalidSubscriptionsError,
    Rejected,
    Subscriptions,
    check_columns,
    parse_each,
    parsed,
)
from holdfast.pipeline.match.tasks import Finder, WholeIndex

_REJECTED_MAX = 100_000  # rows that come to the driver: a table with more mistakes than that is the wrong table
_HEAD_ROWS = 100_000  # subscriptions taken to the driver to see whether that is all; some 20 MB
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
    head = rows.limit(_HEAD_ROWS + 1).toArrow()
    few = head.num_rows <= _HEAD_ROWS
    size = _guess(head["condition"].to_pylist()) if few else rows.agg(_guessed_bytes()).collect()[0][0]
    if size <= 2 * budget_bytes:  # a guess: the file's own size decides
        parsed_all = parsed(head if few else rows.toArrow(), skip_invalid=skip_invalid)
        path = write_index(parsed_all.matcher())
        if path.stat().st_size <= budget_bytes:
            file = share(spark, path)
            return Compiled(
                WholeIndex(file),
                (file,),
                len(parsed_all.by_id),
                parsed_all.uses,
                parsed_all.has_integer_ids,
                parsed_all.rejected,
            )
        size = max(path.stat().st_size, size)
    sample = parsed(head.slice(0, _HEAD_ROWS), skip_invalid=True)
    return _in_shards(spark, rows, sample, -(-size // budget_bytes), budget_bytes, skip_invalid)


def _in_shards(
    spark: SparkSession, rows: DataFrame, sample: Subscriptions, shards: int, budget_bytes: int, skip_invalid: bool
) -> Compiled:
    """Compile shard after shard; the driver never holds more than one of them."""
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
            for piece in range(pieces):
                # By hash of the id, so that the pieces of one shard are alike in size.
                mine = good.where((F.col("shard") == number) & (F.pmod(F.xxhash64("id"), F.lit(pieces)) == piece))
                made.add(number, parsed(mine.select("id", "condition").toArrow()))
    finally:
        settled.unpersist()
    finder = ShardedIndex(attributes, shards, tuple(made.files))
    files = tuple(each.file for each in made.files)
    return Compiled(finder, files, made.size, made.uses, made.has_integer_ids, rejected)


def _rejected(bad: DataFrame, skip_invalid: bool) -> tuple[Rejected, ...]:
    count = bad.count()
    rows = bad.select(F.col("id").cast("string"), "condition", "problem").limit(_REJECTED_MAX).collect()
    rejected = tuple(Rejected(*row) for row in rows)
    if count and not skip_invalid:
        raise InvalidSubscriptionsError(rejected, count)
    if count > _REJECTED_MAX:
        raise InputError(f"{count:,} subscriptions are not valid, too many to skip; the first: {rejected[0]}")
    return rejected


def _pieces(good: DataFrame, budget_bytes: int) -> list[tuple[int, int]]:
    """Each shard's number, and into how many files it goes."""
    # Key: shard. Few groups, and of each only partial sums are moved.
    sizes = good.groupBy("shard").agg(_guessed_bytes().alias("bytes")).orderBy("shard").collect()
    return [(row["shard"], -(-row["bytes"] // budget_bytes)) for row in sizes]


def _guess(conditions: Iterable[str | None]) -> int:
    return sum(_ROW_BYTES + _CHARACTER_BYTES * len(each or "") for each in conditions)


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

    def add(self, number: int, part: Subscriptions) -> None:
        if not part.by_id:
            return
        path = write_index(part.matcher())
        if path.stat().st_size > self._budget_bytes and len(part.by_id) > 1:  # the guess was too low
            path.unlink()
            ids = list(part.by_id)
            for half in (ids[::2], ids[1::2]):
                self.add(number, Subscriptions({id_: part.by_id[id_] for id_ in half}))
            return
        self.files.append(Shard(number, share(self._spark, path)))
        self.size += len(part.by_id)
        self.uses += part.uses
        self.has_integer_ids = part.has_integer_ids
