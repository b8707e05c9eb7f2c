"""The promises, checked on a run's trace and on nothing else.

P1 only what matches is delivered. P2 at most once. P3 events of one source arrive in order. P4 what is owed is
delivered (a rate). P5 what a broker acknowledged is not lost. P6 replicas keep their protocol's promises. P7 what has
a limit stays within it. P8 the same seed gives the same trace. docs/promises.md says under which faults each one holds.
"""

from collections.abc import Iterable
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.books.causes import Causes, MissingDelivery, within
from holdfast.books.definitions import ERASING, HANDED_ON, LEARNT, LEARNT_US, NAMING_FOR_ALL, STANDARD_ERRORS
from holdfast.books.owed import EVENT, owed_of, wanted_of
from holdfast.books.promised import order_promised
from holdfast.books.replication_promises import judged
from holdfast.books.runs import Run, same_bytes
from holdfast.books.verdict import EXAMPLES_MAX, Verdict
from holdfast.protocol.groups.settings import HOMES


def check(folder: Path, strict_order: bool = False) -> dict[str, Verdict]:
    """P1 to P7 of one run."""
    run = Run(folder)
    deliveries = run.table("deliveries")
    wanted = wanted_of(run)
    causes = Causes(run)
    return {
        "P1": only_what_matches(deliveries, wanted),
        "P2": at_most_once(deliveries, causes.counted(HANDED_ON)),
        "P3": in_order(deliveries, 0.0 if strict_order else may_remain(run)),
        "P4": every_loss_has_a_cause(deliveries, wanted, causes),
        "P5": acknowledged_survives(deliveries, wanted, causes),
        "P6": replication_keeps_its_promises(run, causes, wanted),
        "P7": within_limits(run.table("samples")),
    }


def only_what_matches(deliveries: pa.Table, wanted: pa.Table) -> Verdict:
    """A delivery needs a matching subscription that was live at some time between publishing and delivery.

    So nothing is delivered before it was published.
    """
    arrived = deliveries.select([*EVENT, "time_us"]).rename_columns([*EVENT, "arrived_us"])
    joined = wanted.join(arrived, EVENT, join_type="inner")
    alive = pc.and_(
        pc.less_equal(joined["from_us"], joined["arrived_us"]),
        pc.or_kleene(pc.is_null(joined["until_us"]), pc.greater_equal(joined["until_us"], joined["time_us"])),
    )
    alive = pc.and_(alive, pc.less_equal(joined["time_us"], joined["arrived_us"]))
    good = joined.filter(alive).group_by(EVENT).aggregate([])
    foreign = arrived.join(good, EVENT, join_type="left anti")
    return _verdict("P1", deliveries.num_rows, foreign)


def at_most_once(deliveries: pa.Table, handed_on: int = 0) -> Verdict:
    """A group may get as many events twice as were handed on to a second member."""
    counts = deliveries.group_by(EVENT).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1))
    shared = pc.sum(pc.starts_with(twice["subscriber"], HOMES)).as_py() or 0
    holds = twice.num_rows == shared <= handed_on
    return replace(_verdict("P2", counts.num_rows, twice), holds=holds)


def may_remain(run: Run) -> float | None:
    """The share of the violations that a run's file allows: none where order is strict, any where it is not kept."""
    mode, target = order_promised(run.about)
    return {"strict": 0.0, "fifo": target}.get(mode)


def in_order(deliveries: pa.Table, share_max: float | None) -> Verdict:
    """Deliveries that came after a later event of the same source; `share_max` of what reached its subscriber so may.

    A share is judged on what each subscriber got of a source after it had learnt, and with what chance allows.
    """
    rows = [(*row.values(),) for row in deliveries.select([*EVENT, "time_us", "held_us"]).to_pylist()]
    handed_over = sorted(rows, key=lambda row: row[3])
    late = _overtaken(handed_over)
    examples = tuple(dict(zip([*EVENT, "time_us"], row, strict=False)) for row in late[:EXAMPLES_MAX])
    if not share_max:
        return Verdict("P3", share_max is None or not late, len(rows), len(late), examples)
    learnt = _after_learning(handed_over)
    behind = _overtaken(sorted(rows, key=lambda row: row[3] - (row[4] or 0)))
    expected = share_max * sum(row in learnt for row in behind)
    remaining = sum(row in learnt for row in late)
    return Verdict("P3", remaining <= expected + STANDARD_ERRORS * sqrt(expected), len(rows), len(late), examples)


