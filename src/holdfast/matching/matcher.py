"""The public matcher: one set of subscriptions, asked with one event or with a whole table.

Nothing is compiled before it is needed. The first `match` or `match_batch` compiles all there is; what changes later is
in a small index in Python, and for tables in a small second image, until there is enough of it for a level of its own
(see `levels`). Both ways of asking use the same images.

Not for use by several threads at once; `match_batch` may itself use several.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.language.parser import as_subscription, parse
from holdfast.language.subscription import Filter, Subscription
from holdfast.matching import collector
from holdfast.matching.archive import Archive
from holdfast.matching.columns import Columns, Pairs
from holdfast.matching.levels import CompiledLevel, Levels, compiled
from holdfast.matching.number_keys import NumberKeys
from holdfast.matching.pair_runs import PairRuns
from holdfast.matching.storage import load, save
from holdfast.matching.trimming import trim_heap
from holdfast.model.errors import MisuseError
from holdfast.model.event import attributes_of

Id = str | int


class Matcher:
    """Which subscriptions want an event? Ids are strings, or integers of 64 bits; one matcher has one sort of id."""

    def __init__(self) -> None:
        self._index: Levels[Id] = Levels()
        self._opened: _Opened | None = None  # as it was opened or built, until something changes
        self._tables = _Tables()

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._index

    def add(self, id_: Id, condition: str | Subscription) -> None:
        """Add a subscription; a ConditionError or MisuseError leaves everything as it was."""
        self._check_id(id_)
        if id_ in self._index:
            raise MisuseError(f"there is a subscription {id_!r} already; remove it first")
        self._index.add(id_, as_subscription(condition).filters)
        self._opened = None

    def remove(self, id_: Id) -> None:
        """Take a subscription out; a MisuseError when there is none of this id."""
        if id_ not in self._index:
            raise MisuseError(f"there is no subscription {id_!r}")
        self._index.remove(id_)
        self._opened = None

    def match(self, event: Mapping[str, object]) -> list[Id]:
        """The ids of the subscriptions that want this event, in no particular order."""
        if not isinstance(event, Mapping):
            raise MisuseError(f"an event is a map from names to values, not {type(event).__name__}")
        return self._index.match(attributes_of(event))

    def match_batch(self, events: pa.Table | pa.RecordBatch, threads: int = 1) -> pa.Table:
        """All matching pairs, each once: `event` is the row's number, `subscription` the id.

        Takes an Arrow table or batch, or anything that exports itself as one (Polars, pandas, DuckDB). Pairs come
        in no particular order.
        """
        if threads < 1:
            raise MisuseError(f"threads: expected at least 1, found {threads}")
        table = _table(events)
        self._index.settle(first=True)
        return self._tables.match(self._index, table, threads)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the compiled matcher to a file that `Matcher.open` maps into memory."""
        if self._opened is not None:
            opened = self._opened
            conditions = pa.array(opened.conditions, pa.large_string())
            save(Path(path), opened.level.columns, opened.ids, conditions)
            return
        filters = dict(self._index.items())
        level = compiled(filters)
        conditions = pa.array([str(Subscription(tuple(each))) for each in filters.values()], pa.large_string())
        save(Path(path), level.columns, _id_array(list(filters)), conditions)

    @classmethod
    def build(cls, subscriptions: Iterable[tuple[Id, str | Subscription]]) -> "Matcher":
        """A matcher of many subscriptions, compiled as they come: a million take a tenth of the memory of `add`."""
        matcher, ids, archive = cls(), dict[Id, None](), Archive()

        def filters() -> Iterator[Sequence[Filter]]:
            for id_, condition in subscriptions:
                matcher._check_id(id_, next(iter(ids), id_))
                if id_ in ids:
                    raise MisuseError(f"two subscriptions have the id {id_!r}")
                ids[id_] = None
                found = as_subscription(condition)
                archive.add(str(found))
                yield found.filters

        with collector.paused():
            columns = Columns.of(filters())
        array = _id_array(list(ids))
        ids.clear()
        matcher._take(columns, array, archive).few()
        trim_heap()
        return matcher

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Matcher":
        """A saved matcher, asked on the mapped file at once. Its conditions are parsed when it is compiled anew."""
        matcher = cls()
        matcher._take(*load(Path(path)))
        return matcher

    def _take(self, columns: Columns, ids: pa.Array, conditions: "Archive | pa.Array") -> CompiledLevel[Id]:
        def filters(number: int) -> Sequence[Filter]:
            return parse(str(conditions[number])).filters

        def keys() -> list[Id] | NumberKeys:
            return NumberKeys(ids.to_numpy()) if pa.types.is_integer(ids.type) else ids.to_pylist()

        level: CompiledLevel[Id] = CompiledLevel(columns, keys, filters)
        self._opened = _Opened(level, ids, conditions)
        if level.size:
            self._index.levels.append(level)
            self._tables.keep(level, ids)
        return level

    def _check_id(self, id_: Id, other: Id | None = None) -> None:
        if type(id_) is not str and (type(id_) is not int or not -(2**63) <= id_ < 2**63):
            raise MisuseError(f"an id is a string or a 64-bit integer, not {id_!r}")
        if type(id_) is str and not id_.isascii() and not _encodable(id_):
            raise MisuseError(f"the id {id_!a} holds a lone surrogate, which is not valid text")
        if other is None:
            known = (key for level in self._index.levels for key in level.keys if key is not None)
            other = next(iter(self._index.filters), next(known, id_))
        if type(other) is not type(id_):
            raise MisuseError(f"ids are all strings or all integers; {id_!r} does not go with {other!r}")


