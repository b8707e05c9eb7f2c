"""Whatever happens to the files of a gateway, of a history or of MQTT sessions, nothing is read that was not written.

The broker's own store has the same test in the kit of all stores (`StoreKit`, `TestManyDamages`).
"""

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.gateway.ledger import CommitLedger
from holdfast.gateway.messages import EventToPublish, Part, decode_outgoing
from holdfast.language.parser import parse
from holdfast.language.subscription import Subscription
from holdfast.model.errors import InputError
from holdfast.store.history import History
from holdfast.store.log import Log, Retention
from holdfast.store.logged import Logged, encode_row
from holdfast.store.note_file import NoteFile
from holdfast.testing.stores import damaged

Content = Any  # what a reader gets, in a form that can be compared
ID = "0123456789abcdef0123456789abcdef"
BLOCK = 512  # a sector


class GatewayLog:
    retention = Retention(keep_bytes=64 * 1024, segment_bytes=4_096)

    def write(self, folder: Path) -> Iterator[Content]:
        """What can be read after each write."""
        log = Log(folder, ID, self.retention, 0)
        kept: list[bytes] = []
        for number in range(40):
            rows = [encode_row(Random(number * 10 + each).randbytes(50)) for each in range(5)]
            log.append(rows, now_us=1)
            kept += rows
            yield list(kept)
        log.close()

    def read(self, folder: Path) -> Content:
        log = Log(folder, ID, self.retention, 0)
        try:
            return list(map(bytes, log.read(log.oldest, log.end, 2**40)))
        finally:
            log.close()

    def is_part(self, found: Content, versions: list[Content]) -> bool:
        return found in versions or not found  # a write that was cut short is cut off


class Past:
    """A history, whose zone maps say where to look."""

    retention = Retention(keep_bytes=64 * 1024, segment_bytes=2_048)
    conditions = ("TRUE", "n < 3", "n > 190", "who = 'p7'", "who LIKE 'p1%' AND n BETWEEN 50 AND 99")

    def write(self, folder: Path) -> Iterator[Content]:
        history = History(folder, ID, self.retention, 0)
        kept: list[dict[str, Any]] = []
        for number in range(40):
            events = [{"n": number * 5 + each, "who": f"p{(number * 5 + each) % 20}"} for each in range(5)]
            rows = [Logged("p", each["n"] + 1, 1, 1, "original", each, b"x" * 20) for each in events]  # type: ignore[arg-type, operator]
            history.append(rows, 1)
            kept += events
            yield list(kept)
        history.close()

    def read(self, folder: Path) -> Content:
        history = History(folder, ID, self.retention, 0)
        try:
            everything, *others = [self._found(history, parse(each)) for each in self.conditions]
        finally:
            history.close()
        for condition, found in zip(self.conditions[1:], others, strict=True):
            assert found == [each for each in everything if parse(condition).matches(each)]  # nothing is hidden
        return everything

    def _found(self, history: History, wanted: Subscription) -> list[Any]:
        found: list[Any] = []
        at, end = history.log.oldest, history.log.end
        while at < end:
            part = history.search(wanted, at, end, 0, 1_000, 2**20)
            found += [dict(each.attributes) for each in part.events]
            at = part.next
        return found

    def is_part(self, found: Content, versions: list[Content]) -> bool:
        return found in versions or not found  # a write that was cut short is cut off


class Ledger:
    def write(self, folder: Path) -> Iterator[Content]:
        ledger = CommitLedger(folder / "ledger.sqlite")
        kept: list[tuple[int, Any]] = []
        for batch in range(30):
            rows = [EventToPublish({"n": f"{batch}-{each}" * 9}) for each in range(4)]
            ledger.stage("q", batch, 0, "a", 0, rows, now_us=1)
            ledger.commit("q", batch, [Part(0, "a", 4)], now_us=2)
            kept += [(len(kept) + at, each.attributes) for at, each in enumerate(rows)]
            yield batch, list(kept)
        ledger.close()

    def read(self, folder: Path) -> Content:
        ledger = CommitLedger(folder / "ledger.sqlite")
        found: list[tuple[int, Any]] = []
        try:
            batch = ledger.last_batch("q")
            while (chunk := ledger.first_chunk()) is not None:
                first, data = chunk
                found += [(first + at, each.attributes) for at, each in enumerate(decode_outgoing(data))]
                ledger.on_published(first)
        finally:
            ledger.close()
        return batch, found

    def is_part(self, found: Content, versions: list[Content]) -> bool:
        return found in versions or found == (-1, [])  # its last transaction may be incomplete


