"""A broker's history: a client in the broker's own process that keeps what it gets, and answers those who ask for it.

Because the broker itself wants what it keeps, every such event passes it, whoever else wants it. So there is one moment
from which on a new subscription is served live, and everything before that moment is in the history: an answer that
says where the history ends waits until all that had passed by then is on disk.

Searching and writing take turns in one thread. What is kept is what has reached this broker. With a store it is written
before the broker forgets it, so that a crash leaves no gap.
"""

import asyncio
import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from holdfast.language.covering import covers
from holdfast.language.parser import parse
from holdfast.language.problems import ConditionError
from holdfast.language.subscription import Subscription
from holdfast.model.errors import InputError, TransportError
from holdfast.model.messages import Batch, Deliver, Publication
from holdfast.net.clock import Clock
from holdfast.net.disk_thread import OneThread
from holdfast.net.history_settings import HistorySettings
from holdfast.net.seat import Seat
from holdfast.net.subscription import Delivery
from holdfast.protocol.effects import Gauges
from holdfast.protocol.store_changes import Body
from holdfast.store.history import History
from holdfast.store.log import GoneError, id_in
from holdfast.store.logged import Logged
from holdfast.store.segment import LogDamagedError
from holdfast.wire.codec import encode_message, framed
from holdfast.wire.signals import AskPast, Past

_BATCH_MAX = 1_000  # events written at once: past this, larger writes gain nothing
_ANSWER_BYTES = 256 * 1024  # of events in an answer: a few frames, so that live events are not held up behind it
_ANSWER_EVENTS_MAX = 1_000
_TRY_AGAIN_S = 1.0  # when the disk refuses a write
_TIDY_S = 10.0  # how often old events are looked for where none come
_REASON_MAX = 1_000  # characters of a condition that a refusal shows


