"""P6, and what each failure of a broker cost: windows and joins of its own over the same trace.

When a broker failed, when that was noticed and when its replica was ready are incidents; `books/failovers.py` puts them
together for both checkers, and everything about deliveries is worked out here once more. Nothing is collected but these
incidents and counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from holdfast.books.definitions import CARRIERS, LATELY_US
from holdfast.books.failovers import ALIVE, MOMENTS, REQUESTED_KINDS, Failover, Moment, failovers, moved
from holdfast.books.verdict import EXAMPLES_MAX, Verdict
from holdfast.pipeline.audit.causes import EVENT, CutOff
from holdfast.pipeline.audit.trace_tables import Trace
from holdfast.pipeline.engine import Relation, listed

_EVENT = ", ".join(EVENT)


def replicates(incidents: Mapping[str, int]) -> bool:
    return not REQUESTED_KINDS.isdisjoint(incidents)


def judged(
    facts: Relation, trace: Trace, run: str, messages: Mapping[str, Mapping[str, int]], known_us: int, cut: CutOff
) -> tuple[Verdict, list[dict[str, Any]]]:
    """P6 of a run, and its failovers in numbers."""
    moments = _moments(trace, run)
    found = failovers([*moments, *_signs_of_life(trace, run, moments)])
    if not found:
        return Verdict("P6", True, 0, 0, note="no broker was replaced or relieved"), []
    engine = trace.engine
    own = engine.sql(f"SELECT * FROM {facts} SEMI JOIN {trace.one(run)} USING (run) WHERE published_us IS NOT NULL")
    windows = _windows(found, _transit_us(own, found))
    cost = " OR ".join(windows.values()) or "false"  # a failure may have taken it
    kept = engine.keep(f"SELECT * FROM {own} WHERE arrived_us IS NOT NULL AND NOT ({cost})")
    notes = []
    parts: list[Relation] = []
    if any(messages.get(kind, {}).get("lost", 0) for kind in CARRIERS):
        notes.append("links lost events, so completeness is not judged")
    elif all(each.promises_complete for each in found):
        parts.append(_missed(kept, _alike(trace, run, moved(moments), known_us)))
    else:
        notes.append("basic replication does not promise completeness")
    if all(each.promises_order for each in found):
        parts.append(_late(kept, found))
    else:
        notes.append("order is not promised")
    if any(each.ready_us is None for each in found):
        cut = CutOff()
    if cut.count:
        notes.insert(0, f"{cut.count:,} events never reached subscribers that get nothing since a broker was replaced")
    broken = sum(map(_count, parts)) + cut.count
    shown = [engine.sql(f"SELECT * FROM {part} ORDER BY {_EVENT} LIMIT {EXAMPLES_MAX}").dicts() for part in parts]
    examples = [*(row for rows in shown for row in rows), *cut.examples][:EXAMPLES_MAX]
    verdict = Verdict("P6", not broken, _count(kept) + cut.count, broken, tuple(examples), note="; ".join(notes))
    return verdict, _numbers(own, windows, found, trace, run)


def _count(rows: Relation) -> int:
    ((count,),) = rows.engine.sql(f"SELECT count(*) FROM {rows}").rows()
    return int(count)


def _moments(trace: Trace, run: str) -> list[Moment]:
    rows = trace.engine.sql(f"""
        SELECT {", ".join(Moment._fields)} FROM {trace.incidents} SEMI JOIN {trace.one(run)} USING (run)
        WHERE kind IN ({listed(MOMENTS)})""")
    return [Moment(*row) for row in rows.rows()]


def _signs_of_life(trace: Trace, run: str, moments: Sequence[Moment]) -> list[Moment]:
    """When the brokers that were replaced sent something, second by second."""
    engine = trace.engine
    requests = [moment for moment in moments if moment.kind in REQUESTED_KINDS]
    replaced = {name for moment in requests for name in (moment.peer, moment.other) if name}
    nodes = engine.table(pa.table({"node": pa.array(sorted(replaced), pa.string())}))
    rows = engine.sql(f"""
        SELECT DISTINCT node, from_us FROM {trace.messages}
        SEMI JOIN {trace.one(run)} USING (run) SEMI JOIN {nodes} USING (node) WHERE sent > lost""")
    return [Moment(node, from_us, ALIVE) for node, from_us in rows.rows()]


def _transit_us(own: Relation, found: Sequence[Failover]) -> int:
    """How long events took shortly before a failure: so long ago one may have left that was lost with the broker."""
    failed_us = [each.window_us[0] for each in found if each.window_us is not None]
    lately = " OR ".join(f"arrived_us BETWEEN {at_us - LATELY_US} AND {at_us}" for at_us in failed_us)
    if not lately:
        return 0
    ((longest,),) = own.engine.sql(f"SELECT max(arrived_us - published_us) FROM {own} WHERE {lately}").rows()
    return longest or 0


def _windows(found: Sequence[Failover], transit_us: int) -> dict[Failover, str]:
    """Of each broker that failed: whether an event was published so that it may have been lost with it."""
    return {
        each: f"published_us BETWEEN {each.window_us[0] - transit_us} AND {each.window_us[1]}"
        for each in found
        if each.window_us is not None
    }


def _late(kept: Relation, found: Sequence[Failover]) -> Relation:
    shared = [f"arrived_us >= {each.asked_us}" for each in found if each.use != "failover"]
    late = " OR ".join(["via = 'replica'", *shared])
    return kept.engine.sql(f"SELECT {_EVENT} FROM {kept} WHERE overtaken AND ({late})")


def _missed(kept: Relation, alike: Relation) -> Relation:
    """What a subscriber did not get of that which another got who wants the same, between events that it got."""
    engine = kept.engine
    # Key: subscriber. There are as many rows as subscribers, so this side is broadcast.
    got = engine.sql(f"""
        SELECT /*+ BROADCAST(a) */ DISTINCT wants, since_us, k.subscriber, source, seq, published_us
        FROM {kept} AS k JOIN {alike} AS a ON k.subscriber = a.subscriber""")
    # Key: conditions and source. As many rows come out as deliveries were due to those who want the same.
    return engine.sql(f"""
        SELECT due.* FROM (
            SELECT subscriber, events.source, seq
            FROM (SELECT DISTINCT wants, source, seq FROM {got} WHERE published_us >= since_us) AS events
            JOIN (
                SELECT wants, subscriber, source, min(seq) AS low, max(seq) AS high
                FROM {got} GROUP BY wants, subscriber, source
            ) AS spans ON events.wants = spans.wants AND events.source = spans.source
            WHERE seq > low AND seq < high
        ) AS due ANTI JOIN {got} AS got
        ON due.subscriber = got.subscriber AND due.source = got.source AND due.seq = got.seq""")


def _alike(trace: Trace, run: str, moved_clients: set[str], known_us: int) -> Relation:
    engine = trace.engine
    gone = engine.table(pa.table({"subscriber": pa.array(sorted(moved_clients), pa.string())}))
    wants = engine.sql(f"""
        SELECT * FROM (
            SELECT subscriber, md5(array_join(sort_array(collect_set(condition)), chr(1))) AS wants,
                max(from_us) AS from_us, count(until_us) AS ended
            FROM {trace.subscriptions} SEMI JOIN {trace.one(run)} USING (run) GROUP BY subscriber
        ) AS each_one ANTI JOIN {gone} USING (subscriber) WHERE ended = 0""")
    return engine.sql(f"""
        SELECT subscriber, w.wants, since_us FROM {wants} AS w JOIN (
            SELECT wants, max(from_us) + {known_us} AS since_us FROM {wants} GROUP BY wants HAVING count(*) > 1
        ) AS shared ON w.wants = shared.wants""")


def _numbers(
    own: Relation, windows: Mapping[Failover, str], found: Sequence[Failover], trace: Trace, run: str
) -> list[dict[str, Any]]:
    """Each failover with its moments; what was lost in between, and in the whole run outside of all of these."""
    engine = own.engine
    cost = " OR ".join(windows.values()) or "false"
    counts = ", ".join(f"count_if({each})" for each in (*windows.values(), f"NOT ({cost})"))
    named = ", ".join(f"c{at}" for at in range(len(windows) + 1))
    lost = f"SELECT {counts} FROM {own} WHERE owed AND arrived_us IS NULL AND NOT expired"
    ((*inside, outside),) = engine.sql(f"SELECT * FROM ({lost}) AS counts({named})").rows()
    lost_in = dict(zip(windows, inside, strict=True))
    rows = []
    for each in found:
        row: dict[str, Any] = {
            "faulty": each.faulty,
            "replica": each.replica,
            "protocol": each.copying,
            "use": each.use,
            "failed_us": each.failed_us,
            "noticed_us": each.noticed_us,
            "asked_us": each.asked_us,
            "ready_us": each.ready_us,
        }
        if each.failed_us is not None:
            published = engine.sql(f"""
                SELECT 1 AS one FROM {trace.publications} SEMI JOIN {trace.one(run)} USING (run)
                WHERE time_us BETWEEN {each.failed_us} AND {each.noticed_us}""")
            row |= {"published": _count(published), "lost": lost_in[each], "lost_outside": outside}
        rows.append(row)
    return rows
