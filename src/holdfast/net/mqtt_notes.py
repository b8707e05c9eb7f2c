"""The file in which a broker with a store writes down its MQTT sessions, beside the store: SQLite, one table.

As with the store itself, all that has come while one transaction is synced is in the next. What cannot be written is
tried again until it can, and whoever waits for it waits. Each note has a checksum. One that is damaged is told of and
left out: its client begins a new session, or its topic has no retained event until the next one.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from holdfast.model.errors import InputError
from holdfast.mqtt.notes import Notes
from holdfast.store.checksums import checksum
from holdfast.store.log_check import check_log

_AGAIN_S = 1.0  # between attempts to write to a file that cannot be written


class NoteFile:
    def __init__(self, path: Path, log: Callable[[str], None]) -> None:
        self._path = path
        self._log = log
        self._thread = ThreadPoolExecutor(1, "holdfast-mqtt")
        self._waiting: Notes = {}
        self._written = asyncio.Event()  # of those who wait for what waits
        self._working: asyncio.Task[None] | None = None
        self._closed = False
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

    async def write(self, notes: Notes) -> None:
        """Until they are safe, with all that were written before."""
        if not notes:
            return
        self._waiting |= notes
        written = self._written
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        await written.wait()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and not self._closed:
            notes, self._waiting = self._waiting, {}
            written, self._written = self._written, asyncio.Event()
            told = False
            while (problem := await loop.run_in_executor(self._thread, self._write, notes)) and not self._closed:
                if not told:
                    told = True
                    self._log(f"{self._path}: {problem}; retrying")
                await asyncio.sleep(_AGAIN_S)
            written.set()
        self._working = None

    def _write(self, notes: Notes) -> str:
        try:
            self._file.execute("BEGIN IMMEDIATE")
            for key, value in notes.items():
                if value is None:
                    self._file.execute("DELETE FROM notes WHERE key = ?", (key,))
                else:
                    self._file.execute(
                        "INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (key, value, checksum("notes", key, value))
                    )
            self._file.execute("COMMIT")
        except sqlite3.Error as problem:
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
            return str(problem)
        return ""

    async def close(self) -> None:
        """Write what waits, then close."""
        if self._working is not None:
            await asyncio.wait([self._working], timeout=_AGAIN_S)
        self._closed = True
        self._thread.shutdown(wait=True)
        self._file.close()