class MqttNotes:
    def write(self, folder: Path) -> Iterator[Content]:
        file = NoteFile(folder / "b1.db.mqtt", print)
        kept: dict[bytes, bytes] = {}
        for number in range(30):
            notes: dict[bytes, bytes | None] = {
                b"%d-%d" % (number, each): Random(number * 10 + each).randbytes(80) for each in range(4)
            }
            file.write(list(notes.items()))
            kept |= {key: value for key, value in notes.items() if value is not None}
            yield dict(kept)
        file.close()

    def read(self, folder: Path) -> Content:
        file = NoteFile(folder / "b1.db.mqtt", lambda text: None)
        try:
            return file.load()
        finally:
            file.close()

    def is_part(self, found: Content, versions: list[Content]) -> bool:
        return found.items() <= versions[-1].items()  # what is damaged is left out


KINDS: list[Callable[[], Any]] = [GatewayLog, Past, Ledger, MqttNotes]


def hurt(files: dict[Path, bytes], dice: Random) -> dict[Path, bytes]:
    """One of the files with other bits or bytes, cut short, with two sectors exchanged, or one written twice."""
    kind = dice.randrange(5)
    if kind < 2:
        return damaged(files, dice)
    path = dice.choice([each for each, content in files.items() if len(content) > 2 * BLOCK])
    content = bytearray(files[path])
    if kind == 2:
        return {**files, path: bytes(content[: dice.randrange(len(content))])}
    one, other = (dice.randrange(len(content) // BLOCK) * BLOCK for _ in range(2))
    first, second = bytes(content[one : one + BLOCK]), bytes(content[other : other + BLOCK])
    content[one : one + BLOCK] = second
    if kind == 3:
        content[other : other + BLOCK] = first
    return {**files, path: bytes(content)}


@pytest.mark.parametrize("damages", [12, pytest.param(335, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_of_damaged_files_nothing_is_read_that_was_not_written(kind: Any, damages: int, tmp_path: Path) -> None:
    async def run() -> None:  # notes belong to an event loop
        whole, hurt_folder = tmp_path / "whole", tmp_path / "hurt"
        whole.mkdir()
        of, versions = kind(), []
        for version in of.write(whole):
            versions.append(version)
            if len(versions) == 25:  # a process that was killed: the log has much that is not in the database
                killed = {path: path.read_bytes() for path in whole.iterdir()}
        closed = {path: path.read_bytes() for path in whole.iterdir()}
        outcomes: Counter[str] = Counter()
        for number in range(damages):
            shutil.rmtree(hurt_folder, ignore_errors=True)
            hurt_folder.mkdir()
            for path, content in hurt(killed if number % 2 else closed, Random(number)).items():
                (hurt_folder / path.name).write_bytes(content)
            try:
                found = of.read(hurt_folder)
            except InputError as problem:
                assert str(hurt_folder) in str(problem) or "damaged" in str(problem), problem  # it is named
                outcomes["refused"] += 1
                continue
            assert of.is_part(found, versions), number
            outcomes["the same" if found in (versions[-1], versions[24]) else "left out"] += 1
        assert outcomes["refused"] + outcomes["left out"] > damages / 10, outcomes

    asyncio.run(run())


def test_the_judge_convicts_a_reader_that_does_not_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above can fail."""
    monkeypatch.setattr("holdfast.store.note_file.checksum", lambda *row: 0)
    with pytest.raises(AssertionError):
        test_of_damaged_files_nothing_is_read_that_was_not_written(MqttNotes, 60, tmp_path)


def test_a_ledger_of_format_1_gets_its_checksums(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "ledger.sqlite"
    old = sqlite3.connect(path)
    old.executescript(
        "CREATE TABLE chunks (id INTEGER PRIMARY KEY, size INTEGER NOT NULL, rows BLOB NOT NULL);"
        "CREATE TABLE staged (query TEXT NOT NULL, batch INTEGER NOT NULL, partition INTEGER NOT NULL,"
        " attempt TEXT NOT NULL, part INTEGER NOT NULL, count INTEGER NOT NULL, chunk INTEGER NOT NULL,"
        " at_us INTEGER NOT NULL, PRIMARY KEY (query, batch, partition, attempt, part)) WITHOUT ROWID;"
        "CREATE TABLE committed (query TEXT PRIMARY KEY, batch INTEGER NOT NULL, at_us INTEGER NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE queue (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, chunk INTEGER NOT NULL);"
        "CREATE TABLE numbers (next INTEGER NOT NULL, published INTEGER NOT NULL);"
        "INSERT INTO numbers VALUES (7, 5); INSERT INTO committed VALUES ('q', 3, 1);"
        "INSERT INTO chunks VALUES (1, 300, x'91'); INSERT INTO queue VALUES (5, 2, 1);"
        "PRAGMA user_version=1;"
    )
    old.close()
    for _ in range(2):
        ledger = CommitLedger(path)
        assert (ledger.next, ledger.published, ledger.last_batch("q")) == (7, 5, 3)
        assert ledger.first_chunk() == (5, b"\x91")
        ledger.close()
    changed = sqlite3.connect(path)
    changed.execute("UPDATE chunks SET rows = x'92'")
    changed.commit()
    changed.close()
    with pytest.raises(InputError, match="1 rows of chunks fail their checksum"):
        CommitLedger(path)
