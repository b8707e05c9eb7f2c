"""What disturbed a run, and when: outages, incidents, lost tables. Spans of time, of which a run has few.

`books/causes.py` works out the same without an engine; the two share the lists and numbers of `books/definitions.py`
and what runs were set up to promise. Disturbances are merged into spans, of which a run has at most as many as leases
fit into it. Only these and a few sums a run come to the driver.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from holdfast.books import definitions as what
from holdfast.books.promised import heartbeat_and_lease_us
from holdfast.pipeline.audit.trace_footers import RunFooters
from holdfast.pipeline.audit.trace_tables import Trace
from holdfast.pipeline.engine import Relation, listed


@dataclass(frozen=True)
class Times:
    """How long things take in one run, in microseconds."""

    heartbeat_us: int
    lease_us: int
    longest_us: int  # the longest delay of a delivery
    known_us: int  # after which every broker knows a subscription, unless something disturbs that
    end_us: int
    waits: int  # heartbeats that a condition may have to wait for


@dataclass(frozen=True)
class Disturbances:
    """Of several runs at once: every relation has a column `run`."""

    trace: Trace
    runs: dict[str, RunFooters]
    messages: Relation  # of these runs, as `incidents` are
    incidents: Relation
    by_run: dict[str, Times]
    times: Relation  # the same, one row a run
    sums: dict[str, dict[str, int]]  # by run: lost Publish, lost Deliver
    spans: Relation  # outages and moments that disturb a run: from_us, until_us
    unsure: Relation  # while conditions may be on their way for long, because some were lost
    moved: Relation  # clients that left their broker: client, moved_us
    down_at_end: frozenset[str]  # runs whose trace ends while a broker or link is down

    def around(self, before: str, after: str) -> Relation:
        """Spans with so much time before and after each, both in columns of `times`."""
        return islands(
            self.trace,
            f"SELECT run, from_us - ({before}) AS from_us, until_us + ({after}) AS until_us "
            f"FROM {self.spans} JOIN {self.times} USING (run)",
        )


def known_us(run: RunFooters, figures: Mapping[str, Any]) -> int:
    """After which every broker knows a subscription: a heartbeat, or twice as long as events usually take."""
    return max(heartbeat_and_lease_us(run.about)[0], 2 * (figures["delay_p50_us"] or 0))


def disturbances(trace: Trace, runs: list[RunFooters], figures: Mapping[str, Mapping[str, Any]]) -> Disturbances:
    """The circumstances of some of a trace's runs. What is read many times is kept, so that plans stay short."""
    engine = trace.engine
    beats = engine.table(
        pa.table(
            {
                "run": [run.label for run in runs],
                "heartbeat_us": [heartbeat_and_lease_us(run.about)[0] for run in runs],
            }
        )
    )
    messages = engine.keep(f"SELECT * FROM {trace.messages} SEMI JOIN {beats} USING (run)")
    incidents = engine.keep(f"SELECT * FROM {trace.incidents} SEMI JOIN {beats} USING (run)")
    losing = _losing(trace, messages, beats)
    summed = _summed(trace, runs, messages, incidents, losing)
    by_run = {run.label: _times(run, figures[run.label], summed[run.label]) for run in runs}
    rows = [{"run": run, **vars(times)} for run, times in by_run.items()]
    times = engine.table(pa.Table.from_pylist(rows))
    outages = _outages(trace, incidents, times)
    down = {row["run"] for row in outages.dicts() if row["until_us"] >= by_run[row["run"]].end_us}
    spans = engine.few(f"SELECT * FROM {outages} UNION ALL {_moments(incidents)}")
    moved = engine.sql(f"""
        SELECT run, node AS client, min(from_us) AS moved_us FROM {messages}
        WHERE kind = 'Detach' AND sent > 0 GROUP BY run, node""")
    unsure = _unsure(trace, messages, losing, times)
    labelled = {run.label: run for run in runs}
    return Disturbances(
        trace, labelled, messages, incidents, by_run, times, summed, spans, unsure, moved, frozenset(down)
    )


