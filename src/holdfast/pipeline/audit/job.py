"""Audit runs on Spark: what was owed, what arrived, when, in which order, at what cost, and which promises held.

The facts are worked out once and kept; every figure, table and chart is a sum over them. What comes back to the driver
is bounded: one row per run, kind of message, class of delay or slice of time, and a few examples.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.books.definitions import ERASING, LAST_HOP
from holdfast.books.outcome import Outcome
from holdfast.books.verdict import Verdict
from holdfast.pipeline.audit.causes import CutOff, causes_of, cut_off, known_us, unexplained, withheld
from holdfast.pipeline.audit.exact_quantiles import KINDS, QUANTILES
from holdfast.pipeline.audit.facts import facts
from holdfast.pipeline.audit.metrics import (
    COUNTED,
    MECHANISMS,
    VIOLATIONS,
    figures,
    incident_counts,
    message_seconds,
    seconds,
)
from holdfast.pipeline.audit.promises import (
    Asked,
    Costs,
    acknowledged_survives,
    examples,
    from_figures,
    listed_causes,
    same_bytes,
    within_limits,
)
from holdfast.pipeline.audit.replication import judged, replicates
from holdfast.pipeline.audit.trace_footers import RunFooters
from holdfast.pipeline.audit.trace_tables import TraceRun, open_runs, together
from holdfast.pipeline.spark_errors import explained

# Counted by clients themselves and link by link, which is not in a trace; and what the table of seconds tells instead.
_NOT_IN_SUMMARY = ("recovery", "phases_us", "leaf_recovery_ratio", "slices")
_EVENTS = ("Publish", "Deliver")  # kinds of message that carry events; the others are the price of getting them there
_NOTHING_ASKED = Asked()
_AT_ONCE = 3  # small jobs that run side by side: most of their time is planning, and there are seldom more cores idle


@dataclass(frozen=True)
class AuditedRun:
    """One run in numbers: small, and all of it on the driver."""

    label: str
    folder: Path
    about: dict[str, Any]
    outcome: Outcome
    figures: dict[str, Any]
    verdicts: dict[str, Verdict]
    failovers: list[dict[str, Any]] = field(default_factory=list)  # brokers that were replaced or relieved

    @property
    def recovered(self) -> dict[str, int]:
        """What came by another way than the original one, by mechanism."""
        return {via: self.figures[f"recovered_{via}"] for via in MECHANISMS}

    def delay_us(self, name: str) -> dict[str, int]:
        return _times_us(self.figures, name)

    @property
    def overhead(self) -> dict[str, float | None]:
        """What it cost: `transmissions` and `bytes` leave out the last step to a client, as the simulator's do."""
        outcome = self.outcome
        everything = {what: sum(counts[what] for counts in outcome.messages.values()) for what in ("sent", "bytes")}
        control = {
            what: sum(counts[what] for kind, counts in outcome.messages.items() if kind not in _EVENTS)
            for what in ("sent", "bytes")
        }
        return {
            "transmissions_per_delivery": _ratio(outcome.transmissions, outcome.delivered),
            "bytes_per_delivery": _ratio(outcome.bytes, outcome.delivered),
            "control_message_ratio": _ratio(control["sent"], everything["sent"]),
            "control_byte_ratio": _ratio(control["bytes"], everything["bytes"]),
        }

    @property
    def broken(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts.values() if not verdict.holds]

    def as_json(self) -> dict[str, Any]:
        """The keys of `holdfast sim --json`, and more."""
        about = {name: self.about.get(name) for name in ("name", "driver", "seed")}
        return {
            "run": str(self.folder),
            **about,
            **self.outcome.as_json(),
            **dict.fromkeys(_NOT_IN_SUMMARY),
            "ordering_degree": self.figures["ordering_degree"],
            "original_delay_us": self.delay_us("original_delay"),
            "overhead": self.overhead,
            "failovers": self.failovers,
            "promises": {name: verdict.as_json() for name, verdict in self.verdicts.items()},
        }


