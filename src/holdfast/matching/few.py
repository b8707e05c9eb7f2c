"""A few events as Python maps, matched with a compiled image: what brokers have in hand, and `Matcher.match`.

A table goes through Arrow, which costs half a millisecond however short it is. Here each value goes straight to its
place in the row of codes, or of numbers that the kernel finds the codes of, and all passes are one call.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cache
from operator import itemgetter
from struct import Struct
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.language.parser import parse
from holdfast.matching.columns import Columns
from holdfast.matching.elements import ElementMap, Known
from holdfast.matching.kernels import EXACT, HITS_AT_ONCE, FewArrays, Ints, Patterns, match_few
from holdfast.matching.levels import ROWS_MAX
from holdfast.matching.placing import place_texts
from holdfast.matching.slots import FALSE, MISSING, PRESENT, TRUE, UNKNOWN, Slot, SlotKind
from holdfast.matching.too_many_pairs import TooManyPairsError
from holdfast.model.event import Attributes
from holdfast.model.values import microseconds

_TEXTS_MAX = 4_096  # per slot and pattern column; then all are forgotten. Events repeat most of their texts.
_ROOM = 4_096  # pairs, to begin with; grows as needed
_PAIRS_MAX = 2**21  # for several events: 16 MiB, and a broker with a million conditions has sixteen levels

_AT_ONCE_MIN = 4  # numbers of an event: fewer are as quickly put one by one
_NUMBERS = frozenset((int, float))
_COLUMNS_MIN = 6  # events of a run: fewer are as quickly put one by one
_TRUTHS: dict[Any, int] = {None: UNKNOWN, True: TRUE, False: FALSE}
_TOO_LARGE = -2  # what `match_few` says of an integer that is no double

_TYPES: dict[SlotKind, tuple[type, ...]] = {
    SlotKind.NUMBER: (int, float),
    SlotKind.STRING: (str,),
    SlotKind.BOOLEAN: (bool,),
    SlotKind.TIMESTAMP: (datetime,),
}


class Few:
    """A compiled image, asked with maps."""

    def __init__(self, columns: Columns, rows_max: int = ROWS_MAX) -> None:
        """`rows_max` events it can be asked about at a time."""
        self._image, slots, self._residuals = columns.image, columns.slots, columns.residuals
        self._opened_most = columns.opened_most
        self._slots: dict[str, dict[type, int]] = {}  # attribute -> type of its value -> slot
        self._present: list[tuple[str, int]] = []
        for at, slot in enumerate(slots):
            if slot.sort is SlotKind.PRESENCE:
                self._present.append((slot.attribute, at))
            else:
                place = at if _has_doubles(slot) else ~at  # negative: its constants are not all doubles
                self._slots.setdefault(slot.attribute, {}).update(dict.fromkeys(_TYPES[slot.sort], place))
        self._named = list(self._slots.items())
        self._columns = [(name, places, itemgetter(name)) for name, places in self._named]
        self._take_all: Callable[[Attributes], Any] = itemgetter(*self._slots) if self._slots else dict
        self._all = slots
        self._texts: dict[int, dict[str | None, int]] = {
            at: {} for at, each in enumerate(slots) if each.text is not None
        }
        self._width = len(slots)
        self._patterns = [_Found(attribute, known) for attribute, known in columns.patterns]
        self._set_numbers(slots)
        self._constants = _constants(slots, self._number_slots)
        template = [MISSING if slot.sort is SlotKind.PRESENCE else UNKNOWN for slot in slots]
        self._blank = np.array([template] * rows_max, np.int32).reshape(rows_max, self._width)
        self._codes, self._values = self._blank.copy(), np.full((rows_max, len(self._number_slots)), np.nan)
        self._code_at: Any = memoryview(self._codes.reshape(-1))  # type: ignore[arg-type]  # a third of NumPy's time
        self._value_at: Any = memoryview(self._values.reshape(-1))  # type: ignore[arg-type]
        self._make_room(_ROOM)

    def _set_numbers(self, slots: Sequence[Slot]) -> None:
        """The slots whose codes the kernel finds; where there are many, how an event's numbers are taken at once."""
        kinds = SlotKind.NUMBER, SlotKind.TIMESTAMP
        exact = [at for at, slot in enumerate(slots) if slot.sort in kinds and _has_doubles(slot)]
        self._number_slots = sorted(exact, key=lambda at: slots[at].sort is SlotKind.TIMESTAMP)
        self._column_of = {slot: column for column, slot in enumerate(self._number_slots)}
        names = [slots[at].attribute for at in exact if slots[at].sort is SlotKind.NUMBER]
        self._take = itemgetter(*names) if len(names) >= _AT_ONCE_MIN else None
        self._pack = Struct(f"{len(names)}d").pack_into
        taken = {each for each in names if len(self._slots[each]) == len(_TYPES[SlotKind.NUMBER])}  # never texts
        self._beside = [(name, places) for name, places in self._slots.items() if name not in taken]

    def _make_room(self, pairs: int) -> None:
        self._rows, self._found = np.empty(pairs, np.int32), np.empty(pairs, np.int32)
        slots, most = np.array(self._number_slots, np.int64), self._opened_most
        hits = np.empty((2, pairs + HITS_AT_ONCE + most), np.int32)
        given = slots, self._values, self._codes, self._blank, most, self._rows, self._found, hits[0], hits[1]
        self._arrays = FewArrays(self._image, *self._constants, *given)

    def match(self, events: Sequence[Attributes]) -> tuple[Ints, Ints]:
        """Pairs of an event's place and a subscription's number, good until the next call.

        A TooManyPairsError when those of all these events would take too much memory: ask about fewer.
        A subscription with several filters may come more than once.
        """
        try:
            written = self._match(events)
        except BaseException:
            self._codes[:], self._values[:] = self._blank, np.nan  # the next events must not find these
            raise
        rows, found = self._rows[:written], self._found[:written]
        if self._residuals is None:
            return rows, found
        return self._residuals.kept(rows, found, lambda asked: [events[row] for row in asked.tolist()])

    def _match(self, events: Sequence[Attributes]) -> int:
        packed = self._take is not None
        if len(events) >= _COLUMNS_MIN:
            packed = True
            self._put_columns(events)
        else:
            for row, event in enumerate(events):
                if self._take is None or not self._put_numbers(row, event):
                    self._put(row, event, self._named)
        patterns = self._match_patterns(events) if self._patterns else _NO_PATTERNS[len(events)]
        while True:
            written: int = match_few(self._arrays, len(events), patterns, packed)
            if written >= 0:
                return written
            if written == _TOO_LARGE:
                packed, self._values[: len(events)] = False, np.nan
                for row, event in enumerate(events):
                    self._put(row, event, self._named)
            elif len(events) > 1 and self._found.size >= _PAIRS_MAX:
                raise TooManyPairsError
            else:
                self._make_room(2 * self._found.size)

    def _put_numbers(self, row: int, event: Attributes) -> bool:
        """The numbers in one go, and the rest; False, with nothing done, unless all of them are there and numbers."""
        assert self._take is not None
        try:
            numbers = self._take(event)
            if not _NUMBERS.issuperset(map(type, numbers)):
                return False
            self._pack(self._value_at, 8 * row * len(self._number_slots), *numbers)
        except (KeyError, OverflowError):
            return False
        if self._beside or self._present:
            self._put(row, event, self._beside)
        return True

    def _put(self, row: int, event: Attributes, slots: Iterable[tuple[str, dict[type, int]]]) -> None:
        self._put_values(row, event, slots)
        for name, at in self._present:
            if event.get(name) is not None:
                self._code_at[row * self._width + at] = PRESENT

    def _put_values(self, row: int, event: Attributes, slots: Iterable[tuple[str, dict[type, int]]]) -> None:
        code_at, begin, given = self._code_at, row * self._width, event.get
        value: Any
        for name, places in slots:
            value = given(name)
            kind = type(value)
            at = places.get(kind)
            if at is None:
                continue
            if kind is str:
                code = self._texts[at].get(value)
                code_at[begin + at] = self._text_code(at, value) if code is None else code
            elif kind is bool:
                code_at[begin + at] = TRUE if value else FALSE
            else:
                number = microseconds(value) if kind is datetime else value
                if at >= 0 and (kind is float or -EXACT <= number <= EXACT):
                    self._value_at[row * len(self._number_slots) + self._column_of[at]] = number
                else:
                    at = at if at >= 0 else ~at
                    code_at[begin + at] = _place_exactly(self._all[at], number)

    def _put_columns(self, events: Sequence[Attributes]) -> None:
        """All events of a run, attribute by attribute: values of one kind become codes without a loop in Python."""
        rows = len(events)
        for (name, places, _), values in zip(self._columns, self._values_of(events), strict=True):
            if not self._put_column(values, places):
                for row, event in enumerate(events):
                    self._put_values(row, event, [(name, places)])
        for name, at in self._present:
            self._codes[:rows, at] = [MISSING if event.get(name) is None else PRESENT for event in events]

    def _values_of(self, events: Sequence[Attributes]) -> Iterable[Sequence[Any]]:
        """Attribute by attribute, the value that each event has of it; None where it has none."""
        if len(self._columns) > 1:
            try:
                return zip(*map(self._take_all, events), strict=True)
            except KeyError:  # some do not have them all
                pass
        return [_values_of_one(events, name, given) for name, _, given in self._columns]

    def _put_column(self, values: Sequence[Any], places: dict[type, int]) -> bool:
        """False, with nothing done, where values are of several kinds, or constants no doubles."""
        at = places.get(str)
        if at is not None and len(places) == 1:
            try:  # texts that came before: no value of another kind equals one
                self._codes[: len(values), at] = _integers(map(self._texts[at].__getitem__, values), len(values))
                return True
            except (KeyError, TypeError):  # a list cannot be looked up
                pass
        kinds = set(map(type, values))
        somewhere_none = NoneType in kinds
        kinds.discard(NoneType)
        if not kinds.isdisjoint(_NUMBERS):
            kind: type = float if kinds <= _NUMBERS else NoneType
        else:
            kind = kinds.pop() if len(kinds) == 1 else NoneType
        at = places.get(kind)
        if at is None:
            return kind is not NoneType or not kinds
        if kind is str:
            self._codes[: len(values), at] = self._text_codes(at, values)
        elif kind is bool:
            self._codes[: len(values), at] = _integers(map(_TRUTHS.__getitem__, values), len(values))
        elif at < 0:
            return False
        else:
            if kind is datetime:
                values = [each if each is None else microseconds(each) for each in values]
            try:
                self._values[: len(values), self._column_of[at]] = values if somewhere_none else _doubles(values)
            except OverflowError:
                return False
        return True

    def _text_codes(self, at: int, texts: Sequence[Any]) -> list[int]:
        known: dict[Any, int] = self._texts[at]
        return [self._text_code(at, each) if (code := known.get(each)) is None else code for each in texts]

    def _text_code(self, at: int, text: str | None) -> int:
        if text is None:
            self._texts[at][None] = UNKNOWN
            return UNKNOWN
        known = self._texts[at]
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