def _times(run: RunFooters, figures: Mapping[str, Any], summed: Mapping[str, Any]) -> Times:
    heartbeat_us, lease_us = heartbeat_and_lease_us(run.about)
    return Times(
        heartbeat_us,
        lease_us,
        longest_us=max(figures["delay_max_us"] or 0, 0),
        known_us=known_us(run, figures),
        end_us=summed["end_us"],
        waits=what.heartbeats_waited(summed["worst"], summed["brokers"] + 1),
    )


def _summed(
    trace: Trace, runs: list[RunFooters], messages: Relation, incidents: Relation, losing: Relation
) -> dict[str, dict[str, Any]]:
    """Per run: messages lost, brokers, when the run ended, and the largest share of table messages that a node lost.

    The share is of the times in which some were lost.
    """
    tables = f"kind IN ({listed(what.TABLE_CHECKS)}) AND low IS NOT NULL"
    carried = {
        f"{name}_{kind}": f"sum(CASE WHEN kind = '{kind}' THEN {value} ELSE 0 END)"
        for name, value in (("lost", "lost"), ("gone", "sent - received"))
        for kind in what.CARRIERS
    }
    # Key: run, broadcast: a run has few such times, and they are apart.
    nodes = trace.engine.sql(f"""
        SELECT /*+ BROADCAST(l) */ m.run, node, {", ".join(f"{total} AS {name}" for name, total in carried.items())},
            sum(CASE WHEN {tables} THEN lost END) AS table_lost, sum(CASE WHEN {tables} THEN sent END) AS table_sent,
            CASE WHEN sum(CASE WHEN kind = 'Publish' THEN received ELSE 0 END) > 0 THEN 1 ELSE 0 END AS is_broker
        FROM {messages} AS m LEFT JOIN (SELECT run, from_us AS low, quiet_us FROM {losing}) AS l
            ON m.run = l.run AND m.from_us BETWEEN low AND quiet_us
        GROUP BY m.run, node""")
    wanted = trace.engine.table(pa.table({"run": [run.label for run in runs]}))
    moments = " UNION ALL ".join(
        f"SELECT * FROM {trace.engine.few(f'SELECT run, max({time}) AS end_us FROM {table} GROUP BY run')}"
        for table, time in (
            (trace.publications, "time_us"),
            (trace.deliveries, "time_us"),
            (incidents, "time_us"),
            (messages, "until_us"),
        )
    )
    rows = trace.engine.sql(f"""
        SELECT run, end_us, worst, brokers, {", ".join(carried)} FROM (
            SELECT run, max(end_us) AS end_us FROM ({moments}) AS moments GROUP BY run
        ) AS ends
        SEMI JOIN {wanted} USING (run)
        LEFT JOIN (
            SELECT run, max(try_divide(table_lost, table_sent)) AS worst, sum(is_broker) AS brokers,
                {", ".join(f"sum({name}) AS {name}" for name in carried)}
            FROM {nodes} GROUP BY run
        ) AS summed USING (run)""")
    found = {run.label: {"end_us": 0, "worst": 0.0, "brokers": 0, **dict.fromkeys(what.CARRIERS, 0)} for run in runs}
    for row in rows.dicts():
        carriers = {kind: max(row[f"lost_{kind}"] or 0, row[f"gone_{kind}"] or 0) for kind in what.CARRIERS}
        found[row["run"]] = {
            "end_us": row["end_us"],
            "worst": row["worst"] or 0.0,
            "brokers": row["brokers"] or 0,
            **carriers,
        }
    return found


def _moments(incidents: Relation) -> str:
    return f"""SELECT run, time_us AS from_us, time_us AS until_us FROM {incidents}
        WHERE kind IN ({listed(what.DISTURBING)})"""


