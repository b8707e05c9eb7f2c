"""`holdfast match` as one batch job: tables in, a folder of result tables out.

`OUT/matches` holds the pairs, `OUT/counts` how many events each subscription wants (in its place, when asked for), and
`OUT/rejected` the subscriptions that were not valid, when those are to be skipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from uuid import uuid4

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from holdfast.model.errors import InputError
from holdfast.pipeline.match.compile import INDEX_BYTES_MAX
from holdfast.pipeline.match.event_files import Format, for_spark, is_remote, local_path
from holdfast.pipeline.match.frames import MatchPlan, Table, counted, counted_here, prepare
from holdfast.pipeline.match.outcome import MatchOutcome
from holdfast.pipeline.match.subscriptions_table import rejected_table
from holdfast.pipeline.match.write import MANIFEST, WriteTask, Written, settle
from holdfast.pipeline.result_folder import ResultFolder
from holdfast.pipeline.spark_errors import explained


@dataclass(frozen=True)
class MatchJob:
    events: Table
    subscriptions: Table
    out: str
    key: Sequence[str] = ()
    keep: Sequence[str] = ()
    counts: bool = False
    skip_invalid: bool = False
    overwrite: bool = False
    index_bytes_max: int = INDEX_BYTES_MAX
    schema: str | None = None  # of the events, in Spark's words
    form: Format | None = None  # of files whose names do not say it

    def run(self, spark: SparkSession) -> MatchOutcome:
        started = perf_counter()
        if is_remote(self.out):
            raise InputError(f"{self.out}: not a folder that the tasks can write; use holdfast.spark.match and Spark")
        with explained(), ResultFolder(local_path(self.out), self.overwrite) as folder:
            plan = self._prepare(spark)
            events, pairs, task_seconds = (_write_counts if self.counts else _write_matches)(plan, folder)
            if self.skip_invalid:
                folder.write("rejected", rejected_table(plan.compiled.rejected))
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


def _write_matches(plan: MatchPlan, folder: ResultFolder) -> _Figures:
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


def _seconds(written: list[Written]) -> tuple[float, ...]:
    return tuple(sorted(each.seconds for each in written))


def _write_counts(plan: MatchPlan, folder: ResultFolder) -> _Figures:
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
