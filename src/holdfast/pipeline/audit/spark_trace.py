"""Traces on Spark: files as DataFrames, and publications matched in tasks."""

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from holdfast.books import format2
from holdfast.books.trace import SCHEMAS
from holdfast.pipeline.audit.embedded_trace import EmbeddedTraceEngine
from holdfast.pipeline.audit.publications import KEYS, PublicationSource, use_once
from holdfast.pipeline.audit.trace_footers import RunFooters, damaged
from holdfast.pipeline.audit.trace_tables import attributes_of
from holdfast.pipeline.engine import FEW_ROWS, Relation
from holdfast.pipeline.match.compile import compile_subscriptions
from holdfast.pipeline.match.subscriptions_table import InvalidSubscriptionsError
from holdfast.pipeline.match.tasks import RowSink, Task
from holdfast.pipeline.spark_engine import SparkEngine
from holdfast.pipeline.spark_path import spark_path
from holdfast.pipeline.warm_workers import warm_workers

_IN_SPARK: dict[pa.DataType, T.DataType] = {
    pa.string(): T.StringType(),
    pa.int64(): T.LongType(),
    pa.float64(): T.DoubleType(),
    pa.bool_(): T.BooleanType(),
    pa.timestamp("us", "UTC"): T.TimestampType(),
    pa.uint64(): T.DecimalType(20, 0),  # Spark has no unsigned integers
}
_PAIRS = "source string, seq long, published_us long, subscription long"


_BY_CASE = {"spark.sql.caseSensitive": "true"}  # attributes `Price` and `price` are two
# Many small partitions, of which Spark then puts so many together that a task has enough to do; of kept tables too.
_COALESCED = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    # Some 400,000 rows of a shuffle: a second or two for a Python worker, which holds all of them at once.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "8m",
    # Of files: a task that matches makes many rows of each, so short ones keep its stage even.
    "spark.sql.files.maxPartitionBytes": "1m",
    "spark.sql.files.openCostInBytes": "128k",
}
_STARTING = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
_PARTITION_ROWS = 50_000  # to start from: some 5 MB, so that partitions put together are alike in size
_DEALT_ROWS = 1_000_000  # publications: fewer are matched in a few seconds, however files cut them
_MATCHED_ROWS = 50_000  # publications of one task then: each may match many subscriptions
_PARTITIONS_MAX = 4_000  # to start from: more would be more blocks than a shuffle should have
# Compiling a plan into Java, and planning the rest anew after each shuffle, takes a second or two each time; both pay
# from about so many rows on.
_SHORT = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
_SHORT_ROWS = 20_000


class SparkTraceEngine(SparkEngine):
    """With settings of its own in the session, until it is closed."""

    def __init__(self, spark: SparkSession, rows: int, few_rows: int = FEW_ROWS) -> None:
        self._reader = EmbeddedTraceEngine()
        super().__init__(spark, self._reader, few_rows)
        self._readable_rows = few_rows  # on the driver, of small tables
        partitions = min(_PARTITIONS_MAX, -(-rows // _PARTITION_ROWS))
        wanted = _BY_CASE | (_SHORT if rows < _SHORT_ROWS else {**_COALESCED, _STARTING: str(partitions)})
        self._before = {name: spark.conf.get(name, None) for name in wanted}
        for name, value in wanted.items():
            spark.conf.set(name, value)
        if rows >= _SHORT_ROWS:
            warm_workers(spark, use_once)

    def close(self) -> None:
        super().close()
        for name, known in self._before.items():
            if known is None:
                self.spark.conf.unset(name)
            else:
                self.spark.conf.set(name, known)

    def trace_table(self, run: RunFooters, name: str) -> Relation:
        table = self._far_table(run, name)
        if run.rows[name] > self._readable_rows:
            return self.named(table)
        self._readable_rows -= run.rows[name]
        relation = self._adopted(self._reader.trace_table(run, name))
        self._show(table, relation.name)  # tasks read the files, too
        return relation

    def _far_table(self, run: RunFooters, name: str) -> DataFrame:
        if run.about["format"] == format2.FORMAT and name in format2.UPGRADES:
            return _plain(run, self._upgraded(run, name))
        table = self._table(run, name)
        if name in ("subscriptions", "deliveries"):
            part, place = F.col("_metadata.file_name"), F.col("_metadata.row_index")
            table = table.select("*", part.alias("part"), place.alias("place"))
        elif name == "publications":
            table = table.select(*(each for each in table.columns if ":" not in each))
        return _plain(run, table)

    def matches(self, run: RunFooters, subscriptions: Relation) -> Relation:
        try:
            compiled = compile_subscriptions(self.spark, self.frame(subscriptions))
        except InvalidSubscriptionsError as error:
            raise damaged(run.folder, error) from None
        table = self._table(run, "publications")
        mentioned = {name: each for name, each in attributes_of(run).items() if name in compiled.attributes}
        keys = [F.col(name) for name in ("source", "seq", "time_us")]
        columns = [_column(table, column) for each in mentioned.values() for column in each]
        inputs = table.select(*(each.alias(f"c{at}") for at, each in enumerate([*keys, *columns])))
        if run.rows["publications"] > _DEALT_ROWS:
            # Key: sequence numbers, which are even. Files are cut by bytes, and a source that repeats itself has few.
            inputs = inputs.repartition(-(-run.rows["publications"] // _MATCHED_ROWS), "c1")
        source = PublicationSource(tuple((name, len(each)) for name, each in mentioned.items()))
        task = Task(source, compiled.finder, RowSink(len(KEYS), pa.int64()))
        return self.named(_plain(run, inputs.mapInArrow(task, _PAIRS)))

    def _table(self, run: RunFooters, name: str) -> DataFrame:
        reader = self.spark.read.schema(_spark_schema(run.schemas[name])).option("pathGlobFilter", "*.parquet")
        return reader.parquet(spark_path(run.folder / name))

    def _upgraded(self, run: RunFooters, name: str) -> DataFrame:
        """Format 2 as format 3. A node's samples come together: limits and links are rows of their own there."""
        origin, upgrade = format2.UPGRADES[name]
        rows, schema = self._table(run, origin), _spark_schema(SCHEMAS[name])
        if name in ("incidents", "messages"):
            return rows.mapInArrow(format2.in_batches(upgrade), schema)
        # Key: node. As many rows a group as a run has seconds, a few dozen times.
        return rows.groupBy("node").applyInArrow(upgrade, schema)


def _plain(run: RunFooters, table: DataFrame) -> DataFrame:
    """The rows with the name of their run, and without the word `limit`, which means something in SQL."""
    return table.withColumnRenamed("limit", "bound").withColumn("run", F.lit(run.label))


def _spark_schema(schema: pa.Schema) -> T.StructType:
    return T.StructType([T.StructField(field.name, _in_spark(field.type)) for field in schema])


def _in_spark(kind: pa.DataType) -> T.DataType:
    return T.ArrayType(_IN_SPARK[kind.value_type]) if pa.types.is_list(kind) else _IN_SPARK[kind]


def _column(table: DataFrame, name: str) -> Column:
    quoted = name.replace("`", "``")
    column = F.col(f"`{quoted}`")
    # Beyond 64 signed bits there are only values of at least 2**63, which doubles still order among smaller numbers.
    return column.cast("double") if table.schema[name].dataType.typeName() == "decimal" else column
