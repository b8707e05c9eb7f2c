"""P6 on Spark, and what each failure of a broker cost: windows and joins of its own over the same trace.

When a broker failed, when that was noticed and when its replica was ready are incidents; `books/failovers.py` puts them
together for both checkers, and everything about deliveries is worked out here once more. Nothing is collected but these
incidents and counts.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.books.definitions import CARRIERS, LATELY_US
from holdfast.books.failovers import ALIVE, MOMENTS, REQUESTED_KINDS, Failover, Moment, failovers, moved
from holdfast.books.verdict import EXAMPLES_MAX, Verdict
from holdfast.pipeline.audit.causes import CutOff
from holdfast.pipeline.audit.trace_tables import TraceRun, together

_EVENT = ["subscriber", "source", "seq"]


def replicates(incidents: Mapping[str, int]) -> bool:
    return not REQUESTED_KINDS.isdisjoint(incidents)


def judged(
    facts: DataFrame, run: TraceRun, messages: Mapping[str, Mapping[str, int]], known_us: int, cut: CutOff
) -> tuple[Verdict, list[dict[str, Any]]]:
    """P6 of a run, and its failovers in numbers."""
    moments = _moments(run)
    found = failovers([*moments, *_signs_of_life(run, moments)])
    if not found:
        return Verdict("P6", True, 0, 0, note="no broker was replaced or relieved"), []
    own = facts.where((F.col("run") == run.label) & F.col("published_us").isNotNull())
    windows = _windows(found, _transit_us(own, found))
    cost = reduce(or_, windows.values(), F.lit(False))  # a failure may have taken it
    kept = own.where(F.col("arrived_us").isNotNull() & ~cost)
    notes = []
    parts: list[DataFrame] = []
    if any(messages.get(kind, {}).get("lost", 0) for kind in CARRIERS):
        notes.append("links lost events, so completeness is not judged")
    elif all(each.promises_complete for each in found):
        parts.append(_missed(kept, _alike(run, moved(moments), known_us)))
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
    broken = sum(part.count() for part in parts) + cut.count
    examples = [row.asDict() for part in parts for row in part.orderBy(*_EVENT).limit(EXAMPLES_MAX).collect()]
    examples = [*examples, *cut.examples][:EXAMPLES_MAX]
    verdict = Verdict("P6", not broken, kept.count() + cut.count, broken, tuple(examples), note="; ".join(notes))
    return verdict, _numbers(own, windows, found, run)


def _moments(run: TraceRun) -> list[Moment]:
    rows = together([run], "incidents").where(F.col("kind").isin(*MOMENTS))
    return [Moment(*row) for row in rows.select(*Moment._fields).collect()]


def _signs_of_life(run: TraceRun, moments: Sequence[Moment]) -> list[Moment]:
    """When the brokers that were replaced sent something, second by second."""
    replaced = {moment.peer for moment in moments if moment.kind in REQUESTED_KINDS and moment.peer}
    rows = together([run], "messages").where(F.col("node").isin(sorted(replaced))).where("sent > lost")
    return [Moment(node, from_us, ALIVE) for node, from_us in rows.select("node", "from_us").distinct().collect()]


def _transit_us(own: DataFrame, found: Sequence[Failover]) -> int:
    """How long events took shortly before a failure: so long ago one may have left that was lost with the broker."""
    failed_us = [each.failed_us for each in found if each.failed_us is not None]
    lately = [F.col("arrived_us").between(at_us - LATELY_US, at_us) for at_us in failed_us]
    if not lately:
        return 0
    ((longest,),) = own.where(reduce(or_, lately)).agg(F.max(F.col("arrived_us") - F.col("published_us"))).collect()
    return longest or 0


def _windows(found: Sequence[Failover], transit_us: int) -> dict[Failover, Column]:
    """Of each broker that failed: whether an event was published so that it may have been lost with it."""
    return {
        each: F.col("published_us").between(each.failed_us - transit_us, each.noticed_us)
        for each in found
        if each.failed_us is not None
    }


def _late(kept: DataFrame, found: Sequence[Failover]) -> DataFrame:
    shared = [F.col("arrived_us") >= each.asked_us for each in found if each.use != "failover"]
    return kept.where(F.col("overtaken") & reduce(or_, shared, F.col("via") == "replica")).select(*_EVENT)


def _missed(kept: DataFrame, alike: DataFrame) -> DataFrame:
    """What a subscriber did not get of that which another got who wants the same, between events that it got."""
    # Key: subscriber. There are as many rows as subscribers, so this side is broadcast.
    got = kept.join(F.broadcast(alike), "subscriber").select("wants", "since_us", *_EVENT, "published_us").distinct()
    events = got.where(F.col("published_us") >= F.col("since_us")).select("wants", "source", "seq").distinct()
    spans = got.groupBy("wants", "subscriber", "source").agg(F.min("seq").alias("low"), F.max("seq").alias("high"))
    # Key: conditions and source. As many rows come out as deliveries were due to those who want the same.
    due = events.join(spans, ["wants", "source"]).where(F.col("seq") > F.col("low")).where(F.col("seq") < F.col("high"))
    return due.join(got.select(*_EVENT), _EVENT, "left_anti").select(*_EVENT)


def _alike(run: TraceRun, moved_clients: set[str], known_us: int) -> DataFrame:
    own = together([run], "subscriptions").groupBy("subscriber")
    wants = own.agg(
        F.md5(F.to_json(F.sort_array(F.collect_set("condition")))).alias("wants"),
        F.max("from_us").alias("from_us"),
        F.count("until_us").alias("ended"),
    )
    wants = wants.where((F.col("ended") == 0) & ~F.col("subscriber").isin(list(moved_clients)))
    since = (F.max("from_us") + known_us).alias("since_us")
    groups = wants.groupBy("wants").agg(since, F.count("*").alias("members")).where("members > 1")
    return wants.join(groups, "wants").select("subscriber", "wants", "since_us")


def _numbers(
    own: DataFrame, windows: Mapping[Failover, Column], found: Sequence[Failover], run: TraceRun
) -> list[dict[str, Any]]:
    """Each failover with its moments; what was lost in between, and in the whole run outside of all of these."""
    lost = own.where(F.col("owed") & F.col("arrived_us").isNull() & ~F.col("expired"))
    cost = reduce(or_, windows.values(), F.lit(False))
    ((*inside, outside),) = lost.agg(*map(F.count_if, windows.values()), F.count_if(~cost)).collect()
    lost_in = dict(zip(windows, inside, strict=True))
    published = together([run], "publications")
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
            between = F.col("time_us").between(each.failed_us, each.noticed_us)
            row |= {"published": published.where(between).count(), "lost": lost_in[each], "lost_outside": outside}
        rows.append(row)
    return rows
