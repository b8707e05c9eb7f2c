"""The footers of the events' files: of many, read in tasks."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.model.errors import InputError
from holdfast.pipeline.many_files import looked_at
from holdfast.pipeline.match.parquet import Footer, ParquetTable, one_table, read_footer


def footers(spark: SparkSession, files: Sequence[Path]) -> ParquetTable:
    """What the files say of their columns and row groups."""
    return one_table(map(_sound, looked_at(spark, files, _footer)))


def _footer(path: Path) -> Footer | InputError:
    try:
        return read_footer(path)
    except InputError as problem:
        return problem


def _sound(found: Footer | InputError) -> Footer:
    if isinstance(found, InputError):
        raise found
    return found