def _ratio(part: float, total: float) -> float | None:
    return part / total if total else None


@dataclass(frozen=True)
class Audit:
    """The runs in numbers, and the tables that they come from, which may be of any size."""

    runs: list[AuditedRun]
    traces: list[TraceRun]
    facts: DataFrame
    figures: DataFrame
    messages: DataFrame
    seconds: DataFrame


@contextmanager
def audited(
    spark: SparkSession,
    footers: Sequence[RunFooters],
    asked: Asked = _NOTHING_ASKED,
    progress: Callable[[str], None] = lambda step: None,
) -> Iterator[Audit]:
    """The audit of these runs; its tables can be used inside the `with`."""
    with _set(spark, footers), explained():
        progress("reading the runs")
        traces = open_runs(spark, footers)
        progress("matching publications with subscriptions")
        found = facts(traces).persist()
        summed = figures(found).persist()
        messages = message_seconds(traces).persist()
        by_second = seconds(found, together(traces, "publications", "run", "time_us")).persist()
        try:
            progress("adding up")
            runs = _summed_up(spark, traces, found, summed, messages, asked)
            yield Audit(runs, traces, found, summed, messages, by_second)
        finally:
            for table in (by_second, messages, summed, found):
                table.unpersist()


@contextmanager
def _set(spark: SparkSession, footers: Sequence[RunFooters]) -> Iterator[None]:
    """Spark's settings for this job, and the caller's again afterwards."""
    wanted = dict(_BY_CASE)
    if sum(sum(run.rows.values()) for run in footers) < _COMPILED_ROWS:
        wanted |= _NOT_COMPILED
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            if known is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, known)


_BY_CASE = {"spark.sql.caseSensitive": "true"}  # attributes `Price` and `price` are two
# Compiling a plan into Java takes a second or two each time, and pays from about so many rows on.
_NOT_COMPILED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_COMPILED_ROWS = 200_000


def _summed_up(
    spark: SparkSession,
    traces: list[TraceRun],
    found: DataFrame,
    summed: DataFrame,
    messages: DataFrame,
    asked: Asked,
) -> list[AuditedRun]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        total = pool.submit(lambda: {row.run: row.asDict() for row in summed.where("scope = 'run'").collect()})
        kinds = pool.submit(messages.where("whole = 1").collect)
        counted = pool.submit(incident_counts(traces).collect)
        limits = pool.submit(within_limits, traces)
        bytes_ = pool.submit(same_bytes, spark, traces)
        by_run = total.result()
        sent = _by_run(kinds.result(), lambda row: (row.kind, {name: row[name] for name in _COUNTS}))
        incidents = _by_run(counted.result(), lambda row: (row.kind, row["count"]))
    numbers = {trace.label: by_run.get(trace.label, _NOTHING) for trace in traces}
    stored, costs, cut = _caused(traces, found, numbers, incidents, asked)
    runs = []
    for trace in traces:
        name, own = trace.label, numbers[trace.label]
        outcome = _outcome(trace, own, sent.get(name, {}), incidents.get(name, {}))
        listed = listed_causes(trace, outcome.messages, outcome.incidents)
        verdicts = from_figures(trace, own, listed, costs[name], asked)
        verdicts |= {"P7": limits.result()[name], "P8": bytes_.result()[name]}
        if name in stored:
            verdicts["P5"] = stored[name]
        failovers: list[dict[str, Any]] = []
        if replicates(outcome.incidents):
            verdicts["P6"], failovers = judged(
                found, trace, outcome.messages, known_us(trace, own), cut.get(name, CutOff())
            )
        runs.append(AuditedRun(name, trace.folder, trace.about, outcome, own, verdicts, failovers))
    return _with_examples(runs, found)


