"""One plan, two engines: relations are defined in SQL that Spark and the embedded engine (DuckDB) both read.

A relation is a query with a name, so the next query takes it by an f-string: `engine.sql(f"SELECT ... FROM {facts}")`.
The plan is written in the words that both dialects have; where they differ, DuckDB is taught Spark's word by a macro
(`embedded_engine`). Hints in comments are for Spark, and DuckDB passes over them. No text of a user's ever becomes part
of a query: what a plan compares with comes as a small table (`Engine.table`).
"""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa

RowsTask = Callable[[pa.Table], pa.Table]
EngineName = Literal["spark", "embedded"]
_SAYS_SPARK = ("SPARK_MASTER", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT")  # the last one is set by spark-submit
_AT_ONCE = (
    3  # small queries that run side by side: most of their time is planning, and there are seldom more cores idle
)
# Some 50 MB: they may go to the driver, and to every task. Of more rows Spark knows better ways.
FEW_ROWS = 500_000


def environment_names_spark() -> bool:
    """Whether a cluster is meant, so that the size of the work decides nothing."""
    return any(os.environ.get(name) for name in _SAYS_SPARK)


class Relation:
    """A query that an engine knows by a name. Nothing is computed before its rows are wanted."""

    def __init__(self, engine: "Engine", name: str) -> None:
        self.engine, self.name = engine, name

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return self.engine.columns(self)

    def __str__(self) -> str:
        return self.name

    def rows(self) -> list[tuple[Any, ...]]:
        return self.engine.rows(self)

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows()]

    def others(self, *columns: str) -> list[str]:
        """All columns but these."""
        return [each for each in self.columns if each not in columns]


class Engine(Protocol):
    """Runs the plan. What was defined or kept is let go with `close`."""

    name: EngineName

    def sql(self, query: str) -> Relation: ...

    def keep(self, query: str) -> Relation:
        """The same, and computed only once: for what is read many times."""
        ...

    def together(self, query: str, keys: Sequence[str], task: RowsTask, schema: pa.Schema) -> Relation:
        """What a function of ours makes of the rows of a query, in any number of portions.

        Rows with equal keys come in one portion. The function travels to the workers.
        """
        ...

    def few(self, query: str) -> Relation:
        """The same for what is a few rows by its nature: they come to the driver, so that plans stay short."""
        ...

    def table(self, rows: pa.Table) -> Relation:
        """A few rows of the caller's."""
        ...

    def columns(self, relation: Relation) -> tuple[str, ...]: ...

    def rows(self, relation: Relation) -> list[tuple[Any, ...]]: ...

    def write(self, relation: Relation, folder: Path) -> None:
        """Parquet files in a folder that is not there yet."""
        ...

    def digests(self, folder: Path) -> Relation:
        """Each Parquet file of a run by its table and part (`file`), with the digest of its bytes."""
        ...

    def explained(self) -> AbstractContextManager[None]:
        """What the engine says of bad input inside becomes one clear line of ours."""
        ...

    def plan(self) -> str:
        """How the engine computes what it has kept, in its own words."""
        ...

    def close(self) -> None: ...


def broadcast_if_few(rows: Relation, name: str) -> str:
    """Spark's hint to send rows that have been kept, called `name` in a query, to every task, unless they are many."""
    ((count,),) = rows.engine.sql(f"SELECT count(*) FROM {rows}").rows()
    return f"/*+ BROADCAST({name}) */" if count <= FEW_ROWS else ""


def at_once(*queries: Callable[[], Any]) -> list[Any]:
    """The results of several small queries, in their order; side by side where the engine can."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda query: query(), queries))


def listed(texts: Iterable[str]) -> str:
    """Words of ours as they stand in `IN (...)`, in one order, so that equal plans are equal texts."""
    return ", ".join(f"'{each}'" for each in sorted(texts))
