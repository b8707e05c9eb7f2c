"""From a thread of a client library to the passenger's event loop: bounded, so that the thread waits for a slow one."""

import asyncio
import threading
from collections.abc import Callable

from holdfast.carriers.carrier import BusMessage, Passenger

_AHEAD_MAX = 4_096  # messages that have come and that the loop has not seen
_LOOK_S = 1.0  # between looks whether anybody still wants them


class ThreadFeed:
    """To be made in the loop."""

    def __init__(self, passenger: Passenger) -> None:
        self._passenger = passenger
        self._loop = asyncio.get_running_loop()
        self._ahead = threading.Semaphore(_AHEAD_MAX)
        self._came: asyncio.Queue[BusMessage] = asyncio.Queue()
        self._closed = False
        self._reader = asyncio.create_task(self._read())

    def put(self, message: BusMessage) -> None:
        """From the thread."""
        while not self._ahead.acquire(timeout=_LOOK_S):
            if self._closed:
                return
        self.call(self._came.put_nowait, message)

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """From the thread: call this in the loop, if there still is one."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    async def _read(self) -> None:
        while True:
            message = await self._came.get()
            self._ahead.release()
            wait = self._passenger.on_message(message)
            if wait is not None:
                await wait

    def close(self) -> None:
        self._closed = True
        self._reader.cancel()
