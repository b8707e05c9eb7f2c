"""Pairs written by the tasks themselves, as Parquet, without passing through the JVM.

Each attempt at a task writes a file of its own name, in a folder for attempts, and tells the name in its answer. Only
files that an answer names are moved to the result: whatever a failed or a forgotten attempt leaves, or still writes,
stays out of it.
"""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.pipeline.match.pair_file import PairFile, is_writable
from holdfast.pipeline.match.tasks import AnyFound, Batches, Blocks, Finder, Found, Source, beside, in_portions

MANIFEST = "file string, events long, pairs long, seconds double"


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
    """Blocks on their way through, counted."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self.events = 0

    def __iter__(self) -> Blocks:
        for block in self._blocks:
            self.events += block.events.num_rows
            yield block


def write_pairs(path: Path, pairs: Iterable[AnyFound], keys: int, numbered: bool = False) -> int:
    """How many there were; without any, there is no file. The first column of numbered pairs is never null."""
    file: PairFile | _ArrowFile | None = None
    written = 0
    try:
        for found in pairs:
            if file is None:
                made = PairFile if is_writable(found.carried.schema) else _ArrowFile
                file = made(path, found, keys, numbered)
            written += file.add(found)
    finally:
        if file is not None:
            file.close()
    return written


class _ArrowFile:
    """The same for columns of any type, such as lists, which Arrow's writer looks at pair by pair."""

    def __init__(self, path: Path, first: AnyFound, keys: int, numbered: bool) -> None:
        self._keys = keys
        self._never_null = {0, keys} if numbered else {keys}
        none = first.one_by_one()
        schema = self._batch(none, none.rows.slice(0, 0), none.subscriptions.slice(0, 0)).schema
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        # Not stored, or Arrow would read back the types that its own memory has.
        self._writer = pq.ParquetWriter(
            path, schema, compression="zstd", compression_level=1, use_dictionary=texts, store_schema=False
        )

    def add(self, some: AnyFound) -> int:
        found = some.one_by_one()
        for portion in in_portions(found):
            self._writer.write_batch(self._batch(found, *portion))
        return len(found.rows)

    def close(self) -> None:
        self._writer.close()

    def _batch(self, found: Found, rows: pa.Array, subscriptions: pa.DictionaryArray) -> pa.RecordBatch:
        ids = subscriptions.dictionary_decode()
        ids = ids if pa.types.is_integer(ids.type) else ids.cast(pa.string())
        batch = beside(found.carried.take(rows), ids, self._keys)
        fields = [field.with_nullable(at not in self._never_null) for at, field in enumerate(batch.schema)]
        return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))


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
