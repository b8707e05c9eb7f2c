"""Where the pairs of a stream's micro-batches go, each batch once whatever happens to the driver.

A sink says whether it holds a batch already, and writes a batch so that it is there as a whole or not at all: a folder
that is moved into its place, or a commit that carries the number of the batch.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.model.errors import InputError
from holdfast.pipeline.match.frames import MatchPlan
from holdfast.pipeline.match.job import write_files, write_rows
from holdfast.pipeline.tables.results import is_sparks
from holdfast.pipeline.tables.target import BatchId, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.pipeline.tables.drafts import DraftTables
    from holdfast.pipeline.tables.spark_tables import SparkTables

_TABLE = "matches"


class StreamSink(Protocol):
    def holds(self, batch: int) -> bool: ...

    def write(self, plan: MatchPlan, batch: int) -> tuple[int, int]:
        """How many events and pairs there were."""
        ...


class FolderSink:
    """`OUT/matches/batch=N`."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def holds(self, batch: int) -> bool:
        return self._place(batch).exists()

    def write(self, plan: MatchPlan, batch: int) -> tuple[int, int]:
        figures = _written(plan, draft := self._out / "_unfinished" / f"batch={batch}")
        self._place(batch).parent.mkdir(exist_ok=True)
        draft.rename(self._place(batch))
        return figures

    def _place(self, batch: int) -> Path:
        return self._out / _TABLE / f"batch={batch}"


class CommitSink:
    """A table whose commits carry the stream's name and the number of the batch; the tasks write its files."""

    def __init__(self, tables: "DraftTables", stream: str) -> None:
        self._tables, self._stream = tables, stream

    def holds(self, batch: int) -> bool:
        last = self._tables.last_batch(_TABLE, self._stream)
        return last is not None and last >= batch

    def write(self, plan: MatchPlan, batch: int) -> tuple[int, int]:
        figures = _written(plan, draft := self._tables.draft / f"batch={batch}")
        self._tables.commit_folder(_TABLE, draft, BatchId(self._stream, batch))
        shutil.rmtree(draft)
        return figures


class SparkSink:
    """A Delta table that Spark writes: Delta itself passes over a batch that it has."""

    def __init__(self, tables: "SparkTables", stream: str) -> None:
        self._tables, self._stream = tables, stream

    def holds(self, batch: int) -> bool:
        return False

    def write(self, plan: MatchPlan, batch: int) -> tuple[int, int]:
        return write_rows(plan, self._tables, BatchId(self._stream, batch))


def _written(plan: MatchPlan, draft: Path) -> tuple[int, int]:
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    written = write_files(plan, draft)
    return sum(each.events for each in written), sum(each.pairs for each in written)


@contextmanager
def opened_sink(spark: "SparkSession", out: Path | Target, stream: str) -> Iterator[StreamSink]:
    if isinstance(out, Path):
        shutil.rmtree(out / "_unfinished", ignore_errors=True)
        try:
            yield FolderSink(out)
        finally:
            shutil.rmtree(out / "_unfinished", ignore_errors=True)
    elif is_sparks(out, spark):
        from holdfast.pipeline.tables.spark_tables import SparkTables  # noqa: PLC0415 - rarely needed

        if out.form != "delta":
            raise InputError(f"{out}: here a stream could not tell which batches are written; choose delta:")
        yield SparkSink(SparkTables(spark, out, "append"), stream)
    else:
        from holdfast.pipeline.tables.drafts import DraftTables  # noqa: PLC0415 - formats are extras

        tables = DraftTables(out, "append", [_TABLE])
        try:
            yield CommitSink(tables, stream)
        finally:
            tables.discard()
