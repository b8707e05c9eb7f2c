"""A few events as Python maps, matched with a compiled image: what brokers have in hand, and `Matcher.match`.

A table goes through Arrow, which costs half a millisecond however short it is. Here each value goes straight to its
place in the row of codes, or of numbers that the kernel finds the codes of, and all passes are one call.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.matching.columns import Columns
from holdfast.matching.elements import ElementMap, Known
from holdfast.matching.kernels import Ints, Patterns, match_few
from holdfast.matching.levels import ROWS_MAX
from holdfast.matching.placing import place_texts
from holdfast.matching.slots import EXACT, FALSE, MISSING, PRESENT, TRUE, UNKNOWN, Slot, SlotKind
from holdfast.model.event import Attributes
from holdfast.model.values import microseconds

_TEXTS_MAX = 4_096  # per slot and pattern column; then all are forgotten. Events repeat most of their texts.
_ROOM = 4_096  # pairs, to begin with; grows as needed

_TYPES: dict[SlotKind, tuple[type, ...]] = {
    SlotKind.NUMBER: (int, float),
    SlotKind.STRING: (str,),
    SlotKind.BOOLEAN: (bool,),
    SlotKind.TIMESTAMP: (datetime,),
}


class Few:
    """A compiled image, asked with maps."""

    def __init__(self, columns: Columns) -> None:
        self._image, slots, self._residuals = columns.image, columns.slots, columns.residuals
        self._slots: dict[str, dict[type, int]] = {}  # attribute -> type of its value -> slot
        self._present: list[tuple[str, int]] = []
        for at, slot in enumerate(slots):
            if slot.sort is SlotKind.PRESENCE:
                self._present.append((slot.attribute, at))
            else:
                place = at if _has_doubles(slot) else ~at  # negative: its constants are not all doubles
                self._slots.setdefault(slot.attribute, {}).update(dict.fromkeys(_TYPES[slot.sort], place))
        self._all = slots
        self._numbers, self._number_starts = _constants(slots)
        self._texts: dict[int, dict[str, int]] = {at: {} for at, each in enumerate(slots) if each.text is not None}
        self._width = len(slots)
        template = [MISSING if slot.sort is SlotKind.PRESENCE else UNKNOWN for slot in slots]
        self._blank = np.array([template] * ROWS_MAX, np.int32).reshape(ROWS_MAX, self._width)
        self._codes, self._values = self._blank.copy(), np.full((ROWS_MAX, self._width), np.nan)
        self._code_at: Any = memoryview(self._codes.reshape(-1))  # type: ignore[arg-type]  # a third of NumPy's time
        self._value_at: Any = memoryview(self._values.reshape(-1))  # type: ignore[arg-type]
        self._patterns = [_Found(attribute, known) for attribute, known in columns.patterns]
        self._rows, self._found = np.empty(_ROOM, np.int32), np.empty(_ROOM, np.int32)

    def match(self, events: Sequence[Attributes]) -> tuple[Ints, Ints]:
        """Pairs of an event's place and a subscription's number, good until the next call.

        A subscription with several filters may come more than once.
        """
        count = len(events)
        codes, values = self._codes[:count], self._values[:count]
        codes[:] = self._blank[:count]
        values.fill(np.nan)
        for row, event in enumerate(events):
            self._put(row * self._width, event)
        patterns = self._match_patterns(events) if self._patterns else _NO_PATTERNS[count]
        while True:
            given = self._image, self._numbers, self._number_starts, values, codes, patterns
            written = match_few(*given, self._rows, self._found)
            if written >= 0:
                rows, found = self._rows[:written], self._found[:written]
                if self._residuals is None:
                    return rows, found
                return self._residuals.kept(rows, found, lambda asked: [events[row] for row in asked.tolist()])
            room = 2 * self._found.size
            self._rows, self._found = np.empty(room, np.int32), np.empty(room, np.int32)

    def _put(self, begin: int, event: Attributes) -> None:
        code_at, value_at, slots = self._code_at, self._value_at, self._slots
        few = len(event) <= len(slots)
        value: Any
        for name, value in event.items() if few else [(name, event.get(name)) for name in slots]:
            places = slots.get(name)
            if places is None or value is None:
                continue
            kind = type(value)
            at = places.get(kind)
            if at is None:
                continue
            if kind is str:
                code_at[begin + at] = self._text_code(at, value)
            elif kind is bool:
                code_at[begin + at] = TRUE if value else FALSE
            else:
                number = microseconds(value) if kind is datetime else value
                if at >= 0 and (kind is float or -EXACT <= number <= EXACT):
                    value_at[begin + at] = number
                else:
                    at = at if at >= 0 else ~at
                    code_at[begin + at] = _place_exactly(self._all[at], number)
        for name, at in self._present:
            if event.get(name) is not None:
                code_at[begin + at] = PRESENT

    def _text_code(self, at: int, text: str) -> int:
        known = self._texts[at]
        code = known.get(text)
        if code is None:
            if len(known) >= _TEXTS_MAX:
                known.clear()
            data, found = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8), np.empty(1, np.int32)
            slot, starts = self._all[at], np.array([0, data.size])
            starts.flags.writeable = False  # as those of Arrow are: another type would be compiled for
            place_texts(data, starts, slot.text, slot.text_starts, found)
            code = known[text] = int(found[0])
        return code

    def _match_patterns(self, events: Sequence[Attributes]) -> Patterns:
        texts = np.full((len(self._patterns), len(events)), -1, np.int32)
        starts, ids = [0], list[int]()
        for column, known in enumerate(self._patterns):
            for row, event in enumerate(events):
                text = event.get(known.attribute)
                if type(text) is known.wants:
                    texts[column, row] = len(starts) - 1
                    ids += known.matching(text)
                    starts.append(len(ids))
        return Patterns(texts, np.array(starts, np.int32), np.array(ids, np.int32))


class _Found:
    """The patterns of one attribute, and which of them the last texts matched; or the values that lists may hold."""

    def __init__(self, attribute: str, known: Known) -> None:
        self.attribute = attribute
        self.wants = list if isinstance(known, ElementMap) else str
        self._known: Any = known
        self._remembered: dict[str, list[int]] = {}

    def matching(self, text: Any) -> list[int]:
        if self.wants is list:
            return self._known.matching(text)  # type: ignore[no-any-return]
        found = self._remembered.get(text)
        if found is None:
            if len(self._remembered) >= _TEXTS_MAX:
                self._remembered.clear()
            found = self._remembered[text] = self._known.matching(text)
        return found


def _no_patterns(rows: int) -> Patterns:
    return Patterns(np.full((0, rows), -1, np.int32), np.zeros(1, np.int32), np.zeros(0, np.int32))


_NO_PATTERNS = [_no_patterns(rows) for rows in range(ROWS_MAX + 1)]


def _has_doubles(slot: Slot) -> bool:
    """Whether its constants, if they are numbers, are all doubles."""
    return not slot.edges or bool(slot.edges["float64"].exact.all())


def _constants(slots: Sequence[Slot]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The number constants of all slots in one array, which the slots then share: there may be millions."""
    edges = [slot.edges.get("float64") for slot in slots]
    sizes = [0 if each is None else each.values.size for each in edges]
    starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
    together = np.concatenate([np.zeros(0), *(each.values for each in edges if each is not None)])
    together.flags.writeable = False  # as those of a saved matcher are: one type for numba
    for each, start, size in zip(edges, starts.tolist(), sizes, strict=False):
        if each is not None:
            each.values = together[start : start + size]
    return together, starts


def _place_exactly(slot: Slot, number: int | float) -> int:
    if number != number:
        return UNKNOWN
    kind = "float64" if type(number) is float else "int64" if number < 2**63 else "uint64"
    return int(slot.edges_of(kind).codes(np.array([number], kind))[0])
