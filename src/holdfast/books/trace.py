"""The trace: what a run leaves behind, as Parquet tables that anyone can read.

One folder per run, one folder per table (`RUN/TABLE/*.parquet`). Rows are collected and written in batches, so memory
stays flat however long the run. Times are integer microseconds. The simulator and live networks write the same
tables, and promises are checked on nothing else. Used as a context, a writer takes everything back when the run fails.

A trace that grows can be audited meanwhile (`holdfast audit --follow`): its writer is flushed now and then, and adds
which subscriptions have begun, and a mark behind each flush. Parts appear at once, complete.

An attribute of a publication is a column `attr:NAME` of the first type seen for it; values of another type go into
`attr:NAME:TYPE`, so that no value is ever converted. A name that itself ends in `:TYPE` always gets its type behind it.
"""

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.model.errors import InputError, MisuseError
from holdfast.model.incidents import KINDS
from holdfast.model.messages import Publication

FORMAT = 3
ROWS_MAX = 50_000  # per table and batch: a few MB in memory, and files that are neither many nor huge

_text, _long = pa.string(), pa.int64()
SCHEMAS: dict[str, pa.Schema] = {
    "subscriptions": pa.schema(
        [("subscriber", _text), ("id", _text), ("condition", _text), ("from_us", _long), ("until_us", _long)]
    ),
    "deliveries": pa.schema(
        [
            ("subscriber", _text),
            ("source", _text),
            ("seq", _long),
            ("time_us", _long),
            ("via", _text),
            ("held_us", _long),
        ]
    ),
    "messages": pa.schema(
        [
            ("node", _text),
            ("kind", _text),
            ("from_us", _long),
            ("until_us", _long),
            ("sent", _long),
            ("sent_bytes", _long),
            ("lost", _long),
            ("received", _long),
        ]
    ),
    "links": pa.schema(
        [
            ("node", _text),
            ("peer", _text),
            ("from_us", _long),
            ("until_us", _long),
            ("sent", _long),
            ("sent_bytes", _long),
            ("lost", _long),
        ]
    ),
    "incidents": pa.schema(
        [
            ("node", _text),
            ("time_us", _long),
            ("kind", _text),  # one of model/incidents.py
            ("peer", _text),
            ("other", _text),
            ("source", _text),
            ("first", _long),
            ("count", _long),
            ("reason", _text),  # prose for people: nobody parses it
            ("copying", _text),
            ("since_us", _long),
        ]
    ),
    "samples": pa.schema(
        [("node", _text), ("time_us", _long), ("name", _text), ("value", pa.float64()), ("limit", pa.float64())]
    ),
}
# Of traces that grow. A subscription has its row when it ends; until then there is what has begun. A mark says up to
# when everything is written, and how many parts of each table (JSON) were written before it.
GROWING: dict[str, pa.Schema] = {
    "begun": pa.schema([("subscriber", _text), ("id", _text), ("condition", _text), ("from_us", _long)]),
    "marks": pa.schema([("time_us", _long), ("ended", pa.bool_()), ("parts", _text)]),
}
ADDED = {"incidents": {"since_us"}}  # columns that traces of format 3 may lack: 0.2.0 did not have them
_KIND = SCHEMAS["incidents"].get_field_index("kind")
PUBLICATION = [("source", _text), ("seq", _long), ("time_us", _long), ("lifetime_us", _long), ("bytes", _long)]
_TYPES: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    datetime: pa.timestamp("us", "UTC"),
}
ATTRIBUTE_TYPES = (*_TYPES.values(), pa.uint64(), *(pa.list_(each) for each in (*_TYPES.values(), pa.uint64())))


def _type_name(kind: pa.DataType) -> str:
    """As it stands behind a column's name: `string[]` for a list, which to Arrow is `list<item: string>`."""
    return f"{kind.value_type}[]" if pa.types.is_list(kind) else str(kind)


def _type_of(value: Any) -> pa.DataType:
    """The column that holds a value exactly; an empty list goes with lists of strings."""
    if type(value) is not list:
        return pa.uint64() if type(value) is int and value >= 2**63 else _TYPES[type(value)]
    kinds = {_type_of(each) for each in value if each is not None}
    widest = next((each for each in (pa.float64(), pa.uint64()) if each in kinds), None)
    return pa.list_(widest or next(iter(kinds), pa.string()))


TYPE_NAMES = frozenset(map(_type_name, ATTRIBUTE_TYPES))


