"""A store in one SQLite file, in WAL mode: a list of changes is one transaction, and costs one sync of the log.

A file that is damaged, that belongs to something else or to a newer version is refused and left as it is. Every row has
a checksum, the log has SQLite's own, and the pages have to fit together: so what is loaded is what was written. Only
one broker can have it open. When the disk is full nothing is written and the caller learns of it; it may try again, and
what was stored before can be loaded. When somebody removes the file under us, what is written is safe no longer, and
the caller learns of that as well.
"""

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from holdfast.model.errors import InputError, PeerError
from holdfast.model.messages import LinkState, NodeKind
from holdfast.protocol.store_changes import (
    AckedUpTo,
    At,
    Began,
    Body,
    Change,
    Clocked,
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
from holdfast.store.checksums import checksum
from holdfast.store.interface import StoreError
from holdfast.store.log_check import check_log
from holdfast.store.schema import TABLES, VERSION, create, misfit, upgrade
from holdfast.wire.codec import decode_frame_untrusted, encode_message, framed

_APPLICATION = 0x486F6C64  # "Hold": so that nobody mistakes the file for another
_PAGE_BYTES = 8_192
_LOG_PAGES_MAX = 4_000  # before the log is written back: 32 MB, a second of traffic
_LOG_SHARE = 4  # the log may take one part in so many of a small disk: a log alone must never fill it
_LOG_PAGES_MIN = 16
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)  # what a write says when there is none
_NAMED_MAX = 10  # neighbours in one error: enough to know where to look
_SHOWN_MAX = 80  # characters of a value that may be damaged


