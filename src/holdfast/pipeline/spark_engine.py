"""Spark as the engine of a plan: relations are temporary views of the session, kept ones are persisted."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.pipeline.engine import EngineName, Relation, RowsTask
from holdfast.pipeline.spark_errors import explained
from holdfast.pipeline.spark_path import spark_path


class SparkEngine:
    name: EngineName = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._prefix = f"relation_{uuid4().hex}"  # several plans may share a session
        self._numbers = count()
        self._views: list[str] = []
        self._kept: list[DataFrame] = []

    def sql(self, query: str) -> Relation:
        return self.named(self.spark.sql(query))

    def keep(self, query: str) -> Relation:
        frame = self.spark.sql(query)
        cut = _cut(frame)
        self._kept.append(frame)
        return self.named(cut)

    def together(self, query: str, keys: Sequence[str], task: RowsTask, schema: pa.Schema) -> Relation:
        def portion(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = list(batches)
            if rows:
                yield from task(pa.Table.from_batches(rows)).to_batches()

        rows = self.spark.sql(query).repartition(*keys)
        return self.named(rows.mapInArrow(portion, from_arrow_schema(schema)))

    def few(self, query: str) -> Relation:
        return self.table(self.spark.sql(query).toArrow())

    def table(self, rows: pa.Table) -> Relation:
        return self.named(self.spark.createDataFrame(rows))

    def named(self, frame: DataFrame) -> Relation:
        name = f"{self._prefix}_{next(self._numbers)}"
        frame.createOrReplaceTempView(name)
        self._views.append(name)
        return Relation(self, name)

    def frame(self, relation: Relation) -> DataFrame:
        return self.spark.table(relation.name)

    def columns(self, relation: Relation) -> tuple[str, ...]:
        return tuple(self.frame(relation).columns)

    def rows(self, relation: Relation) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.frame(relation).collect()]

    def write(self, relation: Relation, folder: Path) -> None:
        self.frame(relation).write.option("compression", "zstd").parquet(f"file:{folder.resolve()}")
        for path in folder.iterdir():  # Spark's marks and checksums, which mean nothing to anybody else
            if path.suffix != ".parquet":
                path.unlink()

    def digests(self, folder: Path) -> Relation:
        files = self.spark.read.format("binaryFile").option("recursiveFileLookup", True)
        found = files.option("pathGlobFilter", "*.parquet").load(spark_path(folder))
        name = F.substring_index(F.col("path"), "/", -2)  # the table and its part
        return self.named(found.select(name.alias("file"), F.sha2("content", 256).alias("digest")))

    def explained(self) -> AbstractContextManager[None]:
        return explained()

    def plan(self) -> str:
        return "\n".join(map(plan_of, self._kept))

    def close(self) -> None:
        for frame in reversed(self._kept):
            frame.unpersist()
        for name in self._views:
            self.spark.catalog.dropTempView(name)


def plan_of(frame: DataFrame) -> str:
    """How Spark computes it, in its own words."""
    with redirect_stdout(StringIO()) as printed:  # the one way to a plan that Spark Connect has too
        frame.explain("formatted")
    return printed.getvalue()


def _cut(frame: DataFrame) -> DataFrame:
    """The rows of a frame, kept, without its history.

    Spark would carry the plan of what it has kept into every query that reads it, only to find the rows there; with
    the many steps of an audit, comparing plans takes longer than the work. A client of Spark Connect has no hand on the
    plan, but may ask for a checkpoint; that is worked out at once, and again only from the start if an executor is
    lost.
    """
    session = getattr(frame.sparkSession, "_jsparkSession", None)
    if session is None:
        return frame.localCheckpoint()
    frame.persist()
    java = frame._jdf
    rows = session.internalCreateDataFrame(java.queryExecution().toRdd(), java.schema(), False)
    return DataFrame(rows, frame.sparkSession)
