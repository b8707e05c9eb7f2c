"""The scalar values that events carry and conditions name.

Four kinds, and no comparison between kinds is ever true: numbers (integers and doubles are one kind
and compare exactly), strings (ordered by code point), booleans (not ordered) and timestamps
(microseconds, UTC; one without an offset is taken as UTC).
"""

from datetime import UTC, date, datetime, time
from enum import Enum
from typing import Any

from holdfast.model.errors import InputError

Value = str | int | float | bool | datetime

INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**64 - 1  # unsigned 64-bit columns are common, so both 64-bit ranges are in


class Kind(Enum):
    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"

    def __repr__(self) -> str:
        return self.value


_KIND_OF_TYPE: dict[type, Kind] = {
    str: Kind.STRING,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    bool: Kind.BOOLEAN,
    datetime: Kind.TIMESTAMP,
}


def kind_of(value: Value) -> Kind:
    return _KIND_OF_TYPE[type(value)]


def canonical(value: Value) -> Value:
    """The one spelling of a value: 120.0, -0.0 and 1e19 become integers, timestamps become UTC."""
    if type(value) is float:
        if INTEGER_MIN <= value <= INTEGER_MAX and value.is_integer():
            return int(value)
    elif type(value) is datetime:
        return utc(value)
    return value


def utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InputError(f"the timestamp {moment.isoformat()} is not in the years 1 to 9999 UTC") from None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970, exactly (`timestamp()` goes through a double and is not exact)."""
    since = utc(moment) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def as_value(found: object, place: str) -> Value | None:
    """Take a scalar from outside (a subclass, a NumPy scalar, a date) as one of our values."""
    if hasattr(found, "dtype"):
        found = _without_numpy(found)
    if found is None or isinstance(found, bool):
        return found
    if isinstance(found, int):
        if not INTEGER_MIN <= found <= INTEGER_MAX:
            raise InputError(f"{place}: the integer {found} does not fit in 64 bits; send it as a string")
        return int(found)
    if isinstance(found, float):
        return float(found)
    if isinstance(found, str):
        return str.__str__(found)  # str() of an enumeration's member would be its name
    if isinstance(found, datetime):
        if found != found:  # NaT, which pandas takes for a time
            return None
        return utc(datetime.combine(found.date(), found.timetz()))
    if isinstance(found, date):
        return datetime.combine(found, time(), UTC)
    raise InputError(f"{place}: expected a string, number, boolean, timestamp or null, found {type(found).__name__}")


def _without_numpy(found: Any) -> object:
    """A NumPy scalar as Python has it; anything else, arrays too, as it is."""
    if getattr(found, "shape", None) != ():
        return found
    if found.dtype.kind == "M":
        found = found.astype("datetime64[us]")  # item() of nanoseconds would be an integer
    return found if found.dtype.kind == "m" else found.item()


def literal(value: Value) -> str:
    """A value as a condition spells it."""
    if type(value) is str:
        return "'" + value.replace("'", "''") + "'"
    if type(value) is bool:
        return "TRUE" if value else "FALSE"
    if type(value) is datetime:
        moment = utc(value).replace(tzinfo=None)
        # isoformat() would drop the fraction of a whole second; both spellings read back the same.
        return f"TIMESTAMP '{moment.isoformat(sep=' ')}'"
    return repr(value)
