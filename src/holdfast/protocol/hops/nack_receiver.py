"""One direction of a link that repairs its own losses, the receiver's end.

A number that is skipped is missing, and asked for at once, again after the time that an answer usually takes, and again
after longer and longer waits; then it is given up. Nothing is held back for what is missing. Where events overtake
each other, a missing one often comes by itself, so the first request waits as long as that has lately taken.
"""

from holdfast.model import limits
from holdfast.model.messages import Arrived, HighestSent, Nack, Numbered, NumberedOutage
from holdfast.protocol.hops.settings import BACKOFF, FORGOTTEN_MAX, NackSettings

_CLOCKS_US = 1_000_000  # a stream that is older than we are by more than clocks differ began before we did


class _Hole:
    __slots__ = ("asked_us", "due_us", "noticed_us", "since_us", "tries")

    def __init__(self, since_us: int, noticed_us: int, due_us: int) -> None:
        self.since_us = since_us  # it was sent between then
        self.noticed_us = noticed_us  # and then
        self.due_us = due_us
        self.asked_us = 0
        self.tries = 0


class NackReceiver:
    def __init__(self, settings: NackSettings, now_us: int, fresh: bool = False) -> None:
        """On a `fresh` link the sender begins to count when we begin to listen."""
        self.due_us: int | None = None  # when `ask` has something to say; it may be early
        self.given_up = 0  # events, until the caller has taken note of them;
        self.lost_since_us = self.lost_until_us = 0  # they were sent between then and then, as far as we can tell
        self.heard_us = now_us  # when we last heard how far the sender has got
        self._fresh = fresh
        self._settings = settings
        self._began_us = now_us
        self._stream = -1
        self._highest = 0
        self._holes: dict[int, _Hole] = {}
        self._answer_us: float | None = None  # how long an answer takes, and how much that varies
        self._varies_us = 0.0
        self._patience_us = 0  # before the first request

    def __len__(self) -> int:
        return len(self._holes)

    def on_numbered(self, numbered: Numbered | NumberedOutage, now_us: int) -> bool:
        """Whether it is new to us."""
        if numbered.stream != self._stream:
            if numbered.stream < self._stream:
                return True  # sent before the link began anew, whose numbers we no longer keep
            self._begin(numbered.stream, numbered.seq - 1)
        ahead = numbered.seq - self._highest
        if ahead > 0:
            if ahead > 1:
                self._open(numbered.seq - 1, now_us)
            self._highest = numbered.seq
            self.heard_us = now_us
            return True
        hole = self._holes.pop(numbered.seq, None)
        if hole is None:
            return False
        self._learn(hole, numbered.again, now_us)
        return True

    def on_latest(self, latest: HighestSent, now_us: int) -> None:
        if latest.stream > self._stream:
            self._begin(latest.stream, latest.seq)
        if latest.stream != self._stream:
            return
        if latest.seq > self._highest:
            self._open(latest.seq, now_us)
            self._highest = latest.seq
        if latest.seq == self._highest:
            self.heard_us = now_us
        self._give_up([seq for seq in self._holes if seq < latest.first_kept])

    def arrived(self) -> Arrived:
        """Up to where nothing is missing."""
        return Arrived(max(self._stream, 0), min(self._holes, default=self._highest + 1) - 1)

    def abandon(self) -> None:
        """The link is over: nothing comes any more."""
        self._give_up(list(self._holes))

    def ask(self, now_us: int) -> Nack | None:
        """A request for all that it is time to ask for."""
        due = [(seq, hole) for seq, hole in self._holes.items() if hole.due_us <= now_us]
        self._give_up([seq for seq, hole in due if hole.tries >= self._settings.tries])
        asked = [(seq, hole) for seq, hole in due if seq in self._holes][: limits.MISSING_MAX]
        for _, hole in asked:
            wait_us = min(self._wait_us() * BACKOFF**hole.tries, self._settings.wait_max_us)
            hole.due_us = now_us + int(wait_us)
            hole.asked_us = now_us
            hole.tries += 1
        self.due_us = min((hole.due_us for hole in self._holes.values()), default=None)
        return Nack(self._stream, tuple([seq for seq, _ in asked])) if asked else None

    def _begin(self, stream: int, seq: int) -> None:
        self._give_up(list(self._holes))
        self._stream = stream
        is_new = self._fresh or (seq < FORGOTTEN_MAX and stream >= self._began_us - _CLOCKS_US)
        self._highest = 0 if is_new else seq
        self._fresh = False

    def _open(self, last: int, now_us: int) -> None:
        """All between the highest number and this one are missing; what the sender cannot have any more is lost."""
        first = max(self._highest + 1, last + 1 - self._settings.ring)
        self._note_lost(first - self._highest - 1, self.heard_us, now_us)
        self._give_up(list(self._holes)[: max(0, len(self._holes) + last + 1 - first - self._settings.ring)])
        due_us = now_us + self._patience_us
        for seq in range(first, last + 1):
            self._holes[seq] = _Hole(self.heard_us, now_us, due_us)
        self.due_us = due_us if self.due_us is None else min(self.due_us, due_us)

    def _give_up(self, seqs: list[int]) -> None:
        for seq in seqs:
            hole = self._holes.pop(seq)
            self._note_lost(1, hole.since_us, hole.noticed_us)

    def _note_lost(self, events: int, since_us: int, until_us: int) -> None:
        if events:
            self.lost_since_us = min(self.lost_since_us, since_us) if self.given_up else since_us
            self.lost_until_us = max(self.lost_until_us, until_us) if self.given_up else until_us
            self.given_up += events

    def _learn(self, hole: _Hole, again: bool, now_us: int) -> None:
        if not again:
            self._patience_us = max(self._patience_us, now_us - hole.noticed_us)
            return
        self._patience_us -= self._patience_us >> 3  # it was a loss: waiting longer would not have helped
        if hole.tries == 1:  # which request it answers is known
            took_us = float(now_us - hole.asked_us)
            if self._answer_us is None:
                self._answer_us, self._varies_us = took_us, took_us / 2
            else:
                self._varies_us += (abs(took_us - self._answer_us) - self._varies_us) / 4
                self._answer_us += (took_us - self._answer_us) / 8

    def _wait_us(self) -> float:
        if self._answer_us is None:
            return self._settings.first_wait_us
        return self._answer_us + max(4 * self._varies_us, self._settings.slack_us)
