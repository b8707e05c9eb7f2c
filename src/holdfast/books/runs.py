"""Read a run's trace back: its tables, and the events as they were published."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.books import format2
from holdfast.books.trace import ADDED, FORMAT, SCHEMAS, TYPE_NAMES
from holdfast.model.errors import InputError

_PREFIX = "attr:"
FORMATS = (format2.FORMAT, FORMAT)


def unreadable(found: object) -> str:
    readable = " and ".join(map(str, FORMATS))
    return f"written in format {found}, this version reads {readable}; see docs/compatibility.md"


class Run:
    """The trace of a run, read from its folder; `about` is the row of its table `run`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / "run").is_dir():
            raise InputError(f"{folder}: no run here; `holdfast sim NET --out {folder}` makes one")
        self.about: dict[str, Any] = self._read("run").to_pylist()[0]
        if self.about["format"] not in FORMATS:
            raise InputError(f"{folder}: {unreadable(self.about['format'])}")

    def table(self, name: str) -> pa.Table:
        """One of the trace's tables, all of it; in an older trace with the columns of today."""
        if self.about["format"] == format2.FORMAT:
            return format2.upgraded(name, self._read)
        table = self._read(name)
        for column in ADDED.get(name, set()) - set(table.column_names):
            table = table.append_column(column, pa.nulls(table.num_rows, SCHEMAS[name].field(column).type))
        return table

    def _read(self, name: str) -> pa.Table:
        parts = sorted((self.folder / name).glob("*.parquet"))
        if not parts:
            raise InputError(f"{self.folder}: the table {name} is missing")
        try:
            # An attribute that turned up late has no column in the first parts.
            return pa.concat_tables([pq.read_table(part) for part in parts], promote_options="default")
        except (pa.ArrowInvalid, OSError) as problem:
            raise InputError(f"{self.folder}: the table {name} cannot be read ({problem})") from None

    def events(self) -> Iterator[tuple[pa.Array, pa.Table]]:
        """The publications' attributes under their own names, with the row numbers in `publications`.

        Usually one table. An attribute with values of several types has several columns; rows are then
        grouped so that in each table it has one.
        """
        publications = self.table("publications")
        names = [name for name in publications.column_names if name.startswith(_PREFIX)]
        first = {attribute_of(name): name for name in reversed(names)}
        others = [name for name in names if first[attribute_of(name)] != name]
        rows = pa.array(range(publications.num_rows), pa.int64())
        if not others:
            yield rows, _renamed(publications, names)
            return
        kinds = [pc.is_valid(publications[name]) for name in others]
        code = pc.cast(kinds[0], pa.int64())
        for place, kind in enumerate(kinds[1:], 1):
            code = pc.add(code, pc.multiply(pc.cast(kind, pa.int64()), 2**place))
        for each in pc.unique(code).to_pylist():
            chosen = pc.equal(code, each)
            used = [name for place, name in enumerate(others) if each >> place & 1]
            hidden = {attribute_of(name) for name in used}
            kept = [name for name in names if name not in others and attribute_of(name) not in hidden]
            yield rows.filter(chosen.combine_chunks()), _renamed(publications.filter(chosen), kept + used)


def attribute_of(column: str) -> str:
    """The attribute of a column `attr:NAME` or `attr:NAME:TYPE`."""
    name = column[len(_PREFIX) :]
    head, colon, kind = name.rpartition(":")
    return head if colon and kind in TYPE_NAMES else name


def _renamed(publications: pa.Table, columns: list[str]) -> pa.Table:
    return publications.select(columns).rename_columns([attribute_of(name) for name in columns])


def same_bytes(one: Path, other: Path) -> list[str]:
    """The files in which two runs differ; none when they are the same to the byte."""
    names = sorted({str(path.relative_to(run)) for run in (one, other) for path in run.rglob("*.parquet")})
    return [name for name in names if _bytes(one / name) != _bytes(other / name)]


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
