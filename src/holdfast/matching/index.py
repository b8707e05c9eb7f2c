"""The index in Python: add, remove, and match one event, at once and without compiling anything.

Each filter is filed under one access test that an event must pass to be interested in it at all: an equality,
an IN list (under each of its values), a LIKE pattern, an element of a list or IS NULL, whichever promises to let the
fewest events through. An event looks up the buckets that its own values open and asks only those; filters with
nothing but ranges lie in one more bucket that every event asks. Within a bucket, runs do the work.
"""

from collections.abc import Hashable, Iterator, Sequence
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from holdfast.language.constraint import CONTAINS, Constraint
from holdfast.language.subscription import Filter
from holdfast.matching.elements import ElementMap
from holdfast.matching.marks import Marked
from holdfast.matching.patterns import PatternMap
from holdfast.matching.predicates import Predicate, PredicateOfEach, predicate, predicate_of_each
from holdfast.matching.residuals import Residuals, to_index
from holdfast.matching.runs import RunShape, SortedRun, shape_of
from holdfast.model.event import Attributes
from holdfast.model.values import Value, utc

K = TypeVar("K", bound=Hashable)

_TINY_MAX = 3  # filters of a whole index that are just asked: looking up doors costs as much as asking three
_FEW_MAX = 6  # filters kept as a plain list: below this, testing each costs less than the runs' bookkeeping
_SEEN_MAX = 1_024  # distinct values counted per attribute; beyond that, more would not change a choice
_IN_ACCESS_MAX = 16  # a longer IN list is filed under another test: it would be copied into too many buckets


class Bucket(Generic[K]):
    """The filters that share an access test."""

    __slots__ = ("_few", "_runs", "_sure", "_tests")

    def __init__(self) -> None:
        self._few: list[tuple[Filter, K]] | None = []
        # The same in two lists, made when an event first asks: keys that have nothing left to test, and functions.
        self._sure: list[K] = []
        self._tests: list[tuple[Predicate, K]] | None = None
        self._runs: dict[RunShape, SortedRun[K]] = {}

    def __bool__(self) -> bool:
        return bool(self._few or self._runs)

    def add(self, rest: Filter, key: K) -> None:
        if self._few is None:
            self._add_to_run(rest, key)
            return
        self._few.append((rest, key))
        self._tests = None
        if len(self._few) > _FEW_MAX:
            few, self._few = self._few, None
            for each in few:
                self._add_to_run(*each)

    def _add_to_run(self, rest: Filter, key: K) -> None:
        shape, bounds, left_over = shape_of(rest)
        run = self._runs.get(shape)
        if run is None:
            run = self._runs[shape] = SortedRun(shape)
        run.add(bounds, left_over, key)

    def remove(self, rest: Filter, key: K) -> bool:
        """Take a filter out; False when it is not here."""
        if self._few is not None:
            if (rest, key) not in self._few:
                return False
            self._few.remove((rest, key))
            self._tests = None
            return True
        shape, bounds, left_over = shape_of(rest)
        run = self._runs.get(shape)
        if run is None or not run.remove(bounds, left_over, key):
            return False
        if not run:
            del self._runs[shape]
        return True

    def tests(self) -> list[tuple[Predicate | None, K]] | None:
        """What is asked of an event, filter by filter; None where there are too many."""
        if self._few is None:
            return None
        made = self._made()
        return [*((None, key) for key in self._sure), *made]

    def _made(self) -> list[tuple[Predicate, K]]:
        assert self._few is not None
        if self._tests is None:
            self._sure = [key for rest, key in self._few if not rest]
            self._tests = [(predicate(rest), key) for rest, key in self._few if rest]
        return self._tests

    def collect(self, attributes: Attributes, out: list[K]) -> None:
        if self._few is None:
            for run in self._runs.values():
                run.collect(attributes, out)
            return
        tests = self._tests
        if tests is None:
            tests = self._made()
        if self._sure:
            out += self._sure
        for test, key in tests:
            if test(attributes):
                out.append(key)


class _Doors(Generic[K]):
    """The buckets that one attribute's value opens."""

    __slots__ = ("elements", "equal", "missing", "patterns", "seen", "truth")

    def __init__(self) -> None:
        self.equal: dict[Value, Bucket[K]] = {}
        self.truth: dict[Value, Bucket[K]] = {}  # apart from `equal`, because True == 1 in Python
        self.patterns: PatternMap[Bucket[K]] = PatternMap()
        self.elements: ElementMap[Bucket[K]] = ElementMap()
        self.missing: dict[None, Bucket[K]] = {}
        self.seen: set[Value] = set()  # values that equality tests name, whether filed under them or not

    def note(self, constraint: Constraint) -> None:
        """Learn how many values the tests on this attribute tell apart."""
        if constraint.op in ("=", "LIKE", CONTAINS) and len(self.seen) < _SEEN_MAX:
            self.seen.add(constraint.operand)


