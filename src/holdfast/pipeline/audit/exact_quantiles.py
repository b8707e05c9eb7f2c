"""Exact quantiles of delays for many groups at once, however large a group is.

A quantile here is the smallest delay that at least that share of a group's deliveries does not exceed. An engine's own
exact quantiles keep a group's distinct values in memory, once for every share asked for. Instead, delays are counted in
classes two per cent wide first. The counts say in which class each quantile lies and how far into it; then the
different delays of those few classes are counted, pair by pair, and looked up level by level. Both times tasks count
before anything is moved, so no group has to fit anywhere, and one with almost all deliveries makes no task longer.
"""

from collections.abc import Sequence

from holdfast.pipeline.audit.levels import LEVELS, NOBODY, at_all_levels
from holdfast.pipeline.engine import Relation, broadcast_if_few

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
# -> how its columns begin; what was held back is timed by how long it was, and not part of all delays
KINDS = {"all": "delay", "original": "original_delay", "recovered": "recovered_delay", "held": "held"}
_WIDTH = 1.02  # of a class: then a quantile's class holds a few per cent of a group, and there are 1,200 up to an hour
_PAIR = "run, subscriber, source"
_OF = "scope, run, of_subscriber, of_source, kind"


def delay_quantiles(facts: Relation) -> Relation:
    """For every group of every level: quantiles and maximum of all its delays, of the original, of the recovered ones,
    and of how long what was held back for the sake of order was held back."""
    engine = facts.engine
    delays = _delays(facts)
    # Key: pair and class. A pair's classes are a thousand rows at most, and tasks count before the shuffle.
    classes = engine.keep(f"""
        SELECT {_PAIR}, way, class, count(*) AS count, max(delay_us) AS most
        FROM {delays} GROUP BY {_PAIR}, way, class""")
    summed = at_all_levels(f"({_kinds(classes)}) AS kinds", "sum(count) AS count, max(most) AS most", "kind", "class")
    # Key: the group. A group's classes are a thousand rows at most.
    placed = engine.keep(f"""
        SELECT *,
            sum(count) OVER (PARTITION BY {_OF} ORDER BY class
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
            sum(count) OVER (PARTITION BY {_OF}) AS whole
        FROM ({summed}) AS summed""")
    found = f"{_selected(delays, classes, _targets(placed))} UNION ALL {_largest(placed)}"
    columns = ", ".join(
        f"max(CASE WHEN kind = '{kind}' AND quantile = '{q}' THEN delay_us END) AS {name}_{q}_us"
        for kind, name in KINDS.items()
        for q in (*QUANTILES, "max")
    )
    return engine.sql(f"""
        SELECT scope, run, of_subscriber, of_source, {columns} FROM ({found}) AS found
        GROUP BY scope, run, of_subscriber, of_source""")


def _kinds(rows: object) -> str:
    """Rows by the kind of delay they are counted as: all but what was held back count twice."""
    return f"SELECT *, way AS kind FROM {rows} UNION ALL SELECT *, 'all' AS kind FROM {rows} WHERE way <> 'held'"


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
    wanted = ", ".join(
        f"CAST(ceil(whole * CAST({share} AS DOUBLE) - 1e-9) AS BIGINT) AS {q}" for q, share in QUANTILES.items()
    )
    each = placed.engine.sql(f"SELECT *, {wanted} FROM {placed}")
    return placed.engine.keep(
        " UNION ALL ".join(
            f"SELECT {_OF}, class, '{q}' AS quantile, {q} - upto + count AS place FROM {each} "
            f"WHERE upto - count < {q} AND {q} <= upto"
            for q in QUANTILES
        )
    )


def _largest(placed: Relation) -> str:
    return f"SELECT {_OF}, 'max' AS quantile, most AS delay_us FROM {placed} WHERE upto = whole"


def _selected(delays: Relation, classes: Relation, targets: Relation) -> str:
    """The delay at each target's place in its class."""
    engine = delays.engine
    # Key: pair and class. The classes in which some group of a pair has a quantile: a few for each of its groups.
    needed = engine.sql(
        " UNION ".join(
            f"SELECT c.run, c.subscriber, c.source, way, c.class {_at(classes, targets, scope)}" for scope in LEVELS
        )
    )
    # Key: pair, class and delay. With the classes broadcast, tasks count before the shuffle: equal delays are one row.
    counted = engine.keep(f"""
        SELECT {broadcast_if_few(needed, "needed")} {_PAIR}, way, class, delay_us, count(*) AS count
        FROM {delays} SEMI JOIN {needed} AS needed USING ({_PAIR}, way, class)
        GROUP BY {_PAIR}, way, class, delay_us""")
    of = {scope: ", ".join(_of(key, keys) for key in ("subscriber", "source")) for scope, keys in LEVELS.items()}
    candidates = " UNION ALL ".join(
        f"SELECT t.scope, c.run, {of[scope]}, t.kind, quantile, place, delay_us, count {_at(counted, targets, scope)}"
        for scope in LEVELS
    )
    # Key: group and quantile. A class holds as many different delays as it is microseconds wide, at most.
    return f"""
        SELECT {_OF}, quantile, delay_us FROM (
            SELECT *, sum(count) OVER (PARTITION BY {_OF}, quantile ORDER BY delay_us
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto
            FROM (
                SELECT {_OF}, quantile, place, delay_us, sum(count) AS count FROM ({candidates}) AS candidates
                GROUP BY {_OF}, quantile, place, delay_us
            ) AS summed
        ) AS numbered WHERE upto - count < place AND place <= upto"""


def _of(key: str, keys: Sequence[str]) -> str:
    return f"c.{key} AS of_{key}" if key in keys else f"'{NOBODY}' AS of_{key}"


def _at(rows: Relation, targets: Relation, scope: str) -> str:
    """Rows of pairs, with the targets of their groups of one level."""
    same = "".join(f" AND c.{key} = t.of_{key}" for key in LEVELS[scope])
    return f"""FROM {rows} AS c JOIN {targets} AS t ON t.scope = '{scope}' AND c.run = t.run{same}
        AND c.class = t.class AND (t.kind = c.way OR t.kind = 'all' AND c.way <> 'held')"""
