"""The settings of the paper's recovery, each with its reason; the defaults are the paper's own experiment."""

from dataclasses import dataclass

from holdfast.model.errors import MisuseError
from holdfast.protocol.checked import complaints
from holdfast.protocol.records import PAPER, RecordSettings

_MAY_BE_ZERO = ("record", "soft_state_us", "request_spread", "repair_spread")


@dataclass(frozen=True)
class SrmSettings:
    # Telling, at the publisher
    records: RecordSettings = PAPER  # 256 bits, two hashes, written out in full
    record: int = 10  # earlier publications that each one tells of
    book_every: int = 8  # a learned codebook rides on every so many publications; the paper's filters need none
    soft_state_us: int = 0  # after so long without a publication the record is sent by itself; 0 never: the paper's
    soft_state_us_max: int = 10_000_000  # and then ever more rarely, down to this
    publisher_cache: bool = False  # whether the publisher repairs too; without it what all have lost is lost for good
    published_max: int = 20_000  # that it keeps: forty seconds of the paper's fastest publisher,
    published_bytes_max: int = 32 * 2**20  # in attributes and payloads, about,
    published_us: int = 60_000_000  # and for how long: past the last round of a request

    # Timers, as multiples of a distance
    adaptive: bool = True  # the paper relies on SRM's adjustment of the four factors below
    request_wait: float = 2.0  # C1: SRM's own start
    request_spread: float = 2.0  # C2
    repair_wait: float = 1.0  # D1, where nothing is adjusted
    repair_spread: float = 1.0  # D2
    backoff: float = 2.0  # from one round to the next
    doublings_max: int = 5  # after which rounds are equally long, as in ns-2
    rounds_max: int = 6  # asked for so often, by us or by others, it is given up: SRM leaves that open
    hold_down: float = 3.0  # distances after a repair in which requests for the same are answered already
    distance_us: int = 1_000_000  # to a node that has not been heard: SRM's default

    # Keeping, at every subscriber: Algorithm 1
    kept_min: int = 5  # publications of one publisher: K_min,
    kept_max: int = 300  # K_max,
    kept_first: int = 5  # and K_0, all from the paper
    hit_ratio: float = 1.0  # H: what the ring is to be long enough for
    adjust_us: int = 1_000_000  # how often the length is looked at; the paper says periodically
    provider_us: int = 10_000_000  # who has sent a repair this lately is the closest provider
    provider_by_miss: bool = True  # also who would have sent one, had it kept the event, and heard of no other
    kept_bytes_max: int = 32 * 2**20  # of all publishers together, about

    # Memory
    sources_max: int = 1_000  # publishers: 300 publications of each would be all that `kept_bytes_max` holds
    missing_max: int = 10_000  # looked for at a time: a minute of the false alarms at two thousand events a second
    repairs_max: int = 1_000  # repairs on the point of being sent: four seconds of the paper's losses in one place
    remembered_max: int = 20_000  # ids given up, and ids in hold-down: 4 MB each; the oldest are forgotten first

    def __post_init__(self) -> None:
        wrong = complaints(self, _MAY_BE_ZERO)
        if wrong:
            raise MisuseError("; ".join(wrong))
        if self.backoff < 1:
            wrong.append(f"backoff must be at least 1, or requests come ever faster; found {self.backoff}")
        if not self.kept_min <= self.kept_first <= self.kept_max:
            wrong.append(f"kept_first must lie between kept_min and kept_max, found {self.kept_first}")
        if wrong:
            raise MisuseError("; ".join(wrong))
