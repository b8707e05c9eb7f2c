"""What the report shows, fetched from the audit's tables and bounded: slices of time, classes, the worst few.

However long a run is and however many took part, the driver gets a few thousand rows at most. The whole tables are
written as Parquet.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from holdfast.pipeline.audit.failover import AuditedFailover, failovers
from holdfast.pipeline.audit.job import Audit
from holdfast.pipeline.audit.links import Direction, in_place, link_sums
from holdfast.pipeline.audit.metrics import distributions
from holdfast.pipeline.audit.trace_tables import TraceRun, together

SLICES_MAX = 120  # bars that a chart of 560 pixels can show
WORST_MAX = 15  # subscribers: those one would look at first
MARKS_MAX = 60  # crashes and the like drawn below the time axis; more would be a solid line
_MARKED = (
    *("crash", "restart", "link_failed", "link_recovered", "link_down", "link_up"),
    *("replica_started", "replica_ready"),
)
_AT_ONCE = 3


@dataclass(frozen=True)
class Shown:
    """What the report shows of one run."""

    slice_s: int  # how long a slice of time is
    slices: list[dict[str, Any]] = field(default_factory=list)
    distributions: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # what -> most, count
    worst: list[dict[str, Any]] = field(default_factory=list)
    subscribers: int = 0
    marks: list[tuple[int, str, str]] = field(default_factory=list)  # time, kind, node
    links: list[Direction] = field(default_factory=list)
    failovers: list[AuditedFailover] = field(default_factory=list)


def shown(audit: Audit) -> dict[str, Shown]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        spread = pool.submit(distributions(audit.facts).collect)
        worst = pool.submit(_worst(audit.figures).collect)
        marks = pool.submit(_marks(audit.traces))
        links = pool.submit(link_sums(audit.traces).collect)
        replaced = pool.submit(failovers, audit)
        slice_s, slices = _slices(audit.seconds)
        by_run = {run.label: Shown(slice_s) for run in audit.runs}
        for row in slices:
            by_run[row.run].slices.append(row.asDict())
        for row in sorted(spread.result(), key=lambda row: row.most):
            by_run[row.run].distributions.setdefault(row.what, []).append((row.most, row["count"]))
        for label, at, kind, node in marks.result():
            by_run[label].marks.append((at, kind, node))
        for row in worst.result():
            by_run[row.run].worst.append(row.asDict())
        for label, found in replaced.result().items():
            by_run[label].failovers.extend(found)
        for run, *direction in links.result():
            by_run[run].links.append(Direction(*direction))
    for each in by_run.values():
        each.links[:] = in_place(each.links, {failover.replica: failover.broker for failover in each.failovers})
    return by_run


def _slices(seconds: DataFrame) -> tuple[int, list[Any]]:
    """Equal slices of a whole number of seconds, the same for all runs, so that they can be compared."""
    low, high = seconds.agg(F.min("second"), F.max("second")).collect()[0]
    if low is None:
        return 1, []
    slice_s = -(-(high - low + 1) // SLICES_MAX)
    columns = [name for name in seconds.columns if name not in ("run", "second")]
    start = (F.floor(F.col("second") / slice_s) * slice_s).alias("second")
    summed = seconds.groupBy("run", start).agg(*(F.sum(name).alias(name) for name in columns))
    return slice_s, summed.orderBy("run", "second").collect()


def _worst(figures: DataFrame) -> DataFrame:
    """The subscribers that miss most; of those that miss nothing, those that waited longest."""
    missing = (F.col("owed") - F.col("delivered")).desc()
    order = Window.partitionBy("run").orderBy(missing, F.col("delay_p99_us").desc_nulls_last(), "subscriber")
    everyone = Window.partitionBy("run")
    rows = figures.where("scope = 'subscriber'").withColumn("subscribers", F.count("*").over(everyone))
    return rows.withColumn("number", F.row_number().over(order)).where(F.col("number") <= WORST_MAX).orderBy("number")


def _marks(traces: Sequence[TraceRun]) -> Any:
    chosen = together(traces, "incidents").where(F.col("kind").isin(*_MARKED)).select("run", "time_us", "kind", "node")
    order = Window.partitionBy("run").orderBy("time_us", "kind", "node")
    first = chosen.withColumn("number", F.row_number().over(order)).where(F.col("number") <= MARKS_MAX)
    return first.orderBy("run", "number").drop("number").collect
