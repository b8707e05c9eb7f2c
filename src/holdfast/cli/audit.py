"""`holdfast audit`: what was owed, what arrived, when, in which order, at what cost, and which promises held."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.spark_options import Conf, EngineChoice, Master, Packages, check_engine, spark_settings
from holdfast.model.errors import InputError

if TYPE_CHECKING:
    from holdfast.pipeline.audit.job import Audit, AuditedRun


_ENGINES = {"spark": "on Spark", "embedded": "by the embedded engine (DuckDB)"}


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
    engine: Annotated[
        EngineChoice | None,
        typer.Option(help="Audit on Spark or in this process; by default, by the size of the runs."),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print the engine's plan behind the result.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compute from a trace what was owed and what became of it.

    Matches every publication with the subscriptions that were active, and checks P1 to P8. With --out, write Parquet
    tables per subscriber, publisher, pair and second, and a report that opens in a browser. Small runs are audited in
    this process, large ones on Spark; the last lines say which it was.

    Exit code 0: done. 1: a promise is broken. 2: a run or an option is invalid.

    \b
    Example:
      holdfast sim net.toml --out run-7
      holdfast audit run-7 --out audit-7
      holdfast audit run-7 run-8 --compare --out both
    """
    from holdfast.pipeline.audit.trace_footers import read_footers

    if compare and len(runs) != 2:
        raise InputError(f"--compare wants two runs, found {len(runs)}")
    if out is not None and any(each.resolve() == out.resolve() for each in runs):
        raise InputError(f"--out: {out} is one of the runs; name another folder")
    settings = spark_settings(conf, packages)
    check_engine(engine, master, settings)
    if explain and as_json:
        raise InputError("--explain prints text; leave it or --json out")
    footers = read_footers(runs)
    from holdfast.pipeline.audit.engines import engine_for, start
    from holdfast.pipeline.audit.job import audited
    from holdfast.pipeline.audit.promises import Asked

    name = engine_for(engine.value if engine is not None else None, footers, bool(master or settings))
    with _progress(as_json) as show_step:
        started = start(name, footers, master, settings, show_step)
        results = _results(out, overwrite)
        with results as folder, audited(started, footers, Asked(delivery, violations), show_step) as audit:
            if folder is not None:
                _write(audit, folder, compare, show_step)
            plan = started.plan() if explain else ""
    _print(audit.runs, compare, name if as_json else None)
    if not as_json:
        print(f"audited {_ENGINES[name]}")
    if explain:
        print(plan)
    if out is not None and not as_json:
        print(f"tables and report in {out}")
    if any(each.broken for each in audit.runs):
        raise typer.Exit(1)


def _results(out: Path | None, overwrite: bool) -> AbstractContextManager[Path | None]:
    if out is None:
        return nullcontext()
    from holdfast.pipeline.audit.folder import audit_folder

    return audit_folder(out, overwrite)


def _write(audit: "Audit", folder: Path, compare: bool, show_step: Callable[[str], None]) -> None:
    from holdfast.pipeline.audit.folder import write_tables
    from holdfast.pipeline.audit.slices import shown
    from holdfast.pipeline.report.files import write_reports

    show_step("writing tables and report")
    found = shown(audit)
    write_tables(audit, found, folder)
    write_reports(audit.runs, found, folder, compare)


def _print(runs: list["AuditedRun"], compare: bool, engine_in_json: str | None) -> None:
    from holdfast.pipeline.audit.summary import comparison, summary

    if engine_in_json is not None:
        found = [{**each.as_json(), "engine": engine_in_json} for each in runs]
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
