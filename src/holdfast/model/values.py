"""The values that events carry and conditions name.

Four kinds of scalars, and no comparison between kinds is ever true: numbers (integers and doubles are one kind
and compare exactly), strings (ordered by code point), booleans (not ordered) and timestamps
(microseconds, UTC; one without an offset is taken as UTC). An event may also hold lists of scalars of one kind, which
conditions look into and never compare as a whole.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from enum import Enum
from typing import Any

from holdfast.model.errors import InputError
from holdfast.model.limits import LIST_ELEMENTS_MAX

Value = str | int | float | bool | datetime | list[Any]  # a list in events alone; its elements are scalars or None

INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**64 - 1  # unsigned 64-bit columns are common, so both 64-bit ranges are in


class Kind(Enum):
    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    LIST = "list"

    def __repr__(self) -> str:
        return self.value


_KIND_OF_TYPE: dict[type, Kind] = {
    str: Kind.STRING,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    bool: Kind.BOOLEAN,
    datetime: Kind.TIMESTAMP,
    list: Kind.LIST,
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


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970, exactly (`timestamp()` goes through a double and is not exact)."""
    since = utc(moment) - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def as_value(found: object, place: str) -> Value | None:
    """Take a value from outside (a subclass, a NumPy scalar, a date, a tuple) as one of ours."""
    if isinstance(found, list | tuple) or (hasattr(found, "dtype") and getattr(found, "ndim", 0) == 1):
        return _as_list(found, place)  # type: ignore[arg-type]
    return _as_scalar(found, place)


def _as_list(found: Sequence[object], place: str) -> list[Value | None]:
    if len(found) > LIST_ELEMENTS_MAX:
        raise InputError(f"{place}: a list of {len(found):,} elements; the limit is {LIST_ELEMENTS_MAX}")
    elements = [_as_scalar(each, f"{place}[{at}]") for at, each in enumerate(found)]
    kinds = {kind_of(each): each for each in elements if each is not None}
    if len(kinds) > 1:
        (one, first), (other, second) = list(kinds.items())[:2]
        raise InputError(
            f"{place}: a list holds values of one kind; {literal(first)} is a {one.value}, "
            f"{literal(second)} a {other.value}"
        )
    if Kind.NUMBER in kinds and not _fit_together(elements):
        raise InputError(
            f"{place}: no column holds these numbers exactly: integers beyond 2**53 beside fractions, or beyond 2**63 "
            "beside negative ones; send them as strings"
        )
    return elements


def _fit_together(numbers: Sequence[Any]) -> bool:
    """Whether one column of 64-bit integers, signed or not, or of doubles holds them all, as traces and tables do."""
    whole = [each for each in numbers if type(each) is int]
    if any(type(each) is float for each in numbers):
        return all(-(2**53) <= each <= 2**53 for each in whole)
    return not whole or min(whole) >= 0 or max(whole) < 2**63


def _as_scalar(found: object, place: str) -> Value | None:
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
    wanted = "a string, number, boolean, timestamp or null"
    if place.endswith("]") and isinstance(found, list | tuple | Mapping):
        raise InputError(f"{place}: a list holds scalars; expected {wanted}, found {type(found).__name__}")
    raise InputError(f"{place}: expected {wanted}, or a list of such, found {type(found).__name__}")


def _without_numpy(found: Any) -> object:
    """A NumPy scalar as Python has it; anything else, arrays too, as it is."""
    if getattr(found, "shape", None) != ():
        return found
    if found.dtype.kind == "M":
        found = found.astype("datetime64[us]")  # item() of nanoseconds would be an integer
    return found if found.dtype.kind == "m" else found.item()


def literal(value: Value) -> str:
    """A value as a condition spells it; a list, which no condition has, with brackets around it."""
    if type(value) is list:
        return f"[{', '.join('NULL' if each is None else literal(each) for each in value)}]"
    if type(value) is str:
        return "'" + value.replace("'", "''") + "'"
    if type(value) is bool:
        return "TRUE" if value else "FALSE"
    if type(value) is datetime:
        moment = utc(value).replace(tzinfo=None)
        # isoformat() would drop the fraction of a whole second; both spellings read back the same.
        return f"TIMESTAMP '{moment.isoformat(sep=' ')}'"
    return repr(value)
