"""The one interface of all encodings: entries, patterns, and whether a pattern covers an entry.

An entry is what a publisher tells of one event: a few bits, held in an integer. A pattern is what a subscriber keeps
of a condition. If the event matches the condition, the pattern covers the entry; the other way round it may err, and
how rarely is what an encoding is judged by. Entry and pattern must come from the same codebook.

A pattern is a disjunction of alternatives, one for each filter. An alternative asks for certain bits at certain
places, for fields whose value is among those allowed, and of each list of bit sets for one that is there in full.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from holdfast.language.subscription import Subscription
from holdfast.model.event import Attributes
from holdfast.model.values import Value
from holdfast.protocol.records.bits import BitReader, BitWriter

Entry = int

_SHELVED_MIN = 3  # alternatives that share a mask: looking up a shelf costs as much as trying two


class Field(NamedTuple):
    shift: int
    ones: int  # as many as the field is wide
    allowed: int  # bit n says that the value n may stand there


class Alternative(NamedTuple):
    mask: int = 0
    value: int = 0  # entry & mask
    fields: tuple[Field, ...] = ()
    choices: tuple[tuple[int, ...], ...] = ()  # of each, one must be contained in the entry


Pattern = tuple[Alternative, ...]


class Codebook(Protocol):
    """An encoding with all it has learned, never changed: what an event's bits mean."""

    @property
    def id(self) -> int:
        """32 bits of a hash of `to_bytes()`."""

    @property
    def bits(self) -> int:
        """How long an entry is when it is written out."""

    @property
    def reference(self) -> Entry:
        """The entry that the first one of a record is written against."""

    def knows(self, attribute: str) -> bool:
        """Whether entries say anything about it."""

    def entry(self, attributes: Attributes) -> Entry: ...
    def pattern(self, subscription: Subscription) -> Pattern: ...

    def change(self, entry: Entry, before: Entry) -> BitWriter | None:
        """The entry as what is different from the one before; None when only all of its bits can say it."""

    def changed_untrusted(self, bits: BitReader, before: Entry) -> Entry: ...

    def request_attributes(self, entry: Entry) -> dict[str, Value]: ...
    def request_condition(self, pattern: Pattern) -> list[str]:
        """One condition on a request's attributes for each alternative."""

    def to_bytes(self) -> bytes: ...


def covers(entry: Entry, pattern: Iterable[Alternative]) -> bool:
    """Whether the event behind the entry may match; False only when it surely does not."""
    for mask, value, fields, choices in pattern:
        if entry & mask != value:
            continue
        for shift, ones, allowed in fields:
            if not allowed >> (entry >> shift & ones) & 1:
                break
        else:
            for masks in choices:
                if not any(entry & each == each for each in masks):
                    break
            else:
                return True
    return False


def pattern_of(alternatives: Iterable[Alternative]) -> Pattern:
    """Without repetitions; one that covers everything makes the others pointless."""
    distinct = dict.fromkeys(alternatives)
    anything = Alternative()
    return (anything,) if anything in distinct else tuple(distinct)


class Sieve:
    """A pattern that many entries are held against: alternatives that ask for different values at the same places lie
    on one shelf, and only those that ask for the entry's own are tried.
    """

    def __init__(self, pattern: Pattern) -> None:
        shelves: dict[int, list[Alternative]] = {}
        for each in pattern:
            shelves.setdefault(each.mask, []).append(each)
        self._shelves: list[tuple[int, dict[int, list[Alternative]]]] = []  # mask; value -> alternatives
        self._others: list[Alternative] = []
        for mask, alternatives in shelves.items():
            if len(alternatives) < _SHELVED_MIN:
                self._others += alternatives
                continue
            shelf: dict[int, list[Alternative]] = {}
            for each in alternatives:
                shelf.setdefault(each.value, []).append(each)
            self._shelves.append((mask, shelf))

    def covered(self, entries: Sequence[Entry]) -> set[int]:
        """The places of those entries that the pattern covers; many are tried in one go, test by test."""
        if not self._shelves and len(self._others) == 1:  # as most subscribers have
            return set(_passing(self._others[0], entries))
        places: set[int] = set()
        for mask, shelf in self._shelves:
            asked = [(at, found) for at, entry in enumerate(entries) if (found := shelf.get(entry & mask))]
            places.update([at for at, found in asked if covers(entries[at], found)])
        for each in self._others:
            places.update(_passing(each, entries))
        return places


def _passing(alternative: Alternative, entries: Sequence[Entry]) -> list[int]:
    """The places of the entries that pass it."""
    mask, value, fields, choices = alternative
    places = [at for at, entry in enumerate(entries) if entry & mask == value]
    for shift, ones, allowed in fields:
        places = [at for at in places if allowed >> (entries[at] >> shift & ones) & 1]
    for masks in choices:
        places = [at for at in places if any([entries[at] & each == each for each in masks])]
    return places
