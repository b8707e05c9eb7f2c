"""What a node knows of one publisher: what is missing, how the timers stand, who takes part, what is kept."""

from collections.abc import Hashable

from holdfast.protocol.records import Codebook, Entry
from holdfast.protocol.recovery.srm.event_cache import Ring
from holdfast.protocol.recovery.srm.group import Group
from holdfast.protocol.recovery.srm.messages import Routing
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.recovery.srm.window import REPAIRS, REQUESTS, Window


class Gap:
    """A publication that we miss."""

    __slots__ = (
        "asked_us",
        "book",
        "code",
        "departure_us",
        "detected_us",
        "due_us",
        "heard",
        "ignore_until_us",
        "is_twice",
        "repaired_us",
        "round",
    )

    def __init__(
        self, departure_us: int, detected_us: int, book: Codebook | None, code: Entry | None, heard: Routing | None
    ) -> None:
        self.departure_us = departure_us
        self.detected_us = detected_us
        self.book = book  # and the entry, when a record listed it,
        self.code = code
        self.heard = heard  # or else the attributes of the request that did
        self.round = 0  # how often it was asked for, by us or by others
        self.due_us = 0
        self.ignore_until_us = 0  # requests until then belong to the round that has begun
        self.asked_us = 0  # when we asked in the first round
        self.is_twice = False  # another had asked before that
        self.repaired_us = 0  # when the repair was sent that has come

    @property
    def alike(self) -> Hashable:
        """Gaps with the same key have the same content as far as records tell, and share a request."""
        return None if self.book is None else (self.book.id, self.code)


class SrmSource:
    def __init__(self, name: str, settings: SrmSettings) -> None:
        self.name = name
        self.gaps: dict[int, Gap] = {}
        self.alike: dict[Hashable, dict[int, None]] = {}  # numbers of gaps with the same content
        self.group = Group()
        repair_wait, repair_spread = settings.repair_wait, settings.repair_spread
        if settings.adaptive:
            repair_wait, repair_spread = REPAIRS.wait_least, REPAIRS.spread_least  # log10 of a small group is less
        self.requests = Window(settings.request_wait, settings.request_spread, REQUESTS, settings.adaptive)
        self.repairs = Window(repair_wait, repair_spread, REPAIRS, settings.adaptive)
        self.ring = Ring(settings)
