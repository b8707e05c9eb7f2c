"""What a Parquet file consists of beside its values: headers of pages and the footer, in Thrift's compact protocol.

Only what `pair_file` writes: flat columns of numbers, times and texts, compressed pages behind a dictionary, statistics
of integers. Numbers of fields and kinds are those of the format's own `parquet.thrift`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from holdfast import __version__

MAGIC = b"PAR1"
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8
_ZSTD = 6
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_TRUE, _FALSE, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 5, 6, 8, 9, 12  # types of Thrift's fields
_REQUIRED, _OPTIONAL = 0, 1

_Field = tuple[int, int, bytes]  # number, type, value


class ColumnType(NamedTuple):
    """A column's type: how its values are stored, and what they mean."""

    physical: int
    converted: int | None = None
    logical: bytes | None = None


class FileColumn(NamedTuple):
    name: str
    kind: ColumnType
    nullable: bool


class ColumnChunk(NamedTuple):
    """The pages of a column in one row group, where they stand in the file, and what they hold."""

    start: int
    first_data: int  # where the first page behind the dictionary stands
    raw: int  # bytes before compression, headers included, as the format counts them
    packed: int
    values: int
    nulls: int
    least: bytes | None
    greatest: bytes | None


class PageSize(NamedTuple):
    values: int
    raw: int  # bytes before compression
    packed: int


def dictionary_page(page: PageSize) -> bytes:
    return _page(_DICTIONARY_PAGE, page, (7, _STRUCT, _struct(_i32(1, page.values), _i32(2, _PLAIN))))


def data_page(page: PageSize) -> bytes:
    about = _struct(_i32(1, page.values), _i32(2, _RLE_DICTIONARY), _i32(3, _RLE), _i32(4, _RLE))
    return _page(_DATA_PAGE, page, (5, _STRUCT, about))


def footer(columns: Sequence[FileColumn], groups: Sequence[Sequence[ColumnChunk]]) -> bytes:
    """Everything behind the last page."""
    rows = [group[0].values for group in groups]
    schema = [_struct((4, _BINARY, _text("schema")), _i32(5, len(columns))), *map(_element, columns)]
    about = _struct(
        _i32(1, 2),
        _list(2, _STRUCT, schema),
        _i64(3, sum(rows)),
        _list(4, _STRUCT, [_group(columns, each) for each in groups]),
        (6, _BINARY, _text(f"holdfast version {__version__} (build 0)")),
        # By the order of their type: without it nobody believes the least and greatest values.
        _list(7, _STRUCT, [_struct((1, _STRUCT, _struct()))] * len(columns)),
    )
    return about + len(about).to_bytes(4, "little") + MAGIC


def kind_of(kind: pa.DataType) -> ColumnType | None:
    """None for a type that is not written here."""
    if pa.types.is_timestamp(kind):
        return _TIMES[kind.tz is not None] if kind.unit == "us" else None
    return _KINDS.get(kind)


def _page(kind: int, page: PageSize, about: _Field) -> bytes:
    return _struct(_i32(1, kind), _i32(2, page.raw), _i32(3, page.packed), about)


def _element(column: FileColumn) -> bytes:
    physical, converted, logical = column.kind
    fields = [
        _i32(1, physical),
        _i32(3, _OPTIONAL if column.nullable else _REQUIRED),
        (4, _BINARY, _text(column.name)),
    ]
    if converted is not None:
        fields.append(_i32(6, converted))
    if logical is not None:
        fields.append((10, _STRUCT, logical))
    return _struct(*fields)


def _group(columns: Sequence[FileColumn], chunks: Sequence[ColumnChunk]) -> bytes:
    return _struct(
        _list(1, _STRUCT, [_chunk(*each) for each in zip(columns, chunks, strict=True)]),
        _i64(2, sum(each.raw for each in chunks)),
        _i64(3, chunks[0].values),
    )


def _chunk(column: FileColumn, chunk: ColumnChunk) -> bytes:
    statistics = [_i64(3, chunk.nulls)]
    if chunk.least is not None and chunk.greatest is not None:
        statistics += [(5, _BINARY, _bytes(chunk.greatest)), (6, _BINARY, _bytes(chunk.least))]
    about = _struct(
        _i32(1, column.kind.physical),
        _list(2, _I32, [_zigzag(each) for each in (_PLAIN, _RLE, _RLE_DICTIONARY)]),
        _list(3, _BINARY, [_text(column.name)]),
        _i32(4, _ZSTD),
        _i64(5, chunk.values),
        _i64(6, chunk.raw),
        _i64(7, chunk.packed),
        _i64(9, chunk.first_data),
        _i64(11, chunk.start),
        (12, _STRUCT, _struct(*statistics)),
    )
    return _struct(_i64(2, chunk.start), (3, _STRUCT, about))


def _struct(*fields: _Field) -> bytes:
    """A header is the step from the field before, which is never more than 15 here, and the type."""
    parts, before = [], 0
    for number, kind, value in fields:
        parts += [bytes([(number - before) << 4 | kind]), value]
        before = number
    return b"".join([*parts, b"\0"])


def _list(number: int, kind: int, items: Sequence[bytes]) -> _Field:
    size = len(items)
    head = bytes([size << 4 | kind]) if size < 15 else bytes([0xF0 | kind]) + varint(size)
    return number, _LIST, head + b"".join(items)


def _i32(number: int, value: int) -> _Field:
    return number, _I32, _zigzag(value)


def _i64(number: int, value: int) -> _Field:
    return number, _I64, _zigzag(value)


def _text(text: str) -> bytes:
    return _bytes(text.encode())


def _bytes(value: bytes) -> bytes:
    return varint(len(value)) + value


def _zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


_INT32, _INT64, _FLOAT, _DOUBLE, _BYTES = 1, 2, 4, 5, 6
_UTF8, _DATE, _MICROS, _INT_8, _INT_16 = 0, 6, 10, 15, 16
_MICROS_UNIT = _struct((2, _STRUCT, _struct()))
_TIMES = {
    is_utc: ColumnType(
        _INT64,
        _MICROS if is_utc else None,
        _struct((8, _STRUCT, _struct((1, _TRUE if is_utc else _FALSE, b""), (2, _STRUCT, _MICROS_UNIT)))),
    )
    for is_utc in (True, False)
}
_KINDS = {
    pa.int8(): ColumnType(_INT32, _INT_8),
    pa.int16(): ColumnType(_INT32, _INT_16),
    pa.int32(): ColumnType(_INT32),
    pa.int64(): ColumnType(_INT64),
    pa.float32(): ColumnType(_FLOAT),
    pa.float64(): ColumnType(_DOUBLE),
    pa.date32(): ColumnType(_INT32, _DATE),
    pa.string(): ColumnType(_BYTES, _UTF8),
    pa.large_string(): ColumnType(_BYTES, _UTF8),
    pa.binary(): ColumnType(_BYTES),
}
