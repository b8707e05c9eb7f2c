"""Exact quantiles of delays for many groups at once, however large a group is.

A quantile here is the smallest delay that at least that share of a group's deliveries does not exceed. Spark's own
exact quantiles keep a group's distinct values in memory, once for every share asked for. Instead, delays are counted in
classes two per cent wide first. The counts say in which class each quantile lies and how far into it; then only the
deliveries of those few classes are sorted. Two passes, and no group has to fit anywhere.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from holdfast.pipeline.audit.levels import GROUP, at_all_levels

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
# -> how its columns begin; what was held back is timed by how long it was, and not part of all delays
KINDS = {"all": "delay", "original": "original_delay", "recovered": "recovered_delay", "held": "held"}
_WIDTH = 1.02  # of a class: then a quantile's class holds a few per cent of a group, and there are 1,200 up to an hour
_OF = [*GROUP, "kind"]


def delay_quantiles(facts: DataFrame) -> DataFrame:
    """For every group of every level: quantiles and maximum of all its delays, of the original, of the recovered ones,
    and of how long what was held back for the sake of order was held back."""
    delays = _delays(facts)
    classes = delays.groupBy("run", "subscriber", "source", "way", "class").agg(
        F.count("*").alias("count"), F.max("delay_us").alias("most")
    )
    of_all = F.when(F.col("way") != "held", F.lit("all"))
    kinds = F.explode(F.array_compact(F.array(of_all, F.col("way")))).alias("kind")
    each = at_all_levels(classes).select(*GROUP, kinds, "class", "count", "most")
    # Key: the group. A group's classes are a thousand rows at most.
    summed = each.groupBy(*_OF, "class").agg(F.sum("count").alias("count"), F.max("most").alias("most"))
    in_order = Window.partitionBy(*_OF).orderBy("class")
    placed = summed.select(
        "*",
        F.sum("count").over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)).alias("upto"),
        F.sum("count").over(Window.partitionBy(*_OF)).alias("whole"),
    )
    targets = placed.select(*_OF, "class", "most", F.inline(_targets()))
    found = _selected(delays, targets.where("rank > 0")).unionByName(
        targets.where("quantile = 'max'").select(*_OF, "quantile", F.col("most").alias("delay_us"))
    )
    columns = [
        F.max(F.when((F.col("kind") == kind) & (F.col("quantile") == q), F.col("delay_us"))).alias(f"{name}_{q}_us")
        for kind, name in KINDS.items()
        for q in (*QUANTILES, "max")
    ]
    return found.groupBy(*GROUP).agg(*columns)


def _delays(facts: DataFrame) -> DataFrame:
    delay = F.col("arrived_us") - F.col("published_us")
    arrival = F.when(F.col("via") == "original", "original").otherwise("recovered")
    arrived = F.when(delay.isNotNull(), F.struct(arrival.alias("way"), delay.alias("delay_us")))
    held = F.when(F.col("held_us") > 0, F.struct(F.lit("held").alias("way"), F.col("held_us").alias("delay_us")))
    timed = facts.select("run", "subscriber", "source", F.inline(F.array_compact(F.array(arrived, held))))
    # A clock that was set back may give a delay below zero; all of those are one class, below the others.
    return timed.withColumn(
        "class", F.coalesce(F.ceil(F.log(F.col("delay_us") + 0.0) / F.log(F.lit(_WIDTH))), F.lit(-1))
    )


def _targets() -> Column:
    """The quantiles that lie in a class, with their places in it; place 0 stands for the maximum, in the last class."""
    ranks = {q: F.ceil(F.col("whole") * share - 1e-9) for q, share in QUANTILES.items()}
    before = F.col("upto") - F.col("count")
    inside = [
        F.when(
            (before < rank) & (rank <= F.col("upto")),
            F.struct(F.lit(q).alias("quantile"), (rank - before).alias("rank")),
        )
        for q, rank in ranks.items()
    ]
    last = F.when(
        F.col("upto") == F.col("whole"), F.struct(F.lit("max").alias("quantile"), F.lit(0).cast("long").alias("rank"))
    )
    return F.array_compact(F.array(*inside, last))


def _selected(delays: DataFrame, targets: DataFrame) -> DataFrame:
    """The delay at each target's place in its class."""
    wanted = targets.select(*_OF, "class", "quantile", "rank")
    # Key: group and class. The targets, twelve for a group at most, are broadcast unless groups are very many.
    candidates = (
        at_all_levels(delays).join(wanted, [*GROUP, "class"]).where("kind = way OR kind = 'all' AND way <> 'held'")
    )
    # Key: group and quantile. The largest, of the whole run, has the few per cent of all that one class holds.
    in_order = Window.partitionBy(*_OF, "quantile").orderBy("delay_us")
    numbered = candidates.select(*_OF, "quantile", "delay_us", "rank", F.row_number().over(in_order).alias("number"))
    return numbered.where("number = rank").select(*_OF, "quantile", "delay_us")
