"""Footers of many files, read in tasks: each is a look at a disk or a network, and the driver would go one by one."""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.model.errors import InputError
from holdfast.pipeline.match.parquet import Footer, ParquetTable, one_table, read_footer, read_footers

_HERE_MAX = 64  # files whose footers the driver has read before a job has started
_TASK_FILES = 256


def footers(spark: SparkSession, files: Sequence[Path]) -> ParquetTable:
    """What the files say of their columns and row groups. They lie where the workers see them."""
    if len(files) <= _HERE_MAX:
        return read_footers(files)
    names = pa.table({"at": range(len(files)), "path": [str(each.absolute()) for each in files]})
    # Key: the number of the file, so that tasks have as many each.
    rows = spark.createDataFrame(names).repartitionByRange(-(-len(files) // _TASK_FILES), "at")
    found = rows.mapInArrow(_read, "at long, footer binary, problem string").toArrow().sort_by("at").to_pylist()
    problems = [row["problem"] for row in found if row["problem"] is not None]
    if problems:
        raise InputError(problems[0])
    return one_table(pickle.loads(row["footer"]) for row in found)


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = []
        for at, path in zip(batch["at"].to_pylist(), batch["path"].to_pylist(), strict=True):
            found = _footer(Path(path))
            packed, problem = (None, found) if isinstance(found, str) else (pickle.dumps(found), None)
            rows.append({"at": at, "footer": packed, "problem": problem})
        yield pa.RecordBatch.from_pylist(rows, _ROWS)


_ROWS = pa.schema([("at", pa.int64()), ("footer", pa.binary()), ("problem", pa.string())])


def _footer(path: Path) -> Footer | str:
    """Or what is wrong with the file: an exception would come back as Spark's."""
    try:
        return read_footer(path)
    except InputError as problem:
        return str(problem)
