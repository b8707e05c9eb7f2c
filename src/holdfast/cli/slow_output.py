"""Standard output that may be slow, or stuck, without holding up the event loop.

A pipe whose reader has stopped blocks whoever writes to it, and a client that is blocked sends no heartbeats and loses
its connection. So a thread writes, one batch at a time, and the loop waits for that as it does for anything else.
Nobody waits at the end for a write that is stuck: the thread is a daemon, and nothing is left in a buffer of Python's.
"""

import asyncio
import os
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread

_STANDARD_OUTPUT = 1


class SlowOutput:
    def __init__(self, descriptor: int = _STANDARD_OUTPUT) -> None:
        self._descriptor = descriptor
        # Never longer than one: whoever writes waits for it.
        self._batches: SimpleQueue[tuple[bytes, Future[None]]] = SimpleQueue()
        Thread(target=self._write_all, daemon=True).start()

    async def write(self, data: bytes) -> None:
        """Done when all of it is written; an OSError when it cannot be."""
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # a write that has begun cannot be called off
        self._batches.put((data, done))
        await asyncio.wrap_future(done)

    def _write_all(self) -> None:
        while True:
            data, done = self._batches.get()
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError as problem:
                done.set_exception(problem)
            else:
                done.set_result(None)
