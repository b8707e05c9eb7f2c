"""Audit runs: what was owed, what arrived, when, in which order, at what cost, and which promises held.

The facts are worked out once and kept; every figure, table and chart is a sum over them. What comes back to the driver
is bounded: one row per run, kind of message, class of delay or slice of time, and a few examples.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.books.definitions import ERASING, LAST_HOP
from holdfast.books.outcome import Outcome
from holdfast.books.verdict import Verdict
from holdfast.pipeline.audit.causes import CutOff, cut_off, unexplained, withheld
from holdfast.pipeline.audit.disturbances import disturbances, known_us
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
    same_bytes,
    within_limits,
)
from holdfast.pipeline.audit.replication import judged, replicates
from holdfast.pipeline.audit.trace_footers import RunFooters
from holdfast.pipeline.audit.trace_tables import Trace, TraceEngine
from holdfast.pipeline.engine import Relation, at_once

# Counted by clients themselves and link by link, which is not in a trace; and what the table of seconds tells instead.
_NOT_IN_SUMMARY = ("recovery", "phases_us", "leaf_recovery_ratio", "slices")
_EVENTS = ("Publish", "Deliver")  # kinds of message that carry events; the others are the price of getting them there
_NOTHING_ASKED = Asked()


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
    trace: Trace
    facts: Relation
    figures: Relation
    messages: Relation

    @cached_property
    def seconds(self) -> Relation:
        """Only reports and tables of a folder need it."""
        return seconds(self.facts, self.trace)


@contextmanager
def audited(
    engine: TraceEngine,
    footers: Sequence[RunFooters],
    asked: Asked = _NOTHING_ASKED,
    progress: Callable[[str], None] = lambda step: None,
) -> Iterator[Audit]:
    """The audit of these runs; its tables can be used inside the `with`, which ends with the engine's `close`."""
    with engine.explained(), closing(engine):
        progress("reading the runs")
        trace = Trace(engine, footers)
        progress("matching publications with subscriptions")
        found = facts(trace)
        summed, messages = figures(found), message_seconds(trace)
        progress("adding up")
        runs = _summed_up(trace, found, summed, messages, asked)
        yield Audit(runs, trace, found, summed, messages)


def _summed_up(trace: Trace, found: Relation, summed: Relation, messages: Relation, asked: Asked) -> list[AuditedRun]:
    engine = trace.engine
    total = engine.sql(f"SELECT * FROM {summed} WHERE scope = 'run'")
    kinds = engine.sql(f"SELECT * FROM {messages} WHERE whole = 1")
    first, sent, incidents = at_once(
        lambda: {row["run"]: row for row in total.dicts()},
        lambda: _by_run(kinds.dicts(), lambda row: {name: row[name] for name in _COUNTS}),
        lambda: _by_run(incident_counts(trace).dicts(), lambda row: row["count"]),
    )
    limits, bytes_ = at_once(lambda: within_limits(trace), lambda: same_bytes(engine, trace.runs))
    numbers = {run.label: first.get(run.label, _NOTHING) for run in trace.runs}
    stored, costs, cut = _caused(trace, found, numbers, incidents, asked)
    runs = []
    for run in trace.runs:
        name, own = run.label, numbers[run.label]
        outcome = _outcome(run, own, sent.get(name, {}), incidents.get(name, {}))
        verdicts = from_figures(run, own, outcome, costs[name], asked)
        verdicts |= {"P7": limits[name], "P8": bytes_[name]}
        if name in stored:
            verdicts["P5"] = stored[name]
        failovers: list[dict[str, Any]] = []
        if replicates(outcome.incidents):
            verdicts["P6"], failovers = judged(
                found, trace, name, outcome.messages, known_us(run, own), cut.get(name, CutOff())
            )
        runs.append(AuditedRun(name, run.folder, run.about, outcome, own, verdicts, failovers))
    return _with_examples(runs, found)


def _caused(
    trace: Trace,
    found: Relation,
    numbers: Mapping[str, Mapping[str, Any]],
    incidents: Mapping[str, Mapping[str, int]],
    asked: Asked,
) -> tuple[dict[str, Verdict], dict[str, Costs], dict[str, CutOff]]:
    """P5 where events were acknowledged, what is wrong with P4, and who is cut off where brokers were replaced."""
    stored: dict[str, Verdict] = {}
    unclear: dict[str, int] = {}
    cut: dict[str, CutOff] = {}
    storing = {run.label for run in trace.runs if "acknowledged" in incidents.get(run.label, {})}
    missing = {run for run, own in numbers.items() if own["missing"] and asked.delivery_min is None}
    replicated = {run for run, counts in incidents.items() if replicates(counts) and numbers[run]["missing"]}
    erased = {run: sum(counts.get(kind, 0) for kind in ERASING) for run, counts in incidents.items()}
    unclear_runs = [run for run in trace.runs if run.label in storing | missing | replicated]
    if unclear_runs:
        causes = disturbances(trace, unclear_runs, numbers)
        judging, unclear, cut = at_once(
            lambda: acknowledged_survives(found, causes, erased) if storing else {},
            lambda: unexplained(found, causes, incidents) if missing else {},
            lambda: cut_off(found, causes) if replicated else {},
        )
        stored = {run: verdict for run, verdict in judging.items() if run in storing}
    kept = withheld(trace) if asked.delivery_min is None else {}
    return stored, {run: Costs(unclear.get(run, 0), kept.get(run, 0)) for run in numbers}, cut


_COUNTS = ("sent", "bytes", "lost", "received")
# A run in which nothing was owed and nothing arrived has no facts.
_NOTHING: dict[str, Any] = {
    **dict.fromkeys((*COUNTED, *VIOLATIONS, "held_total_us"), 0),
    **{f"{name}_{q}_us": None for name in KINDS.values() for q in (*QUANTILES, "max")},
    "ordering_degree": None,
    "delivery_ratio": 1.0,
}


def _by_run(rows: Sequence[dict[str, Any]], entry: Callable[[dict[str, Any]], Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (row["run"], row["kind"])):
        found.setdefault(row["run"], {})[row["kind"]] = entry(row)
    return found


def _outcome(
    run: RunFooters, numbers: Mapping[str, Any], messages: dict[str, dict[str, int]], incidents: dict[str, int]
) -> Outcome:
    between = [counts for kind, counts in messages.items() if kind not in LAST_HOP]
    return Outcome(
        published=run.rows["publications"],
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


def _with_examples(runs: list[AuditedRun], found: Relation) -> list[AuditedRun]:
    broken = {name for run in runs for name in ("P1", "P2", "P3", "P4") if run.verdicts[name].broken}
    if not broken:
        return runs
    known = examples(found, broken)
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
