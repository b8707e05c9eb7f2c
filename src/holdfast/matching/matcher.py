"""The public matcher: one set of subscriptions, asked with one event or with a whole table.

Nothing is built before it is needed. The live index is made by the first `match` and kept up to date by every `add` and
`remove`. The compiled columns are made by the first `match_batch`; later changes are kept beside them, as a small
second set and a mask of removed ones, until there are enough to make compiling anew worth while.

Not for use by several threads at once; `match_batch` may itself use several.
"""

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.language.parser import as_subscription, parse
from holdfast.language.subscription import Filter, Subscription
from holdfast.matching.columns import Columns, Pairs
from holdfast.matching.index import Index
from holdfast.matching.storage import load, save
from holdfast.model.errors import MisuseError
from holdfast.model.event import attributes_of

Id = str | int

_CHANGES_MIN = 1_000  # compiling this few anew costs milliseconds
_CHANGES_SHARE = 8  # compile all anew when an eighth has changed: each subscription is then compiled O(log n) times


class Matcher:
    """Which subscriptions want an event? Ids are strings, or integers of 64 bits; one matcher has one sort of id."""

    def __init__(self) -> None:
        self._subscriptions: dict[Id, tuple[Filter, ...]] = {}
        self._unread: _Compiled | None = None  # opened from a file, its conditions not parsed yet
        self._index: Index[Id] | None = None
        self._compiled: _Compiled | None = None

    def __len__(self) -> int:
        return self._unread.columns.size if self._unread is not None else len(self._subscriptions)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._read()

    def add(self, id_: Id, condition: str | Subscription) -> None:
        """Add a subscription; a ConditionError or MisuseError leaves everything as it was."""
        subscriptions = self._read()
        self._check_id(id_)
        if id_ in subscriptions:
            raise MisuseError(f"there is a subscription {id_!r} already; remove it first")
        filters = as_subscription(condition).filters
        subscriptions[id_] = filters
        if self._index is not None:
            self._index.add(id_, filters)
        if self._compiled is not None:
            self._compiled.add(id_, filters)

    def remove(self, id_: Id) -> None:
        """Take a subscription out; a MisuseError when there is none of this id."""
        filters = self._read().pop(id_, None)
        if filters is None:
            raise MisuseError(f"there is no subscription {id_!r}")
        if self._index is not None:
            self._index.remove(id_, filters)
        if self._compiled is not None:
            self._compiled.remove(id_)

    def match(self, event: Mapping[str, object]) -> list[Id]:
        """The ids of the subscriptions that want this event, in no particular order."""
        if not isinstance(event, Mapping):
            raise MisuseError(f"an event is a map from names to values, not {type(event).__name__}")
        if self._index is None:
            self._index = self._build_index()
        return self._index.match(attributes_of(event))

    def match_batch(self, events: pa.Table | pa.RecordBatch, threads: int = 1) -> pa.Table:
        """All matching pairs, each once: `event` is the row's number, `subscription` the id.

        Takes an Arrow table or batch, or anything that exports itself as one (Polars, pandas, DuckDB). Pairs come
        in no particular order.
        """
        if threads < 1:
            raise MisuseError(f"threads: expected at least 1, found {threads}")
        table = _table(events)
        if self._compiled is None or self._compiled.worn:
            self._compiled = self._compile()
        return self._compiled.match(table, threads)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the compiled matcher to a file that `Matcher.open` maps into memory."""
        if self._compiled is None or self._compiled.changed:
            self._compiled = self._compile()
        conditions = (
            self._unread.conditions
            if self._unread is not None
            else pa.array([str(Subscription(each)) for each in self._subscriptions.values()], pa.large_string())
        )
        save(Path(path), self._compiled.columns, self._compiled.ids, conditions)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Matcher":
        """A saved matcher. Batches run on the mapped file at once; the first other call parses its conditions."""
        matcher = cls()
        matcher._compiled = matcher._unread = _Compiled(*load(Path(path)))
        return matcher

    def _build_index(self) -> Index[Id]:
        index: Index[Id] = Index()
        with _collector_paused():
            for id_, filters in self._read().items():
                index.add(id_, filters)
        return index

    def _read(self) -> dict[Id, tuple[Filter, ...]]:
        if self._unread is not None:
            ids, conditions = self._unread.ids.to_pylist(), self._unread.conditions.to_pylist()
            self._subscriptions = {id_: parse(text).filters for id_, text in zip(ids, conditions, strict=True)}
            self._unread = None
        return self._subscriptions

    def _check_id(self, id_: Id) -> None:
        if type(id_) is not str and (type(id_) is not int or not -(2**63) <= id_ < 2**63):
            raise MisuseError(f"an id is a string or a 64-bit integer, not {id_!r}")
        if type(id_) is str and not id_.isascii() and not _encodable(id_):
            raise MisuseError(f"the id {id_!a} holds a lone surrogate, which is not valid text")
        other = next(iter(self._subscriptions), id_)
        if type(other) is not type(id_):
            raise MisuseError(f"ids are all strings or all integers; {id_!r} does not go with {other!r}")

    def _compile(self) -> "_Compiled":
        subscriptions = self._read()
        with _collector_paused():
            columns = Columns.of(subscriptions.values())
        return _Compiled(columns, _id_array(list(subscriptions)))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Building an index makes millions of objects and no garbage; looking for it would double the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Compiled:
    """Compiled columns with their ids, and what has changed since they were compiled."""

    def __init__(self, columns: Columns, ids: pa.Array, conditions: pa.Array = None) -> None:
        self.columns = columns
        self.ids = ids
        self.conditions = conditions  # the texts, when they come from a file
        self._added: dict[Id, Sequence[Filter]] = {}
        self._extra: Columns | None = None  # the added ones, compiled when they are first needed
        self._other_ids = False  # all have been removed, and others of the other sort of id added
        self._removed = 0
        self._alive: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None
        self._numbers: dict[Id, int] | None = None  # made by the first removal

    @property
    def changed(self) -> bool:
        return bool(self._added or self._removed)

    @property
    def worn(self) -> bool:
        if self._other_ids:
            return True
        changes = len(self._added) + self._removed
        return changes > max(_CHANGES_MIN, self.columns.size // _CHANGES_SHARE)

    def add(self, id_: Id, filters: Sequence[Filter]) -> None:
        self._added[id_] = filters
        self._other_ids |= (type(id_) is int) is not pa.types.is_integer(self.ids.type)
        self._extra = None

    def remove(self, id_: Id) -> None:
        if id_ in self._added:
            del self._added[id_]
            self._extra = None
            return
        if self._numbers is None or self._alive is None:
            self._numbers = {each: number for number, each in enumerate(self.ids.to_pylist())}
            self._alive = np.ones(self.columns.size, bool)
        self._alive[self._numbers.pop(id_)] = False
        self._removed += 1

    def match(self, table: pa.Table, threads: int) -> pa.Table:
        pairs = self.columns.match(table, threads)
        ids = self.ids
        if self._alive is not None:
            pairs = [(rows[kept], numbers[kept]) for rows, numbers in pairs for kept in [self._alive[numbers]]]
        if self._added:
            if self._extra is None:
                self._extra = Columns.of(self._added.values())
            ids = pa.concat_arrays([ids, _id_array(list(self._added))])
            first = np.int32(self.columns.size)
            pairs += [(rows, numbers + first) for rows, numbers in self._extra.match(table, threads)]
        return _pair_table(pairs, ids)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _id_array(ids: list[Id]) -> pa.Array:
    return pa.array(ids, pa.int64() if ids and type(ids[0]) is int else pa.large_string())


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
