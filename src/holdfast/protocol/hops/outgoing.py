"""What is handed over to one neighbour: kept until it has been taken, sent again until then.

A window of messages is under way at a time. What the neighbour misses is sent again at once; when it does not answer at
all, everything counts as lost, and the first one is tried again, less and less often, until the neighbour speaks. From
then on the window grows by what it takes: a neighbour whose store is full would drop most of a whole one, each time.
"""

from holdfast.model.messages import Batch, Handover, StoredAck
from holdfast.protocol.effects import Incident
from holdfast.protocol.hops.settings import HandoverSettings
from holdfast.protocol.recovery.control import CONTROL_SEQ
from holdfast.protocol.store_changes import Body


def events_in(message: Body | None) -> int:
    return len(message.seqs) if isinstance(message, Batch) else int(message is not None)


def is_control(message: Body) -> bool:
    """What need not be kept: copies that try another way, and what clients say to each other and would say again."""
    if isinstance(message, Batch):
        return False
    return message.via == "multipath" or message.publication.seq == CONTROL_SEQ


def _rest_of(batch: Batch, before: int) -> Batch | None:
    """Without the publications before this number."""
    left = [at for at, seq in enumerate(batch.seqs) if seq >= before]
    return batch.picked(left) if left else None


class KeptMessage:
    """A message, and for how many neighbours it is kept; of these, how many clients."""

    __slots__ = ("body", "clients", "events", "expires_us", "holders", "kept_us", "message")

    def __init__(self, body: int, message: Body, kept_us: int, keep_us: int) -> None:
        self.body = body
        self.message = message
        self.events = events_in(message)
        self.holders = 0
        self.clients = 0
        self.kept_us = kept_us
        self.expires_us = kept_us + keep_us
        over_us = None if isinstance(message, Batch) else message.publication.expires_us
        if over_us is not None:
            self.expires_us = min(self.expires_us, over_us)

    @property
    def has_lifetime(self) -> bool:
        return not isinstance(self.message, Batch) and self.message.publication.lifetime_us is not None

    def expired(self, neighbour: str) -> Incident:
        if self.has_lifetime and not isinstance(self.message, Batch):
            return Incident("expired", source=self.message.publication.source, first=self.message.publication.seq)
        return Incident("retention_expired", neighbour, self.events)


