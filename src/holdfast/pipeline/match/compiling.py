"""Parsing and compiling subscriptions in a task: what comes back to the driver is a file's bytes and a few figures.

The driver writes the bytes down and shares the file. So its own work is that of copying, however many conditions there
are and however long they are.
"""

import pickle
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.model.values import Kind
from holdfast.pipeline.match.subscriptions_table import Rejected, Subscriptions, parsed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REJECTED_MAX = 100_000  # rows that come to the driver: a table with more mistakes than that is the wrong table
_PIECE_BYTES = 4 << 20  # of an index in one row: more would be too much for a message of Spark Connect
_ROWS = pa.schema([("about", pa.binary()), ("index", pa.binary())])


@dataclass(frozen=True)
class CompiledPart:
    """Some subscriptions in numbers, and the bytes of their index; none when some are not valid."""

    subscriptions: int
    uses: Counter[tuple[str, Kind | None]]
    has_integer_ids: bool
    rejected: tuple[Rejected, ...]
    rejected_count: int
    index: Sequence[bytes] = ()

    @property
    def bytes(self) -> int:
        return sum(map(len, self.index))


@dataclass(frozen=True)
class Compiling:
    """A task's work: all rows of its partition become one index."""

    skip_invalid: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = list(batches)
        found = parsed(pa.Table.from_batches(rows), skip_invalid=True) if rows else Subscriptions({})
        rejected = found.rejected
        about = CompiledPart(
            len(found.by_id), found.uses, found.has_integer_ids, rejected[:REJECTED_MAX], len(rejected)
        )
        yield _row(pickle.dumps(about), None)
        if not rejected or self.skip_invalid:
            yield from (_row(None, piece) for piece in _pieces(found))


def _pieces(found: Subscriptions) -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        found.matcher().save(path)
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece


def _row(about: bytes | None, index: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([about], pa.binary()), pa.array([index], pa.binary())], schema=_ROWS)


def compiled_in_a_task(rows: "DataFrame", skip_invalid: bool) -> CompiledPart:
    """One index of all these rows, made by one task."""
    found = rows.coalesce(1).mapInArrow(Compiling(skip_invalid), "about binary, index binary").toArrow()
    if not found.num_rows:  # a table without even a partition
        (about, *pieces) = (row for batch in Compiling(skip_invalid)([]) for row in batch.to_pylist())
    else:
        (about, *pieces) = found.to_pylist()
    part: CompiledPart = pickle.loads(about["about"])
    return CompiledPart(**{**vars(part), "index": [row["index"] for row in pieces]})
