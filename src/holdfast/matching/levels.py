"""One index for single events, runs of events and tables: compiled images, and what changed since.

What is added goes into a small index in Python, which answers at once. When that has grown, its filters are compiled
into a level, an image of their own; when there are several levels of about one size, they become one. So a filter is
compiled a few times however many there are, and an event asks few levels. What is removed leaves a gap in its level
until that is compiled anew.

Compiling is done when an event asks, or by a thread: a broker must not stop for it. Until a level is ready, what it
will replace answers.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from functools import cache, cached_property
from itertools import chain
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from holdfast.language.subscription import Filter, apart
from holdfast.matching import collector
from holdfast.matching.background import LOCK_SHARED
from holdfast.matching.marks import Marked
from holdfast.matching.recent import Recent
from holdfast.matching.too_many_pairs import TooManyPairsError, parts_of
from holdfast.model.event import Attributes
from holdfast.model.large_map import LargeMap

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from holdfast.matching.columns import Columns
    from holdfast.matching.few import Few
    from holdfast.matching.kernels import Ints
    from holdfast.matching.level_marks import LevelMarks
    from holdfast.matching.number_keys import NumberKeys

K = TypeVar("K", bound=Hashable)
Filters = Sequence[Filter]

RECENT_MAX = 256  # filters in the index in Python: compiling so few takes some milliseconds
_TIER = 8  # levels become one when there are so many whose sizes are within this factor
_ASKED_PER_FILTER = 4  # levels asked in vain, after which one for all pays: a filter takes so many times as long
_THREADED_MAX = 65_536  # filters of a level that a thread makes: more would keep the interpreter's lock too long
_YOUNG_MAX = 4_096  # filters of a broker that the garbage collector looks at: a million would stop it for a second
_PART_OBJECTS = 2  # a part of an expression is as many objects as so many filters
_CAUGHT_UP_MAX = 2_048  # keys that changed while a level was made, and are caught up with when an event comes
_CAUGHT_UP_AT_ONCE = 32  # likewise when a filter comes or goes: more than one, so that it comes to an end
_PAIRS_FEW = 64  # of a call, that a loop in Python is quick enough for
ROWS_MAX = 512  # events that a level is asked about at a time: more than a frame brings of the usual ones
_CELLS_MAX = 2**18  # but fewer where each has a place for many attributes: 4 MiB, however many conditions name


def _least(tier: int) -> int:
    """How many keys a level of a tier has at least; in the lowest, any number."""
    return RECENT_MAX * int(_TIER**tier)


def _objects_of(filters: Filters) -> int:
    """What the garbage collector would look at, in filters of plain tests."""
    parts: list[int] = [each.operand.size for filter_ in filters for each in apart(filter_)[1]]
    return len(filters) + _PART_OBJECTS * sum(parts)


class CompiledLevel(Generic[K]):
    """Keys whose filters were compiled together. One that was removed is None."""

    def __init__(
        self,
        columns: "Columns",
        keys: "Callable[[], list[K] | NumberKeys]",
        filters: Callable[[int], Filters] | None = None,
    ) -> None:
        """`keys` is called when they are first needed: a table that is matched on a mapped file never needs them.

        `filters` says what was compiled, by number, where the index does not keep it.
        """
        self.columns = columns
        self.filters = filters
        self.filter_count = columns.size  # as it was compiled, unless whoever compiles it knows better
        self._make_keys = keys
        self.gone: list[int] = []
        self._numbers: dict[K, int] | None = None
        self._few: Few | None = None
        self._marks: LevelMarks | None = None
        self._key_array: npt.NDArray[np.object_] | None = None
        self._repeats = bool(columns.image.repeated.any())

    @cached_property
    def keys(self) -> "list[K | None] | NumberKeys":
        keys = self._make_keys()
        return list(keys) if type(keys) is list else cast("NumberKeys", keys)

    @property
    def size(self) -> int:
        """Keys that are still there."""
        return self.columns.size - len(self.gone)

    @cached_property
    def rows_max(self) -> int:
        """Events that it can be asked about at a time."""
        return max(1, min(ROWS_MAX, _CELLS_MAX // max(1, len(self.columns.slots))))

    @property
    def tier(self) -> int:
        tier = 0
        while self.size >= _least(tier + 1):
            tier += 1
        return tier

    def numbers(self) -> dict[K, int]:
        if self._numbers is None:
            self._numbers = {key: number for number, key in enumerate(self.keys) if key is not None}
        return self._numbers

    def items(self) -> Iterator[tuple[K, Filters]]:
        """Its keys, with the filters that it has itself."""
        assert self.filters is not None
        for number, key in enumerate(self.keys):
            if key is not None:
                yield key, self.filters(number)

    def few(self) -> "Few":
        if self._few is None:
            from holdfast.matching.few import Few  # noqa: PLC0415  # loads numba

            self._few = Few(self.columns, self.rows_max)
        return self._few

    def remove(self, key: K) -> bool:
        """False when the key is not here."""
        number = self.numbers().pop(key, None)
        if number is None:
            return False
        self.keys[number] = None
        if self._key_array is not None:
            self._key_array[number] = None
        self.gone.append(number)
        if self._marks is not None:
            self._marks.put(number, 0)
        return True

    def set_marks(self, marks: Mapping[K, int]) -> None:
        """Take the bits of all its keys."""
        from holdfast.matching.level_marks import LevelMarks  # noqa: PLC0415  # loads numba

        self._marks = LevelMarks(self.columns.size)
        for key, number in self.numbers().items():
            self._marks.put(number, marks.get(key, 0))

    def mark(self, key: K, bits: int) -> None:
        """The bits of a key, if it is here."""
        number = self.numbers().get(key)
        if number is not None and self._marks is not None:
            self._marks.put(number, bits)

    def collect_marks(self, events: Sequence[Attributes], out: list[int], marks: Mapping[K, int]) -> None:
        """Add the bits of the keys that match to those of each event; `marks` has all of them."""
        if self._marks is None:  # compiled before anything was marked
            self.set_marks(marks)
        assert self._marks is not None
        try:
            found = self.few().match(events)
        except TooManyPairsError:
            for part in parts_of(events):
                self.collect_marks(events[part], some := out[part], marks)
                out[part] = some
        else:
            self._marks.collect(*found, out)

    def collect(self, events: Sequence[Attributes], out: list[list[K]]) -> None:
        """Append the keys that match to the answer for each event."""
        try:
            rows, numbers = self.few().match(events)
        except TooManyPairsError:
            for part in parts_of(events):
                self.collect(events[part], out[part])
            return
        if numbers.size <= _PAIRS_FEW:
            keys, pairs = self.keys, zip(rows.tolist(), numbers.tolist(), strict=True)
            for row, number in dict.fromkeys(pairs) if self._repeats else pairs:
                key = keys[number]
                if key is not None:
                    out[row].append(key)
        else:
            self._collect_many(rows, numbers, out)

    def _collect_many(self, rows: "Ints", numbers: "Ints", out: list[list[K]]) -> None:
        """The same with whole arrays."""
        import numpy as np  # noqa: PLC0415  # a client of a few conditions never needs it

        if self._repeats:
            pairs = np.unique(rows.astype(np.int64) * self.columns.size + numbers)
            rows, numbers = pairs // self.columns.size, pairs % self.columns.size
        elif len(out) > 1:
            order = np.argsort(rows, kind="stable")
            rows, numbers = rows[order], numbers[order]
        found, at = self._keys_at(numbers), 0
        for each, count in zip(out, np.bincount(rows, minlength=len(out)).tolist(), strict=True):
            each += [key for key in found[at : at + count] if key is not None]
            at += count

    def _keys_at(self, numbers: "Ints") -> list[K | None]:
        import numpy as np  # noqa: PLC0415  # a client of a few conditions never needs it

        if type(self.keys) is not list:
            return cast("NumberKeys", self.keys).at(numbers)
        if self._key_array is None:
            self._key_array = np.fromiter(self.keys, object, len(self.keys))
        return cast(list[K | None], self._key_array[numbers].tolist())


def compiled(filters: dict[K, Filters]) -> CompiledLevel[K]:
    from holdfast.matching.columns import Columns  # noqa: PLC0415  # loads numba

    keys = list(filters)
    with collector.paused():
        level = CompiledLevel(Columns.of(filters.values()), lambda: keys)
    level.filter_count = sum(map(len, filters.values()))
    return level


@cache
def load_kernels() -> None:
    """Before an event needs them: its broker would stop for it. What is loaded stays, so no collection looks at it."""
    with collector.paused():
        from holdfast.matching import few, level_marks  # noqa: PLC0415  # loads numba

        few.use_every_kernel()
        level_marks.use_every_kernel()
        collector.leave_alone()  # while it is paused: its next look would hold everything up for a tenth of a second


class _Job(Generic[K]):
    """Levels on their way, and what they will replace."""

    def __init__(
        self,
        recent: Recent[K],
        replaced: list[CompiledLevel[K]],
        filters: Iterable[dict[K, Filters]],
        marks: Mapping[K, int],
    ) -> None:
        self.recent = recent
        self.replaced = replaced
        self.removed: deque[K] = deque()  # of what is compiled
        self.marked: deque[K] = deque()
        self._marks = marks
        self.levels: list[CompiledLevel[K]] = []
        self.problem: Exception | None = None
        self._filters = filters
        self._thread: Thread | None = None

    def start(self) -> None:
        self._thread = Thread(target=self.run, name="holdfast-compile", daemon=True)
        self._thread.start()

    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def catch_up(self, most: int) -> bool:
        """Take over what changed while levels were made, so many keys of it at most; whether that was all."""
        while self.removed and most > 0:
            key = self.removed.popleft()
            most -= 1
            for level in self.levels:
                if level.remove(key):
                    break
        while self.marked and most > 0:
            key = self.marked.popleft()
            most -= 1
            for level in self.levels:
                level.mark(key, self._marks.get(key, 0))
        return not self.removed and not self.marked

    def run(self) -> None:
        with LOCK_SHARED if self._thread is not None else nullcontext():
            try:
                if self._thread is not None:
                    load_kernels()
                for filters in self._filters:
                    level = compiled(filters)
                    level.numbers()
                    level.few()
                    if self._marks:
                        level.set_marks(self._marks)
                    self.levels.append(level)
            except Exception as problem:
                self.problem = problem


class Levels(Marked[K]):
    """The index. With `threaded` a thread compiles; otherwise the next event that asks does."""

    def __init__(self, threaded: bool = False) -> None:
        super().__init__()
        self.levels: list[CompiledLevel[K]] = []
        # Of all keys, without those that a level has itself.
        self.filters: MutableMapping[K, Filters] = LargeMap() if threaded else {}
        if threaded:
            self._marks = LargeMap()
        self.changes = 0  # goes up with every change, so that others can keep what they made
        self._recent: Recent[K] = Recent(at_once=threaded)
        self._job: _Job[K] | None = None
        self._threaded = threaded
        self._compiles = True
        self._asked = 0  # levels more than one, for each event since they last became fewer
        self._young = collector.Young(_YOUNG_MAX)

    @property
    def recent(self) -> dict[K, Filters]:
        """What is in no level yet."""
        return self._recent.filters

    def __len__(self) -> int:
        return len(self.filters) + sum(level.size for level in self._archives())

    def __contains__(self, key: object) -> bool:
        return key in self.filters or any(key in level.numbers() for level in self._archives())

    def items(self) -> Iterator[tuple[K, Filters]]:
        """All keys with their filters."""
        for level in self._archives():
            yield from level.items()
        yield from self.filters.items()

    def _archives(self) -> list[CompiledLevel[K]]:
        return [level for level in self.levels if level.filters is not None]

    def add(self, key: K, filters: Filters) -> None:
        self.filters[key] = filters
        self._recent.add(key, filters)
        self.changes += 1
        if self._threaded:
            self._young.grow_by(_objects_of(filters))
            self.settle(most=_CAUGHT_UP_AT_ONCE)

    def remove(self, key: K, filters: Filters = ()) -> None:
        gone = self.filters.pop(key, filters)
        self._young.grow_by(-_objects_of(gone) if self._threaded else 0)
        self._marks.pop(key, None)
        self.changes += 1
        if self._recent.remove(key):
            return
        if self._job is not None:
            self._job.removed.append(key)
            if self._job.recent.remove(key):
                return
            self.settle(most=_CAUGHT_UP_AT_ONCE)
        for level in self.levels:
            if level.remove(key):
                if not level.size and self._job is None:
                    self.levels.remove(level)
                return

    def mark(self, key: K, filters: Filters, bits: int) -> None:
        self._marks[key] = bits
        if self._job is not None and key not in self._recent.filters:
            self._job.marked.append(key)
        for level in self.levels:
            level.mark(key, bits)

    def marks(self, attributes: Attributes) -> int:
        return self.marks_each([attributes])[0]

    def marks_each(self, events: Sequence[Attributes]) -> list[int]:
        self.settle()
        if not self.levels and self._job is None:
            return super().marks_each(events)
        return [bits for run in self._runs(events) for bits in self._mark(run)]

    def _mark(self, events: Sequence[Attributes]) -> list[int]:
        changing = self._recent.filters or self._job is not None
        out = [self._together(each) for each in self._match_recent(events)] if changing else [0] * len(events)
        for level in self.levels:
            level.collect_marks(events, out, self._marks)
        self._asked += len(events) * len(self._small())
        return out

    def match(self, attributes: Attributes) -> list[K]:
        self.settle()
        if not self.levels and self._job is None:
            return self._recent.match(attributes)
        return self._match([attributes])[0]

    def match_each(self, events: Sequence[Attributes]) -> list[list[K]]:
        self.settle()
        if not self.levels and self._job is None:
            return self._recent.match_each(events)
        return [keys for run in self._runs(events) for keys in self._match(run)]

    def _runs(self, events: Sequence[Attributes]) -> Iterable[Sequence[Attributes]]:
        """The events, as many at a time as each level can be asked about."""
        rows = min([level.rows_max for level in self.levels], default=ROWS_MAX)
        return [events] if len(events) <= rows else [events[at : at + rows] for at in range(0, len(events), rows)]

    def _match(self, events: Sequence[Attributes]) -> list[list[K]]:
        out = self._match_recent(events)
        for level in self.levels:
            level.collect(events, out)
        self._asked += len(events) * len(self._small())
        return out

    def _match_recent(self, events: Sequence[Attributes]) -> list[list[K]]:
        """Of what is in no level yet."""
        recent = [self._recent] if self._job is None else [self._recent, self._job.recent]
        out: list[list[K]] = [[] for _ in events]
        for each in recent:
            if each.filters:
                for found, more in zip(out, each.match_each(events), strict=True):
                    found += more
        return out

    def settle(self, first: bool = False, most: int = _CAUGHT_UP_MAX) -> None:
        """Take over levels that are ready, and compile what has grown; with `first`, the first level however small.

        What changed while levels were made may be a whole table. At most so many keys are caught up with in one go.
        """
        job = self._job
        if job is not None and not job.running() and (job.problem is not None or job.catch_up(most)):
            self._adopt(job)
        grown = self._recent.count > RECENT_MAX or (first and not self.levels and bool(self._recent.filters))
        if self._job is None and grown and self._compiles:
            self._compile()
        elif self._job is None and self._asked and self._compiles:
            self._join_small()

    def _small(self) -> list[CompiledLevel[K]]:
        """Levels that a thread could make one of, with what is not compiled; none if there is nothing to gain."""
        found = [level for level in self.levels if 2 * level.filter_count < _THREADED_MAX] if self._threaded else []
        return found if len(found) + bool(self._recent.filters) > 1 else []

    def _join_small(self) -> None:
        """Where little changes and many events come, one level soon pays for itself."""
        small = self._small()
        if self._asked > _ASKED_PER_FILTER * (self._recent.count + sum(level.filter_count for level in small)):
            self._start(small)

    def _compile(self) -> None:
        replaced: list[CompiledLevel[K]] = []
        tiers: dict[int, list[CompiledLevel[K]]] = {}
        for level in self.levels:
            if 2 * level.size < level.columns.size:
                replaced.append(level)
            else:
                tiers.setdefault(level.tier, []).append(level)
        tier = 0
        while len(tiers.get(tier, [])) + 1 >= _TIER and not (self._threaded and _least(tier + 1) > _THREADED_MAX):
            replaced += tiers[tier]
            tier += 1
        self._start(replaced)

    def _start(self, replaced: list[CompiledLevel[K]]) -> None:
        """Compile what these levels have and what is not compiled."""
        recent, self._recent = self._recent, Recent(at_once=self._threaded)
        self._asked = 0
        for level in replaced:
            if level.filters is not None:
                self.filters.update(level.items())
                level.filters = None
        self._job = _Job(recent, replaced, self._parts(replaced, list(recent.filters)), self._marks)
        if self._threaded:
            self._job.start()
        else:
            self._job.run()
            self._adopt(self._job)

    def _parts(self, replaced: list[CompiledLevel[K]], recent: list[K]) -> Iterator[dict[K, Filters]]:
        """What to compile, level by level. Whoever compiles makes it: that takes a broker too long."""
        part: dict[K, Filters] = {}
        count = 0
        for key in chain(chain.from_iterable(level.keys for level in replaced), recent):
            each = None if key is None else self.filters.get(key)
            if key is None or each is None:  # it was removed
                continue
            if self._threaded and count + len(each) > _THREADED_MAX and part:
                yield part
                part, count = {}, 0
            part[key] = each
            count += len(each)
        yield part

    def _adopt(self, job: _Job[K]) -> None:
        self._job = None
        if job.problem is not None:
            self._compiles = False  # the packages are missing: the index in Python has to do
            for key, filters in job.recent.filters.items():
                self._recent.add(key, filters)
            if not isinstance(job.problem, ImportError):
                raise job.problem
            return
        kept = [level for level in self.levels if level not in job.replaced]
        self.levels = [level for level in kept + job.levels if level.size]
        self.changes += 1
