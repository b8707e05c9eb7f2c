"""A file of notes beside a broker's store: pairs of bytes, one SQLite table. MQTT sessions are written down in it.

Each note has a checksum. One that is damaged is told of and left out: its client begins a new session, or its topic has
no retained event until the next one.
"""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.model.errors import InputError
from holdfast.store.checksums import checksum
from holdfast.store.interface import StoreError
from holdfast.store.log_check import check_log

NoteChange = tuple[bytes, bytes | None]  # a key and its value; None erases it


class NoteFile:
    def __init__(self, path: Path, log: Callable[[str], None]) -> None:
        self._path = path
        self._log = log
        log_file = path.with_name(f"{path.name}-wal")
        if log_file.exists() and (damaged := check_log(log_file).damaged):
            raise InputError(f"{log_file}: damaged: {damaged}; remove both files to begin without MQTT sessions")
        try:
            self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            (state,) = self._file.execute("PRAGMA integrity_check(1)").fetchone()
            if state != "ok":
                raise sqlite3.DatabaseError(f"damaged: {state}")
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS notes (key BLOB PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER)"
            )
        except sqlite3.Error as problem:
            raise InputError(f"{path}: no file for MQTT sessions: {problem}") from None

    def load(self) -> dict[bytes, bytes]:
        """All that are as they were written."""
        good: dict[bytes, bytes] = {}
        bad = 0
        try:
            for key, value, found in self._file.execute("SELECT key, value, checksum FROM notes"):
                if checksum("notes", key, value) == found:
                    good[key] = value
                else:
                    bad += 1
        except (sqlite3.Error, UnicodeError) as problem:
            raise InputError(f"{self._path}: no file for MQTT sessions: {problem}") from None
        if bad:
            self._log(f"{self._path}: {bad} notes of sessions and retained events fail their checksum and are left out")
        return good

    def write(self, changes: Sequence[NoteChange]) -> None:
        """All or none; of several for one key, the last. A StoreError when they cannot be written."""
        run = self._file.execute
        try:
            run("BEGIN IMMEDIATE")
            for key, value in dict(changes).items():
                if value is None:
                    run("DELETE FROM notes WHERE key = ?", (key,))
                else:
                    run("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (key, value, checksum("notes", key, value)))
            run("COMMIT")
        except sqlite3.Error as problem:
            if self._file.in_transaction:
                run("ROLLBACK")
            raise StoreError(f"{self._path}: cannot be written: {problem}") from None

    def close(self) -> None:
        self._file.close()
