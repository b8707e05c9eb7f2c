"""Rows of a Parquet or JSON Lines file, one after the other, so that a file of any length takes little memory."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.model.errors import InputError

SUFFIXES = (".parquet", ".jsonl", ".ndjson")
_BATCH_ROWS = 4_096  # rows of a Parquet file that are Python objects at one time: a few megabytes

Row = dict[str, Any]


def rows(path: str) -> Iterator[tuple[str, Row]]:
    """Each row with its place, for messages."""
    return _parquet_rows(path) if path.endswith(".parquet") else _json_rows(path)


def columns(path: str) -> list[str]:
    """The columns of a Parquet file; of JSON Lines, the names in the first row."""
    if path.endswith(".parquet"):
        return list(_open_parquet(path).schema_arrow.names)
    for _, row in _json_rows(path):
        return list(row)
    return []


def _json_rows(path: str) -> Iterator[tuple[str, Row]]:
    name = Path(path).name
    with open(path, encoding="utf-8") as lines:
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield f"{name}, line {number}", _json_object(line, f"{name}, line {number}")
        except UnicodeDecodeError as error:
            raise InputError(f"{name}: not UTF-8 text ({error.reason}); JSON Lines are written in UTF-8") from None


def _json_object(line: str, place: str) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f'{place}: not JSON ({error}); write one object a line, such as {{"price": 99.5}}') from None
    if not isinstance(row, dict):
        raise InputError(f"{place}: expected a JSON object, found {type(row).__name__}")
    return row


def _parquet_rows(path: str) -> Iterator[tuple[str, Row]]:
    import pyarrow as pa  # noqa: PLC0415  # only who reads Parquet waits for Arrow

    name, number = Path(path).name, 0
    try:
        for batch in _open_parquet(path).iter_batches(batch_size=_BATCH_ROWS):
            for row in _without_nanoseconds(batch).to_pylist():
                number += 1
                yield f"{name}, row {number}", row
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{name}: cannot be read as Parquet after row {number} ({error})") from None


def _open_parquet(path: str) -> Any:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    try:
        return ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{Path(path).name}: cannot be read as Parquet ({error})") from None


def _without_nanoseconds(batch: Any) -> Any:
    """Python's datetime has microseconds; without this Arrow would ask for pandas."""
    import pyarrow as pa  # noqa: PLC0415

    kept = [
        pa.field(each.name, pa.timestamp("us", each.type.tz))
        if pa.types.is_timestamp(each.type) and each.type.unit == "ns"
        else each
        for each in batch.schema
    ]
    return pa.Table.from_batches([batch]).cast(pa.schema(kept), safe=False)
