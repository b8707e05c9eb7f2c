"""Write a broker's changes to its durable store, off the event loop, as many as have come in one go.

While one transaction is being synced the changes of the next gather: so the more there is to do, the fewer syncs each
event needs. When the store cannot write, as on a full disk, it is tried again until it can; meanwhile nothing that
depends on it happens, so neighbours keep what they have.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from holdfast.protocol.effects import Persist
from holdfast.protocol.store_changes import Change
from holdfast.store.interface import Store, StoreError

_AGAIN_S = 1.0  # between attempts to write to a store that cannot
_FINISH_S = 5.0  # that stopping waits for it: what is not written was not acknowledged


class Committer:
    def __init__(self, store: Store, log: Callable[[str], None]) -> None:
        self.store = store
        self.on_safe: Callable[[int], None] = lambda token: None
        self.problem: str | None = None  # why the last attempt to write has failed; None when it has not
        self._log = log
        self._thread = ThreadPoolExecutor(1, "holdfast-store")
        self._waiting: list[Change] = []
        self._writing = 0  # changes of the transaction under way
        self._token = 0  # of the last of them
        self._working: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def unwritten(self) -> int:
        """Changes that are not safe yet."""
        return len(self._waiting) + self._writing

    def persist(self, persist: Persist) -> None:
        self._waiting += persist.changes
        self._token = persist.token
        if self._working is None and not self._stopped:
            self._working = asyncio.create_task(self._work())

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and not self._stopped:
            changes, self._waiting = self._waiting, []
            token, self._writing = self._token, len(changes)
            while (problem := await loop.run_in_executor(self._thread, self._write, changes)) is not None:
                if self.problem is None:  # not again with every attempt
                    self._log(f"{problem}; retrying")
                self.problem = str(problem)
                if not self._stopped:
                    await asyncio.sleep(_AGAIN_S)
                if self._stopped:  # perhaps while we slept
                    return
            if self.problem is not None:
                self._log("the store is writable again")
            self.problem, self._writing = None, 0
            if not self._stopped:
                self.on_safe(token)
        self._working = None

    def _write(self, changes: Sequence[Change]) -> StoreError | None:
        try:
            self.store.write(changes)
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
        self._thread.shutdown(wait=True)
        self.store.close()
