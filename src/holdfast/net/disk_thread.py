"""Calls that wait for the disk, away from the event loop: one thread for each thing that wants one call at a time.

A call once begun runs to its end, also when whoever asked for it has gone, so no two ever overlap.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class OneThread:
    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def do(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: call(*args, **kwargs))

    def close(self) -> None:
        """Wait for the call that is under way; take no more."""
        self._executor.shutdown(wait=True)