class Outgoing:
    def __init__(self, stream: int, settings: HandoverSettings, to_client: bool = False) -> None:
        self.stream = stream
        self.to_client = to_client
        self.events = 0  # in the queue
        self.due_us: int | None = None  # when to try again
        self.seq = 0  # the last number given
        self._settings = settings
        self._queue: dict[int, KeptMessage | None] = {}  # in order; None where the event has expired
        self._released = 0  # up to here it is stored, and may be sent
        self._sent = 0  # up to here it has been sent since the neighbour last answered
        self._highest = 0  # up to here it has ever been sent
        self._arrived = 0  # up to here it is at a client whose application has not taken it yet
        self._partly = (0, 0)  # a number, and where in its batch the neighbour is
        self._partly_noted = (0, 0)  # the same as the store has it
        self._sent_us: dict[int, int] = {}  # of those under way
        self._failures = 0
        self._window = settings.window
        self._answer_us: float | None = None
        self._varies_us = 0.0

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def _first(self) -> int:
        """The first number in the queue, which has all up to the last: a dictionary would look for it behind the
        remains of all that were taken out of it.
        """
        return self.seq - len(self._queue) + 1

    @property
    def quiet(self) -> bool:
        """Whether the neighbour has not answered for so long that it counts as down."""
        return self._failures > 0

    def put(self, kept: KeptMessage) -> int:
        """Its number."""
        self._hold(kept)
        self.seq += 1
        self._queue[self.seq] = kept
        return self.seq

    def _hold(self, kept: KeptMessage) -> None:
        kept.holders += 1
        kept.clients += self.to_client
        self.events += kept.events

    def restore(self, queue: dict[int, KeptMessage], used: int, partly: tuple[int, int] = (0, 0)) -> None:
        """From the store; up to `used` all numbers were given, and those that are not here have expired or are done."""
        first, last = min(queue, default=used + 1), max(used, *queue, 0)
        for seq in range(first, last + 1):
            self._queue[seq] = kept = queue.get(seq)
            if kept is not None:
                self._hold(kept)
        self.seq = self._released = self._highest = last
        self._sent = first - 1
        self._partly = self._partly_noted = partly

    def partly(self) -> tuple[int, int] | None:
        """Where the neighbour is in a batch that it has not finished, if the store is to be told."""
        if self._partly == self._partly_noted or self._queue.get(self._partly[0]) is None:
            return None
        self._partly_noted = self._partly
        return self._partly

    def kept(self) -> list[KeptMessage]:
        return [each for each in self._queue.values() if each is not None]

    # Sending -------------------------------------------------------------------------------------

    def release(self, seq: int, now_us: int) -> list[Handover]:
        """Everything up to this number is safe: what may be sent now."""
        self._released = max(self._released, seq)
        return self.fill(now_us)

    def fill(self, now_us: int) -> list[Handover]:
        if self._sent >= self._released or not self._queue:
            return []
        first = self._first
        self._sent = max(self._sent, first - 1)
        last = min(self._released, first + self._window - 1)
        seqs = range(self._sent + 1, last + 1)
        if not seqs:
            return []
        self._sent = last
        if self.due_us is None:
            self.due_us = now_us + self._wait_us()
        return [self._handover(seq, first, now_us) for seq in seqs]

    def _handover(self, seq: int, first: int, now_us: int) -> Handover:
        kept, again = self._queue[seq], seq <= self._highest
        self._highest = max(self._highest, seq)
        self._sent_us[seq] = -1 if again else now_us
        message = None if kept is None else kept.message
        if seq == self._partly[0] and isinstance(message, Batch):
            message = _rest_of(message, self._partly[1])
        return Handover(self.stream, seq, first, again, message)

    def on_timer(self, now_us: int) -> list[Handover]:
        if self.due_us is None or now_us < self.due_us:
            return []
        return self.try_again(now_us)

    def try_again(self, now_us: int) -> list[Handover]:
        """The neighbour has not answered, or speaks again after a silence: begin with the first once more."""
        self.due_us = None
        if not self._queue:
            return []
        self._failures = min(self._failures + 1, 16)
        self._window = 1  # one at a time finds out whether it is back
        self._arrived = 0
        self._sent = self._first - 1
        self._sent_us.clear()
        return self.fill(now_us)

    # Answers -------------------------------------------------------------------------------------

    def on_ack(self, ack: StoredAck, now_us: int) -> list[KeptMessage]:
        """What need not be kept for this neighbour any more."""
        if ack.stream != self.stream or ack.seq > self._released:
            return []
        arrived = max(ack.seq, min(ack.arrived, self._highest))
        self._learn(arrived, now_us)
        if ack.before:
            self._partly = max(self._partly, (ack.seq + 1, ack.before))  # datagrams may overtake each other
        done: list[KeptMessage] = []
        queue = self._queue
        before = len(queue)
        new = arrived - max(self._arrived, self._first - 1) if queue else 0
        while queue and (first := self._first) <= ack.seq:
            kept = queue.pop(first)
            self._sent_us.pop(first, None)
            if kept is not None:
                kept.holders -= 1
                self.events -= kept.events
                done.append(kept)
        if len(queue) < before or arrived > self._arrived:
            self._failures = 0
            self._window = min(self._window + max(new, 0), self._settings.window)
            self._arrived = max(self._arrived, arrived)
            self._sent = max(self._sent, self._arrived)
            awaits = queue and self._sent >= self._first and self._sent > self._arrived
            self.due_us = now_us + self._wait_us() if awaits else None
        return done

    def missed(self, ack: StoredAck, now_us: int) -> list[Handover]:
        """What the neighbour misses between others that have come, unless it was just sent again."""
        if ack.stream != self.stream or not self._queue:
            return []
        first, again = self._first, []
        for seq in ack.missing:
            if seq in self._queue and self._sent_us.get(seq, -1) != -1:
                again.append(self._handover(seq, first, now_us))
        return again

    def expire(self, now_us: int) -> list[tuple[int, KeptMessage]]:
        """Take out what has expired: numbers and messages. Numbers that were sent are still handed over, empty."""
        expired = [(seq, each) for seq, each in self._queue.items() if each is not None and each.expires_us < now_us]
        self._take_out(expired)
        return expired

    def give_up(self, left: int) -> list[tuple[int, KeptMessage]]:
        """Take out the oldest until no more than so many events are left."""
        over, oldest = self.events - left, []
        for seq, kept in self._queue.items():
            if over <= 0:
                break
            if kept is not None:
                oldest.append((seq, kept))
                over -= kept.events
        self._take_out(oldest)
        return oldest

    def _take_out(self, gone: list[tuple[int, KeptMessage]]) -> None:
        for seq, kept in gone:
            kept.holders -= 1
            self.events -= kept.events
            self._queue[seq] = None
        while self._queue and self._queue[first := self._first] is None:
            del self._queue[first]
            self._sent_us.pop(first, None)
        if not self._queue:
            self.due_us = None

    def _learn(self, seq: int, now_us: int) -> None:
        sent_us = self._sent_us.get(seq, -1)
        if sent_us < 0:
            return
        took_us = float(now_us - sent_us)
        if self._answer_us is None:
            self._answer_us, self._varies_us = took_us, took_us / 2
        else:
            self._varies_us += (abs(took_us - self._answer_us) - self._varies_us) / 4
            self._answer_us += (took_us - self._answer_us) / 8

    def _wait_us(self) -> int:
        settings = self._settings
        wait_us: float = settings.first_wait_us
        if self._answer_us is not None:
            wait_us = self._answer_us + max(4 * self._varies_us, settings.slack_us)
        return min(int(wait_us) << self._failures, settings.wait_max_us)
