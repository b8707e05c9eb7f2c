"""Codebooks as bytes, and back from bytes that nobody vouches for.

Names and texts come sorted, so each is written as how much it shares with the one before and the rest; a column that
is coded as the one before says just that. A codebook of ten attributes takes a few hundred bytes, one of 230 topics
about a kilobyte. The bytes are the book's identity: books made here are what a reader makes of the same bytes, so
both ends work out the same boundaries even where a number was rounded.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import isfinite
from typing import TypeVar, get_args

from holdfast.model.errors import PeerError
from holdfast.model.limits import NAME_CHARACTERS_MAX
from holdfast.model.values import INTEGER_MAX, Kind
from holdfast.protocol.records.bloom import SIZES, BloomBook, BloomLayout
from holdfast.protocol.records.columnar import COLUMNS_MAX, Coding, Column, ColumnBook, check_size
from holdfast.protocol.records.digest import Codebook
from holdfast.protocol.records.formulas import HASHES_MAX
from holdfast.protocol.records.ordering import Key
from holdfast.protocol.records.scales import (
    BOOLEAN,
    FIRST_BIN,
    WIDTH_MAX,
    HashedScale,
    OrderedScale,
    PresenceScale,
    Scale,
)
from holdfast.protocol.records.tags import Family
from holdfast.protocol.records.varint import OctetReader, OctetWriter

BOOK_BYTES_MAX = 16_384  # a book is sent again every few seconds: more would cost more than the records themselves
_TEXT_BYTES_MAX = 4 * NAME_CHARACTERS_MAX
_ALL_BINS_MAX = 16_384  # of one book: half a megabyte of boundaries, worked out in a few milliseconds
_BINS_MAX = (1 << WIDTH_MAX) - FIRST_BIN

Book = TypeVar("Book", ColumnBook, BloomBook)

_COLUMNS, _BLOOM = 0, 1
_PRESENCE, _HASHED, _ORDERED, _BOOLEAN = range(4)
_FROM_PREVIOUS, _ONLY, _AS_BEFORE = 16, 32, 64
_KINDS = (Kind.NUMBER, Kind.STRING, Kind.TIMESTAMP)
_INTEGERS, _DOUBLES = 0, 1
_FAMILIES: tuple[Family, ...] = get_args(Family)


def column_book(columns: Sequence[Column], focused: bool = False, count_k: int = 0) -> ColumnBook:
    out = OctetWriter()
    out.byte(_COLUMNS)
    out.byte(focused)
    out.byte(count_k)
    columns = sorted(columns, key=lambda each: each.name or "")
    names = [each.name or "" for each in columns]
    out.number(len(columns))
    defined_before = b""
    for name, before, column in zip(names, ["", *names], columns, strict=False):
        _put_text(out, name, before)
        defined = _definition(column)
        out.raw(bytes([_AS_BEFORE]) if defined == defined_before else defined)
        defined_before = defined
    return _same(out.to_bytes(), ColumnBook)


def bloom_book(layout: BloomLayout) -> BloomBook:
    out = OctetWriter()
    out.byte(_BLOOM)
    out.byte(SIZES.index(layout.bits))
    out.byte(layout.hashes)
    out.byte(layout.direct)
    _put_names(out, layout.optional)
    out.number(len(layout.texts))
    for name, families in layout.texts:
        out.text(name)
        out.byte(sum(1 << at for at, family in enumerate(_FAMILIES) if family in families))
    out.byte(layout.only is not None)
    _put_names(out, layout.only or ())
    out.number(len(layout.thresholds))
    for name, scale in layout.thresholds:
        out.text(name)
        _put_ordered(out, scale)
    return _same(out.to_bytes(), BloomBook)


def _same(data: bytes, kind: type[Book]) -> Book:
    book = book_untrusted(data)
    assert isinstance(book, kind)
    return book


@lru_cache(maxsize=128)  # every subscriber of a simulation reads the same few books
def book_untrusted(data: bytes) -> Codebook:
    """The codebook that these bytes describe; raises only PeerError."""
    if len(data) > BOOK_BYTES_MAX:
        raise PeerError(f"a codebook of {len(data)} bytes; at most {BOOK_BYTES_MAX}")
    source = OctetReader(data)
    kind = source.byte()
    if kind == _COLUMNS:
        return _columns_untrusted(source, data)
    if kind == _BLOOM:
        return BloomBook(_layout_untrusted(source), data)
    raise PeerError(f"a codebook of the unknown kind {kind}")


# Columns ---------------------------------------------------------------------------------------------------------


def _definition(column: Column) -> bytes:
    out, coding = OctetWriter(), column.coding
    scale = column.scale
    flavour = {PresenceScale: _PRESENCE, HashedScale: _HASHED, OrderedScale: _ORDERED}[type(scale)]
    if scale == BOOLEAN:
        flavour = _BOOLEAN
    only = 0 if coding.only is None else _ONLY
    out.byte(flavour | coding.when << 2 | (_FROM_PREVIOUS if coding.from_previous else 0) | only)
    out.number(coding.usual)
    if coding.only is not None:
        out.number(coding.only)
    if flavour == _HASHED:
        out.byte(scale.width)
    elif flavour == _ORDERED:
        assert isinstance(scale, OrderedScale)
        _put_ordered(out, scale)
    return out.to_bytes()


def _columns_untrusted(source: OctetReader, data: bytes) -> ColumnBook:
    focused = _flag(source)
    count_k = _at_most(source.byte(), 8)
    columns: list[Column] = []
    name = ""
    for number in range(source.number(COLUMNS_MAX)):
        before, name = name, _text_untrusted(source, name)
        if number and name <= before:
            raise PeerError("a codebook whose columns are not in order")
        head = source.byte()
        if head == _AS_BEFORE and columns:
            columns.append(Column(name, columns[-1].scale, columns[-1].coding))
        else:
            columns.append(_column_untrusted(source, name, head))
    source.end()
    _check_bins([each.scale for each in columns if isinstance(each.scale, OrderedScale)])
    check_size(columns)
    return ColumnBook(columns, focused, count_k, data)


def _column_untrusted(source: OctetReader, name: str, head: int) -> Column:
    when = head >> 2 & 3
    if head >= _AS_BEFORE or when > 2:
        raise PeerError(f"a column of the unknown form {head}")
    usual = source.number(1 << WIDTH_MAX)
    only = source.number(1 << WIDTH_MAX) if head & _ONLY else None
    match head & 3:
        case 0:
            scale: Scale = PresenceScale()
        case 1:
            scale = HashedScale(_at_most(source.byte(), WIDTH_MAX, least=2))
            if scale.width == 2:
                raise PeerError("a hashed column of two bits")
        case 2:
            scale = _ordered_untrusted(source)
        case _:
            scale = BOOLEAN
    if max(usual, only or 0) >> scale.width:
        raise PeerError(f"a code of more than {scale.width} bits")
    return Column(name, scale, Coding(when, bool(head & _FROM_PREVIOUS), usual, only))


# Bloom filters ---------------------------------------------------------------------------------------------------


def _layout_untrusted(source: OctetReader) -> BloomLayout:
    bits = SIZES[_at_most(source.byte(), len(SIZES) - 1)]
    hashes = _at_most(source.byte(), HASHES_MAX, least=1)
    direct = _flag(source)
    optional = _names_untrusted(source)
    texts = []
    for _ in range(source.number(COLUMNS_MAX)):
        name, chosen = source.text(_TEXT_BYTES_MAX), source.byte()
        texts.append((name, tuple(family for at, family in enumerate(_FAMILIES) if chosen >> at & 1)))
    limited = _flag(source)
    names = _names_untrusted(source)
    thresholds = tuple(
        (source.text(_TEXT_BYTES_MAX), _ordered_untrusted(source)) for _ in range(source.number(COLUMNS_MAX))
    )
    source.end()
    _check_bins([scale for _, scale in thresholds])
    layout = BloomLayout(bits, hashes, direct, optional, tuple(texts), names if limited else None, thresholds)
    if 2 * sum(len(scale.boundaries) for _, scale in thresholds) > layout.direct_bits:
        raise PeerError("a codebook with more thresholds than bits for them")
    return layout


# Scales ----------------------------------------------------------------------------------------------------------


def _put_ordered(out: OctetWriter, scale: OrderedScale) -> None:
    out.byte(_KINDS.index(scale.kind))
    out.number(scale.parts)
    for keys in (scale.points, scale.knots):
        out.number(len(keys))
        if scale.kind is Kind.STRING:
            texts = [str(key) for key in keys]
            for text, before in zip(texts, ["", *texts], strict=False):
                _put_text(out, text, before)
        elif keys:
            _put_numbers(out, [float(key) if type(key) is float else int(key) for key in keys])


def _put_numbers(out: OctetWriter, keys: list[int | float]) -> None:
    """Whole numbers as their differences, others as doubles; an integer that no double holds is rounded then."""
    if all(type(key) is int for key in keys):
        out.byte(_INTEGERS)
        out.signed(int(keys[0]))
        for low, high in pairwise(keys):
            out.number(int(high) - int(low))
    else:
        out.byte(_DOUBLES)
        for key in keys:
            out.double(float(key))


def _ordered_untrusted(source: OctetReader) -> OrderedScale:
    kind = _KINDS[_at_most(source.byte(), len(_KINDS) - 1)]
    parts = source.number(_BINS_MAX)
    take: Callable[[OctetReader, int], tuple[Key, ...]] = (
        _texts_untrusted if kind is Kind.STRING else _numbers_untrusted
    )
    points, knots = (take(source, source.number(_BINS_MAX)) for _ in range(2))
    if any(low > high for keys in (points, knots) for low, high in pairwise(keys)):  # type: ignore[operator]
        raise PeerError("a scale that is not in order")
    scale = OrderedScale(kind, points, knots, parts)
    if parts == 0 or scale.bins_max > _BINS_MAX:
        raise PeerError("a scale with more bins than a code has values")
    return scale


def _numbers_untrusted(source: OctetReader, count: int) -> tuple[int | float, ...]:
    if count == 0:
        return ()
    if source.byte() == _DOUBLES:
        doubles = [source.double() for _ in range(count)]
        if not all(map(isfinite, doubles)):
            raise PeerError("a scale with a boundary that is not finite")
        return tuple(doubles)
    keys = [source.signed(INTEGER_MAX)]
    while len(keys) < count:
        keys.append(keys[-1] + source.number(2 * INTEGER_MAX))
    if keys[-1] > INTEGER_MAX:
        raise PeerError("a scale with a boundary of more than 64 bits")
    return tuple(keys)


def _texts_untrusted(source: OctetReader, count: int) -> tuple[str, ...]:
    texts: list[str] = []
    for _ in range(count):
        texts.append(_text_untrusted(source, texts[-1] if texts else ""))
    return tuple(texts)


# Parts -----------------------------------------------------------------------------------------------------------


def _put_names(out: OctetWriter, names: Sequence[str]) -> None:
    out.number(len(names))
    for name in names:
        out.text(name)


def _names_untrusted(source: OctetReader) -> tuple[str, ...]:
    return tuple(source.text(_TEXT_BYTES_MAX) for _ in range(source.number(COLUMNS_MAX)))


def _put_text(out: OctetWriter, text: str, before: str) -> None:
    shared = 0
    while shared < min(len(text), len(before)) and text[shared] == before[shared]:
        shared += 1
    out.number(shared)
    out.text(text[shared:])


def _text_untrusted(source: OctetReader, before: str) -> str:
    shared = source.number(len(before))
    text = before[:shared] + source.text(_TEXT_BYTES_MAX)
    if len(text) > NAME_CHARACTERS_MAX:
        raise PeerError(f"a text of more than {NAME_CHARACTERS_MAX} characters in a codebook")
    return text


def _check_bins(scales: Sequence[OrderedScale]) -> None:
    bins = sum(scale.bins_max for scale in scales)
    if bins > _ALL_BINS_MAX:
        raise PeerError(f"a codebook of {bins} bins; at most {_ALL_BINS_MAX}")


def _flag(source: OctetReader) -> bool:
    return bool(_at_most(source.byte(), 1))


def _at_most(value: int, most: int, least: int = 0) -> int:
    if not least <= value <= most:
        raise PeerError(f"{value} in a codebook where {least} to {most} is allowed")
    return value
