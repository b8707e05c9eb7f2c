"""What is known of logged events without reading them, so that a search reads only what it may find.

For each attribute a block of events knows the least and the greatest number and text, and of each event a code of two
bytes: a hash of its value. A range leaves out whole blocks; an equality leaves out all events with another code, which
one comparison of arrays finds for a whole file. What is uncertain is read.

A Bloom filter for each block took three quarters of the room, and of every block that it let pass all events had to be
read.

Numbers are kept as doubles, rounded outwards where that is not exact, and texts by their first eight bytes in UTF-8,
whose order is that of the characters: both widen a range and never narrow it.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from mmap import mmap
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
import numpy.typing as npt

from holdfast.language.constraint import Constraint
from holdfast.language.like import prefix_text
from holdfast.language.subscription import Filter, Subscription, necessary
from holdfast.model.values import Kind

BLOCK = 256  # events: a rare value is then outside the range of most blocks, and a range costs little beside the codes
ATTRIBUTES_MAX = 64  # that are known in one file; tests of others leave nothing out
_FORMAT = 2  # of what is saved; another is made anew
_EXACT_MAX = 2.0**53  # up to here every whole number is a double

# Codes of values. A value that is neither number nor text passes every test here.
_OTHER, _MISSING, _FIRST_HASH = 0, 1, 2
_CODES = 2**16
_COMPARED_MAX = 4  # codes that are compared one by one; more are looked up in a table, which costs as much as these
_MIXED = np.uint64(0x9E3779B97F4A7C15)  # an odd number: the upper bits of a product with it depend on all bits

Codes = npt.NDArray[np.uint16]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

_TEXT_BYTES = 8
_PLACE = np.dtype(
    [
        ("number_min", "<f8"),
        ("number_max", "<f8"),
        ("text_min", "<u8"),
        ("text_max", "<u8"),
        ("other", "?"),  # values that are neither number nor text
        ("missing", "?"),  # events without the attribute
        ("codes", "<u2", (BLOCK,)),  # of each event
    ]
)
_EMPTY = np.zeros((), _PLACE)
_EMPTY["number_min"], _EMPTY["number_max"], _EMPTY["text_min"] = inf, -inf, 2**64 - 1
_EMPTY["missing"], _EMPTY["codes"] = True, _MISSING


class _About(msgspec.Struct):
    """The beginning of a saved zone map."""

    attributes: list[str]
    times: bytes  # the greatest publication time of each block
    format: int


class ZoneMap:
    """Of the events of one file, from its first on."""

    def __init__(self) -> None:
        self._columns: dict[str, npt.NDArray[Any]] = {}
        self._times: list[int] = []  # of each block, when the latest of its events was published
        self._rows: list[Mapping[str, Any]] = []  # of the block that is not full yet

    @property
    def blocks(self) -> int:
        return len(self._times)

    def add(self, attributes: Mapping[str, Any], time_us: int) -> None:
        """One more event. It is known when its block is full, or `finish` was called."""
        if not self._rows:
            self._times.append(0)
        self._rows.append(attributes)
        self._times[-1] = max(self._times[-1], time_us)
        if len(self._rows) == BLOCK:
            self.finish()

    def finish(self) -> None:
        """No more events come into the block that is not full yet."""
        rows, self._rows = self._rows, []
        if not rows:
            return
        at = self.blocks - 1
        names = dict.fromkeys(name for row in rows for name in row)
        for name in names:
            if name not in self._columns and len(self._columns) < ATTRIBUTES_MAX:
                self._columns[name] = np.full(max(64, at + 1), _EMPTY)
        for name, column in self._columns.items():
            if at >= len(column):
                column = self._columns[name] = np.concatenate([column, np.full(len(column), _EMPTY)])
            column[at] = _place([row.get(name) for row in rows])

    def candidates(self, wanted: Subscription, since_us: int, lo: int, hi: int) -> Rows:
        """Which events of the file, from `lo` to `hi`, may be what a condition describes, published since then."""
        first, end = lo // BLOCK, -(-hi // BLOCK)
        rows = np.zeros((end - first, BLOCK), bool)
        recent = np.array(self._times[first:end], np.int64) >= since_us
        for filter_ in wanted.filters:
            self._mark(rows, necessary(filter_), recent, slice(first, end))
        if self._rows and end == self.blocks:
            rows[-1] = True  # nothing is known of them yet
        found = np.flatnonzero(rows) + first * BLOCK
        return np.asarray(found[np.searchsorted(found, lo) : np.searchsorted(found, hi)], np.int64)

    def _mark(self, rows: Mask, filter_: Filter, recent: Mask, part: slice) -> None:
        """Which events may pass all tests: blocks by their ranges, and in those that are left each by its codes."""
        found = recent.copy()
        columns: list[tuple[Constraint, npt.NDArray[Any]]] = []
        for each in filter_:
            column = self._columns.get(each.attribute)
            if column is not None:
                columns.append((each, column[: self.blocks][part]))
                found &= _may_pass(each, columns[-1][1])
            elif len(self._columns) < ATTRIBUTES_MAX:  # no event has it
                found &= each.op == "IS NULL"
        left = np.flatnonzero(found)
        among = np.ones((len(left), BLOCK), bool)
        for each, column in columns:
            codes = _codes_of(each)
            if codes is not None:
                among &= _has_code(column["codes"] if len(left) == len(found) else column["codes"][left], codes)
        rows[left] |= among

    # As a file -----------------------------------------------------------------------------------

    def saved(self) -> bytes:
        """With a checksum in front: `opened` takes it back."""
        self.finish()
        times = np.array(self._times, "<i8").tobytes()
        about = msgspec.msgpack.encode(_About(list(self._columns), times, _FORMAT))
        columns = b"".join([each[: self.blocks].tobytes() for each in self._columns.values()])
        body = len(about).to_bytes(4, "little") + about + columns
        return crc32(body).to_bytes(4, "little") + body


def opened(data: bytes | mmap) -> ZoneMap | None:
    """A saved zone map, whose blocks stay where they are; None when it is damaged."""
    body = memoryview(data)[4:]
    if len(body) < 4 or crc32(body) != int.from_bytes(data[:4], "little"):
        return None
    start = 4 + int.from_bytes(body[:4], "little")
    try:
        about = msgspec.msgpack.decode(body[4:start], type=_About)
    except msgspec.DecodeError:
        return None
    zones = ZoneMap()
    zones._times = np.frombuffer(about.times, "<i8").tolist()
    size = zones.blocks * _PLACE.itemsize
    if about.format != _FORMAT or len(body) != start + size * len(about.attributes):
        return None
    for at, name in enumerate(about.attributes):
        zones._columns[name] = np.frombuffer(body, _PLACE, zones.blocks, start + at * size)
    return zones


# What a block knows of one attribute ---------------------------------------------------------------------------


def _place(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Of the events of a block, in their order; None where one does not have the attribute."""
    place = _EMPTY.copy()
    codes = np.full(BLOCK, _MISSING, np.uint16)
    kinds = set(map(type, values))
    at: slice | npt.NDArray[np.int64]
    for kind in kinds:
        at, those = slice(0, len(values)), values
        if len(kinds) > 1:
            mixed = [at for at, each in enumerate(values) if type(each) is kind]
            at, those = np.array(mixed), [values[each] for each in mixed]
        if kind is str:
            place["text_min"], place["text_max"] = _head(min(those)), _head(max(those))
            codes[at] = [_text_code(each) for each in those]
        elif kind in (int, float):
            codes[at] = _note_numbers(place, those, kind)
        elif kind is not type(None):
            place["other"], codes[at] = True, _OTHER
    place["missing"] = type(None) in kinds
    place["codes"] = codes
    return place


