"""Exact quantiles of delays for many groups at once, however large a group is.

A quantile here is the smallest delay that at least that share of a group's deliveries does not exceed. An engine's own
exact quantiles keep a group's distinct values in memory, once for every share asked for. Instead, delays are counted in
classes two per cent wide first. The counts say in which class each quantile lies and how far into it; then only the
deliveries of those few classes are sorted, and no delay is copied for a level before it is known to lie in one of them.
Two passes, and no group has to fit anywhere.
"""

from holdfast.pipeline.audit.levels import LEVELS, NOBODY, at_all_levels
from holdfast.pipeline.engine import Relation

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
# -> how its columns begin; what was held back is timed by how long it was, and not part of all delays
KINDS = {"all": "delay", "original": "original_delay", "recovered": "recovered_delay", "held": "held"}
_WIDTH = 1.02  # of a class: then a quantile's class holds a few per cent of a group, and there are 1,200 up to an hour
_OF = "scope, run, of_subscriber, of_source, kind"


def delay_quantiles(facts: Relation) -> Relation:
    """For every group of every level: quantiles and maximum of all its delays, of the original, of the recovered ones,
    and of how long what was held back for the sake of order was held back."""
    engine = facts.engine
    delays = _delays(facts)
    # Key: pair and class. A pair's classes are a thousand rows at most, and tasks count before the shuffle.
    classes = engine.sql(f"""
        SELECT run, subscriber, source, way, class, count(*) AS count, max(delay_us) AS most
        FROM {delays} GROUP BY run, subscriber, source, way, class""")
    each = engine.sql(at_all_levels(classes, "sum(count) AS count, max(most) AS most", "way", "class"))
    # Key: the group. A group's classes are a thousand rows at most.
    summed = engine.sql(f"""
        SELECT {_OF}, class, sum(count) AS count, max(most) AS most FROM (
            SELECT *, way AS kind FROM {each}
            UNION ALL
            SELECT *, 'all' AS kind FROM {each} WHERE way <> 'held'
        ) AS kinds GROUP BY {_OF}, class""")
    placed = engine.sql(f"""
        SELECT *,
            sum(count) OVER (PARTITION BY {_OF} ORDER BY class
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
            sum(count) OVER (PARTITION BY {_OF}) AS whole
        FROM {summed}""")
    found = f"{_selected(delays, _targets(placed))} UNION ALL {_largest(placed)}"
    columns = ", ".join(
        f"max(CASE WHEN kind = '{kind}' AND quantile = '{q}' THEN delay_us END) AS {name}_{q}_us"
        for kind, name in KINDS.items()
        for q in (*QUANTILES, "max")
    )
    return engine.sql(f"""
        SELECT scope, run, of_subscriber, of_source, {columns} FROM ({found}) AS found
        GROUP BY scope, run, of_subscriber, of_source""")


def _delays(facts: Relation) -> Relation:
    way = "CASE WHEN via = 'original' THEN 'original' ELSE 'recovered' END"
    # A clock that was set back may give a delay below zero; all of those are one class, below the others.
    number = f"CASE WHEN delay_us > 0 THEN CAST(ceil(ln(delay_us) / ln({_WIDTH})) AS BIGINT) ELSE -1 END"
    return facts.engine.sql(f"""
        SELECT run, subscriber, source, way, delay_us, {number} AS class FROM (
            SELECT run, subscriber, source, {way} AS way, arrived_us - published_us AS delay_us
            FROM {facts} WHERE arrived_us IS NOT NULL AND published_us IS NOT NULL
            UNION ALL
            SELECT run, subscriber, source, 'held', held_us FROM {facts} WHERE held_us > 0
        ) AS timed""")


def _targets(placed: Relation) -> Relation:
    """The quantiles that lie in a class, with their places in it."""
    return placed.engine.sql(
        " UNION ALL ".join(
            f"""SELECT {_OF}, class, '{q}' AS quantile, wanted - upto + count AS place
            FROM (SELECT *, CAST(ceil(whole * CAST({share} AS DOUBLE) - 1e-9) AS BIGINT) AS wanted FROM {placed}) AS {q}
            WHERE upto - count < wanted AND wanted <= upto"""
            for q, share in QUANTILES.items()
        )
    )


def _largest(placed: Relation) -> str:
    return f"SELECT {_OF}, 'max' AS quantile, most AS delay_us FROM {placed} WHERE upto = whole"


def _selected(delays: Relation, targets: Relation) -> str:
    """The delay at each target's place in its class."""
    candidates = " UNION ALL ".join(_candidates(delays, targets, scope) for scope in LEVELS)
    # Key: group and quantile. The largest, of the whole run, has the few per cent of all that one class holds.
    return f"""
        SELECT {_OF}, quantile, delay_us FROM (
            SELECT *, row_number() OVER (PARTITION BY {_OF}, quantile ORDER BY delay_us) AS number
            FROM ({candidates}) AS candidates
        ) AS numbered WHERE number = place"""


def _candidates(delays: Relation, targets: Relation, scope: str) -> str:
    # Key: group and class. The targets, twelve for a group at most, are broadcast unless groups are very many.
    keys = LEVELS[scope]
    same = " AND ".join(f"d.{key} = t.of_{key}" for key in ("run", *keys)).replace("t.of_run", "t.run")
    named = ", ".join(
        f"d.{key} AS of_{key}" if key in keys else f"'{NOBODY}' AS of_{key}" for key in ("subscriber", "source")
    )
    return f"""SELECT t.scope, d.run, {named}, t.kind, t.quantile, t.place, d.delay_us
        FROM {delays} AS d JOIN (SELECT * FROM {targets} WHERE scope = '{scope}') AS t
        ON {same} AND d.class = t.class AND (t.kind = d.way OR t.kind = 'all' AND d.way <> 'held')"""
