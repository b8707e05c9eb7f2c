"""Arrow columns in, codes out: one row of small integers per event, in the order of an image's slots.

Strings are looked at once per distinct value. A column that no condition mentions is not looked at at all, so it
may have any type; one that is mentioned must be a string, number, boolean, timestamp or date, plain or
dictionary-encoded, or a list of such. Struct columns flatten to dotted names.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.matching.elements import ElementMap, Known
from holdfast.matching.kernels import EXACT, Patterns
from holdfast.matching.placing import find_texts, place_texts
from holdfast.matching.slots import FALSE, MISSING, PRESENT, TRUE, UNKNOWN, Slot, SlotKind
from holdfast.model.errors import InputError
from holdfast.model.values import as_value

Codes = npt.NDArray[np.int32]

_ROWS_SHARED = 4_096  # for fewer events, threads would take longer to start than they save


class EncodedColumn:
    """One attribute of a batch, decoded as far as its slots need it."""

    def __init__(self, name: str, array: pa.Array) -> None:
        self.name = name
        if pa.types.is_dictionary(array.type) and not _is_text(array.type.value_type):
            array = array.dictionary_decode()
        self.array = array
        self.sort = _slot_kind_of(name, array.type)
        self.missing: npt.NDArray[np.bool_] | None = None
        may_be_null = array.null_count or (pa.types.is_dictionary(array.type) and array.dictionary.null_count)
        if may_be_null or self.sort is None:
            self.missing = array.is_null().to_numpy(zero_copy_only=False)
        self._distinct: tuple[Codes, pa.Array] | None = None

    def put_codes(self, slot: Slot, codes: Codes) -> None:
        """A code for each row."""
        if slot.sort is SlotKind.PRESENCE:
            codes[:] = PRESENT if self.missing is None else np.where(self.missing, MISSING, PRESENT)
            return
        if slot.sort is not self.sort:
            codes[:] = UNKNOWN  # always of a list: what is asked of its elements is no code
            return
        if slot.sort is SlotKind.STRING:
            self._put_texts(slot, codes)
        elif slot.sort is SlotKind.BOOLEAN:
            codes[:] = np.where(self.array.fill_null(False).to_numpy(zero_copy_only=False), TRUE, FALSE)
        else:
            numbers = _numbers(self.name, self.array)
            if numbers.dtype.kind == "i" and numbers.size and numbers.min() >= -EXACT and numbers.max() <= EXACT:
                numbers = numbers.astype(np.float64)  # the constants of another type would take as much memory again
            slot.edges_of(numbers.dtype.name).put(numbers, codes)
        if self.missing is not None:
            codes[self.missing] = UNKNOWN

    def distinct(self) -> tuple[Codes, pa.Array]:
        """For each row the position of its text among the distinct ones, or -1; and those texts."""
        if self._distinct is None:
            encoded = self.array
            if not pa.types.is_dictionary(encoded.type):
                encoded = encoded.dictionary_encode()
            texts = encoded.dictionary.cast(pa.large_string())
            indices = encoded.indices.cast(pa.int64())  # Polars counts in unsigned integers, which have no -1
            rows = indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
            if texts.null_count:
                absent = texts.is_null().to_numpy(zero_copy_only=False)
                rows = np.where(absent[rows], np.int32(-1), rows)
            self._distinct = rows, texts
        return self._distinct

    def _put_texts(self, slot: Slot, codes: Codes) -> None:
        if slot.points_only and self._distinct is None and not pa.types.is_dictionary(self.array.type):
            texts = self.array if self.array.type in _OFFSETS else self.array.cast(pa.large_string())
            find_texts(*_bytes_of(texts), slot.text, slot.text_starts, slot.table, codes)
            return
        rows, texts = self.distinct()
        found = np.full(len(texts) + 1, UNKNOWN, np.int32)  # the last one serves rows without a text (-1)
        place_texts(*_bytes_of(texts), slot.text, slot.text_starts, found[:-1])
        codes[:] = found[rows]

    def element_numbers(self, known: ElementMap[int]) -> tuple[Codes, list[int]]:
        """Of a column of lists: for each row how many of the values are in it, and their numbers end to end."""
        elements = self.array.flatten()
        kind = elements.type
        if pa.types.is_timestamp(kind):
            elements = pc.floor_temporal(elements, unit="microsecond").cast(pa.timestamp("us", kind.tz))
        encoded = elements if pa.types.is_dictionary(kind) else elements.dictionary_encode()
        values = [as_value(each, self.name) for each in encoded.dictionary.to_pylist()]
        numbers = [None if each is None else known.get(each) for each in values]
        of_value = np.array([*(-1 if each is None else each for each in numbers), -1], np.int64)  # the last for nulls
        found = of_value[encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)]
        rows = pc.list_parent_indices(self.array).to_numpy(zero_copy_only=False)
        pairs = np.unique(np.stack([rows[found >= 0], found[found >= 0]]), axis=1)
        return np.bincount(pairs[0], minlength=len(self.array)).astype(np.int32), pairs[1].tolist()


_OFFSETS = {pa.string(): np.int32, pa.large_string(): np.int64}


def _bytes_of(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.integer[Any]]]:
    """The UTF-8 of texts, end to end, and where each begins."""
    _, starts, data = texts.buffers()
    kind = np.dtype(_OFFSETS[texts.type])
    count = len(texts) + 1
    offsets = np.frombuffer(starts, kind, count, texts.offset * kind.itemsize) if starts else np.zeros(count, kind)
    offsets.flags.writeable = False  # as those of Arrow are: one type for numba
    return np.frombuffer(data or b"", np.uint8), offsets


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _slot_kind_of(name: str, kind: pa.DataType) -> SlotKind | None:
    """What a column holds; None when all of it is null."""
    if _is_list(kind):
        _slot_kind_of(f"{name} (its elements)", kind.value_type)
        return SlotKind.LIST
    if pa.types.is_dictionary(kind) or _is_text(kind):
        return SlotKind.STRING
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return SlotKind.NUMBER
    if pa.types.is_boolean(kind):
        return SlotKind.BOOLEAN
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return SlotKind.TIMESTAMP
    if pa.types.is_null(kind):
        return None
    hint = "cast it to double" if pa.types.is_decimal(kind) else "cast it to a string or leave it out"
    raise InputError(
        f"column {name}: expected strings, numbers, booleans, timestamps or lists of one of them, found {kind}; "
        f"{hint} to match on it"
    )


def _numbers(name: str, array: pa.Array) -> npt.NDArray[np.generic]:
    """A number or timestamp column as float64, int64 or uint64; nulls hold any value."""
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        try:
            # Finer than a microsecond is rounded down, as Spark does.
            array = pc.floor_temporal(array, unit="microsecond") if _is_nanosecond(kind) else array
            array = array.cast(pa.timestamp("us", getattr(kind, "tz", None))).cast(pa.int64())
        except pa.ArrowInvalid as problem:
            raise InputError(f"column {name}: a timestamp is out of range ({problem})") from None
    elif pa.types.is_floating(kind):
        array = array.cast(pa.float64())
    elif not pa.types.is_uint64(kind):
        array = array.cast(pa.int64())
    if array.null_count:
        array = array.fill_null(0)
    numbers: npt.NDArray[np.generic] = array.to_numpy(zero_copy_only=False)
    return numbers


def _is_nanosecond(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "ns"


def columns_of(table: pa.Table, attributes: Sequence[str]) -> dict[str, EncodedColumn]:
    """The table's columns that conditions mention; a name that is missing has no entry."""
    while any(pa.types.is_struct(each.type) for each in table.schema):
        table = table.flatten()
    names = table.column_names
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InputError(f"columns given twice: {', '.join(twice)}; rename one of each")
    wanted = set(attributes)
    found = {}
    for name, chunks in zip(names, table.columns, strict=True):
        if name in wanted:
            found[name] = EncodedColumn(name, chunks.chunk(0) if chunks.num_chunks == 1 else _combined(chunks))
    return found


