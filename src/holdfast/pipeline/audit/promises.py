"""The promises, checked a second time: on the same trace as `books/promises.py`, with windows and joins of its own.

docs/promises.md says what they mean. P1, P2 and P7 are certain. P3 holds when order was not asked for, or when what
remains of the violations is within its target. P4 is a rate under best effort, so it is broken only when the share
asked for was not delivered, or when more events are missing than the causes in the trace could have cost.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from holdfast.books.definitions import HANDED_ON, HARMLESS, STANDARD_ERRORS
from holdfast.books.outcome import Outcome
from holdfast.books.promised import file_of, order_promised
from holdfast.books.verdict import EXAMPLES_MAX, Verdict
from holdfast.pipeline import number_format
from holdfast.pipeline.audit.causes import EVENT, first_few, owed_by_stores
from holdfast.pipeline.audit.disturbances import Disturbances
from holdfast.pipeline.audit.metrics import VIOLATIONS
from holdfast.pipeline.audit.trace_footers import RunFooters
from holdfast.pipeline.audit.trace_tables import Trace
from holdfast.pipeline.engine import Engine, Relation

_BREAKS = {
    "P1": VIOLATIONS["uncalled_for"],
    "P2": VIOLATIONS["repeated"],
    "P3": "overtaken",
    "P4": VIOLATIONS["missing"],
}

_UNLISTED = HARMLESS | HANDED_ON | {"restart", "link_up", "link_recovered"}  # after these nothing is missing


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
    run: RunFooters, figures: Mapping[str, Any], outcome: Outcome, costs: Costs, asked: Asked
) -> dict[str, Verdict]:
    """P1 to P4."""
    found = listed_causes(run, outcome.messages, outcome.incidents)
    deliveries, owed = figures["deliveries"], figures["owed"]
    return {
        "P1": Verdict("P1", not figures["uncalled_for"], deliveries, figures["uncalled_for"]),
        "P2": _once(figures, sum(outcome.incidents.get(kind, 0) for kind in HANDED_ON)),
        "P3": _order(run, figures, asked.violations_max),
        "P4": _delivery(figures["missing"], owed, found, costs, asked.delivery_min),
        "P5": Verdict("P5", True, 0, 0, note="the trace has no acknowledgements"),
        "P6": Verdict("P6", True, 0, 0, note="no broker was replaced or relieved"),
    }


def _once(figures: Mapping[str, Any], handed_on: int) -> Verdict:
    """A group may get as many events twice as were handed on to a second member."""
    twice, shared = figures["repeated"], figures["shared_again"]
    note = f"{shared:,} came to two members of a group, {handed_on:,} were handed on" if shared else ""
    return Verdict("P2", twice == shared <= handed_on, figures["events"], twice, note=note)


def _order(run: RunFooters, figures: Mapping[str, Any], asked: float | None) -> Verdict:
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
    run: RunFooters, messages: Mapping[str, Mapping[str, int]], incidents: Mapping[str, int]
) -> dict[str, int]:
    """What in a run may have cost events, and how often it happened: for people."""
    lost = {f"{kind} lost": counts["lost"] for kind, counts in messages.items()}
    moved = messages.get("Detach", {}).get("sent", 0)
    if run.about.get("driver") == "live":  # there every client says good-bye at the end
        moved = sum(str(fault.get("kind", "")).startswith("client-") for fault in file_of(run.about).get("fault", []))
    harmful = {kind: count for kind, count in incidents.items() if kind not in _UNLISTED}
    return {kind: count for kind, count in {**lost, **harmful, "client moved": moved}.items() if count}


def acknowledged_survives(facts: Relation, causes: Disturbances, erased: Mapping[str, int]) -> dict[str, Verdict]:
    """P5 by run: of what publishers were told is stored, what had the time to arrive and never came."""
    owed = owed_by_stores(facts, causes)
    engine = facts.engine
    counts = engine.sql(f"""
        SELECT run, count(*) AS checked, count_if(arrived_us IS NULL) AS broken FROM {owed} GROUP BY run""")
    found = {run: Verdict("P5", True, 0, 0) for run in causes.runs}
    for run, checked, broken in counts.rows():
        note = f"brokers erased {erased[run]:,} stored events" if erased.get(run) and broken else ""
        found[run] = Verdict("P5", broken <= erased.get(run, 0), checked, broken, note=note)
    if any(verdict.broken for verdict in found.values()):
        for row in first_few(engine.sql(f"SELECT * FROM {owed} WHERE arrived_us IS NULL"), "published_us"):
            run, example = row["run"], {name: row[name] for name in (*EVENT, "published_us")}
            found[run] = replace(found[run], examples=(*found[run].examples, example))
    return found


def examples(facts: Relation, broken: Collection[str]) -> dict[tuple[str, str], tuple[dict[str, Any], ...]]:
    """The first few facts of each run that break one of these promises."""
    shown = ("published_us", "arrived_us", "via")
    columns = ", ".join(("run", *EVENT, *shown))
    rows = " UNION ALL ".join(
        f"SELECT {columns}, '{name}' AS promise FROM {facts} WHERE {which}"
        for name, which in _BREAKS.items()
        if name in broken
    )
    # Key: run and promise. Everything may break one promise; tasks keep only the first few each before the shuffle.
    first = facts.engine.sql(f"""
        SELECT * FROM (
            SELECT *, row_number() OVER (
                PARTITION BY run, promise ORDER BY coalesce(arrived_us, published_us), {", ".join(EVENT)}) AS number
            FROM ({rows}) AS broken
        ) AS numbered WHERE number <= {EXAMPLES_MAX} ORDER BY run, promise, number""")
    return {
        key: tuple(
            {**{name: row[name] for name in EVENT}, **{name: row[name] for name in shown if row[name] is not None}}
            for row in group
        )
        for key, group in groupby(first.dicts(), key=lambda row: (row["run"], row["promise"]))
    }


# P7: samples against their limits ---------------------------------------------------------------------------------


def within_limits(trace: Trace) -> dict[str, Verdict]:
    """Samples that have a limit, against it."""
    found = {run.label: Verdict("P7", True, 0, 0, note="the trace has no limits") for run in trace.runs}
    if not any(run.rows["samples"] for run in trace.runs):
        return found
    engine = trace.engine
    is_over = "value > bound AND NOT isnan(value)"  # both engines hold NaN for the largest number
    counts = engine.sql(f"""
        SELECT run, count(*) AS checked, count_if({is_over}) AS broken
        FROM {trace.samples} WHERE bound IS NOT NULL GROUP BY run""")
    for run, checked, broken in counts.rows():
        found[run] = Verdict("P7", not broken, checked, broken)
    if any(verdict.broken for verdict in found.values()):
        first = engine.sql(f"""
            SELECT run, node, time_us, name, value, bound FROM (
                SELECT *, row_number() OVER (PARTITION BY run ORDER BY time_us, node, name) AS number
                FROM {trace.samples} WHERE {is_over}
            ) AS numbered WHERE number <= {EXAMPLES_MAX} ORDER BY run, number""")
        for run, node, time_us, name, value, bound in first.rows():
            example = {"node": node, "time_us": time_us, "name": name, "value": value, "limit": bound}
            found[run] = replace(found[run], examples=(*found[run].examples, example))
    return found


# P8: the same file and seed ---------------------------------------------------------------------------------------


def same_bytes(engine: Engine, runs: Sequence[RunFooters]) -> dict[str, Verdict]:
    """Simulated runs of one file, seed and version, each against the first such: equal files, by their digests."""
    alone = Verdict("P8", True, 0, 0, note="needs two simulated runs of one file and seed")
    verdicts = {run.label: alone for run in runs}
    for first, *others in _alike(runs):
        for other in others:
            verdict = _compared(engine, first, other)
            verdicts[other.label] = verdict
            if not verdicts[first.label].broken:
                verdicts[first.label] = verdict
    return verdicts


def _alike(runs: Sequence[RunFooters]) -> Iterator[list[RunFooters]]:
    groups: dict[tuple[Any, ...], list[RunFooters]] = {}
    for run in runs:
        if run.about.get("driver") == "sim" and run.about.get("file"):
            groups.setdefault(tuple(run.about.get(name) for name in ("file", "seed", "version")), []).append(run)
    return (group for group in groups.values() if len(group) > 1)


def _compared(engine: Engine, one: RunFooters, other: RunFooters) -> Verdict:
    both = engine.sql(f"""
        SELECT file, coalesce(ours.digest <> theirs.digest, true) AS differs
        FROM {engine.digests(one.folder)} AS ours FULL JOIN {engine.digests(other.folder)} AS theirs USING (file)""")
    ((files, different),) = engine.sql(f"SELECT count(*), count_if(differs) FROM {both}").rows()
    shown = engine.sql(f"SELECT file FROM {both} WHERE differs ORDER BY file LIMIT {EXAMPLES_MAX}").rows()
    found = tuple({"file": file, "runs": [one.label, other.label]} for (file,) in shown)
    return Verdict("P8", not different, files, different, found)