_EVERY_KERNEL = ("n = 9007199254740993 OR n = 18446744073709551615", "t = 'a'", "p LIKE 'a%b'", "n < 1 AND t > 'a'")
_EVERY_WAY: tuple[Attributes, ...] = ({"n": 1, "t": "b", "p": "ab"}, {"n": 2**63}, {"n": 0.5}, {"n": 2**60})


def use_every_kernel() -> None:
    """Match a few events with a few conditions, so that each kernel of this way has been called.

    The first call of a kernel compiles it, seconds, or loads its code, a third of a second for all. Whoever has to
    answer quickly has another thread do that beforehand.
    """
    few = Few(Columns.of([parse(each).filters for each in _EVERY_KERNEL]))
    few.match(_EVERY_WAY)


def _no_patterns(rows: int) -> Patterns:
    return Patterns(np.full((0, rows), -1, np.int32), np.zeros(1, np.int32), np.zeros(0, np.int32))


_NO_PATTERNS = [_no_patterns(rows) for rows in range(ROWS_MAX + 1)]


def _values_of_one(events: Sequence[Attributes], name: str, given: Callable[[Attributes], Any]) -> list[Any]:
    try:
        return list(map(given, events))
    except KeyError:
        return [event.get(name) for event in events]


def _doubles(numbers: Sequence[int | float]) -> npt.NDArray[np.float64]:
    """A third of the time that NumPy takes to find out what a sequence holds."""
    return np.frombuffer(_packed(len(numbers), "d")(*numbers))


