"""Python workers that have loaded what tasks need before the first task is there.

A worker has what it was forked with (`worker_daemon`), and on a cluster nothing. Importing ours and loading compiled
kernels takes seconds, which the first task of each core would wait for. So a stage with a task for every core does that
while the driver is still reading and planning; Spark hands the same workers to the stages that follow.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from threading import Thread

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.pipeline.shipping import is_connected

_warmed: set[str] = set()  # applications


def warm_workers(spark: SparkSession, load: Callable[[], None]) -> Thread | None:
    """Have every core's worker call it, once for an application and without waiting.

    A server of Spark Connect does not say how many cores there are.
    """
    if is_connected(spark) or spark.sparkContext.applicationId in _warmed:
        return None
    _warmed.add(spark.sparkContext.applicationId)

    def loaded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        load()
        yield from batches

    def run() -> None:
        cores = spark.sparkContext.defaultParallelism
        with suppress(Exception):  # the session may end meanwhile; a task that cannot load will say so itself
            spark.range(0, cores, 1, cores).mapInArrow(loaded, "id long").collect()

    thread = Thread(target=run, daemon=True)
    thread.start()
    return thread
