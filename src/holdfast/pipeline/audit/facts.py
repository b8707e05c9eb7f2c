"""The facts of the audit: one row per delivery, and one per delivery that is owed and never came.

What was wanted and what arrived are laid together by pair: one shuffle of all rows. What depends on a pair's other
events (its place in the source's order, in the order of arrival, and whether a later one was there before it) is then
worked out by `pair_order`, pair by pair. A source that has published very much is cut into ranges of sequence numbers,
and what the ranges before or after one come to is carried in from their sums; its order of arrival is put together in
slices of time. So a pair that has almost all rows of a run is many tasks' work, not one's.
"""

from holdfast.books.definitions import LEARNT, LEARNT_US
from holdfast.pipeline.audit.owed import wanted
from holdfast.pipeline.audit.pair_order import LAID_TOGETHER, PLACED, in_turn, placed
from holdfast.pipeline.audit.trace_tables import Trace
from holdfast.pipeline.engine import Relation, broadcast_if_few

_PAIR = "run, subscriber, source"
_FOREVER_US = 2**62  # a subscription that has not ended
# Publications of a source from which on its pairs are cut: a task lays twice as many rows together in a few seconds
# and 200 MB. And how wide a range then is: several make a task, so that tasks are alike. Slices of time vary in what
# they hold, so a task gets many.
WHOLE_MAX = 1 << 19
RANGE = 1 << 15
_SLICES = 8  # as many as hold the deliveries of one range, on average
_WHOLE = -1  # in place of a range's number, where a source is not cut
# What never came has no time: it stays apart, range by range, so that no slice gathers all of it.
_SLICE = "coalesce(CAST(floor(arrived_us / slice_us) AS BIGINT), -1 - seqs)"
_KNOWN = "seq, published_us, owed, wanted_us, settled_us, lasting_us, expired, arrived_us, via, held_us, first, again"


def facts(trace: Trace, is_read_once: bool = False) -> Relation:
    """Run, subscriber, source and seq, and

    published_us   when it was published; empty for a delivery that nobody ever wanted
    arrived_us     when it was handed over; empty when it never was
    via            how it came
    held_us        how long its subscriber held it back for the sake of order
    owed           a matching subscription was active as it was published
    wanted_us      since when it might be handed over: the first matching subscription that had not ended before
    settled_us     how far the publishing lies within the life of that subscription
    lasting_us     how long the oldest matching subscription had lived that never ended; empty when there was none
    expired        some node threw it away because its lifetime was over
    first          not a duplicate
    again          it was handed over more than once
    overtaken      a later event of the same source was handed over before it
    behind         a later event of the same source reached its subscriber before it, held back there or not
    learnt         its subscriber had got enough of the source's events before to know how long to wait for one
    displacement   how many places it came from its place in the source's order, among those that came
    ordered        1 when it came in its place, less by its displacement
    """
    cut = _cut_sources(trace)
    rows = _placed(trace, cut)
    if cut is None:
        return (trace.engine.sql if is_read_once else trace.engine.keep)(_judged(rows))
    rows = trace.engine.keep(f"SELECT * FROM {rows}")
    ranged = trace.engine.sql(f"SELECT * FROM {rows} WHERE seqs <> {_WHOLE}")
    # Kept by themselves: tasks of one stage then do the same.
    put_together = trace.engine.keep(_judged(_put_together(trace, ranged, _slices(trace, cut))))
    return trace.engine.sql(f"{_judged(rows)} WHERE seqs = {_WHOLE} UNION ALL SELECT * FROM {put_together}")


def _judged(rows: Relation) -> str:
    """FIFO violations, and paper 003's ordering degree before it is averaged: (S - D) / S for each of S events."""
    return f"""
        SELECT {_PAIR}, {_KNOWN}, overtaken, behind,
            coalesce(came_place > {LEARNT} AND since_us >= {LEARNT_US}, false) AS learnt,
            CASE WHEN first THEN abs(came_place - sent_place) END AS displacement,
            CASE WHEN first THEN 1 - abs(came_place - sent_place) / came END AS ordered
        FROM {rows}"""


def _cut_sources(trace: Trace) -> Relation | None:
    """Sources with too many publications for one task, if there are any."""
    if all(run.rows["publications"] <= WHOLE_MAX for run in trace.runs):
        return None
    found = trace.engine.few(f"""
        SELECT run, source, true AS is_cut FROM {trace.publications} GROUP BY run, source
        HAVING count(*) > {WHOLE_MAX}""")
    return found if found.rows() else None


