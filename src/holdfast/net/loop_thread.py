"""An event loop in a thread of its own, for code that has none: scripts, notebooks, tests.

A notebook runs each cell inside an event loop, so calls must not use the one of their own thread.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast.model.errors import MisuseError
from holdfast.net.event_loop import new_loop

T = TypeVar("T")


class LoopThread:
    def __init__(self, owner: str) -> None:
        self._owner = owner  # what is closed when the thread has stopped
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, and wait for its result."""
        if self.stopped:
            work.close()
            raise MisuseError(f"the {self._owner} is closed")
        if threading.current_thread() is self._thread:  # a callback: waiting here would be for ever
            work.close()
            raise MisuseError(f"a callback of the {self._owner} cannot wait for it; hand the work to another thread")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Run a function there, and wait for its result."""

        async def work() -> T:
            return function()

        return self.do(work())

    @property
    def stopped(self) -> bool:
        return self._loop.is_closed()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
