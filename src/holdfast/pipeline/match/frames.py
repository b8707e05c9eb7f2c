"""Which subscription wants which event, for whole tables: the matcher as a Spark job.

The subscriptions are compiled once, by a task, into one index file that every worker maps; events stay where they are
and pass through the index batch by batch. Nothing is shuffled, so a key that a third of all events share costs
nothing extra. What becomes of the pairs is the caller's choice: rows of a DataFrame (here), counts, or files that the
tasks write themselves (`job`).
"""

from collections.abc import Sequence
from os import PathLike, fspath
from typing import NamedTuple

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from holdfast.pipeline.match import event_columns, event_files, parquet
from holdfast.pipeline.match.compile import INDEX_BYTES_MAX, Compiled, compile_subscriptions
from holdfast.pipeline.match.counting import CountSink
from holdfast.pipeline.match.footers import footers
from holdfast.pipeline.match.result_columns import result_columns, warnings_of
from holdfast.pipeline.match.subscription_versions import newest_table
from holdfast.pipeline.match.tasks import BatchSource, RowSink, Sink, Source, Task
from holdfast.pipeline.session import session

Table = DataFrame | str | PathLike[str]
_COUNTS_MAX = 2_000_000  # one for each task and subscription, collected to the driver: some 50 MB
_CORES_UNKNOWN = 8  # a few tasks too many cost less than idle cores


def match(
    events: Table,
    subscriptions: Table,
    *,
    key: Sequence[str] = (),
    keep: Sequence[str] = (),
    skip_invalid: bool = False,
    index_bytes_max: int = INDEX_BYTES_MAX,
) -> DataFrame:
    """All pairs of event and subscription that match, each once.

    Both are DataFrames, or paths of tables. `subscriptions` has columns `id` and `condition`. The result has the
    event's `key` columns (without any, a column `row` that numbers the events), then `subscription`, then the event's
    columns named in `keep` (`["*"]` for all of them). An index over `index_bytes_max` is split into shards.
    """
    plan = prepare(events, subscriptions, key, keep, skip_invalid, index_bytes_max)
    return plan.run(RowSink(plan.result.keys, plan.result.id_type), plan.result.schema)


def match_counts(
    events: Table, subscriptions: Table, *, skip_invalid: bool = False, index_bytes_max: int = INDEX_BYTES_MAX
) -> DataFrame:
    """How many events each subscription wants: `subscription`, `events`. Those that want none are left out."""
    return counted(prepare(events, subscriptions, (), (), skip_invalid, index_bytes_max))


def counted(plan: "MatchPlan") -> DataFrame:
    # Key: subscription, at most one row for each from a task, so skew does not matter.
    return _counts_of_tasks(plan).groupBy("subscription").agg(F.sum("events").alias("events"))


def counted_here(plan: "MatchPlan") -> pa.Table | None:
    """The same, added up on the driver and without a shuffle; None where the tasks' counts may be too many for it."""
    if plan.tasks is None or plan.tasks * plan.compiled.subscriptions > _COUNTS_MAX:
        return None
    sums = _counts_of_tasks(plan).toArrow().group_by("subscription").aggregate([("events", "sum")])
    return sums.rename_columns(["subscription", "events"])


def _counts_of_tasks(plan: "MatchPlan") -> DataFrame:
    id_ = T.StructField("subscription", from_arrow_type(plan.result.id_type))
    return plan.run(CountSink(plan.result.id_type), T.StructType([id_, T.StructField("events", T.LongType())]))


class Result(NamedTuple):
    """The columns of the result, in order."""

    before: tuple[tuple[str, T.DataType], ...]
    after: tuple[tuple[str, T.DataType], ...]
    id_type: pa.DataType
    numbered: bool  # whether the first column is a number for each event, in place of keys

    @property
    def keys(self) -> int:
        return len(self.before)

    @property
    def schema(self) -> T.StructType:
        middle = ("subscription", from_arrow_type(self.id_type))
        return T.StructType([T.StructField(name, kind) for name, kind in (*self.before, middle, *self.after)])


