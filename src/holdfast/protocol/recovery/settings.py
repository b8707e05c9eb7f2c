"""The settings of end-to-end recovery."""

from dataclasses import dataclass

from holdfast.model.settings import Settings, setting
from holdfast.protocol.records import RecordSettings

_RECORDS = RecordSettings(time_unit_us=1_024)
_DIGEST = ("scheme", ("digest",))


@dataclass(frozen=True)
class RecoverySettings(Settings):
    """How losses are announced, requested and repaired."""

    # Announcing, at the publisher
    records: RecordSettings = setting(
        _RECORDS, "what a digest contains of each publication", "times to a millisecond: only order needs finer ones"
    )
    digest_us: int = setting(
        400_000,
        "end-to-end: how often publishers announce what they have published; a loss is detected after so long at most",
        "half of it costs half as many bytes again",
        key="digest_s",
        goes_with=_DIGEST,
    )
    told: int = setting(
        2,
        "end-to-end: digests that announce each event; a subscriber that misses them all asks the publisher",
        "one may be lost",
        unit="digests",
        at_most=16,
        key="told",
        goes_with=_DIGEST,
    )
    entries_min: int = setting(
        8, "entries that a slow publisher's digest waits for", "its head would outweigh fewer", unit="entries"
    )
    wait_us_max: int = setting(1_000_000, "how long it waits for them", "a loss is detected within a second or two")
    quiet_us_max: int = setting(
        10_000_000,
        "longest interval between digests of a quiet publisher",
        "it repeats its last numbers ever more rarely",
    )
    record: int = setting(
        0,
        "earlier events that each event announces by itself; with order at least 10, as in paper 000",
        "digests announce them",
        unit="events",
        at_least=0,
        at_most=1_000,
        key="record",
    )

    # Keeping, at the publisher
    kept_max: int = setting(
        65_536,
        "end-to-end: events that a publisher keeps for repairs",
        "a minute at a thousand events a second",
        unit="events",
        at_most=10_000_000,
        key="kept",
    )
    kept_bytes_max: int = setting(
        64 * 2**20, "attributes and payloads that it keeps, about", "a kilobyte for each of these events"
    )
    kept_us: int = setting(60_000_000, "how long it keeps an event", "past the last retry of a request")

    # Asking, at the subscriber
    asks: bool = setting(True, "False only detects losses, for the sake of order", "most want them repaired")
    reply_us: int = setting(
        1_500_000, "how long an answer takes, until one was measured", "a dozen brokers far apart, and back"
    )
    retry_us_max: int = setting(
        5_000_000, "the longest wait for an answer; waits grow up to it", "a dozen tries a minute"
    )
    search_us: int = setting(
        60_000_000,
        "end-to-end: how long a subscriber looks for a lost event",
        "as long as its publisher keeps it",
        key="search_s",
    )
    missing_max: int = setting(
        65_536, "events looked for at a time", "as many as a publisher keeps: some ten megabytes", unit="events"
    )
    sources_max: int = setting(
        2_000, "publishers whose digests are followed", "as many as order follows", unit="sources"
    )
    forget_us: int = setting(
        60_000_000, "silence after which a publisher is not followed any more", "it keeps no older events for repairs"
    )

    # Answering, at the publisher
    gather_us_min: int = setting(
        30_000, "how long an answer waits at least for others who miss the same", "requests of one region come together"
    )
    gather_ratio: float = setting(
        0.5, "of the time that the request took, by which the answer waits", "far subscribers share the path", above=0
    )
    gather_us_max: int = setting(500_000, "how long an answer waits at most", "a third of the first retry")
    scope_max: int = setting(
        12,
        "requesters that one repair names; for more it is published to all whom it matches",
        "a condition of more names costs more than it saves",
        unit="requesters",
    )
    repair_bytes: int = setting(
        1_200, "publications for the same requesters share a message of about this size", "one datagram"
    )
    repair_bytes_reliable: int = setting(
        16_384, "the same where the publisher's link loses nothing", "what any transport can carry", unit="bytes"
    )
