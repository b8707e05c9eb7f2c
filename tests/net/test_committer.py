"""Writing to a durable store off the event loop, and what happens when that fails."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from holdfast.net import committer
from holdfast.net.committer import Committer
from holdfast.protocol.store_changes import Began, Change
from holdfast.store.interface import StoreError
from tests.net.harness import live, until


class FullDisk:
    def __init__(self) -> None:
        self.attempts = 0

    def write(self, changes: Sequence[Change]) -> None:
        self.attempts += 1
        raise StoreError("the disk is full")

    def close(self) -> None: ...


@live
async def test_stopping_between_two_attempts_is_the_end_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "_FINISH_S", 0.0)
    monkeypatch.setattr(committer, "_AGAIN_S", 0.05)
    store, told = FullDisk(), list[str]()
    writing: Committer[Change] = Committer(store, told.append)
    writing.persist((Began(1),), 1)
    await until(lambda: writing.problem)
    working = writing._working
    assert working is not None
    await writing.finish()
    attempts = store.attempts
    await asyncio.wait([working])
    assert working.exception() is None
    assert (store.attempts, told) == (attempts, ["the disk is full; retrying"])


class Memory:
    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, changes: Sequence[str]) -> None:
        self.written += changes

    def close(self) -> None: ...


@live
async def test_whoever_fails_when_told_that_something_is_safe_does_not_end_the_writing() -> None:
    store, failures, told = Memory(), list[object](), list[int]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context["exception"]))
    writing: Committer[str] = Committer(store, lambda text: None)

    def on_safe(token: int) -> None:
        told.append(token)
        raise KeyError(token)

    writing.on_safe = on_safe
    for token in (1, 2):
        writing.persist((f"change {token}",), token)
        await until(lambda token=token: token in told)  # type: ignore[misc]
    assert store.written == ["change 1", "change 2"] and len(failures) == 2
    await writing.finish()


class Slow:
    """Writes when it is told to, and remembers each transaction."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.written: list[list[str]] = []

    def write(self, changes: Sequence[str]) -> None:
        self.may.wait()
        self.written.append(list(changes))

    def close(self) -> None: ...


@live
async def test_what_comes_while_one_transaction_is_written_is_in_the_next_and_all_wait_for_their_own() -> None:
    store = Slow()
    writing: Committer[str] = Committer(store, print)
    first = asyncio.create_task(writing.safe(["a"]))
    await until(lambda: writing.unwritten == 1 and not writing._waiting)
    others = [asyncio.create_task(writing.safe([each])) for each in "bc"]
    await asyncio.sleep(0)
    assert not first.done()
    store.may.set()
    await asyncio.gather(first, *others)
    assert store.written == [["a"], ["b", "c"]]
    await writing.finish()


@live
async def test_who_waits_is_let_go_when_the_writer_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "_FINISH_S", 0.0)
    monkeypatch.setattr(committer, "_AGAIN_S", 0.05)
    writing: Committer[Change] = Committer(FullDisk(), lambda line: None)
    waiting = [asyncio.create_task(writing.safe([Began(each)])) for each in (1, 2)]
    await until(lambda: writing.problem)
    await writing.finish()
    await asyncio.gather(*waiting)
    await writing.safe([Began(3)])
