"""`holdfast audit`: what was owed, what arrived, when, in which order, at what cost, and which promises held."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.model.errors import InputError
from holdfast.model.extras import require

if TYPE_CHECKING:
    from holdfast.pipeline.audit.job import AuditedRun

_SMALL_ROWS = 1_000_000  # below this the work is over before the JVM's optimising compiler pays off


def run(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders that `sim --out` or `up --out` wrote.")],
    out: Annotated[Path | None, typer.Option(help="Write the tables and the report into this folder.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an audit that is in the folder already.")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Compare two runs side by side.")] = False,
    delivery: Annotated[
        float | None, typer.Option(min=0, max=1, help="P4 is broken below this share of what is owed, such as 0.99.")
    ] = None,
    violations: Annotated[
        float | None, typer.Option(min=0, max=1, help="P3 is broken above this share of the deliveries, such as 0.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master, such as spark://host:7077.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compute from a trace what was owed and what became of it.

    A Spark job that matches every publication with the subscriptions that were active, and checks P1 to P8. With --out,
    write Parquet tables per subscriber, publisher, pair and second, and a report that opens in a browser.

    Exit code 0: done. 1: a promise is broken. 2: a run or an option is invalid.

    \b
    Example:
      holdfast sim net.toml --out run-7
      holdfast audit run-7 --out audit-7
      holdfast audit run-7 run-8 --compare --out both
    """
    require("pyspark")
    from holdfast.pipeline.audit.trace_footers import read_footers

    if compare and len(runs) != 2:
        raise InputError(f"--compare wants two runs, found {len(runs)}")
    if out is not None and any(each.resolve() == out.resolve() for each in runs):
        raise InputError(f"--out: {out} is one of the runs; name another folder")
    footers = read_footers(runs)
    from holdfast.pipeline.session import plain_interrupts, session

    small = sum(sum(each.rows.values()) for each in footers) < _SMALL_ROWS
    with _progress(as_json) as show_step:
        show_step("starting Spark")
        spark = session("holdfast audit", master, profile="test" if small else "run")
        plain_interrupts()
        from holdfast.pipeline.audit.folder import audit_folder, write_tables
        from holdfast.pipeline.audit.job import audited
        from holdfast.pipeline.audit.promises import Asked
        from holdfast.pipeline.audit.slices import shown
        from holdfast.pipeline.report.files import write_reports

        results = audit_folder(out, overwrite) if out is not None else nullcontext()
        with results as folder, audited(spark, footers, Asked(delivery, violations), show_step) as audit:
            if folder is not None:
                show_step("writing tables and report")
                found = shown(audit)
                write_tables(audit, found, folder)
                write_reports(audit.runs, found, folder, compare)
    _print(audit.runs, compare, as_json)
    if out is not None and not as_json:
        print(f"tables and report in {out}")
    if any(each.broken for each in audit.runs):
        raise typer.Exit(1)


def _print(runs: list["AuditedRun"], compare: bool, as_json: bool) -> None:
    from holdfast.pipeline.audit.summary import comparison, summary

    if as_json:
        found = [each.as_json() for each in runs]
        print(json.dumps(found[0] if len(found) == 1 else {"runs": found}))
    elif compare:
        print(comparison(*runs))
    else:
        print("\n\n".join(map(summary, runs)))


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """What is going on, on a terminal; nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield status.update
