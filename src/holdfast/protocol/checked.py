"""What is wrong with somebody's settings, all of it at once.

Settings are dataclasses of numbers, flags and words. Their annotations say what each may be; beyond that a number is
above zero, unless its name is among those for which zero means something.
"""

from collections.abc import Collection
from math import isfinite
from typing import Any, Literal, get_args, get_origin, get_type_hints


def complaints(settings: object, may_be_zero: Collection[str] = ()) -> list[str]:
    kinds = get_type_hints(type(settings))
    found = [_complaint(value, kinds[name], name in may_be_zero) for name, value in vars(settings).items()]
    return [f"{name} {wrong}" for name, wrong in zip(vars(settings), found, strict=True) if wrong]


def _complaint(value: object, kind: Any, may_be_zero: bool) -> str:
    if get_origin(kind) is Literal:
        return "" if value in get_args(kind) else f"is {value!r}; it can be {', '.join(map(str, get_args(kind)))}"
    if kind in (int, float):
        if isinstance(value, bool) or not isinstance(value, int | float if kind is float else int):
            return f"must be a {'whole ' if kind is int else ''}number, found {value!r}"
        if not isfinite(value) or value < 0 or (value == 0 and not may_be_zero):
            return f"must be {'at least' if may_be_zero else 'above'} 0, found {value}"
        return ""
    return "" if isinstance(value, kind) else f"must be a {kind.__name__}, found {value!r}"
