"""How long a broker handles what one connection sends before the others get their turn.

A turn of the event loop is as long as all that is handled in it. So the connections that have more than fits into a
slice wait in one line, and a turn takes from it no more than a slice: whoever sends a single event waits for one slice,
or for one frame that takes longer, and not for as many as there are floods.

Who delivers to somebody that reads as fast as that stands in no line: what a flood publishes would be read faster than
it is delivered, and pile up. The line waits for them instead.
"""

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from time import monotonic

SLICE_S = 0.01  # of one connection alone, or of all that want more
_HELD_MAX = 7  # turns in a row in which the line waits for deliveries, which may take longer than what they come from
_MEMORY_S = 0.1  # for which a connection that has used up its slice counts as busy: ten turns


class Slices(threading.local):
    """Of one thread, and so of one event loop at a time."""

    def __init__(self) -> None:
        self._busy: OrderedDict[int, float] = OrderedDict()  # since when, the latest last
        self._line: deque[Callable[[], bool]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns = False  # it is going to, for those in the line
        self._delivering = False  # somebody has more to deliver in this turn
        self._held = 0  # turns in a row in which the line waited for that

    def end_s(self, now_s: float) -> float:
        """When a slice that begins now is over."""
        while self._busy and next(iter(self._busy.values())) < now_s - _MEMORY_S:
            self._busy.popitem(last=False)
        return now_s + SLICE_S / max(1, len(self._busy))

    def used_up(self, connection: object, now_s: float) -> None:
        """It has more to be handled."""
        self._busy[id(connection)] = now_s
        self._busy.move_to_end(id(connection))

    def go_on_later(self, connection: object, now_s: float, go_on: Callable[[], None]) -> None:
        """Its slice is used up; it goes on when those before it in the line have had theirs."""

        def handled() -> bool:
            go_on()
            return True

        self.used_up(connection, now_s)
        self._stand_in_line(handled)

    async def turn(self, connection: object, now_s: float) -> None:
        """The same for who awaits it."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def called() -> bool:
            if not future.done():
                future.set_result(None)
            return False  # what it does, it does in the next turn

        self.used_up(connection, now_s)
        self._stand_in_line(called)
        await future

    async def deliver_on(self) -> None:
        """Until the next turn: a slice was used up by deliveries, and there are more."""
        self._delivering = True
        await asyncio.sleep(0)

    def _waits(self) -> bool:
        waits = self._delivering and self._held < _HELD_MAX
        self._held = self._held + 1 if waits else 0
        self._delivering = False
        return waits

    def _stand_in_line(self, go_on: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # the one before is over, and so is whoever waited for it
            self._line.clear()
            self._loop, self._turns = loop, False
        self._line.append(go_on)
        if not self._turns:
            self._turns = True
            loop.call_soon(self._turn, loop)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            return
        if self._waits():
            loop.call_soon(self._turn, loop)
            return
        end_s = monotonic() + SLICE_S
        try:
            for _ in range(len(self._line)):
                if not self._line.popleft()() or monotonic() >= end_s:
                    break
        finally:
            self._turns = bool(self._line)
            if self._turns:
                loop.call_soon(self._turn, loop)


SLICES = Slices()
