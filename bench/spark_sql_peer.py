"""The same match in plain Spark SQL: the conditions' operands as tables, joined with the events.

`join` makes one broadcast join per template of conditions (see `templates`): equalities and prefixes are hashed, the
rest is a filter on what the hash lets through, and pairs are made distinct in the end, which conditions with OR need.
`join, kept twice` leaves that last step out, which is right only where no condition has alternatives. `cross` compares
every event with every condition.
"""

from functools import reduce
from typing import Any

import pyarrow as pa

from bench.conditions import Atom, atoms, wildcard
from bench.templates import templates
from bench.workloads import Workload

Frame = Any  # pyspark is imported only where it is used


def _like(kind: str, attribute: str, operand: str) -> str:
    function = {"starts_with": "startswith", "ends_with": "endswith", "contains": "contains"}[kind]
    return f"{function}({attribute}, {operand})"


class SparkJoin:
    """Prepared once; `pairs` is then the plan of a whole match."""

    def __init__(self, spark: Any, work: Workload, events: Frame) -> None:
        from pyspark.sql import functions as F

        self._events = events
        self._parts = []
        for each in templates(work.trees, _like):
            ids = [work.ids[number] for number in each.subscriptions]
            operands = spark.createDataFrame(pa.table({"subscription": ids, **each.columns})).cache()
            operands.count()
            condition = " AND ".join([*(f"{left} = {right}" for left, right in each.keys), *each.rest])
            self._parts.append((F.broadcast(operands), F.expr(condition)))

    @property
    def templates(self) -> int:
        return len(self._parts)

    def pairs(self, distinct: bool) -> Frame:
        joined = [self._events.join(operands, on).select("seq", "subscription") for operands, on in self._parts]
        whole = reduce(lambda one, other: one.unionAll(other), joined)
        return whole.dropDuplicates(["seq", "subscription"]) if distinct else whole


def cross_join(spark: Any, work: Workload, events: Frame) -> Frame:
    """Every event beside every condition, and a filter of all the tests that some condition makes."""
    from pyspark.sql import functions as F

    tests: dict[str, str] = {}
    rows: list[dict[str, object]] = []
    for id_, tree in zip(work.ids, work.trees, strict=True):
        row: dict[str, object] = {"subscription": id_}
        for atom in atoms(tree):
            column, test, operand = _test(atom)
            tests[column] = f"({column} IS NULL OR {test})"
            row[column] = operand
        rows.append(row)
    columns = {name: [row.get(name) for row in rows] for name in ("subscription", *tests)}
    conditions = spark.createDataFrame(pa.table(columns)).cache()
    conditions.count()
    crossed = events.crossJoin(F.broadcast(conditions)).where(" AND ".join(tests.values()))
    return crossed.select("seq", "subscription")


def _test(atom: Atom) -> tuple[str, str, object]:
    if atom.op == "LIKE":
        assert isinstance(atom.operand, str)
        column = f"head_{atom.attribute}"
        return column, f"startswith({atom.attribute}, {column})", wildcard(atom.operand)[1]
    word = {"=": "is", "<": "below", ">": "above"}[atom.op]
    column = f"{word}_{atom.attribute}"
    return column, f"{atom.attribute} {atom.op} {column}", atom.operand
