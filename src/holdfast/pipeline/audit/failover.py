"""What it cost that a broker died and was replaced: what became of the events meanwhile, beside all others.

The moments come from the audit, which judges P6 by them. Events count by when they were published: between the failure
and the moment at which the last neighbour was done with it, or else outside all such times, for comparison.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.pipeline.audit.job import Audit
from holdfast.pipeline.audit.trace_tables import TraceRun, together

FAILOVERS_MAX = 8  # of one run, the first ones: more would fill the report


@dataclass(frozen=True)
class Became:
    """What became of what was owed of some events."""

    owed: int = 0
    original: int = 0
    replica: int = 0  # waited at a neighbour for the replica
    recovered: int = 0  # by any other mechanism
    missing: int = 0
    delay_p50_us: int | None = None
    delay_max_us: int | None = None

    @property
    def recovered_ratio(self) -> float:
        return self.recovered / self.owed if self.owed else 0.0


@dataclass(frozen=True)
class AuditedFailover:
    broker: str
    replica: str
    failed_us: int
    noticed_us: int  # by the last of its neighbours
    asked_us: int  # the replica runs, and its first request has come
    ready_us: int  # it knows everything
    over_us: int  # and the last neighbour treats it as the broker
    during: Became = Became()
    otherwise: Became = Became()  # everything published outside of all failovers of the run

    @property
    def recovered_for_it(self) -> float:
        """Recovered beyond what links would have cost anyway."""
        return max(0.0, self.during.recovered - self.otherwise.recovered_ratio * self.during.owed)


def failovers(audit: Audit) -> dict[str, list[AuditedFailover]]:
    """By run, in the order of time: those that came to their end."""
    completed = {
        run.label: [row for row in run.failovers if row["failed_us"] and row["ready_us"]] for run in audit.runs
    }
    if not any(completed.values()):
        return {}
    over = _over_us(audit.traces)
    found = {
        label: [
            _failover(row, over.get((label, row["faulty"], row["replica"]), 0))
            for row in sorted(rows, key=lambda row: row["failed_us"])[:FAILOVERS_MAX]
        ]
        for label, rows in completed.items()
    }
    counts = became(audit.facts, found)
    return {
        label: [
            replace(each, during=counts.get((label, at), each.during), otherwise=counts.get((label, 0), each.otherwise))
            for at, each in enumerate(replaced, 1)
        ]
        for label, replaced in found.items()
    }


def _failover(row: Mapping[str, Any], over_us: int) -> AuditedFailover:
    times_us = {name: row[name] for name in ("failed_us", "noticed_us", "asked_us", "ready_us")}
    return AuditedFailover(row["faulty"], row["replica"], **times_us, over_us=max(over_us, row["ready_us"]))


def _over_us(runs: Sequence[TraceRun]) -> dict[tuple[str, str, str], int]:
    """When the last neighbour was done, by run, broker and replica."""
    done = together(runs, "incidents").where("kind = 'replaced_by'").groupBy("run", "peer", "other")
    return {(run, broker, replica): at_us for run, broker, replica, at_us in done.agg(F.max("time_us")).collect()}


def became(facts: DataFrame, found: Mapping[str, Sequence[AuditedFailover]]) -> dict[tuple[str, int], Became]:
    """By run and number of the failover, counted from 1; 0 is everything else."""
    within = F.lit(0)
    for run, each in found.items():
        for number, failover in enumerate(each, 1):
            inside = F.col("published_us").between(failover.failed_us, failover.over_us) & (F.col("run") == run)
            within = F.when(inside, F.lit(number)).otherwise(within)
    owed = facts.where("owed AND (first OR arrived_us IS NULL)").withColumn("within", within)
    delay = F.expr("percentile_disc(0.5) WITHIN GROUP (ORDER BY arrived_us - published_us)").cast("long")
    # Key: run and failover. Everything outside of failovers is one group, which is only counted.
    summed = (
        owed.where(F.col("run").isin(*found))
        .groupBy("run", "within")
        .agg(
            F.count("*"),
            F.expr("count_if(via = 'original')"),
            F.expr("count_if(via = 'replica')"),
            F.expr("count_if(via NOT IN ('original', 'replica'))"),
            F.expr("count_if(arrived_us IS NULL)"),
            delay,
            F.expr("max(arrived_us - published_us)"),
        )
    )
    return {(run, number): Became(*counts) for run, number, *counts in summed.collect()}