def _note_numbers(place: npt.NDArray[Any], numbers: Sequence[Any], kind: type) -> Codes:
    """Their range, and of each its code."""
    try:
        doubles = np.array(numbers, np.float64)
    except OverflowError:
        doubles = np.array([_double(each) for each in numbers])
    least, greatest = np.fmin.reduce(doubles), np.fmax.reduce(doubles)  # NaN passes no test
    if kind is int and max(-least, greatest) > _EXACT_MAX:
        least, greatest = np.nextafter(least, -inf), np.nextafter(greatest, inf)
    if least == least:
        place["number_min"] = min(place["number_min"], least)
        place["number_max"] = max(place["number_max"], greatest)
    return _number_codes(doubles)


def _double(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return inf if number > 0 else -inf


def _head(text: str, fill: bytes = b"\0") -> int:
    """The beginning of a text, as a number of the same order."""
    return int.from_bytes(text[:_TEXT_BYTES].encode("utf-8", "surrogatepass")[:_TEXT_BYTES].ljust(_TEXT_BYTES, fill))


def _number_codes(doubles: npt.NDArray[np.float64]) -> Codes:
    bits = (doubles + 0.0).view(np.uint64)  # -0.0 is 0.0
    return np.asarray(_FIRST_HASH + ((bits * _MIXED) >> np.uint64(33)) % (_CODES - _FIRST_HASH), np.uint16)


def _number_code(number: int | float) -> int:
    return int(_number_codes(np.array([_double(number)]))[0])


def _text_code(text: str) -> int:
    return _FIRST_HASH + crc32(text.encode("utf-8", "surrogatepass")) % (_CODES - _FIRST_HASH)


# What a test asks of it ----------------------------------------------------------------------------------------


def _may_pass(each: Constraint, column: npt.NDArray[Any]) -> Mask:
    """Which blocks may hold a value that passes a test."""
    if each.op == "IS NULL":
        return np.asarray(column["missing"])
    if each.kind is Kind.NUMBER:
        return _in_range(each, column, "number", _double)
    if each.kind is Kind.STRING:
        return _in_range(each, column, "text", _head)
    return np.asarray(_has(column, "number") | _has(column, "text") | column["other"])


def _has(column: npt.NDArray[Any], kind: str) -> Mask:
    return np.asarray(column[f"{kind}_min"] <= column[f"{kind}_max"])


def _in_range(each: Constraint, column: npt.NDArray[Any], kind: str, edge: Callable[[Any], Any]) -> Mask:
    op, operand, least, greatest = each.op, each.operand, column[f"{kind}_min"], column[f"{kind}_max"]
    found = _has(column, kind)
    if op in ("=", "IN"):
        among = np.zeros(len(column), bool)
        for value in operand if op == "IN" else (operand,):
            among |= (least <= edge(value)) & (greatest >= edge(value))
        found &= among
    elif op in ("<", ">") and kind == "number" and edge(operand) == operand:
        found &= least < edge(operand) if op == "<" else greatest > edge(operand)
    elif op in ("<", "<="):
        found &= least <= edge(operand)
    elif op in (">", ">="):
        found &= greatest >= edge(operand)
    elif op == "LIKE" and (prefix := prefix_text(operand)) is not None:
        found &= (least <= _head(prefix, b"\xff")) & (greatest >= _head(prefix))
    return np.asarray(found | column["other"])


def _codes_of(each: Constraint) -> list[int] | None:
    """The codes of values that pass a test; None when codes do not tell."""
    if each.op == "IS NULL":
        return [_MISSING]
    if each.op not in ("=", "IN") or each.kind not in (Kind.NUMBER, Kind.STRING):
        return None
    code: Callable[[Any], int] = _number_code if each.kind is Kind.NUMBER else _text_code
    return [_OTHER, *[code(value) for value in (each.operand if each.op == "IN" else (each.operand,))]]


def _has_code(found: Codes, codes: list[int]) -> Mask:
    if len(codes) <= _COMPARED_MAX:
        among = found == codes[0]
        for code in codes[1:]:
            among |= found == code
        return np.asarray(among)
    table = np.zeros(_CODES, bool)
    table[codes] = True
    return np.asarray(table[found])
