"""What in runs may have cost events, and how many: joins and windows of its own over the trace (docs/promises.md).

`books/causes.py` works out the same without Spark; the two share the lists and numbers of `books/definitions.py` and
what runs were set up to promise. Disturbances are merged into spans, of which a run has at most as many as leases fit
into it. Only these, a few sums a run, and how many events are missing how often come to the driver.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from holdfast.books import definitions as what
from holdfast.books.failovers import MOVED
from holdfast.books.promised import (
    NO_ORDER,
    hands_over_at_once,
    heartbeat_and_lease_us,
    order_promised,
    recovery_promised,
)
from holdfast.books.verdict import EXAMPLES_MAX
from holdfast.pipeline.audit.metrics import VIOLATIONS
from holdfast.pipeline.audit.trace_tables import TraceRun, together

EVENT = ["subscriber", "source", "seq"]


@dataclass(frozen=True)
class Times:
    """How long things take in one run, in microseconds."""

    heartbeat_us: int
    lease_us: int
    longest_us: int  # the longest delay of a delivery
    known_us: int  # after which every broker knows a subscription, unless something disturbs that
    end_us: int
    waits: int  # heartbeats that a condition may have to wait for


@dataclass(frozen=True)
class AuditedCauses:
    """Of several runs at once: every table has a column `run`."""

    runs: Sequence[TraceRun]
    messages: DataFrame
    incidents: DataFrame
    times: dict[str, Times]
    sums: dict[str, dict[str, int]]  # by run: lost Publish, lost Deliver
    spans: DataFrame  # outages and moments that disturb a run: from_us, until_us
    unsure: DataFrame  # while conditions may be on their way for long, because some were lost
    moved: DataFrame  # clients that left their broker: client, moved_us

    def of(self, name: str) -> Column:
        """A number of the row's run."""
        return _of_run({run: getattr(times, name) for run, times in self.times.items()})


def _of_run(numbers: Mapping[str, int]) -> Column:
    return F.element_at(F.create_map(*(F.lit(each) for pair in numbers.items() for each in pair)), F.col("run"))


def known_us(run: TraceRun, figures: Mapping[str, Any]) -> int:
    """After which every broker knows a subscription: a heartbeat, or twice as long as events usually take."""
    return max(heartbeat_and_lease_us(run.about)[0], 2 * (figures["delay_p50_us"] or 0))


@contextmanager
def causes_of(runs: Sequence[TraceRun], figures: Mapping[str, Mapping[str, Any]]) -> Iterator[AuditedCauses]:
    """The circumstances of these runs. What is read many times is kept meanwhile, so that plans stay short."""
    messages, incidents = together(runs, "messages").persist(), together(runs, "incidents").persist()
    heartbeats = _of_run({run.label: heartbeat_and_lease_us(run.about)[0] for run in runs})
    losing = _losing(messages, heartbeats).persist()
    found = _causes_of(runs, messages, incidents, losing, figures)
    try:
        yield found
    finally:
        for kept in (found.unsure, found.spans, losing, incidents, messages):
            kept.unpersist()


def _causes_of(
    runs: Sequence[TraceRun],
    messages: DataFrame,
    incidents: DataFrame,
    losing: DataFrame,
    figures: Mapping[str, Mapping[str, Any]],
) -> AuditedCauses:
    summed = _summed(runs, messages, incidents, losing)
    times = {}
    for run in runs:
        heartbeat_us, lease_us = heartbeat_and_lease_us(run.about)
        numbers, own = figures[run.label], summed[run.label]
        times[run.label] = Times(
            heartbeat_us,
            lease_us,
            longest_us=max(numbers["delay_max_us"] or 0, 0),
            known_us=known_us(run, numbers),
            end_us=own["end_us"],
            waits=what.heartbeats_waited(own["worst"], own["brokers"] + 1),
        )
    end_us = _of_run({run: each.end_us for run, each in times.items()})
    spans = _outages(incidents, end_us).unionByName(_moments(incidents)).persist()
    unsure = _unsure(messages, losing, times).persist()
    left = messages.where("kind = 'Detach' AND sent > 0").groupBy("run", F.col("node").alias("client"))
    moved = left.agg(F.min("from_us").alias("moved_us"))
    return AuditedCauses(runs, messages, incidents, times, summed, spans, unsure, moved)


