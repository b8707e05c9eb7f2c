"""What a broker has handed over to a client and the application is not done with yet.

The broker keeps it until then, so that an event that waits in the process when it dies comes again to the next one.
Only so much is given to the application at a time; the rest waits here, no more than a window of messages.
"""

from collections import deque

from holdfast.model.messages import Batch
from holdfast.protocol.hops.outgoing import events_in
from holdfast.protocol.store_changes import Body

Place = tuple[str, int, int]  # a broker, its stream and a number in it


class HandingOut:
    def __init__(self, untaken_max: int, window: int) -> None:
        self.untaken = 0  # events that the application has and is not done with
        self.token = 0
        self._most = untaken_max
        self._window = window
        self._waiting: deque[tuple[Place, Body | None]] = deque()
        self._out: deque[tuple[int, Place, Body | None]] = deque()  # by token

    @property
    def full(self) -> bool:
        """Whether more waits than a broker hands over before it is told that something is taken."""
        return len(self._waiting) >= self._window

    def put(self, place: Place, message: Body | None) -> None:
        self._waiting.append((place, message))

    def next(self) -> tuple[str, Body | None] | None:
        """What the application is to get now: from which broker, and the message."""
        if not self._waiting or self.untaken >= self._most:
            return None
        place, message = self._waiting.popleft()
        self.token += 1
        self.untaken += events_in(message)
        self._out.append((self.token, place, message))
        return place[0], message

    def consumed(self, token: int) -> list[Place]:
        """The application is done with all up to this token: the last place for each broker and stream."""
        places: dict[tuple[str, int], Place] = {}
        while self._out and self._out[0][0] <= token:
            _, place, message = self._out.popleft()
            self.untaken -= events_in(message)
            places[place[:2]] = place
        return list(places.values())

    def batch_done_to(self, broker: str, source: str, seq: int) -> int:
        """The number before which all of the next message is done with, if it is a batch of this source; or 0."""
        if not self._out:
            return 0
        _, place, message = self._out[0]
        return seq if place[0] == broker and isinstance(message, Batch) and message.source == source else 0
