"""What is to happen in a run, in the order of time; things of the same time in the order in which they were asked for.

Most of what is asked for happens soon: at once (a message over the link to a client takes no time), or within some
milliseconds. So what happens at once waits in a queue, what happens within a span of a millisecond in a heap, and what
comes later in unsorted lists, one for each span, until its span begins. With timers of a million clients, one heap for
all would be most of a run's time.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Any

from holdfast.sim.turns import Turns

_SPAN_BITS = 10  # a span is 1.024 ms: a few things in it where little happens, thousands with a million clients

Thing = tuple[Any, Any]  # whose turn it is, and with what: the simulator knows
_Entry = tuple[int, int, Any, Any]  # the time, the turn, and the thing


class Agenda:
    def __init__(self, turns: Turns) -> None:
        self.now_us = 0
        self._turns = turns
        self._at_once: deque[_Entry] = deque()  # of the present time, behind all others of it
        self._soon: list[_Entry] = []  # a heap: up to the end of this span
        self._span = 0
        self._later: dict[int, list[_Entry]] = {}  # by span
        self._spans: list[int] = []  # a heap: those of them

    def add(self, time_us: int, whose: Any, what: Any) -> None:
        turns, at_once, now_us = self._turns, self._at_once, self.now_us
        turns.last += 1
        entry = time_us, turns.last, whose, what
        if time_us == now_us and (not at_once or at_once[-1][0] == now_us):
            at_once.append(entry)
            return
        span = time_us >> _SPAN_BITS
        if span <= self._span or time_us < now_us:  # the past: compiled code tells of some things after a while
            heappush(self._soon, entry)
        elif span in self._later:
            self._later[span].append(entry)
        else:
            self._later[span] = [entry]
            heappush(self._spans, span)

    def take(self, until_us: int) -> Thing | None:
        """What happens next, if it does before this time or then; it is that time now."""
        soon, at_once = self._soon, self._at_once
        if at_once and (not soon or at_once[0] < soon[0]):
            self.now_us, self._turns.current, whose, what = at_once.popleft()
            return whose, what
        if not soon:
            soon = self._begin_span()
        if not soon or soon[0][0] > until_us:
            self.now_us, self._turns.current = until_us, 0
            return None
        self.now_us, self._turns.current, whose, what = heappop(soon)
        return whose, what

    def next_us(self) -> int | None:
        """When it does."""
        if not self._soon and not self._at_once:
            self._begin_span()
        firsts = [entries[0] for entries in (self._soon, self._at_once) if entries]
        return min(firsts)[0] if firsts else None

    def _begin_span(self) -> list[_Entry]:
        if self._spans:
            self._span = heappop(self._spans)
            self._soon = self._later.pop(self._span)
            heapify(self._soon)
        return self._soon