class MatchPlan(NamedTuple):
    """A match that can be run with any sink."""

    inputs: DataFrame  # of which each task is handed a part
    tasks: int | None  # how many there will be, where that is known beforehand
    source: Source
    compiled: Compiled
    result: Result
    events: int | None  # how many there are, where that is known beforehand
    warnings: list[str]

    def run(self, sink: Sink, schema: T.StructType | str) -> DataFrame:
        return self.inputs.mapInArrow(Task(self.source, self.compiled.finder, sink), schema)


def prepare(
    events: Table,
    subscriptions: Table,
    key: Sequence[str] = (),
    keep: Sequence[str] = (),
    skip_invalid: bool = False,
    index_bytes_max: int = INDEX_BYTES_MAX,
    schema: str | None = None,
    form: event_files.Format | None = None,
) -> MatchPlan:
    """Compile the subscriptions, look at the events' columns, and say what is wrong with either."""
    spark = _session_of(events, subscriptions)
    if not isinstance(subscriptions, DataFrame):
        subscriptions = newest_table(spark, fspath(subscriptions))
    compiled = compile_subscriptions(spark, subscriptions, index_bytes_max, skip_invalid)
    if isinstance(events, DataFrame):
        return over_frame(events, compiled, key, keep)
    path = fspath(events)
    files = [] if event_files.is_remote(path) else event_files.files_of(path)
    form = form or event_files.format_of(path, files)
    if form == "parquet" and files and schema is None and not event_files.name_columns(path, files):
        return over_row_groups(spark, footers(spark, files), compiled, key, keep)
    return over_frame(event_files.frame(spark, path, form, schema), compiled, key, keep)


def _session_of(*tables: Table) -> SparkSession:
    return next((each.sparkSession for each in tables if isinstance(each, DataFrame)), None) or session()


def over_frame(events: DataFrame, compiled: Compiled, key: Sequence[str], keep: Sequence[str]) -> MatchPlan:
    leaves = event_columns.leaves(events)
    kinds = event_columns.kinds_of(leaves, compiled.attributes)
    keys, kept = result_columns(leaves, key, keep)
    names = [name for name in leaves if name in kinds or name in keys or name in kept]
    inputs = event_columns.selected(events, leaves, names)
    carried = [(name, names.index(name)) for name in (*keys, *kept)]
    before = [(name, leaves[name].type) for name in keys]
    if not keys:
        inputs = inputs.withColumn("row", F.monotonically_increasing_id())
        carried.insert(0, ("row", len(names)))
        before = [("row", T.LongType())]
    source = BatchSource(tuple((name, names.index(name)) for name in kinds), tuple(carried))
    after = [(name, leaves[name].type) for name in kept]
    result = Result(tuple(before), tuple(after), _id_type(compiled), numbered=not keys)
    return MatchPlan(
        inputs, None, source, compiled, result, None, warnings_of(compiled.uses, compiled.subscriptions, leaves, kinds)
    )


def over_row_groups(
    spark: SparkSession,
    table: parquet.ParquetTable,
    compiled: Compiled,
    key: Sequence[str],
    keep: Sequence[str],
) -> MatchPlan:
    kinds = table.kinds_of(compiled.attributes)
    keys, kept = result_columns(table.types, key, keep)
    types = {name: table.carried_type(name) for name in (*keys, *kept)}
    cores = _cores(spark)
    tasks = parquet.shared_out(table.groups, cores or _CORES_UNKNOWN)
    source = parquet.RowGroupSource(tuple(kinds), tuple(types.items()), numbered=not keys)
    before = [(name, from_arrow_type(types[name])) for name in keys] or [("row", T.LongType())]
    after = [(name, from_arrow_type(types[name])) for name in kept]
    inputs = spark.createDataFrame(parquet.task_rows(tasks))
    if cores is None or len(tasks) > cores:  # of fewer rows than cores, Spark hands one to each anyway
        inputs = inputs.repartitionByRange(len(tasks), "task")
    result = Result(tuple(before), tuple(after), _id_type(compiled), numbered=not keys)
    return MatchPlan(
        inputs,
        len(tasks),
        source,
        compiled,
        result,
        table.rows,
        warnings_of(compiled.uses, compiled.subscriptions, table.types, kinds),
    )


def _cores(spark: SparkSession) -> int | None:
    """None through Spark Connect, which does not tell."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkException:
        return None


def _id_type(compiled: Compiled) -> pa.DataType:
    return pa.int64() if compiled.has_integer_ids else pa.string()
