"""A store in one SQLite file, in WAL mode: a list of changes is one transaction, and costs one sync of the log.

A file that is damaged, that belongs to something else or to a newer version is refused and left as it is. Only one
broker can have it open. When the disk is full nothing is written and the caller is told; it may try again. When
somebody removes the file under us, what is written is safe no longer, and the caller is told that as well.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from holdfast.model.errors import InputError
from holdfast.model.messages import LinkState, NodeKind
from holdfast.protocol.changes import (
    AckedUpTo,
    At,
    Began,
    Body,
    Change,
    Erase,
    Forgot,
    GaveUp,
    Keep,
    Knows,
    Learned,
    Met,
    Opened,
    Partly,
    Skipped,
    Stored,
    StoredNeighbour,
)
from holdfast.store.interface import StoreError
from holdfast.wire.codec import decode_frame_untrusted, encode_message, framed

VERSION = 1
_APPLICATION = 0x486F6C64  # "Hold": so that nobody mistakes the file for another
_PAGE_BYTES = 8_192
_LOG_PAGES_MAX = 4_000  # before the log is written back: 32 MB, a second of traffic
_LOG_SHARE = 4  # the log may take one part in so many of a small disk: a log alone must never fill it
_LOG_PAGES_MIN = 16

_TABLES = """
CREATE TABLE began (epoch INTEGER);
CREATE TABLE neighbours (name TEXT PRIMARY KEY, kind TEXT, takes INTEGER, at_stream INTEGER, at_seq INTEGER,
    stream INTEGER, used INTEGER DEFAULT 0);
CREATE TABLE versions (neighbour TEXT, tab TEXT, version INTEGER, PRIMARY KEY (neighbour, tab));
CREATE TABLE conditions (neighbour TEXT, tab TEXT, condition TEXT, UNIQUE (neighbour, tab, condition));
CREATE TABLE states (broker TEXT PRIMARY KEY, state BLOB);
CREATE TABLE bodies (body INTEGER PRIMARY KEY, kept_us INTEGER, message BLOB);
CREATE TABLE queue (neighbour TEXT, seq INTEGER, body INTEGER, PRIMARY KEY (neighbour, seq)) WITHOUT ROWID;
"""
# Later than the others, and so made where they are missing.
_LATER_TABLES = """
CREATE TABLE IF NOT EXISTS gave_up (neighbour TEXT PRIMARY KEY, since_us INTEGER, until_us INTEGER, events INTEGER,
    reason TEXT);
