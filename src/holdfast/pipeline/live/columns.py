"""Events of a gateway's log as columns, and rows of a table as events.

With a schema of the user's, each column is an attribute of that name and has exactly that type: an integer is taken for
a double, or a double for an integer, only where nothing is lost. Without one, `attributes` maps each name to a
structure with one field per type, of which one is set: so an integer stays an integer and a timestamp a timestamp,
which a map to strings, or JSON, could not say.

The event's own columns are id, time, logged, via, offset and payload. An attribute that is called like one of these is
the column `attr:NAME`, as in a trace.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import accumulate
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from holdfast.model.errors import InputError
from holdfast.model.limits import ATTRIBUTES_MAX
from holdfast.wire.event_encoding import sendable, sendable_payload

_UNSIGNED = DecimalType(20, 0)  # integers up to 2**64 - 1, of which Spark has no type
_ONE_OF: dict[str, DataType] = {
    "string": StringType(),
    "long": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "decimal": _UNSIGNED,
}
_ONE_OF |= {f"{name}s": ArrayType(kind) for name, kind in _ONE_OF.items()}  # lists
_ATTRIBUTES = MapType(StringType(), StructType([StructField(name, kind) for name, kind in _ONE_OF.items()]))
_OWN: dict[str, DataType] = {
    "id": StructType([StructField("source", StringType()), StructField("seq", LongType())]),
    "time": TimestampType(),
    "logged": TimestampType(),
    "via": StringType(),
    "offset": LongType(),
    "payload": BinaryType(),
    "attributes": _ATTRIBUTES,
}
DEFAULT_SCHEMA = StructType([StructField(name, kind) for name, kind in _OWN.items()])

_FIELD_OF_TYPE = {str: "string", int: "long", float: "double", bool: "boolean", datetime: "timestamp"}
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_BITS: dict[type[DataType], int] = {ByteType: 7, ShortType: 15, IntegerType: 31, LongType: 63}  # without the sign
_BETTER: dict[type[DataType], str] = {
    FloatType: "double",
    DecimalType: "double",
    TimestampNTZType: "timestamp",
    DateType: "timestamp",
}
_NONE = frozenset({type(None)})
_PREFIX = "attr:"
_LONG_MAX = 2**63 - 1


class LoggedFields(Protocol):
    """An event as a gateway's log has it."""

    @property
    def source(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def time_us(self) -> int: ...
    @property
    def logged_us(self) -> int: ...
    @property
    def via(self) -> str: ...
    @property
    def attributes(self) -> dict[str, Any]: ...
    @property
    def payload(self) -> bytes: ...


# Events to columns -----------------------------------------------------------------------------------------------


class EventColumns:
    def __init__(self, schema: StructType, permissive: bool = False) -> None:
        """For tables of this schema; an InputError that names every column which cannot be filled."""
        self._kinds = {field.name: field.dataType for field in schema.fields}
        self._permissive = permissive
        problems = [problem for name, kind in self._kinds.items() if (problem := _unreadable(name, kind))]
        if problems:
            raise InputError("; ".join(problems))
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def batch(self, first: int, rows: Sequence[LoggedFields]) -> pa.RecordBatch:
        """These events, the first of which has this offset."""
        arrays = [self._column(field, first, rows) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, field: pa.Field, first: int, rows: Sequence[LoggedFields]) -> pa.Array:
        match field.name:
            case "id":
                parts = [pa.array([row.source for row in rows], pa.string()), pa.array([row.seq for row in rows])]
                return pa.StructArray.from_arrays(parts, fields=list(field.type))
            case "time":
                return pa.array([row.time_us for row in rows], field.type)
            case "logged":
                return pa.array([row.logged_us for row in rows], field.type)
            case "via":
                return pa.array([row.via for row in rows], field.type)
            case "offset":
                return pa.array(range(first, first + len(rows)), field.type)
            case "payload":
                return pa.array([row.payload for row in rows], field.type)
            case "attributes":
                return _union_map(field.type, rows)
            case name:
                return self._attribute(name, field.type, first, rows)

    def _attribute(self, column: str, kind: pa.DataType, first: int, rows: Sequence[LoggedFields]) -> pa.Array:
        name = column.removeprefix(_PREFIX)
        values = [row.attributes.get(name) for row in rows]
        wanted = self._kinds[column]
        if set(map(type, values)) - _NONE <= _unconverted(wanted):
            try:
                return pa.array(values, kind)
            except (pa.ArrowInvalid, OverflowError):
                pass  # one does not fit; found below
        for at, value in enumerate(values):
            try:
                values[at] = None if value is None else _exactly(value, wanted)
            except ValueError:
                if not self._permissive:
                    row = rows[at]
                    raise InputError(
                        f"event {first + at} ({row.source}/{row.seq}): attribute {name} is {value!r}, which a column "
                        f"of type {wanted.simpleString()} cannot hold; give the column another type, "
                        "read without a schema, or set option mode to PERMISSIVE for null instead"
                    ) from None
                values[at] = None
        return pa.array(values, kind)


def _unreadable(name: str, kind: DataType) -> str | None:
    own = _OWN.get(name)
    if own is not None:
        if _same(kind, own):
            return None
        hint = f"the attribute is the column {_PREFIX}{name}"
        return f"column {name} is {kind.simpleString()} and must be {own.simpleString()}; {hint}"
    element = kind.elementType if isinstance(kind, ArrayType) else kind
    if isinstance(element, (StringType, *_INTEGERS, DoubleType, BooleanType, TimestampType)):
        return None
    if isinstance(element, DecimalType) and element.scale == 0:
        return None
    wanted = "string, long, double, boolean, timestamp or an array of one; nested attributes have dotted names"
    better = _BETTER.get(type(kind), wanted)
    return f"column {name}: no attribute is of type {kind.simpleString()}; use {better}"


def _same(one: DataType, other: DataType) -> bool:
    """Whether two types are equal but for what may be null."""
    return one.simpleString() == other.simpleString()


def _unconverted(wanted: DataType) -> frozenset[type]:
    """Types of values that Arrow turns into this one exactly, or refuses."""
    if isinstance(wanted, ArrayType):
        return frozenset()  # each element is looked at
    if isinstance(wanted, DoubleType):
        return frozenset({float, int})
    if isinstance(wanted, (*_INTEGERS, DecimalType)):
        return frozenset({int})
    if isinstance(wanted, BooleanType):
        return frozenset({bool})
    return frozenset({datetime}) if isinstance(wanted, TimestampType) else frozenset({str})


def _exactly(value: Any, wanted: DataType) -> Any:
    """The same value as a column of this type has it; a ValueError when there is none."""
    if isinstance(wanted, ArrayType):
        if type(value) is not list:
            raise ValueError
        return [None if each is None else _exactly(each, wanted.elementType) for each in value]
    if type(value) is float and value.is_integer() and isinstance(wanted, (*_INTEGERS, DecimalType)):
        value = int(value)
    if type(value) not in _unconverted(wanted):
        raise ValueError
    if isinstance(wanted, DoubleType):
        if type(value) is int and float(value) != value:
            raise ValueError
        return float(value)
    if isinstance(wanted, _INTEGERS) and not _within(value, wanted):
        raise ValueError
    if isinstance(wanted, DecimalType) and abs(value) >= 10**wanted.precision:
        raise ValueError
    return value


def _within(value: int, wanted: DataType) -> bool:
    bits = _BITS[type(wanted)]
    return -(1 << bits) <= value < 1 << bits


def _union_map(kind: pa.MapType, rows: Sequence[LoggedFields]) -> pa.Array:
    lengths = [len(row.attributes) for row in rows]
    offsets = [0, *accumulate(lengths)]
    names = [name for row in rows for name in row.attributes]
    values = [value for row in rows for value in row.attributes.values()]
    fields = list(kind.item_type)
    parts: dict[str, list[Any]] = {each.name: [None] * len(names) for each in fields}
    by_type = {each: parts[name] for each, name in _FIELD_OF_TYPE.items()}
    for at, value in enumerate(values):
        if type(value) is list:
            parts[f"{_field_of_list(value)}s"][at] = value
        elif value is not None:
            unsigned = type(value) is int and value > _LONG_MAX
            (parts["decimal"] if unsigned else by_type[type(value)])[at] = value
    nothing = pa.array([value is None for value in values], pa.bool_())
    arrays = [pa.array(parts[each.name], each.type) for each in fields]
    items = pa.StructArray.from_arrays(arrays, fields=fields, mask=nothing)
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(names, pa.string()), items, kind)


