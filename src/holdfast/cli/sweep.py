"""`holdfast sweep`: many simulations over a grid of settings and seeds, as a Spark job."""

import json
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.progress_shown import progress_shown
from holdfast.cli.spark_options import Conf, Master, Packages, spark_settings
from holdfast.model.errors import InputError
from holdfast.model.extras import require

if TYPE_CHECKING:
    from holdfast.pipeline.sweep.chart import Chart
    from holdfast.pipeline.sweep.folder import SweepFolder
    from holdfast.pipeline.sweep.plan import SweepPlan
    from holdfast.pipeline.tables.target import Target

_SHOWN_MAX = 20  # rows and failures that are printed; the tables have them all


def run(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A sweep file; docs/sweep.md explains it.")],
    out: Annotated[Path, typer.Option(help="The folder for tables, charts and traces.")],
    overwrite: Annotated[bool, typer.Option(help="Overwrite the sweep in the folder.")] = False,
    to: Annotated[
        str | None,
        typer.Option(metavar="FORMAT:PLACE", help="Also write the tables there, such as delta:/lake/loss."),
    ] = None,
    chart: Annotated[
        list[str] | None,
        typer.Option(metavar="y=METRIC,x=KEY[,by=KEY+KEY][,log=x|y|xy]", help="One more chart; may be repeated."),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Simulate over a grid of settings and seeds, on Spark.

    Each run of the network file is a task. In a folder with a part of the same sweep, it runs only what is missing or
    failed.

    Exit code 0: all runs are done. 1: some failed; they are listed, and the others are in the tables. 2: the file, an
    option or the folder is invalid.

    \b
    Example:
      holdfast sweep sweep.toml --out loss
      holdfast sweep sweep.toml --out loss --chart y=delivery_ratio,x=links.loss,by=variant
    """
    require("pyspark")
    from holdfast.pipeline.sweep.chart import chart_from_words, check_chart
    from holdfast.pipeline.sweep.file import load_sweep
    from holdfast.pipeline.sweep.folder import SweepFolder

    if out == Path():
        raise InputError("--out: expected the name of a folder, such as loss")
    settings = spark_settings(conf, packages)
    target = _target(to)
    asked = load_sweep(path)
    charts = [*asked.charts, *map(chart_from_words, chart or ())]
    for each in charts:  # before hours of simulation, not after
        check_chart(each, asked.plan.axis_values())
    folder = SweepFolder(out.resolve())
    began = monotonic()
    ran = _run(asked.plan, folder, overwrite, master, settings)
    if target is not None:
        _publish(folder, target, master, settings)
    report = _report(asked.plan, folder, ran, monotonic() - began)
    drawn = _draw(charts, asked.plan, folder, report.done)
    if as_json:
        print(
            json.dumps({**report.as_json(), "out": str(out), "charts": [str(out / "charts" / each) for each in drawn]})
        )
    else:
        print(_text(path, out, asked.plan, report, drawn))
    if report.failures:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Report:
    runs: int
    ran: int
    done: int
    failed: int
    seconds: float
    failures: list[dict[str, Any]]  # the first ones
    means: list[dict[str, Any]]  # the first combinations, with the mean delivery ratio

    def as_json(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "ran": self.ran,
            "done": self.done,
            "failed": self.failed,
            "seconds": round(self.seconds, 3),
            "failures": self.failures,
        }


def _run(
    plan: "SweepPlan", folder: "SweepFolder", overwrite: bool, master: str | None, settings: dict[str, str]
) -> int:
    """Run what is missing and say how many that were; a finished sweep does not even start Spark."""
    with folder.locked(plan, overwrite):
        missing = len(plan) - len(folder.done())
        if not missing and folder.has_tables:
            return 0
    from holdfast.pipeline.session import plain_interrupts, session
    from holdfast.pipeline.sweep.job import sweep

    # The JVM only hands out numbers and writes small tables: what makes it start quickly is what it needs.
    spark = session("holdfast sweep", master, settings, profile="test")
    plain_interrupts()
    with progress_shown("sweep") as show:
        sweep(spark, plan, folder.path, watch=lambda now: show(now.done + now.failed, now.total, str(now)))
    return missing


def _target(to: str | None) -> "Target | None":
    from holdfast.pipeline.tables.target import parse_target

    return None if to is None else parse_target(to)


def _publish(folder: "SweepFolder", target: "Target", master: str | None, settings: dict[str, str]) -> None:
    from holdfast.pipeline.sweep.to_tables import publish_by_spark, publish_files

    if target.is_sparks(settings):
        from holdfast.pipeline.session import session

        publish_by_spark(session("holdfast sweep", master, settings, profile="test"), folder, target)
    else:
        publish_files(folder, target)


def _report(plan: "SweepPlan", folder: "SweepFolder", ran: int, seconds: float) -> _Report:
    failed = sorted(folder.failed())
    failures = []
    for number in failed[:_SHOWN_MAX]:
        cell, record = plan.cell(number), folder.record(number)
        assert record is not None
        failures.append({"cell": number, "seed": cell.seed, "settings": cell.settings, "error": record.error})
    done = len(plan) - len(failed)
    return _Report(len(plan), ran, done, len(failed), seconds, failures, _means(plan, folder))


def _means(plan: "SweepPlan", folder: "SweepFolder") -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    columns = [*(axis.name for axis in plan.axes), "n", "mean", "low", "high"]
    try:
        table = pq.read_table(folder.summary, columns=columns, filters=pc.field("metric") == "delivery_ratio")
    except (pa.ArrowException, OSError):
        raise InputError(f"{folder.summary}: damaged; remove it, and the same command makes it again") from None
    rows: list[dict[str, Any]] = table.to_pylist()
    values = plan.axis_values()
    return sorted(rows, key=lambda row: [values[axis].index(row[axis]) for axis in values])


def _draw(charts: list["Chart"], plan: "SweepPlan", folder: "SweepFolder", done: int) -> list[str]:
    from holdfast.pipeline.sweep.chart import draw

    if not done:
        return []
    return [draw(chart, folder.summary, plan.axis_values(), folder.charts).name for chart in charts]


def _text(path: Path, out: Path, plan: "SweepPlan", report: _Report, drawn: list[str]) -> str:
    size = f"{report.runs:,} runs: {plan.combinations:,} settings x {len(plan.seeds):,} seeds"
    lines = [f"{path}: {size}"]
    if report.ran < report.runs:
        lines.append(f"  {report.runs - report.ran:,} were there already")
    lines.append(f"  {report.done:,} done, {report.failed:,} failed")
    lines += _table(plan, report.means)
    for each in report.failures:
        settings = ", ".join(f"{key}={json.dumps(value)}" for key, value in each["settings"].items())
        lines.append(f"  failed: seed {each['seed']}{', ' if settings else ''}{settings}: {each['error']}")
    if report.failed > len(report.failures):
        lines.append(f"  and {report.failed - len(report.failures):,} more, in the column error of {out / 'runs'}")
    lines.append(f"tables in {out / 'runs'} and {out / 'summary'}")
    lines += [f"chart in {out / 'charts' / each}" for each in drawn]
    return "\n".join(lines)


def _table(plan: "SweepPlan", means: list[dict[str, Any]]) -> list[str]:
    """The mean delivery ratio of the first combinations."""
    if not means:
        return []
    heads = [*(axis.name for axis in plan.axes), "delivery ratio", ""]
    rows = []
    for row in means[:_SHOWN_MAX]:
        half = f"± {(row['high'] - row['low']) / 2:.4f}" if row["low"] is not None else ""
        values = (row[axis.name] for axis in plan.axes)
        rows.append([*("" if each is None else f"{each}" for each in values), f"{row['mean']:.4f}", half])
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [
        "  " + "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in [heads, *rows]
    ]
    if len(means) > _SHOWN_MAX:
        lines.append(f"  and {len(means) - _SHOWN_MAX:,} more")
    return lines