def _summed(
    runs: Sequence[TraceRun], messages: DataFrame, incidents: DataFrame, losing: DataFrame
) -> dict[str, dict[str, Any]]:
    """Per run: messages lost, brokers, when the run ended, and the largest share of table messages that a node lost.

    The share is of the times in which some were lost.
    """
    # Key: run, broadcast: a run has few such times.
    meanwhile = F.broadcast(losing.select(F.col("run").alias("of_run"), F.col("from_us").alias("low"), "quiet_us"))
    inside = (F.col("run") == F.col("of_run")) & F.col("from_us").between(F.col("low"), F.col("quiet_us"))
    tables = F.col("kind").isin(*what.TABLE_CHECKS) & F.col("low").isNotNull()
    messages = messages.join(meanwhile, inside, "left")
    lost = {kind: _of_kind(kind, "lost") for kind in what.CARRIERS}
    gone = {kind: _of_kind(kind, "sent") - _of_kind(kind, "received") for kind in what.CARRIERS}
    nodes = messages.groupBy("run", "node").agg(
        *(lost[kind].alias(f"lost_{kind}") for kind in what.CARRIERS),
        *(gone[kind].alias(f"gone_{kind}") for kind in what.CARRIERS),
        F.sum(F.when(tables, F.col("lost"))).alias("table_lost"),
        F.sum(F.when(tables, F.col("sent"))).alias("table_sent"),
        (_of_kind("Publish", "received") > 0).cast("int").alias("is_broker"),
        F.max("until_us").alias("until_us"),
    )
    rows = nodes.groupBy("run").agg(
        *(F.sum(f"{name}_{kind}").alias(f"{name}_{kind}") for name in ("lost", "gone") for kind in what.CARRIERS),
        F.max(F.try_divide("table_lost", "table_sent")).alias("worst"),
        F.sum("is_broker").alias("brokers"),
    )
    published, delivered = (together(runs, table, "run", "time_us") for table in ("publications", "deliveries"))
    ends = [published, delivered, incidents.select("run", "time_us"), messages.select("run", "until_us")]
    ends = [each.toDF("run", "end_us") for each in ends]
    end = reduce(DataFrame.unionByName, ends).groupBy("run").agg(F.max("end_us").alias("end_us"))
    found = {run.label: {"end_us": 0, "worst": 0.0, "brokers": 0, **dict.fromkeys(what.CARRIERS, 0)} for run in runs}
    for row in end.join(rows, "run", "left").collect():
        carriers = {kind: max(row[f"lost_{kind}"] or 0, row[f"gone_{kind}"] or 0) for kind in what.CARRIERS}
        found[row.run] = {"end_us": row.end_us, "worst": row.worst or 0.0, "brokers": row.brokers or 0, **carriers}
    return found


def _of_kind(kind: str, column: str) -> Column:
    return F.sum(F.when(F.col("kind") == kind, F.col(column)).otherwise(0))


# Disturbances ------------------------------------------------------------------------------------------------------


def _moments(incidents: DataFrame) -> DataFrame:
    disturbing = incidents.where(F.col("kind").isin(*what.DISTURBING))
    return disturbing.select("run", F.col("time_us").alias("from_us"), F.col("time_us").alias("until_us"))