class HistoryKeeper:
    def __init__(
        self,
        settings: HistorySettings,
        seat: Seat,
        backlog: Callable[[], list[Body]],
        clock: Clock,
        report: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._wanted = settings.wanted()
        self._seat = seat
        self._backlog = backlog  # what the broker has stored and not yet handed over to the seat
        self._clock = clock
        self._report = report
        self._disk = OneThread("history")
        self._handled = 0  # of what came to the seat, how much is on disk or need not be
        self._progress = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        seat.on_loss = report

    async def open(self) -> None:
        """An InputError when the folder cannot be used; from then on everything is kept."""
        self._history = await self._disk.do(self._open)
        try:
            await self._seat.__aenter__()
            self._seat.want("history", str(self._wanted))
            self._seat.begin()
            await self._seat.told()
        except BaseException:
            self.abandon()  # or the folder stays locked as long as this process lives
            raise
        self._tasks = [asyncio.create_task(self._fill()), asyncio.create_task(self._tidy())]
        for task in self._tasks:
            task.add_done_callback(self._on_task_ended)

    def _on_task_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._report(f"no longer kept, because of an internal error: {task.exception()!r}")

    def _open(self) -> History:
        folder = self._settings.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(folder)
            try:
                return History(folder, self._id(folder), self._settings.retention, self._clock.now_us())
            except BaseException:
                os.close(self._lock)
                raise
        except OSError as problem:
            raise InputError(f"{folder}: cannot keep history there: {problem.strerror}") from None

    def _id(self, folder: Path) -> str:
        """That of the history there, or of a new one, so that no offset of one is taken for one of another."""
        condition = sha256(str(self._wanted).encode()).hexdigest()[:16]
        found = id_in(folder) or condition + token_hex(8)
        if not found.startswith(condition):
            raise InputError(
                f"{folder}: holds the history of another condition than {self._wanted}; name another folder"
            )
        return found

    async def close(self) -> None:
        """Write what has come, and end."""
        with suppress(TransportError, TimeoutError):
            async with asyncio.timeout(_TRY_AGAIN_S):
                await self._written()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._seat.leave(for_good=False)
        self.abandon()

    def abandon(self) -> None:
        """As a killed process does: nothing more is written."""
        for task in self._tasks:
            task.cancel()
        self._disk.close()
        self._history.close()
        os.close(self._lock)

    def gauges(self) -> Gauges:
        log = self._history.log
        return {"history_bytes": (log.size, self._settings.retention.keep_bytes)}

    # Keeping -------------------------------------------------------------------------------------

    async def _fill(self) -> None:
        queue = self._seat.queue
        while await queue.wait():
            taken = [self._seat.take() for _ in range(min(len(queue), _BATCH_MAX))]
            await self._append(self._rows(taken))
            self._seat.finish(len(taken))
            self._handled += len(taken)
            self._progress.set()

    def _rows(self, deliveries: Sequence[Delivery]) -> list[Logged]:
        now_us, is_new = self._clock.now_us(), self._history.is_new
        return [
            Logged(
                each.source, each.seq, each.time_us, now_us, each.via, dict(each.publication.attributes), each.payload
            )
            for each in deliveries
            if is_new(each.source, each.seq)
        ]

    async def _append(self, rows: list[Logged]) -> None:
        told, removed = False, self._history.log.removed
        while rows:
            before = self._history.log.end
            try:
                await self._disk.do(self._history.append, rows, self._clock.now_us())
                if gone := self._history.log.removed - removed:
                    self._report(f"{gone} events are gone: somebody has removed the files in {self._settings.folder}")
                await self._disk.do(self._history.drop_old, self._clock.now_us())
                return
            except OSError as problem:
                rows = rows[self._history.log.end - before :]
                if not told:
                    self._report(f"cannot write to {self._settings.folder}: {problem.strerror or problem}; retrying")
                    told = True
                await asyncio.sleep(_TRY_AGAIN_S)

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(_TIDY_S)
            with suppress(OSError):  # who writes finds out, and says so
                await self._disk.do(self._history.drop_old, self._clock.now_us())

    async def _written(self) -> int:
        """Wait until all that has passed the broker so far is on disk; where the history ends then."""
        stored = self._backlog()
        await self._seat.told()  # what was on its way to us has come
        if stored:
            last = _last_id(stored[-1])
            await self._until(lambda: self._history.has(*last))
        upto = self._seat.queue.came
        await self._until(lambda: self._handled >= upto)
        return self._history.log.end

    async def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            self._progress.clear()
            await self._progress.wait()

    # Answering -----------------------------------------------------------------------------------

    async def answer(self, client: str, ask: AskPast, admitted: Callable[[Subscription], Subscription]) -> Past | None:
        """What a client asks for, as far as it may see it; None when the broker stops."""
        try:
            wanted = parse(ask.condition)
            if not covers(self._wanted, wanted):
                kept, asked = str(self._wanted)[:_REASON_MAX], str(wanted)[: _REASON_MAX // 2]
                return Past(ask.token, refused=f"it keeps history of {kept}, which does not cover {asked}")
            return await self._answer(ask, admitted(wanted))
        except ConditionError as problem:
            return Past(ask.token, refused=str(problem)[:_REASON_MAX])
        except TransportError:
            return None
        except (LogDamagedError, OSError) as problem:  # what is live has to go on all the same
            self._report(f"{client} asked for the past, which cannot be read: {problem}")
            return Past(ask.token, refused=f"its files cannot be read: {problem}"[:_REASON_MAX])

    async def _answer(self, ask: AskPast, wanted: Subscription) -> Past:
        log = self._history.log
        end = await self._written() if ask.ends else log.end
        lo, gone = (ask.lo, 0) if ask.log == log.id else (await self._begin(ask, wanted, end), 0)
        if lo < log.oldest:
            lo, gone = log.oldest, log.oldest - lo
        most = max(1, min(ask.events_max, _ANSWER_EVENTS_MAX))
        try:
            found = await self._disk.do(
                self._history.search, wanted, min(lo, end), end, ask.since_us, most, _ANSWER_BYTES
            )
        except GoneError as problem:  # this very moment
            return Past(ask.token, log.id, problem.oldest, end, gone + problem.oldest - lo)
        frame = framed([encode_message(_as_sent(each)) for each in found.events]) if found.events else b""
        return Past(ask.token, log.id, found.next, end, gone, frame)

    async def _begin(self, ask: AskPast, wanted: Subscription, end: int) -> int:
        """Where the answers to a new question begin."""
        if not ask.last:
            return self._history.log.oldest
        at, left = end, ask.last
        while left and at > self._history.log.oldest:
            at, left = await self._disk.do(self._history.search_back, wanted, at, left)
        return at


def _locked(folder: Path) -> int:
    """Held for one broker at a time, until it is closed or the process ends."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise InputError(f"{folder}: another broker keeps its history there; give each broker its own") from None
    return handle


def _last_id(message: Body) -> tuple[str, int]:
    if isinstance(message, Batch):
        return message.source, message.seqs[-1]
    return message.publication.source, message.publication.seq


def _as_sent(event: Logged) -> Deliver:
    about = event.source, event.seq, event.time_us, None, event.attributes, event.payload
    return Deliver(Publication(*about), event.via)
