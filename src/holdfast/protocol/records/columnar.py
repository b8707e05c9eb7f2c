"""The columnar encoding: one small code for each attribute, side by side in an integer.

Which attributes there are, how each is coded and what is usual for it stands in the codebook, with the names in full:
so an absent attribute is known to be absent, nothing is spent on names in an entry, and an attribute that is nearly
always missing costs next to nothing. An attribute that the codebook does not list sets the one bit `others`, and then
conditions on unlisted attributes pass; a codebook that was focused on some attributes says nothing about the rest.

An entry travels as what differs from a prediction: the entry before it, or what is usual (`coding.py` picks).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple

from holdfast.language.constraint import Constraint, name_text
from holdfast.language.subscription import Filter, Subscription, necessary
from holdfast.model.errors import PeerError
from holdfast.model.event import Attributes
from holdfast.model.values import Value
from holdfast.protocol.records.bits import BitReader, BitWriter
from holdfast.protocol.records.digest import Alternative, Entry, Field, Pattern, pattern_of
from holdfast.protocol.records.scales import MISSING, UNPLACED, PresenceScale, Scale

COLUMNS_MAX = 512  # twice what an event may carry; more are told by `others`
_FILTERS_MAX = 1_024  # whose tests a book remembers: half a megabyte for filters of four
ENTRY_BITS_MAX = 2_048  # 256 bytes: what a reader keeps for each entry at worst


class Coding(NamedTuple):
    """How a column's changes are written."""

    when: int  # one of ALWAYS, MASKED, SELDOM
    from_previous: bool = False  # predict the code of the entry before, not `usual`
    usual: int = MISSING
    only: int | None = None  # the one other code there is: a change then needs no code


ALWAYS, MASKED, SELDOM = 0, 1, 2  # the code each time; a bit that says whether it follows; in a list of changes


@dataclass(frozen=True)
class Column:
    name: str | None  # None stands for all attributes that are not listed
    scale: Scale
    coding: Coding


OTHERS = Column(None, PresenceScale(), Coding(SELDOM, only=UNPLACED))


class _Place(NamedTuple):
    column: Column
    shift: int
    ones: int
    width: int
    only: int | None  # the one code that it has where it differs, which then need not be written