def _outages(incidents: DataFrame, end_us: Column) -> DataFrame:
    """Of each node and link from when it failed until it works again; of links that were taken down, while any is."""
    ends = F.array_join(F.array_sort(F.array_distinct(F.array("node", F.coalesce("peer", "node")))), "\0")
    back = {came: went for went, came in what.OUTAGES.items()}
    of_what = F.when(F.col("kind") == what.REPLACED, F.lit("crash"))
    for came, went in back.items():
        of_what = of_what.when(F.col("kind").isin(came, went), F.lit(went))
    key = F.when(F.col("kind") == what.REPLACED, F.col("peer")).otherwise(ends)
    relevant = (*what.OUTAGES, *what.OUTAGES.values(), what.REPLACED)
    rows = incidents.where(F.col("kind").isin(*relevant)).select(
        "run", "time_us", "kind", of_what.alias("outage"), key.alias("key")
    )
    # Key: run and what failed. As many rows as it failed times.
    after = Window.partitionBy("run", "outage", "key").orderBy("time_us").rangeBetween(0, Window.unboundedFollowing)
    came_us = F.min(F.when(~F.col("kind").isin(*what.OUTAGES), F.col("time_us"))).over(after)
    failed = rows.select("run", "kind", F.col("time_us").alias("from_us"), came_us.alias("until_us"))
    failed = failed.where(F.col("kind").isin(*what.OUTAGES)).drop("kind")
    # Links are counted: one may come up in place of another. Below zero nothing is counted.
    step = F.when(F.col("kind") == what.TAKEN_DOWN, 1).otherwise(-1)
    links = incidents.where(F.col("kind").isin(what.TAKEN_DOWN, what.BROUGHT_UP)).withColumn("step", step)
    in_time = Window.partitionBy("run").orderBy("time_us", F.desc("step"))
    so_far = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counted = links.withColumn("sum", F.sum("step").over(so_far))
    down = F.col("sum") - F.least(F.lit(0), F.min("sum").over(so_far))
    counted = counted.select(
        "run", F.col("time_us").alias("from_us"), down.alias("down"), F.lead("time_us").over(in_time).alias("until_us")
    )
    found = failed.unionByName(counted.where("down > 0").drop("down"))
    return found.select("run", "from_us", F.coalesce("until_us", end_us).alias("until_us"))


def _losing(messages: DataFrame, heartbeats: Column) -> DataFrame:
    """While messages about tables are lost, and until none was for two heartbeats: from_us, quiet_us."""
    lost = messages.where(F.col("kind").isin(*what.TABLE_CHECKS) & (F.col("lost") > 0))
    until = (F.col("until_us") + what.HEARTBEATS * heartbeats).alias("until_us")
    return islands(lost.select("run", "from_us", until)).withColumnRenamed("until_us", "quiet_us")


def _unsure(messages: DataFrame, losing: DataFrame, times: Mapping[str, Times]) -> DataFrame:
    known = _of_run({run: each.known_us for run, each in times.items()})
    lost = messages.where(F.col("kind").isin(*what.TABLES) & (F.col("lost") > 0)).select("run", "from_us").distinct()
    spans = losing.withColumnRenamed("from_us", "low")
    # Key: run, broadcast: few seconds of a run lose conditions.
    both = lost.join(spans, "run").where(F.col("from_us").between(F.col("low"), F.col("quiet_us")))
    first = both.groupBy("run", "quiet_us").agg(F.min("from_us").alias("from_us"))
    return islands(
        first.select("run", (F.col("from_us") - known).alias("from_us"), F.col("quiet_us").alias("until_us"))
    )


def _arrived(rows: DataFrame, causes: "AuditedCauses", at: str, arrived: str) -> DataFrame:
    """With a column more: until when a condition that set out then may be on its way, because some were lost."""
    spans = causes.unsure.select(
        F.col("run").alias("of_run"), F.col("from_us").alias("low"), F.col("until_us").alias("high")
    )
    met = (F.col("run") == F.col("of_run")) & F.col(at).between(F.col("low"), F.col("high"))
    wait = causes.of("known_us") + (what.HEARTBEATS + causes.of("waits")) * causes.of("heartbeat_us")
    until = F.when(F.col("high").isNull(), F.col(at)).otherwise(F.least("high", F.col(at) + wait))
    # Key: run, broadcast: a run has few such spans, and they are apart.
    return rows.join(F.broadcast(spans), met, "left").withColumn(arrived, until).drop("of_run", "low", "high")