@dataclass(frozen=True)
class Grouped:
    """Pairs as slices of the compiled image where they stand together in it, and the others one by one."""

    runs: list[PairRuns]
    pairs: pa.Table
    ids: pa.Array  # of the runs' subscription numbers, and the dictionary of the pairs


def match_grouped(matcher: Matcher, events: pa.Table | pa.RecordBatch) -> Grouped:
    """The pairs of `match_batch` for who does not need them one by one."""
    matcher._index.settle(first=True)
    return matcher._tables.match_grouped(matcher._index, _table(events))


@dataclass
class _Opened:
    """What a file holds, or what was built."""

    level: CompiledLevel[Id]
    ids: pa.Array
    conditions: "Archive | pa.Array"


class _Tables:
    """What asking with tables needs beside the levels: their ids as one array, and what is not in any level."""

    def __init__(self) -> None:
        self._changes = -1
        self._levels: list[CompiledLevel[Id]] = []
        self._ids = _id_array([])
        self._kept: dict[int, tuple[CompiledLevel[Id], pa.Array]] = {}  # by identity of the level: its ids

    def match(self, index: Levels[Id], table: pa.Table, threads: int) -> pa.Table:
        if index.changes != self._changes:
            self._prepare(index)
        pairs: list[Pairs] = []
        first = 0
        for level in self._levels:
            found = level.columns.match(table, threads)
            if level.gone:
                alive = np.ones(level.columns.size, bool)
                alive[level.gone] = False
                found = [(rows[kept], numbers[kept]) for rows, numbers in found for kept in [alive[numbers]]]
            pairs += [(rows, numbers + np.int32(first)) for rows, numbers in found] if first else found
            first += level.columns.size
        return _pair_table(pairs, self._ids)

    def match_grouped(self, index: Levels[Id], table: pa.Table) -> Grouped:
        if index.changes != self._changes:
            self._prepare(index)
        if len(self._levels) != 1 or self._levels[0].gone:
            return Grouped([], self.match(index, table, 1), self._ids)
        runs, pairs = self._levels[0].columns.match_runs(table)
        return Grouped(runs, _pair_table(pairs, self._ids), self._ids)

    def keep(self, level: CompiledLevel[Id], ids: pa.Array) -> None:
        self._kept[id(level)] = level, ids

    def _prepare(self, index: Levels[Id]) -> None:
        recent = index.recent
        self._levels = [*index.levels, compiled(recent)] if recent else list(index.levels)
        known, self._kept = self._kept, {}
        for level in self._levels:
            kept = known.get(id(level))
            self._kept[id(level)] = kept if kept is not None else (level, _id_array(list(level.keys)))
        arrays = [ids for _, ids in self._kept.values()]
        self._ids = pa.concat_arrays(arrays) if len(arrays) > 1 else arrays[0] if arrays else _id_array([])
        self._changes = index.changes


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _id_array(ids: Sequence[Id | None]) -> pa.Array:
    first = next((each for each in ids if each is not None), "")
    return pa.array(ids, pa.int64() if type(first) is int else pa.large_string())


def _pair_table(pairs: list[Pairs], ids: pa.Array) -> pa.Table:
    kind = pa.dictionary(pa.int32(), ids.type)
    rows = pa.chunked_array([_ints(each) for each, _ in pairs], pa.int32())
    found = [pa.DictionaryArray.from_arrays(_ints(each), ids, safe=False) for _, each in pairs]
    return pa.table({"event": rows, "subscription": pa.chunked_array(found, kind)})


def _ints(values: np.ndarray[tuple[int], np.dtype[np.int32]]) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), values.size, [None, pa.py_buffer(values)])


def _table(events: object) -> pa.Table:
    if isinstance(events, pa.Table):
        return events
    if isinstance(events, pa.RecordBatch):
        return pa.Table.from_batches([events])
    if hasattr(events, "__arrow_c_stream__"):
        return pa.table(events)
    raise MisuseError(
        f"match_batch takes an Arrow table or batch, not {type(events).__name__}; use match for one event"
    )
