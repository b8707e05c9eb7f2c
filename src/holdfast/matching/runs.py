"""Filters that differ only in a number, kept sorted by that number.

All filters of a run share their other equality tests (the guards, tested once) and compare the same attribute
in the same direction. Those that hold for an event are then one slice, found by bisection. A second
comparison, if there is one, is checked over the slice; anything further is tested filter by filter.
"""

from bisect import bisect_left, bisect_right
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from holdfast.language.constraint import Constraint
from holdfast.language.subscription import Filter, holds
from holdfast.model.event import Attributes
from holdfast.model.values import Kind, Value, kind_of, utc

K = TypeVar("K")

_INSERTED_MAX = 16  # new filters put in place one by one; more are sorted together with the rest
_ORDERED = {"<", "<=", ">", ">="}


class RunShape(NamedTuple):
    """What the filters of a run have in common."""

    guards: Filter
    order: tuple[str, str, Kind] | None  # attribute, operator, kind of the number they are sorted by
    second: tuple[str, str, Kind] | None


def shape_of(constraints: Filter) -> tuple[RunShape, list[Any], Filter]:
    """Split a filter's remaining constraints into its shape, its one or two bounds, and what is left over."""
    guards: list[Constraint] = []
    compared: list[Constraint] = []
    rest: list[Constraint] = []
    for each in constraints:
        if each.op == "=":
            guards.append(each)
        elif each.op in _ORDERED and len(compared) < 2:
            compared.append(each)
        else:
            rest.append(each)
    axes = [(each.attribute, each.op, kind_of(each.operand)) for each in compared]
    order, second = (*axes, None, None)[:2]
    return RunShape(tuple(guards), order, second), [each.operand for each in compared], tuple(rest)


class SortedRun(Generic[K]):
    __slots__ = ("_bounds", "_keys", "_rests", "_seconds", "_settled", "_shape")

    def __init__(self, shape: RunShape) -> None:
        self._shape = shape
        self._keys: list[K] = []
        self._bounds: list[Any] | None = [] if shape.order else None
        self._seconds: list[Any] | None = [] if shape.second else None
        self._rests: list[Filter] | None = None  # made when the first filter with a rest comes
        # New filters wait at the end, behind the first `_settled` ones, until the run is looked at: a load of a
        # million is then sorted once, not a million times.
        self._settled = 0

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, bounds: list[Any], rest: Filter, key: K) -> None:
        self._insert(len(self._keys), bounds, rest, key)

    def _insert(self, at: int, bounds: list[Any], rest: Filter, key: K) -> None:
        if rest and self._rests is None:
            self._rests = [()] * len(self._keys)
        for column, value in zip((self._bounds, self._seconds), bounds, strict=False):
            column.insert(at, value)  # type: ignore[union-attr]
        if self._rests is not None:
            self._rests.insert(at, rest)
        self._keys.insert(at, key)

    def _settle(self) -> None:
        size, bounds = len(self._keys), self._bounds
        columns: list[list[Any]] = [c for c in (self._keys, bounds, self._seconds, self._rests) if c is not None]
        if bounds is not None and size - self._settled > _INSERTED_MAX:
            order = sorted(range(size), key=bounds.__getitem__)
            for column in columns:
                column[:] = [column[at] for at in order]
        elif bounds is not None:
            for late in range(self._settled, size):
                at = bisect_right(bounds, bounds[late], 0, late)
                for column in columns:
                    column.insert(at, column.pop(late))
        self._settled = size

    def remove(self, bounds: list[Any], rest: Filter, key: K) -> bool:
        """Take a filter out; False when it is not here."""
        if self._settled < len(self._keys):
            self._settle()
        low, high = 0, len(self._keys)
        if self._bounds is not None:
            low = bisect_left(self._bounds, bounds[0])
            high = bisect_right(self._bounds, bounds[0], low)
        for at in range(low, high):
            if self._is_at(at, bounds, rest, key):
                for column in (self._keys, self._bounds, self._seconds, self._rests):
                    if column is not None:
                        del column[at]
                self._settled -= 1
                return True
        return False

    def _is_at(self, at: int, bounds: list[Any], rest: Filter, key: K) -> bool:
        """Whether this is the filter's place: one key may have several filters in a run."""
        return (
            self._keys[at] == key
            and (self._seconds is None or self._seconds[at] == bounds[1])
            and (self._rests[at] if self._rests is not None else ()) == rest
        )

    def collect(self, attributes: Attributes, out: list[K]) -> None:
        if self._settled < len(self._keys):
            self._settle()
        guards, order, second = self._shape
        for guard in guards:
            if not guard.holds(attributes.get(guard.attribute)):
                return
        low, high = 0, len(self._keys)
        if order is not None:
            found = _comparable(attributes, order)
            if found is None:
                return
            low, high = _slice(self._bounds, order[1], found, high)  # type: ignore[arg-type]
            if low == high:
                return
        keys = self._keys[low:high]
        if second is None and self._rests is None:
            out += keys
            return
        if second is not None:
            found = _comparable(attributes, second)
            if found is None:
                return
            chosen = _chosen(self._seconds[low:high], second[1], found)  # type: ignore[index]
        else:
            chosen = [True] * len(keys)
        if self._rests is None:
            out += [key for key, yes in zip(keys, chosen, strict=True) if yes]
            return
        for key, yes, rest in zip(keys, chosen, self._rests[low:high], strict=True):
            if yes and holds(rest, attributes):
                out.append(key)


def _comparable(attributes: Attributes, axis: tuple[str, str, Kind]) -> Value | None:
    found = attributes.get(axis[0])
    if found is None or found != found or kind_of(found) is not axis[2]:
        return None
    return utc(found) if type(found) is datetime else found


def _slice(bounds: list[Any], op: str, found: Any, size: int) -> tuple[int, int]:
    if op == "<":
        return bisect_right(bounds, found), size
    if op == "<=":
        return bisect_left(bounds, found), size
    return 0, bisect_left(bounds, found) if op == ">" else bisect_right(bounds, found)


def _chosen(bounds: list[Any], op: str, found: Any) -> list[bool]:
    if op == "<":
        return [found < bound for bound in bounds]
    if op == "<=":
        return [found <= bound for bound in bounds]
    if op == ">":
        return [found > bound for bound in bounds]
    return [found >= bound for bound in bounds]
