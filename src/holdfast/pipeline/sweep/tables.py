"""The tables of a sweep, made from its cells' records: one row a run, and means over the seeds.

Which metrics there are is known only from the records: a run without crashes does not mention them. So their
names are gathered first, and each becomes a column.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from math import ceil

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from holdfast.books.outcome import Outcome
from holdfast.pipeline.confidence import half_width_factor
from holdfast.pipeline.sweep.folder import SweepFolder
from holdfast.pipeline.sweep.plan import ColumnKind, SweepPlan

_RECORDS_PER_TASK = 2_000  # files of a kilobyte: a task of a second or so
_METRICS_MAX = 2_000  # columns of one table; incidents have a handful of kinds

_SPARK: dict[ColumnKind, T.DataType] = {
    "boolean": T.BooleanType(),
    "long": T.LongType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
}
_ARROW: dict[ColumnKind, pa.DataType] = {
    "boolean": pa.bool_(),
    "long": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
}


def runs_table(spark: SparkSession, plan: SweepPlan, folder: SweepFolder) -> DataFrame:
    """One row a cell: its number, settings and seed, what went wrong, how long it took, and every metric."""
    records = _records(spark, plan, folder)
    counts, measures = _names(records)
    metrics = [_metric(name, name in counts, name in measures) for name in _ordered({*counts, *measures})]
    own = ["cell", *plan.columns, "seed", "error", "took_s"]
    return records.select(*(column(name) for name in own), *metrics)


def summary_table(runs: DataFrame, settings: Sequence[str], seeds: int) -> DataFrame:
    """For each combination of settings and each metric: how many runs, their mean and its 95 % confidence interval.

    The interval is Student's: mean ± t · s / √n, which takes the runs' means as normal. One run has none.
    """
    ids = [column(name) for name in settings]
    metrics = runs.columns[runs.columns.index("took_s") + 1 :]
    names = F.array(*map(F.lit, metrics)).alias("metric")
    values = F.array(*(column(name).cast("double") for name in metrics)).alias("value")
    good = runs.where(F.col("error").isNull())
    # One pass over the rows: `unpivot` would plan a projection for each metric, which takes longer than the work.
    long = good.select(*ids, F.inline(F.arrays_zip(names, values)).alias("metric", "value"))
    # Key: settings and metric; every group has as many rows as there are seeds, so there is no skew.
    grouped = long.groupBy(*ids, "metric").agg(
        F.count("value").alias("n"),
        F.avg("value").alias("mean"),
        F.stddev_samp("value").alias("deviation"),
        F.min("value").alias("least"),
        F.max("value").alias("most"),
    )
    # A constant, by the number of runs: a table to join with would be a job of its own.
    factors = json.dumps({n: half_width_factor(n) for n in range(2, seeds + 1)})
    half = F.from_json(F.lit(factors), "map<string,double>")[F.col("n").cast("string")] * F.col("deviation")
    return (
        grouped.select(
            *ids,
            *map(column, ("metric", "n", "mean")),
            (column("mean") - half).alias("low"),
            (column("mean") + half).alias("high"),
            *map(column, ("deviation", "least", "most")),
        )
        .coalesce(1)  # settings times metrics: small, and one file is what people expect
        .orderBy(*ids, "metric")
    )


def column(name: str) -> Column:
    """A column whose name has dots, which Spark would take for fields of a struct."""
    return F.col(f"`{name}`")


def _records(spark: SparkSession, plan: SweepPlan, folder: SweepFolder) -> DataFrame:
    settings = [T.StructField(name, _SPARK[kind]) for name, kind in plan.columns.items()]
    schema = T.StructType(
        [
            T.StructField("cell", T.LongType()),
            *settings,
            T.StructField("seed", T.LongType()),
            T.StructField("error", T.StringType()),
            T.StructField("took_s", T.DoubleType()),
            T.StructField("counts", T.MapType(T.StringType(), T.LongType())),
            T.StructField("measures", T.MapType(T.StringType(), T.DoubleType())),
        ]
    )
    parts = max(1, ceil(len(plan) / _RECORDS_PER_TASK))
    return spark.range(0, len(plan), 1, parts).mapInArrow(_reader(plan, folder), schema)


def _reader(plan: SweepPlan, folder: SweepFolder) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    schema = pa.schema(
        [
            ("cell", pa.int64()),
            *((name, _ARROW[kind]) for name, kind in plan.columns.items()),
            ("seed", pa.int64()),
            ("error", pa.string()),
            ("took_s", pa.float64()),
            ("counts", pa.map_(pa.string(), pa.int64())),
            ("measures", pa.map_(pa.string(), pa.float64())),
        ]
    )

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [_row(plan, folder, number) for number in batch["id"].to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema)

    return read


def _row(plan: SweepPlan, folder: SweepFolder, number: int) -> dict[str, object]:
    cell, record = plan.cell(number), folder.record(number)
    own: dict[str, object] = {"cell": number, **cell.columns, "seed": cell.seed}
    if record is None:
        return own | {"error": "it left no record", "counts": [], "measures": []}
    own |= {"error": record.error, "took_s": record.took_s}
    return own | {"counts": list(record.counts.items()), "measures": list(record.measures.items())}


def _names(records: DataFrame) -> tuple[set[str], set[str]]:
    """The names among counts and among measures, over all rows: dozens, whatever the size of the sweep."""
    keys = F.create_map(F.lit("counts"), F.map_keys("counts"), F.lit("measures"), F.map_keys("measures"))
    fields = records.select(F.explode(keys).alias("field", "names"))
    found = fields.select("field", F.explode("names").alias("name")).distinct().limit(_METRICS_MAX).collect()
    return {row.name for row in found if row.field == "counts"}, {row.name for row in found if row.field == "measures"}


def _ordered(names: set[str]) -> list[str]:
    """As an outcome has them, and alphabetically within one field."""
    fields = [*Outcome.__dataclass_fields__]
    fields.insert(fields.index("delivered") + 1, "delivery_ratio")
    rank = {name: at for at, name in enumerate(fields)}
    return sorted(names, key=lambda name: (rank.get(name.partition(".")[0], len(rank)), name))


def _metric(name: str, counts: bool, measures: bool) -> Column:
    """A metric as a column. A kind of message that a run did not have is 0; a delay that it did not have is null."""
    value = F.col("measures")[name] if measures else F.col("counts")[name]
    if measures and counts:
        value = F.coalesce(value, F.col("counts")[name].cast("double"))
    head, dot, _ = name.partition(".")
    if dot and not head.endswith("_us"):
        value = F.when(F.col("error").isNull(), F.coalesce(value, F.lit(0)))
    return value.alias(name)
