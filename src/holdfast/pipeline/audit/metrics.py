"""The figures of the audit: counts, order, delays, cost, for every pair, subscriber, publisher and run.

All but the delays are sums over the facts: added up for each pair, and then from the pairs for the other levels. Delays
have a file of their own.
"""

from typing import get_args

from holdfast.model.messages import Via
from holdfast.pipeline.audit.exact_quantiles import KINDS, QUANTILES, delay_quantiles
from holdfast.pipeline.audit.levels import NOBODY, at_all_levels
from holdfast.pipeline.audit.trace_tables import Trace
from holdfast.pipeline.engine import Relation
from holdfast.protocol.groups.settings import HOMES

MECHANISMS = tuple(via for via in get_args(Via) if via != "original")
COUNTED = {
    "owed": "owed AND (first OR arrived_us IS NULL)",
    "delivered": "owed AND first",
    "lost": "arrived_us IS NULL AND NOT expired",
    "late": "arrived_us IS NULL AND expired",
    "duplicates": "owed AND arrived_us IS NOT NULL AND NOT first",
    "unowed": "arrived_us IS NOT NULL AND NOT owed",
    "recovered": "owed AND first AND via <> 'original'",
    "fifo_violations": "overtaken",
    "behind": "behind",
    "held": "held_us > 0",
    **{f"recovered_{via}": f"owed AND first AND via = '{via}'" for via in MECHANISMS},
}
# What the promises need besides; not part of anybody's figures.
VIOLATIONS = {
    "deliveries": "arrived_us IS NOT NULL",
    "uncalled_for": "arrived_us IS NOT NULL AND (wanted_us IS NULL OR greatest(wanted_us, published_us) > arrived_us)",
    "events": "first",
    "repeated": "first AND again",
    "shared_again": f"first AND again AND subscriber LIKE '{HOMES}%'",  # to two members of a group
    "missing": "arrived_us IS NULL",
    "behind_later": "behind AND learnt",
    "overtaken_later": "overtaken AND learnt",
}
CLASS_WIDTH = 1.02  # delays are drawn in classes two per cent wide: finer than a chart can show, 1,200 up to an hour
_TIMES = [f"{name}_{q}_us" for name in KINDS.values() for q in (*QUANTILES, "max")]
_DELIVERY_RATIO = "CASE WHEN owed > 0 THEN delivered / owed ELSE CAST(1 AS DOUBLE) END"


def figures(facts: Relation) -> Relation:
    """One row per pair, subscriber, publisher and run, told apart by `scope`."""
    counts = {**COUNTED, **VIOLATIONS}
    # Key: the pair. Tasks add up before the shuffle, so a pair of any size is a few rows.
    pairs = facts.engine.keep(f"""
        SELECT run, subscriber, source, {", ".join(f"count_if({what}) AS {name}" for name, what in counts.items())},
            sum(ordered) AS ordered, count(ordered) AS placed, coalesce(sum(held_us), 0) AS held_total_us
        FROM {facts} GROUP BY run, subscriber, source""")
    names = pairs.others("run", "subscriber", "source")
    # Key: the group. The row of a whole run gathers one row of every pair.
    summed = facts.engine.sql(at_all_levels(pairs, ", ".join(f"sum({name}) AS {name}" for name in names)))
    others = [name for name in names if name not in ("ordered", "placed")]
    return facts.engine.keep(f"""
        SELECT scope, run, nullif(of_subscriber, '{NOBODY}') AS subscriber, nullif(of_source, '{NOBODY}') AS source,
            {", ".join(others)}, {", ".join(_TIMES)},
            CASE WHEN placed > 0 THEN ordered / placed END AS ordering_degree, {_DELIVERY_RATIO} AS delivery_ratio
        FROM {summed} AS summed LEFT JOIN {delay_quantiles(facts)} AS timed
            USING (scope, run, of_subscriber, of_source)""")


def distributions(facts: Relation) -> Relation:
    """How many deliveries took how long, original and recovered apart, and how many events came how far out of place.

    `most` is the largest value of its class, so that the shares up to there are exact. A few thousand rows at most.
    """
    arrival = "CASE WHEN via = 'original' THEN 'original' ELSE 'recovered' END"
    delay = "CASE WHEN published_us IS NOT NULL THEN greatest(arrived_us - published_us, 0) END"
    # A class ends at its width to a whole power, which the margin keeps in it; zero is a class of its own.
    number = "CASE WHEN value > 0 THEN ceil(ln(value) / ln(width) - 1e-9) END"
    return facts.engine.sql(f"""
        SELECT run, what, max(value) AS most, count(*) AS count FROM (
            SELECT run, what, value, {number} AS class FROM (
                SELECT run, {arrival} AS what, {delay} AS value, CAST({CLASS_WIDTH} AS DOUBLE) AS width
                FROM {facts} WHERE arrived_us IS NOT NULL
                UNION ALL
                SELECT run, 'displacement', displacement, CAST(2 AS DOUBLE) FROM {facts} WHERE arrived_us IS NOT NULL
            ) AS measured WHERE value IS NOT NULL
        ) AS classed GROUP BY run, what, class""")


def seconds(facts: Relation, trace: Trace) -> Relation:
    """What became of what was published in each second, and what arrived in it."""
    kept = ("owed", "delivered", "lost", "late", "recovered", "recovered_replica", "unowed")
    columns = ("published", *kept, "arrived", "fifo_violations")

    def part(source: Relation, time: str, given: dict[str, str]) -> str:
        sums = ", ".join(f"{given.get(name, '0')} AS {name}" for name in columns)
        return f"SELECT run, {_second(time)} AS second, {sums} FROM {source} WHERE {time} IS NOT NULL GROUP BY 1, 2"

    published = part(trace.publications, "time_us", {"published": "count(*)"})
    by_publishing = part(facts, "published_us", {name: f"count_if({COUNTED[name]})" for name in kept})
    by_arrival = part(facts, "arrived_us", {"arrived": "count(*)", "fifo_violations": "count_if(overtaken)"})
    return facts.engine.keep(f"""
        SELECT run, second, {", ".join(f"sum({name}) AS {name}" for name in columns)}
        FROM ({published} UNION ALL {by_publishing} UNION ALL {by_arrival}) AS parts GROUP BY run, second""")


def _second(time: str) -> str:
    return f"CAST(floor({time} / 1000000) AS BIGINT)"


def message_seconds(trace: Trace) -> Relation:
    """Messages by kind: of each second, by the start of the interval that was counted, and in all (`second` empty)."""
    sums = ", ".join(f"sum({column}) AS {name}" for name, column in _SUMS.items())
    return trace.engine.keep(f"""
        SELECT run, kind, second, grouping(second) AS whole, {sums}
        FROM (SELECT *, {_second("from_us")} AS second FROM {trace.messages}) AS messages
        GROUP BY GROUPING SETS ((run, kind), (run, kind, second))""")


_SUMS = {"sent": "sent", "bytes": "sent_bytes", "lost": "lost", "received": "received"}


def incident_counts(trace: Trace) -> Relation:
    return trace.engine.sql(f"SELECT run, kind, sum(count) AS count FROM {trace.incidents} GROUP BY run, kind")


def publisher_counts(trace: Trace) -> Relation:
    """How much each source has published; also sources that nobody wanted anything of."""
    return trace.engine.sql(f"""
        SELECT run, source, count(*) AS published FROM {trace.publications} GROUP BY run, source""")