def islands(spans: DataFrame, gap: Column | None = None) -> DataFrame:
    """Spans that touch, or are no more than a gap apart, as one."""
    in_time = Window.partitionBy("run").orderBy("from_us", "until_us")
    reached = F.max("until_us").over(in_time.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.coalesce((F.col("from_us") > reached + (F.lit(0) if gap is None else gap)).cast("int"), F.lit(1))
    number = F.sum("begins").over(in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    numbered = spans.withColumn("begins", begins).withColumn("number", number)
    found = numbered.groupBy("run", "number").agg(
        F.min("from_us").alias("from_us"), F.max("until_us").alias("until_us")
    )
    return found.drop("number")


def _around(causes: AuditedCauses, before: Column, after: Column) -> DataFrame:
    low, high = (F.col("from_us") - before).alias("from_us"), (F.col("until_us") + after).alias("until_us")
    return islands(causes.spans.select("run", low, high))


def _outside(rows: DataFrame, spans: DataFrame, excuse: Column) -> DataFrame:
    """Rows that no span of their run excuses."""
    # Key: run. A run has few merged spans, so they are broadcast.
    return rows.join(
        F.broadcast(spans.withColumnRenamed("run", "of_run")), (F.col("run") == F.col("of_run")) & excuse, "left_anti"
    )


def _known(rows: DataFrame, causes: AuditedCauses, disturbed: DataFrame, began_us: Column) -> DataFrame:
    """Rows whose subscription was known when the event was published; what begins around a disturbance is after it."""
    known = causes.of("known_us")
    held_up = _arrived(disturbed, causes, "until_us", "over_us")
    spans = islands(held_up.select("run", "from_us", F.col("over_us").alias("until_us")), known)
    rows = _arrived(rows.withColumn("began_us", began_us), causes, "began_us", "there_us")
    met = [F.col(name).between(F.col("from_us") - known, F.col("until_us")) for name in ("began_us", "there_us")]
    unknown = (met[0] | met[1]) & (F.col("until_us") + known > F.col("published_us"))
    rows = rows.where(F.col("there_us") + known <= F.col("published_us"))
    return _outside(rows, spans, unknown).drop("began_us", "there_us")


def _settled_clients(rows: DataFrame, causes: AuditedCauses) -> DataFrame:
    """Rows of which neither client had left its broker, nor left it soon after."""
    soon = F.greatest(causes.of("longest_us"), what.HEARTBEATS * causes.of("heartbeat_us"))
    for client in ("subscriber", "source"):
        moved = causes.moved.withColumnRenamed("client", client)
        # Key: run and client. Few move; where all leave at the end, one row each.
        rows = rows.join(moved, ["run", client], "left")
        rows = rows.where(F.col("moved_us").isNull() | (F.col("published_us") + soon < F.col("moved_us")))
        rows = rows.drop("moved_us")
    return rows


def _unnamed(rows: DataFrame, causes: AuditedCauses, kinds: Iterable[str]) -> DataFrame:
    """Rows that their subscriber has not named in an incident of these kinds: by number, or by time."""
    reported = causes.incidents.where(F.col("kind").isin(*kinds))
    incidents = reported.where("first > 0")
    named = incidents.select(
        "run",
        F.col("node").alias("subscriber"),
        "source",
        F.col("first").alias("lowest"),
        (F.col("first") + F.col("count")).alias("beyond"),
    ).alias("named")
    key = [F.col(f"rows.{name}") == F.col(f"named.{name}") for name in ("run", "subscriber", "source")]
    inside = (F.col("seq") >= F.col("lowest")) & (F.col("seq") < F.col("beyond"))
    # Key: run, subscriber and source. A subscriber names few ranges of one source.
    rows = rows.alias("rows").join(named, [*key, inside], "left_anti")
    since = (F.col("since_us") - causes.of("longest_us")).alias("low")
    times = reported.where("since_us IS NOT NULL").select(
        "run", F.col("node").alias("subscriber"), since, F.col("time_us").alias("high")
    )
    key = [F.col(f"rows.{name}") == F.col(f"times.{name}") for name in ("run", "subscriber")]
    # Key: run and subscriber, broadcast: only clients that moved name times.
    meanwhile = F.col("published_us").between(F.col("low"), F.col("high"))
    return rows.alias("rows").join(F.broadcast(times.alias("times")), [*key, meanwhile], "left_anti")


# P4 ----------------------------------------------------------------------------------------------------------------


def unexplained(facts: DataFrame, causes: AuditedCauses, incidents: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """By run: how many of the missing events have no cause."""
    recovers = {run.label: recovery_promised(run.about) for run in causes.runs}
    patient = [run for run, does in recovers.items() if does]
    leases = F.when(F.col("run").isin(patient), what.LEASES * causes.of("lease_us")).otherwise(0)
    due = F.col("published_us") + F.greatest(2 * causes.of("longest_us"), leases) <= causes.of("end_us")
    spans = _around(causes, causes.of("longest_us"), what.LEASES * causes.of("lease_us"))
    rows = _without_excuse(facts.where(due), causes, spans)
    full = together(causes.runs, "samples").where((F.col("name") == what.FOLLOWED) & (F.col("value") >= F.col("limit")))
    full = full.select("run", F.col("node").alias("subscriber"), F.lit(True).alias("full")).distinct()
    rows = rows.join(full, ["run", "subscriber"], "left")
    silent = F.col("run").isin(patient) & F.col("full").isNull() & (F.col("subscriber") != F.col("source"))
    # Key: the event, then how many miss it: as many rows come back as there are different numbers of those.
    events = rows.groupBy("run", "source", "seq").agg(
        F.count_if(silent).alias("silent"), F.count_if(~silent).alias("others")
    )
    counts = events.groupBy("run", "others").agg(F.count("*").alias("events"), F.sum("silent").alias("silent"))
    return _in_proportion(counts.collect(), causes, incidents)


def _without_excuse(facts: DataFrame, causes: AuditedCauses, spans: DataFrame) -> DataFrame:
    """What is missing and was published outside of these disturbances, for subscriptions that were known."""
    rows = facts.where(F.col("run").isin(list(causes.times)) & F.expr(VIOLATIONS["missing"]) & ~F.col("expired"))
    rows = rows.select("run", *EVENT, "published_us", "settled_us")
    rows = _settled_clients(_unnamed(rows, causes, what.NAMING), causes)
    rows = rows.where(F.col("settled_us") >= causes.of("known_us"))
    rows = _outside(rows, spans, F.col("published_us").between(F.col("from_us"), F.col("until_us")))
    # Key: run, subscriber and source. One row a pair.
    rows = rows.join(_proven(causes, spans), ["run", "subscriber", "source"], "left")
    lasts = F.col("settled_us") >= causes.of("longest_us")  # so that it did not end while the event was on its way
    is_proven = F.coalesce(F.col("published_us") >= F.col("proven_us"), F.lit(False)) & lasts
    others = _known(rows.where(~is_proven), causes, spans, F.col("published_us") - F.col("settled_us"))
    return rows.where(is_proven).unionByName(others).drop("proven_us")


def _proven(causes: AuditedCauses, spans: DataFrame) -> DataFrame:
    """Of subscribers with one subscription and sources: when an event arrived first after the last disturbance."""
    last = spans.groupBy("run").agg(F.max("until_us").alias("last_us"))
    asked = together(causes.runs, "subscriptions").groupBy("run", "subscriber").agg(F.count("*").alias("asked"))
    arrived = together(causes.runs, "deliveries").join(F.broadcast(last), "run", "left")
    arrived = arrived.where(F.col("time_us") >= F.coalesce("last_us", F.lit(0)))
    # Key: run and subscriber. There are as many rows as subscribers, so this side is broadcast.
    arrived = arrived.join(F.broadcast(asked.where("asked = 1").drop("asked")), ["run", "subscriber"], "left_semi")
    return arrived.groupBy("run", "subscriber", "source").agg(F.min("time_us").alias("proven_us"))


def _in_proportion(
    counts: Sequence[Any], causes: AuditedCauses, incidents: Mapping[str, Mapping[str, int]]
) -> dict[str, int]:
    """A lost Publish costs one event, and all who are owed it; a lost Deliver one of them."""
    found = dict.fromkeys(causes.times, 0)
    for run in found:
        costing = sum(count for kind, count in incidents.get(run, {}).items() if kind in what.COSTING_ONE)
        whole, single = causes.sums[run]["Publish"] + costing, causes.sums[run]["Deliver"]
        beyond = 0
        for row in sorted((row for row in counts if row.run == run), key=lambda row: -row.others):
            excused = min(whole, row.events)
            whole -= excused
            beyond += (row.events - excused) * row.others
            found[run] += row.silent
        found[run] += max(0, beyond - single)
    return found


def withheld(runs: Sequence[TraceRun]) -> dict[str, int]:
    """By run: messages with an event that reached a subscriber, and of which nothing came out.

    Where subscribers hold events back they are judged by their last sample, which tells how many they hold.
    """
    talks = together(runs, "messages").where("kind = 'DeliverControl'").select("run").distinct().collect()
    apart = {row.run for row in talks} | {run.label for run in runs if hands_over_at_once(run.about)}
    clear = [run for run in runs if run.label in apart]
    if not clear:
        return {}
    samples = together(clear, "samples").where(F.col("name") == what.HELD_BACK).groupBy("run", "node")
    last = samples.agg(F.max("time_us").alias("last_us"), F.max_by("value", "time_us").cast("long").alias("held"))
    got = together(clear, "messages").where("kind = 'Deliver'")
    handed = together(clear, "deliveries").where("via <> 'repair'")  # a repair is no Deliver
    dropped = together(clear, "incidents").where(F.col("kind").isin(*what.DROPPING))
    rows = got.select("run", "node", F.col("until_us").alias("at_us"), F.col("received").alias("left"))
    rows = rows.union(handed.select("run", "subscriber", "time_us", F.lit(-1)))
    rows = rows.union(dropped.select("run", "node", "time_us", -F.col("count")))
    rows = rows.union(last.select("run", "node", "last_us", -F.col("held")))
    ordered = [run.label for run in clear if order_promised(run.about) != NO_ORDER]
    # Key: run and subscriber; there is one sample each, so that side is broadcast.
    rows = rows.join(F.broadcast(last.drop("held")), ["run", "node"], "left")
    in_time = F.coalesce(F.col("at_us") <= F.col("last_us"), ~F.col("run").isin(ordered))
    # Key: run and subscriber; tasks add up before the shuffle.
    left = rows.where(in_time).groupBy("run", "node").agg(F.sum("left").alias("left")).where("left > 0")
    return {run: count for run, count in left.groupBy("run").agg(F.sum("left")).collect()}


# P5 ----------------------------------------------------------------------------------------------------------------


def _disturbed_stores(causes: AuditedCauses) -> DataFrame:
    return _around(causes, F.lit(0), what.HEARTBEATS * causes.of("heartbeat_us"))


def still_to_come(facts: DataFrame, causes: AuditedCauses) -> dict[str, int]:
    """By run: until when events were published that have had the time to arrive, undisturbed."""
    last = _disturbed_stores(causes).where(F.col("until_us") >= causes.of("end_us")).collect()
    quiet_us = {run: times.end_us for run, times in causes.times.items()} | {row.run: row.from_us for row in last}
    quiet = _of_run(quiet_us)
    lately = F.col("arrived_us").between(quiet - what.LATELY_US, quiet)
    own = facts.where(F.col("run").isin(list(quiet_us)) & lately)
    behind = own.groupBy("run").agg(F.max(F.col("arrived_us") - F.col("published_us"))).collect()
    behind_us = {run: longest_us or 0 for run, longest_us in behind}
    messages = causes.messages.where("lost > 0")
    losing = messages.where(F.col("until_us") >= quiet - what.HEARTBEATS * causes.of("heartbeat_us"))
    lossy = {row.run for row in losing.select("run").distinct().collect()}
    found = {}
    for run, times in causes.times.items():
        heartbeats = what.HEARTBEATS + (times.waits if run in lossy else 0)
        found[run] = quiet_us[run] - max(heartbeats * times.heartbeat_us, 2 * behind_us.get(run, 0))
    return found


def owed_by_stores(facts: DataFrame, causes: AuditedCauses) -> DataFrame:
    """What was acknowledged and came, or had the time to: at clients that stayed, for subscriptions that were known."""
    acknowledged = causes.incidents.where("kind = 'acknowledged'")
    numbers = F.explode(F.expr("sequence(first, first + count - 1)")).alias("seq")
    rows = facts.where("owed AND (first OR arrived_us IS NULL) AND lasting_us IS NOT NULL")
    rows = rows.where(F.col("run").isin(list(causes.times)))
    # Key: source and seq. An event has as many rows as it has subscribers.
    rows = rows.join(acknowledged.select("run", "source", numbers).distinct(), ["run", "source", "seq"], "left_semi")
    missing = rows.where("arrived_us IS NULL AND NOT expired")
    missing = missing.where(F.col("published_us") <= _of_run(still_to_come(facts, causes)))
    missing = _settled_clients(_unnamed(missing, causes, ["out_of_order"]), causes)
    missing = _known(missing, causes, _disturbed_stores(causes), F.col("published_us") - F.col("lasting_us"))
    kept = ["run", "subscriber", "source", "seq", "published_us", "arrived_us"]
    return rows.where("arrived_us IS NOT NULL").select(kept).unionByName(missing.select(kept))


# P6 ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CutOff:
    """Events that never reached subscribers which get nothing of their source since the network has settled."""

    count: int = 0
    examples: tuple[dict[str, Any], ...] = ()


def cut_off(facts: DataFrame, causes: AuditedCauses) -> dict[str, CutOff]:
    """By run: what is owed since the last disturbance and a lease, where a subscriber got nothing of a source since.

    Nothing if the messages that were lost meanwhile, or what nodes dropped, can have cost so many events.
    """
    spans = _around(causes, F.lit(0), causes.of("lease_us"))
    last = spans.groupBy("run").agg(F.max("until_us").alias("last_us"))
    settled = {row.run: row.since_us for row in _arrived(last, causes, "last_us", "since_us").collect()}
    if not settled:
        return {}
    since = _of_run(settled)
    owed = facts.where(F.col("run").isin(list(settled)) & F.col("owed") & (F.col("published_us") >= since))
    reached = owed.where("arrived_us IS NOT NULL").select("run", "subscriber", "source").distinct()
    # Key: run, subscriber and source. Almost all pairs are reached.
    silent = owed.join(reached, ["run", "subscriber", "source"], "left_anti")
    silent = silent.where(F.col("published_us") <= _of_run(still_to_come(facts, causes)))
    rows = _without_excuse(silent, causes, spans)
    homeless = causes.incidents.where(F.col("kind") == MOVED).select("run", "node").distinct()
    for client in ("subscriber", "source"):
        rows = rows.join(F.broadcast(homeless.withColumnRenamed("node", client)), ["run", client], "left_anti")
    rows = rows.persist()
    in_time = Window.partitionBy("run").orderBy("published_us", *EVENT)
    few = rows.withColumn("number", F.row_number().over(in_time)).where(F.col("number") <= EXAMPLES_MAX)
    shown: dict[str, list[dict[str, Any]]] = {}
    for row in few.orderBy("run", "number").collect():
        shown.setdefault(row.run, []).append({name: row[name] for name in EVENT})
    counts = rows.groupBy("run").agg(F.count("*"), F.count_distinct("source", "seq")).collect()
    rows.unpersist()
    cost = _cost_since(causes, since, list(settled))
    return {run: CutOff(count, tuple(shown[run])) for run, count, events in counts if events > cost[run]}


def _cost_since(causes: AuditedCauses, since: Column, runs: Sequence[str]) -> Counter[str]:
    """By run: messages with an event that were lost since then, and events that nodes dropped."""
    messages = causes.messages.where(F.col("run").isin(*runs) & (F.col("until_us") >= since))
    lost = messages.where(F.col("kind").isin(*what.CARRIERS)).groupBy("run", "kind")
    incidents = causes.incidents.where(F.col("run").isin(*runs) & (F.col("time_us") >= since))
    dropped = incidents.where(F.col("kind").isin(*what.COSTING_ONE)).groupBy("run").agg(F.sum("count"))
    cost = Counter[str]()
    for run, _, *either in lost.agg(F.sum("lost"), F.sum(F.col("sent") - F.col("received"))).collect():
        cost[run] += max(either)
    for run, count in dropped.collect():
        cost[run] += count
    return cost
