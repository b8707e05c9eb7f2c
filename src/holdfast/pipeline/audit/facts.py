"""The facts of the audit: one row per delivery, and one per delivery that is owed and never came.

What was wanted and what arrived are laid together by event. What depends on a pair's other events (its place in the
source's order, in the order of arrival, and whether a later one was there before it) is worked out in ranges: of
sequence numbers, then of arrival times. Each range is sorted alone, and what the ranges before or after it come to is
carried in from their sums. So a pair that has almost all rows of a run is many tasks' work, not one's.
"""

from holdfast.books.definitions import LEARNT, LEARNT_US
from holdfast.pipeline.audit.owed import wanted
from holdfast.pipeline.audit.trace_tables import Trace
from holdfast.pipeline.engine import Relation

_PAIR = "run, subscriber, source"
_FOREVER_US = 2**62  # a subscription that has not ended
# Sequence numbers of one range, and deliveries of one range of time on average: few enough that a hot pair makes many
# more ranges than a cluster has tasks, and many enough that a range is seldom a single row.
RANGE = 1 << 14
# What never came has no time: it stays apart, range by range, so that no slice gathers all of it.
_SLICE = "coalesce(CAST(floor(arrived_us / slice_us) AS BIGINT), -1 - seqs)"
_EVENT_KNOWS = {
    "published_us": "max",
    "owed": "bool_or",
    "wanted_us": "min",
    "settled_us": "max",
    "lasting_us": "max",
    "expired": "bool_or",
}


def facts(trace: Trace) -> Relation:
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
    ranged = trace.engine.keep(f"SELECT * FROM {_in_ranges(trace, _classified(trace, _laid_together(trace)))}")
    return _in_order_of_arrival(trace, ranged, _slices(trace))


def _laid_together(trace: Trace) -> Relation:
    nothing = "CAST(NULL AS BIGINT)"
    until = f"coalesce(until_us, {_FOREVER_US})"
    # Key: pair and range of sequence numbers. The one shuffle that everything up to the order of arrival needs.
    return trace.engine.sql(f"""
        SELECT /*+ REPARTITION({_PAIR}, seqs) */ * FROM (
            SELECT {_PAIR}, {_range("seq", RANGE)} AS seqs, seq, published_us,
                from_us <= published_us AND published_us < {until} AS owed,
                CASE WHEN {until} >= published_us THEN from_us END AS wanted_us,
                least(published_us - from_us, {until} - published_us) AS settled_us,
                CASE WHEN until_us IS NULL THEN published_us - from_us END AS lasting_us,
                expired,
                {nothing} AS arrived_us, CAST(NULL AS STRING) AS via, {nothing} AS held_us, {nothing} AS number
            FROM {wanted(trace)}
            UNION ALL
            SELECT {_PAIR}, {_range("seq", RANGE)} AS seqs, seq, {nothing}, false,
                {nothing}, {nothing}, {nothing}, false, time_us, via, held_us, number
            FROM {trace.deliveries}
        ) AS rows""")


def _range(column: str, width: int) -> str:
    return f"CAST(floor({column} / {width}) AS BIGINT)"


def _classified(trace: Trace, rows: Relation) -> Relation:
    """What the wanted rows of an event know moves to its deliveries; of those that never came one row stays."""
    known = ", ".join(f"{best}({name}) OVER event AS {name}" for name, best in _EVENT_KNOWS.items())
    return trace.engine.sql(f"""
        SELECT {_PAIR}, seqs, seq, {", ".join(_EVENT_KNOWS)}, arrived_us, via, held_us, number, again,
            arrived_us IS NOT NULL AND nth = 1 AS first,
            CASE WHEN arrived_us IS NOT NULL THEN (arrived_us, number) END AS arrived,
            CASE WHEN arrived_us IS NOT NULL THEN (arrived_us - coalesce(held_us, 0), number) END AS reached
        FROM (
            SELECT {_PAIR}, seqs, seq, arrived_us, via, held_us, number, {known},
                count(arrived_us) OVER event > 1 AS again,
                row_number() OVER (
                    PARTITION BY {_PAIR}, seqs, seq ORDER BY arrived_us ASC NULLS LAST, number ASC NULLS LAST
                ) AS nth
            FROM {rows}
            WINDOW event AS (PARTITION BY {_PAIR}, seqs, seq)
        ) AS known
        WHERE arrived_us IS NOT NULL OR owed AND nth = 1""")


