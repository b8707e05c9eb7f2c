"""What a neighbour has for a replica: control messages first, then events that may go, in turn (figure 5 of paper 003).

Events are held until they may go. Either all at once and in order, or, while the replica's tables are not complete,
each when a subscription has come from the replica that it matches: then it is ready under that subscription, and the
ready queues are served round robin. An event that matches several is filed under each, and sent once.
"""

from collections import deque
from collections.abc import Callable

from holdfast.model.messages import Message, Publish

EventId = tuple[str, int]
_IN_ORDER = ""  # the ready queue of events that go without regard to subscriptions


def id_of(publish: Publish) -> EventId:
    return publish.publication.source, publish.publication.seq


class OutQueue:
    def __init__(self, pace_us: int, events_max: int) -> None:
        self._pace_us = pace_us
        self._events_max = events_max
        self._free_us = 0
        self._control: deque[Message] = deque()
        self._held: dict[EventId, Publish] = {}  # in the order in which they came; also those that are ready
        self._ready: dict[str, deque[EventId]] = {}  # by subscription
        self._turn: deque[str] = deque()  # whose turn it is among the ready queues
        self.dropped = 0  # events, since the last look
        self.filed = 0  # entries in ready queues: what the bookkeeping costs

    def __len__(self) -> int:
        return len(self._held)

    def put_control(self, message: Message) -> None:
        self._control.append(message)

    def hold(self, publish: Publish) -> None:
        self._held[id_of(publish)] = publish
        if len(self._held) > self._events_max:
            del self._held[next(iter(self._held))]
            self.dropped += 1

    def held(self) -> list[Publish]:
        return list(self._held.values())

    def make_ready(self, condition: str, matches: Callable[[Publish], bool]) -> None:
        """A subscription has come: what waits for it may go."""
        for event, publish in self._held.items():
            if matches(publish):
                self._file(condition, event)

    def make_one_ready(self, publish: Publish) -> None:
        """It may go, behind all that may go already."""
        self.hold(publish)
        self._file(_IN_ORDER, id_of(publish))

    def make_all_ready(self) -> None:
        for event in self._held:
            self._file(_IN_ORDER, event)

    def _file(self, condition: str, event: EventId) -> None:
        queue = self._ready.get(condition)
        if queue is None:
            queue = self._ready[condition] = deque()
            self._turn.append(condition)
        queue.append(event)
        self.filed += 1

    def forget_readiness(self) -> None:
        """The replica is gone: its events wait for the next one."""
        self._control.clear()
        self._ready.clear()
        self._turn.clear()

    def next_due_us(self) -> int | None:
        return self._free_us if self._control or self._turn else None

    def take(self, now_us: int) -> list[Message]:
        """What goes now."""
        sent: list[Message] = []
        while self._free_us <= now_us:
            message = self._control.popleft() if self._control else self._next_event()
            if message is None:
                break
            sent.append(message)
            if self._pace_us:
                self._free_us = max(self._free_us, now_us) + self._pace_us
        return sent

    def _next_event(self) -> Publish | None:
        while self._turn:
            condition = self._turn.popleft()
            queue = self._ready[condition]
            publish = None
            while queue and publish is None:
                publish = self._held.pop(queue.popleft(), None)  # None: sent already, under another subscription
            if queue:
                self._turn.append(condition)
            else:
                del self._ready[condition]
            if publish is not None:
                return publish
        return None
