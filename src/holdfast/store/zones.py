"""What is known of blocks of logged events without reading them, so that a search reads only where it may find.

For each attribute a block knows the least and the greatest number and text, whether it has values of other kinds, and a
Bloom filter of its numbers and texts. A condition is asked of all blocks of a file at once, and leaves out those in
which no event can match. What is uncertain is read.

Numbers are kept as doubles, rounded outwards, and texts by their first eight bytes in UTF-8, whose order is that of the
characters: both widen a range and never narrow it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from math import inf, nextafter
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

BLOCK = 256  # events: a rare value is then in few blocks, and what a block knows is a tenth of its events' size
ATTRIBUTES_MAX = 64  # that are known in one file; tests of others leave nothing out
_BLOOM_BYTES = 384  # twelve bits for each of 256 values: one block in three hundred is read for nothing
_HASHES = 6

Bits = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

_TEXT_BYTES = 8
_PLACE = np.dtype(
    [
        ("number_min", "<f8"),
        ("number_max", "<f8"),
        ("text_min", "<u8"),
        ("text_max", "<u8"),
        ("other", "?"),  # values that are neither number nor text
        ("missing", "?"),  # events without the attribute
        ("bloom", "u1", (_BLOOM_BYTES,)),
    ]
)
_EMPTY = np.zeros((), _PLACE)
_EMPTY["number_min"], _EMPTY["number_max"], _EMPTY["text_min"] = inf, -inf, 2**64 - 1
_EMPTY["missing"] = True


class _About(msgspec.Struct):
    """The beginning of a saved zone map."""

    attributes: list[str]
    times: bytes  # the greatest publication time of each block


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
            column[at] = _place([row[name] for row in rows if row.get(name) is not None], len(rows))

    def maybe(self, wanted: Subscription, since_us: int) -> Mask:
        """Which blocks may hold an event that a condition describes, published since then."""
        found = np.zeros(self.blocks, bool)
        for filter_ in wanted.filters:
            found |= self._may_hold(necessary(filter_))
        if self._rows:
            found[-1] = True
        return found & (np.array(self._times, np.int64) >= since_us)

    def _may_hold(self, filter_: Filter) -> Mask:
        found = np.ones(self.blocks, bool)
        for each in filter_:
            column = self._columns.get(each.attribute)
            if column is not None:
                found &= _may_pass(each, column[: self.blocks])
            elif len(self._columns) < ATTRIBUTES_MAX:  # no event has it
                found &= each.op == "IS NULL"
        return found

    # As a file -----------------------------------------------------------------------------------

    def saved(self) -> bytes:
        """With a checksum in front: `opened` takes it back."""
        self.finish()
        times = np.array(self._times, "<i8").tobytes()
        about = msgspec.msgpack.encode(_About(list(self._columns), times))
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
    if len(body) != start + size * len(about.attributes):
        return None
    for at, name in enumerate(about.attributes):
        zones._columns[name] = np.frombuffer(body, _PLACE, zones.blocks, start + at * size)
    return zones


# What a block knows of one attribute ---------------------------------------------------------------------------


def _place(values: Sequence[Any], events: int) -> npt.NDArray[Any]:
    place = _EMPTY.copy()
    place["missing"] = len(values) < events
    numbers = {_double(each) for each in values if type(each) in (int, float) and each == each}  # NaN passes no test
    texts = {each for each in values if type(each) is str}
    if numbers:
        place["number_min"], place["number_max"] = nextafter(min(numbers), -inf), nextafter(max(numbers), inf)
    if texts:
        place["text_min"], place["text_max"] = _head(min(texts)), _head(max(texts))
    place["other"] = any(type(each) not in (int, float, str) for each in values)
    bloom = bytearray(_BLOOM_BYTES)
    for key in (*map(_number_key, numbers), *map(_text_key, texts)):
        for at in _bits(key):
            bloom[at >> 3] |= 1 << (at & 7)
    place["bloom"] = np.frombuffer(bloom, np.uint8)
    return place


def _double(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return inf if number > 0 else -inf


def _head(text: str, fill: bytes = b"\0") -> int:
    """The beginning of a text, as a number of the same order."""
    return int.from_bytes(text[:_TEXT_BYTES].encode("utf-8", "surrogatepass")[:_TEXT_BYTES].ljust(_TEXT_BYTES, fill))


def _number_key(number: int | float) -> bytes:
    return b"n" + repr(_double(number) + 0.0).encode()  # -0.0 is 0.0


def _text_key(text: str) -> bytes:
    return b"t" + text.encode("utf-8", "surrogatepass")


def _bits(key: bytes) -> Iterable[int]:
    """Where a value stands in a Bloom filter: two hashes, and sums of them."""
    hashes = blake2b(key, digest_size=8).digest()  # of a checksum with another start the second would follow from one
    one, other = int.from_bytes(hashes[:4]), int.from_bytes(hashes[4:]) | 1
    return [(one + at * other) % (8 * _BLOOM_BYTES) for at in range(_HASHES)]


# What a test asks of it ----------------------------------------------------------------------------------------


def _may_pass(each: Constraint, column: npt.NDArray[Any]) -> Mask:
    """Which blocks may hold a value that passes a test."""
    if each.op == "IS NULL":
        return np.asarray(column["missing"])
    if each.kind is Kind.NUMBER:
        return _in_range(each, column, "number", _double, _number_key)
    if each.kind is Kind.STRING:
        return _in_range(each, column, "text", _head, _text_key)
    return np.asarray(_has(column, "number") | _has(column, "text") | column["other"])


def _has(column: npt.NDArray[Any], kind: str) -> Mask:
    return np.asarray(column[f"{kind}_min"] <= column[f"{kind}_max"])


def _in_range(
    each: Constraint, column: npt.NDArray[Any], kind: str, edge: Callable[[Any], Any], key: Callable[[Any], bytes]
) -> Mask:
    op, operand, least, greatest = each.op, each.operand, column[f"{kind}_min"], column[f"{kind}_max"]
    found = _has(column, kind)
    if op in ("=", "IN"):
        among = np.zeros(len(column), bool)
        for value in operand if op == "IN" else (operand,):
            among |= (least <= edge(value)) & (greatest >= edge(value)) & _in_bloom(column["bloom"], key(value))
        found &= among
    elif op in ("<", "<="):
        found &= least <= edge(operand)
    elif op in (">", ">="):
        found &= greatest >= edge(operand)
    elif op == "LIKE" and (prefix := prefix_text(operand)) is not None:
        found &= (least <= _head(prefix, b"\xff")) & (greatest >= _head(prefix))
    return np.asarray(found | column["other"])


def _in_bloom(bloom: Bits, key: bytes) -> Mask:
    found = np.ones(len(bloom), bool)
    for at in _bits(key):
        found &= bloom[:, at >> 3] & (1 << (at & 7)) != 0
    return found
