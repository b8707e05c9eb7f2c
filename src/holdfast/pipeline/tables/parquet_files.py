"""Parquet files that are to become part of a table: their columns, their rows, and what a table cannot hold."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.model.errors import InputError

_SHOWN_MAX = 5  # columns that an error names


class DataFile(NamedTuple):
    path: Path
    rows: int
    bytes: int
    lowest: dict[str, Any]  # of columns of integers: what a reader may skip a file by
    highest: dict[str, Any]


class DataFiles(NamedTuple):
    schema: pa.Schema
    files: tuple[DataFile, ...]  # those with rows


def data_files(paths: Sequence[Path], table: str) -> DataFiles:
    """What the footers say. Types that Delta Lake and Iceberg do not both have are refused."""
    if not paths:
        raise InputError(f"{table}: there is nothing to write, not even columns")
    footers = [(path, pq.read_metadata(path)) for path in sorted(paths)]
    schema = pa.schema([field.with_nullable(True) for field in footers[0][1].schema.to_arrow_schema()])
    unfit = [f"{field.name} is {field.type}" for field in schema if not _fits(field.type)]
    if unfit:
        raise InputError(f"{table}: a table cannot hold these columns: {', '.join(unfit[:_SHOWN_MAX])}; cast them")
    files = [_data_file(path, footer) for path, footer in footers if footer.num_rows]
    return DataFiles(schema.remove_metadata(), tuple(files))


def _fits(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _fits(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_fits(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _fits(kind.key_type) and _fits(kind.item_type)
    if pa.types.is_timestamp(kind):
        return kind.unit != "ns"
    unfit = (pa.types.is_unsigned_integer, pa.types.is_null, pa.types.is_time, pa.types.is_duration)
    return not (any(is_one(kind) for is_one in unfit) or pa.types.is_float16(kind))


def _data_file(path: Path, footer: pq.FileMetaData) -> DataFile:
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    for at in range(footer.num_columns):
        groups = [footer.row_group(each).column(at) for each in range(footer.num_row_groups)]
        known = [each.statistics for each in groups if each.statistics is not None and each.statistics.has_min_max]
        if groups[0].physical_type == "INT64" and groups[0].path_in_schema in footer.schema.names:
            if len(known) == len(groups) and all(type(each.min) is int for each in known):
                lowest[groups[0].path_in_schema] = min(each.min for each in known)
                highest[groups[0].path_in_schema] = max(each.max for each in known)
    return DataFile(path, footer.num_rows, path.stat().st_size, lowest, highest)


def refuse_other_columns(table: str, there: pa.Schema, new: pa.Schema) -> None:
    """A table keeps the columns that it has: its readers know them."""
    old, fresh = _named_types(there), _named_types(new)
    if old == fresh:
        return
    odd = [name for name in {**old, **fresh} if old.get(name) != fresh.get(name)]
    words = [f"{name}: {old.get(name, 'none')} there, {fresh.get(name, 'none')} in the result" for name in odd]
    raise InputError(
        f"{table}: this table has other columns than the result ({'; '.join(words[:_SHOWN_MAX])}); name another place"
    )


def _named_types(schema: pa.Schema) -> dict[str, str]:
    return {field.name: _plain(field.type) for field in schema}


def _plain(kind: pa.DataType) -> str:
    """A type in words in which the spellings of different libraries are one."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list of {_plain(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "struct of " + ", ".join(f"{field.name} {_plain(field.type)}" for field in kind)
    if pa.types.is_map(kind):
        return f"map of {_plain(kind.key_type)} to {_plain(kind.item_type)}"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp without zone"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return "binary"
    return str(kind)
