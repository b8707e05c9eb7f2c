"""The settings of end-to-end recovery, each with the reason for its default."""

from dataclasses import dataclass

from holdfast.model.errors import MisuseError
from holdfast.protocol.checked import complaints
from holdfast.protocol.records import RecordSettings

_RECORDS = RecordSettings(time_unit_us=1_024)  # a millisecond: only order needs finer times


@dataclass(frozen=True)
class RecoverySettings:
    """How losses are told of, asked for and repaired."""

    # Telling
    records: RecordSettings = _RECORDS
    digest_us: int = 400_000  # between two digests of a publisher; half as much costs half as many bytes again
    told: int = 2  # digests that tell of each publication; a subscriber who misses both asks for what they told
    entries_min: int = 8  # a slow publisher's digest waits for so many entries, or its head outweighs them,
    wait_us_max: int = 1_000_000  # but no longer than this
    quiet_us_max: int = 10_000_000  # a publisher that has gone quiet repeats its last numbers ever more rarely
    record: int = 0  # earlier publications that each one tells of by itself; subscribers with order ask for ten

    # Keeping, at the publisher
    kept_max: int = 65_536  # publications: a minute at a thousand a second
    kept_bytes_max: int = 64 * 2**20  # of attributes and payloads, about: a kilobyte for each of these
    kept_us: int = 60_000_000  # past the last retry of a request

    # Asking, at the subscriber
    asks: bool = True  # False finds out what is missing, for the sake of order, and leaves it at that
    reply_us: int = 1_500_000  # how long an answer takes, before one has come: a dozen brokers far apart, and back
    retry_us_max: int = 5_000_000  # the longest wait for an answer; waits grow up to it
    search_us: int = 60_000_000  # how long a publication is looked for: as long as publishers keep it
    missing_max: int = 65_536  # publications looked for at a time, as many as a publisher keeps: some ten megabytes
    sources_max: int = 2_000  # publishers whose digests are followed
    forget_us: int = 60_000_000  # a publisher that has not been heard for so long is not followed any longer

    # Answering
    gather_us_min: int = 30_000  # an answer waits for others who miss the same: at least so long,
    gather_ratio: float = 0.5  # for half the time that the request took: who is far away shares the way with others,
    gather_us_max: int = 500_000  # and at most so long
    scope_max: int = 12  # requesters whom one repair names; for more it is published to all whom it matches
    repair_bytes: int = 1_200  # publications for the same requesters share a message of about this size: one datagram,
    repair_bytes_reliable: int = 16_384  # or, where the publisher's link loses nothing, what any wire can carry

    def __post_init__(self) -> None:
        if wrong := complaints(self, may_be_zero=("record",)):
            raise MisuseError("; ".join(wrong))
