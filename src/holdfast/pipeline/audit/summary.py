"""An audit in words for a terminal: one run, or two side by side."""

from collections.abc import Iterator
from typing import Any

from holdfast.books.verdict import Verdict
from holdfast.pipeline import number_format
from holdfast.pipeline.audit.compare import compared
from holdfast.pipeline.audit.job import AuditedRun

_NAME = 20


def summary(run: AuditedRun) -> str:
    outcome, overhead = run.outcome, run.overhead
    recovered = ", ".join(f"{via} {number:,}" for via, number in run.recovered.items() if number)
    rows = [
        ("published", number_format.count(outcome.published)),
        ("owed", number_format.count(outcome.owed)),
        ("delivered", f"{outcome.delivered:,} ({number_format.share(outcome.delivery_ratio)} of what was owed)"),
        ("lost", number_format.count(outcome.lost)),
        ("late", number_format.count(outcome.late)),
        ("recovered", f"{sum(run.recovered.values()):,}" + (f" ({recovered})" if recovered else "")),
        ("duplicates", number_format.count(outcome.duplicates)),
        ("unowed", f"{outcome.unowed:,}"),
        ("FIFO violations", number_format.count(outcome.fifo_violations)),
        ("ordering degree", number_format.degree(run.figures["ordering_degree"])),
        ("delay", _delays(run, "delay") or "nothing arrived"),
        ("  recovered", _delays(run, "recovered_delay")),
        ("held back", f"{outcome.held:,}, {_delays(run, 'held')}" if outcome.held else ""),
        ("transmissions", f"{outcome.transmissions:,}, {outcome.bytes:,} bytes (all but Deliver)"),
        (
            "  for each delivery",
            f"{number_format.ratio(overhead['transmissions_per_delivery'])} messages, "
            f"{number_format.size(overhead['bytes_per_delivery'])}",
        ),
        (
            "  without an event",
            f"{number_format.share(overhead['control_message_ratio'])} of all messages, "
            f"{number_format.share(overhead['control_byte_ratio'])} of all bytes",
        ),
    ]
    lines = [_title(run), *(f"  {name:<{_NAME}}{text}" for name, text in rows if text)]
    failovers = map(_failover_line, run.failovers)
    return "\n".join([*lines, *failovers, *map(verdict_line, run.verdicts.values())])


def _failover_line(row: dict[str, Any]) -> str:
    ready = "never" if row["ready_us"] is None else f"at {row['ready_us'] / 1e6:,.2f} s"
    words = f"{row['faulty']} by {row['replica']} ({row['protocol']}, {row['use']}), ready {ready}"
    if row["failed_us"] is not None:
        took_s = (row["noticed_us"] - row["failed_us"]) / 1e6
        words += (
            f"; failed at {row['failed_us'] / 1e6:,.2f} s, noticed after {took_s:.3f} s, {row['published']:,} "
            f"published and {row['lost']:,} lost in between, {row['lost_outside']:,} lost at other times"
        )
    return f"  {'replica':<{_NAME}}{words}"


def _title(run: AuditedRun) -> str:
    seed = run.about.get("seed")
    return f"{run.about.get('name') or run.label}" + (f", seed {seed}" if seed is not None else "") + f" ({run.folder})"


def _delays(run: AuditedRun, name: str) -> str:
    return ", ".join(f"{q} {us / 1000:,.1f} ms" for q, us in run.delay_us(name).items())


def verdict_line(verdict: Verdict) -> str:
    if not verdict.holds:
        words = f"BROKEN {verdict.broken:,} times in {verdict.checked:,}"
        such = f", such as {_told(verdict)}" if verdict.examples else ""
        note = f"; {verdict.note}" if verdict.note else ""
        return f"  {verdict.promise:<{_NAME}}{words}{such}{note}"
    if not verdict.checked:
        return f"  {verdict.promise:<{_NAME}}nothing to check{': ' if verdict.note else ''}{verdict.note}"
    if verdict.broken:
        return f"  {verdict.promise:<{_NAME}}{verdict.broken:,} of {verdict.checked:,}: {verdict.note}"
    parts = f"; {verdict.note}" if verdict.promise == "P6" and verdict.note else ""  # what was not looked at
    return f"  {verdict.promise:<{_NAME}}holds ({verdict.checked:,} checked){parts}"


def _told(verdict: Verdict) -> str:
    return ", ".join(f"{name} {value}" for name, value in verdict.examples[0].items())


def comparison(one: AuditedRun, two: AuditedRun) -> str:
    return "\n".join(_columns(one, two))


def _columns(one: AuditedRun, two: AuditedRun) -> Iterator[str]:
    figures = [(row.name, row.one, row.two, row.difference) for row in compared(one, two)]
    promises = [(name, _state(one.verdicts[name]), _state(two.verdicts[name]), "") for name in one.verdicts]
    rows = [("", one.label, two.label, ""), *figures, *promises]
    widths = [max(len(row[at]) for row in rows) for at in range(4)]
    for name, first, second, difference in rows:
        line = f"{name:<{widths[0]}}  {first:>{widths[1]}}  {second:>{widths[2]}}  {difference:>{widths[3]}}"
        yield line.rstrip()


def _state(verdict: Verdict) -> str:
    if not verdict.holds:
        return "BROKEN"
    if not verdict.checked:
        return number_format.NOTHING
    return f"{verdict.broken:,}" if verdict.broken else "holds"
