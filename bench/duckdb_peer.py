"""DuckDB as a matcher, in the two shapes that we know of.

`join`: conditions that differ only in their operands are one parameter table, joined with the events
(bench.templates). `filters`: each condition is its own query with its text as it stands, many of them in
one UNION ALL. Result sets come out as Arrow. Which one is faster depends on the workload, so both are tried
and the better one is kept.
"""

import duckdb
import pyarrow as pa

from bench.contestants import Outcome, timed, with_row_numbers
from bench.templates import templates
from bench.workloads import Workload

SHAPES = ("join", "filters")
_CHUNK = 50  # queries in one UNION ALL: of 50, 200 and 1,000 the smallest planned and ran fastest
_LIKE = {"starts_with": "starts_with", "ends_with": "suffix", "contains": "contains"}


class DuckDB:
    name = "duckdb"

    def __init__(self, shape: str, threads: int | None) -> None:
        """`threads` None leaves the choice to DuckDB."""
        self.shape = shape
        self._connection = duckdb.connect(config={} if threads is None else {"threads": threads})
        self.threads = int(self._connection.execute("SELECT current_setting('threads')").fetchall()[0][0])

    def prepare(self, work: Workload) -> None:
        self._connection.register("events", with_row_numbers(work.table))
        self._queries = self._filters(work) if self.shape == "filters" else [self._join(work)]

    def _filters(self, work: Workload) -> list[str]:
        queries = [
            f"SELECT event, {number}::INTEGER AS subscription FROM loaded WHERE {condition}"
            for number, condition in enumerate(work.texts)
        ]
        return [" UNION ALL ".join(queries[i : i + _CHUNK]) for i in range(0, len(queries), _CHUNK)]

    def _join(self, work: Workload) -> str:
        once: list[str] = []
        several: list[str] = []
        for number, template in enumerate(templates(work.trees, _like)):
            columns = {"subscription": pa.array(template.subscriptions, pa.int32())} | template.columns
            self._connection.register(f"given{number}", pa.table(columns))
            on = " AND ".join([f"{left} = {right}" for left, right in template.keys] + template.rest)
            query = f"SELECT event, subscription FROM loaded JOIN given{number} ON {on}"
            (several if template.distinct else once).append(query)
        if several:
            once.append(f"SELECT DISTINCT event, subscription FROM ({' UNION ALL '.join(several)})")
        return " UNION ALL ".join(once)

    def run(self) -> Outcome:
        return timed(self._pairs)

    def _pairs(self) -> int:
        # A join reads the Arrow table a few times, and loading it does not pay; filters read it very often.
        kind = "TABLE" if self.shape == "filters" else "VIEW"
        self._connection.execute(f"CREATE OR REPLACE TEMP {kind} loaded AS SELECT * FROM events")
        tables = [self._connection.sql(query).to_arrow_table() for query in self._queries]
        self._connection.execute(f"DROP {kind} loaded")
        return sum(table.num_rows for table in tables)


def _like(kind: str, attribute: str, operand: str) -> str:
    return f"{_LIKE[kind]}({attribute}, {operand})"
