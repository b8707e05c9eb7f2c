"""Numbers under + - * / %, and what compares with what: None stands for unknown throughout.

Integers and doubles are one kind, so a result depends on what numbers are, not on how they are stored: 120.0 counts as
the integer 120. Two integers give an exact integer, or unknown where it leaves 64 bits. Anything else is worked out in
doubles, each step rounded once (IEEE 754); a result past the largest double is unknown, and so is dividing by 0.
"""

import math
import operator
from collections.abc import Callable
from datetime import datetime
from typing import Any

from holdfast.model.values import INTEGER_MAX, INTEGER_MIN, Value, microseconds, utc

Number = int | float


def number(value: object) -> Number | None:
    """A value as arithmetic takes it: an integer where it is one, else a double; None when it is no number."""
    if type(value) is int:
        return value
    if type(value) is not float or value != value:
        return None
    return int(value) if value.is_integer() and INTEGER_MIN <= value <= INTEGER_MAX else value


def _whole(result: int) -> int | None:
    return result if INTEGER_MIN <= result <= INTEGER_MAX else None


def _rounded(result: float, left: Number, right: Number) -> float | None:
    if math.isfinite(result):
        return result
    return result if result == result and (math.isinf(left) or math.isinf(right)) else None


def add(left: Number, right: Number) -> Number | None:
    result = left + right
    return _whole(result) if type(result) is int else _rounded(result, left, right)


def subtract(left: Number, right: Number) -> Number | None:
    result = left - right
    return _whole(result) if type(result) is int else _rounded(result, left, right)


def multiply(left: Number, right: Number) -> Number | None:
    result = left * right
    return _whole(result) if type(result) is int else _rounded(result, left, right)


def divide(left: Number, right: Number) -> Number | None:
    """7 / 2 is 3.5: a quotient that is no integer is the double nearest to it."""
    if right == 0:
        return None
    if type(left) is int and type(right) is int:
        return _whole(left // right) if left % right == 0 else left / right
    return _rounded(left / right, left, right)


def remainder(left: Number, right: Number) -> Number | None:
    """What is left of a division that truncates; it has the sign of the dividend."""
    if right == 0 or math.isinf(left):
        return None
    if type(left) is int and type(right) is int:
        return abs(left) % abs(right) if left >= 0 else -(abs(left) % abs(right))
    return math.fmod(left, right)


def negative(value: Number) -> Number | None:
    return _whole(-value) if type(value) is int else -value


OPERATIONS: dict[str, Callable[[Number, Number], Number | None]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
}

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBERS = (int, float)


def comparing(op: str) -> Callable[[Value | None, Value | None], bool | None]:
    """The comparison as a function of two values; unknown between kinds, with NaN, and for the order of booleans."""
    compare, ordered = _COMPARE[op], op not in ("=", "<>")

    def compared(left: Value | None, right: Value | None) -> bool | None:
        kind, other = type(left), type(right)
        if kind in _NUMBERS and other in _NUMBERS:
            return compare(left, right) if left == left and right == right else None
        if kind is not other or left is None or kind is list or (ordered and kind is bool):
            return None
        return compare(utc(left), utc(right)) if kind is datetime else compare(left, right)  # type: ignore[arg-type]

    return compared


equal = comparing("=")

UNITS_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
}


def timestamp_difference(unit: str, start: object, end: object) -> int | None:
    """Whole units from `start` to `end`, cut off towards 0; a day is 24 hours."""
    if type(start) is not datetime or type(end) is not datetime:
        return None
    apart_us = microseconds(end) - microseconds(start)
    whole = abs(apart_us) // UNITS_US[unit]
    return whole if apart_us >= 0 else -whole


def absolute(value: object) -> Number | None:
    found = number(value)
    return None if found is None else abs(found)
