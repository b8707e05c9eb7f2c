"""Both stores pass the kit; the one on disk refuses what it must not touch, and syncs once for a list of changes."""

import os
import resource
import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.model.errors import InputError
from holdfast.model.messages import Publish
from holdfast.protocol.store_changes import AckedUpTo, Began, Erase, Keep, Learned, Met, Opened, Stored
from holdfast.store.interface import Store, StoreError
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite import VERSION, SqliteStore
from holdfast.testing.stores import StoreKit, event


class TestMemory(StoreKit):
    @pytest.fixture
    def place(self) -> str:
        self._places: dict[str, Store] = {}
        return "here"

    def open(self, place: str) -> Store:
        return self._places.setdefault(place, MemoryStore())


class TestSqlite(StoreKit):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        return tmp_path / "folder" / "store.db"

    def open(self, place: Path | str) -> Store:
        return SqliteStore(Path(place))

    def files(self, place: Path | str) -> list[Path]:
        return sorted(Path(place).parent.glob(f"{Path(place).name}*"))


@pytest.mark.slow
class TestManyDamages(TestSqlite):
    damages = 500


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    store.write([Began(1), Met("b2", "broker", True), Opened("b2", 1)])
    store.write([Keep(number, 0, Publish(event(number)), (("b2", number),)) for number in range(1, 200)])
    store.close()
    return path


def log_of(path: Path) -> Path:
    return path.with_name("store.db-wal")


def refused(path: Path) -> str:
    """What is said; the file stays as it is."""
    before = path.read_bytes()
    with pytest.raises(InputError) as caught:
        SqliteStore(path).load()
    assert path.read_bytes() == before
    return str(caught.value)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"dear diary, " * 1_000)
    assert "damaged" in refused(path)


def test_a_damaged_store_is_refused(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8192 : 8192 * 6] = os.urandom(8192 * 5)
    path.write_bytes(data)
    assert f"{path}: the store is damaged" in refused(path)


def test_a_store_cut_short_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: 8192 * 3])
    assert "damaged" in refused(path)


def test_a_store_of_a_newer_version_is_refused(path: Path) -> None:
    base = sqlite3.connect(path)
    base.execute(f"PRAGMA user_version = {VERSION + 1}")
    base.close()
    assert f"a store of version {VERSION + 1}" in refused(path)


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE customers (name)")
    base.commit()
    base.close()
    assert "not a broker's store" in refused(path)


def test_two_brokers_cannot_share_a_store(path: Path) -> None:
    first = SqliteStore(path)
    with pytest.raises(InputError, match="another broker"):
        SqliteStore(path)
    first.close()


def test_a_place_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be opened"):
        SqliteStore(tmp_path / "file" / "store.db")


def test_a_full_disk_loses_nothing_and_is_told(path: Path) -> None:
    store = SqliteStore(path)
    pages = store._base.execute("PRAGMA page_count").fetchone()[0]
    store._base.execute(f"PRAGMA max_page_count = {pages}")  # SQLite then answers as it does on a full disk
    big = Publish(event(1_000))
    with pytest.raises(StoreError, match="full"):
        store.write([Keep(number, 0, big, ()) for number in range(1_000, 9_000)])
    assert list(store.load().bodies) == list(range(1, 200))
    assert log_of(path).stat().st_size == 0  # what the log took is given back
    store._base.execute("PRAGMA max_page_count = 1000000")
    store.write([Keep(1_000, 0, big, ())])
    store.close()
    assert list(SqliteStore(path).load().bodies) == [*range(1, 200), 1_000]


def test_the_log_never_fills_a_small_disk_by_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=4 * 2**20))
    store = SqliteStore(path)
    for number in range(1_000, 1_100):
        store.write([Keep(number, 0, Publish(event(number)), (("b2", number),))])
        store.write([AckedUpTo("b2", number), Erase((number,))])
    assert log_of(path).stat().st_size < 2 * 2**20


@pytest.mark.parametrize("part", ["store.db", "store.db-wal"])
def test_a_store_that_is_removed_under_its_broker_takes_nothing_more(path: Path, part: str) -> None:
    store = SqliteStore(path)
    store.write([Keep(900, 0, Publish(event(900)), ())])
    path.with_name(part).unlink()
    for _ in range(2):
        with pytest.raises(StoreError, match="removed or replaced"):
            store.write([Keep(901, 0, Publish(event(901)), ())])
    store.close()


def test_a_log_without_its_database_is_kept(path: Path, tmp_path: Path) -> None:
    store = SqliteStore(path)
    store.write([Keep(900, 0, Publish(event(900)), ())])
    log = log_of(path).read_bytes()
    store.close()
    log_of(path).write_bytes(log)
    path.write_bytes(b"")
    assert "store.db-wal is not" in refused(path)
    assert log_of(path).read_bytes() == log


