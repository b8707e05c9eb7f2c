"""Who wants what, according to others: DuckDB evaluates every condition on every row, one by one."""

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from tests.language.engines import for_duckdb

Pair = tuple[object, object]


def duckdb_pairs(events: pa.Table, conditions: Mapping[object, str], key: str = "id") -> list[Pair]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("events", events)
    found: list[Pair] = []
    for id_, condition in conditions.items():
        rows = connection.execute(f'SELECT "{key}" FROM events WHERE {for_duckdb(condition)}').fetchall()
        found += [(row[0], id_) for row in rows]
    return sorted(found, key=str)


def pairs(result: Any, key: str = "id") -> list[Pair]:
    """The pairs of a DataFrame or of an Arrow table, in one order."""
    table = result if isinstance(result, pa.Table) else result.toArrow()
    return sorted(zip(table[key].to_pylist(), table["subscription"].to_pylist(), strict=True), key=str)
