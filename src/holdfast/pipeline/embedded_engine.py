"""The embedded engine: DuckDB, in this process. It starts in a tenth of a second, and needs neither Java nor Spark."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa

from holdfast.model.errors import InputError
from holdfast.pipeline.engine import EngineName, Relation, RowsTask

# Spark's words for what DuckDB calls otherwise, or means otherwise: its own count_if of nothing is null. Division by
# zero is an error in Spark, hence a word for trying it.
_MACROS = (
    "count_if(x) AS count(*) FILTER (WHERE x)",
    "explode(x) AS unnest(x)",
    "sequence(low, high) AS generate_series(low, high)",
    "try_divide(part, whole) AS CASE WHEN whole <> 0 THEN part / whole END",
    "collect_set(x) AS list(DISTINCT x)",
    "sort_array(x) AS list_sort(x)",
    "array_join(x, between) AS array_to_string(x, between)",
)
_MEANS_SOMETHING = re.compile(r"([\[\]*?{}])")  # in a path that DuckDB is handed

_WORDS_MAX = 400  # characters of an error: the beginning says what


class EmbeddedEngine:
    name: EngineName = "embedded"

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        self._lock = Lock()  # a connection serves one thread at a time
        self.prefix = f"relation_{uuid4().hex}"  # several plans may share a session of Spark
        self.names = map(f"{self.prefix}_{{}}".format, count())
        self._kept: list[str] = []  # queries
        self._connection.execute("SET TimeZone = 'UTC'")
        for macro in _MACROS:
            self._connection.execute(f"CREATE MACRO {macro}")

    def sql(self, query: str) -> Relation:
        return self._defined(f"VIEW {{}} AS {query}")

    def keep(self, query: str) -> Relation:
        self._kept.append(query)
        return self._defined(f"TABLE {{}} AS {self._narrowed(query)}")

    def together(self, query: str, keys: Sequence[str], task: RowsTask, schema: pa.Schema) -> Relation:
        return self.table(task(self.fetched(query)))

    few = keep

    def table(self, rows: pa.Table) -> Relation:
        with self._lock:
            name = next(self.names)
            self._connection.register(name, rows)
        return Relation(self, name)

    def fetched(self, query: str) -> pa.Table:
        with self._lock:
            return self._connection.sql(query).to_arrow_table()

    def handed_on(self, relation: Relation) -> pa.Table:
        """Its rows, of types that Spark has too."""
        return self.fetched(self._narrowed(f"FROM {relation}"))

    def _defined(self, what: str) -> Relation:
        with self._lock:
            name = next(self.names)
            self._connection.execute(f"CREATE {what.replace('{}', name, 1)}")
        return Relation(self, name)

    def _narrowed(self, query: str) -> str:
        """DuckDB adds up in 128 bits, Spark in 64: so that tables and files are of the same types."""
        long = [f'CAST("{name}" AS BIGINT) AS "{name}"' for name, kind in self._described(query) if kind == "HUGEINT"]
        return f"SELECT * REPLACE ({', '.join(long)}) FROM ({query})" if long else query

    def _described(self, query: str) -> list[tuple[str, str]]:
        with self._lock:
            return [(name, kind) for name, kind, *_ in self._connection.execute(f"DESCRIBE {query}").fetchall()]

    def files(self, files: Sequence[Path], columns: Sequence[pa.Field]) -> Relation:
        """Parquet files as one table: columns that a file lacks are empty, and `part` and `place` name the row."""
        names = ", ".join(literal(as_written(each)) for each in files)
        read = f"read_parquet([{names}], union_by_name = true, filename = 'part', file_row_number = true)"
        found = {name for name, _ in self._described(f"FROM {read}")}
        chosen = [_column(each, each.name in found) for each in columns]
        part = "parse_filename(part) AS part, file_row_number AS place"
        return self.keep(f"SELECT {', '.join(chosen)}, {part} FROM {read}")

    def columns(self, relation: Relation) -> tuple[str, ...]:
        return tuple(name for name, _ in self._described(f"FROM {relation}"))

    def rows(self, relation: Relation) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(f"FROM {relation}").fetchall()

    def write(self, relation: Relation, folder: Path) -> None:
        folder.mkdir()
        place = literal(str(folder / "part-00000.parquet"))
        rows = self._narrowed(f"FROM {relation}")
        with self._lock:
            self._connection.execute(f"COPY ({rows}) TO {place} (FORMAT parquet, COMPRESSION zstd)")

    def digests(self, folder: Path) -> Relation:
        place = literal(f"{as_written(folder)}/*/*.parquet")
        table = "parse_filename(parse_dirpath(filename)) || '/' || parse_filename(filename)"
        return self.sql(f"SELECT {table} AS file, sha256(content) AS digest FROM read_blob({place})")

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except (duckdb.Error, pa.ArrowInvalid, OSError) as problem:
            if isinstance(problem, duckdb.ProgrammingError):  # a query of ours that is wrong
                raise
            first = (str(problem).splitlines() or [type(problem).__name__])[0]
            raise InputError(first[:_WORDS_MAX]) from problem

    def plan(self) -> str:
        with self._lock:
            plans = [self._connection.execute(f"EXPLAIN {query}").fetchall() for query in self._kept]
        return "\n".join(text for rows in plans for _, text in rows)

    def close(self) -> None:
        self._connection.close()


def _column(field: pa.Field, is_there: bool) -> str:
    kind = {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}[field.type]
    return f'"{field.name}"' if is_there else f'CAST(NULL AS {kind}) AS "{field.name}"'


def as_written(path: Path) -> str:
    return _MEANS_SOMETHING.sub(r"[\1]", str(path))


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
