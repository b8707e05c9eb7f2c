"""The tables of runs as relations. Every one has a column `run`, so that several runs go through one plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol

import pyarrow as pa

from holdfast.books.runs import attribute_of
from holdfast.books.trace import PUBLICATION, SCHEMAS
from holdfast.pipeline.audit.trace_footers import ATTRIBUTE, RunFooters
from holdfast.pipeline.engine import Engine, Relation

_NUMBERED = ("subscriptions", "deliveries")


class TraceEngine(Engine, Protocol):
    """An engine that can also read a run's files, and match its publications with its subscriptions."""

    def trace_table(self, run: RunFooters, name: str) -> Relation:
        """As written, and `run`; of subscriptions and deliveries also `part` and `place`, their file and row."""
        ...

    def matches(self, run: RunFooters, subscriptions: Relation) -> Relation:
        """`run` and publications with the numbers of the subscriptions that match them, whenever those were active."""
        ...


@dataclass(frozen=True)
class Trace:
    """The tables of all runs of an audit."""

    engine: TraceEngine
    runs: Sequence[RunFooters]

    @cached_property
    def subscriptions(self) -> Relation:
        """`number` tells them apart: a subscriber may take an id again that it gave up."""
        return self._together("subscriptions", "subscriber", "number", "condition", "from_us", "until_us")

    @cached_property
    def deliveries(self) -> Relation:
        """`number` is the order in which they were written: what came in one moment happened in that order."""
        return self._together("deliveries", "subscriber", "source", "seq", "time_us", "via", "held_us", "number")

    @cached_property
    def publications(self) -> Relation:
        return self._together("publications", *(name for name, _ in PUBLICATION))

    @cached_property
    def messages(self) -> Relation:
        return self._together("messages", *SCHEMAS["messages"].names)

    @cached_property
    def links(self) -> Relation:
        return self._together("links", *SCHEMAS["links"].names)

    @cached_property
    def incidents(self) -> Relation:
        return self._together("incidents", *SCHEMAS["incidents"].names)

    @cached_property
    def samples(self) -> Relation:
        return self._together("samples", "node", "time_us", "name", "value", "bound")

    @cached_property
    def matches(self) -> Relation:
        """`subscription` is a number of `subscriptions`."""
        found = []
        for run in self.runs:
            own = self.engine.sql(f"SELECT number AS id, condition FROM {self._numbered(run, 'subscriptions')}")
            found.append(f"SELECT run, source, seq, published_us, subscription FROM {self.engine.matches(run, own)}")
        return self.engine.sql(" UNION ALL ".join(found))

    def one(self, label: str) -> Relation:
        """A table of one row, to look at that run alone."""
        return self.engine.table(pa.table({"run": [label]}))

    def _together(self, table: str, *columns: str) -> Relation:
        rows = (self._numbered(run, table) if table in _NUMBERED else self._table(run, table) for run in self.runs)
        return self.engine.sql(" UNION ALL ".join(f"SELECT run, {', '.join(columns)} FROM {each}" for each in rows))

    def _table(self, run: RunFooters, name: str) -> str:
        return str(self.engine.trace_table(run, name))

    def _numbered(self, run: RunFooters, name: str) -> str:
        sizes = run.parts[name]
        rows = self._table(run, name)
        if len(sizes) == 1:
            return f"(SELECT *, place AS number FROM {rows}) AS numbered"
        before = list(accumulate(sizes.values(), initial=0))[:-1]
        offsets = self.engine.table(pa.table({"part": [*sizes], "before": pa.array(before, pa.int64())}))
        return f"(SELECT t.*, before + place AS number FROM {rows} AS t JOIN {offsets} USING (part)) AS numbered"


def attributes_of(run: RunFooters) -> dict[str, list[str]]:
    """The columns of each attribute; more than one when its values have several types."""
    found: dict[str, list[str]] = {}
    for column in run.schemas["publications"].names:
        if column.startswith(ATTRIBUTE):
            found.setdefault(attribute_of(column), []).append(column)
    return found
