"""The facts of the audit: one row per delivery, and one per delivery that is owed and never came.

What was wanted and what arrived are laid together and sent once through the network, by run, subscriber and source;
everything else is sorting within that: which delivery of an event was the first, what overtook it, how far it is from
its place in the source's order. A subscriber that gets most of one source's events makes one large group, which Spark
sorts on disk when it must.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from holdfast.books.definitions import LEARNT, LEARNT_US
from holdfast.pipeline.audit.owed import expired, wanted
from holdfast.pipeline.audit.trace_tables import TraceRun, together

_PAIR = ["run", "subscriber", "source"]
_FOREVER_US = 2**62  # a subscription that has not ended


def facts(runs: Sequence[TraceRun]) -> DataFrame:
    """Run, subscriber, source and seq, and

    published_us   when it was published; empty for a delivery that nobody ever wanted
    arrived_us     when it was handed over; empty when it never was
    via            how it came
    held_us        how long its subscriber held it back for the sake of order
    owed           a matching subscription was live as it was published
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
    laid_together = _wanted_side(runs).unionByName(_delivered_side(runs))
    return _ordered(_classified(laid_together.repartition(*_PAIR)))


def _wanted_side(runs: Sequence[TraceRun]) -> DataFrame:
    pairs = wanted(runs)
    if any(run.rows["incidents"] for run in runs):
        # Key: source and seq. Few events expire; when many do, none of them has more rows here than subscribers.
        pairs = pairs.join(expired(runs).withColumn("expired", F.lit(True)), ["run", "source", "seq"], "left")
    else:
        pairs = pairs.withColumn("expired", F.lit(False))
    until = F.coalesce("until_us", F.lit(_FOREVER_US))
    lived_before = F.col("published_us") - F.col("from_us")
    remaining = until - F.col("published_us")
    return pairs.select(
        *_PAIR,
        "seq",
        "published_us",
        ((lived_before >= 0) & (remaining > 0)).alias("owed"),
        F.when(remaining >= 0, F.col("from_us")).alias("wanted_us"),
        F.least(lived_before, remaining).alias("settled_us"),
        F.when(F.col("until_us").isNull(), lived_before).alias("lasting_us"),
        F.coalesce("expired", F.lit(False)).alias("expired"),
        *(F.lit(None).cast(kind).alias(name) for name, kind in _ARRIVAL.items()),
    )


_ARRIVAL = {"arrived_us": "long", "via": "string", "held_us": "long", "part": "string", "place": "long"}


def _delivered_side(runs: Sequence[TraceRun]) -> DataFrame:
    return together(runs, "deliveries").select(
        *_PAIR,
        "seq",
        F.lit(None).cast("long").alias("published_us"),
        F.lit(False).alias("owed"),
        F.lit(None).cast("long").alias("wanted_us"),
        F.lit(None).cast("long").alias("settled_us"),
        F.lit(None).cast("long").alias("lasting_us"),
        F.lit(False).alias("expired"),
        F.col("time_us").alias("arrived_us"),
        "via",
        "held_us",
        "part",
        "place",
    )


def _in_time() -> list[Column]:
    return [F.col("arrived_us").asc_nulls_last(), F.col("part").asc(), F.col("place").asc()]


def _classified(rows: DataFrame) -> DataFrame:
    """What the wanted rows of an event know moves to its deliveries; of those that never came one row stays."""
    event = Window.partitionBy(*_PAIR, "seq")
    number = F.row_number().over(event.orderBy(*_in_time()))
    known = rows.select(
        *_PAIR,
        "seq",
        *_ARRIVAL,
        F.max("published_us").over(event).alias("published_us"),
        F.max("owed").over(event).alias("owed"),
        F.min("wanted_us").over(event).alias("wanted_us"),
        F.max("settled_us").over(event).alias("settled_us"),
        F.max("lasting_us").over(event).alias("lasting_us"),
        F.max("expired").over(event).alias("expired"),
        (F.count("arrived_us").over(event) > 1).alias("again"),
        number.alias("number"),
    )
    arrived = F.col("arrived_us").isNotNull()
    kept = known.where(arrived | (F.col("owed") & (F.col("number") == 1)))  # deliveries are numbered first
    return kept.withColumn("first", arrived & (F.col("number") == 1)).drop("number")


def _ordered(rows: DataFrame) -> DataFrame:
    """FIFO violations, and paper 003's ordering degree before it is averaged: (S - D) / S for each of S events."""
    pair = Window.partitionBy(*_PAIR)
    so_far = pair.orderBy("seq", *_in_time()).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    in_time = pair.orderBy(*_in_time())
    before = in_time.rowsBetween(Window.unboundedPreceding, -1)
    reached = F.col("arrived_us") - F.coalesce("held_us", F.lit(0))
    reached_before = pair.orderBy(reached.asc_nulls_last(), "part", "place").rowsBetween(Window.unboundedPreceding, -1)
    until_now = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    first = F.col("first").cast("long")
    arrived_seq = F.when(F.col("arrived_us").isNotNull(), F.col("seq"))
    placed = rows.withColumn("sent_place", F.sum(first).over(so_far))
    placed = placed.select(
        "*",
        F.sum(first).over(until_now).alias("came_place"),
        F.sum(first).over(pair).alias("came"),
        (F.col("arrived_us") - F.min("arrived_us").over(pair)).alias("since_us"),
        F.max(arrived_seq).over(before).alias("highest"),
        F.max(arrived_seq).over(reached_before).alias("highest_reached"),
    )
    displacement = F.abs(F.col("came_place") - F.col("sent_place"))
    return placed.select(
        *_PAIR,
        "seq",
        "published_us",
        "arrived_us",
        "via",
        "held_us",
        "owed",
        "wanted_us",
        "settled_us",
        "lasting_us",
        "expired",
        "first",
        "again",
        F.coalesce(arrived_seq < F.col("highest"), F.lit(False)).alias("overtaken"),
        F.coalesce(arrived_seq < F.col("highest_reached"), F.lit(False)).alias("behind"),
        F.coalesce((F.col("came_place") > LEARNT) & (F.col("since_us") >= LEARNT_US), F.lit(False)).alias("learnt"),
        F.when(F.col("first"), displacement).alias("displacement"),
        F.when(F.col("first"), 1 - displacement / F.col("came")).alias("ordered"),
    )
