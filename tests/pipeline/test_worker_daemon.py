"""Spark's Python workers are forked from a process that has imported what tasks need."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest


def test_a_worker_begins_with_the_libraries_that_its_parent_has_imported(spark: Any) -> None:
    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"kept": [gc.get_freeze_count()], "numba": ["numba" in sys.modules]})

    told = spark.range(1).mapInArrow(tell, "kept long, numba boolean").first()
    assert told.kept > 100_000
    assert told.numba


@pytest.mark.parametrize(("threads", "expected"), [("1", "holdfast.pipeline.worker_daemon"), ("2", "pyspark.daemon")])
def test_a_process_with_threads_is_not_forked(threads: str, expected: str) -> None:
    """What NumPy starts when it is imported: this many threads, ourselves among them."""
    command = [sys.executable, "-m", "holdfast.pipeline.worker_daemon", "pyspark.worker"]
    environment = os.environ | {"OMP_NUM_THREADS": threads}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        assert len(daemon.stdout.read(4)) == 4  # its port: it is ready
        words = Path(f"/proc/{daemon.pid}/cmdline").read_text().split("\0")
        assert words[2] == expected
        daemon.terminate()
