"""Events of others on disk, by source and number, for whoever answers for them: one SQLite file, bounded by its bytes.

What does not fit any more is dropped oldest first. A row whose checksum is wrong counts as not there. One process uses
the file at a time, because what it knows of its size would not be true otherwise.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import msgspec

from holdfast.model.errors import HoldfastError, InputError, PeerError
from holdfast.model.messages import Deliver, Publication
from holdfast.store.checksums import checksum
from holdfast.wire.codec import decode_untrusted, encode

_APPLICATION = 0x486F6C6B  # "Holk": not a broker's store
_ROW_BYTES = 40  # of a row beside its event
_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    source TEXT NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (source, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS arrivals (
    at INTEGER PRIMARY KEY, source TEXT NOT NULL, seq INTEGER NOT NULL, bytes INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS epochs (source TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID;
"""


class NotWrittenError(HoldfastError):
    """The disk has refused a write, and the file is as it was before."""


class KeptEvents:
    """May be used from several threads; each call has the file to itself."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._lock = Lock()
        try:
            self._file = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
            self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
            (application,) = self._file.execute("PRAGMA application_id").fetchone()
            (tables,) = self._file.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
            if application not in (0, _APPLICATION) or (tables and not application):
                raise InputError(f"{path}: this file belongs to something else; name another")
            self._file.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = NORMAL")
            self._file.executescript(_SCHEMA)
        except sqlite3.Error as problem:
            if "locked" in str(problem):
                raise InputError(f"{path}: another keeper is using this file; give each keeper its own") from None
            raise InputError(f"{path}: cannot be used as a store of events: {problem}") from None
        (self.bytes,) = self._file.execute("SELECT COALESCE(SUM(bytes), 0) FROM arrivals").fetchone()

    def close(self) -> None:
        with self._lock:
            self._file.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction; a NotWrittenError when it cannot be written, and then nothing of it is."""
        with self._lock:
            before = self.bytes
            try:
                self._file.execute("BEGIN")
                yield
                self._file.execute("COMMIT")
            except sqlite3.OperationalError as problem:
                self.bytes = before
                if self._file.in_transaction:
                    self._file.execute("ROLLBACK")
                raise NotWrittenError(str(problem)) from None

    def __len__(self) -> int:
        (count,) = self._file.execute("SELECT COUNT(*) FROM events").fetchone()
        return int(count)

    def add(self, publications: Iterable[Publication]) -> None:
        """In one transaction; an event that is there already stays as it is."""
        with self._writing():
            for each in publications:
                self._add_one(each)
            self._drop_oldest()

    def _add_one(self, each: Publication) -> None:
        body = encode(Deliver(msgspec.structs.replace(each, record=b"")))
        row = each.source, each.seq, body, checksum(each.source, each.seq, body)
        if self._file.execute("INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?)", row).rowcount:
            size = len(body) + len(each.source) + _ROW_BYTES
            self._file.execute(
                "INSERT INTO arrivals (source, seq, bytes) VALUES (?, ?, ?)", (each.source, each.seq, size)
            )
            self.bytes += size

    def _drop_oldest(self) -> None:
        while self.bytes > self._bytes_max:
            oldest = self._file.execute("SELECT at, source, seq, bytes FROM arrivals ORDER BY at LIMIT 1000").fetchall()
            for at, source, seq, size in oldest:
                self._file.execute("DELETE FROM events WHERE source = ? AND seq = ?", (source, seq))
                self._file.execute("DELETE FROM arrivals WHERE at = ?", (at,))
                self.bytes -= size
                if self.bytes <= self._bytes_max:
                    break

    def between(self, source: str, first: int, last: int, most: int) -> list[Publication]:
        """The events of a source with these numbers, ascending, at most so many."""
        query = "SELECT seq, body, sum FROM events WHERE source = ? AND seq BETWEEN ? AND ? ORDER BY seq LIMIT ?"
        found: list[Publication] = []
        with self._lock:
            rows = self._file.execute(query, (source, first, last, most)).fetchall()
        for seq, body, sum_ in rows:
            if checksum(source, seq, body) != sum_:
                continue
            try:
                message = decode_untrusted(body)
            except PeerError:
                continue
            if isinstance(message, Deliver):
                found.append(message.publication)
        return found

    def note_epoch(self, source: str, epoch: int) -> None:
        with self._writing():
            self._file.execute("INSERT OR REPLACE INTO epochs VALUES (?, ?)", (source, epoch))

    def epoch(self, source: str) -> int:
        """The epoch of a publisher that was noted last, or 1, which is older than any."""
        with self._lock:
            row = self._file.execute("SELECT epoch FROM epochs WHERE source = ?", (source,)).fetchone()
        return row[0] if row else 1

    def sources(self) -> dict[str, tuple[int, int, int]]:
        """Whose events there are: the epoch of each, or 1, its first number and its last."""
        query = (
            "SELECT source, COALESCE((SELECT epoch FROM epochs WHERE epochs.source = events.source), 1), MIN(seq), "
            "MAX(seq) FROM events GROUP BY source"
        )
        return {source: (epoch, first, last) for source, epoch, first, last in self._file.execute(query)}
