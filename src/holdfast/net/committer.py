"""Write changes to a file, off the event loop, as many as have come in one go: a broker's store, its notes of sessions.

While one transaction is being synced the changes of the next gather: so the more there is to do, the fewer syncs each
event needs. When the file cannot be written, as on a full disk, it is tried again until it can; meanwhile nothing that
depends on it happens, so neighbours keep what they have.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from holdfast.store.interface import StoreError

_AGAIN_S = 1.0  # between attempts to write to a store that cannot
_FINISH_S = 5.0  # that stopping waits for it: what is not written was not acknowledged

C = TypeVar("C")
C_contra = TypeVar("C_contra", contravariant=True)


class WriteTarget(Protocol[C_contra]):
    """What is written to."""

    def write(self, changes: Sequence[C_contra]) -> None:
        """All or none, safe when it returns; a StoreError when it cannot."""

    def close(self) -> None: ...


class Committer(Generic[C]):
    def __init__(self, store: WriteTarget[C], log: Callable[[str], None]) -> None:
        self.on_safe: Callable[[int], None] = lambda token: None
        self.problem: str | None = None  # why the last attempt to write has failed; None when it has not
        self._store = store
        self._log = log
        self._thread = ThreadPoolExecutor(1, "holdfast-store")
        self._waiting: list[C] = []
        self._next = asyncio.Event()  # for who waits for them
        self._writing = 0  # changes of the transaction under way
        self._token = 0  # of the last of them
        self._working: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def unwritten(self) -> int:
        """Changes that are not safe yet."""
        return len(self._waiting) + self._writing

    def persist(self, changes: Sequence[C], token: int = 0) -> None:
        """Write these after those before them; `on_safe` is then told the token."""
        self._waiting += changes
        self._token = token
        if self._working is None and not self._stopped:
            self._working = asyncio.create_task(self._work())

    async def safe(self, changes: Sequence[C]) -> None:
        """Until these are, with all that came before; or until we have stopped, and nobody relies on them any more."""
        if changes and not self._stopped:
            self.persist(changes)
            await self._next.wait()

    async def _work(self) -> None:
        while self._waiting and not self._stopped:
            changes, self._waiting = self._waiting, []
            waited_for, self._next = self._next, asyncio.Event()
            token, self._writing = self._token, len(changes)
            try:
                written = await self._write_until_written(changes)
            finally:
                waited_for.set()
            if not written:
                return
            self._writing = 0
            if not self._stopped:  # in a turn of its own: whatever fails there, what comes next is written
                asyncio.get_running_loop().call_soon(self.on_safe, token)
        self._working = None

    async def _write_until_written(self, changes: Sequence[C]) -> bool:
        """Whether they are; else we were stopped before they could be."""
        loop = asyncio.get_running_loop()
        while (problem := await loop.run_in_executor(self._thread, self._write, changes)) is not None:
            if self.problem is None:  # not again with every attempt
                self._log(f"{problem}; retrying")
            self.problem = str(problem)
            if not self._stopped:
                await asyncio.sleep(_AGAIN_S)
            if self._stopped:  # perhaps while we slept
                return False
        if self.problem is not None:
            self._log("the store is writable again")
        self.problem = None
        return True

    def _write(self, changes: Sequence[C]) -> StoreError | None:
        try:
            self._store.write(changes)
        except StoreError as problem:
            return problem
        return None

    async def finish(self) -> None:
        """Write what waits, then close."""
        if self._working is not None:
            await asyncio.wait([self._working], timeout=_FINISH_S)
        self.abandon()

    def abandon(self) -> None:
        """Stop as a killed process does, but for the transaction that is being written."""
        self._stopped = True
        self._next.set()
        self._thread.shutdown(wait=True)
        self._store.close()
