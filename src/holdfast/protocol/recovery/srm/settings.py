"""The settings of the paper's recovery; the defaults are the paper's own experiment."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

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
        0,
        "srm: silence of a publisher after which it sends its record by itself; 0: never",
        "the paper never does",
        at_least=0,
        key="srm_soft_state_s",
    )
    soft_state_us_max: int = setting(
        10_000_000,
        "srm: the longest time between two such records; each wait is twice the one before",
        "a quiet publisher costs little",
        key="srm_soft_state_max_s",
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
    adaptive: bool = setting(
        True,
        "srm: whether nodes adjust the four factors of their waits to the duplicates they hear",
        "the paper relies on SRM's adjustment",
        key="srm_adaptive",
    )
    request_wait: float = setting(
        2.0,
        "srm: C1, the least wait before a request, in distances to the publisher",
        "SRM's own start",
        at_most=100,
        key="srm_request_wait",
    )
    request_spread: float = setting(
        2.0,
        "srm: C2, how far requests are spread beyond that, in distances",
        "SRM's own start",
        at_least=0,
        at_most=100,
        key="srm_request_spread",
    )
    repair_wait: float = setting(
        1.0,
        "srm: D1, the least wait before a repair, in distances to the requester",
        "SRM's own start",
        at_most=100,
        key="srm_repair_wait",
    )
    repair_spread: float = setting(
        1.0,
        "srm: D2, how far repairs are spread beyond that, in distances",
        "SRM's own start",
        at_least=0,
        at_most=100,
        key="srm_repair_spread",
    )
    backoff: float = setting(
        2.0,
        "srm: factor by which a wait grows from one round of requests to the next",
        "SRM's own; below 1 requests come ever faster",
        at_least=1,
        at_most=10,
        key="srm_backoff",
    )
    doublings_max: int = setting(
        5,
        "srm: rounds after which waits grow no more",
        "as in ns-2",
        unit="rounds",
        at_most=20,
        key="srm_doublings_max",
    )
    rounds_max: int = setting(
        6,
        "srm: requests for an event, ours or others', before it is given up",
        "SRM leaves it open",
        unit="rounds",
        at_most=100,
        key="srm_rounds_max",
    )
    hold_down: float = setting(
        3.0,
        "srm: distances after a repair in which requests for the same event are ignored",
        "SRM's own",
        at_most=100,
        key="srm_hold_down",
    )
    distances: Literal["clocks", "round-trips"] = setting(
        "clocks",
        "srm: how far others are; clocks: by the times on their messages; round-trips: by asking them",
        "costs nothing where clocks agree",
        key="srm_distances",
    )
    probe_us: int = setting(
        10_000_000,
        "round-trips: how often a node asks one that it hears",
        "a few messages for each pair in a minute",
        key="srm_probe_s",
    )
    distance_us: int = setting(1_000_000, "to a node that has not been heard", "SRM's default")

    # Keeping, at every subscriber: Algorithm 1
    kept_min: int = setting(
        5,
        "srm: K_min, the fewest events of a publisher that a subscriber keeps for repairs",
        "from the paper",
        unit="events",
        at_most=100_000,
        key="srm_kept_min",
    )
    kept_max: int = setting(
        300,
        "srm: K_max, the most events of a publisher that a subscriber keeps for repairs",
        "from the paper",
        unit="events",
        at_most=100_000,
        key="srm_kept_max",
    )
    kept_first: int = setting(
        5,
        "srm: K_0, how many it keeps at first",
        "from the paper",
        unit="events",
        at_most=100_000,
        key="srm_kept_first",
    )
    hit_ratio: float = setting(
        1.0,
        "srm: H, the share of requests that its cache is to be long enough for",
        "from the paper",
        above=0,
        at_most=1,
        key="srm_hit_ratio",
    )
    adjust_us: int = setting(
        1_000_000,
        "srm: how often it adjusts the length of its cache",
        "the paper says periodically",
        key="srm_adjust_s",
    )
    volunteers: float = setting(
        1.0,
        "srm: share of the subscribers that keep events for others, drawn for each",
        "in the paper's experiments all do",
        at_least=0,
        at_most=1,
        key="srm_volunteers",
    )
    caches: str | None = setting(
        None,
        "srm: names of clients, with spaces between, that keep K_max events of every publisher they follow and always "
        "volunteer: designated caches, which subscribe to what they are to keep",
        "the paper only suggests them",
        key="srm_caches",
        otherwise="nobody",
    )
    repairs: Literal["published", "addressed"] = setting(
        "published",
        "srm: published: a repair reaches all whom the event matches; addressed: only those who asked, but then no "
        "holder hears that another has answered",
        "as in the paper's experiments",
        key="srm_repairs",
    )
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