class _Access(NamedTuple):
    """One way to file a filter: the door's map and the keys in it."""

    constraint: Constraint
    weight: float  # how many ways the test splits the events: more is better


class Index(Marked[K]):
    def __init__(self) -> None:
        super().__init__()
        self._doors: dict[str, _Doors[K]] = {}
        self._missing: dict[str, _Doors[K]] = {}  # those of _doors that an absent attribute opens
        # The filters behind those doors in a row: most events pass most of them, and calls would cost the most.
        self._absent: list[tuple[str, Predicate | None, K]] | None = None
        self._absent_many: list[tuple[str, Bucket[K]]] = []  # doors with too many filters for that
        self._open: Bucket[K] = Bucket()  # filters that every event has to ask
        # Keys with several filters, which one event may reach twice: the place of each filter's access test in it.
        self._repeated: dict[K, list[int]] = {}
        self._tiny: list[tuple[Filter, K]] | None = []  # all filters, as long as they are so few that doors do not pay
        self._tests: list[tuple[Predicate, K]] | None = None
        self._test_each: PredicateOfEach | None = None  # of the only filter
        self._residuals: Residuals[K] = Residuals()

    def add(self, key: K, filters: Sequence[Filter]) -> None:
        given, filters = filters, to_index(filters)
        if filters is not given:
            self._residuals.add(key, given)
        places: list[int] = []
        self._tests = self._absent = self._test_each = None
        if self._tiny is not None:
            self._tiny += [(each, key) for each in filters]
            if len(self._tiny) > _TINY_MAX:
                self._tiny = None
        for filter_ in filters:
            for each in filter_:
                self._doors_of(each.attribute).note(each)
            access = max(self._accesses(filter_), key=lambda found: found.weight, default=None)
            rest = _without(filter_, access)
            if len(filters) > 1:
                places.append(-1 if access is None else _place(filter_, access))
            for bucket in self._buckets(access, create=True):
                bucket.add(rest, key)
        if len(filters) > 1:
            self._repeated[key] = places

    def remove(self, key: K, filters: Sequence[Filter]) -> None:
        self._marks.pop(key, None)
        if key in self._residuals.tests:
            filters = to_index(filters)
            self._residuals.remove(key)
        places = self._repeated.pop(key, None)
        self._tests = self._absent = self._test_each = None
        if self._tiny is not None:
            self._tiny = [each for each in self._tiny if each[1] != key or each[0] not in filters]
        for at, filter_ in enumerate(filters):
            # The weights have moved on since the filter was added, so look behind each door it may have taken. Where
            # a key has several filters, a bucket may hold another one that looks the same; then we remember the door.
            for access in (*self._accesses(filter_), None) if places is None else (_access_at(filter_, places[at]),):
                rest = _without(filter_, access)
                found = [bucket.remove(rest, key) for bucket in self._buckets(access, create=False)]
                if access is not None:
                    self._tidy(access)
                if any(found):
                    break

    def match(self, attributes: Attributes) -> list[K]:
        if self._tiny is None:
            found = self._match_by_doors(attributes)
            return self._residuals.kept(found, attributes) if self._residuals.tests else found
        tests = self._tests
        if tests is None:
            tests = self._tests = [(predicate(filter_), key) for filter_, key in self._tiny]
        out = []
        for test, key in tests:
            if test(attributes):
                out.append(key)
        found = list(dict.fromkeys(out)) if self._repeated else out
        return self._residuals.kept(found, attributes) if self._residuals.tests else found

    def match_each(self, events: Sequence[Attributes]) -> list[list[K]]:
        """What `match` says of each event."""
        if self._tiny is None or len(self._tiny) != 1 or self._residuals.tests:
            return [self.match(each) for each in events]
        ((filter_, key),) = self._tiny
        if self._test_each is None:
            self._test_each = predicate_of_each(filter_)
        return self._test_each(events, [key], [])

    def _match_by_doors(self, attributes: Attributes) -> list[K]:
        out: list[K] = []
        doors_of = self._doors.get
        few = len(attributes) <= len(self._doors)
        for name, value in attributes.items() if few else [(name, attributes.get(name)) for name in self._doors]:
            doors = doors_of(name)
            if doors is None or value is None:
                continue
            if type(value) is datetime:
                value = utc(value)
            elif type(value) is list:
                for filed in doors.elements.matching(value):
                    filed.collect(attributes, out)
                continue
            bucket = (doors.truth if type(value) is bool else doors.equal).get(value)
            if bucket is not None:
                bucket.collect(attributes, out)
            if type(value) is str and doors.patterns.shelves:
                for bucket in doors.patterns.matching(value):
                    bucket.collect(attributes, out)
        if self._missing:
            self._collect_absent(attributes, out)
        if self._open._few or self._open._runs:
            self._open.collect(attributes, out)
        return list(dict.fromkeys(out)) if self._repeated else out

    def _collect_absent(self, attributes: Attributes, out: list[K]) -> None:
        absent = self._absent
        if absent is None:
            absent = self._line_up()
        given = attributes.get
        for name, test, key in absent:
            if given(name) is None and (test is None or test(attributes)):
                out.append(key)
        for name, bucket in self._absent_many:
            if given(name) is None:
                bucket.collect(attributes, out)

    def _line_up(self) -> list[tuple[str, Predicate | None, K]]:
        absent: list[tuple[str, Predicate | None, K]] = []
        self._absent_many = []
        for name, doors in self._missing.items():
            tests = doors.missing[None].tests()
            if tests is None:
                self._absent_many.append((name, doors.missing[None]))
            else:
                absent += [(name, test, key) for test, key in tests]
        self._absent = absent
        return absent

    def _doors_of(self, attribute: str) -> _Doors[K]:
        doors = self._doors.get(attribute)
        if doors is None:
            doors = self._doors[attribute] = _Doors()
        return doors

    def _accesses(self, filter_: Filter) -> Iterator[_Access]:
        for each in filter_:
            op = each.op
            if op == "=":
                yield _Access(each, len(self._doors[each.attribute].seen))
            elif op == "IN" and len(each.operand) <= _IN_ACCESS_MAX:
                weight = len(self._doors[each.attribute].seen) / len(each.operand)
                yield _Access(each, max(weight, 1))
            elif op in ("LIKE", CONTAINS):  # a list has several elements, and a text may fit several patterns
                yield _Access(each, len(self._doors[each.attribute].seen) / 2)
            elif op == "IS NULL":
                yield _Access(each, 1)

    def _buckets(self, access: _Access | None, create: bool) -> Iterator[Bucket[K]]:
        """The buckets that an access test files a filter in."""
        if access is None:
            yield self._open
            return
        (attribute, op, operand), doors = access.constraint, self._doors[access.constraint.attribute]
        if op in ("LIKE", CONTAINS):
            filed = doors.patterns if op == "LIKE" else doors.elements
            bucket = filed.get(operand)
            if bucket is None and create:
                bucket = Bucket()
                filed.put(operand, bucket)
            if bucket is not None:
                yield bucket
            return
        if op == "IS NULL" and create:
            self._missing[attribute] = doors
        table = _table(doors, op, operand)
        for value in operand if isinstance(operand, tuple) else (operand,):
            if create and value not in table:
                table[value] = Bucket()
            if value in table:
                yield table[value]

    def _tidy(self, access: _Access) -> None:
        """Forget buckets that have become empty, so that a busy index does not grow."""
        (attribute, op, operand), doors = access.constraint, self._doors[access.constraint.attribute]
        if op in ("LIKE", CONTAINS):
            filed = doors.patterns if op == "LIKE" else doors.elements
            bucket = filed.get(operand)
            if bucket is not None and not bucket:
                filed.pop(operand)
            return
        table = _table(doors, op, operand)
        for value in operand if isinstance(operand, tuple) else (operand,):
            if value in table and not table[value]:
                del table[value]
        if op == "IS NULL" and not table:
            self._missing.pop(attribute, None)


def _table(doors: _Doors[K], op: str, operand: object) -> dict[Any, Bucket[K]]:
    if op == "IS NULL":
        return doors.missing
    first = operand[0] if isinstance(operand, tuple) else operand
    return doors.truth if type(first) is bool else doors.equal


def _place(filter_: Filter, access: _Access) -> int:
    return next(at for at, each in enumerate(filter_) if each is access.constraint)


def _access_at(filter_: Filter, place: int) -> _Access | None:
    return None if place < 0 else _Access(filter_[place], 0)


def _without(filter_: Filter, access: _Access | None) -> Filter:
    if access is None:
        return filter_
    return tuple([each for each in filter_ if each is not access.constraint])
