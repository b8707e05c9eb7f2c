"""Seats whose clients have gone for good, and that stay for some seconds: others may still ask for their last events.

A client that comes back under the same name does not wait for that: its former seat leaves at once.
"""

import asyncio

from holdfast.net.seat import Seat


class Departures:
    def __init__(self) -> None:
        self._leaving: dict[str, asyncio.Task[None]] = {}  # by the name of the client

    def begin(self, seat: Seat) -> None:
        task = self._leaving[seat.name] = asyncio.create_task(seat.leave(for_good=True))
        task.add_done_callback(lambda done: self._forget(seat.name, done))

    def _forget(self, name: str, task: asyncio.Task[None]) -> None:
        if self._leaving.get(name) is task:
            del self._leaving[name]

    async def end(self, name: str) -> None:
        """Whoever has this name leaves now."""
        task = self._leaving.get(name)
        if task is not None:
            await asyncio.sleep(0)  # a task that is cancelled before its first step would not leave at all
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def end_all(self) -> None:
        for name in list(self._leaving):
            await self.end(name)
