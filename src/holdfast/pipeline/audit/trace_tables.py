"""Runs as Spark tables. Every table gets a column `run`, so that several runs can go through one job."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from holdfast.books import format2
from holdfast.books.runs import attribute_of
from holdfast.books.trace import SCHEMAS
from holdfast.pipeline.audit.trace_footers import ATTRIBUTE, RunFooters
from holdfast.pipeline.spark_path import spark_path

_IN_SPARK: dict[pa.DataType, T.DataType] = {
    pa.string(): T.StringType(),
    pa.int64(): T.LongType(),
    pa.float64(): T.DoubleType(),
    pa.bool_(): T.BooleanType(),
    pa.timestamp("us", "UTC"): T.TimestampType(),
    pa.uint64(): T.DecimalType(20, 0),  # Spark has no unsigned integers
}


@dataclass(frozen=True)
class TraceRun:
    """One run: what it says of itself, how large its tables are, and the tables."""

    label: str
    folder: Path
    about: dict[str, Any]
    rows: dict[str, int]
    tables: dict[str, DataFrame]  # each with `run`; subscriptions with `number`, deliveries with `part` and `place`

    @property
    def attributes(self) -> dict[str, list[str]]:
        """The columns of each attribute; more than one when its values have several types."""
        found: dict[str, list[str]] = {}
        for column in self.tables["publications"].columns:
            if column.startswith(ATTRIBUTE):
                found.setdefault(attribute_of(column), []).append(column)
        return found


def open_runs(spark: SparkSession, runs: Sequence[RunFooters]) -> list[TraceRun]:
    return [_open(spark, run) for run in runs]


def together(runs: Sequence[TraceRun], table: str, *columns: str) -> DataFrame:
    """One table of several runs; all of its columns, or those that are named."""
    return reduce(DataFrame.unionByName, [run.tables[table].select(*(columns or "*")) for run in runs])


def _open(spark: SparkSession, footers: RunFooters) -> TraceRun:
    tables = {name: _table(spark, footers.folder / name, schema) for name, schema in footers.schemas.items()}
    if footers.about["format"] == format2.FORMAT:
        tables = _upgraded(tables)
    tables = {name: table.withColumn("run", F.lit(footers.label)) for name, table in tables.items()}
    part, place = F.col("_metadata.file_name"), F.col("_metadata.row_index")
    # Rows of one time keep the order in which they were written, which is the order in which they happened.
    tables["deliveries"] = tables["deliveries"].select("*", part.alias("part"), place.alias("place"))
    # A subscriber may take an id again that it gave up, so subscriptions are told apart by their row.
    sizes = footers.parts["subscriptions"]
    before = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))  # the last sum is of all of them
    offsets = [F.lit(each) for entry in before.items() for each in entry]
    number = F.element_at(F.create_map(*offsets), part) + place
    tables["subscriptions"] = tables["subscriptions"].withColumn("number", number)
    return TraceRun(footers.label, footers.folder, footers.about, footers.rows, tables)


def _upgraded(tables: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """Format 2 as format 3. A node's samples come together, because limits and links are rows of their own there."""
    found = dict(tables)
    for name in ("incidents", "messages"):
        origin, upgrade = format2.UPGRADES[name]
        found[name] = tables[origin].mapInArrow(format2.in_batches(upgrade), _spark_schema(SCHEMAS[name]))
    for name in ("samples", "links"):
        origin, upgrade = format2.UPGRADES[name]
        # Key: node. As many rows a group as a run has seconds, a few dozen times.
        found[name] = tables[origin].groupBy("node").applyInArrow(upgrade, _spark_schema(SCHEMAS[name]))
    return found


def _table(spark: SparkSession, folder: Path, schema: pa.Schema) -> DataFrame:
    return spark.read.schema(_spark_schema(schema)).option("pathGlobFilter", "*.parquet").parquet(spark_path(folder))


def _spark_schema(schema: pa.Schema) -> T.StructType:
    return T.StructType([T.StructField(field.name, _in_spark(field.type)) for field in schema])


def _in_spark(kind: pa.DataType) -> T.DataType:
    return T.ArrayType(_IN_SPARK[kind.value_type]) if pa.types.is_list(kind) else _IN_SPARK[kind]
