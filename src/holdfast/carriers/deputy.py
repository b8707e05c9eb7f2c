"""When to answer for a publisher: it was asked, and neither it nor anybody else has answered for a while.

A machine: it hears what clients of a space say to each other, and says whom to answer and whom to announce. What it
answers with is the keeper's.
"""

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.carriers.lane_accounts import ranges_of
from holdfast.protocol.recovery.control import Digest, Request, address_of, numbers

GRACE_US = 2_000_000  # that a publisher has for its answer: a few round trips and the time it gathers requests
SILENT_US = 15_000_000  # a publisher that is there is heard of more often: it repeats its digest every ten seconds
_ANNOUNCED = 5  # times that the end of a silent publisher is announced, each time after twice as long
_PENDING_MAX = 10_000  # requests that wait; more are repeated by those who ask
_GREETINGS_MAX = 100_000  # that are remembered: a few megabytes
_RANGES_MAX = 64  # of one answer, as many as a subscriber has


class Unanswered(NamedTuple):
    """What a subscriber wants of a publisher that does not answer: ranges of numbers, single ones as well."""

    source: str
    by: str
    ranges: tuple[tuple[int, int], ...]
    since_us: int = 0  # what was published before is not for it


class _Known:
    __slots__ = ("announced", "due_us", "epoch", "first", "heard_us", "last")

    def __init__(self, epoch: int, first: int, last: int, heard_us: int) -> None:
        self.epoch, self.first, self.last, self.heard_us = epoch, first, last, heard_us
        self.announced = 0
        self.due_us = heard_us + SILENT_US


class Deputy:
    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._by_address: dict[str, str] = {}
        self._pending: dict[tuple[str, str], tuple[int, Unanswered]] = {}  # when to answer
        self._since_us: dict[tuple[str, str], int] = {}  # address of a publisher, subscriber: since when it wants

    def on_kept(self, source: str, epoch: int, first: int, last: int, heard_us: int) -> None:
        """There are events of this publisher."""
        known = self._known.get(source)
        if known is None:
            self._known[source] = _Known(epoch, first, last, heard_us)
            self._by_address[address_of(source)[1:]] = source
            return
        known.epoch = max(known.epoch, epoch)
        known.first, known.last = min(known.first, first), max(known.last, last)
        self._heard(source, heard_us)

    def on_digest(self, source: str, digest: Digest, now_us: int) -> None:
        known = self._known.get(source)
        if known is not None:
            known.epoch = max(known.epoch, digest.epoch)
        self._heard(source, now_us)

    def on_answer(self, source: str, now_us: int) -> None:
        """A publisher, or whoever stands for it, has answered somebody."""
        self._heard(source, now_us)

    def _heard(self, source: str, now_us: int) -> None:
        known = self._known.get(source)
        if known is not None:
            known.heard_us, known.announced, known.due_us = now_us, 0, now_us + SILENT_US
        for key in [key for key in self._pending if key[0] == source]:
            del self._pending[key]

    def on_greeting(self, address: str, by: str, since_us: int) -> None:
        """A subscriber says to the publisher at this address since when its events matter to it."""
        if len(self._since_us) >= _GREETINGS_MAX:
            del self._since_us[next(iter(self._since_us))]
        self._since_us[address, by] = since_us

    def on_request(self, address: str, by: str, request: Request, now_us: int) -> None:
        """Somebody asks the client at this address."""
        source = self._by_address.get(address)
        if source is None or len(self._pending) >= _PENDING_MAX:
            return
        since_us = self._since_us.get((address, by), 0)
        due_us, before = self._pending.get((source, by), (now_us + GRACE_US, Unanswered(source, by, ())))
        ranges = *before.ranges, *request.unannounced, *ranges_of(numbers(request.wanted))
        self._pending[source, by] = due_us, Unanswered(source, by, _joined(ranges)[:_RANGES_MAX], since_us)

    def due(self, now_us: int) -> list[Unanswered]:
        """Whom to answer now."""
        ripe = [key for key, (due_us, _) in self._pending.items() if due_us <= now_us]
        return [self._pending.pop(key)[1] for key in ripe]

    def to_announce(self, now_us: int) -> list[tuple[str, Digest]]:
        """Publishers that are silent: how far they were, for those who have missed their end."""
        found: list[tuple[str, Digest]] = []
        for source, known in self._known.items():
            if known.due_us <= now_us and known.announced < _ANNOUNCED:
                known.announced += 1
                known.due_us = now_us + (SILENT_US << known.announced)
                found.append((source, Digest(known.epoch, known.last, known.first, b"")))
        return found


def _joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same numbers, each once and ascending: who misses thousands asks in several requests."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return tuple(joined)
