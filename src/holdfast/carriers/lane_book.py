"""A publisher's numbers by lane: what each lane carried last, and on which lanes the last numbers travelled.

An event says from which number on its lane is whole, so who follows that lane alone notices a gap with the next event.
Who follows several learns from the layout that goes with each digest. The book outlives connections: what a broken one
has lost leaves a gap in both, also if it never came as far as the wire.
"""

from collections import deque
from collections.abc import Sequence

from holdfast.carriers.bus_format import Layout
from holdfast.language.lanes import Lane

_LANES_MAX = 65_536  # remembered: 10 MB. Of a lane that was forgotten only the present event is known to be whole
_NOTED_MAX = 32_768  # numbers between two digests, 80,000 a second; with more, who follows several lanes asks for them
_TOLD = 2  # digests that have each number: one may be lost


class LaneBook:
    def __init__(self, keeps_layout: bool) -> None:
        self._last: dict[Lane, int] = {}
        self._forgot = False
        self._left_to = 0  # the highest number that has left,
        self._unsent_to = 0  # and the highest that never did: one of its lane may be among those before it
        self._keeps_layout = keeps_layout
        self._noted: list[tuple[str, Sequence[int]]] = []
        self._count = 0
        self._told: deque[list[tuple[str, Sequence[int]]]] = deque(maxlen=_TOLD)

    def leave(self, first: int, last: int, begins: bool) -> None:
        """These numbers leave, on whatever lanes; `begins`: they are the first of their publisher.

        Numbers between them and those before went down with a connection, on the way to it.
        """
        if first > self._left_to + 1 and not begins:
            self._unsent_to = first - 1
        self._left_to = max(self._left_to, last)

    def since(self, lane: Lane, seqs: Sequence[int]) -> int:
        """Note that these numbers leave on a lane; all of its numbers from which one on are among them."""
        before = self._last.pop(lane, None)
        self._last[lane] = max(seqs[-1], before or 0)
        if len(self._last) > _LANES_MAX:
            del self._last[next(iter(self._last))]
            self._forgot = True
        if self._keeps_layout:
            self._count += len(seqs)
            if self._count <= _NOTED_MAX:
                self._noted.append((".".join(lane), seqs))
        if before is None:
            before = seqs[0] - 1 if self._forgot else 0
        whole_since = max(before, self._unsent_to) + 1
        return min(whole_since, seqs[0])  # what is sent again says nothing about what came after it

    def layout(self) -> Layout | None:
        """For a digest."""
        if not self._keeps_layout:
            return None
        if self._noted:
            self._told.append(self._noted)
        self._noted, self._count = [], 0
        return Layout.of([each for part in self._told for each in part])
