"""Who takes part: each prepares itself for a workload, untimed, and then runs it as often as it is asked.

Preparation covers what depends on the conditions alone: an index, parameter tables, expressions. A run
starts with the Arrow table of events and ends with all pairs in memory, so whatever a contestant does to
the events first (encoding, loading) is in its time. A contestant that would take too long is given a part
of the work, and its time is scaled to the whole in proportion.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from bench.columnar import pairs, prepared
from bench.workloads import Workload


@dataclass(frozen=True)
class Outcome:
    seconds: float
    pairs: int


class Contestant(Protocol):
    name: str
    threads: int
    shape: str  # which of several ways to ask; empty when there is only one

    def prepare(self, work: Workload) -> None: ...
    def run(self) -> Outcome: ...


def timed(work: Callable[[], int]) -> Outcome:
    began = perf_counter()
    found = work()
    return Outcome(perf_counter() - began, found)


def with_row_numbers(table: pa.Table) -> pa.Table:
    """Databases need a column that says which event a row is; matchers count rows themselves."""
    return table.append_column("event", pa.array(np.arange(table.num_rows, dtype=np.int32)))


class HoldfastBatch:
    shape = ""

    def __init__(self, threads: int) -> None:
        self.name, self.threads = "holdfast", threads
        self.add_seconds = self.compile_seconds = 0.0

    def prepare(self, work: Workload) -> None:
        """Add the conditions, then match one event, which compiles the index."""
        from holdfast import Matcher

        self._table, self._matcher = work.table, Matcher()
        ids, texts = work.ids, work.texts
        began = perf_counter()
        for id_, condition in zip(ids, texts, strict=True):
            self._matcher.add(id_, condition)
        self.add_seconds = perf_counter() - began
        began = perf_counter()
        self._matcher.match_batch(work.table.slice(0, 1), threads=self.threads)
        self.compile_seconds = perf_counter() - began

    def with_threads(self, threads: int) -> "HoldfastBatch":
        """The same index, asked with another number of threads."""
        other = HoldfastBatch(threads)
        other._table, other._matcher = self._table, self._matcher
        return other

    def run(self) -> Outcome:
        # Another object each time, so that nothing kept from the last run can help.
        fresh = self._table.select(self._table.column_names)
        return timed(lambda: self._matcher.match_batch(fresh, threads=self.threads).num_rows)

    def found(self) -> "Found":
        return Found(self._matcher.match_batch(self._table, threads=self.threads))


class Found:
    """Holdfast's pairs, to count those that lie in the part which another contestant was given."""

    def __init__(self, table: pa.Table) -> None:
        column = table["subscription"].combine_chunks()
        numbers = np.array([int(id_[1:]) for id_ in column.dictionary.to_pylist()], np.int32)
        self._subscriptions = numbers[column.indices.to_numpy()]
        self._events = table["event"].to_numpy()

    def within(self, events: int, subscriptions: int) -> int:
        return int(np.count_nonzero((self._events < events) & (self._subscriptions < subscriptions)))


def warm_up() -> None:
    """Load numba and compile the kernels, so that no workload pays for it."""
    from bench.workloads import equality, ranges, strings

    for make in (equality, ranges, strings):
        for threads in (1, 2):
            small = HoldfastBatch(threads)
            small.prepare(make(2_000, 500))
            small.run()


class ScanEach:
    """The oracle, one event at a time."""

    name, threads, shape = "scan", 1, ""

    def prepare(self, work: Workload) -> None:
        from holdfast.matching.scan import Scan

        self._events: list[dict[str, Any]] = work.table.to_pylist()
        self._scan = Scan()
        for id_, condition in zip(work.ids, work.texts, strict=True):
            self._scan.add(id_, condition)

    def run(self) -> Outcome:
        return timed(lambda: sum(len(self._scan.match(event)) for event in self._events))


class NumpyScan:
    name, threads, shape = "numpy", 1, ""

    def prepare(self, work: Workload) -> None:
        self._table, self._trees = work.table, prepared(work)

    def run(self) -> Outcome:
        return timed(lambda: len(pairs(self._table, self._trees)[0]))
