"""A Parquet file of pairs, written nearly as quickly as pairs are found.

A writer for any table looks at every value of every row. Of pairs more is known. Those of an event stand together, so
its columns are runs, one for each event, however many subscriptions want it. And a subscription is a number of the
index already. It stands in the page as two whole bytes, where the fewest bits would have to be shifted; and where equal
bytes stand for equal ids, the compression finds what repeats.
Columns of other types than numbers, times and texts are left to Arrow's writer (`write`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.pipeline.match.parquet_parts import (
    MAGIC,
    ColumnChunk,
    FileColumn,
    PageSize,
    data_page,
    dictionary_page,
    footer,
    kind_of,
    varint,
)
from holdfast.pipeline.match.tasks import CARRIED_BYTES_MAX, AnyFound, FoundRuns

if TYPE_CHECKING:
    from holdfast.matching.pair_runs import PairRuns

_ROW_GROUP_ROWS = 4 << 20  # a reader that wants one event skips whole groups
_PAGE_ROWS = 1 << 20  # of subscriptions: two megabytes before they are compressed
_TWO_BYTES = 1 << 16
_HEAD_BYTES = 16  # before the codes of a page, so that they are aligned

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class _Packed(NamedTuple):
    about: PageSize
    data: pa.Buffer


class _Content(NamedTuple):
    """What a row group holds of one column."""

    dictionary: _Packed
    pages: list[_Packed]
    nulls: int = 0
    least: bytes | None = None
    greatest: bytes | None = None


def is_writable(carried: pa.Schema) -> bool:
    return all(kind_of(field.type) is not None for field in carried)


class PairFile:
    """Pairs are gathered until a row group is full, or until they come from another index."""

    def __init__(self, path: Path, first: AnyFound, keys: int, numbered: bool) -> None:
        self._columns = _columns(first, keys, numbered)
        self._keys = keys
        self._codec = pa.Codec("zstd", compression_level=1)
        self._groups: list[list[ColumnChunk]] = []
        self._ids = _Ids(first.ids, self._codec)
        self._events: list[pa.RecordBatch] = []
        self._lengths: list[Numbers] = []
        self._rows = self._bytes = 0
        self._file = path.open("wb")
        self._file.write(MAGIC)
        self._at = len(MAGIC)

    def add(self, found: AnyFound) -> int:
        """How many pairs they are."""
        rows = found.runs.rows if isinstance(found, FoundRuns) else found.rows.to_numpy()
        if not len(rows):
            return 0
        if not self._ids.are(found.ids):
            self._end_group()
            self._ids = _Ids(found.ids, self._codec)
        begins = np.concatenate(([0], np.flatnonzero(rows[1:] != rows[:-1]) + 1))
        if isinstance(found, FoundRuns):
            lengths = np.add.reduceat(found.runs.lengths, begins, dtype=np.int64)
            self._ids.add_runs(found.runs)
        else:
            lengths = np.diff(begins, append=len(rows))
            self._ids.add(found.subscriptions.indices.to_numpy())
        events = found.carried.take(pa.array(rows[begins]))
        self._events.append(events)
        self._lengths.append(lengths)
        pairs = int(lengths.sum())
        self._rows += pairs
        self._bytes += events.nbytes
        if self._rows >= _ROW_GROUP_ROWS or self._bytes >= CARRIED_BYTES_MAX:
            self._end_group()
        return pairs

    def close(self) -> None:
        with self._file:
            self._end_group()
            self._file.write(footer(self._columns, self._groups))

    def _end_group(self) -> None:
        if not self._rows:
            return
        lengths = np.concatenate(self._lengths)
        events = pa.Table.from_batches(self._events).combine_chunks()
        others = [each for at, each in enumerate(self._columns) if at != self._keys]
        contents = [self._of_events(*each, lengths) for each in zip(others, events.columns, strict=True)]
        contents.insert(self._keys, self._ids.content())
        self._groups.append([self._put(each) for each in contents])
        self._events, self._lengths = [], []
        self._rows = self._bytes = 0

    def _of_events(self, column: FileColumn, found: pa.ChunkedArray, lengths: Numbers) -> _Content:
        values = found.combine_chunks().dictionary_encode()
        known = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        numbers = pc.fill_null(values.indices, 0).to_numpy()
        width = _width(len(values.dictionary))
        runs = _runs(numbers[known], lengths[known], width)
        parts = [_levels(values, lengths)] if column.nullable else []
        page = b"".join([*parts, bytes([8 * width]), runs.tobytes()])
        least, greatest = _bounds(values.dictionary)
        return _Content(
            _packed(self._codec, len(values.dictionary), _plain(values.dictionary)),
            [_packed(self._codec, int(lengths.sum()), page)],
            int(lengths.sum() - lengths[known].sum()),
            least,
            greatest,
        )

    def _put(self, content: _Content) -> ColumnChunk:
        start, raw = self._at, 0
        first_data = start
        for at, (head, (about, data)) in enumerate(_heads(content)):
            if at == 1:
                first_data = self._at
            self._file.write(head)
            self._file.write(data)
            raw += len(head) + about.raw
            self._at += len(head) + about.packed
        values = sum(about.values for about, _ in content.pages)
        return ColumnChunk(start, first_data, raw, self._at - start, values, *content[2:])


class _Ids:
    """The subscriptions of a row group: a page at a time is filled and compressed.

    Of an index with many ids only those that are wanted go into the dictionary, by numbers in the order of their use.
    """

    def __init__(self, ids: pa.Array, codec: pa.Codec) -> None:
        self._ids, self._codec = ids, codec
        self._whole = _packed(codec, len(ids), _plain(ids)) if len(ids) <= _TWO_BYTES else None
        self._page = np.empty(_HEAD_BYTES + _PAGE_ROWS * (2 if self._whole else 4), np.uint8)
        self._codes: npt.NDArray[Any] = self._page[_HEAD_BYTES:].view(np.uint16 if self._whole else np.uint32)
        self._pages: list[_Packed] = []
        self._filled = self._used = 0
        many = 0 if self._whole else len(ids)
        self._numbers, self._wanted = np.full(many, -1, np.int32), np.empty(many, np.int32)
        self._entries = np.zeros(0, np.uint16)  # of the index, as they stand in pages

    def are(self, ids: pa.Array) -> bool:
        """Whether they are the same memory: an index keeps its ids."""
        return bool(ids.buffers()[1].address == self._ids.buffers()[1].address and len(ids) == len(self._ids))

    def add(self, codes: npt.NDArray[np.int32]) -> None:
        if self._whole is None:
            self._used = _numbered(codes, self._numbers, self._wanted, self._used)
            codes = self._numbers[codes]
        first = 0
        while first < len(codes):
            some = codes[first : first + _PAGE_ROWS - self._filled]
            self._codes[self._filled : self._filled + len(some)] = some
            self._filled += len(some)
            first += len(some)
            if self._filled == _PAGE_ROWS:
                self._end_page()

    def add_runs(self, runs: "PairRuns") -> None:
        if self._whole is None:
            self.add(runs.pairs()[1])
            return
        if not self._entries.size:
            self._entries = runs.entries.astype(np.uint16)
        done = np.zeros(2, np.int64)
        while done[0] < len(runs.rows):
            self._filled += runs.fill(self._codes[self._filled :], self._entries, done)
            if self._filled == _PAGE_ROWS:
                self._end_page()

    def content(self) -> _Content:
        """All pages since the last time."""
        self._end_page()
        dictionary = self._whole
        if dictionary is None:
            wanted = self._ids.take(pa.array(self._wanted[: self._used]))
            dictionary = _packed(self._codec, self._used, _plain(wanted))
        found = _Content(dictionary, self._pages)
        self._pages, self._used = [], 0
        self._numbers[:] = -1
        return found

    def _end_page(self) -> None:
        """As the format packs bits: the width, how many groups of eight, the codes."""
        if not self._filled:
            return
        groups = -(-self._filled // 8)
        head = bytes([8 * self._codes.itemsize]) + varint(groups << 1 | 1)
        self._codes[self._filled : 8 * groups] = 0
        self._page[_HEAD_BYTES - len(head) : _HEAD_BYTES] = np.frombuffer(head, np.uint8)
        raw = self._page[_HEAD_BYTES - len(head) : _HEAD_BYTES + 8 * groups * self._codes.itemsize]
        self._pages.append(_packed(self._codec, self._filled, raw))
        self._filled = 0


def _packed(codec: pa.Codec, values: int, raw: Bytes | bytes) -> _Packed:
    data = codec.compress(pa.py_buffer(raw))
    return _Packed(PageSize(values, len(raw), data.size), data)


def _columns(first: AnyFound, keys: int, numbered: bool) -> list[FileColumn]:
    found = []
    for at, field in enumerate(first.carried.schema):
        kind = kind_of(field.type)
        assert kind is not None, field
        found.append(FileColumn(field.name, kind, nullable=at > 0 or not numbered))
    ids = kind_of(first.ids.type)
    assert ids is not None
    return [*found[:keys], FileColumn("subscription", ids, nullable=False), *found[keys:]]


def _heads(content: _Content) -> Iterator[tuple[bytes, _Packed]]:
    yield dictionary_page(content.dictionary.about), content.dictionary
    for page in content.pages:
        yield data_page(page.about), page


def _width(values: int) -> int:
    """How many bytes the numbers of so many values take."""
    return max(1, (max(values - 1, 0).bit_length() + 7) // 8)


def _levels(values: pa.Array, lengths: Numbers) -> bytes:
    """Which rows are not null, with its own length before it."""
    if values.null_count:
        known = values.is_valid().cast(pa.int32()).to_numpy()
    else:
        known, lengths = np.ones(1, np.int32), lengths.sum(keepdims=True)
    runs = _runs(known, lengths, 1).tobytes()
    return len(runs).to_bytes(4, "little") + runs


def _bounds(values: pa.Array) -> tuple[bytes | None, bytes | None]:
    """The least and greatest of integers, dates and times. Those of texts help nobody; floats have NaN."""
    if not len(values) or not (pa.types.is_integer(values.type) or pa.types.is_temporal(values.type)):
        return None, None
    numbers = _stored(values)
    return numbers.min().tobytes(), numbers.max().tobytes()


def _plain(values: pa.Array) -> Bytes:
    """Values one behind the other: numbers as they are, texts each behind its length."""
    if pa.types.is_large_string(values.type) or pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        texts = values.cast(pa.large_binary())
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        letters = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        return _texts(ends, letters) if len(texts) else np.empty(0, np.uint8)
    return _stored(values).view(np.uint8)


def _stored(values: pa.Array) -> npt.NDArray[np.generic]:
    """The format knows integers of four and of eight bytes, and times as such."""
    kind = values.type
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif pa.types.is_integer(kind) and kind.bit_width < 32:
        values = values.cast(pa.int32())
    return np.ascontiguousarray(values.to_numpy())


@numba.njit(cache=True, nogil=True)
def _texts(ends: Numbers, letters: Bytes) -> Bytes:
    found = np.empty(4 * (ends.size - 1) + ends[-1] - ends[0], np.uint8)
    at = 0
    for number in range(ends.size - 1):
        size = ends[number + 1] - ends[number]
        for shift in range(4):
            found[at + shift] = size >> 8 * shift & 255
        found[at + 4 : at + 4 + size] = letters[ends[number] : ends[number + 1]]
        at += 4 + size
    return found


@numba.njit(cache=True, nogil=True)
def _numbered(
    codes: npt.NDArray[np.int32], numbers: npt.NDArray[np.int32], wanted: npt.NDArray[np.int32], used: int
) -> int:
    """Give each code that has none yet the next number."""
    for code in codes:
        if numbers[code] < 0:
            numbers[code] = used
            wanted[used] = code
            used += 1
    return used


@numba.njit(cache=True, nogil=True)
def _runs(numbers: npt.NDArray[np.int32], lengths: Numbers, width: int) -> Bytes:
    """Runs as the format has them: the length and a bit that says that it is a run, then the number."""
    found = np.empty(numbers.size * (10 + width), np.uint8)
    at = 0
    for place in range(numbers.size):
        head = lengths[place] << 1
        while head > 127:
            found[at] = head & 127 | 128
            head >>= 7
            at += 1
        found[at] = head
        at += 1
        for shift in range(width):
            found[at] = numbers[place] >> 8 * shift & 255
            at += 1
    return found[:at]
