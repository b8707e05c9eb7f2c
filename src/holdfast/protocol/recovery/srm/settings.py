"""The settings of the paper's recovery; the defaults are the paper's own experiment."""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.model.settings import Settings, Wrong, setting
from holdfast.protocol.records import PAPER, RecordSettings


@dataclass(frozen=True)
class SrmSettings(Settings):
    # Announcing, at the publisher
    records: RecordSettings = setting(PAPER, "what a record contains of each publication", "256 bits, two hashes")
    record: int = setting(
        10,
        "earlier events that each event announces by itself",
        "as in paper 000",
        unit="events",
        at_least=0,
        at_most=1_000,
        key="record",
    )
    book_every: int = setting(
        8, "events between two that carry a learned codebook", "the paper's filters need none", unit="events"
    )
    soft_state_us: int = setting(
        0, "silence after which the record is sent by itself; 0 never", "the paper never does", at_least=0
    )
    soft_state_us_max: int = setting(
        10_000_000, "and then ever more rarely, down to this", "a quiet publisher costs little"
    )
    publisher_cache: bool = setting(
        False,
        "srm: whether publishers repair as well; otherwise an event that all subscribers lost is lost",
        "paper 000 leaves it to subscribers",
        key="publisher_cache",
        goes_with=("scheme", ("srm",)),
    )
    published_max: int = setting(
        20_000, "events that a publisher keeps", "forty seconds of the paper's fastest publisher", unit="events"
    )
    published_bytes_max: int = setting(
        32 * 2**20, "attributes and payloads that it keeps, about", "a kilobyte or two each"
    )
    published_us: int = setting(60_000_000, "how long it keeps an event", "past the last round of a request")

    # Timers, as multiples of a distance
    adaptive: bool = setting(True, "adjust the four factors below", "the paper relies on SRM's adjustment")
    request_wait: float = setting(2.0, "C1: distances before a request", "SRM's own start")
    request_spread: float = setting(2.0, "C2: distances over which requests are spread", "SRM's own start", at_least=0)
    repair_wait: float = setting(1.0, "D1: distances before a repair", "SRM's own start")
    repair_spread: float = setting(1.0, "D2: distances over which repairs are spread", "SRM's own start", at_least=0)
    backoff: float = setting(
        2.0,
        "by which a wait grows from one round to the next",
        "SRM's own; below 1 requests come ever faster",
        at_least=1,
    )
    doublings_max: int = setting(5, "after which rounds are equally long", "as in ns-2", unit="rounds")
    rounds_max: int = setting(
        6, "requests, ours or others', before an event is given up", "SRM leaves it open", unit="rounds"
    )
    hold_down: float = setting(3.0, "distances after a repair in which requests for the same are ignored", "SRM's own")
    distance_us: int = setting(1_000_000, "to a node that has not been heard", "SRM's default")

    # Keeping, at every subscriber: Algorithm 1
    kept_min: int = setting(5, "K_min: events kept of one publisher, at least", "from the paper", unit="events")
    kept_max: int = setting(300, "K_max: at most", "from the paper", unit="events")
    kept_first: int = setting(5, "K_0: to begin with", "from the paper", unit="events")
    hit_ratio: float = setting(
        1.0, "H: share of requests that the ring is to be long enough for", "from the paper", above=0
    )
    adjust_us: int = setting(1_000_000, "how often the length is adjusted", "the paper says periodically")
    provider_us: int = setting(
        10_000_000, "age of the repair that makes its sender the closest provider", "ten adjustments"
    )
    provider_by_miss: bool = setting(
        True,
        "also a node that would have sent a repair, had it kept the event",
        "a ring that is too short sends none, and would never grow",
    )
    kept_bytes_max: int = setting(
        32 * 2**20, "kept of all publishers together, about", "300 events of 1 kB of each of 100 publishers"
    )

    # Memory
    sources_max: int = setting(
        1_000, "publishers followed", "300 events of each are all that `kept_bytes_max` holds", unit="sources"
    )
    missing_max: int = setting(
        10_000, "events looked for at a time", "a minute of false alarms at two thousand events a second", unit="events"
    )
    repairs_max: int = setting(
        1_000, "repairs about to be sent", "four seconds of the paper's losses in one place", unit="repairs"
    )
    remembered_max: int = setting(
        20_000, "ids given up, and ids in hold-down; the oldest are forgotten first", "4 MB each", unit="ids"
    )

    def _contradictions(self) -> Iterator[Wrong]:
        if not self.kept_min <= self.kept_first <= self.kept_max:
            yield Wrong("kept_first", f"must lie between kept_min and kept_max, found {self.kept_first}")
