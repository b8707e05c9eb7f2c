"""What a run's files say of themselves: read from their footers, before an engine is even started; where Spark was
asked for and files are many, in its tasks.

A footer is a few hundred bytes at the end of a Parquet file and holds its columns and the number of its rows. So an
unfinished, damaged or foreign run is refused in a moment, with all its problems at once; the engine is handed the
schema instead of looking for it; and the caller knows how large the work is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.books import format2
from holdfast.books.runs import FORMATS, unreadable
from holdfast.books.trace import ADDED, ATTRIBUTE_TYPES, FORMAT, PUBLICATION, SCHEMAS
from holdfast.model.errors import InputError
from holdfast.pipeline.match.subscriptions_table import InvalidSubscriptionsError

ATTRIBUTE = "attr:"
_EXPECTED: dict[int, dict[str, pa.Schema]] = {
    FORMAT: {"publications": pa.schema(PUBLICATION), **SCHEMAS},
    format2.FORMAT: {"publications": pa.schema(PUBLICATION), **format2.SCHEMAS},
}


@dataclass(frozen=True)
class RunFooters:
    """What the footers of one run's tables say."""

    label: str
    folder: Path
    about: dict[str, Any]
    schemas: dict[str, pa.Schema]
    parts: dict[str, dict[str, int]]  # how many rows each file has, in the order in which they were written

    @property
    def rows(self) -> dict[str, int]:
        return {name: sum(parts.values()) for name, parts in self.parts.items()}


Looked: TypeAlias = "pq.FileMetaData | str"  # or what is wrong with the file


def look(path: Path) -> Looked:
    try:
        return pq.read_metadata(path)
    except (pa.ArrowInvalid, OSError) as problem:
        return _one_line(problem)


def look_here(paths: Sequence[Path]) -> list[Looked]:
    return [look(each) for each in paths]


def read_footers(
    folders: Sequence[Path], looked_at: Callable[[Sequence[Path]], list[Looked]] = look_here
) -> list[RunFooters]:
    """The runs in these folders, or one InputError with everything that is wrong with any of them."""
    problems: list[str] = []
    twice = sorted({str(folder) for folder in folders if folders.count(folder) > 1})
    if twice:
        problems.append(f"{', '.join(twice)}: given twice; name each run once")
    named = zip(folders, labels(folders), strict=True)
    found = [_footers(folder, label, looked_at, problems) for folder, label in named]
    if problems:
        raise InputError("\n".join(problems))
    return [each for each in found if each is not None]


def labels(folders: Sequence[Path]) -> list[str]:
    """What to call the runs: by their folders' names, or by their paths where two have the same."""
    names = [folder.resolve().name for folder in folders]
    return [name if names.count(name) == 1 else str(folder) for name, folder in zip(names, folders, strict=True)]


def damaged(folder: Path, error: InvalidSubscriptionsError) -> InputError:
    """A trace whose conditions cannot be parsed, though a run has accepted them."""
    return InputError(f"{folder}: damaged, {error.number} not valid; by their rows in the table:\n{error.listed}")


def _footers(
    folder: Path, label: str, looked_at: Callable[[Sequence[Path]], list[Looked]], problems: list[str]
) -> RunFooters | None:
    about = _about(folder, problems)
    if about is None:
        return None
    expected = _EXPECTED[about["format"]]
    parts = {name: sorted((folder / name).glob("*.parquet")) for name in expected}
    missing = [name for name, found in parts.items() if not found]
    if missing:
        problems.append(
            f"{folder}: the run is not finished, there is no table {', '.join(missing)}; "
            "tables are complete when `holdfast sim` or `holdfast up` has ended"
        )
        return None
    schemas: dict[str, pa.Schema] = {}
    sizes: dict[str, dict[str, int]] = {}
    every = [path for paths in parts.values() for path in paths]
    looked = dict(zip(every, looked_at(every), strict=True))
    for name, paths in parts.items():
        known = _readable({path: looked[path] for path in paths}, problems)
        _refuse_other_columns(folder / name, known, expected[name].names, problems)
        sizes[name] = {part: each.num_rows for part, each in known.items()}
        found_schemas = [each.schema.to_arrow_schema() for each in known.values()]
        merged = _merged(folder, name, found_schemas, expected[name], problems)
        if merged is not None:
            schemas[name] = merged
    return RunFooters(label, folder, about, schemas, sizes)


def _refuse_other_columns(
    table: Path, parts: dict[str, pq.FileMetaData], expected: list[str], problems: list[str]
) -> None:
    """A file that lacks a column which the others have would be read as nulls."""
    names = {part: set(about.schema.to_arrow_schema().names) for part, about in parts.items()}
    common = [column for column in expected if any(column in each for each in names.values())]
    for part, here in names.items():
        absent = [column for column in common if column not in here]
        if absent:
            problems.append(f"{table / part}: has no column {', '.join(absent)}, as other parts do; is it of this run?")


def _about(folder: Path, problems: list[str]) -> dict[str, Any] | None:
    parts = sorted((folder / "run").glob("*.parquet"))
    if not parts:
        problems.append(f"{folder}: no run here; `holdfast sim NET --out {folder}` makes one")
        return None
    try:
        rows = pq.ParquetFile(parts[0]).read().to_pylist()  # read_table would import pandas
    except (pa.ArrowInvalid, OSError) as problem:
        problems.append(f"{parts[0]}: cannot be read ({_one_line(problem)})")
        return None
    if len(rows) != 1:
        problems.append(f"{parts[0]}: expected one row, found {len(rows)}; was the file changed?")
        return None
    about: dict[str, Any] = rows[0]
    if about.get("format") not in FORMATS:
        problems.append(f"{folder}: {unreadable(about.get('format'))}")
        return None
    return about


def _readable(looked: dict[Path, Looked], problems: list[str]) -> dict[str, pq.FileMetaData]:
    """By the names of the files."""
    problems += [
        f"{path}: cannot be read ({each}); was the run cut off?"
        for path, each in looked.items()
        if isinstance(each, str)
    ]
    return {path.name: each for path, each in looked.items() if not isinstance(each, str)}


def _merged(
    folder: Path, name: str, parts: list[pa.Schema], expected: pa.Schema, problems: list[str]
) -> pa.Schema | None:
    """One schema of all parts: an attribute that turned up late has no column in the first ones."""
    before = len(problems)
    columns: dict[str, pa.DataType] = {}
    for field in (field for schema in parts for field in schema):
        if columns.setdefault(field.name, field.type) != field.type:
            problems.append(f"{folder}: {name} has {field.name} as {columns[field.name]} and as {field.type}")
    for field in expected if parts else ():
        if field.name not in columns and field.name in ADDED.get(name, ()):
            columns[field.name] = field.type
        elif field.name not in columns:
            problems.append(f"{folder}: {name} has no column {field.name}")
        elif columns[field.name] != field.type:
            problems.append(f"{folder}: {name} has {field.name} as {columns[field.name]}, expected {field.type}")
    wanted = set(expected.names) | {each for each in columns if each.startswith(ATTRIBUTE)}
    unknown = [f"{each} ({kind})" for each, kind in columns.items() if each in wanted and kind not in ATTRIBUTE_TYPES]
    if unknown:
        problems.append(f"{folder}: {name} has columns of types that a trace does not have: {', '.join(unknown)}")
    if len(problems) > before:
        return None
    return pa.schema([(column, kind) for column, kind in columns.items() if column in wanted])


def _one_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]
