"""What the report shows, fetched from the audit's tables and bounded: slices of time, classes, the worst few.

However long a run is and however many took part, the driver gets a few thousand rows at most. The whole tables are
written as Parquet.
"""

from dataclasses import dataclass, field
from typing import Any

from holdfast.pipeline.audit.failover import AuditedFailover, failovers
from holdfast.pipeline.audit.job import Audit
from holdfast.pipeline.audit.links import Direction, in_place, link_sums
from holdfast.pipeline.audit.metrics import distributions
from holdfast.pipeline.audit.trace_tables import Trace
from holdfast.pipeline.engine import Relation, at_once, listed

SLICES_MAX = 120  # bars that a chart of 560 pixels can show
WORST_MAX = 15  # subscribers: those one would look at first
MARKS_MAX = 60  # crashes and the like drawn below the time axis; more would be a solid line
_MARKED = (
    *("crash", "restart", "link_failed", "link_recovered", "link_down", "link_up"),
    *("replica_started", "replica_ready"),
)


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
    spread, worst, marks, links = at_once(
        distributions(audit.facts).dicts,
        _worst(audit.figures).dicts,
        _marks(audit.trace).rows,
        link_sums(audit.trace).rows,
    )
    slice_s, slices = _slices(audit.seconds)
    by_run = {run.label: Shown(slice_s) for run in audit.runs}
    for row in slices:
        by_run[row["run"]].slices.append(row)
    for row in sorted(spread, key=lambda row: row["most"]):
        by_run[row["run"]].distributions.setdefault(row["what"], []).append((row["most"], row["count"]))
    for label, time_us, kind, node in marks:
        by_run[label].marks.append((time_us, kind, node))
    for row in worst:
        by_run[row["run"]].worst.append(row)
    for label, found in failovers(audit).items():
        by_run[label].failovers.extend(found)
    for run, *direction in links:
        by_run[run].links.append(Direction(*direction))
    for each in by_run.values():
        each.links[:] = in_place(each.links, {failover.replica: failover.broker for failover in each.failovers})
    return by_run


def _slices(seconds: Relation) -> tuple[int, list[dict[str, Any]]]:
    """Equal slices of a whole number of seconds, the same for all runs, so that they can be compared."""
    engine = seconds.engine
    ((low, high),) = engine.sql(f"SELECT min(second), max(second) FROM {seconds}").rows()
    if low is None:
        return 1, []
    slice_s = -(-(high - low + 1) // SLICES_MAX)
    sums = ", ".join(f"sum({name}) AS {name}" for name in seconds.others("run", "second"))
    summed = engine.sql(f"""
        SELECT run, CAST(floor(second / {slice_s}) * {slice_s} AS BIGINT) AS second, {sums}
        FROM {seconds} GROUP BY 1, 2 ORDER BY 1, 2""")
    return slice_s, summed.dicts()


def _worst(figures: Relation) -> Relation:
    """The subscribers that miss most; of those that miss nothing, those that waited longest."""
    return figures.engine.sql(f"""
        SELECT * FROM (
            SELECT *, count(*) OVER (PARTITION BY run) AS subscribers, row_number() OVER (PARTITION BY run
                ORDER BY owed - delivered DESC, delay_p99_us DESC NULLS LAST, subscriber) AS number
            FROM {figures} WHERE scope = 'subscriber'
        ) AS numbered WHERE number <= {WORST_MAX} ORDER BY number""")


def _marks(trace: Trace) -> Relation:
    return trace.engine.sql(f"""
        SELECT run, time_us, kind, node FROM (
            SELECT run, time_us, kind, node,
                row_number() OVER (PARTITION BY run ORDER BY time_us, kind, node) AS number
            FROM {trace.incidents} WHERE kind IN ({listed(_MARKED)})
        ) AS numbered WHERE number <= {MARKS_MAX} ORDER BY run, number""")
