"""What is to happen in a run, in the order of time; things of the same time in the order in which they were asked for.

Most of what is asked for happens soon: at once (a message over the link to a client takes no time), or within some
milliseconds. So what happens at once waits in a queue, what happens within a span of a millisecond in a heap, and what
comes later in unsorted lists, one for each span, until its span begins. With timers of a million clients, one heap for
all would be most of a run's time.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from holdfast.sim.turns import Turns

_SPAN_BITS = 10  # a span is 1.024 ms: a few things in it where little happens, thousands with a million clients

Entry = tuple[int, int, Any, Any]  # the time, the turn, whose it is, and with what: the simulator knows

_NOTHING: Entry = (-1, 0, None, None)
_NOBODY = [_NOTHING]


class Agenda:
    def __init__(self, turns: Turns) -> None:
        self.now_us = 0
        self._turns = turns
        self._at_once: deque[Entry] = deque()  # of the present time, behind all others of it
        self._soon: list[Entry] = []  # a heap: up to the end of this span
        self._span = 0
        self._later: dict[int, list[Entry]] = {}  # by span
        self._spans: list[int] = []  # a heap: those of them

    def add(self, time_us: int, whose: Any, what: Any) -> None:
        turns, at_once, now_us = self._turns, self._at_once, self.now_us
        turns.last += 1
        entry = time_us, turns.last, whose, what
        if time_us == now_us and (not at_once or at_once[-1][0] == now_us):
            at_once.append(entry)
            return
        span = time_us >> _SPAN_BITS
        # In the past, or before what waits there: compiled code tells of some things after a while.
        if span <= self._span or time_us < now_us or (at_once and time_us < at_once[-1][0]):
            heappush(self._soon, entry)
        elif span in self._later:
            self._later[span].append(entry)
        else:
            self._later[span] = [entry]
            heappush(self._spans, span)

    def add_to_run(self, time_us: int, host: Any, what: Any) -> None:
        """The same for one of many nodes: what follows on such a thing at the same time is one thing with it, and both
        `whose` and `what` are lists. A million clients that came together beat together, and are heard at once.
        """
        if time_us == self.now_us:
            run = self._at_once[-1] if self._at_once else _NOTHING
        else:
            run = self._later.get(time_us >> _SPAN_BITS, _NOBODY)[-1]
        if run[0] == time_us and type(run[3]) is list and run[1] > self._turns.apart:
            run[2].append(host)
            run[3].append(what)
        else:
            self.add(time_us, [host], [what])

    def things(self, until_us: int) -> Iterator[Entry]:
        """What happens before this time and then, one after the other: whoever takes one may ask for more."""
        at_once, turns = self._at_once, self._turns
        while True:
            soon = self._soon
            if at_once and (not soon or at_once[0] < soon[0]):
                entry = at_once.popleft()
            else:
                soon = soon or self._begin_span()
                if not soon or soon[0][0] > until_us:
                    break
                entry = heappop(soon)
            self.now_us, turns.current = entry[0], entry[1]
            yield entry
        self.now_us, turns.current = until_us, 0

    def next_us(self) -> int | None:
        """When it does."""
        if not self._soon and not self._at_once:
            self._begin_span()
        firsts = [entries[0] for entries in (self._soon, self._at_once) if entries]
        return min(firsts)[0] if firsts else None

    def _begin_span(self) -> list[Entry]:
        if self._spans:
            self._span = heappop(self._spans)
            self._soon = self._later.pop(self._span)
            heapify(self._soon)
        return self._soon
