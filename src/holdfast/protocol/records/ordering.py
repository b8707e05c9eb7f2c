"""Values of one kind in their order, and constraints as stretches of it.

A stretch is half open, from `low` up to but not with `high`, None where it has no end. `above` gives the next value
of the order exactly, so that `x > 5`, `x >= 5`, `x = 5` and `s LIKE 'ab%'` are all stretches. Numbers are integers of
64 bits and doubles in one order, compared exactly; timestamps are ordered by their microseconds.
"""

from collections.abc import Sequence
from itertools import takewhile
from math import inf, nextafter

from holdfast.language.constraint import CONTAINS, Constraint
from holdfast.language.domain import successor
from holdfast.language.like import prefix_text, segments
from holdfast.model.values import Kind, Value, kind_of, microseconds

Key = bool | int | float | str  # a value of one kind, or the microseconds of a timestamp
Stretch = tuple[Key | None, Key | None]

_INTEGRAL = 2**53  # from here on doubles are whole numbers, and there are integers between them
_INTEGERS_END = 2**64


def key_of(value: Value) -> Key:
    return microseconds(value) if kind_of(value) is Kind.TIMESTAMP else value  # type: ignore[return-value, arg-type]


def above(key: Key) -> Key | None:
    """The next one in the order; None after the last."""
    if type(key) is str:
        return key + "\0"
    if type(key) is bool:
        return None if key else True
    assert not isinstance(key, str)
    if abs(key) < _INTEGRAL:
        return nextafter(key, inf)
    if abs(key) <= _INTEGERS_END:
        return int(key) + 1
    return None if key == inf else nextafter(key, inf)


def stretches(each: Constraint) -> list[Stretch] | None:
    """Where a value that passes must lie: in one of these; None when its kind is all that is known of it."""
    op, operand = each.op, each.operand
    if op in ("=", "IN"):
        return points(each)
    if op == "LIKE":
        head = literal_run(segments(operand)[0])
        return [(head, successor(head))] if head else None
    if op in ("<>", "NOT IN", "NOT LIKE", CONTAINS) or op.startswith("IS"):
        return None
    key = key_of(operand)
    edge = key if op in ("<", ">=") else above(key)
    if op in ("<", "<="):
        return [(None, edge)]
    return [] if edge is None else [(edge, None)]


def excluded(each: Constraint) -> list[Stretch]:
    """Where no value that passes can lie."""
    if each.op in ("<>", "NOT IN"):
        return points(each)
    prefix = prefix_text(each.operand) if each.op == "NOT LIKE" else None
    return [(prefix, successor(prefix))] if prefix else []


def points(each: Constraint) -> list[Stretch]:
    """The listed values, each as the stretch that holds it alone."""
    listed = each.operand if isinstance(each.operand, tuple) else (each.operand,)
    return [(key, above(key)) for key in map(key_of, listed)]


def literal_run(segment: Sequence[str | None]) -> str:
    """The characters at the start of a pattern's segment, up to the first wildcard."""
    return "".join(takewhile(lambda character: character is not None, segment))  # type: ignore[arg-type]