def _in_ranges(trace: Trace, rows: Relation) -> Relation:
    """What an event's range says of it: its number among those that came, and the first arrival of a later one."""
    return trace.engine.sql(f"""
        SELECT rows.*,
            sum(CAST(first AS BIGINT)) OVER (PARTITION BY {_PAIR}, seqs ORDER BY seq, arrived ASC NULLS LAST
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS sent_here,
            min(arrived) OVER later AS arrived_here,
            min(reached) OVER later AS reached_here
        FROM {rows} AS rows
        WINDOW later AS (PARTITION BY {_PAIR}, seqs ORDER BY seq DESC
            RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)""")


def _other_ranges(trace: Trace, ranged: Relation) -> Relation:
    """What a pair's other ranges add. One row per range: a hot pair's rows less a factor of thousands."""
    return trace.engine.sql(f"""
        SELECT {_PAIR}, seqs,
            coalesce(sum(firsts) OVER earlier, 0) AS placed_before,
            sum(firsts) OVER pair AS came,
            min(began_us) OVER pair AS began_us,
            min(arrived) OVER later AS arrived_later,
            min(reached) OVER later AS reached_later
        FROM (
            SELECT {_PAIR}, seqs, count_if(first) AS firsts, min(arrived_us) AS began_us,
                min(arrived) AS arrived, min(reached) AS reached
            FROM {ranged} GROUP BY {_PAIR}, seqs
        ) AS ranges
        WINDOW pair AS (PARTITION BY {_PAIR}),
            earlier AS (PARTITION BY {_PAIR} ORDER BY seqs ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
            later AS (PARTITION BY {_PAIR} ORDER BY seqs ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)""")


def _other_slices(trace: Trace, ranged: Relation, slices: Relation) -> Relation:
    """How many of a pair's events came in the slices of time before each."""
    return trace.engine.sql(f"""
        SELECT {_PAIR}, times, coalesce(sum(firsts) OVER (PARTITION BY {_PAIR} ORDER BY times
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS came_before
        FROM (
            SELECT {_PAIR}, {_SLICE} AS times, count_if(first) AS firsts
            FROM {ranged} JOIN {slices} USING (run) GROUP BY {_PAIR}, {_SLICE}
        ) AS counted""")


def _in_order_of_arrival(trace: Trace, ranged: Relation, slices: Relation) -> Relation:
    """FIFO violations, and paper 003's ordering degree before it is averaged: (S - D) / S for each of S events."""
    # Key: pair and slice of time. The second shuffle of all rows: two orders, of the source and of arrival.
    sliced = trace.engine.sql(f"""
        SELECT /*+ REPARTITION({_PAIR}, times) */ * FROM (
            SELECT {_PAIR}, seq, {", ".join(_EVENT_KNOWS)}, arrived_us, via, held_us, number, first, again,
                came, arrived_us - began_us AS since_us,
                placed_before + sent_here AS sent_place,
                coalesce(least(arrived_later, arrived_here) < arrived, false) AS overtaken,
                coalesce(least(reached_later, reached_here) < reached, false) AS behind,
                {_SLICE} AS times
            FROM {ranged} AS ranged JOIN {_other_ranges(trace, ranged)} AS carried USING ({_PAIR}, seqs)
            JOIN {slices} AS slices USING (run)
        ) AS cut""")
    return trace.engine.sql(f"""
        SELECT {_PAIR}, seq, {", ".join(_EVENT_KNOWS)}, arrived_us, via, held_us, first, again, overtaken, behind,
            coalesce(came_place > {LEARNT} AND since_us >= {LEARNT_US}, false) AS learnt,
            CASE WHEN first THEN abs(came_place - sent_place) END AS displacement,
            CASE WHEN first THEN 1 - abs(came_place - sent_place) / came END AS ordered
        FROM (
            SELECT sliced.*, came_before + sum(CAST(first AS BIGINT)) OVER (PARTITION BY {_PAIR}, times
                ORDER BY arrived_us ASC NULLS LAST, number ASC NULLS LAST
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS came_place
            FROM {sliced} AS sliced JOIN {_other_slices(trace, ranged, slices)} AS carried USING ({_PAIR}, times)
        ) AS placed""")


def _slices(trace: Trace) -> Relation:
    """How long a slice of time is in each run, so that it holds the deliveries of a range on average."""
    return trace.engine.few(f"""
        SELECT run, CAST(greatest(1, (max(time_us) - min(time_us)) / greatest(1, count(*) / {RANGE})) AS BIGINT)
            AS slice_us
        FROM (
            SELECT run, time_us FROM {trace.deliveries}
            UNION ALL
            SELECT run, time_us FROM {trace.publications}
        ) AS times GROUP BY run""")