def _placed(trace: Trace, cut: Relation | None) -> Relation:
    nothing = "CAST(NULL AS BIGINT)"
    until = f"coalesce(until_us, {_FOREVER_US})"
    laid = f"""
        SELECT {_PAIR}, seq, published_us,
            from_us <= published_us AND published_us < {until} AS owed,
            CASE WHEN {until} >= published_us THEN from_us END AS wanted_us,
            least(published_us - from_us, {until} - published_us) AS settled_us,
            CASE WHEN until_us IS NULL THEN published_us - from_us END AS lasting_us,
            expired,
            {nothing} AS arrived_us, CAST(NULL AS STRING) AS via, {nothing} AS held_us, {nothing} AS number
        FROM {wanted(trace)}
        UNION ALL
        SELECT {_PAIR}, seq, {nothing}, false,
            {nothing}, {nothing}, {nothing}, false, time_us, via, held_us, number
        FROM {trace.deliveries}"""
    seqs = f"CAST({_WHOLE} AS BIGINT)"
    if cut is not None:
        # Key: run and source, broadcast: as many rows as there are sources that have published so much.
        laid = f"SELECT /*+ BROADCAST(c) */ * FROM ({laid}) AS l LEFT JOIN {cut} AS c USING (run, source)"
        seqs = f"CASE WHEN is_cut THEN CAST(floor(seq / {RANGE}) AS BIGINT) ELSE {_WHOLE} END"
    columns = ", ".join(name if name != "seqs" else f"{seqs} AS seqs" for name in LAID_TOGETHER.names)
    # Key: pair and range of sequence numbers. The one shuffle of all rows where no source is cut.
    return trace.engine.together(
        f"SELECT {columns} FROM ({laid}) AS laid", (*_PAIR.split(", "), "seqs"), placed, PLACED
    )


def _other_ranges(trace: Trace, ranged: Relation) -> Relation:
    """What a pair's other ranges add. One row per range: a hot pair's rows less a factor of thousands."""
    return trace.engine.keep(f"""
        SELECT {_PAIR}, seqs,
            coalesce(sum(firsts) OVER earlier, 0) AS placed_before,
            sum(firsts) OVER pair AS all_came,
            min(began_us) OVER pair AS began_us,
            min(arrived) OVER later AS arrived_later,
            min(reached) OVER later AS reached_later
        FROM (
            SELECT {_PAIR}, seqs, count_if(first) AS firsts, min(arrived_us) AS began_us,
                min(CASE WHEN arrived_us IS NOT NULL THEN (arrived_us, number) END) AS arrived,
                min(CASE WHEN arrived_us IS NOT NULL THEN (arrived_us - coalesce(held_us, 0), number) END) AS reached
            FROM {ranged} GROUP BY {_PAIR}, seqs
        ) AS ranges
        WINDOW pair AS (PARTITION BY {_PAIR}),
            earlier AS (PARTITION BY {_PAIR} ORDER BY seqs ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
            later AS (PARTITION BY {_PAIR} ORDER BY seqs ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)""")


def _other_slices(trace: Trace, ranged: Relation, slices: Relation) -> Relation:
    """How many of a pair's events came in the slices of time before each."""
    return trace.engine.keep(f"""
        SELECT {_PAIR}, seqs, coalesce(sum(firsts) OVER (PARTITION BY {_PAIR} ORDER BY seqs
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS came_before
        FROM (
            SELECT {_PAIR}, {_SLICE} AS seqs, count_if(first) AS firsts
            FROM {ranged} JOIN {slices} USING (run) GROUP BY {_PAIR}, {_SLICE}
        ) AS counted""")


def _put_together(trace: Trace, ranged: Relation, slices: Relation) -> Relation:
    """Rows of ranges, placed among all of their pair."""
    ranges, counts = _other_ranges(trace, ranged), _other_slices(trace, ranged, slices)
    # Key: pair and range, mostly broadcast, and pair and slice of time, the same.
    carried = f"""
        SELECT {broadcast_if_few(counts, "earlier")} sliced.*, came_before AS came_place FROM (
            SELECT {broadcast_if_few(ranges, "carried")} {_PAIR}, {_KNOWN}, number,
                all_came AS came, arrived_us - began_us AS since_us,
                placed_before + sent_place AS sent_place,
                overtaken OR arrived_us IS NOT NULL
                    AND coalesce(arrived_later < (arrived_us, number), false) AS overtaken,
                behind OR arrived_us IS NOT NULL
                    AND coalesce(reached_later < (arrived_us - coalesce(held_us, 0), number), false) AS behind,
                {_SLICE} AS seqs
            FROM {ranged} AS ranged JOIN {ranges} AS carried USING ({_PAIR}, seqs)
            JOIN {slices} AS slices USING (run)
        ) AS sliced JOIN {counts} AS earlier USING ({_PAIR}, seqs)"""
    # Key: pair and slice of time: the second shuffle, for the order of arrival.
    return trace.engine.together(
        f"SELECT {', '.join(PLACED.names)} FROM ({carried}) AS carried", (*_PAIR.split(", "), "seqs"), in_turn, PLACED
    )


def _slices(trace: Trace, cut: Relation) -> Relation:
    """How long a slice of time is in each run."""
    rows = max(1, RANGE // _SLICES)
    return trace.engine.few(f"""
        SELECT run, CAST(greatest(1, (max(time_us) - min(time_us)) / greatest(1, count(*) / {rows})) AS BIGINT)
            AS slice_us
        FROM {trace.deliveries} SEMI JOIN {cut} USING (run, source) GROUP BY run""")