def _field_of_list(elements: Sequence[Any]) -> str:
    """Which of the types holds all elements; strings where there are none."""
    found = {
        "decimal" if type(each) is int and each > _LONG_MAX else _FIELD_OF_TYPE[type(each)]
        for each in elements
        if each is not None
    }
    return next((each for each in ("double", "decimal") if each in found), next(iter(found), "string"))


# Columns to events -----------------------------------------------------------------------------------------------


class ColumnEvents:
    def __init__(self, schema: StructType) -> None:
        """For tables of this schema; an InputError that names every column which is no attribute."""
        problems = [problem for field in schema.fields if (problem := _unwritable(field.name, field.dataType))]
        if len(schema.fields) > ATTRIBUTES_MAX + 1:
            problems.append(f"{len(schema.fields)} columns; an event has at most {ATTRIBUTES_MAX} attributes")
        if problems:
            raise InputError("; ".join(problems))
        self._names = [field.name.removeprefix(_PREFIX) for field in schema.fields]
        self._spread = [at for at, field in enumerate(schema.fields) if _is_union_map(field.name, field.dataType)]
        payloads = [at for at, field in enumerate(schema.fields) if _is_payload(field.name, field.dataType)]
        self._payload = payloads[0] if payloads else -1

    def events(self, batch: pa.RecordBatch) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Attributes and payload of each row; what is null is left out."""
        columns = [column.to_pylist() for column in batch.columns]
        special = {*self._spread, self._payload}
        names = [(at, name) for at, name in enumerate(self._names) if at not in special]
        for row in zip(*columns, strict=True) if columns else ():
            event = {name: _plain(row[at]) for at, name in names if row[at] is not None}
            for at in self._spread:
                event.update(_of_union(row[at] or ()))
            flat = {name: value for name, value in sendable(event).items() if value is not None}
            payload = row[self._payload] if self._payload >= 0 else None
            yield flat, sendable_payload(payload) if payload else b""


def _plain(value: Any) -> Any:
    if type(value) is Decimal:
        return int(value)
    if type(value) is dict:
        return {name: _plain(inner) for name, inner in value.items()}
    if type(value) is list:
        return [_plain(inner) for inner in value]
    return value


def _of_union(items: Sequence[tuple[str, dict[str, Any] | None]]) -> dict[str, Any]:
    """Attributes from what the default layout makes of them."""
    set_ = ((name, [part for part in (value or {}).values() if part is not None]) for name, value in items)
    return {name: _plain(parts[0]) for name, parts in set_ if parts}


def _is_payload(name: str, kind: DataType) -> bool:
    return name == "payload" and isinstance(kind, BinaryType)


def _is_union_map(name: str, kind: DataType) -> bool:
    return name == "attributes" and _same(kind, _ATTRIBUTES)


def _unwritable(name: str, kind: DataType) -> str | None:
    if _is_payload(name, kind) or _is_union_map(name, kind):
        return None
    if isinstance(kind, StructType):
        inner = [_unwritable(f"{name}.{field.name}", field.dataType) for field in kind.fields]
        return "; ".join(each for each in inner if each) or None
    if isinstance(kind, ArrayType) and not isinstance(kind.elementType, StructType | ArrayType):
        return _unwritable(f"{name} (its elements)", kind.elementType)
    if isinstance(
        kind, (StringType, *_INTEGERS, FloatType, DoubleType, BooleanType, TimestampType, TimestampNTZType, DateType)
    ):
        return None
    if isinstance(kind, DecimalType):
        if kind.scale == 0 and kind.precision <= _UNSIGNED.precision:
            return None
        return f"column {name}: {kind.simpleString()} is no type of attributes; cast it to double or string"
    if isinstance(kind, BinaryType):
        return f"column {name}: binary is no type of attributes; the column named payload is the event's payload"
    return f"column {name}: {kind.simpleString()} is no type of attributes; they are scalars and arrays of scalars"
