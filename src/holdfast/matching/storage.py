"""A compiled matcher as one file that processes share by mapping it into memory.

The file is an Arrow IPC file with one row per array: its name, type, shape and bytes. Slots and patterns are described
as JSON in the schema's metadata. It is written beside its place and moved there when complete, so that a
reader never sees half a file. A checksum over all of it stands between a damaged disk and the kernels, which trust
every number they are given.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.language.parser import parse
from holdfast.matching.columns import Columns
from holdfast.matching.elements import ElementMap, Known
from holdfast.matching.kernels import Image
from holdfast.matching.patterns import PatternMap
from holdfast.matching.row_residuals import RowResiduals
from holdfast.matching.slots import ConstantEdges, Slot, SlotKind
from holdfast.model.errors import InputError
from holdfast.model.values import EPOCH, microseconds

_FORMAT = 7
_ALIGNMENT = 64  # a cache line: every array starts on one
_SCHEMA = pa.schema(
    [("name", pa.string()), ("type", pa.string()), ("shape", pa.list_(pa.int64())), ("bytes", pa.large_binary())]
)

Array = npt.NDArray[Any]


def save(path: Path, columns: Columns, ids: pa.Array, conditions: pa.Array) -> None:
    about: dict[str, Any] = {
        "format": _FORMAT,
        "size": columns.size,
        "slots": [_describe(slot) for slot in columns.slots],
        "patterns": [[attribute, *_described(known)] for attribute, known in columns.patterns],
        "residuals": [] if columns.residuals is None else columns.residuals.numbers,
    }
    rows = []
    for name, array in _arrays(columns, ids, conditions):
        data = np.ascontiguousarray(array).tobytes()
        padding = -len(data) % _ALIGNMENT
        rows.append({"name": name, "type": array.dtype.str, "shape": array.shape, "bytes": data + b"\0" * padding})
    about["checksum"] = _checksum(about, rows)
    batch = pa.RecordBatch.from_pylist(rows, schema=_SCHEMA.with_metadata({"holdfast": json.dumps(about)}))
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        os.chmod(draft, 0o644)  # mkstemp makes it private; other users' workers map it too
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def load(path: Path) -> tuple[Columns, pa.Array, pa.Array]:
    """The matcher's parts, all of them views into the mapped file."""
    try:
        batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        batch.validate(full=True)  # so that no offset points out of the file
        about = json.loads(batch.schema.metadata[b"holdfast"])
        saved_in, checksum = about["format"], about.pop("checksum", None)
        rows = [_row(*cells) for cells in zip(*batch.columns, strict=True)] if saved_in == _FORMAT else []
        damaged = saved_in == _FORMAT and checksum != _checksum(about, rows)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; write one with Matcher.save()") from None
    except (pa.ArrowException, OSError, AttributeError, LookupError, TypeError, ValueError) as problem:
        raise InputError(f"{path}: not a saved matcher, or a damaged one ({problem})") from None
    if saved_in != _FORMAT:
        raise InputError(f"{path}: saved in format {saved_in}, this version reads format {_FORMAT}; save it again")
    if damaged:
        raise InputError(f"{path}: not a saved matcher, or a damaged one (its checksum is wrong); save it again")
    arrays = {row["name"]: _view(row["bytes"], row["type"], row["shape"]) for row in rows}
    image = Image(**{name: arrays[name] for name in Image._fields})
    slots = [_restore(at, slot, arrays) for at, slot in enumerate(about["slots"])]
    patterns = [(attribute, _known(kind, items)) for attribute, kind, items in about["patterns"]]
    ids = pa.array(arrays["ids"]) if "ids" in arrays else _texts(arrays, "ids")
    conditions = _texts(arrays, "conditions")
    # Expressions are compiled from their texts again: they are functions, which no file can hold.
    asked = {number: parse(conditions[number].as_py()).filters for number in about["residuals"]}
    residuals = RowResiduals(asked, about["size"]) if asked else None
    return Columns(image, slots, patterns, about["size"], residuals), ids, conditions


def _described(known: Known) -> tuple[str, list[Any]]:
    """Patterns, or values looked for in lists, with their numbers; JSON has no timestamps, so theirs are in a list."""
    if isinstance(known, PatternMap):
        return "texts", list(known.items())
    items = (
        (value if type(value) is not datetime else [microseconds(value)], number) for value, number in known.items()
    )
    return "lists", list(items)


def _known(kind: str, items: list[Any]) -> Known:
    if kind == "texts":
        texts: PatternMap[int] = PatternMap()
        for pattern, number in items:
            texts.put(pattern, number)
        return texts
    elements: ElementMap[int] = ElementMap()
    for value, number in items:
        elements.put(EPOCH + timedelta(microseconds=value[0]) if type(value) is list else value, number)
    return elements


def _row(name: pa.Scalar, kind: pa.Scalar, shape: pa.Scalar, data: pa.Scalar) -> dict[str, Any]:
    return {"name": name.as_py(), "type": kind.as_py(), "shape": shape.as_py(), "bytes": data.as_buffer()}


def _checksum(about: dict[str, Any], rows: Iterable[dict[str, Any]]) -> int:
    found = crc32(json.dumps(about).encode())
    for row in rows:
        found = crc32(f"{row['name']} {row['type']} {list(row['shape'])}".encode(), found)
        found = crc32(row["bytes"], found)
    return found


def _arrays(columns: Columns, ids: pa.Array, conditions: pa.Array) -> Iterator[tuple[str, Array]]:
    yield from columns.image._asdict().items()
    for at, slot in enumerate(columns.slots):
        for kind, edges in slot.edges.items():
            yield f"slot {at} {kind}", edges.values
            yield f"slot {at} {kind} exact", edges.exact
        if slot.text is not None and slot.text_starts is not None:
            yield f"slot {at} text", slot.text
            yield f"slot {at} starts", slot.text_starts
    if pa.types.is_integer(ids.type):
        yield "ids", ids.to_numpy()
    else:
        yield from _text_arrays("ids", ids)
    yield from _text_arrays("conditions", conditions)


def _describe(slot: Slot) -> dict[str, Any]:
    below = {kind: edges.below for kind, edges in slot.edges.items()}
    about = {"attribute": slot.attribute, "sort": slot.sort.value, "count": slot.count, "below": below}
    return about | {"points_only": slot.points_only}


def _restore(at: int, about: dict[str, Any], arrays: dict[str, Array]) -> Slot:
    edges = {
        kind: ConstantEdges(arrays[f"slot {at} {kind}"], arrays[f"slot {at} {kind} exact"], below)
        for kind, below in about["below"].items()
    }
    text, starts = arrays.get(f"slot {at} text"), arrays.get(f"slot {at} starts")
    return Slot(about["attribute"], SlotKind(about["sort"]), about["count"], edges, text, starts, about["points_only"])


def _view(data: pa.Buffer, kind: str, shape: list[int]) -> Array:
    size = int(np.prod(shape))
    array = np.frombuffer(data, np.dtype(kind), size).reshape(shape)
    array.flags.writeable = False  # whether Arrow's is depends on compression: another type would be compiled for
    return array


def _text_arrays(name: str, texts: pa.Array) -> Iterator[tuple[str, Array]]:
    _, starts, data = texts.cast(pa.large_string()).buffers()
    yield f"{name} starts", np.frombuffer(starts, np.int64, len(texts) + 1)
    yield f"{name} text", np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


def _texts(arrays: dict[str, Array], name: str) -> pa.Array:
    starts, data = arrays[f"{name} starts"], arrays[f"{name} text"]
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(starts) - 1, buffers)