def _outages(trace: Trace, incidents: Relation, times: Relation) -> Relation:
    """Of each node and link from when it failed until it works again; of links that were taken down, while any is."""
    other = "coalesce(peer, node)"
    ends = f"CASE WHEN {other} = node THEN node ELSE least(node, peer) || chr(1) || greatest(node, peer) END"
    of_what = " ".join(f"WHEN kind IN ('{came}', '{went}') THEN '{went}'" for went, came in what.OUTAGES.items())
    relevant = listed((*what.OUTAGES, *what.OUTAGES.values(), what.REPLACED))
    went = listed(what.OUTAGES)
    # Key: run and what failed. As many rows as it failed times.
    failed = f"""
        SELECT run, from_us, until_us FROM (
            SELECT run, kind, time_us AS from_us, min(CASE WHEN kind NOT IN ({went}) THEN time_us END) OVER (
                PARTITION BY run, outage, node_or_link ORDER BY time_us
                RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS until_us
            FROM (
                SELECT run, kind, time_us,
                    CASE WHEN kind = '{what.REPLACED}' THEN 'crash' {of_what} END AS outage,
                    CASE WHEN kind = '{what.REPLACED}' THEN peer ELSE {ends} END AS node_or_link
                FROM {incidents} WHERE kind IN ({relevant})
            ) AS named
        ) AS timed WHERE kind IN ({went})"""
    # Links are counted: one may come up in place of another. Below zero nothing is counted.
    in_time = "PARTITION BY run ORDER BY time_us, step DESC"
    so_far = f"({in_time} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    down = f"""
        SELECT run, from_us, until_us FROM (
            SELECT run, time_us AS from_us, lead(time_us) OVER ({in_time}) AS until_us,
                sums - least(0, min(sums) OVER {so_far}) AS down
            FROM (
                SELECT run, time_us, step, sum(step) OVER {so_far} AS sums FROM (
                    SELECT run, time_us, CASE WHEN kind = '{what.TAKEN_DOWN}' THEN 1 ELSE -1 END AS step
                    FROM {incidents} WHERE kind IN ('{what.TAKEN_DOWN}', '{what.BROUGHT_UP}')
                ) AS steps
            ) AS counted
        ) AS followed WHERE down > 0"""
    return trace.engine.few(f"""
        SELECT run, from_us, coalesce(until_us, end_us) AS until_us
        FROM ({failed} UNION ALL {down}) AS outages JOIN {times} USING (run)""")


def _losing(trace: Trace, messages: Relation, beats: Relation) -> Relation:
    """While messages about tables are lost, and until none was for two heartbeats: from_us, quiet_us."""
    lost = islands(
        trace,
        f"""SELECT run, from_us, until_us + {what.HEARTBEATS} * heartbeat_us AS until_us
        FROM {messages} JOIN {beats} USING (run) WHERE kind IN ({listed(what.TABLE_CHECKS)}) AND lost > 0""",
    )
    return trace.engine.sql(f"SELECT run, from_us, until_us AS quiet_us FROM {lost}")


def _unsure(trace: Trace, messages: Relation, losing: Relation, times: Relation) -> Relation:
    # Key: run, broadcast: few seconds of a run lose conditions.
    first = f"""
        SELECT /*+ BROADCAST(l) */ m.run, min(m.from_us) AS from_us, quiet_us
        FROM (SELECT DISTINCT run, from_us FROM {messages} WHERE kind IN ({listed(what.TABLES)}) AND lost > 0) AS m
        JOIN {losing} AS l ON m.run = l.run AND m.from_us BETWEEN l.from_us AND quiet_us
        GROUP BY m.run, quiet_us"""
    return islands(
        trace,
        f"""SELECT run, from_us - known_us AS from_us, quiet_us AS until_us
        FROM ({first}) AS first JOIN {times} USING (run)""",
    )


def islands(trace: Trace, spans: str, gap: str = "0") -> Relation:
    """Spans that touch, or are no more than a gap apart (in a column of theirs), as one. A run has few of them."""
    in_time = "PARTITION BY run ORDER BY from_us, until_us ROWS BETWEEN UNBOUNDED PRECEDING AND"
    return trace.engine.few(f"""
        SELECT run, min(from_us) AS from_us, max(until_us) AS until_us FROM (
            SELECT run, from_us, until_us, sum(begins) OVER ({in_time} CURRENT ROW) AS number FROM (
                SELECT run, from_us, until_us,
                    CASE WHEN from_us <= max(until_us) OVER ({in_time} 1 PRECEDING) + {gap} THEN 0 ELSE 1 END AS begins
                FROM ({spans}) AS spans
            ) AS begun
        ) AS numbered GROUP BY run, number""")
