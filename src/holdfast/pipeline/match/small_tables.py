"""Small tables without Spark: read as Spark would read them, or left to it where that is not certain.

Spark guesses the types of JSONL and CSV. Where all lines of a JSONL file agree there is one answer, and it is made
here. A column that holds numbers in one line and texts in another, and all of CSV, are Spark's to read.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Never

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.model.errors import InputError
from holdfast.pipeline.match.event_files import files_of, format_of, is_remote, local_path, name_columns
from holdfast.pipeline.match.event_files import refuse_malformed as refuse_malformed_in
from holdfast.pipeline.match.subscriptions_table import check_kinds, from_toml, newest_entry

LINES_BYTES_MAX = 32 << 20  # of JSONL, which becomes Python objects: a second's work, and 300 MB
SUBSCRIPTIONS_MAX = 100_000  # three seconds to parse, as long as Spark takes to start
_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
_SPARK_NAMES = {pa.string(): "string", pa.large_string(): "string", pa.int64(): "bigint", pa.int32(): "int"}
_INT_MAX = 2**63 - 1
_Name = tuple[str, ...]  # of a field within objects


class NeedsSparkError(InputError):
    """A table that is not for the embedded engine, and why."""


def event_files_of(path: str, form: str | None, scratch: Path) -> list[Path]:
    """The events' Parquet files; of JSONL, one that is made in the folder `scratch`."""
    files = _local_files(path, path)
    if name_columns(path, files):
        raise NeedsSparkError(f"{path}: the names of folders hold columns")
    form = form or format_of(path, files)
    if form == "parquet":
        return files
    made = scratch / "events.parquet"
    pq.write_table(_table_of_lines(path, form, files), made)
    return [made]


def subscription_rows(path: str) -> pa.Table:
    """A table of subscriptions, of its newest version."""
    place = str(newest_entry(local_path(path))) if not is_remote(path) else path
    if place.endswith(".toml"):
        rows = from_toml(Path(place))
        columns = {"id": [id_ for id_, _ in rows], "condition": [condition for _, condition in rows]}
        return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    files = _local_files(path, place)
    form = format_of(place, files)
    if form == "parquet" and (len(files) != 1 or pq.read_metadata(files[0]).num_rows > SUBSCRIPTIONS_MAX):
        raise NeedsSparkError(f"{path}: more than {SUBSCRIPTIONS_MAX:,} subscriptions, or several files")
    table = pq.read_table(files[0]) if form == "parquet" else _table_of_lines(place, form, files)
    if table.num_rows > SUBSCRIPTIONS_MAX:
        raise NeedsSparkError(f"{path}: more than {SUBSCRIPTIONS_MAX:,} subscriptions")
    if "version" in table.column_names:
        raise NeedsSparkError(f"{path}: a column version, of which the newest rows count")
    check_kinds({field.name: _SPARK_NAMES.get(field.type, str(field.type)) for field in table.schema})
    return table.select(["id", "condition"])


def _local_files(path: str, place: str) -> list[Path]:
    if is_remote(path):
        raise NeedsSparkError(f"{path}: only Spark's file systems reach it")
    return files_of(place)


def _table_of_lines(path: str, form: str, files: Sequence[Path]) -> pa.Table:
    if form != "jsonl":
        raise NeedsSparkError(f"{path}: {form} has no types, and Spark guesses them")
    if sum(each.stat().st_size for each in files) > LINES_BYTES_MAX:
        raise NeedsSparkError(f"{path}: more than {LINES_BYTES_MAX >> 20} MiB of JSONL")
    columns: dict[_Name, list[Any]] = {}
    rows = 0
    for each in _objects(path, files):
        for name, value in _leaves(each):
            column = columns.setdefault(name, [])
            column += [None] * (rows - len(column))
            column.append(value)
        rows += 1
    return _arrow(path, columns, rows)


def _objects(path: str, files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        with file.open("rb") as lines:
            for line in filter(None, map(bytes.strip, lines)):
                try:
                    found = json.loads(line, parse_constant=_refuse_constant)
                except (ValueError, RecursionError):
                    refuse_malformed_in([file])
                    raise NeedsSparkError(f"{file}: not plain JSONL") from None
                if not isinstance(found, dict):
                    raise NeedsSparkError(f"{path}: a line that is not an object")
                yield found


def _refuse_constant(word: str) -> Never:
    raise NeedsSparkError(f"{word} is not JSON")


def _leaves(found: dict[str, Any]) -> Iterator[tuple[_Name, Any]]:
    pending: list[tuple[_Name, Any]] = [((name,), value) for name, value in found.items()]
    while pending:
        name, value = pending.pop()
        if isinstance(value, dict) and value:
            pending += [((*name, each), inner) for each, inner in value.items()]
        else:
            yield name, value


def _arrow(path: str, columns: dict[_Name, list[Any]], rows: int) -> pa.Table:
    """Columns in the order of their names, as Spark has them."""
    objects = {name[:depth] for name in columns for depth in range(1, len(name))}
    found: dict[str, pa.Array] = {}
    for name, values in sorted(columns.items()):
        shown = ".".join(name)
        if name in objects and all(each is None for each in values):
            continue  # an object that is null here and there
        if name in objects or shown.lower() in {each.lower() for each in found}:
            raise NeedsSparkError(f"{path}: {shown} is given in two ways")
        values += [None] * (rows - len(values))
        try:
            found[shown] = pa.array(values, _type_of(path, shown, values))
        except (pa.ArrowException, UnicodeEncodeError, OverflowError):
            raise NeedsSparkError(f"{path}: {shown} holds what Arrow does not") from None
    return pa.table(found)


def _type_of(path: str, name: str, values: list[Any]) -> pa.DataType:
    kinds = {type(each) for each in values if each is not None}
    if kinds == {list}:
        elements = [each for value in values if value is not None for each in value]
        return pa.list_(_scalar_type(path, name, elements))
    return _scalar_type(path, name, values)


def _scalar_type(path: str, name: str, values: list[Any]) -> pa.DataType:
    kinds = {type(each) for each in values if each is not None}
    if kinds == {int, float}:
        kinds = {float}
    if len(kinds) > 1 or not kinds <= _TYPES.keys():
        raise NeedsSparkError(f"{path}: {name} holds values of several kinds")
    if kinds == {int} and not all(each is None or -_INT_MAX <= each <= _INT_MAX for each in values):
        raise NeedsSparkError(f"{path}: {name} holds integers of more than 64 bits")
    return _TYPES[kinds.pop()] if kinds else pa.string()