class TraceWriter:
    def __init__(self, folder: Path, about: Mapping[str, Any], overwrite: bool = False, grows: bool = False) -> None:
        self._folder = folder
        self._grows = grows
        self._is_ours = not folder.exists()
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in (*SCHEMAS, *(GROWING if grows else ()))}
        self._files: dict[str, int] = {}
        self._publications: list[tuple[Publication, int]] = []
        self._attributes: dict[str, pa.DataType] = {}  # column -> its type, fixed by the first value
        run = {"format": FORMAT, **about}
        try:
            _empty_folder(folder, overwrite)
            self._write("run", pa.table({name: [_plain(value)] for name, value in run.items()}))
            if grows:
                self._flush("begun")  # from the beginning, a reader sees that this trace grows
        except BaseException:  # an interrupt, too, leaves nothing behind
            self._discard()
            raise

    def add(self, table: str, *row: Any) -> None:
        rows = self._rows[table]
        rows.append(row)
        if len(rows) >= ROWS_MAX:
            self._flush(table)

    def add_all(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        self._rows[table] += rows
        if len(self._rows[table]) >= ROWS_MAX:
            self._flush(table)

    def publication(self, publication: Publication, size: int) -> None:
        self._publications.append((publication, size))
        if len(self._publications) >= ROWS_MAX:
            self._flush_publications()

    def begun(self, subscriber: str, id_: str, condition: str, from_us: int) -> None:
        if self._grows:
            self.add("begun", subscriber, id_, condition, from_us)

    def mark(self, time_us: int, ended: bool = False) -> None:
        """Write what there is, and say that everything up to this time is there."""
        self._flush_publications()
        for table in self._rows:
            if table != "marks":
                self._flush(table)
        self.add("marks", time_us, ended, json.dumps({name: self._files[name] for name in sorted(self._files)}))
        self._flush("marks")

    def close(self, time_us: int = 0) -> None:
        if self._grows:
            self.mark(time_us, ended=True)
            return
        self._flush_publications()
        for table in self._rows:
            self._flush(table)

    def __enter__(self) -> "TraceWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self._grows:  # what others have read already stays
            self._discard()

    def _discard(self) -> None:
        """Half a run is no run: whoever finds one would draw conclusions from it."""
        for table in self._files:
            shutil.rmtree(self._folder / table, ignore_errors=True)
        if self._is_ours:
            with suppress(OSError):  # somebody has put something else there
                self._folder.rmdir()

    def _flush(self, table: str) -> None:
        rows, self._rows[table] = self._rows[table], []
        if table == "incidents" and (unknown := sorted({row[_KIND] for row in rows} - KINDS.keys())):
            raise MisuseError(f"no kinds of incidents: {', '.join(unknown)}; model/incidents.py has the list")
        if rows or table not in self._files:
            schema = SCHEMAS.get(table) or GROWING[table]
            columns = list(zip(*rows, strict=True)) or [()] * len(schema)
            arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
            self._write(table, pa.Table.from_arrays(arrays, schema=schema))

    def _flush_publications(self) -> None:
        rows, self._publications = self._publications, []
        if not rows and "publications" in self._files:
            return
        fixed = [(p.source, p.seq, p.time_us, p.lifetime_us, size) for p, size in rows]
        columns = list(zip(*fixed, strict=True)) or [()] * len(PUBLICATION)
        data: dict[str, pa.Array] = {
            name: pa.array(column, kind) for column, (name, kind) in zip(columns, PUBLICATION, strict=True)
        }
        values: dict[str, list[Any]] = {}
        for at, (publication, _) in enumerate(rows):
            for name, value in publication.attributes.items():
                if value is not None:
                    column = self._column(name, value)
                    values.setdefault(column, [None] * len(rows))[at] = value
        for column, kind in self._attributes.items():
            data[column] = pa.array(values[column], kind) if column in values else pa.nulls(len(rows), kind)
        self._write("publications", pa.table(data))

    def _column(self, attribute: str, value: Any) -> str:
        kind = _type_of(value)
        column = f"attr:{attribute}"
        ambiguous = attribute.rpartition(":")[2] in TYPE_NAMES
        if ambiguous or self._attributes.setdefault(column, kind) != kind:
            column = f"{column}:{_type_name(kind)}"
            self._attributes.setdefault(column, kind)
        return column

    def _write(self, table: str, data: pa.Table) -> None:
        part = self._files.get(table, 0)
        self._files[table] = part + 1
        folder = self._folder / table
        folder.mkdir(parents=True, exist_ok=True)
        # No statistics about when or by whom: the same run must give the same bytes.
        place = folder / f"part-{part:05}.parquet"
        pq.write_table(data, draft := place.with_name(f".{place.name}"), compression="zstd", store_schema=True)
        draft.rename(place)


_TABLES = frozenset({"run", "publications", *SCHEMAS})


def _empty_folder(folder: Path, overwrite: bool) -> None:
    """An empty folder for a run. Only what is certainly an old run is ever removed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = sorted(folder.iterdir())
        foreign = [
            path.name for path in there if path.name not in _TABLES | GROWING.keys() or not _holds_only_parquet(path)
        ]
        if foreign:
            raise InputError(f"{folder} holds what is not part of a run: {', '.join(foreign[:3])}; name another folder")
        if there and not overwrite:
            what = "a run" if {path.name for path in there} >= _TABLES else "a run that was cut off"
            raise InputError(f"{folder} holds {what} already; name another folder, or give --overwrite to replace it")
        for path in there:
            shutil.rmtree(path)
    except OSError as problem:
        raise InputError(f"{folder}: cannot be written ({problem.strerror or problem})") from None


def _holds_only_parquet(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and all(part.suffix == ".parquet" for part in path.iterdir())


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool)) or value is None else json.dumps(value)
