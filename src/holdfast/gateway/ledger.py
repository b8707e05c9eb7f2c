"""What is to be published, and what has been: the exactly-once half of a gateway's writing side.

The tasks of a Spark batch stage their events here, and the batch is then committed: in one transaction, all its events
get their place in the queue of what is published next, and the batch is noted as done. A batch that comes again,
because Spark does not know that it was committed, is recognised by its query and its number and changes nothing.

Batches of a query are committed in order of their numbers, so one number per query remembers them all, however
many there were. Each event in the queue has a number too, given with the commit: it becomes the publication's
sequence number, so that an event which is sent again after a crash is the same event to every subscriber.

SQLite in WAL mode with full sync: what a call returned from is on disk. Calls come from one thread at a time. Each row
ends with its checksum (`store.checksums`): a ledger that is damaged is refused, and nothing of it is published.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast.gateway.messages import EventToPublish, Part, encode_outgoing
from holdfast.model.errors import HoldfastError, InputError
from holdfast.store.checksums import checksum
from holdfast.store.log_check import check_log

FORMAT = 2  # format 1, of Holdfast 0.2, has the same tables without checksums
BYTES_MAX = 2**30  # staged and waiting: a broker may be away for an hour at a thousand small events a second
QUERIES_MAX = 10_000  # whose last batch is remembered; of more, the one that committed longest ago is forgotten
_CHUNK_BYTES = 256  # what keeping a chunk takes beside its events, so that many empty ones do not come for nothing
STALE_S = 7 * 86_400.0  # a batch that was staged and neither committed nor aborted is given up after this long

# Names and types of the columns, what follows them, and what follows the table.
_TABLES = {
    "chunks": ("id INTEGER PRIMARY KEY, size INTEGER NOT NULL, rows BLOB NOT NULL", "", ""),
    "staged": (
        "query TEXT NOT NULL, batch INTEGER NOT NULL, partition INTEGER NOT NULL, attempt TEXT NOT NULL, "
        "part INTEGER NOT NULL, count INTEGER NOT NULL, chunk INTEGER NOT NULL, at_us INTEGER NOT NULL",
        ", PRIMARY KEY (query, batch, partition, attempt, part)",
        " WITHOUT ROWID",
    ),
    "committed": ("query TEXT PRIMARY KEY, batch INTEGER NOT NULL, at_us INTEGER NOT NULL", "", " WITHOUT ROWID"),
    "queue": ("first INTEGER PRIMARY KEY, count INTEGER NOT NULL, chunk INTEGER NOT NULL", "", ""),
    "numbers": ("next INTEGER NOT NULL, published INTEGER NOT NULL", "", ""),
}
_NAMES = {table: ", ".join(each.split()[0] for each in columns.split(", ")) for table, (columns, *_) in _TABLES.items()}


def _values(table: str) -> str:
    """Of a row that is inserted, with its checksum."""
    places = ", ".join(f"?{at}" for at in range(1, _NAMES[table].count(",") + 2))
    return f"VALUES ({places}, checksum('{table}', {places}))"


class LedgerFullError(HoldfastError):
    """Too much waits to be published; it can be tried again."""


class NotStagedError(HoldfastError):
    """What is to be committed is not all here."""


class CommitLedger:
    def __init__(self, path: Path, bytes_max: int = BYTES_MAX) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._db = _open(path)
        self._bytes = self._one("SELECT coalesce(sum(size), 0) FROM chunks")
        self.queries_forgotten = 0

    def close(self) -> None:
        self._db.close()

    def _one(self, question: str, *given: object) -> int:
        found = self._db.execute(question, given).fetchone()
        return -1 if found is None else int(found[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it on disk at the end, or none of it."""
        kept = self._bytes
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._bytes = kept
            raise

    def _insert(self, table: str, *row: object) -> None:
        self._db.execute(f"INSERT OR REPLACE INTO {table} {_values(table)}", row)

    def _number(self, next_: int, published: int) -> None:
        sums = "next=?1, published=?2, checksum=checksum('numbers', ?1, ?2)"
        self._db.execute(f"UPDATE numbers SET {sums}", (next_, published))

    @property
    def waiting(self) -> int:
        """Events that are committed and not yet published."""
        return self.next - self.published

    @property
    def next(self) -> int:
        """How many events have ever been committed; the number of the next one."""
        return self._one("SELECT next FROM numbers")

    @property
    def published(self) -> int:
        return self._one("SELECT published FROM numbers")

    # Writing -------------------------------------------------------------------------------------

    def stage(
        self,
        query: str,
        batch: int,
        partition: int,
        attempt: str,
        part: int,
        rows: Sequence[EventToPublish],
        now_us: int,
    ) -> bool:
        """Keep events until their batch is committed; False when it is already, and nothing is kept."""
        if self.last_batch(query) >= batch:
            return False
        if not rows:
            return True
        place = (query, batch, partition, attempt, part)
        same = "SELECT count FROM staged WHERE query=? AND batch=? AND partition=? AND attempt=? AND part=?"
        if self._one(same, *place) >= 0:
            return True  # asked again because the answer was lost
        data = encode_outgoing(list(rows))
        size = len(data) + _CHUNK_BYTES
        if self._bytes + size > self._bytes_max:
            raise LedgerFullError(f"{self._bytes:,} bytes wait to be published; {self._bytes_max:,} are allowed")
        with self._transaction():
            chunk = self._one("SELECT coalesce(max(id), 0) + 1 FROM chunks")
            self._insert("chunks", chunk, size, data)
            self._insert("staged", *place, len(rows), chunk, now_us)
            self._bytes += size
        return True

    def last_batch(self, query: str) -> int:
        """The last batch of a query that was committed; -1 when there is none."""
        return self._one("SELECT batch FROM committed WHERE query=?", query)

    def commit(self, query: str, batch: int, parts: Sequence[Part], now_us: int) -> bool:
        """Queue what these attempts staged, in order of their partitions; False when the batch was committed before."""
        if self.last_batch(query) >= batch:
            return False
        with self._transaction():
            number = self.next
            for part in sorted(parts, key=lambda each: each.partition):
                number = self._queue(query, batch, part, number)
            self._number(number, self.published)
            self._insert("committed", query, batch, now_us)
            self._unstage("query=? AND batch<=?", query, batch)
            self._forget_queries()
        return True

    def _queue(self, query: str, batch: int, part: Part, number: int) -> int:
        place = (query, batch, part.partition, part.attempt)
        same = "query=? AND batch=? AND partition=? AND attempt=?"
        found = self._db.execute(f"SELECT count, chunk FROM staged WHERE {same} ORDER BY part", place).fetchall()
        if sum(count for count, _ in found) != part.rows:
            raise NotStagedError(
                f"query {query}, batch {batch}, partition {part.partition}: {part.rows} events were to be committed "
                f"and {sum(count for count, _ in found)} are staged"
            )
        for count, chunk in found:
            self._insert("queue", number, count, chunk)
            number += count
        self._db.execute(f"DELETE FROM staged WHERE {same}", place)
        return number

    def abort(self, query: str, batch: int, parts: Sequence[Part]) -> None:
        with self._transaction():
            for part in parts:
                self._unstage(
                    "query=? AND batch=? AND partition=? AND attempt=?", query, batch, part.partition, part.attempt
                )

    def give_up_stale(self, before_us: int) -> None:
        with self._transaction():
            self._unstage("at_us<?", before_us)

    def _unstage(self, where: str, *given: object) -> None:
        chunks = f"SELECT chunk FROM staged WHERE {where}"
        self._bytes -= self._one(f"SELECT coalesce(sum(size), 0) FROM chunks WHERE id IN ({chunks})", *given)
        self._db.execute(f"DELETE FROM chunks WHERE id IN ({chunks})", given)
        self._db.execute(f"DELETE FROM staged WHERE {where}", given)

    def _forget_queries(self) -> None:
        over = self._one("SELECT count(*) FROM committed") - QUERIES_MAX
        if over > 0:
            oldest = "SELECT query FROM committed ORDER BY at_us, query LIMIT ?"
            self._db.execute(f"DELETE FROM committed WHERE query IN ({oldest})", (over,))
            self.queries_forgotten += over

    # Publishing ----------------------------------------------------------------------------------

    def first_chunk(self) -> tuple[int, bytes] | None:
        """The oldest events that are not published: the number of the first, and all of them encoded."""
        found = self._db.execute(
            "SELECT first, rows FROM queue JOIN chunks ON chunks.id = chunk ORDER BY first LIMIT 1"
        ).fetchone()
        return None if found is None else (found[0], found[1])

    def on_published(self, first: int) -> None:
        """The chunk that begins with this number has reached the broker."""
        with self._transaction():
            count, chunk, size = self._db.execute(
                "SELECT count, chunk, size FROM queue JOIN chunks ON chunks.id = chunk WHERE first=?", (first,)
            ).fetchone()
            self._db.execute("DELETE FROM queue WHERE first=?", (first,))
            self._db.execute("DELETE FROM chunks WHERE id=?", (chunk,))
            self._number(self.next, first + count)
            self._bytes -= size


