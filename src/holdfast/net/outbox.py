"""Messages that wait for one neighbour: in order, encoded, and bounded.

What is pending when the event loop turns leaves in as few frames as possible. When a slow neighbour lets too much
pile up, the oldest events are dropped and counted. Control messages are never dropped: they keep the tables
right and are few; when even they pile up, the neighbour is not reading at all and is to be cut off.
"""

from collections import deque
from collections.abc import Callable, Collection

from holdfast.net.counters import Counters
from holdfast.wire.codec import count_in, framed, is_event, shortened, source_of_batch, stated_behind, stating_from

BYTES_MAX = 8 * 2**20  # about 50,000 small events: half a second at full speed
CONTROL_BYTES_MAX = 64 * 2**20  # four frames of the largest size
_FRAME_BYTES = 16  # head of a frame and of its array, with room to spare


class Outbox:
    def __init__(self, frame_aim: int, frame_max: int, counters: Counters, bytes_max: int = BYTES_MAX) -> None:
        self._aim = frame_aim - _FRAME_BYTES
        self._max = frame_max - _FRAME_BYTES
        self.bytes_max = bytes_max
        self.on_dropped: Callable[[int], None] = lambda events: None  # whoever has to tell the neighbour
        self._waiting: deque[bytes] = deque()
        self._spared: deque[bytes] = deque()  # control messages that were older than a dropped event; they go first
        self._dropped_alone: dict[str, int] = {}  # by source, the last event of which a statement may come behind it
        self.waiting_bytes = 0
        self._counters = counters

    def __len__(self) -> int:
        return len(self._waiting) + len(self._spared)

    @property
    def messages(self) -> int:
        """How many wait, each event of a batch by itself."""
        return sum(map(count_in, (*self._spared, *self._waiting)))

    @property
    def stuck(self) -> bool:
        """Not even dropping all events brought it below its limit."""
        return self.waiting_bytes > self.bytes_max + CONTROL_BYTES_MAX

    def put(self, encoded: bytes) -> None:
        size = len(encoded)
        if size > self._max:
            self._counters.oversized += count_in(encoded)
            return
        self._waiting.append(encoded)
        self.waiting_bytes += size
        if self.waiting_bytes > self.bytes_max:
            self._drop_oldest()

    def put_all(self, encoded: list[bytes]) -> None:
        sizes = list(map(len, encoded))
        if len(sizes) == 1 or max(sizes) > self._max:
            for each in encoded:
                self.put(each)
            return
        self._waiting.extend(encoded)
        self.waiting_bytes += sum(sizes)
        if self.waiting_bytes > self.bytes_max:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        waiting, before = self._waiting, self._counters.dropped
        while waiting and self.waiting_bytes > self.bytes_max:
            oldest = waiting.popleft()
            if not is_event(oldest):
                self._spared.append(oldest)
                continue
            self.waiting_bytes -= len(oldest)
            self._counters.dropped += count_in(oldest)
            self._note_dropped(oldest)
            kept = shortened(oldest, self.waiting_bytes + len(oldest) - self.bytes_max)
            if kept:
                waiting.appendleft(kept)
                self.waiting_bytes += len(kept)
                self._counters.dropped -= count_in(kept)
        if self._counters.dropped > before:
            self.on_dropped(self._counters.dropped - before)

    def _note_dropped(self, oldest: bytes) -> None:
        if (alone := stated_behind(oldest)) is not None:
            self._dropped_alone[alone[0]] = alone[1]
        elif self._dropped_alone and (source := source_of_batch(oldest)) is not None:
            self._dropped_alone.pop(source, None)  # and with it what was stated

    def _framed(self, messages: Collection[bytes]) -> bytes:
        if not self._dropped_alone:
            return framed(messages)
        return framed([self._without_dropped(each) for each in messages])

    def _without_dropped(self, encoded: bytes) -> bytes:
        """The same message; where it states that we have sent an event which we have dropped, it does not any more."""
        source = source_of_batch(encoded)
        if source is None or source not in self._dropped_alone:
            return encoded
        return stating_from(encoded, self._dropped_alone.pop(source) + 1)

    def next_frame(self) -> bytes | None:
        """As many messages as fit in a frame of the size that suits the transport; a larger one goes alone."""
        if self._spared:
            self._waiting.extendleft(reversed(self._spared))
            self._spared.clear()
        waiting = self._waiting
        if not waiting:
            return None
        if self.waiting_bytes <= self._aim:
            frame = self._framed(waiting)
            waiting.clear()
            self.waiting_bytes = 0
            return frame
        messages = [waiting.popleft()]
        size = len(messages[0])
        while waiting and size + len(waiting[0]) <= self._aim:
            size += len(waiting[0])
            messages.append(waiting.popleft())
        self.waiting_bytes -= size
        return self._framed(messages)
