"""What a subscriber keeps for others: the last few events of each publisher, as many as Algorithm 1 says.

The length follows how long a request takes to come and how many events come meanwhile. The paper's algorithm with
what it leaves open settled: the result is clamped, not ignored, when out of bounds; it falls by a tenth
at a time also when the formula asks for much less; the hit ratio leaves out what we never had, and is that of the last
requests, because one miss long ago would keep a mean below H = 1 for ever. The closest provider is who has sent a
repair lately and has not seen from a nearer one's repair that it need not.
"""

from collections import deque

from holdfast.model.messages import Publication
from holdfast.protocol.recovery.cache import kept_bytes
from holdfast.protocol.recovery.srm.moving_average import MovingAverage
from holdfast.protocol.recovery.srm.settings import SrmSettings

_US = 1e6


class Ring:
    """One publisher's events."""

    def __init__(self, settings: SrmSettings) -> None:
        self._settings = settings
        self.length = float(settings.kept_first)  # K
        self.order: deque[int] = deque()
        self.kept: dict[int, Publication] = {}
        self._adjusted_us: int | None = None
        self._came = 0  # since the length was looked at,
        self._hits = 0
        self._misses = 0
        self._hit_ratio = 1.0
        self._rate = MovingAverage(0.0)  # events a second
        self._holding_us = MovingAverage(0.0)  # from an event's departure to a request for it
        self._provided_us: int | None = None

    def on_came(self) -> None:
        self._came += 1

    def on_hit(self, is_hit: bool) -> None:
        self._hits += is_hit
        self._misses += not is_hit

    def on_request(self, wait_us: int, requester_us: int, to_requester_us: int) -> None:
        """(C1 + C2/2) d_ZB, d_ZB and d_BA of someone who asks."""
        self._holding_us.add(wait_us + requester_us + to_requester_us)

    def on_provider(self, now_us: int) -> None:
        self._provided_us = now_us

    def on_nearer_provider(self) -> None:
        self._provided_us = None

    def adjust(self, now_us: int) -> None:
        """Algorithm 1, when it is time. It is called when something comes: until then nothing is thrown away."""
        if self._adjusted_us is None:
            self._adjusted_us = now_us
            return
        passed_us = now_us - self._adjusted_us
        if passed_us < self._settings.adjust_us:
            return
        self._rate.add(self._came * _US / passed_us)
        if self._hits + self._misses:
            self._hit_ratio = self._hits / (self._hits + self._misses)
        self._adjusted_us, self._came, self._hits, self._misses = now_us, 0, 0, 0
        lately_us = now_us - self._settings.provider_us
        is_closest = self._provided_us is not None and self._provided_us >= lately_us
        self.length = next_length(
            self.length, is_closest, self._hit_ratio, self._holding_us.value / _US * self._rate.value, self._settings
        )


def next_length(
    length: float, is_closest: bool, hit_ratio: float, while_holding: float, settings: SrmSettings
) -> float:
    """`while_holding` events come between an event's departure and the request for it, on average."""
    wanted = 0.9 * length
    if is_closest:
        wanted = max(wanted, while_holding + 1, 1.1 * length if hit_ratio < settings.hit_ratio else 0.0)
    return max(settings.kept_min, min(wanted, settings.kept_max))


class Rings:
    """All rings of a node, within one limit in bytes."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._order: dict[tuple[str, int], Ring] = {}  # what is kept, oldest first

    def __len__(self) -> int:
        return len(self._order)

    def add(self, ring: Ring, publication: Publication, now_us: int) -> None:
        ring.on_came()
        ring.adjust(now_us)
        if publication.seq in ring.kept:
            return
        ring.kept[publication.seq] = publication
        ring.order.append(publication.seq)
        self._order[publication.source, publication.seq] = ring
        self.bytes += kept_bytes(publication)
        while len(ring.order) > int(ring.length):
            self._drop(publication.source, ring.order[0])
        while self.bytes > self.bytes_max:
            self._drop(*next(iter(self._order)))

    def forget(self, ring: Ring) -> None:
        for seq in list(ring.order):
            self._drop(ring.kept[seq].source, seq)

    def _drop(self, source: str, seq: int) -> None:
        """Always the oldest of its ring: the order over all is that of each ring."""
        ring = self._order.pop((source, seq))
        ring.order.popleft()
        self.bytes -= kept_bytes(ring.kept.pop(seq))