def _overtaken(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Of deliveries in the order of some time, those with a lower number than one of the same pair before."""
    highest: dict[tuple[str, str], int] = {}
    found = []
    for row in rows:
        pair, seq = row[:2], row[2]
        if seq < highest.get(pair, 0):
            found.append(row)
        else:
            highest[pair] = seq
    return found


def _after_learning(rows: Iterable[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    got: dict[tuple[str, str], set[int]] = {}
    began_us: dict[tuple[str, str], int] = {}
    learnt = set()
    for row in rows:
        pair, time_us = row[:2], row[3]
        got.setdefault(pair, set()).add(row[2])
        since_us = time_us - began_us.setdefault(pair, time_us)
        if len(got[pair]) > LEARNT and since_us >= LEARNT_US:
            learnt.add(row)
    return learnt


def what_is_owed(deliveries: pa.Table, wanted: pa.Table) -> Verdict:
    """Owed: a matching subscription was live when the event was published. All of it has come."""
    owed = owed_of(wanted)
    return _verdict("P4", owed.num_rows, _never_came(owed, deliveries))


def every_loss_has_a_cause(deliveries: pa.Table, wanted: pa.Table, causes: Causes) -> Verdict:
    """P4: of what is owed and never came, the trace shows causes enough. `broken` counts what never came."""
    owed = owed_of(wanted)
    missing = _never_came(owed, deliveries)
    unexplained = causes.unexplained(MissingDelivery(**row) for row in missing.to_pylist())
    withheld = causes.withheld(deliveries)
    notes = [f"nothing in the trace could have cost {unexplained:,} of them"] * bool(unexplained)
    notes += [f"{withheld:,} events reached a subscriber and were not handed over"] * bool(withheld)
    examples = tuple(missing.select(EVENT).slice(0, EXAMPLES_MAX).to_pylist())
    return Verdict("P4", not (unexplained or withheld), owed.num_rows, missing.num_rows, examples, "; ".join(notes))


def acknowledged_survives(deliveries: pa.Table, wanted: pa.Table, causes: Causes) -> Verdict:
    """P5: of what publishers were told is stored, what is owed and never came, though it had the time to.

    Owed to subscriptions that the network knew when the event was published, that never ended, and whose clients
    stayed at their brokers. Events that are named as expired or dropped for the sake of order are left out, and so is
    what may still come: while a broker or link is down as the trace ends, whatever has not outlived its lifetime.
    """
    acknowledged, expired = causes.events(["acknowledged"]), causes.events(NAMING_FOR_ALL)
    too_late, unknown = causes.named(["out_of_order"]), causes.unknown(causes.disturbed_stores)
    begun = pc.less_equal(wanted["from_us"], wanted["time_us"])
    lasting = wanted.filter(pc.and_(begun, pc.is_null(wanted["until_us"])))
    lasting = lasting.group_by([*EVENT, "time_us", "lifetime_us"]).aggregate([("from_us", "min")])
    got = set(zip(*(deliveries[name].to_pylist() for name in EVENT), strict=True))
    stored = [row for row in lasting.to_pylist() if (row["source"], row["seq"]) in acknowledged]
    came = [row for row in stored if (row["subscriber"], row["source"], row["seq"]) in got]
    missing = [
        row
        for row in stored
        if (row["subscriber"], row["source"], row["seq"]) not in got
        and row["time_us"] <= causes.due_us
        and not causes.may_still_come(row["time_us"], row["lifetime_us"])
        and causes.is_known(row["from_us_min"], row["time_us"], unknown)
        and not causes.has_moved(row["subscriber"], row["source"], row["time_us"])
        and (row["source"], row["seq"]) not in expired
        and not within(row["seq"], too_late.get((row["subscriber"], row["source"]), []))
    ]
    erased = causes.counted(ERASING)
    note = f"brokers erased {erased:,} stored events" if erased and missing else ""
    examples = tuple({name: row[name] for name in EVENT} for row in missing[:EXAMPLES_MAX])
    return Verdict("P5", len(missing) <= erased, len(came) + len(missing), len(missing), examples, note)


def _never_came(owed: pa.Table, deliveries: pa.Table) -> pa.Table:
    return owed.join(deliveries.select(EVENT), EVENT, join_type="left anti")


def replication_keeps_its_promises(run: Run, causes: Causes, wanted: pa.Table) -> Verdict:
    """P6: what the protocols promise; and that whoever is behind a replica that is ready gets events at all."""
    found = judged(run, causes.known_us)
    cut = causes.cut_off(owed_of(wanted), run.table("deliveries"), found.moved) if found.replicated else []
    examples = [*found.broken, *({name: getattr(row, name) for name in EVENT} for row in cut)]
    checked, broken = found.checked + len(cut), len(found.broken) + len(cut)
    note = f"{len(cut):,} events never reached subscribers that get nothing since a broker was replaced" if cut else ""
    return Verdict("P6", not broken, checked, broken, tuple(examples[:EXAMPLES_MAX]), note)


def within_limits(samples: pa.Table) -> Verdict:
    """Samples that have a limit and are above it."""
    limited = samples.filter(pc.is_valid(samples["limit"]))
    return _verdict("P7", limited.num_rows, limited.filter(pc.greater(limited["value"], limited["limit"])))


def same_trace(one: Path, other: Path) -> Verdict:
    """P8: two runs of one seed."""
    different = same_bytes(one, other)
    examples = tuple({"file": name} for name in different[:EXAMPLES_MAX])
    return Verdict("P8", not different, sum(1 for _ in one.rglob("*.parquet")), len(different), examples)


def _verdict(promise: str, checked: int, broken: pa.Table) -> Verdict:
    examples = broken.slice(0, EXAMPLES_MAX).to_pylist()
    return Verdict(promise, broken.num_rows == 0, checked, broken.num_rows, tuple(examples))
