"""One failover for the report: its moments, and what became of the events meanwhile beside all others."""

from html import escape

from holdfast.pipeline import number_format
from holdfast.pipeline.audit.failover import AuditedFailover, Became
from holdfast.pipeline.report.html_parts import table


def failover(found: AuditedFailover) -> str:
    steps = [
        (found.noticed_us, "all neighbours have noticed"),
        (found.asked_us, f"{found.replica} asks them"),
        (found.ready_us, "it knows everything"),
        (found.over_us, "all neighbours are done"),
    ]
    items = "".join(
        f"<li><b>+ {number_format.time(at - found.failed_us)}</b> {escape(words)}</li>" for at, words in steps
    )
    begins = f"<li><b>{found.failed_us / 1e6:,.1f} s</b> {escape(found.broker)} dies</li>"
    rows = [
        [words, *_cells(name, found.during), *_cells(name, found.otherwise)]
        for name, words in (
            ("original", "the original path"),
            ("replica", "waited for the replica"),
            ("recovered", "recovered"),
            ("missing", "lost"),
        )
    ]
    rows.append(["owed", number_format.count(found.during.owed), "", number_format.count(found.otherwise.owed), ""])
    delays = [["median delay", *_delay(found, "delay_p50_us")], ["longest", *_delay(found, "delay_max_us")]]
    counts = table(["", "meanwhile", "", "otherwise", ""], rows + delays)
    return f'<ul class="steps">{begins}{items}</ul>{counts}'


def _cells(name: str, became: Became) -> tuple[str, str]:
    count = getattr(became, name)
    return number_format.count(count), number_format.share(count / became.owed if became.owed else None)


def _delay(found: AuditedFailover, name: str) -> tuple[str, str, str, str]:
    return number_format.time(getattr(found.during, name)), "", number_format.time(getattr(found.otherwise, name)), ""
