"""A record as bytes: consecutive entries with their departure times, told from the message that carries it.

The carrier's sequence number and time are known to whoever reads a record, so entries are counted back from them:
nothing is spent on ids, and a time costs its gap to the next. After a short head come the gaps, then the entries,
oldest first, each as what differs from the one before; the first, and now and then another, differs from the
codebook's reference and so stands for itself. An entry that cannot be told as a difference is written out.

Without the codebook a reader still learns which publications there were and when they left.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from holdfast.model.errors import PeerError
from holdfast.model.limits import RECORD_BYTES_MAX, TIME_US_MAX
from holdfast.protocol.records.bits import BitReader, BitWriter
from holdfast.protocol.records.codebook_bytes import BOOK_BYTES_MAX
from holdfast.protocol.records.digest import Codebook, Entry
from holdfast.protocol.records.settings import ENTRIES_MAX
from holdfast.protocol.records.varint import OctetReader, OctetWriter

_VERSION = 1
_GAP_K_MAX = 40
_SIGN = 1 << 63  # a gap from here on is negative: the publisher's clock was set back
_BOOKS_MAX = 32  # whose changes are remembered,
_CHANGES_MAX = 512  # and how many of each: 37 MB at the very worst

Bits = tuple[int, int]  # a value and how many bits it has


class Head(NamedTuple):
    book_id: int
    book_data: bytes | None
    behind: int  # how far the last entry's sequence number is behind the carrier's
    entries: int
    ago: int  # the time from the last entry to the carrier, in units
    unit_us: int
    gap_k: int


class Entries(NamedTuple):
    ago: tuple[int, ...]  # how much earlier each left than the last one, in units
    codes: tuple[Entry, ...] | None  # None when the codebook is not known
    most_ago: int
    least_ago: int


# Writing ---------------------------------------------------------------------------------------------------------


def change_bits(book: Codebook, entry: Entry, before: Entry) -> Bits:
    return _as_change(0, 1, book, entry, before)


def key_bits(book: Codebook, entry: Entry) -> Bits:
    """An entry in the midst of a record that does not depend on the one before."""
    return _as_change(0b10, 2, book, entry, book.reference)


def plain_bits(book: Codebook, entry: Entry) -> Bits:
    return 0b11 << book.bits | entry, book.bits + 2


def _as_change(mark: int, mark_bits: int, book: Codebook, entry: Entry, before: Entry) -> Bits:
    change = book.change(entry, before)
    if change is None or change.bits >= book.bits:
        return plain_bits(book, entry)
    return mark << change.bits | change.value, change.bits + mark_bits


def gap_k_of(gaps: Sequence[int]) -> int:
    """The parameter that makes these gaps shortest: the logarithm of their mean."""
    mean = (sum(gaps) if min(gaps, default=0) >= 0 else sum([gap for gap in gaps if gap > 0])) // max(1, len(gaps))
    return min(_GAP_K_MAX, max(0, mean.bit_length() - 1))


def block_bytes(head: Head, gaps: Sequence[int], entries: Sequence[Bits]) -> bytes:
    """`gaps` between the entries, in units; one fewer than entries."""
    out = OctetWriter()
    out.raw(bytes((_VERSION << 4 | (head.book_data is not None), *head.book_id.to_bytes(4, "big"))))
    if head.book_data is not None:
        out.number(len(head.book_data))
        out.raw(head.book_data)
    out.number(head.behind)
    out.number(head.entries)
    out.signed(head.ago)
    out.number(head.unit_us)
    out.byte(head.gap_k)
    bits = BitWriter()
    bits.rice_each(gaps if min(gaps, default=0) >= 0 else [gap % (2 * _SIGN) for gap in gaps], head.gap_k)
    bits.put_each(entries)
    out.raw(bits.to_bytes())
    return out.to_bytes()


# Reading ---------------------------------------------------------------------------------------------------------


def head_untrusted(data: bytes) -> tuple[Head, bytes]:
    """The head, and the bits that follow; raises only PeerError."""
    if len(data) > RECORD_BYTES_MAX + BOOK_BYTES_MAX:
        raise PeerError(f"a record of {len(data)} bytes; at most {RECORD_BYTES_MAX + BOOK_BYTES_MAX}")
    source = OctetReader(data)
    first = source.byte()
    if first >> 4 != _VERSION or first & 15 > 1:
        raise PeerError(f"a record of the unknown form {first}")
    book_id = int.from_bytes(source.raw(4), "big")
    book_data = source.raw(source.number(BOOK_BYTES_MAX)) if first & 1 else None
    behind = source.number(TIME_US_MAX)
    count = source.number(ENTRIES_MAX)
    ago = source.signed(TIME_US_MAX)
    unit_us = source.number(1_000_000)
    gap_k = source.byte()
    if count == 0 or unit_us == 0 or gap_k > _GAP_K_MAX:
        raise PeerError("a record with an invalid header")
    return Head(book_id, book_data, behind, count, ago, unit_us, gap_k), source.rest()


def entries_untrusted(head: Head, body: bytes, book: Codebook | None) -> Entries:
    """The entries, oldest first; raises only PeerError."""
    bits = BitReader(body)
    gaps = [bits.rice(head.gap_k) for _ in range(head.entries - 1)]
    if max(gaps, default=0) >= _SIGN:
        gaps = [gap - 2 * _SIGN if gap >= _SIGN else gap for gap in gaps]
    times = list(accumulate(reversed(gaps), initial=0))
    most, least = max(times), min(times)
    if most > TIME_US_MAX or least < -TIME_US_MAX:
        raise PeerError("a record with an invalid time")
    codes = None if book is None else _codes_untrusted(bits, head.entries, book)
    return Entries(tuple(reversed(times)), codes, most, least)


def _codes_untrusted(bits: BitReader, count: int, book: Codebook) -> tuple[Entry, ...]:
    before, codes, known = book.reference, list[Entry](), _known_changes(book)  # type: ignore[arg-type]
    for _ in range(count):
        text, entry = known.get(before, _NO_CHANGE)
        if not bits.skip(text):
            at = bits.at
            entry = _entry_untrusted(bits, book, before)
            if len(known) >= _CHANGES_MAX:
                known.clear()
            known[before] = bits.since(at), entry
        codes.append(entry)
        before = entry
    bits.end()
    return tuple(codes)


_NO_CHANGE = "no bits", 0


@lru_cache(maxsize=_BOOKS_MAX)
def _known_changes(book: Codebook) -> dict[Entry, tuple[str, Entry]]:
    """By the entry before: the bits that were read after it last, and the entry that they gave.

    The records of successive publications list mostly the same entries, each after the same one. What some bits mean
    depends on the book and the entry before, and not on what follows them: so the same bits need not be read again.
    """
    return {}


def _entry_untrusted(bits: BitReader, book: Codebook, before: Entry) -> Entry:
    if bits.take(1) == 0:
        return book.changed_untrusted(bits, before)
    if bits.take(1) == 0:
        return book.changed_untrusted(bits, book.reference)
    return bits.take(book.bits)