class ColumnBook:
    def __init__(self, columns: Sequence[Column], focused: bool, count_k: int, data: bytes) -> None:
        """`columns` in the order of their names; `data` is the book as bytes (`codebook_bytes`)."""
        self.columns = tuple(columns)
        self.focused = focused
        self.count_k = count_k
        self._data = data
        self.id = int.from_bytes(blake2b(data, digest_size=4).digest(), "big")
        everything = self.columns if focused else (*self.columns, OTHERS)
        self._places = list(_laid_out(everything))
        self._known: dict[Filter, tuple[Alternative, ...]] = {}  # filters that were asked about
        self._by_name = {place.column.name: place for place in self._places}
        self._always_bits, self._masked, self._seldom = 0, [], []
        for place in self._places:
            match place.column.coding.when:
                case 0:
                    self._always_bits += place.width
                case 1:
                    self._masked.append(place)
                case _:
                    self._seldom.append(place)
        self.bits = sum(place.width for place in self._places)
        self.reference = sum(place.column.coding.usual << place.shift for place in self._places)
        self._from_previous = sum(
            place.ones << place.shift for place in self._places if place.column.coding.from_previous
        )

    def to_bytes(self) -> bytes:
        return self._data

    # Events and conditions -----------------------------------------------------------------------

    def knows(self, attribute: str) -> bool:
        return attribute in self._by_name

    def entry(self, attributes: Attributes) -> Entry:
        entry, find = 0, self._by_name.get
        for name, value in attributes.items():
            if value is None:
                continue
            place = find(name)
            if place is not None:
                entry |= place.column.scale.code(value) << place.shift
            elif not self.focused:
                entry |= UNPLACED << self._by_name[None].shift
        return entry

    def has_unlisted(self, entry: Entry) -> bool:
        """Whether the event has attributes that are not listed."""
        others = self._by_name.get(None)
        return others is not None and entry >> others.shift & 1 == UNPLACED

    def pattern(self, subscription: Subscription) -> Pattern:
        return pattern_of(found for each in subscription.filters for found in self._alternatives(each))

    def _alternatives(self, filter_: Filter) -> tuple[Alternative, ...]:
        """Many want the same in one of their filters: what it is under this book is worked out once."""
        known = self._known.get(filter_)
        if known is None:
            if len(self._known) >= _FILTERS_MAX:
                self._known.clear()
            known = self._known[filter_] = tuple(self._alternative(necessary(filter_)))
        return known

    def _alternative(self, filter_: Filter) -> Iterator[Alternative]:
        """One, or none when no entry of this book can pass."""
        tests: dict[int, Field] = {}  # by the place of the column
        for each in filter_:
            place, codes = self._test(each)
            if place is not None:
                before = tests.get(place.shift)
                allowed = codes if before is None else codes & before.allowed
                tests[place.shift] = Field(place.shift, place.ones, allowed)
        mask = value = 0
        fields = []
        for field in tests.values():
            if field.allowed == 0:
                return
            if field.allowed & field.allowed - 1 == 0:  # a single code: all such columns are compared at once
                mask |= field.ones << field.shift
                value |= field.allowed.bit_length() - 1 << field.shift
            else:
                fields.append(field)
        yield Alternative(mask, value, tuple(fields))

    def _test(self, each: Constraint) -> tuple[_Place | None, int]:
        place = self._by_name.get(each.attribute)
        if place is not None:
            return place, place.column.scale.allowed(each)
        if self.focused or each.op == "IS NULL":
            return None, 0  # it may be there or not
        return self._by_name[None], 1 << UNPLACED

    # Changes -------------------------------------------------------------------------------------

    def change(self, entry: Entry, before: Entry) -> BitWriter | None:
        out = BitWriter()
        difference = entry ^ self._predicted(before)
        value, changed = entry & (1 << self._always_bits) - 1, []
        for place in self._masked:
            value <<= 1
            if difference >> place[1] & place[2]:
                value |= 1
                changed.append(place)
        out.value, out.bits = value, self._always_bits + len(self._masked)
        if not _put_codes(out, changed, entry):
            return None
        if self._seldom:
            members = self._changed_seldom(difference)
            out.subset(members, len(self._seldom), self.count_k)
            if not _put_codes(out, [self._seldom[member] for member in members], entry):
                return None
        return out

    def changed_untrusted(self, bits: BitReader, before: Entry) -> Entry:
        ones = (1 << self._always_bits) - 1
        entry = self._predicted(before) & ~ones | bits.take(self._always_bits)
        if self._masked:
            mask, last = bits.take(len(self._masked)), len(self._masked) - 1
            for at, place in enumerate(self._masked):
                if mask >> last - at & 1:
                    entry = _with_code(entry, place, bits)
        if self._seldom:
            for member in bits.subset(len(self._seldom), self.count_k):
                entry = _with_code(entry, self._seldom[member], bits)
        return entry

    def _predicted(self, before: Entry) -> Entry:
        return self.reference ^ (before ^ self.reference) & self._from_previous

    def _changed_seldom(self, difference: int) -> list[int]:
        """Which of the seldom columns differ, found by the bits that are set and not by looking at each column."""
        members, owners, ends = [], self._owners, self._ends
        left = difference >> self.bits - len(owners)
        while left:
            member = owners[(left & -left).bit_length() - 1]
            members.append(member)
            left = left >> ends[member] << ends[member]
        return members

    @cached_property
    def _ends(self) -> list[int]:
        """Where each of them ends, counted from where the first begins."""
        return list(accumulate(place.width for place in self._seldom))

    @cached_property
    def _owners(self) -> list[int]:
        """For each bit of the seldom columns, whose it is."""
        return [member for member, place in enumerate(self._seldom) for _ in range(place.width)]

    # Requests ------------------------------------------------------------------------------------

    def request_attributes(self, entry: Entry) -> dict[str, Value]:
        """`q_price = 17` and so on, for what is not missing."""
        codes = ((place, entry >> place.shift & place.ones) for place in self._places)
        return {_request_name(place): code for place, code in codes if code != MISSING}

    def request_condition(self, pattern: Pattern) -> list[str]:
        return [" AND ".join(self._request_tests(each)) for each in pattern]

    def _request_tests(self, each: Alternative) -> Iterator[str]:
        for place in self._places:
            if each.mask >> place.shift & place.ones:
                yield _codes_text(_request_name(place), 1 << (each.value >> place.shift & place.ones))
        names = {place.shift: _request_name(place) for place in self._places}
        for shift, _, allowed in each.fields:
            yield _codes_text(names[shift], allowed)


def _laid_out(columns: Iterable[Column]) -> Iterator[_Place]:
    """Columns that are written alike lie side by side, those that are always written lowest."""
    shift = 0
    for column in sorted(columns, key=lambda each: each.coding.when):
        width = column.scale.width
        yield _Place(column, shift, (1 << width) - 1, width, column.coding.only)
        shift += width


def _put_codes(out: BitWriter, places: Iterable[_Place], entry: Entry) -> bool:
    value, bits = out.value, out.bits
    for _, shift, ones, width, only in places:
        code = entry >> shift & ones
        if only is None:
            value = value << width | code
            bits += width
        elif code != only:
            return False
    out.value, out.bits = value, bits
    return True


def _with_code(entry: Entry, place: _Place, bits: BitReader) -> Entry:
    code = bits.take(place.width) if place.only is None else place.only
    return entry & ~(place.ones << place.shift) | code << place.shift


_CODES_LISTED_MAX = 16  # a longer list of single codes is told by its ends


def _request_name(place: _Place) -> str:
    return "q" if place.column.name is None else f"q_{place.column.name}"


def _codes_text(name: str, allowed: int) -> str:
    """The test of a request's code; it may allow more than these codes, never less."""
    quoted = name_text(name)
    if allowed == 1 << MISSING:
        return f"{quoted} IS NULL"
    low, high = (allowed & -allowed).bit_length() - 1, allowed.bit_length() - 1
    if low == high:
        return f"{quoted} = {low}"
    count = allowed.bit_count()
    if count <= _CODES_LISTED_MAX and count < high - low + 1:
        return f"{quoted} IN ({', '.join(str(code) for code in range(low, high + 1) if allowed >> code & 1)})"
    return f"{quoted} BETWEEN {low} AND {high}"


def check_size(columns: Sequence[Column]) -> None:
    bits = 1 + sum(column.scale.width for column in columns)
    if bits > ENTRY_BITS_MAX:
        raise PeerError(f"a codebook with entries of {bits} bits; at most {ENTRY_BITS_MAX}")
