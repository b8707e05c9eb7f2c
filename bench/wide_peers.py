"""Who matches wide ranges beside Holdfast: NumPy, DuckDB, Polars, and the matchers of two papers as numba kernels.

All of them get the conditions as boxes, arrays of bounds, and prepare what depends on these alone. REIN (Qian et al.,
2014) marks the conditions that fail: per attribute, those whose low bound is above the event's value and those whose
high bound is below it lie together. OpIndex (Zhang et al., 2014) counts the bounds that hold: conditions are divided by
a pivot attribute, and each division has a sorted list per attribute and operator.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from time import process_time
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.contestants import with_row_numbers

VALUES = 1_000_000  # attributes are integers from 1 to this
Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Shape:
    conditions: int
    attributes: int = 20
    constraints: int = 10
    width: float = 0.4

    @property
    def title(self) -> str:
        return f"{self.conditions:,} conditions, {self.constraints} of {self.attributes} attributes, {self.width}"


class Boxes:
    """Conditions: each tests some attributes, drawn at random, with low <= a <= low + width."""

    def __init__(self, shape: Shape, seed: int = 7) -> None:
        self.shape = shape
        dice = np.random.default_rng(seed)
        parts = []
        for first in range(0, shape.conditions, 100_000):
            count = min(100_000, shape.conditions - first)
            drawn = np.argsort(dice.random((count, shape.attributes), np.float32), axis=1)[:, : shape.constraints]
            parts.append(np.sort(drawn, axis=1).astype(np.int32))
        self.slots = np.concatenate(parts)
        span = int(shape.width * VALUES)
        self.lows = dice.integers(1, VALUES - span + 1, self.slots.shape, np.int32)
        self.highs = self.lows + np.int32(span)

    def part(self, conditions: int) -> "Boxes":
        found = object.__new__(Boxes)
        found.shape = Shape(conditions, self.shape.attributes, self.shape.constraints, self.shape.width)
        found.slots, found.lows, found.highs = (each[:conditions] for each in (self.slots, self.lows, self.highs))
        return found

    @property
    def names(self) -> list[str]:
        return [f"a{at}" for at in range(self.shape.attributes)]

    def events(self, count: int, seed: int = 8) -> pa.Table:
        dice = np.random.default_rng(seed)
        return pa.table({name: dice.integers(1, VALUES + 1, count) for name in self.names})

    @cached_property
    def by_attribute(self) -> list[tuple[Longs, Ints, Ints]]:
        """For each attribute who tests it, and the bounds."""
        found = []
        for at in range(self.shape.attributes):
            mine = self.slots == at
            found.append((np.flatnonzero(mine) // self.shape.constraints, self.lows[mine], self.highs[mine]))
        return found

    def dense(self) -> dict[str, Ints]:
        """A low and a high column per attribute, wide open where it is not tested."""
        columns: dict[str, Ints] = {}
        for at, (owners, lows, highs) in enumerate(self.by_attribute):
            low, high = np.zeros(self.shape.conditions, np.int32), np.full(self.shape.conditions, VALUES + 1, np.int32)
            low[owners], high[owners] = lows, highs
            columns |= {f"l{at}": low, f"h{at}": high}
        return columns


class Timed:
    """CPU seconds of all threads, and the pairs found, for some events."""

    name = ""
    conditions_max = 1_000_000  # given more, a peer gets so many, and its time is scaled
    tests_max = 50_000_000  # events times conditions that it is given at most

    def __init__(self, boxes: Boxes, events: pa.Table) -> None: ...

    def run(self) -> int:
        raise NotImplementedError

    def best(self, rounds: int) -> tuple[float, int]:
        seconds, found = np.inf, -1
        for _ in range(rounds):
            began = process_time()
            found = self.run()
            seconds = min(seconds, process_time() - began)
        return seconds, found


def rows_of(events: pa.Table) -> Longs:
    return np.ascontiguousarray(np.stack([column.to_numpy() for column in events.columns], axis=1))


class Numpy(Timed):
    name = "numpy"

    def __init__(self, boxes: Boxes, events: pa.Table) -> None:
        self._boxes, self._events = boxes, rows_of(events)
        assert boxes.by_attribute

    def run(self) -> int:
        found = 0
        for event in self._events:
            held = np.ones(self._boxes.shape.conditions, np.bool_)
            for value, (owners, lows, highs) in zip(event, self._boxes.by_attribute, strict=True):
                held[owners[(value < lows) | (value > highs)]] = False
            found += np.flatnonzero(held).size
        return found


class DuckDB(Timed):
    name = "duckdb"
    conditions_max, tests_max = 10_000, 1_000_000

    def __init__(self, boxes: Boxes, events: pa.Table) -> None:
        import duckdb

        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.register("events", with_row_numbers(events))
        columns: dict[str, Any] = {"subscription": np.arange(boxes.shape.conditions, dtype=np.int32)}
        self._connection.register("boxes", pa.table(columns | boxes.dense()))
        self._on = " AND ".join(f"{name} BETWEEN l{at} AND h{at}" for at, name in enumerate(boxes.names))

    def run(self) -> int:
        query = f"SELECT event, subscription FROM events JOIN boxes ON {self._on}"
        return self._connection.sql(query).to_arrow_table().num_rows


class Polars(Timed):
    name = "polars"
    conditions_max, tests_max = 10_000, 1_000_000

    def __init__(self, boxes: Boxes, events: pa.Table) -> None:
        import polars as pl

        found = pl.from_arrow(with_row_numbers(events))
        assert isinstance(found, pl.DataFrame)
        columns: dict[str, Any] = {"subscription": np.arange(boxes.shape.conditions, dtype=np.int32)}
        given = pl.DataFrame(columns | boxes.dense())
        within: list[Any] = []
        for at, name in enumerate(boxes.names):
            within += [pl.col(name) >= pl.col(f"l{at}"), pl.col(name) <= pl.col(f"h{at}")]
        self._query = found.lazy().join_where(given.lazy(), *within).select("event", "subscription")

    def run(self) -> int:
        return len(self._query.collect())


_compiled: Callable[[Any], Any] = nb.njit(cache=True, nogil=True)


@_compiled
def _mark_failing(events, starts, lows, low_owners, highs, high_owners, marks, out):  # type: ignore[no-untyped-def]
    found = 0
    for e in range(events.shape[0]):
        marks[:] = 0
        for at in range(events.shape[1]):
            begin, end, value = starts[at], starts[at + 1], events[e, at]
            for i in range(begin + np.searchsorted(lows[begin:end], value, side="right"), end):
                marks[low_owners[i]] = 1
            for i in range(begin, begin + np.searchsorted(highs[begin:end], value)):
                marks[high_owners[i]] = 1
        n = 0
        for i in range(marks.size):
            out[n] = i
            n += 1 - marks[i]
        found += n
    return found


@_compiled
def _count_holding(events, starts, lows, low_owners, highs, high_owners, needed, counts, out):  # type: ignore[no-untyped-def]
    found, attributes = 0, events.shape[1]
    for e in range(events.shape[0]):
        counts[:] = 0
        for pivot in range(attributes):
            for at in range(attributes):
                begin, end, value = starts[pivot * attributes + at], starts[pivot * attributes + at + 1], events[e, at]
                for i in range(begin, begin + np.searchsorted(lows[begin:end], value, side="right")):
                    counts[low_owners[i]] += 1
                for i in range(begin + np.searchsorted(highs[begin:end], value), end):
                    counts[high_owners[i]] += 1
        n = 0
        for i in range(counts.size):
            out[n] = i
            n += np.int64(counts[i] == needed)
        found += n
    return found


class _SortedLists(Timed):
    """For each group of bounds, those of low and of high bounds sorted, with their conditions."""

    def __init__(self, boxes: Boxes, events: pa.Table) -> None:
        self._events, self._shape = rows_of(events), boxes.shape
        group = self.groups(boxes).reshape(-1)
        count = self.group_count(boxes)
        owners = np.repeat(np.arange(boxes.shape.conditions, dtype=np.int32), boxes.shape.constraints)
        self._lists = [np.searchsorted(np.sort(group), np.arange(count + 1))]
        for bounds in (boxes.lows.reshape(-1), boxes.highs.reshape(-1)):
            order = np.lexsort((bounds, group))
            self._lists += [bounds[order], owners[order]]
        self._scratch = np.zeros(boxes.shape.conditions, np.uint8)
        self._out = np.empty(boxes.shape.conditions + 1, np.int32)

    def groups(self, boxes: Boxes) -> Ints:
        return boxes.slots

    def group_count(self, boxes: Boxes) -> int:
        return boxes.shape.attributes


class Rein(_SortedLists):
    name = "REIN"

    def run(self) -> int:
        return int(_mark_failing(self._events, *self._lists, self._scratch, self._out))


class OpIndex(_SortedLists):
    name = "OpIndex"

    def groups(self, boxes: Boxes) -> Ints:
        """The pivot is the attribute that the fewest conditions test."""
        rare = np.argsort(np.argsort(np.bincount(boxes.slots.reshape(-1), minlength=boxes.shape.attributes)))
        pivots = np.take_along_axis(boxes.slots, np.argmin(rare[boxes.slots], axis=1)[:, None], axis=1)
        return pivots * np.int32(boxes.shape.attributes) + boxes.slots

    def group_count(self, boxes: Boxes) -> int:
        return boxes.shape.attributes**2

    def run(self) -> int:
        needed = 2 * self._shape.constraints
        return int(_count_holding(self._events, *self._lists, needed, self._scratch, self._out))


PEERS: tuple[type[Timed], ...] = (Numpy, DuckDB, Polars, Rein, OpIndex)