def _open(path: Path) -> sqlite3.Connection:
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and (damaged := check_log(log).damaged):
        raise InputError(f"{log}: damaged: {damaged}")
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.create_function("checksum", -1, checksum, deterministic=True)
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > FORMAT:
            raise InputError(f"{path}: written in format {version}, this version reads {FORMAT}; use a newer Holdfast")
        (state,) = db.execute("PRAGMA integrity_check(1)").fetchone()
        if state != "ok":
            raise InputError(f"{path}: damaged: {state}")
        if version == FORMAT:
            _check_rows(db, path)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        if version < FORMAT:
            db.execute("BEGIN IMMEDIATE")
            _make(db, version)
            db.execute("COMMIT")
    except (sqlite3.DatabaseError, UnicodeError) as problem:
        db.close()
        raise InputError(f"{path}: cannot be used: {problem}") from None
    except BaseException:
        db.close()
        raise
    return db


def _check_rows(db: sqlite3.Connection, path: Path) -> None:
    for table, names in _NAMES.items():
        wrong = f"SELECT count(*) FROM {table} WHERE checksum('{table}', {names}) IS NOT checksum"
        (count,) = db.execute(wrong).fetchone()
        if count:
            raise InputError(f"{path}: damaged: {count} rows of {table} fail their checksum; nothing was published")


def _make(db: sqlite3.Connection, version: int) -> None:
    """New tables, with the rows of format 1 if there are any."""
    for table, (columns, keys, after) in _TABLES.items():
        if version:
            db.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
        db.execute(f"CREATE TABLE {table} ({columns}, checksum INTEGER NOT NULL{keys}){after}")
        if version:
            names = _NAMES[table]
            db.execute(f"INSERT INTO {table} SELECT {names}, checksum('{table}', {names}) FROM old_{table}")
            db.execute(f"DROP TABLE old_{table}")
    if not version:
        db.execute(f"INSERT INTO numbers {_values('numbers')}", (0, 0))
    db.execute(f"PRAGMA user_version={FORMAT}")
