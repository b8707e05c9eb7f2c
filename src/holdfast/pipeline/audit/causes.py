"""What may have cost the events that are missing, and how many of them (docs/promises.md)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from holdfast.books import definitions as what
from holdfast.books.failovers import MOVED
from holdfast.books.promised import NO_ORDER, hands_over_at_once, order_promised, recovery_promised
from holdfast.books.verdict import EXAMPLES_MAX
from holdfast.pipeline.audit.disturbances import Disturbances, islands
from holdfast.pipeline.audit.metrics import VIOLATIONS
from holdfast.pipeline.audit.trace_tables import Trace
from holdfast.pipeline.engine import Relation, listed

EVENT = ("subscriber", "source", "seq")
_EVENT = ", ".join(EVENT)


def _arrived(causes: Disturbances, rows: str, at: str, arrived: str) -> str:
    """Rows with a column more: until when a condition that set out then may be on its way, because some were lost."""
    wait = f"known_us + ({what.HEARTBEATS} + waits) * heartbeat_us"
    # Key: run, broadcast: a run has few such spans, and they are apart.
    return f"""
        SELECT /*+ BROADCAST(u) */ r.*,
            CASE WHEN u.until_us IS NULL THEN r.{at} ELSE least(u.until_us, r.{at} + {wait}) END AS {arrived}
        FROM ({rows}) AS r JOIN {causes.times} AS t ON r.run = t.run
        LEFT JOIN {causes.unsure} AS u ON r.run = u.run AND r.{at} BETWEEN u.from_us AND u.until_us"""


def _known(causes: Disturbances, rows: str, disturbed: Relation, began_us: str) -> str:
    """Rows whose subscription was known when the event was published; what begins around a disturbance is after it."""
    held_up = _arrived(causes, f"SELECT * FROM {disturbed}", "until_us", "over_us")
    spans = islands(
        causes.trace,
        f"SELECT run, from_us, over_us AS until_us, known_us FROM ({held_up}) AS held JOIN {causes.times} USING (run)",
        "known_us",
    )
    rows = _arrived(causes, f"SELECT *, {began_us} AS began_us FROM ({rows}) AS own", "began_us", "there_us")
    met = " OR ".join(f"r.{time} BETWEEN s.from_us - r.known_us AND s.until_us" for time in ("began_us", "there_us"))
    # Key: run. A run has few merged spans, so they are broadcast.
    return f"""
        SELECT /*+ BROADCAST(s) */ r.* FROM (
            SELECT own.*, known_us FROM ({rows}) AS own JOIN {causes.times} USING (run)
            WHERE there_us + known_us <= published_us
        ) AS r ANTI JOIN {spans} AS s
        ON r.run = s.run AND ({met}) AND s.until_us + r.known_us > r.published_us"""


def _settled_clients(causes: Disturbances, rows: str) -> str:
    """Rows of which neither client had left its broker, nor left it soon after."""
    soon = f"greatest(longest_us, {what.HEARTBEATS} * heartbeat_us)"
    for client in ("subscriber", "source"):
        # Key: run and client. Few move; where all leave at the end, one row each.
        rows = f"""
            SELECT r.* FROM ({rows}) AS r JOIN {causes.times} AS t ON r.run = t.run
            LEFT JOIN {causes.moved} AS m ON r.run = m.run AND r.{client} = m.client
            WHERE moved_us IS NULL OR published_us + {soon} < moved_us"""
    return rows


def _unnamed(causes: Disturbances, rows: str, kinds: Iterable[str]) -> str:
    """Rows that their subscriber has not named in an incident of these kinds: by number, or by time."""
    reported = f"SELECT * FROM {causes.incidents} WHERE kind IN ({listed(kinds)})"
    # Key: run, subscriber and source. A subscriber names few ranges of one source. The times of the second join are
    # broadcast: only clients that moved name times.
    return f"""
        SELECT /*+ BROADCAST(t) */ r.* FROM (
            SELECT r.* FROM ({rows}) AS r ANTI JOIN ({reported} AND first > 0) AS n
            ON r.run = n.run AND r.subscriber = n.node AND r.source = n.source
                AND r.seq >= n.first AND r.seq < n.first + n.count
        ) AS r ANTI JOIN (
            SELECT run, node, since_us - longest_us AS low, time_us AS high
            FROM ({reported} AND since_us IS NOT NULL) AS reported JOIN {causes.times} USING (run)
        ) AS t ON r.run = t.run AND r.subscriber = t.node AND r.published_us BETWEEN t.low AND t.high"""


# P4 ----------------------------------------------------------------------------------------------------------------


def unexplained(facts: Relation, causes: Disturbances, incidents: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """By run: how many of the missing events have no cause."""
    trace, engine = causes.trace, causes.trace.engine
    recovers = engine.table(
        pa.table({"run": [*causes.runs], "recovers": [recovery_promised(run.about) for run in causes.runs.values()]})
    )
    due = engine.sql(f"""
        SELECT facts.* FROM {facts} AS facts JOIN {causes.times} AS t ON facts.run = t.run
        JOIN {recovers} AS r ON facts.run = r.run
        WHERE published_us
            + greatest(2 * longest_us, CASE WHEN recovers THEN {what.LEASES} * lease_us ELSE 0 END) <= end_us""")
    spans = causes.around("longest_us", f"{what.LEASES} * lease_us")
    full = f"""SELECT DISTINCT run, node AS subscriber, true AS is_full FROM {trace.samples}
        WHERE name = '{what.FOLLOWED}' AND value >= bound"""
    # Key: the event, then how many miss it: as many rows come back as there are different numbers of those.
    counts = engine.sql(f"""
        SELECT run, others, count(*) AS events, sum(silent) AS silent FROM (
            SELECT run, source, seq, count_if(silent) AS silent, count_if(NOT silent) AS others FROM (
                SELECT run, source, seq, recovers AND is_full IS NULL AND subscriber <> source AS silent
                FROM ({_without_excuse(due, causes, spans)}) AS missing
                JOIN {recovers} USING (run) LEFT JOIN ({full}) AS full_ones USING (run, subscriber)
            ) AS told GROUP BY run, source, seq
        ) AS events GROUP BY run, others""")
    return _in_proportion(counts.dicts(), causes, incidents)


def _without_excuse(facts: Relation, causes: Disturbances, spans: Relation) -> str:
    """What is missing and was published outside of these disturbances, for subscriptions that were known."""
    missing = causes.trace.engine.keep(f"""
        SELECT run, {_EVENT}, published_us, settled_us FROM {facts} SEMI JOIN {causes.times} USING (run)
        WHERE {VIOLATIONS["missing"]} AND NOT expired""")
    rows = f"SELECT * FROM {missing}"
    rows = _settled_clients(causes, _unnamed(causes, rows, what.NAMING))
    # Key: run; the spans are broadcast. Then run, subscriber and source: one row a pair. `lasts`, so that the
    # subscription did not end while the event was on its way.
    judged = causes.trace.engine.keep(f"""
        SELECT /*+ BROADCAST(s) */ r.run, {_EVENT}, published_us, settled_us,
            coalesce(published_us >= proven_us, false) AND settled_us >= longest_us AS is_proven
        FROM (
            SELECT own.*, longest_us FROM ({rows}) AS own JOIN {causes.times} USING (run) WHERE settled_us >= known_us
        ) AS r
        ANTI JOIN {spans} AS s ON r.run = s.run AND r.published_us BETWEEN s.from_us AND s.until_us
        LEFT JOIN {_proven(causes, spans)} USING (run, subscriber, source)""")
    unproven = f"SELECT * FROM {judged} WHERE NOT is_proven"
    columns = f"run, {_EVENT}, published_us"
    return f"""
        SELECT {columns} FROM {judged} WHERE is_proven
        UNION ALL
        SELECT {columns} FROM ({_known(causes, unproven, spans, "published_us - settled_us")}) AS others"""


def _proven(causes: Disturbances, spans: Relation) -> Relation:
    """Of subscribers with one subscription and sources: when an event arrived first after the last disturbance."""
    trace = causes.trace
    # Key: run and subscriber. There are as many rows as subscribers, so this side is broadcast.
    return trace.engine.keep(f"""
        SELECT /*+ BROADCAST(l), BROADCAST(a) */ d.run, d.subscriber, d.source, min(time_us) AS proven_us
        FROM {trace.deliveries} AS d
        SEMI JOIN (
            SELECT run, subscriber FROM {trace.subscriptions} GROUP BY run, subscriber HAVING count(*) = 1
        ) AS a ON d.run = a.run AND d.subscriber = a.subscriber
        LEFT JOIN (SELECT run, max(until_us) AS last_us FROM {spans} GROUP BY run) AS l ON d.run = l.run
        WHERE time_us >= coalesce(last_us, 0) GROUP BY d.run, d.subscriber, d.source""")


def _in_proportion(
    counts: list[dict[str, Any]], causes: Disturbances, incidents: Mapping[str, Mapping[str, int]]
) -> dict[str, int]:
    """A lost Publish costs one event, and all who are owed it; a lost Deliver one of them."""
    found = dict.fromkeys(causes.runs, 0)
    for run in found:
        costing = sum(count for kind, count in incidents.get(run, {}).items() if kind in what.COSTING_ONE)
        whole, single = causes.sums[run]["Publish"] + costing, causes.sums[run]["Deliver"]
        beyond = 0
        for row in sorted((row for row in counts if row["run"] == run), key=lambda row: -row["others"]):
            excused = min(whole, row["events"])
            whole -= excused
            beyond += (row["events"] - excused) * row["others"]
            found[run] += row["silent"]
        found[run] += max(0, beyond - single)
    return found


def withheld(trace: Trace) -> dict[str, int]:
    """By run: messages with an event that reached a subscriber, and of which nothing came out.

    Where subscribers hold events back they are judged by their last sample, which tells how many they hold.
    """
    engine = trace.engine
    talks = engine.sql(f"SELECT DISTINCT run FROM {trace.messages} WHERE kind = 'DeliverControl'").rows()
    apart = {run for (run,) in talks} | {run.label for run in trace.runs if hands_over_at_once(run.about)}
    clear = [run for run in trace.runs if run.label in apart]
    if not clear:
        return {}
    keeps_order = [order_promised(run.about) != NO_ORDER for run in clear]
    runs = engine.table(pa.table({"run": [run.label for run in clear], "keeps_order": keeps_order}))
    last = engine.sql(f"""
        SELECT run, node, max(time_us) AS last_us, CAST(max_by(value, time_us) AS BIGINT) AS held
        FROM {trace.samples} WHERE name = '{what.HELD_BACK}' GROUP BY run, node""")
    steps = f"""
        SELECT run, node, until_us AS time_us, received AS step FROM {trace.messages} WHERE kind = 'Deliver'
        UNION ALL
        SELECT run, subscriber, time_us, -1 FROM {trace.deliveries} WHERE via <> 'repair'
        UNION ALL
        SELECT run, node, time_us, -count FROM {trace.incidents} WHERE kind IN ({listed(what.DROPPING)})
        UNION ALL
        SELECT run, node, last_us, -held FROM {last}"""  # a repair is no Deliver
    # Key: run and subscriber; there is one sample each, so that side is broadcast. Tasks add up before the shuffle.
    found = engine.sql(f"""
        SELECT run, sum(remaining) AS remaining FROM (
            SELECT /*+ BROADCAST(l) */ s.run, s.node, sum(step) AS remaining
            FROM ({steps}) AS s JOIN {runs} AS r ON s.run = r.run
            LEFT JOIN {last} AS l ON s.run = l.run AND s.node = l.node
            WHERE coalesce(time_us <= last_us, NOT keeps_order) GROUP BY s.run, s.node
        ) AS nodes WHERE remaining > 0 GROUP BY run""")
    return dict(found.rows())


# P5 ----------------------------------------------------------------------------------------------------------------


def _disturbed_stores(causes: Disturbances) -> Relation:
    return causes.around("0", f"{what.HEARTBEATS} * heartbeat_us")


def still_to_come(facts: Relation, causes: Disturbances) -> dict[str, int]:
    """By run: until when events were published that have had the time to arrive, undisturbed."""
    engine = causes.trace.engine
    last = engine.sql(f"""
        SELECT run, max(d.from_us) AS from_us FROM {_disturbed_stores(causes)} AS d JOIN {causes.times} USING (run)
        WHERE d.until_us >= end_us GROUP BY run""")
    quiet_us = {run: times.end_us for run, times in causes.by_run.items()} | dict(last.rows())
    quiet = engine.table(pa.table({"run": [*quiet_us], "quiet_us": [*quiet_us.values()]}))
    behind = engine.sql(f"""
        SELECT run, max(arrived_us - published_us) AS behind_us FROM {facts} JOIN {quiet} USING (run)
        WHERE arrived_us BETWEEN quiet_us - {what.LATELY_US} AND quiet_us GROUP BY run""")
    behind_us = {run: longest_us or 0 for run, longest_us in behind.rows()}
    losing = engine.sql(f"""
        SELECT DISTINCT run FROM {causes.messages} JOIN {quiet} USING (run) JOIN {causes.times} USING (run)
        WHERE lost > 0 AND until_us >= quiet_us - {what.HEARTBEATS} * heartbeat_us""")
    lossy = {run for (run,) in losing.rows()}
    found = {}
    for run, times in causes.by_run.items():
        heartbeats = what.HEARTBEATS + (times.waits if run in lossy else 0)
        found[run] = quiet_us[run] - max(heartbeats * times.heartbeat_us, 2 * behind_us.get(run, 0))
    return found


def _due(facts: Relation, causes: Disturbances) -> Relation:
    """For each run, until when its events were published that should have arrived."""
    until = still_to_come(facts, causes)
    return causes.trace.engine.table(pa.table({"run": [*until], "due_us": [*until.values()]}))


def owed_by_stores(facts: Relation, causes: Disturbances) -> Relation:
    """What was acknowledged and came, or had the time to: at clients that stayed, for subscriptions that were known."""
    engine = causes.trace.engine
    columns = "run, subscriber, source, seq, published_us, arrived_us"
    # Key: source and seq. An event has as many rows as it has subscribers.
    rows = engine.sql(f"""
        SELECT {columns}, lasting_us, expired FROM {facts} SEMI JOIN (
            SELECT DISTINCT run, source, explode(sequence(first, first + count - 1)) AS seq
            FROM {causes.incidents} WHERE kind = 'acknowledged'
        ) AS acknowledged USING (run, source, seq)
        WHERE (first OR arrived_us IS NULL) AND lasting_us >= 0""")
    missing = f"""SELECT {columns}, lasting_us FROM {rows} JOIN {_due(facts, causes)} USING (run)
        WHERE arrived_us IS NULL AND NOT expired AND published_us <= due_us"""
    if causes.down_at_end:
        missing = _over(causes, missing)
    missing = _settled_clients(causes, _unnamed(causes, missing, ["out_of_order"]))
    missing = _known(causes, missing, _disturbed_stores(causes), "published_us - lasting_us")
    return engine.keep(f"""
        SELECT {columns} FROM {rows} WHERE arrived_us IS NOT NULL
        UNION ALL SELECT {columns} FROM ({missing}) AS missing""")


def _over(causes: Disturbances, rows: str) -> str:
    """Rows without those that may still come: their trace ends while something is down, and before their lifetime."""
    down = causes.trace.engine.table(pa.table({"run": sorted(causes.down_at_end)}))
    # Key: source and seq. Only what is missing is looked up.
    return f"""
        SELECT r.* FROM ({rows}) AS r ANTI JOIN (
            SELECT run, source, seq FROM {causes.trace.publications} JOIN {causes.times} USING (run)
            SEMI JOIN {down} USING (run) WHERE lifetime_us IS NULL OR time_us + lifetime_us > end_us
        ) AS p ON r.run = p.run AND r.source = p.source AND r.seq = p.seq"""


# P6 ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CutOff:
    """Events that never reached subscribers which get nothing of their source since the network has settled."""

    count: int = 0
    examples: tuple[dict[str, Any], ...] = ()


def cut_off(facts: Relation, causes: Disturbances) -> dict[str, CutOff]:
    """By run: what is owed since the last disturbance and a lease, where a subscriber got nothing of a source since.

    Nothing if the messages that were lost meanwhile, or what nodes dropped, can have cost so many events.
    """
    engine = causes.trace.engine
    spans = causes.around("0", "lease_us")
    last = f"SELECT run, max(until_us) AS last_us FROM {spans} GROUP BY run"
    since = engine.few(f"SELECT run, since_us FROM ({_arrived(causes, last, 'last_us', 'since_us')}) AS settled")
    owed = engine.sql(f"""
        SELECT facts.* FROM {facts} AS facts JOIN {since} USING (run) WHERE owed AND published_us >= since_us""")
    # Key: run, subscriber and source. Almost all pairs are reached.
    silent = engine.sql(f"""
        SELECT owed.* FROM {owed} AS owed
        ANTI JOIN (SELECT DISTINCT run, subscriber, source FROM {owed} WHERE arrived_us IS NOT NULL) AS reached
            USING (run, subscriber, source)
        JOIN {_due(facts, causes)} USING (run) WHERE published_us <= due_us""")
    homeless = f"(SELECT DISTINCT run, node FROM {causes.incidents} WHERE kind = '{MOVED}')"
    rows = engine.keep(f"""
        SELECT r.* FROM ({_without_excuse(silent, causes, spans)}) AS r
        ANTI JOIN {homeless} AS s ON r.run = s.run AND r.subscriber = s.node
        ANTI JOIN {homeless} AS p ON r.run = p.run AND r.source = p.node""")
    shown: dict[str, list[dict[str, Any]]] = {}
    for row in first_few(rows, "published_us"):
        shown.setdefault(row["run"], []).append({name: row[name] for name in EVENT})
    counts = engine.sql(f"""
        SELECT run, sum(misses) AS misses, count(*) AS events FROM (
            SELECT run, source, seq, count(*) AS misses FROM {rows} GROUP BY run, source, seq
        ) AS events GROUP BY run""").rows()
    cost = _cost_since(causes, since)
    return {run: CutOff(count, tuple(shown[run])) for run, count, events in counts if events > cost[run]}


def first_few(rows: Relation, time: str) -> list[dict[str, Any]]:
    """The first examples of each run, by this time."""
    return rows.engine.sql(f"""
        SELECT * FROM (
            SELECT *, row_number() OVER (PARTITION BY run ORDER BY {time}, {_EVENT}) AS number FROM {rows}
        ) AS numbered WHERE number <= {EXAMPLES_MAX} ORDER BY run, number""").dicts()


def _cost_since(causes: Disturbances, since: Relation) -> Counter[str]:
    """By run: messages with an event that were lost since then, and events that nodes dropped."""
    engine = causes.trace.engine
    lost = engine.sql(f"""
        SELECT run, kind, sum(lost) AS lost, sum(sent - received) AS gone
        FROM {causes.messages} JOIN {since} USING (run)
        WHERE until_us >= since_us AND kind IN ({listed(what.CARRIERS)}) GROUP BY run, kind""")
    dropped = engine.sql(f"""
        SELECT i.run, sum(count) AS dropped FROM {causes.incidents} AS i JOIN {since} AS s ON i.run = s.run
        WHERE time_us >= s.since_us AND kind IN ({listed(what.COSTING_ONE)}) GROUP BY i.run""")
    cost = Counter[str]()
    for run, _, *either in lost.rows():
        cost[run] += max(either)
    for run, count in dropped.rows():
        cost[run] += count
    return cost
