"""The first step of compiling: go through all constraints once and sort them by what they look at.

What comes out are columns: for each filter and slot the range of codes that it admits. What a range cannot say
(IN, <>, patterns that are not prefixes, elements of lists) is kept aside as an extra test.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.language.constraint import CONTAINS, Constraint
from holdfast.language.domain import successor
from holdfast.language.like import prefix_text
from holdfast.language.subscription import Filter
from holdfast.matching.elements import ElementMap, Known
from holdfast.matching.kernels import (
    CODE_MAX,
    IN_SET,
    NOT_IN_RANGE,
    NOT_IN_SET,
    NOT_PATTERN,
    PATTERN,
    Ints,
)
from holdfast.matching.patterns import PatternMap
from holdfast.matching.slots import Slot, SlotKind, constant_of, is_double, settle

_SLOT_KINDS = {
    int: SlotKind.NUMBER,
    float: SlotKind.NUMBER,
    str: SlotKind.STRING,
    bool: SlotKind.BOOLEAN,
    datetime: SlotKind.TIMESTAMP,
    type(None): SlotKind.PRESENCE,
}
_PACKED = 16_384  # subscriptions after which constants become arrays: objects would take five times the memory
_EQ, _LT, _LE, _GT, _GE = range(5)
_OPS = {"=": _EQ, "<": _LT, "<=": _LE, ">": _GT, ">=": _GE}


@dataclass
class Ranges:
    """One row per filter and slot, sorted by filter: the codes that the filter admits there."""

    filter: Ints
    slot: Ints
    low: Ints
    high: Ints
    prefix: npt.NDArray[np.bool_]  # whether a LIKE 'abc%' has made it

    @property
    def points(self) -> npt.NDArray[np.bool_]:
        alike: npt.NDArray[np.bool_] = self.low == self.high
        return alike

    def where(self, chosen: npt.NDArray[np.bool_]) -> "Ranges":
        return Ranges(*(each[chosen] for each in vars(self).values()))


@dataclass
class Extra:
    """A test that is not a range. Before the constants are ranked, `codes` holds their numbers instead."""

    filter: int
    kind: int
    slot: int
    codes: Sequence[int] = ()
    pattern: int = -1

    def rank(self, ranks: npt.NDArray[np.int32]) -> None:
        codes = [2 * int(ranks[each]) + 1 for each in self.codes]
        if self.kind == NOT_IN_RANGE and len(codes) == 2:
            codes[1] -= 1  # a prefix ends just below its successor
        self.codes = codes if self.kind == NOT_IN_RANGE else sorted(codes)

    def test(self, sets: list[int]) -> tuple[int, int, int, int]:
        """As the kernels read it: kind, slot, a, b."""
        if self.kind in (PATTERN, NOT_PATTERN):
            return self.kind, self.slot, self.pattern, 0
        if self.kind == NOT_IN_RANGE:
            return self.kind, self.slot, self.codes[0], self.codes[-1]
        start = len(sets)
        sets += self.codes
        return self.kind, self.slot, start, len(sets)


class Gathered:
    """All filters of a set of subscriptions as columns. Subscriptions are numbered in the order given."""

    def __init__(self, subscriptions: Iterable[Sequence[Filter]]) -> None:
        self.slots: list[Slot] = []
        self.extras: list[Extra] = []
        # To the number of a pattern, by attribute; and of a value looked for in lists, which the kernels take for one.
        self.patterns: dict[tuple[str, bool], Known] = {}
        self.pattern_columns = array("i")  # pattern -> which of `patterns` it belongs to
        self._pattern_counts: Counter[str] = Counter()
        self._pattern_column_of: dict[tuple[str, bool], int] = {}
        self._slot_of: dict[tuple[str, type], int] = {}
        self._constants: list[list[Any]] = []  # of each slot, those since they were packed
        self._packed: list[list[npt.NDArray[np.float64]]] = []
        self._packed_count: list[int] = []
        self._filter, self._slot, self._op, self._constant = (array("i") for _ in range(4))
        self._prefixes: list[tuple[int, int]] = []
        owners, repeated = array("i"), bytearray()
        for number, filters in enumerate(subscriptions):
            if number % _PACKED == _PACKED - 1:
                self._pack()
            repeated.append(len(filters) > 1)
            for filter_ in filters:
                for each in filter_:
                    self._gather(len(owners), each)
                owners.append(number)
        self.filter_subscription = np.array(owners, np.int32)
        self.repeated = np.frombuffer(bytes(repeated), np.uint8).copy()
        given = zip(self.slots, self._packed, self._constants, strict=True)
        self._ranks = [settle(slot, packed, constants) for slot, packed, constants in given]
        self._packed.clear()
        self._constants.clear()
        for extra in self.extras:
            extra.rank(self._ranks[extra.slot])

    @property
    def filter_count(self) -> int:
        return self.filter_subscription.size

    def patterns_on(self, slot: int) -> int:
        """How many patterns the conditions hold against a slot's attribute."""
        return self._pattern_counts[self.slots[slot].attribute]

    def _pack(self) -> None:
        for at, (slot, constants) in enumerate(zip(self.slots, self._constants, strict=True)):
            if slot.sort is SlotKind.NUMBER and all(map(is_double, constants)):  # else they stay, and all after them
                self._packed[at].append(np.array(constants, np.float64))
                self._packed_count[at] += len(constants)
                constants.clear()

    def _gather(self, filter_: int, each: Constraint) -> None:
        attribute, op, operand = each
        code = _OPS.get(op)
        if code is not None:
            self._compare(filter_, self._slot_for(attribute, type(operand)), code, operand)
        elif operand is None:
            self._compare(filter_, self._slot_for(attribute, type(None)), _EQ, op == "IS NOT NULL")
        elif op in ("LIKE", "NOT LIKE"):
            self._like(filter_, each)
        elif op == CONTAINS:
            slot, number = self._slot_for(attribute, type(None)), self._pattern(attribute, operand, in_list=True)
            self.extras.append(Extra(filter_, PATTERN, slot, pattern=number))
        else:
            members = operand if isinstance(operand, tuple) else (operand,)
            slot = self._slot_for(attribute, type(members[0]))
            kind = {"IN": IN_SET, "NOT IN": NOT_IN_SET, "<>": NOT_IN_RANGE}[op]
            self.extras.append(Extra(filter_, kind, slot, self._number(slot, members)))

    def _compare(self, filter_: int, slot: int, op: int, constant: Any) -> None:
        constants = self._constants[slot]
        self._filter.append(filter_)
        self._slot.append(slot)
        self._op.append(op)
        self._constant.append(self._packed_count[slot] + len(constants))
        constants.append(constant)

    def _like(self, filter_: int, each: Constraint) -> None:
        pattern: str = each.operand
        slot = self._slot_for(each.attribute, str)
        prefix = prefix_text(pattern)
        end = successor(prefix) if prefix else None
        if prefix is None or end is None:
            kind = PATTERN if each.op == "LIKE" else NOT_PATTERN
            self.extras.append(Extra(filter_, kind, slot, pattern=self._pattern(each.attribute, pattern)))
        elif each.op == "LIKE":
            self._compare(filter_, slot, _GE, prefix)
            self._compare(filter_, slot, _LT, end)
            self._prefixes.append((filter_, slot))
        else:
            self.extras.append(Extra(filter_, NOT_IN_RANGE, slot, self._number(slot, (prefix, end))))

    def _pattern(self, attribute: str, pattern: Any, in_list: bool = False) -> int:
        column = attribute, in_list
        known = self.patterns.setdefault(column, ElementMap() if in_list else PatternMap())
        number = known.get(pattern)
        if number is None:
            number = len(self.pattern_columns)
            self.pattern_columns.append(self._pattern_column_of.setdefault(column, len(self._pattern_column_of)))
            self._pattern_counts[attribute] += 1
            known.put(pattern, number)
        return number

    def _slot_for(self, attribute: str, kind: type) -> int:
        slot = self._slot_of.get((attribute, kind))
        if slot is None:
            slot = len(self.slots)
            sort = _SLOT_KINDS[kind]
            for other in (other for other, its in _SLOT_KINDS.items() if its is sort):
                self._slot_of[attribute, other] = slot
            self.slots.append(Slot(attribute, sort))
            self._constants.append([])
            self._packed.append([])
            self._packed_count.append(0)
        return slot

    def _number(self, slot: int, members: Iterable[Any]) -> list[int]:
        constants = self._constants[slot]
        first = self._packed_count[slot] + len(constants)
        constants.extend(map(constant_of, members))
        return list(range(first, self._packed_count[slot] + len(constants)))

    def ranges(self) -> Ranges:
        """The comparisons as ranges of codes, those of one filter on one slot intersected."""
        filters, slots, ops, numbers = (
            np.frombuffer(each, np.int32) if each else np.zeros(0, np.int32)
            for each in (self._filter, self._slot, self._op, self._constant)
        )
        first_rank = np.concatenate([[0], np.cumsum([ranks.size for ranks in self._ranks], dtype=np.int64)])
        rank = np.concatenate([np.zeros(0, np.int32), *self._ranks])
        code = 2 * rank[first_rank[slots] + numbers] + 1
        low = np.select([(ops == _EQ) | (ops == _GE), ops == _GT], [code, code + 1], 0).astype(np.int32)
        high = np.select([(ops == _EQ) | (ops == _LE), ops == _LT], [code, code - 1], CODE_MAX).astype(np.int32)
        order = np.argsort(filters.astype(np.int64) * len(self.slots) + slots)
        filters, slots, low, high = filters[order], slots[order], low[order], high[order]
        changed = np.ones(filters.size, bool)
        changed[1:] = (filters[1:] != filters[:-1]) | (slots[1:] != slots[:-1])
        first = np.flatnonzero(changed)
        if first.size:
            low, high = np.maximum.reduceat(low, first), np.minimum.reduceat(high, first)
        filters, slots = filters[first], slots[first]
        prefix = np.zeros(filters.size, bool)
        if self._prefixes:
            key = filters.astype(np.int64) * len(self.slots) + slots
            pairs = np.array(self._prefixes, np.int64)
            prefix[np.searchsorted(key, pairs[:, 0] * len(self.slots) + pairs[:, 1])] = True
        return Ranges(filters, slots, low, high, prefix)
