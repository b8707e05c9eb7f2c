"""Codebooks from what was published last, and when a newer one is worth announcing.

The first book of every publisher follows from the settings alone, so a reader has it without being told. It tells
little; the publisher learns a better one after a few publications, and later when the values it publishes have moved
on. Any book is safe with any event: a worn one tells less, never anything wrong.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from holdfast.model.errors import PeerError
from holdfast.model.event import Attributes
from holdfast.model.limits import NAME_CHARACTERS_MAX
from holdfast.model.values import Kind, Value, kind_of
from holdfast.protocol.records.bloom import BloomBook, BloomLayout
from holdfast.protocol.records.codebook_bytes import Book, bloom_book, column_book
from holdfast.protocol.records.coding import coding_of, count_k_of
from holdfast.protocol.records.columnar import COLUMNS_MAX, SELDOM, Coding, Column, ColumnBook
from holdfast.protocol.records.digest import Codebook
from holdfast.protocol.records.scales import MISSING, UNPLACED, HashedScale, OrderedScale, PresenceScale, Scale
from holdfast.protocol.records.settings import LEARNED_FROM, BloomSettings, ColumnSettings
from holdfast.protocol.records.thresholds import crowding, even_thresholds, learned_scale, main_kind

Encoding = ColumnSettings | BloomSettings
Focus = tuple[str, ...] | None  # the attributes to tell of; None is all

_THRESHOLDS_MIN = 3  # per attribute, of a Bloom filter: with fewer a range is hardly told
_CROWDED = 0.05  # how much likelier two values may share a bin before the book is worn,
_CROWDED_YOUNG = 0.01  # and while it is learned from few: so many more events would be asked for in vain
_UNLISTED = 0.05  # share of events with attributes that the book does not list
_LONGER = 1.2  # how much longer entries may be than with a fresh book


def first_book(encoding: Encoding, focus: Focus = None) -> Codebook:
    """What needs no learning; two nodes with the same settings have it alike."""
    return learned_book(encoding, (), focus)


def learned_book(encoding: Encoding, sample: Sequence[Attributes], focus: Focus = None) -> Codebook:
    if isinstance(encoding, BloomSettings):
        return _learned_bloom(encoding, sample, focus)
    return _learned_columns(encoding, sample, focus)


def worn(book: Codebook, fresh: Codebook, sample: Sequence[Attributes]) -> bool:
    """Whether the fresh book is so much better that it is worth announcing."""
    now, then = _scales(fresh), _scales(book)
    crowded = _CROWDED_YOUNG if len(sample) < LEARNED_FROM else _CROWDED
    for name, told in _by_name(now, sample).items():
        values, scale, before = [value for value in told if value is not None], now[name], then.get(name)
        if before is None or crowding(before, values) > crowding(scale, values) + crowded:
            return True
    if isinstance(book, ColumnBook):
        unlisted = sum(book.has_unlisted(book.entry(each)) for each in sample)
        return unlisted > _UNLISTED * len(sample) or _length(book, sample) > _LONGER * _length(fresh, sample)
    return False


def _scales(book: Codebook) -> dict[str, OrderedScale]:
    if isinstance(book, BloomBook):
        return dict(book.layout.thresholds)
    assert isinstance(book, ColumnBook)
    return {
        each.name: each.scale for each in book.columns if each.name is not None and isinstance(each.scale, OrderedScale)
    }


def _length(book: Codebook, sample: Sequence[Attributes]) -> int:
    """How many bits the sample takes as changes."""
    total, before = 0, book.reference
    for attributes in sample:
        entry = book.entry(attributes)
        change = book.change(entry, before)
        total += book.bits if change is None else change.bits
        before = entry
    return total


def _values(name: str, sample: Iterable[Attributes]) -> list[Value]:
    return [value for each in sample if (value := each.get(name)) is not None]


def _draws(values: Sequence[Value]) -> list[Value]:
    """Values as they were drawn: one that merely stayed for a while counts once."""
    return [value for at, value in enumerate(values) if at == 0 or value != values[at - 1]]


def _names(sample: Sequence[Attributes], focus: Focus, most: int) -> list[str]:
    """The most frequent ones in their order; those in focus whether they occurred or not."""
    if focus is not None and len(focus) <= most:  # then it does not matter how frequent they are
        return sorted(name for name in dict.fromkeys(focus) if len(name) <= NAME_CHARACTERS_MAX)
    counts = Counter(name for each in sample for name, value in each.items() if value is not None)
    names = counts if focus is None else dict.fromkeys(focus)
    ranked = sorted(names, key=lambda name: (-counts[name], name))
    return sorted(name for name in ranked[:most] if len(name) <= NAME_CHARACTERS_MAX)


def _within_limits(make: Callable[[], Book]) -> Book | None:
    """None for a book that a reader would refuse."""
    try:
        return make()
    except PeerError:
        return None


# Columns ---------------------------------------------------------------------------------------------------------


def _learned_columns(settings: ColumnSettings, sample: Sequence[Attributes], focus: Focus) -> ColumnBook:
    """Codes as wide as the settings allow; narrower ones, then fewer columns, until the book is short enough."""
    names = _names(sample, focus, COLUMNS_MAX)
    width = settings.code_bits
    while True:
        columns, changes = _columns(names, sample, width, settings.texts == "hashed")
        book = _within_limits(lambda: column_book(columns, focus is not None, count_k_of(changes)))  # noqa: B023
        if book is not None and (len(book.to_bytes()) <= settings.book_bytes or not names):
            return book
        if width > 3:
            width = max(3, width - 2)
        else:
            names = _names(sample, focus, len(names) // 2)


def _columns(
    names: Sequence[str], sample: Sequence[Attributes], width: int, hashed: bool
) -> tuple[list[Column], float]:
    """The columns, and how many of the seldom ones change in one entry on average."""
    columns, changes = [], 0.0
    for name, values in _by_name(names, sample).items():
        scale = _scale([value for value in values if value is not None], width, hashed)
        codes = [MISSING if value is None else scale.code(value) for value in values]
        if isinstance(scale, PresenceScale):
            coding, ratio = Coding(SELDOM, only=UNPLACED), 0.0
        else:
            coding, ratio = coding_of(codes, scale.width)
        columns.append(Column(name, scale, coding))
        changes += ratio if coding.when == SELDOM else 0
    return columns, changes


def _by_name(names: Iterable[str], sample: Sequence[Attributes]) -> dict[str, list[Value | None]]:
    """Of each attribute, what the events have: most have few of the attributes that there are."""
    found: dict[str, list[Value | None]] = {name: [None] * len(sample) for name in names}
    for at, attributes in enumerate(sample):
        for name, value in attributes.items():
            if name in found:
                found[name][at] = value
    return found


def _scale(values: Sequence[Value], width: int, hashed: bool) -> Scale:
    if not values:
        return PresenceScale()
    kind = main_kind(values)
    if kind is Kind.LIST:
        return PresenceScale()  # no order and no equality: that it is there is all that is told
    if hashed and kind is Kind.STRING:
        return HashedScale(width)
    return learned_scale(_draws(values), kind, width)


# Bloom filters ---------------------------------------------------------------------------------------------------


def _learned_bloom(settings: BloomSettings, sample: Sequence[Attributes], focus: Focus) -> BloomBook:
    plain = BloomLayout(settings.bits, settings.hashes_used, settings.direct, settings.optional, settings.texts, focus)
    thresholds = _thresholds(sample, focus, plain.direct_bits // 2)
    while True:
        layout = replace(plain, only=focus, thresholds=tuple(thresholds))
        book = _within_limits(lambda: bloom_book(layout))  # noqa: B023
        if book is not None:
            return book
        if thresholds:
            thresholds.pop()
        else:
            focus = (focus or ())[: len(focus or ()) // 2]  # of the others nothing is told


def _thresholds(sample: Sequence[Attributes], focus: Focus, bins_max: int) -> list[tuple[str, OrderedScale]]:
    """Numbers and timestamps share the direct bits evenly; the most frequent attributes when there are too many."""
    ranked = {}
    for name in _names(sample, focus, COLUMNS_MAX):
        values = _values(name, sample)
        kind = main_kind(values) if values else None
        if kind in (Kind.NUMBER, Kind.TIMESTAMP):
            ranked[name] = (-sum(kind_of(value) is kind for value in values), name)
    chosen = sorted(ranked, key=lambda name: ranked[name])[: bins_max // _THRESHOLDS_MIN]
    found = []
    for name in sorted(chosen):
        values = _values(name, sample)
        scale = even_thresholds(_draws(values), main_kind(values), bins_max // len(chosen))
        if scale.knots:
            found.append((name, scale))
    return found
