"""Pairs written by the tasks themselves, as Parquet, without passing through the JVM.

Each attempt at a task writes a file of its own name, in a folder for attempts, and tells the name in its answer. Only
files that an answer names are moved to the result: whatever a failed or a forgotten attempt leaves, or still writes,
stays out of it.
"""

import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.pipeline.match.tasks import Batches, Block, Blocks, Finder, Found, Source, beside, in_portions

MANIFEST = "file string, events long, pairs long, seconds double"
_ROW_GROUP_ROWS = 4 << 20  # some 4 MB as written; a reader that wants one event skips whole groups
_DICTIONARY_MAX = 1 << 16  # ids: more than that, and writing them all into each row group would cost more than it saves


class Written(NamedTuple):
    """What one task did."""

    file: str | None
    events: int
    pairs: int
    seconds: float


@dataclass(frozen=True)
class WriteTask:
    source: Source
    finder: Finder
    folder: str
    keys: int
    numbered: bool = False  # whether the first column is the row's number, and so never null

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        started = perf_counter()
        counted = _Counted(self.source(batches))
        name = f"part-{uuid4().hex}.parquet"
        pairs = write_pairs(Path(self.folder) / name, self.finder.found(iter(counted)), self.keys, self.numbered)
        done = Written(name if pairs else None, counted.events, pairs, perf_counter() - started)
        yield pa.RecordBatch.from_pylist([done._asdict()], _MANIFEST)


_MANIFEST = pa.schema([("file", pa.string()), ("events", pa.int64()), ("pairs", pa.int64()), ("seconds", pa.float64())])


class _Counted:
    """Blocks on their way through, counted, with texts as each distinct one and where it stands.

    Texts are repeated for every pair and Parquet keeps each distinct one once, so it is told which are alike rather
    than left to find out.
    """

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self.events = 0

    def __iter__(self) -> Blocks:
        for events, carried in self._blocks:
            self.events += events.num_rows
            columns = [each.dictionary_encode() if pa.types.is_string(each.type) else each for each in carried.columns]
            yield Block(events, pa.RecordBatch.from_arrays(columns, carried.schema.names))


def write_pairs(path: Path, pairs: Iterable[Found], keys: int, numbered: bool = False) -> int:
    """How many there were; without any, there is no file."""
    writer: pq.ParquetWriter | None = None
    written = 0
    try:
        for found in pairs:
            for rows, subscriptions in in_portions(found):
                batch = beside(found.carried.take(rows), _ids(subscriptions), keys)
                batch = _never_null(batch, {0, keys} if numbered else {keys})
                writer = writer or _writer(path, batch.schema)
                writer.write_batch(batch, row_group_size=_ROW_GROUP_ROWS)
                written += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    return written


def _ids(subscriptions: pa.DictionaryArray) -> pa.Array:
    if pa.types.is_integer(subscriptions.type.value_type):
        return subscriptions.dictionary_decode()
    return subscriptions.cast(pa.string()) if len(subscriptions.dictionary) > _DICTIONARY_MAX else subscriptions


def _never_null(batch: pa.RecordBatch, places: Collection[int]) -> pa.RecordBatch:
    """Say which columns hold no nulls by nature: Parquet then keeps, and checks, no marks for them."""
    fields = [field.with_nullable(at not in places) for at, field in enumerate(batch.schema)]
    return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    texts = [field.name for field in schema if pa.types.is_dictionary(field.type) or pa.types.is_string(field.type)]
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,  # as quick as Snappy here, and a third smaller
        # Numbers of one event stand one below the other, which the compression sees sooner than a dictionary would.
        use_dictionary=texts,
        # The least and greatest text of a row group help nobody, and finding them takes longer than all the rest.
        write_statistics=[name for name in schema.names if name not in texts],
        store_schema=False,  # otherwise Arrow would read texts back as the dictionaries they were written from
    )


def settle(attempts: Path, place: Path, written: Iterable[Written], schema: pa.Schema) -> None:
    """Move the files that the tasks' answers name to their place, and forget the others.

    A table without any row still gets a file with its columns.
    """
    named = [each.file for each in written if each.file is not None]
    for name in named:
        (attempts / name).rename(place / name)
    if not named:
        pq.write_table(schema.empty_table(), place / "part-0.parquet", store_schema=False)
    shutil.rmtree(attempts, ignore_errors=True)
