"""What it cost that a broker died and was replaced: what became of the events meanwhile, beside all others.

The moments come from the audit, which judges P6 by them. Events count by when they were published: between the failure
and the moment at which the last neighbour was done with it, or else outside all such times, for comparison.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from holdfast.pipeline.audit.job import Audit
from holdfast.pipeline.audit.trace_tables import Trace
from holdfast.pipeline.engine import Relation

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
    over = _over_us(audit.trace)
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


def _over_us(trace: Trace) -> dict[tuple[str, str, str], int]:
    """When the last neighbour was done, by run, broker and replica."""
    done = trace.engine.sql(f"""
        SELECT run, peer, other, max(time_us) AS over_us FROM {trace.incidents}
        WHERE kind = 'replaced_by' GROUP BY run, peer, other""")
    return {(run, broker, replica): over_us for run, broker, replica, over_us in done.rows()}


def became(facts: Relation, found: Mapping[str, Sequence[AuditedFailover]]) -> dict[tuple[str, int], Became]:
    """By run and number of the failover, counted from 1; 0 is everything else."""
    spans = [
        {"run": run, "number": number, "failed_us": each.failed_us, "over_us": each.over_us}
        for run, replaced in found.items()
        for number, each in enumerate(replaced, 1)
    ]
    engine = facts.engine
    within = engine.table(pa.Table.from_pylist(spans))
    runs = engine.table(pa.table({"run": [*found]}))
    # Key: run and failover, broadcast. Where two overlap, an event belongs to the later one.
    owed = engine.sql(f"""
        SELECT /*+ BROADCAST(w) */ f.run, f.seq, f.source, f.subscriber, f.via, f.arrived_us,
            f.arrived_us - f.published_us AS delay_us, coalesce(max(w.number), 0) AS within
        FROM (SELECT * FROM {facts} SEMI JOIN {runs} USING (run) WHERE owed AND (first OR arrived_us IS NULL)) AS f
        LEFT JOIN {within} AS w ON f.run = w.run AND f.published_us BETWEEN w.failed_us AND w.over_us
        GROUP BY 1, 2, 3, 4, 5, 6, 7""")
    # Key: run and failover. Everything outside of failovers is one group, which is only counted.
    summed = engine.sql(f"""
        SELECT run, within, count(*), count_if(via = 'original'), count_if(via = 'replica'),
            count_if(via NOT IN ('original', 'replica')), count_if(arrived_us IS NULL),
            CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY delay_us) AS BIGINT), max(delay_us)
        FROM {owed} GROUP BY run, within""")
    return {(run, number): Became(*counts) for run, number, *counts in summed.rows()}