class SqliteStore:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.incomplete = ""  # what the log ends with and could not be read, if anything; empty otherwise
        self._files = path, path.with_name(f"{path.name}-wal")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._check_log()
            self._base = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.5)
        except (sqlite3.Error, OSError) as problem:
            raise InputError(f"{path}: the store cannot be opened: {problem}") from None
        self._base.create_function("checksum", -1, checksum, deterministic=True)
        try:
            self._open()
        except BaseException:
            self._close_unchanged()
            raise
        self._places = self._now_in_place()

    def _check_log(self) -> None:
        """A log without its database would be thrown away, and so would be all of it that follows a damage."""
        base, log = self._files
        if not log.exists() or not log.stat().st_size:
            return
        if not (base.exists() and base.stat().st_size):
            raise InputError(_damaged(self.path, f"it is empty, and {log.name} is not"))
        found = check_log(log)
        if found.damaged:
            raise InputError(_damaged(self.path, f"{log.name}: {found.damaged}"))
        self.incomplete = found.incomplete

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
            version = self._check_file()
            run("PRAGMA journal_mode = WAL")
            run("PRAGMA synchronous = FULL")
            run(f"PRAGMA wal_autocheckpoint = {_log_pages(path)}")
            run("BEGIN IMMEDIATE")
            if version is None:
                create(run)
                run(f"PRAGMA application_id = {_APPLICATION}")
            elif version < VERSION:
                upgrade(run)
            run("COMMIT")
            self._write_log_back()
        except sqlite3.OperationalError as problem:
            if "locked" in str(problem):
                raise InputError(f"{path}: another broker is using this store; give each broker its own") from None
            raise InputError(f"{path}: the store cannot be opened: {problem}") from None
        except (sqlite3.DatabaseError, UnicodeError) as problem:
            raise InputError(_damaged(path, str(problem))) from None

    def _check_file(self) -> int | None:
        """The version of what is there, if anything; an InputError when it is not ours or does not fit together."""
        path, run = self.path, self._base.execute
        application, version = (run(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        tables = dict(run("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
        if tables and application != _APPLICATION:
            raise InputError(f"{path}: not a broker's store, but another database; choose another path")
        if version > VERSION:
            message = f"{path}: a store of version {version}; this Holdfast reads version {VERSION}"
            raise InputError(f"{message}. Use a newer one, or another path")
        problem = run("PRAGMA integrity_check(1)").fetchone()[0]
        if problem != "ok":
            raise InputError(_damaged(path, f"its pages do not fit together: {_one_line(problem)}"))
        if not tables:
            return None
        if wrong := misfit(version, tables):
            raise InputError(_damaged(path, wrong))
        return int(version)

    def _write_log_back(self) -> None:
        """So that the tables have their place on the disk, however full it becomes; where it is full now, later."""
        try:
            self._base.execute("PRAGMA wal_checkpoint")
        except sqlite3.OperationalError as problem:
            if problem.sqlite_errorcode not in _NO_ROOM:
                raise

    # Reading -------------------------------------------------------------------------------------

    def load(self) -> Stored:
        bad: list[tuple[str, list[Any]]] = []  # rows that are not as they were written

        def rows(table: str, order: str = "rowid") -> Iterator[list[Any]]:
            for *row, found in self._base.execute(f"SELECT * FROM {table} ORDER BY {order}"):
                if checksum(table, *row) == found:
                    yield row
                else:
                    bad.append((table, row))

        try:
            epoch = max((epoch for (epoch,) in rows("began")), default=None)
            neighbours = {
                name: StoredNeighbour(kind, bool(acknowledges), {}, None if at is None else (at, seq), stream, used)
                for name, kind, acknowledges, at, seq, stream, used in rows("neighbours")
            }
            versions, conditions, partly = (list(rows(table)) for table in ("versions", "conditions", "partly"))
            queue = list(rows("queue", "neighbour, seq"))
            states = [_state(state) for _, state in rows("states")]
            bodies = {body: (kept_us, _message(message)) for body, kept_us, message in rows("bodies", "body")}
            gave_up = {row[0]: GaveUp(*row) for row in rows("gave_up")}
            clock = next((Clocked(*row) for row in rows("clock")), None)
            if bad:
                raise ValueError(_named(bad, queue))
            for name, table, version in versions:
                neighbours[name].tables[table] = version, []
            for name, table, condition in conditions:
                neighbours[name].tables[table][1].append(condition)
            for name, seq, body in queue:
                neighbours[name].queue[seq] = body
            for name, seq, before in partly:
                neighbours[name].partly = seq, before
            odd = {each.kind for each in neighbours.values()} - set(get_args(NodeKind))
            if odd:
                raise ValueError(f"a neighbour that is a {odd.pop()!r}")
            missing = [[body] for _, _, body in queue if body not in bodies]
            if missing:
                raise ValueError(f"events that are to be handed over are missing: {_whose(missing, queue)}")
        except (sqlite3.DatabaseError, PeerError, KeyError, ValueError) as problem:
            raise InputError(_damaged(self.path, str(problem))) from None
        return Stored(epoch, neighbours, states, bodies, gave_up, clock)

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

    def _close_unchanged(self) -> None:
        """Without writing the log back, where Python can say so: whoever looks for a damage finds it as it was."""
        if sys.version_info >= (3, 12):
            self._base.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)
        self._base.close()


def _log_pages(path: Path) -> int:
    share = shutil.disk_usage(path.parent).free // (_LOG_SHARE * _PAGE_BYTES)
    return max(_LOG_PAGES_MIN, min(_LOG_PAGES_MAX, share))


def _damaged(path: Path, why: str) -> str:
    return f"{path}: the store is damaged ({why}); it was not changed. Restore a copy of it, or choose another path"


def _named(bad: list[tuple[str, list[Any]]], queue: list[list[Any]]) -> str:
    """What is damaged, and whose it is."""
    events = [row for table, row in bad if table == "bodies"]
    others: dict[str, int] = {}
    for table, row in bad:
        if table != "bodies":
            what = f"{TABLES[table]} {_short(row[0])}"
            others[what] = others.get(what, 0) + 1
    parts = [f"events {_whose(events, queue)}"] if events else []
    parts += [f"{count} of {what}" for what, count in list(others.items())[:_NAMED_MAX]]
    return f"{len(bad)} rows fail their checksum: {'; '.join(parts)}"


def _whose(events: list[list[Any]], queue: list[list[Any]]) -> str:
    """How many of these events each neighbour was still to get."""
    lost = {_short(row[0]) for row in events}
    owed: dict[str, int] = {}
    for name, _, body in queue:
        if _short(body) in lost:
            owed[name] = owed.get(name, 0) + 1
    return ", ".join(f"{count} for {_short(name)}" for name, count in list(owed.items())[:_NAMED_MAX]) or "for nobody"


def _short(value: object) -> str:
    text = _one_line(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def _one_line(text: str) -> str:
    return " ".join(text.split())


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
    run("INSERT INTO began VALUES (?1, checksum('began', ?1))", (change.epoch,))


def _met(run: _Run, change: Met) -> None:
    run(
        "INSERT INTO neighbours (name, kind, takes) VALUES (?, ?, ?) "
        "ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, takes = excluded.takes",
        (change.neighbour, change.kind, change.acknowledges),
    )
    _seal(run, change.neighbour)


def _seal(run: _Run, neighbour: str) -> None:
    """The checksum of a neighbour's row, after a change of it."""
    sums = "checksum('neighbours', name, kind, takes, at_stream, at_seq, stream, used)"
    run(f"UPDATE neighbours SET checksum = {sums} WHERE name = ?", (neighbour,))


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
        run(
            "INSERT OR IGNORE INTO conditions VALUES (?, ?, ?, ?)", (*where, each, checksum("conditions", *where, each))
        )
    version = *where, change.version
    run("INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?)", (*version, checksum("versions", *version)))


def _knows(run: _Run, change: Knows) -> None:
    row = change.state.broker, encode_message(change.state)
    run("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", (*row, checksum("states", *row)))


def _at(run: _Run, change: At) -> None:
    run(
        "UPDATE neighbours SET at_stream = ?, at_seq = ? WHERE name = ?",
        (change.stream, change.seq, change.neighbour),
    )
    _seal(run, change.neighbour)


def _opened(run: _Run, change: Opened) -> None:
    run("UPDATE neighbours SET stream = ?, used = 0 WHERE name = ?", (change.stream, change.neighbour))
    _seal(run, change.neighbour)
    run("DELETE FROM queue WHERE neighbour = ?", (change.neighbour,))
    run("DELETE FROM partly WHERE neighbour = ?", (change.neighbour,))


def _keep(run: _Run, change: Keep) -> None:
    row = change.body, change.kept_us, encode_message(change.message)
    run("INSERT INTO bodies VALUES (?, ?, ?, ?)", (*row, checksum("bodies", *row)))
    for name, seq in change.to:
        if _is_known(run, name):
            place = name, seq, change.body
            run("INSERT INTO queue VALUES (?, ?, ?, ?)", (*place, checksum("queue", *place)))


def _done(run: _Run, change: AckedUpTo) -> None:
    run("DELETE FROM queue WHERE neighbour = ? AND seq <= ?", (change.neighbour, change.seq))
    run("UPDATE neighbours SET used = max(used, ?) WHERE name = ?", (change.seq, change.neighbour))
    _seal(run, change.neighbour)


def _partly(run: _Run, change: Partly) -> None:
    if _is_known(run, change.neighbour):
        row = change.neighbour, change.seq, change.before
        run("INSERT OR REPLACE INTO partly VALUES (?, ?, ?, ?)", (*row, checksum("partly", *row)))


def _skipped(run: _Run, change: Skipped) -> None:
    run("DELETE FROM queue WHERE neighbour = ? AND seq = ?", (change.neighbour, change.seq))
    run("UPDATE neighbours SET used = max(used, ?) WHERE name = ?", (change.seq, change.neighbour))
    _seal(run, change.neighbour)


def _gave_up(run: _Run, change: GaveUp) -> None:
    run("DELETE FROM gave_up WHERE neighbour = ?", (change.neighbour,))
    if change.reason:
        row = change.neighbour, change.since_us, change.until_us, change.events, change.reason
        run("INSERT INTO gave_up VALUES (?, ?, ?, ?, ?, ?)", (*row, checksum("gave_up", *row)))


def _clocked(run: _Run, change: Clocked) -> None:
    row = change.boot, change.offset_us, change.at_us
    run("DELETE FROM clock")
    run("INSERT INTO clock VALUES (?, ?, ?, ?)", (*row, checksum("clock", *row)))


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
    Clocked: _clocked,
    Erase: _erase,
}
