"""The figures of the audit: counts, order, delays, cost, for every pair, subscriber, publisher and run.

All but the delays are sums over the facts: added up for each pair, which Spark has together already, and then from the
pairs for the other levels. Delays have a file of their own.
"""

from collections.abc import Sequence
from functools import reduce
from typing import get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.model.messages import Via
from holdfast.pipeline.audit.exact_quantiles import delay_quantiles
from holdfast.pipeline.audit.levels import GROUP, NOBODY, at_all_levels
from holdfast.pipeline.audit.trace_tables import TraceRun, together

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
    "foreign": "arrived_us IS NOT NULL AND (wanted_us IS NULL OR greatest(wanted_us, published_us) > arrived_us)",
    "events": "first",
    "repeated": "first AND again",
    "missing": "arrived_us IS NULL",
    "behind_later": "behind AND learnt",
    "overtaken_later": "overtaken AND learnt",
}
_SECOND_US = 1_000_000
CLASS_WIDTH = 1.02  # delays are drawn in classes two per cent wide: finer than a chart can show, 1,200 up to an hour


def figures(facts: DataFrame) -> DataFrame:
    """One row per pair, subscriber, publisher and run, told apart by `scope`."""
    counts = [F.expr(f"count_if({condition})").alias(name) for name, condition in {**COUNTED, **VIOLATIONS}.items()]
    order = [F.sum("ordered").alias("ordered"), F.count("ordered").alias("placed")]
    held = F.coalesce(F.sum("held_us"), F.lit(0)).alias("held_total_us")
    pairs = facts.groupBy("run", "subscriber", "source").agg(*counts, *order, held)
    names = [name for name in pairs.columns if name not in GROUP]
    # Key: the group. The row of a whole run gathers one row of every pair.
    summed = at_all_levels(pairs).groupBy(*GROUP).agg(*(F.sum(name).alias(name) for name in names))
    timed = summed.join(delay_quantiles(facts), GROUP, "left")
    somebody = [F.nullif(name, F.lit(NOBODY)).alias(name) for name in ("subscriber", "source")]
    degree = F.when(F.col("placed") > 0, F.col("ordered") / F.col("placed")).alias("ordering_degree")
    others = [name for name in timed.columns if name not in (*GROUP, "ordered", "placed")]
    return timed.select("scope", "run", *somebody, *others, degree, delivery_ratio().alias("delivery_ratio"))


def delivery_ratio() -> Column:
    return F.when(F.col("owed") > 0, F.col("delivered") / F.col("owed")).otherwise(1.0)


def distributions(facts: DataFrame) -> DataFrame:
    """How many deliveries took how long, original and recovered apart, and how many events came how far out of place.

    `most` is the largest value of its class, so that the shares up to there are exact. A few thousand rows at most.
    """
    delay = F.when(F.col("published_us").isNotNull(), F.greatest(F.col("arrived_us") - F.col("published_us"), F.lit(0)))
    arrival = F.when(F.col("via") == "original", "original").otherwise("recovered")
    timed = F.struct(arrival.alias("what"), delay.alias("value"))
    placed = F.struct(F.lit(_ORDER).alias("what"), F.col("displacement").alias("value"))
    rows = facts.where("arrived_us IS NOT NULL").select("run", F.inline(F.array(timed, placed)))
    width = F.when(F.col("what") == _ORDER, F.log(F.lit(2.0))).otherwise(F.log(F.lit(CLASS_WIDTH)))
    at = F.ceil(F.log(F.col("value") + 0.0) / width)  # of zero: empty, a class of its own
    classes = rows.where("value IS NOT NULL").groupBy("run", "what", at.alias("class"))
    return classes.agg(F.max("value").alias("most"), F.count("*").alias("count")).drop("class")


_ORDER = "displacement"


def seconds(facts: DataFrame, publications: DataFrame) -> DataFrame:
    """What became of what was published in each second, and what arrived in it."""
    published = publications.select("run", _second("time_us"), F.lit(1).alias("published"))
    kept = ("owed", "delivered", "lost", "late", "recovered", "recovered_replica", "unowed")
    by_publishing = facts.where("published_us IS NOT NULL").select(
        "run", _second("published_us"), *(F.expr(f"int({COUNTED[name]})").alias(name) for name in kept)
    )
    by_arrival = facts.where("arrived_us IS NOT NULL").select(
        "run", _second("arrived_us"), F.lit(1).alias("arrived"), F.expr("int(overtaken)").alias("fifo_violations")
    )
    parts = [published, by_publishing, by_arrival]
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    columns = ["published", *kept, "arrived", "fifo_violations"]
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in columns]
    return together.groupBy("run", "second").agg(*sums)


def _second(time: str) -> Column:
    return F.floor(F.col(time) / _SECOND_US).alias("second")


def message_seconds(runs: Sequence[TraceRun]) -> DataFrame:
    """Messages by kind: of each second, by the start of the interval that was counted, and in all (`second` empty)."""
    messages = together(runs, "messages").select("*", _second("from_us"))
    sums = [F.sum(column).alias(name) for name, column in _SUMS.items()]
    levels = [["run", "kind"], ["run", "kind", "second"]]
    return messages.groupingSets(levels, "run", "kind", "second").agg(F.grouping("second").alias("whole"), *sums)


_SUMS = {"sent": "sent", "bytes": "sent_bytes", "lost": "lost", "received": "received"}


def incident_counts(runs: Sequence[TraceRun]) -> DataFrame:
    return together(runs, "incidents").groupBy("run", "kind").agg(F.sum("count").alias("count"))


def publisher_counts(runs: Sequence[TraceRun]) -> DataFrame:
    """How much each source has published; also sources that nobody wanted anything of."""
    return together(runs, "publications", "run", "source").groupBy("run", "source").agg(F.count("*").alias("published"))
