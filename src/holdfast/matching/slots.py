"""How a column becomes codes: the constants that conditions compare an attribute with, sorted.

A value's code is 2i + 1 when it equals the i-th constant and 2i when it lies between the one before and that one.
Every comparison with a constant is then a comparison of small integers, exact for all types: an integer
column meets the constant 2.5, a double column the constant 2**60 + 1. Null, NaN and other kinds have code -1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.matching.kernels import EXACT
from holdfast.matching.placing import guide_of, place_numbers, table_of
from holdfast.model.values import Value, microseconds


class SlotKind(Enum):
    """What a slot looks at: values of one kind, or only whether there is a value."""

    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    PRESENCE = "presence"
    LIST = "list"  # of columns alone: what conditions ask of elements is a number of a pattern, see `elements`


_PER_PART = 8  # constants; with fewer, finding the part takes longer
_PARTS_MAX = 1 << 16  # of a guide: 256 KiB, which stay in the processor's cache
UNKNOWN = -1
MISSING, PRESENT = 1, 3  # the codes of a PRESENCE slot, as if its constants were (missing, present)
FALSE, TRUE = 1, 3  # likewise of a BOOLEAN slot


@dataclass
class ConstantEdges:
    """A slot's number constants as seen by a column of one type: each rounded up into that type."""

    values: npt.NDArray[Any]
    exact: npt.NDArray[np.uint8]  # 1 where rounding changed nothing, so that equality is possible
    below: int  # constants smaller than any value of the type

    def __post_init__(self) -> None:
        self.values.flags.writeable = self.exact.flags.writeable = False  # as when saved: one type for numba

    def put(self, column: npt.NDArray[Any], codes: npt.NDArray[np.int32]) -> None:
        """The code of each number; -1 for NaN."""
        exact = self.exact[:0] if self.all_exact else self.exact
        place_numbers(self.values, exact, self.below, *self.guide, column, codes)

    @cached_property
    def all_exact(self) -> bool:
        return bool(self.exact.all())

    @cached_property
    def guide(self) -> tuple[npt.NDArray[np.int32], float, float]:
        """About where a number stands among the constants: how many lie before each part of their range."""
        low, high = (float(self.values[0]), float(self.values[-1])) if self.values.size else (0.0, 0.0)
        parts = min(1 << int(self.values.size // _PER_PART).bit_length(), _PARTS_MAX)
        scale = parts / (high - low) if high > low else 0.0
        return guide_of(self.values, low, scale, parts), low, scale


@dataclass
class Slot:
    attribute: str
    sort: SlotKind
    count: int = 0  # distinct constants
    edges: dict[str, ConstantEdges] = field(default_factory=dict)  # NUMBER and TIMESTAMP: by column type, see edges_of
    text: npt.NDArray[np.uint8] | None = None  # STRING: the constants' UTF-8, end to end
    text_starts: npt.NDArray[np.int64] | None = None
    points_only: bool = False  # STRING: no condition asks for more than equality

    @property
    def codes(self) -> int:
        return 2 * self.count + 1

    @cached_property
    def table(self) -> npt.NDArray[np.uint64]:
        """Where each constant text is found by its hash."""
        table: npt.NDArray[np.uint64] = table_of(self.text, self.text_starts)
        return table

    def edges_of(self, column_type: str) -> ConstantEdges:
        """The number constants for a column of this type; of millions, those for types that never come take no room."""
        found = self.edges.get(column_type)
        if found is None:
            found = self.edges[column_type] = _edges_of_integers(self.edges["float64"].values, column_type)
        return found


def settle(slot: Slot, packed: list[npt.NDArray[np.float64]], constants: list[Any]) -> npt.NDArray[np.int32]:
    """Sort a slot's constants and return the rank of each one given: first those that are packed."""
    if slot.sort is SlotKind.STRING:
        distinct = sorted(set(constants))
        _keep_texts(slot, distinct)
    elif slot.sort in (SlotKind.BOOLEAN, SlotKind.PRESENCE):
        slot.count = 2
        return np.array(constants, np.int32)
    else:
        if slot.sort is SlotKind.TIMESTAMP:
            constants = [microseconds(each) for each in constants]
        if all(map(is_double, constants)):
            numbers = np.concatenate([*packed, np.array(constants, np.float64)])
            unique, ranks = np.unique(numbers, return_inverse=True)
            slot.count = unique.size
            slot.edges = {"float64": _edges_of_doubles(unique)}
            return ranks.astype(np.int32)
        constants = [each for array in packed for each in array.tolist()] + constants
        distinct = sorted(set(constants))
        slot.edges = {name: _edges(distinct, name) for name in ("float64", "int64", "uint64")}
    slot.count = len(distinct)
    rank = {each: i for i, each in enumerate(distinct)}
    return np.array([rank[each] for each in constants], np.int32)


def is_double(number: int | float) -> bool:
    return type(number) is float or -EXACT <= number <= EXACT


def _keep_texts(slot: Slot, distinct: Sequence[str]) -> None:
    encoded = [each.encode("utf-8", "surrogatepass") for each in distinct]
    slot.text = np.frombuffer(b"".join(encoded), np.uint8)
    slot.text_starts = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(each) for each in encoded], out=slot.text_starts[1:])
    slot.text_starts.flags.writeable = False


def _edges_of_doubles(numbers: npt.NDArray[np.float64]) -> ConstantEdges:
    return ConstantEdges(numbers, np.ones(numbers.size, np.uint8), 0)


def _edges_of_integers(numbers: npt.NDArray[np.float64], name: str) -> ConstantEdges:
    low, high = (-(2.0**63), 2.0**63) if name == "int64" else (0.0, 2.0**64)
    rounded = np.ceil(numbers)
    fits = (rounded >= low) & (rounded < high)
    exact = (rounded == numbers)[fits].astype(np.uint8)
    return ConstantEdges(rounded[fits].astype(name), exact, int(np.count_nonzero(rounded < low)))


def _edges(numbers: Sequence[int | float], name: str) -> ConstantEdges:
    """The slow, exact way, for constants that are not all doubles."""
    values, exact, below = [], [], 0
    low, high = (-(2**63), 2**63 - 1) if name == "int64" else (0, 2**64 - 1)
    for number in numbers:
        edge = _double_at_least(number) if name == "float64" else math.ceil(number)
        if name != "float64" and edge > high:
            break
        if name != "float64" and edge < low:
            below += 1
            continue
        values.append(edge)
        exact.append(edge == number)
    return ConstantEdges(np.array(values, name), np.array(exact, np.uint8), below)


def _double_at_least(number: int | float) -> float:
    nearest = float(number)
    return nearest if nearest >= number else math.nextafter(nearest, math.inf)


def constant_of(value: Value) -> Any:
    """A boolean constant is its rank; every other one is itself."""
    return int(value) if type(value) is bool else value