def _caused(
    traces: Sequence[TraceRun],
    found: DataFrame,
    numbers: Mapping[str, Mapping[str, Any]],
    incidents: Mapping[str, Mapping[str, int]],
    asked: Asked,
) -> tuple[dict[str, Verdict], dict[str, Costs], dict[str, CutOff]]:
    """P5 where events were acknowledged, what is wrong with P4, and who is cut off where brokers were replaced."""
    stored: dict[str, Verdict] = {}
    unclear: dict[str, int] = {}
    cut: dict[str, CutOff] = {}
    storing = {trace.label for trace in traces if "acknowledged" in incidents.get(trace.label, {})}
    missing = {run for run, own in numbers.items() if own["missing"] and asked.delivery_min is None}
    replicated = {run for run, counts in incidents.items() if replicates(counts) and numbers[run]["missing"]}
    erased = {run: sum(counts.get(kind, 0) for kind in ERASING) for run, counts in incidents.items()}
    unclear_runs = [trace for trace in traces if trace.label in storing | missing | replicated]
    if unclear_runs:
        with causes_of(unclear_runs, numbers) as causes, ThreadPoolExecutor(_AT_ONCE) as pool:
            judging = pool.submit(acknowledged_survives, found, causes, erased) if storing else None
            unclear = unexplained(found, causes, incidents) if missing else {}
            cut = cut_off(found, causes) if replicated else {}
            stored = {run: verdict for run, verdict in judging.result().items() if run in storing} if judging else {}
    kept = withheld(traces) if asked.delivery_min is None else {}
    return stored, {run: Costs(unclear.get(run, 0), kept.get(run, 0)) for run in numbers}, cut


_COUNTS = ("sent", "bytes", "lost", "received")
# A run in which nothing was owed and nothing arrived has no facts.
_NOTHING: dict[str, Any] = {
    **dict.fromkeys((*COUNTED, *VIOLATIONS, "held_total_us"), 0),
    **{f"{name}_{q}_us": None for name in KINDS.values() for q in (*QUANTILES, "max")},
    "ordering_degree": None,
    "delivery_ratio": 1.0,
}


def _by_run(rows: Sequence[Any], entry: Callable[[Any], tuple[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (row.run, row.kind)):
        kind, value = entry(row)
        found.setdefault(row.run, {})[kind] = value
    return found


def _outcome(
    trace: TraceRun, numbers: Mapping[str, Any], messages: dict[str, dict[str, int]], incidents: dict[str, int]
) -> Outcome:
    between = [counts for kind, counts in messages.items() if kind not in LAST_HOP]
    return Outcome(
        published=trace.rows["publications"],
        **{name: numbers[name] for name in _LEDGER},
        transmissions=sum(counts["sent"] for counts in between),
        bytes=sum(counts["bytes"] for counts in between),
        delay_us=_times_us(numbers, "delay"),
        recovered={via: numbers[f"recovered_{via}"] for via in MECHANISMS if numbers[f"recovered_{via}"]},
        recovery_delay_us=_times_us(numbers, "recovered_delay"),
        held_us=_times_us(numbers, "held"),
        messages=messages,
        incidents=incidents,
    )


_LEDGER = (
    "owed",
    "delivered",
    "lost",
    "late",
    "duplicates",
    "unowed",
    "fifo_violations",
    "held",
    "held_total_us",
)


def _times_us(numbers: Mapping[str, Any], name: str) -> dict[str, int]:
    """Quantiles and maximum; empty when there was nothing to time."""
    found = {q: numbers[f"{name}_{q}_us"] for q in (*QUANTILES, "max")}
    return found if found["max"] is not None else {}


def _with_examples(runs: list[AuditedRun], found: DataFrame) -> list[AuditedRun]:
    if not any(run.verdicts[name].broken for run in runs for name in ("P1", "P2", "P3", "P4")):
        return runs
    known = examples(found)
    return [
        replace(
            run,
            verdicts={
                name: replace(verdict, examples=known.get((run.label, name), verdict.examples))
                for name, verdict in run.verdicts.items()
            },
        )
        for run in runs
    ]