@pytest.mark.parametrize(
    "damage", ["DELETE FROM bodies WHERE body = 7", "UPDATE neighbours SET kind = 'brokr'", "DELETE FROM neighbours"]
)
def test_rows_that_do_not_fit_together_are_refused(path: Path, damage: str) -> None:
    base = sqlite3.connect(path)
    base.execute(damage)
    base.commit()
    base.close()
    assert "damaged" in refused(path)


def test_a_damaged_event_is_named_with_those_who_lose_it(path: Path) -> None:
    base = sqlite3.connect(path)
    base.execute("UPDATE bodies SET message = x'00' WHERE body IN (7, 8)")
    base.execute("UPDATE neighbours SET used = 3")
    base.commit()
    base.close()
    assert "3 rows fail their checksum: events 2 for b2; 1 of the neighbour b2" in refused(path)


def test_a_damaged_log_is_refused_before_sqlite_drops_what_follows(path: Path) -> None:
    store = SqliteStore(path)
    for number in range(900, 903):
        store.write([Keep(number, 0, Publish(event(number)), ())])
    log, base = bytearray(log_of(path).read_bytes()), path.read_bytes()
    store.close()
    log[32 + 24 + 100] ^= 1  # in the first frame
    path.write_bytes(base)
    log_of(path).write_bytes(log)
    assert "store.db-wal: frame 1 fails its checksum" in refused(path)
    assert log_of(path).read_bytes() == log


V1_TABLES = """
CREATE TABLE began (epoch INTEGER);
CREATE TABLE neighbours (name TEXT PRIMARY KEY, kind TEXT, takes INTEGER, at_stream INTEGER, at_seq INTEGER,
    stream INTEGER, used INTEGER DEFAULT 0);
CREATE TABLE versions (neighbour TEXT, tab TEXT, version INTEGER, PRIMARY KEY (neighbour, tab));
CREATE TABLE conditions (neighbour TEXT, tab TEXT, condition TEXT, UNIQUE (neighbour, tab, condition));
CREATE TABLE states (broker TEXT PRIMARY KEY, state BLOB);
CREATE TABLE bodies (body INTEGER PRIMARY KEY, kept_us INTEGER, message BLOB);
CREATE TABLE queue (neighbour TEXT, seq INTEGER, body INTEGER, PRIMARY KEY (neighbour, seq)) WITHOUT ROWID;
"""


def test_a_store_of_version_0_1_is_upgraded_when_it_is_opened(path: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    store = SqliteStore(path)
    store.write([Learned("b2", "subscriptions", 3, ("b = 2", "a = 1"), (), True)])
    expected = store.load()
    store.close()
    base = sqlite3.connect(old)
    base.executescript(f"{V1_TABLES} PRAGMA application_id = {0x486F6C64}; PRAGMA user_version = 1;")
    base.execute("ATTACH ? AS new", (str(path),))
    for table in ("began", "neighbours", "versions", "conditions", "states", "bodies", "queue"):
        columns = ", ".join(row[1] for row in base.execute(f"PRAGMA main.table_info({table})"))
        base.execute(f"INSERT INTO {table} SELECT {columns} FROM new.{table}")
    base.commit()
    base.close()
    upgraded = SqliteStore(old)
    assert upgraded.load() == expected
    upgraded.write([Keep(900, 0, Publish(event(900)), (("b2", 900),))])
    upgraded.close()
    assert list(SqliteStore(old).load().bodies) == [*expected.bodies, 900]


def test_a_store_whose_broker_was_killed_with_a_full_disk_opens_before_there_is_room(path: Path) -> None:
    store = SqliteStore(path)
    store.write([Keep(number, 0, Publish(event(number)), ()) for number in range(1_000, 3_000)])
    log, base = log_of(path).read_bytes(), path.read_bytes()
    assert len(log) > len(base)
    store.close()
    path.write_bytes(base)
    log_of(path).write_bytes(log)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(base), hard))  # no file can grow, as on a full disk
    try:
        store = SqliteStore(path)
        assert len(store.load().bodies) == 2_199
        with pytest.raises(StoreError):
            store.write([Keep(5_000, 0, Publish(event(5_000)), ())])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.write([Keep(5_000, 0, Publish(event(5_000)), ())])
    store.close()
    assert len(SqliteStore(path).load().bodies) == 2_200


def test_what_a_killed_process_had_committed_is_there(path: Path, tmp_path: Path) -> None:
    store = SqliteStore(path)
    store.write([Keep(900, 0, Publish(event(900)), ())])
    killed = tmp_path / "killed"  # the files as a process that is killed now leaves them
    killed.mkdir()
    for each in path.parent.glob("store.db*"):
        shutil.copy(each, killed)
    assert 900 in SqliteStore(killed / "store.db").load().bodies
    store.close()


def test_a_list_of_changes_is_written_wholly_or_not_at_all(path: Path) -> None:
    store = SqliteStore(path)
    before = store.load()
    again = Keep(5, 0, Publish(event(5)), ())  # this number is taken
    with pytest.raises(StoreError):
        store.write([Began(99), Keep(500, 0, Publish(event(500)), ()), again])
    assert store.load() == before != Stored()
