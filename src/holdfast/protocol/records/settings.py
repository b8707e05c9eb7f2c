"""How publication records are made, each number with its reason."""

from dataclasses import dataclass, field
from typing import Literal

from holdfast.model.errors import MisuseError
from holdfast.model.limits import NAME_CHARACTERS_MAX
from holdfast.protocol.records.bloom import SIZES
from holdfast.protocol.records.formulas import HASHES_MAX, best_hashes
from holdfast.protocol.records.scales import WIDTH_MAX
from holdfast.protocol.records.tags import Family

NAMED_MAX = 16  # attributes with tags beside equality: more would fill any filter
ENTRIES_MAX = 4_096  # of one record: eight seconds of the paper's fastest publisher
LEARNED_FROM = 512  # publications that a codebook is learned from: its quantiles are good to two per cent


@dataclass(frozen=True)
class ColumnSettings:
    code_bits: int = 8  # of a code at most: a false positive in about 250 for one equality; each bit more halves it
    texts: Literal["ordered", "hashed"] = (
        "ordered"  # ordered ones can tell prefixes and ranges, and isolate the popular
    )
    book_bytes: int = 4_096  # of a codebook: every few seconds this much is announced

    def __post_init__(self) -> None:
        if not 3 <= self.code_bits <= WIDTH_MAX:
            raise MisuseError(f"a code has 3 to {WIDTH_MAX} bits, not {self.code_bits}")


@dataclass(frozen=True)
class BloomSettings:
    bits: int = 256  # as in the paper
    items: int = 10  # tags an event is expected to have: the paper's events have ten attributes
    hashes: int | None = None  # None picks the best for `items`; fewer make filters that travel shorter
    direct: bool = True  # a quarter of the bits for thresholds, which makes ranges selective
    optional: tuple[str, ...] = ()  # attributes that conditions test for being there; each costs a tag or two
    texts: tuple[tuple[str, tuple[Family, ...]], ...] = ()  # ("symbol", ("prefix",)): up to six tags more for a text

    def __post_init__(self) -> None:
        if self.bits not in SIZES:
            raise MisuseError(f"a filter has 64, 128, 256 or 2,048 bits, not {self.bits}")
        if self.hashes is not None and not 1 <= self.hashes <= HASHES_MAX:
            raise MisuseError(f"a tag sets 1 to {HASHES_MAX} bits, not {self.hashes}")
        if self.items < 1:
            raise MisuseError(f"an event has at least one tag, not {self.items}")
        named = [*self.optional, *(name for name, _ in self.texts)]
        if len(named) > NAMED_MAX or any(len(name) > NAME_CHARACTERS_MAX for name in named):
            raise MisuseError(
                f"at most {NAMED_MAX} attributes get more tags, with names of up to {NAME_CHARACTERS_MAX}"
            )

    @property
    def hashes_used(self) -> int:
        hashed = self.bits * 3 // 4 if self.direct else self.bits
        return best_hashes(hashed, self.items) if self.hashes is None else self.hashes


@dataclass(frozen=True)
class RecordSettings:
    encoding: ColumnSettings | BloomSettings = field(default_factory=ColumnSettings)
    delta: bool = True  # write what differs from the entry before; False is the paper's plain layout
    key_every: int = 16  # every so many entries one that stands for itself; 0 is only the first of a record
    time_unit_us: int = 64  # departure times are told to this: well below any delay, and a byte shorter than in full
    kept: int = 2_048  # publications a record can go back to: four seconds of the paper's fastest publisher

    def __post_init__(self) -> None:
        if not 1 <= self.kept <= ENTRIES_MAX:
            raise MisuseError(f"a record goes back 1 to {ENTRIES_MAX} publications, not {self.kept}")
        if not 1 <= self.time_unit_us <= 1_000_000:
            raise MisuseError(f"departure times are told to 1 to 1,000,000 microseconds, not {self.time_unit_us}")
        if self.key_every < 0:
            raise MisuseError(f"entries that stand for themselves come every 0 or more, not {self.key_every}")


def paper(bits: int = 256) -> RecordSettings:
    """The records of paper 000: 256 bits, two hashes, written out in full; the tags are ours: nothing is missed."""
    return RecordSettings(BloomSettings(bits, direct=False, hashes=2), delta=False, time_unit_us=1)


PAPER = paper()
