"""Writing to a durable store off the event loop, and what happens when that fails."""

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.net import committer
from holdfast.net.committer import Committer
from holdfast.protocol.effects import Persist
from holdfast.protocol.store_changes import Began, Change, Stored
from holdfast.store.interface import StoreError
from tests.net.harness import live, until


class FullDisk:
    def __init__(self) -> None:
        self.attempts = 0

    def load(self) -> Stored:
        return Stored()

    def write(self, changes: Sequence[Change]) -> None:
        self.attempts += 1
        raise StoreError("the disk is full")

    def close(self) -> None: ...


@live
async def test_stopping_between_two_attempts_is_the_end_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "_FINISH_S", 0.0)
    monkeypatch.setattr(committer, "_AGAIN_S", 0.05)
    store, told = FullDisk(), list[str]()
    writing = Committer(store, told.append)
    writing.persist(Persist(1, (Began(1),)))
    await until(lambda: writing.problem)
    working = writing._working
    assert working is not None
    await writing.finish()
    attempts = store.attempts
    await asyncio.wait([working])
    assert working.exception() is None
    assert (store.attempts, told) == (attempts, ["the disk is full; retrying"])
