"""The ledger: a batch is published once, whole, and in order, whatever is repeated or interrupted."""

import sqlite3
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from holdfast.gateway import ledger as gateway_ledger
from holdfast.gateway.ledger import CommitLedger, LedgerFullError, NotStagedError
from holdfast.gateway.messages import EventToPublish, Part, decode_outgoing
from holdfast.model.errors import InputError


def events(*numbers: int) -> list[EventToPublish]:
    return [EventToPublish({"n": number}) for number in numbers]


def published(ledger: CommitLedger) -> list[tuple[int, Any]]:
    """Take everything that waits, as a publisher does: numbers and values."""
    found = []
    while (chunk := ledger.first_chunk()) is not None:
        first, data = chunk
        found += [(first + at, row.attributes["n"]) for at, row in enumerate(decode_outgoing(data))]
        ledger.on_published(first)
    return found


def stage(ledger: CommitLedger, batch: int, partition: int, attempt: str, *numbers: int, query: str = "q") -> Part:
    for at, number in enumerate(numbers):
        ledger.stage(query, batch, partition, attempt, at, events(number), now_us=1)
    return Part(partition, attempt, len(numbers))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def test_nothing_is_published_before_its_batch_is_committed(path: Path) -> None:
    ledger = CommitLedger(path)
    part = stage(ledger, 0, 0, "a", 1, 2)
    assert published(ledger) == []
    assert ledger.commit("q", 0, [part], now_us=2)
    assert published(ledger) == [(0, 1), (1, 2)]


def test_a_batch_that_comes_again_changes_nothing(path: Path) -> None:
    ledger = CommitLedger(path)
    ledger.commit("q", 7, [stage(ledger, 7, 0, "a", 1, 2)], now_us=2)
    for again in range(3):
        assert not ledger.stage("q", 7, 0, f"again-{again}", 0, events(1, 2), now_us=3)
        assert not ledger.commit("q", 7, [Part(0, f"again-{again}", 2)], now_us=4)
        assert not ledger.commit("q", 6, [Part(0, "older", 2)], now_us=4)
        ledger.close()
        ledger = CommitLedger(path)
    assert published(ledger) == [(0, 1), (1, 2)]
    assert ledger.commit("q", 8, [stage(ledger, 8, 0, "a", 3)], now_us=5)
    assert ledger.commit("other", 7, [stage(ledger, 7, 0, "a", 4, query="other")], now_us=5)
    assert published(ledger) == [(2, 3), (3, 4)]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_partitions_are_published_in_their_order_however_they_came(path: Path, order: tuple[int, ...]) -> None:
    ledger = CommitLedger(path)
    parts = [stage(ledger, 0, partition, "a", partition * 10, partition * 10 + 1) for partition in order]
    ledger.commit("q", 0, parts, now_us=2)
    assert [value for _, value in published(ledger)] == [0, 1, 10, 11, 20, 21]


def test_attempts_of_one_task_do_not_mix(path: Path) -> None:
    ledger = CommitLedger(path)
    stage(ledger, 0, 0, "failed", 1, 2, 3)
    part = stage(ledger, 0, 0, "second", 1, 2)
    ledger.stage("q", 0, 0, "second", 1, events(99), now_us=1)  # asked again: what is there stays
    ledger.commit("q", 0, [part], now_us=2)
    assert published(ledger) == [(0, 1), (1, 2)]
    ledger.close()
    with sqlite3.connect(path) as db:  # and nothing is left of either
        assert db.execute("SELECT (SELECT count(*) FROM chunks) + (SELECT count(*) FROM staged)").fetchone() == (0,)


def test_a_commit_of_what_is_not_all_there_is_refused_whole(path: Path) -> None:
    ledger = CommitLedger(path)
    parts = [stage(ledger, 0, 0, "a", 1, 2), Part(1, "b", 1)]
    with pytest.raises(NotStagedError, match="partition 1: 1 events were to be committed and 0 are staged"):
        ledger.commit("q", 0, parts, now_us=2)
    with pytest.raises(NotStagedError):
        ledger.commit("q", 0, [parts[0], parts[0]], now_us=2)
    assert (published(ledger), ledger.last_batch("q"), ledger.next) == ([], -1, 0)
    assert ledger.commit("q", 0, parts[:1], now_us=2)
    assert published(ledger) == [(0, 1), (1, 2)]


def test_what_was_staged_or_committed_survives_without_closing(path: Path) -> None:
    first = CommitLedger(path)
    part = stage(first, 0, 0, "a", 1)
    second = CommitLedger(path)  # as a process that starts while the killed one's files are as they were
    second.commit("q", 0, [part], now_us=2)
    assert published(CommitLedger(path)) == [(0, 1)]
    assert CommitLedger(path).published == 1


def test_there_is_a_limit_to_what_may_wait(path: Path) -> None:
    ledger = CommitLedger(path, bytes_max=2_000)
    part = stage(ledger, 0, 0, "a", 1, 2, 3, 4, 5, 6, 7)
    with pytest.raises(LedgerFullError, match="2,000 are allowed"):
        ledger.stage("q", 0, 0, "a", 7, events(8), now_us=1)
    ledger.commit("q", 0, [part], now_us=2)
    with pytest.raises(LedgerFullError):
        stage(ledger, 1, 0, "a", 8)
    published(ledger)
    stage(ledger, 1, 0, "a", 8)
    ledger.close()
    assert CommitLedger(path, bytes_max=2_000).commit("q", 1, [Part(0, "a", 1)], now_us=3)


def test_what_is_aborted_or_forgotten_takes_no_room(path: Path) -> None:
    ledger = CommitLedger(path, bytes_max=400)
    for batch in range(10):
        ledger.abort("q", batch, [stage(ledger, batch, 0, "a", 1)])
    stage(ledger, 11, 0, "a", 1)
    ledger.give_up_stale(before_us=2)
    stage(ledger, 12, 0, "a", 1)


def test_the_query_that_committed_longest_ago_is_forgotten_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_ledger, "QUERIES_MAX", 3)
    ledger = CommitLedger(path)
    for at, query in enumerate("abcad"):
        ledger.commit(query, at, [], now_us=at)
    assert [ledger.last_batch(query) for query in "abcd"] == [3, -1, 2, 4]
    assert ledger.queries_forgotten == 1


def test_another_version_and_a_damaged_file_are_refused_and_kept(path: Path) -> None:
    CommitLedger(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=9")
    db.close()
    with pytest.raises(InputError, match="written in format 9, this version reads 2; use a newer Holdfast"):
        CommitLedger(path)
    path.write_bytes(b"this is no database, whatever its name says" * 100)
    before = path.read_bytes()
    with pytest.raises(InputError, match="cannot be used: file is not a database"):
        CommitLedger(path)
    assert path.read_bytes() == before
