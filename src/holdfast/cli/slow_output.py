"""Standard output and error that may be slow, or stuck, without holding up the event loop.

A pipe whose reader has stopped blocks whoever writes to it, and a node that is blocked sends no heartbeats and loses
its connections. So a thread writes. For results, one batch at a time, and the loop waits for that as it does for
anything else; for a log, lines from a bounded queue, and lines that find it full are dropped and counted.
Nobody waits at the end for a write that is stuck: the thread is a daemon, and nothing is left in a buffer of Python's.
"""

import asyncio
import os
from concurrent.futures import Future
from contextlib import suppress
from queue import Full, Queue, SimpleQueue
from threading import Thread

_STANDARD_OUTPUT, _STANDARD_ERROR = 1, 2
_LINES_MAX = 1_000  # that wait to be written: some 100 kB; a log that is behind by more is not being read
_FINISH_S = 1.0  # that the end waits for the last lines


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
                _write(self._descriptor, data)
            except OSError as problem:
                done.set_exception(problem)
            else:
                done.set_result(None)


class SlowLines:
    def __init__(self, descriptor: int = _STANDARD_ERROR) -> None:
        self._descriptor = descriptor
        self._dropped = 0
        self._lines: Queue[str | None] = Queue(_LINES_MAX)
        self._thread = Thread(target=self._write_all, daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Write this when there is time; never waits."""
        try:
            self._report_dropped(0)
            self._lines.put_nowait(line)
        except Full:
            self._dropped += 1

    def _report_dropped(self, limit_s: float) -> None:
        if self._dropped:
            text = f"holdfast: {self._dropped:,} lines of the log were dropped, because stderr was not read"
            self._lines.put(text, block=limit_s > 0, timeout=limit_s)
            self._dropped = 0

    def finish(self, limit_s: float = _FINISH_S) -> None:
        """Write what waits, if somebody reads it."""
        with suppress(Full):
            self._report_dropped(limit_s)
            self._lines.put(None, timeout=limit_s)
            self._thread.join(limit_s)

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            with suppress(OSError):  # nobody is there to be told
                _write(self._descriptor, f"{line}\n".encode(errors="backslashreplace"))


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