CREATE TABLE IF NOT EXISTS partly (neighbour TEXT PRIMARY KEY, seq INTEGER, before INTEGER);
"""


class SqliteStore:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = path, path.with_name(f"{path.name}-wal")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._check_log()
            self._base = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.5)
        except (sqlite3.Error, OSError) as problem:
            raise InputError(f"{path}: the store cannot be opened: {problem}") from None
        try:
            self._open()
        except BaseException:
            self._base.close()
            raise
        self._places = self._now_in_place()

    def _check_log(self) -> None:
        """A log without its database would be thrown away."""
        base, log = self._files
        if log.exists() and log.stat().st_size and not (base.exists() and base.stat().st_size):
            raise InputError(_damaged(self.path, f"it is empty, and {log.name} is not"))

    def _now_in_place(self) -> tuple[tuple[int, int] | None, ...]:
        """Which files are at the places of ours."""
        found: list[tuple[int, int] | None] = []
        for each in self._files:
            try:
                about = os.stat(each)
                found.append((about.st_dev, about.st_ino))
            except OSError:
                found.append(None)
        return tuple(found)

    def _check_in_place(self) -> None:
        if self._now_in_place() != self._places:
            raise StoreError(
                f"{self.path}: the file or its log was removed or replaced while in use; "
                "the broker acknowledges nothing more until it is restarted"
            )

    def _open(self) -> None:
        path, run = self.path, self._base.execute
        try:
            run(f"PRAGMA page_size = {_PAGE_BYTES}")
            run("PRAGMA locking_mode = EXCLUSIVE")
            application, version = (run(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
            tables = run("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if tables and application != _APPLICATION:
                raise InputError(f"{path}: not a broker's store, but another database; choose another path")
            if version > VERSION:
                message = f"{path}: a store of version {version}; this Holdfast reads version {VERSION}"
                raise InputError(f"{message}. Use a newer one, or another path")
            if tables and run("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise InputError(_damaged(path, "its pages do not fit together"))
            run("PRAGMA journal_mode = WAL")
            run("PRAGMA synchronous = FULL")
            run(f"PRAGMA wal_autocheckpoint = {_log_pages(path)}")
            run("BEGIN IMMEDIATE")
            if not tables:
                for statement in _TABLES.split(";"):
                    run(statement)
                run(f"PRAGMA application_id = {_APPLICATION}")
                run(f"PRAGMA user_version = {VERSION}")
            for statement in _LATER_TABLES.split(";"):
                run(statement)
            run("COMMIT")
            run("PRAGMA wal_checkpoint")  # so that the tables have their place on the disk, however full it becomes
        except sqlite3.OperationalError as problem:
            if "locked" in str(problem):
                raise InputError(f"{path}: another broker is using this store; give each broker its own") from None
            raise InputError(f"{path}: the store cannot be opened: {problem}") from None
        except sqlite3.DatabaseError as problem:
            raise InputError(_damaged(path, str(problem))) from None

    # Reading -------------------------------------------------------------------------------------

    def load(self) -> Stored:
        run = self._base.execute
        try:
            epoch = run("SELECT max(epoch) FROM began").fetchone()[0]
            neighbours = {
                name: StoredNeighbour(kind, bool(acknowledges), {}, None if at is None else (at, seq), stream, used)
                for name, kind, acknowledges, at, seq, stream, used in run("SELECT * FROM neighbours ORDER BY rowid")
            }
            for name, table, version in run("SELECT neighbour, tab, version FROM versions"):
                neighbours[name].tables[table] = version, []
            for name, table, condition in run("SELECT neighbour, tab, condition FROM conditions ORDER BY rowid"):
                neighbours[name].tables[table][1].append(condition)
            for name, seq, body in run("SELECT neighbour, seq, body FROM queue ORDER BY neighbour, seq"):
                neighbours[name].queue[seq] = body
            for name, seq, before in run("SELECT neighbour, seq, before FROM partly"):
                neighbours[name].partly = seq, before
            odd = {each.kind for each in neighbours.values()} - set(get_args(NodeKind))
            if odd:
                raise ValueError(f"a neighbour that is a {odd.pop()!r}")
            states = [_state(state) for (state,) in run("SELECT state FROM states ORDER BY rowid")]
            bodies = {
                body: (kept_us, _message(message))
                for body, kept_us, message in run("SELECT * FROM bodies ORDER BY body")
            }
            if not bodies.keys() >= {body for each in neighbours.values() for body in each.queue.values()}:
                raise ValueError("events that are to be handed over are missing")
            gave_up = {row[0]: GaveUp(*row) for row in run("SELECT * FROM gave_up ORDER BY rowid")}
        except (sqlite3.DatabaseError, KeyError, ValueError) as problem:
            raise InputError(_damaged(self.path, str(problem))) from None
        return Stored(epoch, neighbours, states, bodies, gave_up)

    # Writing -------------------------------------------------------------------------------------

    def write(self, changes: Sequence[Change]) -> None:
        run = self._base.execute
        self._check_in_place()
        try:
            run("BEGIN IMMEDIATE")
            for change in changes:
                _WRITERS[type(change)](run, change)
            run("COMMIT")
        except sqlite3.Error as problem:
            with suppress(sqlite3.Error):  # the next attempt begins with it again
                if self._base.in_transaction:
                    run("ROLLBACK")
                if problem.sqlite_errorcode == sqlite3.SQLITE_FULL:
                    run("PRAGMA wal_checkpoint(TRUNCATE)")  # gives back what the log takes
            raise StoreError(f"{self.path}: cannot be written: {problem}") from None
        self._check_in_place()  # once more, before anybody relies on it

    def close(self) -> None:
        self._base.close()


def _log_pages(path: Path) -> int:
    share = shutil.disk_usage(path.parent).free // (_LOG_SHARE * _PAGE_BYTES)
    return max(_LOG_PAGES_MIN, min(_LOG_PAGES_MAX, share))


def _damaged(path: Path, why: str) -> str:
    return f"{path}: the store is damaged ({why}); it was not changed. Restore a copy of it, or choose another path"


def _message(data: bytes) -> Body:
    message = decode_frame_untrusted(framed([data]))[0]
    if not isinstance(message, Body):
        raise ValueError(f"a {type(message).__name__} among the events")
    return message


def _state(data: bytes) -> LinkState:
    state = decode_frame_untrusted(framed([data]))[0]
    if not isinstance(state, LinkState):
        raise ValueError(f"a {type(state).__name__} among the link states")
    return state


_Run = Callable[..., object]


def _began(run: _Run, change: Began) -> None:
    run("DELETE FROM began")
    run("INSERT INTO began VALUES (?)", (change.epoch,))


def _met(run: _Run, change: Met) -> None:
    run(
        "INSERT INTO neighbours (name, kind, takes) VALUES (?, ?, ?) "
        "ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, takes = excluded.takes",
        (change.neighbour, change.kind, change.acknowledges),
    )


def _forgot(run: _Run, change: Forgot) -> None:
    run("DELETE FROM neighbours WHERE name = ?", (change.neighbour,))
    for table in ("versions", "conditions", "queue", "partly"):
        run(f"DELETE FROM {table} WHERE neighbour = ?", (change.neighbour,))


def _learned(run: _Run, change: Learned) -> None:
    where = change.neighbour, change.table
    if not _is_known(run, change.neighbour):
        return
    if change.is_snapshot:
        run("DELETE FROM conditions WHERE neighbour = ? AND tab = ?", where)
    for each in change.drop:
        run("DELETE FROM conditions WHERE neighbour = ? AND tab = ? AND condition = ?", (*where, each))
    for each in change.add:
        run("INSERT OR IGNORE INTO conditions VALUES (?, ?, ?)", (*where, each))
    run("INSERT OR REPLACE INTO versions VALUES (?, ?, ?)", (*where, change.version))


def _knows(run: _Run, change: Knows) -> None:
    run("INSERT OR REPLACE INTO states VALUES (?, ?)", (change.state.broker, encode_message(change.state)))


def _at(run: _Run, change: At) -> None:
    run(
        "UPDATE neighbours SET at_stream = ?, at_seq = ? WHERE name = ?",
        (change.stream, change.seq, change.neighbour),
    )


def _opened(run: _Run, change: Opened) -> None:
    run("UPDATE neighbours SET stream = ?, used = 0 WHERE name = ?", (change.stream, change.neighbour))
    run("DELETE FROM queue WHERE neighbour = ?", (change.neighbour,))
    run("DELETE FROM partly WHERE neighbour = ?", (change.neighbour,))


def _keep(run: _Run, change: Keep) -> None:
    run("INSERT INTO bodies VALUES (?, ?, ?)", (change.body, change.kept_us, encode_message(change.message)))
    for name, seq in change.to:
        if _is_known(run, name):
            run("INSERT INTO queue VALUES (?, ?, ?)", (name, seq, change.body))


def _done(run: _Run, change: AckedUpTo) -> None:
    run("DELETE FROM queue WHERE neighbour = ? AND seq <= ?", (change.neighbour, change.seq))
    run("UPDATE neighbours SET used = max(used, ?) WHERE name = ?", (change.seq, change.neighbour))


def _partly(run: _Run, change: Partly) -> None:
    if _is_known(run, change.neighbour):
        run("INSERT OR REPLACE INTO partly VALUES (?, ?, ?)", (change.neighbour, change.seq, change.before))


def _skipped(run: _Run, change: Skipped) -> None:
    run("DELETE FROM queue WHERE neighbour = ? AND seq = ?", (change.neighbour, change.seq))
    run("UPDATE neighbours SET used = max(used, ?) WHERE name = ?", (change.seq, change.neighbour))


def _gave_up(run: _Run, change: GaveUp) -> None:
    run("DELETE FROM gave_up WHERE neighbour = ?", (change.neighbour,))
    if change.reason:
        row = change.neighbour, change.since_us, change.until_us, change.events, change.reason
        run("INSERT INTO gave_up VALUES (?, ?, ?, ?, ?)", row)


def _erase(run: _Run, change: Erase) -> None:
    for body in change.bodies:
        run("DELETE FROM bodies WHERE body = ?", (body,))


def _is_known(run: _Run, neighbour: str) -> bool:
    return run("SELECT 1 FROM neighbours WHERE name = ?", (neighbour,)).fetchone() is not None  # type: ignore[attr-defined]


_WRITERS: dict[type, Callable[[_Run, Any], None]] = {
    Began: _began,
    Met: _met,
    Forgot: _forgot,
    Learned: _learned,
    Knows: _knows,
    At: _at,
    Opened: _opened,
    Keep: _keep,
    AckedUpTo: _done,
    Partly: _partly,
    Skipped: _skipped,
    GaveUp: _gave_up,
    Erase: _erase,
}
