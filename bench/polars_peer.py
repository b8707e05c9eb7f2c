"""Polars as a matcher, in the three shapes that we know of.

`join`: as for DuckDB, parameter tables joined with the events (bench.templates); ranges by `join_where`.
Conditions with nothing to join on, such as LIKE '%word%', go as masks, because crossing them with the
events takes far longer. `masks`: all conditions are expressions of one select and give their row numbers.
`filters`: each condition is its own lazy query, collected together. The best is kept. Polars decides its
number of threads when it is imported.
"""

import polars as pl

from bench.conditions import Tree, text
from bench.contestants import Outcome, timed, with_row_numbers
from bench.templates import Template, joinable, templates
from bench.workloads import Workload

SHAPES = ("join", "masks", "filters")
_CHUNK = 500  # expressions in one query: 50 were no faster


class Polars:
    name = "polars"

    def __init__(self, shape: str) -> None:
        self.shape = shape
        self.threads = pl.thread_pool_size()

    def prepare(self, work: Workload) -> None:
        self._table = with_row_numbers(work.table)
        joined = [n for n, tree in enumerate(work.trees) if self.shape == "join" and joinable(tree)]
        self._templates = [_Join(each, joined) for each in templates([work.trees[n] for n in joined], _like)]
        taken = set(joined)
        alone = [n for n in range(len(work.trees)) if n not in taken]
        self._expressions = [(number, _expression(work.trees[number])) for number in alone]

    def run(self) -> Outcome:
        return timed(self._pairs)

    def _pairs(self) -> int:
        frame = pl.from_arrow(self._table)
        assert isinstance(frame, pl.DataFrame)
        events = frame.lazy()
        found: list[pl.DataFrame] = []
        once = [each.query(events) for each in self._templates if not each.distinct]
        several = [each.query(events) for each in self._templates if each.distinct]
        if several:
            once.append(pl.concat(several).unique())
        if once:
            found.append(pl.concat(pl.collect_all(once)))
        for i in range(0, len(self._expressions), _CHUNK):
            chunk = self._expressions[i : i + _CHUNK]
            found.append(_filtered(events, chunk) if self.shape == "filters" else _masked(events, chunk))
        return sum(map(len, found))


class _Join:
    def __init__(self, template: Template, numbers: list[int]) -> None:
        """`numbers` says which subscription a tree of the template was."""
        self.distinct = template.distinct
        columns = {name: pl.Series(values, strict=False) for name, values in template.columns.items()}
        subscriptions = pl.Series([numbers[n] for n in template.subscriptions], dtype=pl.Int32)
        self._given = pl.DataFrame({"subscription": subscriptions} | columns).lazy()
        self._keys = [(pl.sql_expr(left), right) for left, right in template.keys]
        self._box = template.bounds
        self._rest = [pl.sql_expr(each) for each in template.rest]

    def query(self, events: pl.LazyFrame) -> pl.LazyFrame:
        if self._box:
            floats = events.with_columns(pl.col(name).cast(pl.Float64) for name, _, _ in self._box)
            within = [
                test
                for name, low, high in self._box
                for test in (pl.col(name) >= pl.col(low), pl.col(name) <= pl.col(high))
            ]
            return floats.join_where(self._given, *within).select("event", "subscription")
        left, right = zip(*self._keys, strict=True)
        joined = events.join(self._given, left_on=list(left), right_on=list(right))
        for test in self._rest:
            joined = joined.filter(test)
        return joined.select("event", "subscription")


def _expression(tree: Tree) -> pl.Expr:
    return pl.sql_expr(text(tree))


def _like(kind: str, attribute: str, operand: str) -> str:
    return f"strpos({attribute}, {operand}) > 0" if kind == "contains" else f"{kind}({attribute}, {operand})"


def _filtered(events: pl.LazyFrame, chunk: list[tuple[int, pl.Expr]]) -> pl.DataFrame:
    queries = [events.filter(test).select("event", subscription=pl.lit(n, pl.Int32)) for n, test in chunk]
    return pl.concat(pl.collect_all(queries))


def _masked(events: pl.LazyFrame, chunk: list[tuple[int, pl.Expr]]) -> pl.DataFrame:
    rows = events.select(expression.arg_true().implode().alias(str(number)) for number, expression in chunk)
    lists = rows.collect().transpose(column_names=["event"])
    numbers = pl.Series("subscription", [number for number, _ in chunk], pl.Int32)
    return lists.with_columns(numbers).explode("event").drop_nulls("event")
