"""The tables of a broker's store, and how a store of version 0.1 becomes one of today.

Each row ends with its checksum (`checksums`). Format 1, of Holdfast 0.1, has the same tables without; it is upgraded in
one transaction when it is opened, and from then on 0.1 refuses it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

VERSION: Final = 2

# The tables, and what a row of each is, for people.
TABLES: Final = {
    "began": "the epoch",
    "neighbours": "the neighbour",
    "versions": "the tables of",
    "conditions": "the conditions of",
    "states": "the link state of",
    "bodies": "the event",
    "queue": "the queue for",
    "gave_up": "the losses of",
    "partly": "the position of",
    "clock": "the clock since boot",
}
_COLUMNS: Final = {
    "began": "epoch INTEGER",
    "neighbours": "name TEXT PRIMARY KEY, kind TEXT, takes INTEGER, at_stream INTEGER, at_seq INTEGER, "
    "stream INTEGER, used INTEGER DEFAULT 0",
    "versions": "neighbour TEXT, tab TEXT, version INTEGER",
    "conditions": "neighbour TEXT, tab TEXT, condition TEXT",
    "states": "broker TEXT PRIMARY KEY, state BLOB",
    "bodies": "body INTEGER PRIMARY KEY, kept_us INTEGER, message BLOB",
    "queue": "neighbour TEXT, seq INTEGER, body INTEGER",
    "gave_up": "neighbour TEXT PRIMARY KEY, since_us INTEGER, until_us INTEGER, events INTEGER, reason TEXT",
    "partly": "neighbour TEXT PRIMARY KEY, seq INTEGER, before INTEGER",
    "clock": "boot TEXT, offset_us INTEGER, at_us INTEGER",
}
_KEYS: Final = {
    "versions": ", PRIMARY KEY (neighbour, tab)",
    "conditions": ", UNIQUE (neighbour, tab, condition)",
    "queue": ", PRIMARY KEY (neighbour, seq)",
}
_AFTER: Final = {"queue": " WITHOUT ROWID"}
_ORDER: Final = {"bodies": "body", "queue": "neighbour, seq"}  # the others by rowid
_LATER: Final = frozenset({"gave_up", "partly", "clock"})  # stores of format 1 may be without these
_Run = Callable[..., Any]


def _statement(table: str) -> str:
    return f"CREATE TABLE {table} ({_COLUMNS[table]}, checksum INTEGER{_KEYS.get(table, '')}){_AFTER.get(table, '')}"


def create(run: _Run) -> None:
    for table in TABLES:
        run(_statement(table))
    run(f"PRAGMA user_version = {VERSION}")


def misfit(version: int, tables: Mapping[str, str]) -> str:
    """Why these tables (name and statement) are not those of a store of this version; empty when they are."""
    names = tables.keys()
    if version == VERSION:
        return "" if tables == {table: _statement(table) for table in TABLES} else "its tables are not those of a store"
    if version != 1 or not TABLES.keys() - _LATER <= names <= TABLES.keys():
        return f"its tables are not those of a store of version {version}"
    return (
        "a store with checksums that claims to have none" if any("checksum" in each for each in tables.values()) else ""
    )


def upgrade(run: _Run) -> None:
    """From format 1, within one transaction."""
    found = {name for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table, columns in _COLUMNS.items():
        if table in found:
            run(f"ALTER TABLE {table} RENAME TO old_{table}")
        run(_statement(table))
        if table in found:
            names = ", ".join(each.split()[0] for each in columns.split(", "))
            order = _ORDER.get(table, "rowid")
            run(f"INSERT INTO {table} SELECT {names}, checksum('{table}', {names}) FROM old_{table} ORDER BY {order}")
            run(f"DROP TABLE old_{table}")
    run(f"PRAGMA user_version = {VERSION}")