def _integers(numbers: Iterable[int], count: int) -> Ints:
    return np.frombuffer(_packed(count, "i")(*numbers), np.int32)


@cache
def _packed(count: int, kind: str) -> Callable[..., bytes]:
    return Struct(f"{count}{kind}").pack


def _has_doubles(slot: Slot) -> bool:
    """Whether its constants, if they are numbers, are all doubles."""
    return not slot.edges or bool(slot.edges["float64"].exact.all())


def _constants(slots: Sequence[Slot], chosen: Sequence[int]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The constants of these slots in one array, which the slots then share: there may be millions."""
    edges = [slots[at].edges["float64"] for at in chosen]
    starts = np.cumsum([0, *(each.values.size for each in edges)], dtype=np.int64)
    together = np.concatenate([np.zeros(0), *(each.values for each in edges)])
    together.flags.writeable = False  # as those of a saved matcher are: one type for numba
    for each, start, end in zip(edges, starts.tolist(), starts[1:].tolist(), strict=False):
        each.values = together[start:end]
    return together, starts


def _place_exactly(slot: Slot, number: int | float) -> int:
    kind = "float64" if type(number) is float else "int64" if number < 2**63 else "uint64"
    codes = np.empty((1, 1), np.int32)
    slot.edges_of(kind).put(np.array([number], kind), codes[:, 0])
    return int(codes[0, 0])
