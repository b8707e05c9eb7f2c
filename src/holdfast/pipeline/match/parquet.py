"""Parquet events read inside the tasks: each task is handed row groups, and reads only the columns it needs.

Rows are numbered over all files in the order of their names, so an event without a key has the same number in every
run. Columns that conditions mention keep each file's own type; columns to repeat are brought to one type for all.
"""

import heapq
import pickle
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.model.errors import InputError
from holdfast.model.values import Kind
from holdfast.pipeline.match.result_columns import refuse_unfit
from holdfast.pipeline.match.tasks import Batches, Block, Blocks

_ROWS = 32_768  # read at a time: the batch is then still in the processor's cache when it is matched
_TASK_ROWS = 1_000_000  # about a second's work; a task costs Spark some 60 ms
_SMALL_ROWS = 50_000  # fewer are not worth a task of their own
_CUT_ROWS = 16_384  # a row group is not cut for fewer: both tasks then read it, which costs a tenth of matching it


class RowGroup(NamedTuple):
    path: str
    number: int
    first_row: int  # among the rows of all files
    rows: int
    skipped: int = 0  # rows of the group before these, which another task has

    def cut(self, rows: int) -> tuple["RowGroup", "RowGroup"]:
        rest = self._replace(first_row=self.first_row + rows, rows=self.rows - rows, skipped=self.skipped + rows)
        return self._replace(rows=rows), rest


class ParquetTable(NamedTuple):
    """What the footers of all files say of their flat columns and row groups."""

    types: dict[str, list[tuple[str, pa.DataType]]]  # name -> its types, each with the first file that has it
    groups: list[RowGroup]

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.groups)

    def kinds_of(self, mentioned: Collection[str]) -> dict[str, Kind | None]:
        """What the mentioned columns hold; in files that differ, each is matched as it is."""
        here = {name: [kind for _, kind in found] for name, found in self.types.items() if name in mentioned}
        refuse_unfit([(name, str(kind)) for name, kinds in here.items() for kind in kinds if not _can_match(kind)])
        return {name: _kind(kinds[0]) if len({*map(_kind, kinds)}) == 1 else None for name, kinds in here.items()}

    def carried_type(self, name: str) -> pa.DataType:
        """The one type that a column has in the result."""
        (_, common), *others = self.types[name]
        for path, kind in others:
            try:
                both = [pa.schema([(name, common)]), pa.schema([(name, kind)])]
                common = pa.unify_schemas(both, promote_options="permissive").field(0).type
            except pa.ArrowException:
                first = self.types[name][0]
                raise InputError(
                    f"{path}: column {name} is {kind}, in {first[0]} it is {first[1]}; write it with one type"
                ) from None
        return _for_spark(common)


class Footer(NamedTuple):
    """What one file says of itself."""

    path: Path
    types: list[tuple[str, pa.DataType]]
    rows: list[int]  # of each row group


def read_footer(path: Path) -> Footer:
    try:
        metadata = pq.read_metadata(path)
        schema = flat_schema(metadata.schema.to_arrow_schema())
    except (pa.ArrowException, OSError) as problem:
        raise InputError(f"{path}: not a Parquet file, or a damaged one ({problem})") from None
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    return Footer(path, [(field.name, field.type) for field in schema], rows)


def read_footers(files: Sequence[Path]) -> ParquetTable:
    return one_table(map(read_footer, files))


def one_table(footers: Iterable[Footer]) -> ParquetTable:
    """Rows are numbered through, in the order of the files."""
    groups: list[RowGroup] = []
    types: dict[str, list[tuple[str, pa.DataType]]] = {}
    first_row = 0
    for path, columns, sizes in footers:
        for name, found in columns:
            known = types.setdefault(name, [])
            if all(kind != found for _, kind in known):
                known.append((path.name, found))
        for number, rows in enumerate(sizes):
            groups.append(RowGroup(str(path.absolute()), number, first_row, rows))
            first_row += rows
    return ParquetTable(types, groups)


def flat_schema(schema: pa.Schema) -> pa.Schema:
    while any(pa.types.is_struct(field.type) for field in schema):
        parts = [field.flatten() if pa.types.is_struct(field.type) else [field] for field in schema]
        schema = pa.schema([each for part in parts for each in part])
    twice = sorted(name for name, count in Counter(schema.names).items() if count > 1)
    if twice:
        raise InputError(f"events: column {', '.join(twice)} is given twice; rename one of the two")
    return schema


def _can_match(kind: pa.DataType) -> bool:
    element = kind.value_type if _kind(kind) is Kind.LIST else kind
    return _kind(element) not in (None, Kind.LIST) or bool(pa.types.is_null(element))


def _kind(kind: pa.DataType) -> Kind | None:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return Kind.STRING
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return Kind.NUMBER
    if pa.types.is_boolean(kind):
        return Kind.BOOLEAN
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return Kind.TIMESTAMP
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return Kind.LIST
    return None


