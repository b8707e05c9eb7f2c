"""Footers of many files, read in tasks: each is a look at a disk or a network, and the driver would go one by one."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

HERE_MAX = 64  # files whose footers the driver has read before a job has started
_TASK_FILES = 256

Seen = TypeVar("Seen")


def looked_at(spark: SparkSession, files: Sequence[Path], look: Callable[[Path], Seen]) -> list[Seen]:
    """What `look` says of each file, in their order. They lie where the workers see them.

    What is wrong with a file is for `look` to return: an exception would come back as Spark's.
    """
    if len(files) <= HERE_MAX:
        return [look(each) for each in files]

    def looks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen = [pickle.dumps(look(Path(path))) for path in batch["path"].to_pylist()]
            yield pa.RecordBatch.from_arrays([batch["at"], pa.array(seen, pa.binary())], names=["at", "seen"])

    names = pa.table({"at": range(len(files)), "path": [str(each.absolute()) for each in files]})
    # Key: the number of the file, so that tasks have as many each.
    rows = spark.createDataFrame(names).repartitionByRange(-(-len(files) // _TASK_FILES), "at")
    found = rows.mapInArrow(looks, "at long, seen binary").toArrow().sort_by("at")
    return [pickle.loads(each) for each in found["seen"].to_pylist()]
