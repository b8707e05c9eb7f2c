"""The window of a trace that grows: what may still change, as a small trace of its own, and sums of what may not.

A batch of new files is added to the window, the audit's plan runs over it as over any trace, and every event that is
final then leaves it: its facts are added to the sums. So state is bounded by what is open, and nothing about owed and
delivered is written a second time. An event is final when its lifetime has passed or it has come to everyone it was
owed to, `settle_us` before the last mark; for that long a duplicate is recognised, and order is judged.

Order is judged when an arrival passes that frontier, not when its event leaves: everything that came before is then in
the window or behind the highest number of its pair that has passed (`passed`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.books.definitions import HANDED_ON
from holdfast.books.trace import GROWING, PUBLICATION, SCHEMAS
from holdfast.pipeline.audit.metrics import COUNTED, VIOLATIONS
from holdfast.pipeline.embedded_engine import as_written, literal
from holdfast.pipeline.engine import listed

_LAST_US = 2**62
_BY_ORDER = ("fifo_violations", "behind", "behind_later", "overtaken_later")
FIGURES = {name: what for name, what in {**COUNTED, **VIOLATIONS}.items() if name not in _BY_ORDER}
_OF_SECOND = ("owed", "delivered", "lost", "late", "recovered", "unowed")
SECONDS = ("published", *_OF_SECOND, "arrived", "fifo_violations")
SECONDS_KEPT = 3_600  # of the sums by second: an hour to look back upon
_MARK = "about.json"


@dataclass(frozen=True)
class About:
    """What a window knows beside its tables."""

    marked_us: int = 0  # everything up to here is in it
    frontier_us: int = -1  # what happened up to here is final, where it can be
    ended: bool = False
    published: int = 0
    afterwards: int = 0  # deliveries of events that were final already
    handed_on: int = 0  # to second members of groups
    over_limit: int = 0  # samples
    parts: Mapping[str, int] = field(default_factory=dict)  # files of each table so far
    waiting: Sequence[tuple[int, bool, Mapping[str, int]]] = ()  # marks that have come before their parts


def read_about(folder: Path | None) -> About:
    return About() if folder is None else About(**json.loads((folder / _MARK).read_text()))


class OpenWindow:
    """One batch: from the window before and the files that have come, to the next. Folders are complete when named."""

    def __init__(self, before: Path | None, files: Mapping[str, Sequence[Path]], folder: Path, settle_us: int) -> None:
        self._before, self._files, self.folder, self._settle_us = before, files, folder, settle_us
        self._known = read_about(before)
        self._db = duckdb.connect()
        self._db.execute("SET TimeZone = 'UTC'")
        self.about = self._marked()

    def close(self) -> None:
        self._db.close()

    @property
    def trace(self) -> Path:
        return self.folder / "window"

    def _marked(self) -> About:
        """The latest mark whose parts are all there; files may be found in another order than they were written in."""
        parts = {name: self._known.parts.get(name, 0) + len(self._files.get(name, ())) for name in _TABLES}
        waiting = [*self._known.waiting]
        for file in self._files.get("marks", ()):
            for row in pq.ParquetFile(file).read().to_pylist():
                waiting.append((row["time_us"], row["ended"], json.loads(row["parts"])))
        reached = [each for each in waiting if all(parts.get(name, 0) >= count for name, count in each[2].items())]
        ended = self._known.ended or any(each[1] for each in reached)
        marked_us = max([self._known.marked_us, *(each[0] for each in reached)])
        frontier_us = _LAST_US if ended else max(self._known.frontier_us, marked_us - self._settle_us)
        return replace(
            self._known, marked_us=marked_us, frontier_us=frontier_us, ended=ended, parts=parts,
            waiting=[each for each in waiting if each not in reached],
        )  # fmt: skip

    # Before the plan: the window as a trace ------------------------------------------------------------------------

    def gather(self, run: Path) -> None:
        """`run` is the folder that the trace grows in."""
        for name in ("run", "publications", *SCHEMAS):
            (self.trace / name).mkdir(parents=True)
        pq.write_table(pq.ParquetFile(run).read(), self.trace / "run" / "part-00000.parquet")
        left, gone = self._table("left", "source VARCHAR, seq BIGINT"), self._table("gone", _GONE)
        self._db.execute(f"""
            CREATE TABLE gone AS SELECT source, min(first) AS first, max(last) AS last FROM (
                SELECT *, sum(CAST(starts AS BIGINT)) OVER (PARTITION BY source ORDER BY first) AS island FROM (
                    SELECT *, first > 1 + coalesce(max(last) OVER (PARTITION BY source ORDER BY first
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -2) AS starts
                    FROM (SELECT * FROM {gone} UNION ALL SELECT source, seq, seq FROM {left})
                )) GROUP BY source, island""")
        self._db.execute(f"CREATE TABLE new_deliveries AS {self._new('deliveries')}")
        # A join by range of each source: DuckDB sorts both once.
        self._db.execute("""
            CREATE TABLE late AS SELECT d.part, d.place FROM new_deliveries AS d ASOF JOIN gone AS g
              ON d.source = g.source AND d.seq >= g.first WHERE d.seq <= g.last""")
        stays = f"ANTI JOIN {left} AS l USING (source, seq)"
        self._publications(left)
        new = "SELECT * FROM new_deliveries ANTI JOIN late USING (part, place)"
        self._write("deliveries", f"{self._old('deliveries')} AS o {stays}", new)
        old = f"(SELECT *, first AS seq FROM ({self._old('incidents')})) AS o {stays}"
        expired = f"SELECT * FROM ({self._new('incidents')}) WHERE kind = 'expired'"
        self._write("incidents", f"SELECT * EXCLUDE (seq) FROM {old}", expired)
        self._subscriptions()
        for name in ("messages", "links", "samples"):
            pq.write_table(SCHEMAS[name].empty_table(), self.trace / name / "part-00000.parquet")
        self._count()

    def _count(self) -> None:
        frontier = self._known.frontier_us
        counted = {
            "published": f"SELECT count(*) FROM ({self._new('publications')})",
            "afterwards": f"SELECT count(*) FROM new_deliveries LEFT JOIN late USING (part, place) "
            f"WHERE late.part IS NOT NULL OR time_us <= {frontier}",
            "handed_on": f"SELECT coalesce(sum(count), 0) FROM ({self._new('incidents')}) "
            f"WHERE kind IN ({listed(HANDED_ON)})",
            "over_limit": f'SELECT count(*) FROM ({self._new("samples")}) WHERE value > "limit" AND NOT isnan(value)',
        }
        known = asdict(self.about)
        self.about = replace(self.about, **{name: known[name] + self._value(query) for name, query in counted.items()})

    def _publications(self, left: str) -> None:
        """By Arrow: to DuckDB, attributes `Price` and `price` are one."""
        old = [] if self._before is None else [self._before / "window" / "publications" / _PART]
        tables = [pq.ParquetFile(each).read() for each in (*old, *self._files.get("publications", ()))]
        rows = pa.concat_tables(tables or [_SCHEMAS["publications"].empty_table()], promote_options="default")
        keys = rows.select(["source", "seq"]).append_column("place", pa.array(range(rows.num_rows), pa.int64()))
        self._db.register("numbered", keys)
        kept = self._db.sql(f"SELECT place FROM numbered ANTI JOIN {left} USING (source, seq) ORDER BY place")
        pq.write_table(rows.take(kept.to_arrow_table().column("place")), self._part("publications"), compression="zstd")

    def _subscriptions(self) -> None:
        """Those that have begun, with their ends where these have come; those that nothing in the window saw go."""
        columns = "subscriber, id, condition, from_us"
        known = f"SELECT {columns}, until_us FROM ({self._old('subscriptions')})"
        new = f"SELECT {columns}, NULL::BIGINT FROM ({self._new('begun')})"
        ended = f"SELECT {columns}, until_us FROM ({self._new('subscriptions')})"
        oldest = f"SELECT min(time_us) FROM {self._read([self._part('publications')])}"
        self._copy(
            f"""SELECT subscriber, id, any_value(condition) AS condition, from_us, max(until_us) AS until_us
            FROM ({known} UNION ALL {new} UNION ALL {ended}) GROUP BY subscriber, id, from_us
            HAVING coalesce(max(until_us), {_LAST_US})
                >= least({self._known.frontier_us}, coalesce(({oldest}), {_LAST_US}))
            ORDER BY from_us, subscriber, id""",
            self._part("subscriptions"),
        )

    # After it: what is final ---------------------------------------------------------------------------------------

    def settle(self, facts: Path) -> None:
        """Who leaves, and the sums with it. `facts` is a folder of the plan's facts over this window."""
        frontier, before = self.about.frontier_us, self._known.frontier_us
        passed = self._table("passed", "subscriber VARCHAR, source VARCHAR, seq BIGINT")
        self._db.execute(f"""
            CREATE TABLE facts AS SELECT f.* EXCLUDE (overtaken),
                f.overtaken OR coalesce(f.arrived_us > {before} AND p.seq > f.seq, false) AS overtaken
            FROM {self._read(sorted(facts.glob("*.parquet")))} AS f
            LEFT JOIN {passed} AS p USING (subscriber, source)""")
        publications = self._read([self._part("publications")])
        self._db.execute(f"""
            CREATE TABLE events AS SELECT source, seq, bool_and(done) AS done FROM (
                SELECT source, seq, time_us <= {frontier} AS done FROM {publications}
                UNION ALL
                SELECT f.source, f.seq, CASE WHEN arrived_us IS NOT NULL THEN arrived_us <= {frontier}
                    ELSE {self.about.ended} OR coalesce(time_us + lifetime_us <= {frontier}, false) END
                FROM facts AS f LEFT JOIN {publications} AS p USING (source, seq)
            ) GROUP BY source, seq""")
        self._db.execute("""CREATE TABLE settled AS
            SELECT * FROM facts SEMI JOIN (SELECT source, seq FROM events WHERE done) USING (source, seq)""")
        self._db.execute(f"""CREATE TABLE ordered AS SELECT * FROM facts
            WHERE arrived_us > {before} AND arrived_us <= {frontier}""")
        self._copy("SELECT source, seq FROM events WHERE done", self.folder / "left.parquet")
        self._copy("FROM gone", self.folder / "gone.parquet")
        self._copy(
            f"""SELECT subscriber, source, max(seq) AS seq FROM (
                FROM {passed} UNION ALL SELECT subscriber, source, seq FROM ordered) GROUP BY subscriber, source""",
            self.folder / "passed.parquet",
        )
        self._sums()
        (self.folder / _MARK).write_text(json.dumps(asdict(self.about)))

    def _sums(self) -> None:
        counts = ", ".join(f"count(*) FILTER (WHERE {what}) AS {name}" for name, what in FIGURES.items())
        sums = ", ".join(f"sum({name})::BIGINT AS {name}" for name in (*FIGURES, "fifo_violations"))
        nothing = ", ".join(f"0 AS {name}" for name in FIGURES)
        pairs = self._table("pairs", f"subscriber VARCHAR, source VARCHAR, {_longs((*FIGURES, 'fifo_violations'))}")
        self._copy(
            f"""SELECT subscriber, source, {sums} FROM (
                FROM {pairs}
                UNION ALL SELECT subscriber, source, {counts}, 0 FROM settled GROUP BY subscriber, source
                UNION ALL SELECT subscriber, source, {nothing}, count(*) FILTER (WHERE overtaken)
                FROM ordered GROUP BY subscriber, source
            ) GROUP BY subscriber, source""",
            self.folder / "pairs.parquet",
        )
        parts = [
            f"FROM {self._table('seconds', f'second BIGINT, {_longs(SECONDS)}')}",
            _by_second(f"({self._new('publications')})", "time_us", {"published": "true"}),
            _by_second("settled", "published_us", {name: FIGURES[name] for name in _OF_SECOND}),
            _by_second("ordered", "arrived_us", {"arrived": "true", "fifo_violations": "overtaken"}),
        ]
        self._copy(self._summed(parts), self.folder / "seconds.parquet")
        open_parts = [
            f"FROM {self._read([self.folder / 'seconds.parquet'])}",
            _by_second(
                "(SELECT facts.* FROM facts ANTI JOIN settled USING (source, seq))",
                "published_us",
                {name: FIGURES[name] for name in ("owed", "delivered", "recovered", "unowed")},
            ),
            _by_second(
                f"(FROM facts WHERE arrived_us > {self.about.frontier_us})",
                "arrived_us",
                {"arrived": "true", "fifo_violations": "overtaken"},
            ),
        ]
        self._copy(self._summed(open_parts), self.folder / "so_far.parquet")

    def _summed(self, parts: Sequence[str]) -> str:
        sums = ", ".join(f"sum({name})::BIGINT AS {name}" for name in SECONDS)
        return f"""SELECT second, {sums} FROM ({" UNION ALL ".join(parts)})
            WHERE second >= {self.about.marked_us // 1_000_000 - SECONDS_KEPT} GROUP BY second ORDER BY second"""

    def still_open(self) -> tuple[int, int, int | None, int | None]:
        """How many deliveries may still come, how many are there, and two quantiles of the latter's delays."""
        delay = "greatest(arrived_us - published_us, 0)"
        query = f"""SELECT count(*) FILTER (WHERE arrived_us IS NULL AND NOT done), count(arrived_us),
            quantile_disc({delay}, 0.5), quantile_disc({delay}, 0.99) FROM facts JOIN events USING (source, seq)"""
        waiting, there, half, most = self._db.execute(query).fetchall()[0]
        return waiting, there, half, most

    # Tables --------------------------------------------------------------------------------------------------------

    def _write(self, name: str, old: str, new: str) -> None:
        """Old rows first, each in the order in which they were written: it breaks ties of time."""
        rows = f"SELECT *, 0 AS age FROM ({old}) UNION ALL BY NAME SELECT *, 1 AS age FROM ({new})"
        self._copy(f"SELECT * EXCLUDE (age, part, place) FROM ({rows}) ORDER BY age, part, place", self._part(name))

    def _part(self, name: str) -> Path:
        return self.trace / name / _PART

    def _old(self, name: str) -> str:
        files = [] if self._before is None else [self._before / "window" / name / _PART]
        return self._rows(name, files)

    def _new(self, name: str) -> str:
        return self._rows(name, self._files.get(name, ()))

    def _rows(self, name: str, files: Sequence[Path]) -> str:
        if files:
            return f"SELECT * RENAME (filename AS part, file_row_number AS place) FROM {self._read(files, True)}"
        self._db.register(f"no_{name}", _SCHEMAS[name].empty_table())
        return f"SELECT *, '' AS part, 0::BIGINT AS place FROM no_{name}"

    def _table(self, name: str, columns: str) -> str:
        """A table of the window before; empty in the first."""
        if self._before is not None:
            return self._read([self._before / f"{name}.parquet"])
        self._db.execute(f"CREATE TABLE IF NOT EXISTS first_{name} ({columns})")
        return f"first_{name}"

    def _read(self, files: Sequence[Path], numbered: bool = False) -> str:
        names = ", ".join(literal(as_written(each)) for each in files)
        numbers = ", filename = true, file_row_number = true" if numbered else ""
        return f"read_parquet([{names}], union_by_name = true, hive_partitioning = false{numbers})"

    def _copy(self, query: str, place: Path) -> None:
        self._db.execute(f"COPY ({query}) TO {literal(str(place))} (FORMAT parquet, COMPRESSION zstd)")

    def _value(self, query: str) -> int:
        return int(self._db.execute(query).fetchall()[0][0])


_PART = "part-00000.parquet"
_TABLES = ("run", "publications", *SCHEMAS, *GROWING)
_SCHEMAS = {"publications": pa.schema(PUBLICATION), **SCHEMAS, **GROWING}
_GONE = "source VARCHAR, first BIGINT, last BIGINT"


def _longs(names: Sequence[str]) -> str:
    return ", ".join(f"{name} BIGINT" for name in names)


def _by_second(rows: str, time: str, counted: Mapping[str, Any]) -> str:
    counts = ", ".join(f"count(*) FILTER (WHERE {counted[name]})" if name in counted else "0" for name in SECONDS)
    return f"SELECT {time} // 1000000, {counts} FROM {rows} WHERE {time} IS NOT NULL GROUP BY 1"
