"""`holdfast match` as one batch job: tables in, a folder of result tables out.

`OUT/matches` holds the pairs, `OUT/counts` how many events each subscription wants (in its place, when asked for), and
`OUT/rejected` the subscriptions that were not valid, when those are to be skipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from uuid import uuid4

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from holdfast.pipeline.match.compile import INDEX_BYTES_MAX
from holdfast.pipeline.match.event_files import Format, for_spark
from holdfast.pipeline.match.frames import MatchPlan, Table, counted, counted_here, prepare
from holdfast.pipeline.match.outcome import MatchOutcome
from holdfast.pipeline.match.subscriptions_table import rejected_table
from holdfast.pipeline.match.tasks import RowSink
from holdfast.pipeline.match.write import MANIFEST, WriteTask, Written, settle
from holdfast.pipeline.result_folder import ResultDraft
from holdfast.pipeline.spark_engine import plan_of
from holdfast.pipeline.spark_errors import explained
from holdfast.pipeline.tables.results import Place, draft_for, is_sparks
from holdfast.pipeline.tables.spark_tables import SparkTables
from holdfast.pipeline.tables.target import BatchId, Target, mode_of


@dataclass(frozen=True)
class MatchJob:
    events: Table
    subscriptions: Table
    out: Place
    key: Sequence[str] = ()
    keep: Sequence[str] = ()
    counts: bool = False
    skip_invalid: bool = False
    overwrite: bool = False
    append: bool = False  # to tables that are there already
    index_bytes_max: int = INDEX_BYTES_MAX
    schema: str | None = None  # of the events, in Spark's words
    form: Format | None = None  # of files whose names do not say it
    explain: bool = False

    def run(self, spark: SparkSession) -> MatchOutcome:
        started = perf_counter()
        names = ["counts" if self.counts else "matches", *(["rejected"] if self.skip_invalid else [])]
        with explained():
            if is_sparks(self.out, spark):
                assert isinstance(self.out, Target)
                tables = SparkTables(spark, self.out, mode_of(self.append, self.overwrite), names)
                plan = self._prepare(spark)
                events, pairs, task_seconds = _write_by_spark(plan, tables, self.counts)
                if self.skip_invalid:
                    tables.write("rejected", spark.createDataFrame(rejected_table(plan.compiled.rejected)))
            else:
                with draft_for(self.out, names, self.overwrite, self.append) as draft:
                    plan = self._prepare(spark)
                    events, pairs, task_seconds = (_write_counts if self.counts else _write_matches)(plan, draft)
                    if self.skip_invalid:
                        draft.write("rejected", rejected_table(plan.compiled.rejected))
        compiled = plan.compiled
        return MatchOutcome(
            events=events,
            subscriptions=compiled.subscriptions,
            pairs=pairs,
            rejected=len(compiled.rejected),
            indexes=len(compiled.files),
            index_bytes=sum(each.bytes for each in compiled.files),
            seconds=perf_counter() - started,
            task_seconds=task_seconds,
            warnings=tuple(plan.warnings),
            plan=plan_of(counted(plan) if self.counts else _rows(plan)) if self.explain else "",
        )

    def _prepare(self, spark: SparkSession) -> MatchPlan:
        return prepare(
            self.events,
            self.subscriptions,
            self.key,
            self.keep,
            self.skip_invalid,
            self.index_bytes_max,
            self.schema,
            self.form,
        )


_Figures = tuple[int, int, tuple[float, ...]]  # events, pairs, seconds of each task


def _write_matches(plan: MatchPlan, folder: ResultDraft) -> _Figures:
    place = folder.table("matches")
    written = write_files(plan, place)
    return sum(each.events for each in written), sum(each.pairs for each in written), _seconds(written)


def write_files(plan: MatchPlan, place: Path) -> list[Written]:
    """The pairs as files in a folder that nobody reads yet."""
    attempts = place.with_name(f"_attempts {place.name} {uuid4().hex}")
    attempts.mkdir()
    task = WriteTask(plan.source, plan.compiled.finder, str(attempts), plan.result.keys, plan.result.numbered)
    # One row per task: its file and its figures.
    written = [Written(*row) for row in plan.inputs.mapInArrow(task, MANIFEST).collect()]
    settle(attempts, place, written, to_arrow_schema(plan.result.schema, timezone="UTC"))
    return written


def write_rows(plan: MatchPlan, tables: SparkTables, batch: BatchId | None = None) -> tuple[int, int]:
    """The pairs as rows that Spark writes; how many events and pairs there were."""
    events, pairs = Observation(), Observation()
    observed = plan._replace(inputs=plan.inputs.observe(events, F.count(F.lit(1)).alias("rows")))
    tables.write("matches", _rows(observed).observe(pairs, F.count(F.lit(1)).alias("rows")), batch)
    return events.get["rows"] if plan.events is None else plan.events, pairs.get["rows"]


def _rows(plan: MatchPlan) -> DataFrame:
    return plan.run(RowSink(plan.result.keys, plan.result.id_type), plan.result.schema)


def _write_by_spark(plan: MatchPlan, tables: SparkTables, counts: bool) -> "_Figures":
    if not counts:
        return *write_rows(plan, tables), ()
    seen = Observation()
    tables.write("counts", counted(plan).observe(seen, F.sum("events").alias("pairs")))
    return plan.inputs.count() if plan.events is None else plan.events, seen.get["pairs"] or 0, ()


def _seconds(written: list[Written]) -> tuple[float, ...]:
    return tuple(sorted(each.seconds for each in written))


def _write_counts(plan: MatchPlan, folder: ResultDraft) -> _Figures:
    counts = counted_here(plan)
    if counts is not None and plan.events is not None:
        folder.write("counts", counts)
        return plan.events, sum(counts["events"].to_pylist()), ()
    seen = Observation()
    observed = plan._replace(inputs=plan.inputs.observe(seen, F.count(F.lit(1)).alias("rows")))
    place = str(folder.table("counts"))
    counted(observed).write.mode("overwrite").parquet(place)
    pairs = plan.inputs.sparkSession.read.parquet(for_spark(place)).agg(F.sum("events")).collect()[0][0] or 0
    if plan.events is not None:
        return plan.events, pairs, ()
    # Where nothing is to be added up, Spark drops that part of the plan, and what was observed in it with it.
    return seen.get["rows"] if pairs else plan.inputs.count(), pairs, ()
