"""What a neighbour hands over to us: taken in the order of its numbers, each once.

In order, because then a path keeps the order of each source, and whoever remembers the last events of a source need
remember no more than that after an outage of an hour. What comes early waits for what is missing, which is asked for.
"""

from holdfast.model.messages import Handover, StoredAck
from holdfast.protocol.hops.outgoing import events_in
from holdfast.protocol.store_changes import Body


class Incoming:
    def __init__(self, window: int, stream: int = -1, seq: int = 0) -> None:
        self.stream = stream
        self.accepted = seq  # up to here everything has come
        self.stored = seq  # up to here it is safe
        self._window = window
        self._early: dict[int, Body | None] = {}

    def __len__(self) -> int:
        return len(self._early)

    @property
    def early(self) -> int:
        """Events that have come before others that are missing."""
        return sum(map(events_in, self._early.values())) if self._early else 0

    def drop_early(self) -> int:
        """Forget them: they have not been acknowledged, and come again."""
        early = self.early
        self._early.clear()
        return early

    def take(self, handover: Handover) -> list[Body | None] | None:
        """What can be handled now, in order; None when it is of an earlier stream."""
        if handover.stream != self.stream:
            if handover.stream < self.stream:
                return None
            self.stream = handover.stream
            self._early = {}  # numbers of another stream: one far ahead would make all between it and ours missing
            self._skip_to(handover.first - 1)
        elif handover.first - 1 > self.accepted:  # taken in an earlier life of ours that did not remember it
            self._skip_to(handover.first - 1)
        if self.accepted < handover.seq <= self.accepted + self._window:
            self._early[handover.seq] = handover.message
        ready: list[Body | None] = []
        while self.accepted + 1 in self._early:
            self.accepted += 1
            ready.append(self._early.pop(self.accepted))
        return ready

    def _skip_to(self, seq: int) -> None:
        self.accepted = self.stored = seq
        self._early = {number: each for number, each in self._early.items() if number > seq} if self._early else {}

    @property
    def ack(self) -> StoredAck:
        """What to say to the sender."""
        highest = max(self._early, default=0)
        holes = [seq for seq in range(self.accepted + 1, highest) if seq not in self._early]
        return StoredAck(self.stream, self.stored, tuple(holes))