def _for_spark(kind: pa.DataType) -> pa.DataType:
    """The type in which Spark, and everyone else who reads the result, has the column."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_unsigned_integer(kind):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}[kind.bit_width]
    return kind


def shared_out(groups: Sequence[RowGroup], cores: int) -> list[list[RowGroup]]:
    """Row groups for each task: as many rows for one as for another, and each task long enough to be worth starting.

    Groups are dealt in turn, so that rows which lie together and are alike do not all go to one task. The one that
    would make a task longer than the others is cut.
    """
    rows = sum(each.rows for each in groups)
    # Cutting keeps all cores busy; more pieces than that would only read a large group again and again.
    count = max(min(-(-rows // _TASK_ROWS), max(len(groups), cores)), min(cores, rows // _SMALL_ROWS), 1)
    fair = -(-rows // count)
    heap: list[tuple[int, int]] = [(0, at) for at in range(count)]
    tasks: list[list[RowGroup]] = [[] for _ in heap]
    waiting = deque(sorted(groups, key=lambda each: -each.rows))
    while waiting:
        group = waiting.popleft()
        load, at = heapq.heappop(heap)
        free = fair - load
        if free >= _CUT_ROWS and group.rows - free >= _CUT_ROWS:
            group, rest = group.cut(free)
            waiting.appendleft(rest)
        tasks[at].append(group)
        heapq.heappush(heap, (load + group.rows, at))
    return [sorted(each, key=lambda group: group.first_row) for each in tasks if each] or [[]]


def task_rows(tasks: Sequence[Sequence[RowGroup]]) -> pa.Table:
    """What each task is handed: its row groups, and nobody else's."""
    packed = pa.array([pickle.dumps(list(each)) for each in tasks], pa.binary())
    return pa.table({"task": pa.array(range(len(tasks)), pa.int32()), "groups": packed})


@dataclass(frozen=True)
class RowGroupSource:
    """Rows of `task_rows` come in, the events of their row groups come out."""

    mentioned: tuple[str, ...]
    carried: tuple[tuple[str, pa.DataType], ...]
    numbered: bool  # whether the row's number goes first among the carried columns

    def __call__(self, batches: Batches) -> Blocks:
        for batch in batches:
            for packed in batch.column("groups").to_pylist():
                for path, groups in groupby(pickle.loads(packed), attrgetter("path")):
                    with _open(path, self.mentioned) as file:  # once: of many groups the footer is long
                        yield from self._read(file, groups)

    def _read(self, file: pq.ParquetFile, groups: Iterable[RowGroup]) -> Blocks:
        wanted = {*self.mentioned, *(name for name, _ in self.carried)}
        columns = [name for name in flat_schema(file.schema_arrow).names if name in wanted]
        for group in groups:
            row, end = group.first_row - group.skipped, group.first_row + group.rows
            for batch in file.iter_batches(_ROWS, row_groups=[group.number], columns=columns, use_threads=False):
                first, last = max(row, group.first_row), min(row + batch.num_rows, end)
                if first < last:
                    yield self._block(_flat(batch.slice(first - row, last - first)), first, last - first)
                row += batch.num_rows
                if row >= end:
                    break

    def _block(self, flat: dict[str, pa.Array], first_row: int, count: int) -> Block:
        names = [name for name in self.mentioned if name in flat]
        # Without a column a batch has no length: hence the nameless one that no condition can mention.
        events = [flat[name] for name in names] or [pa.nulls(count)]
        carried = [_as(flat.get(name), kind, count) for name, kind in self.carried]
        shown = [name for name, _ in self.carried]
        if self.numbered:
            carried.insert(0, pa.array(np.arange(first_row, first_row + count)))
            shown.insert(0, "row")
        return Block(pa.RecordBatch.from_arrays(events, names or [""]), pa.RecordBatch.from_arrays(carried, shown))


def _open(path: str, mentioned: Sequence[str]) -> pq.ParquetFile:
    about = pq.read_metadata(path)
    here = {about.schema.column(at).path for at in range(about.num_columns)}
    return pq.ParquetFile(
        path,
        metadata=about,
        # Texts stay as the file has them, each distinct one once: that is also how the matcher wants them.
        read_dictionary=[name for name in mentioned if name in here],
        memory_map=True,
        pre_buffer=False,
        coerce_int96_timestamp_unit="us",
    )


def _flat(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    while any(pa.types.is_struct(field.type) for field in batch.schema):
        batch = _once(batch)
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _once(batch: pa.RecordBatch) -> pa.RecordBatch:
    names: list[str] = []
    columns: list[pa.Array] = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_struct(field.type):
            names += [each.name for each in field.flatten()]
            columns += column.flatten()
        else:
            names.append(field.name)
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names)


def _as(column: pa.Array | None, kind: pa.DataType, count: int) -> pa.Array:
    if column is None:
        return pa.nulls(count, kind)
    # Not safe: a timestamp finer than a microsecond is rounded down, as the matcher does.
    return column if column.type == kind else column.cast(kind, safe=False)
