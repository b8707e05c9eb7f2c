"""What every process of a run has in common: commands come in through a pipe, and its journal is a file.

Processes are started by the standard library's fork server, which has imported everything already, so a restart takes
milliseconds and not the seconds that a loaded machine takes to import. Each is a process like any other: it is killed,
stopped and continued by signals. The end of the pipe ends it, so none outlives the run.
"""

import asyncio
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

from holdfast.net.clock import Clock

Command = dict[str, Any]
_DOING_MAX = 64  # commands under way at once; a run gives a few


class SteppedClock(Clock):
    """The clock of a node that somebody has set wrong by so much before it started."""

    def __init__(self, offset_us: int) -> None:
        super().__init__()
        self._offset_ns += offset_us * 1_000


class Commands:
    """The pipe as the process sees it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._waiting: asyncio.Queue[Command | None] = asyncio.Queue()
        asyncio.get_running_loop().add_reader(pipe.fileno(), self._on_readable)

    def _on_readable(self) -> None:
        try:
            self._waiting.put_nowait(self._pipe.recv())
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            self._waiting.put_nowait(None)

    def answer(self, **fields: Any) -> None:
        self._pipe.send(fields)

    async def obey(self, do: Callable[[Command], Awaitable[None]]) -> None:
        """Until `close` has been done, or whoever commands is gone. None waits for the one before it."""
        doing: set[asyncio.Task[None]] = set()
        while (command := await self._waiting.get()) is not None:
            task = asyncio.ensure_future(do(command))
            doing.add(task)
            task.add_done_callback(doing.discard)
            if command["do"] == "close":
                await task
                return
            if len(doing) > _DOING_MAX:
                await asyncio.wait(doing, return_when=asyncio.FIRST_COMPLETED)
