"""The tables of a finished sweep as Delta Lake or Iceberg tables, or written by Spark anywhere.

The same command may be run again, after failed cells were mended: tables that this sweep has written are replaced, in
one commit each, and those of anybody else are refused.
"""

import shutil
from hashlib import sha256
from typing import TYPE_CHECKING

from holdfast.pipeline.spark_path import spark_path
from holdfast.pipeline.sweep.folder import SweepFolder
from holdfast.pipeline.tables.drafts import DraftTables, tables_at
from holdfast.pipeline.tables.target import BatchId, Target, refuse_existing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TABLES = ("runs", "summary")


def publish_files(folder: SweepFolder, target: Target) -> None:
    """Copies of the sweep's Parquet files become the rows of the tables."""
    writer = _writer(folder)
    place = tables_at(target)
    last = {name: place.last_batch(name, writer) for name in _TABLES}
    for name in _TABLES:
        if last[name] is None and place.has(name):
            raise refuse_existing(target.table(name))
    tables = DraftTables(target, "replace", _TABLES)
    try:
        for name in _TABLES:
            shutil.copytree(folder.path / name, tables.draft / name, ignore=shutil.ignore_patterns("_*", ".*"))
            number = last[name]
            tables.commit_folder(name, tables.draft / name, BatchId(writer, 0 if number is None else number + 1))
    finally:
        tables.discard()


def publish_by_spark(spark: "SparkSession", folder: SweepFolder, target: Target) -> None:
    from holdfast.pipeline.tables.spark_tables import SparkTables  # noqa: PLC0415 - Spark's

    tables = SparkTables(spark, target, "replace")
    for name in _TABLES:
        tables.write(name, spark.read.parquet(spark_path(folder.path / name)))


def _writer(folder: SweepFolder) -> str:
    """The sweep's name in the tables: by what was asked, and not by where its folder lies."""
    return f"sweep-{sha256((folder.path / 'sweep.json').read_bytes()).hexdigest()[:16]}"
