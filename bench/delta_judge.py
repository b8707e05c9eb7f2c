"""A Delta table as an outsider reads it: the log replayed by the letter of the protocol, the rows read by DuckDB.

Nothing here is Holdfast's or delta-rs's. The commits are read from the first on, so it is for tables whose log is
complete, as it is for thirty days.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa


@dataclass
class Replayed:
    """What the log says: the files that are in the table, and the last transaction of each writer."""

    files: dict[str, int] = field(default_factory=dict)  # and how many rows the log says each has
    writers: dict[str, list[int]] = field(default_factory=dict)  # all versions of each, in the order of commits
    commits: int = 0
    columns: list[str] = field(default_factory=list)


def replayed(table: Path) -> Replayed:
    found = Replayed()
    logs = sorted((table / "_delta_log").glob("*.json"))
    if [int(each.stem) for each in logs] != list(range(len(logs))):
        raise AssertionError(f"{table}: commits are missing from the log")
    for log in logs:
        found.commits += 1
        for line in log.read_text().splitlines():
            _apply(found, json.loads(line))
    return found


def _apply(found: Replayed, action: dict[str, dict]) -> None:
    if "add" in action:
        path = action["add"]["path"]
        if path in found.files:
            raise AssertionError(f"{path} is added twice")
        found.files[path] = json.loads(action["add"]["stats"])["numRecords"]
    elif "remove" in action:
        del found.files[action["remove"]["path"]]
    elif "txn" in action:
        found.writers.setdefault(action["txn"]["appId"], []).append(action["txn"]["version"])
    elif "metaData" in action:
        found.columns = [each["name"] for each in json.loads(action["metaData"]["schemaString"])["fields"]]


def rows(table: Path) -> pa.Table:
    """The rows of the table, of the files that the log names and of no other."""
    found = replayed(table)
    if not found.files:
        return pa.table({name: pa.array([], pa.string()) for name in found.columns})
    told = duckdb.connect().read_parquet([str(table / each) for each in found.files]).to_arrow_table()
    if told.num_rows != sum(found.files.values()):
        raise AssertionError(f"{table}: the log says {sum(found.files.values())} rows, the files have {told.num_rows}")
    return told


def strays(table: Path) -> list[str]:
    """Data files in the folder that the log does not name: what a killed writer has left, which no reader sees."""
    return sorted({each.name for each in table.glob("*.parquet")} - {*replayed(table).files})
