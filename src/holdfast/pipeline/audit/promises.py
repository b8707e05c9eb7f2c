"""The promises, checked a second time: on the same trace as `books/promises.py`, with windows and joins of its own.

docs/promises.md says what they mean. P1, P2 and P7 are certain. P3 holds when order was not asked for, or when what
remains of the violations is within its target. P4 is a rate under best effort, so it is broken only when the share
asked for was not delivered, or when more events are missing than the causes in the trace could have cost.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from holdfast.books.definitions import HARMLESS, STANDARD_ERRORS
from holdfast.books.promised import file_of, order_promised
from holdfast.books.verdict import EXAMPLES_MAX, Verdict
from holdfast.pipeline import number_format
from holdfast.pipeline.audit.causes import AuditedCauses, owed_by_stores
from holdfast.pipeline.audit.metrics import VIOLATIONS
from holdfast.pipeline.audit.trace_tables import TraceRun, together
from holdfast.pipeline.spark_path import spark_path

_EVENT = ["subscriber", "source", "seq"]
_BREAKS = {"P1": VIOLATIONS["foreign"], "P2": VIOLATIONS["repeated"], "P3": "overtaken", "P4": VIOLATIONS["missing"]}

_UNLISTED = HARMLESS | {"restart", "link_up", "link_recovered"}  # after these nothing is missing


@dataclass(frozen=True)
class Costs:
    """P4: what is missing without a cause, and what reached a subscriber and was not handed over."""

    unexplained: int = 0
    withheld: int = 0

    @property
    def broken(self) -> bool:
        return bool(self.unexplained or self.withheld)


@dataclass(frozen=True)
class Asked:
    """What the caller asks for beyond what the runs promise themselves."""

    delivery_min: float | None = None  # P4: the share of what is owed
    violations_max: float | None = None  # P3: the share of the deliveries


# P1 to P4: from the figures of a run ------------------------------------------------------------------------------


def from_figures(
    run: TraceRun, figures: Mapping[str, Any], found: Mapping[str, int], costs: Costs, asked: Asked
) -> dict[str, Verdict]:
    """P1 to P4; `found` is what in the run may have cost events, and how often it happened."""
    deliveries, owed = figures["deliveries"], figures["owed"]
    return {
        "P1": Verdict("P1", not figures["foreign"], deliveries, figures["foreign"]),
        "P2": Verdict("P2", not figures["repeated"], figures["events"], figures["repeated"]),
        "P3": _order(run, figures, asked.violations_max),
        "P4": _delivery(figures["missing"], owed, found, costs, asked.delivery_min),
        "P5": Verdict("P5", True, 0, 0, note="the trace has no acknowledgements"),
        "P6": Verdict("P6", True, 0, 0, note="no broker was replaced or relieved"),
    }


def _order(run: TraceRun, figures: Mapping[str, Any], asked: float | None) -> Verdict:
    violations, deliveries = figures["fifo_violations"], figures["deliveries"]
    rate = violations / deliveries if deliveries else 0.0
    mode, target = order_promised(run.about)
    if asked is None and mode == "strict":
        asked = 0.0
    if asked is not None:
        note = f"{number_format.share(rate)} of the deliveries, at most {number_format.share(asked)} allowed"
        return Verdict("P3", rate <= asked, deliveries, violations, note=note)
    if mode == "fifo":
        holds, note = _remaining(figures["overtaken_later"], figures["behind_later"], target)
        return Verdict("P3", holds, deliveries, violations, note=note)
    note = f"{number_format.share(rate)} of the deliveries; order was not asked for"
    return Verdict("P3", True, deliveries, violations, note=note)


def _remaining(left: int, behind: int, target: float) -> tuple[bool, str]:
    """Whether so many of the events that reached their subscribers too late are no more than the target and chance."""
    chance = STANDARD_ERRORS * (target * behind) ** 0.5
    note = f"{left:,} remain of {behind:,} after learning, {number_format.share(target)} allowed"
    return left <= target * behind + chance, note


def _delivery(missing: int, owed: int, found: Mapping[str, int], costs: Costs, asked: float | None) -> Verdict:
    rate = (owed - missing) / owed if owed else 1.0
    if asked is not None:
        note = f"{number_format.share(rate)} delivered, {number_format.share(asked)} asked for"
        return Verdict("P4", rate >= asked, owed, missing, note=note)
    notes = [f"{number_format.share(rate)} delivered"] if missing or costs.withheld else []
    if costs.unexplained:
        notes.append(f"nothing in the trace could have cost {costs.unexplained:,} of the others")
    if costs.withheld:
        notes.append(f"{costs.withheld:,} events reached a subscriber and were not handed over")
    if notes and not costs.broken:
        why = ", ".join(f"{kind} ({count:,})" for kind, count in found.items())
        notes.append(f"causes in the trace: {why or 'subscriptions had just begun or ended'}")
    return Verdict("P4", not costs.broken, owed, missing, note="; ".join(notes))


def listed_causes(
    run: TraceRun, messages: Mapping[str, Mapping[str, int]], incidents: Mapping[str, int]
) -> dict[str, int]:
    """What in a run may have cost events, and how often it happened: for people."""
    lost = {f"{kind} lost": counts["lost"] for kind, counts in messages.items()}
    moved = messages.get("Detach", {}).get("sent", 0)
    if run.about.get("driver") == "live":  # there every client says good-bye at the end
        moved = sum(str(fault.get("kind", "")).startswith("client-") for fault in file_of(run.about).get("fault", []))
    harmful = {kind: count for kind, count in incidents.items() if kind not in _UNLISTED}
    return {kind: count for kind, count in {**lost, **harmful, "client moved": moved}.items() if count}


def acknowledged_survives(facts: DataFrame, causes: AuditedCauses, erased: Mapping[str, int]) -> dict[str, Verdict]:
    """P5 by run: of what publishers were told is stored, what had the time to arrive and never came."""
    owed = owed_by_stores(facts, causes).select("run", *_EVENT, "published_us", "arrived_us").persist()
    try:
        counts = owed.groupBy("run").agg(F.count("*"), F.count_if(F.col("arrived_us").isNull())).collect()
        found = {run: Verdict("P5", True, 0, 0) for run in causes.times}
        for run, checked, broken in counts:
            note = f"brokers erased {erased[run]:,} stored events" if erased.get(run) and broken else ""
            found[run] = Verdict("P5", broken <= erased.get(run, 0), checked, broken, note=note)
        if any(verdict.broken for verdict in found.values()):
            in_time = Window.partitionBy("run").orderBy("published_us", *_EVENT)
            first = owed.where("arrived_us IS NULL").withColumn("number", F.row_number().over(in_time))
            for row in first.where(F.col("number") <= EXAMPLES_MAX).orderBy("run", "number").collect():
                example = {name: row[name] for name in (*_EVENT, "published_us")}
                found[row.run] = replace(found[row.run], examples=(*found[row.run].examples, example))
        return found
    finally:
        owed.unpersist()


def examples(facts: DataFrame) -> dict[tuple[str, str], tuple[dict[str, Any], ...]]:
    """The first few facts of each run that break a promise."""
    broken = F.array_compact(F.array(*(F.expr(f"IF({which}, '{name}', NULL)") for name, which in _BREAKS.items())))
    rows = facts.select("run", *_EVENT, "published_us", "arrived_us", "via", F.explode(broken).alias("promise"))
    # Key: run and promise. Everything may break one promise; tasks keep only the first few each before the shuffle.
    in_time = Window.partitionBy("run", "promise").orderBy(F.coalesce("arrived_us", "published_us"), *_EVENT)
    first = rows.withColumn("number", F.row_number().over(in_time)).where(F.col("number") <= EXAMPLES_MAX)
    found = [row.asDict() for row in first.orderBy("run", "promise", "number").drop("number").collect()]
    shown = ("published_us", "arrived_us", "via")
    return {
        key: tuple(
            {**{name: row[name] for name in _EVENT}, **{name: row[name] for name in shown if row[name] is not None}}
            for row in group
        )
        for key, group in groupby(found, key=lambda row: (row["run"], row["promise"]))
    }


# P7: samples against their limits ---------------------------------------------------------------------------------


def within_limits(runs: Sequence[TraceRun]) -> dict[str, Verdict]:
    """Samples that have a limit, against it."""
    sampled = [run for run in runs if run.rows["samples"]]
    found = {run.label: Verdict("P7", True, 0, 0, note="the trace has no limits") for run in runs}
    if not sampled:
        return found
    judged = together(sampled, "samples").where("`limit` IS NOT NULL")
    is_over = (F.col("value") > F.col("limit")) & ~F.isnan("value")  # Spark holds NaN for the largest number
    for run, checked, broken in judged.groupBy("run").agg(F.count("*"), F.count_if(is_over)).collect():
        found[run] = Verdict("P7", not broken, checked, broken)
    if any(verdict.broken for verdict in found.values()):
        in_time = Window.partitionBy("run").orderBy("time_us", "node", "name")
        first = judged.where(is_over).withColumn("number", F.row_number().over(in_time))
        for row in first.where(F.col("number") <= EXAMPLES_MAX).orderBy("run", "number").collect():
            example = {name: row[name] for name in ("node", "time_us", "name", "value", "limit")}
            found[row.run] = replace(found[row.run], examples=(*found[row.run].examples, example))
    return found


# P8: the same file and seed ---------------------------------------------------------------------------------------


def same_bytes(spark: SparkSession, runs: Sequence[TraceRun]) -> dict[str, Verdict]:
    """Simulated runs of one file, seed and version, each against the first such: equal files, by their digests."""
    alone = Verdict("P8", True, 0, 0, note="needs two simulated runs of one file and seed")
    verdicts = {run.label: alone for run in runs}
    for first, *others in _alike(runs):
        for other in others:
            verdict = _compared(spark, first, other)
            verdicts[other.label] = verdict
            if not verdicts[first.label].broken:
                verdicts[first.label] = verdict
    return verdicts


def _alike(runs: Sequence[TraceRun]) -> Iterator[list[TraceRun]]:
    groups: dict[tuple[Any, ...], list[TraceRun]] = {}
    for run in runs:
        if run.about.get("driver") == "sim" and run.about.get("file"):
            groups.setdefault(tuple(run.about.get(name) for name in ("file", "seed", "version")), []).append(run)
    return (group for group in groups.values() if len(group) > 1)


def _compared(spark: SparkSession, one: TraceRun, other: TraceRun) -> Verdict:
    ours = _digests(spark, one.folder).withColumnRenamed("digest", "one")
    theirs = _digests(spark, other.folder).withColumnRenamed("digest", "other")
    both = ours.join(theirs, "file", "full").withColumn("differs", F.expr("NOT (one <=> other)"))
    files, different = both.agg(F.count("*"), F.count_if("differs")).collect()[0]
    shown = both.where("differs").orderBy("file").limit(EXAMPLES_MAX).collect() if different else []
    found = tuple({"file": row.file, "runs": [one.label, other.label]} for row in shown)
    return Verdict("P8", not different, files, different, found)


def _digests(spark: SparkSession, folder: Path) -> DataFrame:
    files = spark.read.format("binaryFile").option("recursiveFileLookup", True).option("pathGlobFilter", "*.parquet")
    # The last two steps of the path: the table and its part.
    name = F.substring_index(F.col("path"), "/", -2)
    return files.load(spark_path(folder)).select(name.alias("file"), F.sha2("content", 256).alias("digest"))