def _combined(chunks: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(chunks.type) and any(each.dictionary.null_count for each in chunks.chunks):
        chunks = chunks.cast(chunks.type.value_type)  # Arrow does not unify dictionaries that hold a null
    return chunks.combine_chunks()


def pooled(size: int) -> Codes:
    """Memory for so many. Arrow's pool hands freed pages out again; NumPy gives them back and faults them in anew."""
    return np.frombuffer(pa.allocate_buffer(4 * size), np.int32)


def encode(columns: dict[str, EncodedColumn], slots: Sequence[Slot], rows: int, threads: int = 1) -> Codes:
    codes = pooled(rows * len(slots)).reshape(rows, len(slots))
    places: dict[str, list[int]] = {}
    for at, slot in enumerate(slots):
        places.setdefault(slot.attribute, []).append(at)

    def put(attribute: str) -> None:  # the slots of one attribute share its column, and so a thread
        column = columns.get(attribute)
        for at in places[attribute]:
            missing = MISSING if slots[at].sort is SlotKind.PRESENCE else UNKNOWN
            if column is None:
                codes[:, at] = missing
            else:
                column.put_codes(slots[at], codes[:, at])

    if threads == 1 or rows < _ROWS_SHARED:
        for attribute in places:
            put(attribute)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(put, places))
    return codes


def encode_patterns(columns: dict[str, EncodedColumn], patterns: Sequence[tuple[str, Known]], rows: int) -> Patterns:
    """For each distinct text of each attribute that has patterns, those that it matches; for each list likewise."""
    texts = np.full((len(patterns), rows), -1, np.int32)
    counts: list[int] = []
    ids: list[int] = []
    for at, (attribute, known) in enumerate(patterns):
        column = columns.get(attribute)
        if column is not None and column.sort is SlotKind.LIST and isinstance(known, ElementMap):
            texts[at] = np.arange(rows, dtype=np.int32) + len(counts)
            found_in, numbers = column.element_numbers(known)
            counts += found_in.tolist()
            ids += numbers
        if column is None or column.sort is not SlotKind.STRING or isinstance(known, ElementMap):
            continue
        positions, distinct = column.distinct()
        texts[at] = np.where(positions >= 0, positions + len(counts), -1)
        for text in distinct.to_pylist():
            found = known.matching(text) if text is not None else []
            counts.append(len(found))
            ids += found
    starts = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=starts[1:])
    return Patterns(texts, starts, np.array(ids, np.int32))
