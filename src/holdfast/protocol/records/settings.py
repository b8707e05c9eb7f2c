"""How publication records are made."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from holdfast.model.limits import NAME_CHARACTERS_MAX
from holdfast.model.settings import Settings, Wrong, setting
from holdfast.protocol.records.bloom import SIZES
from holdfast.protocol.records.formulas import HASHES_MAX, best_hashes
from holdfast.protocol.records.scales import WIDTH_MAX
from holdfast.protocol.records.tags import Family

NAMED_MAX = 16  # attributes with tags beside equality: more would fill any filter
ENTRIES_MAX = 4_096  # of one record: eight seconds of the paper's fastest publisher
LEARNED_FROM = 512  # publications that a codebook is learned from: its quantiles are good to two per cent


@dataclass(frozen=True)
class ColumnSettings(Settings):
    code_bits: int = setting(
        8,
        "of a code at most",
        "a false positive in about 250 for one equality; each bit more halves it",
        at_least=3,
        at_most=WIDTH_MAX,
    )
    texts: Literal["ordered", "hashed"] = setting(
        "ordered", "how texts become codes", "ordered ones can tell prefixes and ranges, and isolate the popular"
    )
    book_bytes: int = setting(4_096, "of a codebook", "this much is announced every few seconds")


@dataclass(frozen=True)
class BloomSettings(Settings):
    bits: int = setting(
        256,
        "srm: bits of the filter that stands for an event in a record",
        "as in paper 000 for events of ten attributes",
        choices=SIZES,
        key="filter_bits",
    )
    items: int = setting(
        10, "tags that an event is expected to have", "the paper's events have ten attributes", unit="tags"
    )
    hashes: int | None = setting(
        None,
        "bits that a tag sets; fewer make filters that travel shorter",
        "the best number for `items` is computed",
        unit="bits",
        at_most=HASHES_MAX,
    )
    direct: bool = setting(True, "a quarter of the bits for thresholds", "it makes ranges selective")
    optional: tuple[str, ...] = setting(
        (), "attributes that conditions test for being there", "each costs a tag or two"
    )
    texts: tuple[tuple[str, tuple[Family, ...]], ...] = setting(
        (), 'further tags of a text, such as ("symbol", ("prefix",))', "each family is up to six tags more"
    )

    def _contradictions(self) -> Iterator[Wrong]:
        named = [*self.optional, *(name for name, _ in self.texts)]
        if len(named) > NAMED_MAX or any(len(name) > NAME_CHARACTERS_MAX for name in named):
            message = f"and texts must name at most {NAMED_MAX} attributes, of up to {NAME_CHARACTERS_MAX} characters"
            yield Wrong("optional", message)

    @property
    def hashes_used(self) -> int:
        hashed = self.bits * 3 // 4 if self.direct else self.bits
        return best_hashes(hashed, self.items) if self.hashes is None else self.hashes


@dataclass(frozen=True)
class RecordSettings(Settings):
    encoding: ColumnSettings | BloomSettings = setting(
        ColumnSettings(), "how an event becomes an entry", "8 bits an attribute are wrong in one of 250"
    )
    delta: bool = setting(True, "write what differs from the entry before", "False is the paper's plain layout")
    key_every: int = setting(
        16,
        "entries from one that is written in full to the next; 0: only the first",
        "a place to begin reading for a few bits more",
        unit="entries",
        at_least=0,
    )
    time_unit_us: int = setting(
        64, "step of departure times", "well below any delay, and a byte shorter than in full", at_most=1_000_000
    )
    kept: int = setting(
        2_048,
        "publications that a record can go back to",
        "four seconds of the paper's fastest publisher",
        unit="publications",
        at_most=ENTRIES_MAX,
    )


def paper(bits: int = 256) -> RecordSettings:
    """The records of paper 000: 256 bits, two hashes, written out in full; the tags are ours: nothing is missed."""
    return RecordSettings(BloomSettings(bits, direct=False, hashes=2), delta=False, time_unit_us=1)


PAPER = paper()
