"""What it cost that a broker died and was replaced: when what happened, and what became of the events meanwhile.

The moments are incidents of the trace. Events count by when they were published: between the failure and the moment at
which the last neighbour was done with it, or else outside all such times, for comparison.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.pipeline.trace_tables import TraceRun, together

FAILOVERS_MAX = 8  # of one run, the first ones: more would fill the report
_MOMENTS_MAX = 10_000  # incidents about replication: a dozen for each broker that fails
_KINDS = ("crash", "suspected", "replica started", "replication: replicated", "replaced by")


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
class Failover:
    broker: str
    replica: str
    failed_us: int
    noticed_us: int
    started_us: int
    ready_us: int  # the replica knows everything
    over_us: int  # and the last neighbour treats it as the broker
    during: Became = Became()
    otherwise: Became = Became()  # everything published outside of all failovers of the run

    @property
    def recovered_for_it(self) -> float:
        """Recovered beyond what links would have cost anyway."""
        return max(0.0, self.during.recovered - self.otherwise.recovered_ratio * self.during.owed)


def moments(runs: Sequence[TraceRun]) -> DataFrame:
    chosen = together(runs, "incidents").where(F.col("kind").isin(*_KINDS))
    return chosen.select("run", "time_us", "kind", "node", "about").orderBy("time_us").limit(_MOMENTS_MAX)


def failovers(rows: Sequence[Any]) -> dict[str, list[Failover]]:
    """By run, in the order of time: those that came to their end."""
    found: dict[str, list[Failover]] = {}
    for started in (row for row in rows if row.kind == "replica started"):
        same = [row for row in rows if row.run == started.run]
        failed = [row.time_us for row in same if row.kind == "crash" and row.node == started.about]
        failed = [at for at in failed if at <= started.time_us]
        ready = [row.time_us for row in same if row.kind == "replication: replicated" and row.node == started.node]
        pair = f"{started.about} by {started.node}"
        over = [row.time_us for row in same if row.kind == "replaced by" and row.about == pair]
        if not failed or not ready:
            continue  # it did not die, or its replica was never done
        noticed = [row.time_us for row in same if row.kind == "suspected" and row.about == started.about]
        noticed = [at for at in noticed if failed[-1] <= at]
        times = failed[-1], min(noticed, default=started.time_us), started.time_us, max(ready), max(*ready, *over)
        found.setdefault(started.run, []).append(Failover(started.about, started.node, *times))
    return {run: each[:FAILOVERS_MAX] for run, each in found.items()}


def became(facts: DataFrame, found: Mapping[str, Sequence[Failover]]) -> dict[tuple[str, int], Became]:
    """By run and number of the failover, counted from 1; 0 is everything else."""
    within = F.lit(0)
    for run, each in found.items():
        for number, failover in enumerate(each, 1):
            inside = F.col("published_us").between(failover.failed_us, failover.over_us) & (F.col("run") == run)
            within = F.when(inside, F.lit(number)).otherwise(within)
    owed = facts.where("owed AND (first OR arrived_us IS NULL)").withColumn("within", within)
    delay = F.expr("percentile_disc(0.5) WITHIN GROUP (ORDER BY arrived_us - published_us)")
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
