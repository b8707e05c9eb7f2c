"""Spark as the engine of a plan, with the embedded engine on the driver for what is left of the rows when they are few.

On Spark a relation is a temporary view of the session, and what is kept is persisted. What turns out to be few rows is
fetched and goes on in the embedded engine: there a query takes milliseconds, on Spark it takes a few tenths of a second
however little it reads. So a query runs on the driver if all that it reads is there, and on Spark otherwise, to which
few rows are then sent again. Both give the same rows (tests/pipeline/test_audit_engines.py).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.pipeline.embedded_engine import EmbeddedEngine
from holdfast.pipeline.engine import FEW_ROWS, EngineName, Relation, RowsTask
from holdfast.pipeline.spark_errors import explained
from holdfast.pipeline.spark_path import spark_path

_SENT_ROWS = 20_000  # about a megabyte for every task


class SparkEngine:
    name: EngineName = "spark"

    def __init__(self, spark: SparkSession, near: EmbeddedEngine, few_rows: int = FEW_ROWS) -> None:
        self.spark = spark
        self._near = near
        self._few_rows = few_rows
        self._mentioned = re.compile(rf"{near.prefix}_\d+").findall  # a relation has one name, wherever it is
        self._near_names: set[str] = set()
        self._queries: dict[str, str] = {}  # by the names of relations on the driver that are nothing else
        self._views: set[str] = set()
        self._kept: list[DataFrame] = []

    def sql(self, query: str) -> Relation:
        if self._is_far(query):
            return self.named(self._far(query))
        relation = self._adopted(self._near.sql(query))
        self._queries[relation.name] = query
        return relation

    def keep(self, query: str) -> Relation:
        if not self._is_far(query):
            return self._adopted(self._near.keep(query))
        frame = self._far(query)
        self._kept.append(frame.persist())
        if frame.count() > self._few_rows:
            return self.named(_cut(frame))
        rows = frame.toArrow()
        frame.unpersist()
        return self.table(rows)

    def together(self, query: str, keys: Sequence[str], task: RowsTask, schema: pa.Schema) -> Relation:
        def portion(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = list(batches)
            if rows:
                yield from task(pa.Table.from_batches(rows)).to_batches()

        if not self._is_far(query):
            return self._adopted(self._near.together(query, keys, task, schema))
        rows = self._far(query).repartition(*keys)
        return self.named(rows.mapInArrow(portion, from_arrow_schema(schema)))

    def few(self, query: str) -> Relation:
        return self.table(self._far(query).toArrow()) if self._is_far(query) else self.keep(query)

    def table(self, rows: pa.Table) -> Relation:
        return self._adopted(self._near.table(rows))

    def named(self, frame: DataFrame) -> Relation:
        relation = Relation(self, next(self._near.names))
        self._show(frame, relation.name)
        return relation

    def _show(self, frame: DataFrame, name: str) -> None:
        frame.createOrReplaceTempView(name)
        self._views.add(name)

    def _adopted(self, relation: Relation) -> Relation:
        self._near_names.add(relation.name)
        return Relation(self, relation.name)

    def _is_far(self, query: object) -> bool:
        """Whether it reads anything that is not on the driver."""
        return not self._near_names.issuperset(self._mentioned(str(query)))

    def _far(self, query: str) -> DataFrame:
        for name in {*self._mentioned(query)} - self._views:
            self._show(self._handed_on(name), name)
        return self.spark.sql(query)

    def _handed_on(self, name: str) -> DataFrame:
        """What is on the driver: sent from there, or asked for once more where it is more than a few rows."""
        rows = self._near.handed_on(Relation(self._near, name))
        if name in self._queries and rows.num_rows > _SENT_ROWS:
            return self._far(self._queries[name])
        return self.spark.createDataFrame(rows, from_arrow_schema(rows.schema))  # Connect guesses none of an empty one

    def frame(self, relation: Relation) -> DataFrame:
        return self._far(f"SELECT * FROM {relation}")

    def columns(self, relation: Relation) -> tuple[str, ...]:
        return tuple(self.frame(relation).columns) if self._is_far(relation) else self._near.columns(relation)

    def rows(self, relation: Relation) -> list[tuple[Any, ...]]:
        if self._is_far(relation):
            return [tuple(row) for row in self.frame(relation).collect()]
        return self._near.rows(relation)

    def write(self, relation: Relation, folder: Path) -> None:
        if not self._is_far(relation):
            self._near.write(relation, folder)
            return
        self.frame(relation).write.option("compression", "zstd").parquet(f"file:{folder.resolve()}")
        for path in folder.iterdir():  # Spark's marks and checksums, which mean nothing to anybody else
            if path.suffix != ".parquet":
                path.unlink()

    def digests(self, folder: Path) -> Relation:
        files = self.spark.read.format("binaryFile").option("recursiveFileLookup", True)
        found = files.option("pathGlobFilter", "*.parquet").load(spark_path(folder))
        name = F.substring_index(F.col("path"), "/", -2)  # the table and its part
        return self.named(found.select(name.alias("file"), F.sha2("content", 256).alias("digest")))

    @contextmanager
    def explained(self) -> Iterator[None]:
        with self._near.explained(), explained():
            yield

    def plan(self) -> str:
        return "\n".join([*map(plan_of, self._kept), self._near.plan()])

    def close(self) -> None:
        for frame in reversed(self._kept):
            frame.unpersist()
        for name in self._views:
            self.spark.catalog.dropTempView(name)
        self._near.close()


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
