"""Events that keep arriving: files in a folder, or any source that Spark can stream from.

Kafka hands over bytes; with a schema they are read as JSON objects, and what Kafka knows of a message is kept beside
its attributes under `kafka.topic`, `kafka.partition`, `kafka.offset`, `kafka.timestamp` and `kafka.key`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from holdfast.model.errors import InputError
from holdfast.pipeline.match.event_files import (
    READING,
    SPARK_NAMES,
    Format,
    files_of,
    for_spark,
    format_of,
    frame,
    is_remote,
    local_path,
    lookup,
)

_KAFKA = ("topic", "partition", "offset", "timestamp")


@dataclass(frozen=True)
class EventStream:
    """`path` is a folder, a Kafka topic, or what else the source calls its place; "-" when it has none."""

    path: str
    source: str | None = None  # Spark's name of it; without, files in a folder
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None  # in Spark's words; for files it is otherwise guessed from those that are there
    form: Format | None = None  # of files whose names do not say it

    @property
    def about(self) -> list[str]:
        """What makes it another stream."""
        return [self.source or "files", self.path]

    def frame(self, spark: SparkSession, known: StructType | None) -> DataFrame:
        """`known` is the schema that an earlier run has settled on."""
        if self.source is None:
            return self._files(spark, known)
        reader = spark.readStream.format(self.source).options(**self.options)
        if self.source == "kafka":
            messages = reader.option("subscribe", self.path).load()
            return messages if self.schema is None else from_messages(messages, self.schema)
        if self.schema is not None:
            reader = reader.schema(self.schema)
        return reader.load() if self.path == "-" else reader.load(self.path)

    def _files(self, spark: SparkSession, known: StructType | None) -> DataFrame:
        if not is_remote(self.path) and not local_path(self.path).is_dir():
            raise InputError(f"{self.path}: expected a folder in which events arrive as files")
        files = [] if is_remote(self.path) else files_of(self.path)
        if not files and (self.form is None or (known is None and self.schema is None)):
            raise InputError(f"{self.path}: there is no file yet to learn the columns from; give --format and --schema")
        form = self.form or format_of(self.path, files)
        settled = known or self.schema or frame(spark, self.path, form).schema
        options = {**READING[form], **lookup(self.path), **self.options}
        return spark.readStream.format(SPARK_NAMES[form]).options(**options).schema(settled).load(for_spark(self.path))


def from_messages(messages: DataFrame, schema: str) -> DataFrame:
    """Kafka's messages as events. A value that is not such a JSON object stops the stream."""
    value = F.from_json(F.col("value").cast("string"), schema, {"mode": "FAILFAST"})
    about = F.struct(*_KAFKA, F.col("key").cast("string").alias("key"))
    return messages.select(value.alias("value"), about.alias("kafka")).select("value.*", "kafka")
