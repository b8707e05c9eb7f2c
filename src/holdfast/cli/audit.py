"""`holdfast audit`: what was owed, what arrived, when, in which order, at what cost, and which promises held."""

import json
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from holdfast.cli.progress_shown import spark_progress
from holdfast.cli.spark_options import Append, Conf, EngineChoice, Master, Packages, To, check_engine, spark_settings
from holdfast.model.errors import InputError

if TYPE_CHECKING:
    from holdfast.pipeline.audit.job import Audit, AuditedRun
    from holdfast.pipeline.engine import EngineName
    from holdfast.pipeline.tables.target import Mode, Target


_Delivery = Annotated[
    float | None, typer.Option(min=0, max=1, help="P4 is broken below this share of what is owed, such as 0.99.")
]
_Violations = Annotated[
    float | None, typer.Option(min=0, max=1, help="P3 is broken above this share of the deliveries, such as 0.")
]
_Engine = Annotated[
    EngineChoice | None, typer.Option(help="Audit on Spark or in this process; by default, by the size of the runs.")
]
_Follow = Annotated[bool, typer.Option("--follow", help="Audit a run of `up --grow` while it goes on, on Spark.")]
_Checkpoint = Annotated[Path | None, typer.Option(help="With --follow: keep its state here, to go on after a stop.")]
_Settle = Annotated[
    float, typer.Option(min=1, help="With --follow: seconds after which an event that came is final, duplicates too.")
]
_Once = Annotated[bool, typer.Option("--once", help="With --follow: audit what is there now, then stop.")]
_POLL_S = 1  # between two looks at whether a run has ended
_ENGINES = {"spark": "on Spark", "embedded": "by the embedded engine (DuckDB)"}


def run(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders that `sim --out` or `up --out` wrote.")],
    out: Annotated[Path | None, typer.Option(help="Write the tables and the report into this folder.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an audit that is in the folder already.")] = False,
    to: To = None,
    append: Append = False,
    compare: Annotated[bool, typer.Option("--compare", help="Compare two runs side by side.")] = False,
    delivery: _Delivery = None,
    violations: _Violations = None,
    follow: _Follow = False,
    checkpoint: _Checkpoint = None,
    settle: _Settle = 60,
    once: _Once = False,
    engine: _Engine = None,
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
      holdfast audit run-live --follow --checkpoint progress --out audit-live
    """
    if compare and len(runs) != 2:
        raise InputError(f"--compare wants two runs, found {len(runs)}")
    if out is not None and any(each.resolve() == out.resolve() for each in runs):
        raise InputError(f"--out: {out} is one of the runs; name another folder")
    settings = spark_settings(conf, packages)
    check_engine(engine, master, settings)
    place = _place(to, append, overwrite)
    if explain and as_json:
        raise InputError("--explain prints text; leave it or --json out")
    if follow and not _follow(runs, engine, Followings(checkpoint, settle, once, as_json), master, settings):
        return
    if not follow and (once or checkpoint is not None):
        raise InputError("--once and --checkpoint go with --follow")
    from holdfast.pipeline.audit.engines import engine_for, footers_of, start

    asked: EngineName | None = engine.value if engine is not None else None
    with spark_progress(as_json) as progress:
        footers = footers_of(runs, asked, master, settings, progress.step)
        name = engine_for(asked, footers, bool(master or settings))
        from holdfast.pipeline.audit.job import audited
        from holdfast.pipeline.audit.promises import Asked

        started = start(name, footers, master, settings, progress.step)
        progress.watch(getattr(started, "spark", None))
        results = _results(out, overwrite)
        with results as folder, audited(started, footers, Asked(delivery, violations), progress.step) as audit:
            if folder is not None or place is not None:
                progress.step("writing tables and report")
                _write(audit, folder, compare, place)
            plan = started.plan() if explain else ""
    _print(audit.runs, compare, name if as_json else None)
    if not as_json:
        print(*_places(name, plan, out, to), sep="\n")
    if any(each.broken for each in audit.runs):
        raise typer.Exit(1)


def _places(engine: "EngineName", plan: str, out: Path | None, to: str | None) -> list[str]:
    """Who has audited, how, and where the results are."""
    told = [f"audited {_ENGINES[engine]}", *([plan] if plan else [])]
    if out is not None:
        told.append(f"tables and report in {out}")
    return [*told, *([f"tables in {to}"] if to is not None else [])]


class Followings(NamedTuple):
    """What goes with --follow."""

    checkpoint: Path | None
    settle_s: float
    once: bool
    as_json: bool


def _follow(
    runs: list[Path],
    engine: EngineChoice | None,
    how: Followings,
    master: str | None,
    settings: dict[str, str],
) -> bool:
    """Until the run has ended; False when it was stopped before. The audit of the whole comes after."""
    from holdfast.pipeline.audit.follow import Followed, Following
    from holdfast.pipeline.session import plain_interrupts, session

    if len(runs) != 1:
        raise InputError(f"--follow wants one run, found {len(runs)}")

    def tell(found: Followed) -> None:
        print(json.dumps(found.as_json()) if how.as_json else found.line(), flush=True)

    with nullcontext(how.checkpoint) if how.checkpoint else TemporaryDirectory(prefix="holdfast-follow-") as place:
        trigger = {"availableNow": True} if how.once else {"processingTime": "1 second"}
        following = Following(
            runs[0],
            Path(place).absolute(),
            int(how.settle_s * 1e6),
            None if engine is None else engine.value,
            on_batch=tell,
            trigger=trigger,
        )
        following.check()
        spark = session("holdfast audit", master, settings)
        plain_interrupts()
        with suppress(KeyboardInterrupt), following.running(spark) as query:
            while not following.ended.is_set() and not query.awaitTermination(_POLL_S):
                pass
        return following.ended.is_set()


def _results(out: Path | None, overwrite: bool) -> AbstractContextManager[Path | None]:
    if out is None:
        return nullcontext()
    from holdfast.pipeline.audit.folder import audit_folder

    return audit_folder(out, overwrite)


def _place(to: str | None, append: bool, overwrite: bool) -> "tuple[Target, Mode] | None":
    from holdfast.pipeline.tables.target import mode_of, parse_target

    if to is None and append:
        raise InputError("--append adds to tables, which --to names")
    return None if to is None else (parse_target(to), mode_of(append, overwrite))


def _write(audit: "Audit", folder: Path | None, compare: bool, place: "tuple[Target, Mode] | None") -> None:
    from holdfast.pipeline.audit.folder import write_tables
    from holdfast.pipeline.audit.slices import shown
    from holdfast.pipeline.audit.to_tables import publish_tables
    from holdfast.pipeline.report.files import write_reports

    found = shown(audit)
    if folder is not None:
        write_tables(audit, found, folder)
        write_reports(audit.runs, found, folder, compare)
    if place is not None:
        publish_tables(audit, found, *place)


def _print(runs: list["AuditedRun"], compare: bool, engine_in_json: str | None) -> None:
    from holdfast.pipeline.audit.summary import comparison, summary

    if engine_in_json is not None:
        found = [{**each.as_json(), "engine": engine_in_json} for each in runs]
        print(json.dumps(found[0] if len(found) == 1 else {"runs": found}))
    elif compare:
        print(comparison(*runs))
    else:
        print("\n\n".join(map(summary, runs)))
