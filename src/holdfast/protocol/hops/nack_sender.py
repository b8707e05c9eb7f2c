"""One direction of a link that repairs its own losses, the sender's end.

Events are numbered without holes and the last ones are kept. What the receiver misses is sent once more under its old
number. When nothing has been sent for a while, the sender says what its last number was, because a loss at the end
leaves no hole; it says so a few times, each after twice the silence, and then rests.
"""

from msgspec.structs import replace

from holdfast.model.messages import (
    Arrived,
    Deliver,
    HighestSent,
    Message,
    Nack,
    Numbered,
    NumberedOutage,
    Outage,
    Publish,
    Stamped,
)
from holdfast.protocol.hops.settings import ANNOUNCED, NackSettings


class NackSender:
    def __init__(self, stream: int, settings: NackSettings) -> None:
        self.due_us: int | None = None
        self._stream = stream
        self._settings = settings
        self._kept: dict[int, Publish | Stamped | Deliver | Outage] = {}  # by number, oldest first
        self._outages_us: dict[int, int] = {}  # of those that are outages, when they were sent
        self.seq = 0  # the last number
        self.confirmed = 0  # up to here all have arrived, as the receiver says
        self._sent_us = 0
        self._announcements = 0  # since the last event

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def has_announced(self) -> bool:
        """Whether the receiver knows how far we have got, as far as we can tell."""
        return self.due_us is None or self._announcements >= ANNOUNCED

    def send(self, message: Publish | Stamped | Deliver | Outage, now_us: int) -> Numbered | NumberedOutage:
        self.seq += 1
        self._kept[self.seq] = message
        if isinstance(message, Outage):
            self._outages_us[self.seq] = now_us
        if len(self._kept) > self._settings.ring:
            self._forget(next(iter(self._kept)))
        self._sent_us = now_us
        if self._announcements or self.due_us is None:  # otherwise the timer finds out by itself that it is too early
            self._announcements = 0
            self.due_us = now_us + self._settings.idle_us
        return self._numbered(self.seq, False, now_us)

    def _numbered(self, seq: int, again: bool, now_us: int) -> Numbered | NumberedOutage:
        message = self._kept[seq]
        if isinstance(message, Outage):  # which says how long ago it began
            late_us = now_us - self._outages_us[seq]
            return NumberedOutage(self._stream, seq, again, replace(message, ago_us=message.ago_us + late_us))
        return Numbered(self._stream, seq, again, message)

    def _forget(self, seq: int) -> None:
        del self._kept[seq]
        self._outages_us.pop(seq, None)

    def on_missing(self, missing: Nack, now_us: int) -> list[Message]:
        if missing.stream != self._stream:
            return []
        kept, asked = self._kept, dict.fromkeys(missing.seqs)
        repeated: list[Message] = [self._numbered(seq, True, now_us) for seq in asked if seq in kept]
        if len(repeated) < len(asked):
            repeated.append(self.latest())  # so that it does not ask again
        return repeated

    def on_arrived(self, arrived: Arrived) -> None:
        if arrived.stream == self._stream:
            self.confirmed = max(self.confirmed, min(arrived.seq, self.seq))
            for seq in [seq for seq in self._kept if seq <= self.confirmed]:
                self._forget(seq)

    def on_timer(self, now_us: int) -> HighestSent | None:
        if self.due_us is None or now_us < self.due_us:
            return None
        idle_us = self._settings.idle_us << self._announcements
        if now_us - self._sent_us < idle_us:
            self.due_us = self._sent_us + idle_us
            return None
        self._announcements += 1
        self._sent_us = now_us
        self.due_us = now_us + 2 * idle_us if self._announcements < self._settings.beats else None
        return self.latest()

    def latest(self) -> HighestSent:
        return HighestSent(self._stream, self.seq, next(iter(self._kept), self.seq + 1))
