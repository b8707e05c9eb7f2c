"""`holdfast nemesis`: attack a live network, and judge what it delivered."""

import json
import sys
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from holdfast.model.errors import InputError


def run(
    path: Annotated[str, typer.Argument(metavar="FILE", help="A network file; `holdfast init` writes one.")],
    minutes: Annotated[
        float, typer.Option(help="Minutes under attack, shared by the modes; healing and judging take more.")
    ] = 10,
    seed: Annotated[int, typer.Option(help="Of the first schedule; the next ones count up.")] = 1,
    modes: Annotated[
        str, typer.Option("--modes", "--mode", metavar="LIST", help="Such as strict,durable; all: every mode.")
    ] = "all",
    faults: Annotated[
        str | None, typer.Option(metavar="LIST", help="Only these kinds of faults, such as kill-broker,cut.")
    ] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one value.")] = None,
    out: Annotated[Path | None, typer.Option(help="Keep journals, schedules and verdicts in this new folder.")] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add each run to this table as it ends, and make none twice.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Attack a live run of a network file, judge what it delivered.

    Brokers and clients are processes that are killed and stopped. Proxies between them cut, stall and delay their
    connections. Of every event that is owed, by DuckDB, the judge wants that it was delivered once, in order where
    that is promised, or named as lost. The same file, mode, seed and length give the same schedule.

    Exit code 0: no promise was broken. 1: one was; the output has the command to see it again. 2: the file or an
    option is invalid.

    \b
    Example:
      holdfast nemesis net.toml --minutes 10 --seed 7 --out attack
      holdfast nemesis net.toml --modes strict --seed 7 --minutes 1
    """
    from holdfast.model.extras import require
    from holdfast.nemesis.campaign import Campaign, run_all
    from holdfast.nemesis.modes import modes_named
    from holdfast.nemesis.report import as_json as report_as_json
    from holdfast.nemesis.report import broken_runs, saved, text
    from holdfast.nemesis.report import save as save_run
    from holdfast.nemesis.schedule import kinds_named
    from holdfast.net.event_loop import run as run_loop
    from holdfast.network.document import settings_from

    require("duckdb")
    if not 0 < minutes < inf:
        raise InputError("--minutes must be a number above 0")
    if out is not None and out.exists():
        raise InputError(f"--out: {out} exists already; name a new folder")
    if save is not None and not save.resolve().parent.is_dir():
        raise InputError(f"--save: there is no folder {save.resolve().parent}")
    wanted = modes_named(modes)
    campaign = Campaign(path, wanted, minutes, seed, settings_from(settings or ()), kinds_named(faults), out)
    made = {} if save is None else {each["again"]: each["broken"] for each in saved(save)["runs"]}
    runs = run_all(
        campaign,
        run_loop,
        lambda line: print(line, file=sys.stderr, flush=True),
        lambda run: None if save is None else save_run(save, campaign, run),
        made,
    )
    if runs and all(each.skipped for each in runs):
        raise InputError(f"no mode goes with the file: {runs[0].mode.name}: {runs[0].skipped}")
    report = report_as_json(campaign, runs)
    if out is not None:
        (out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
        (out / "report.txt").write_text(text(campaign, runs) + "\n")
    print(json.dumps(report) if as_json else text(campaign, runs, made))
    if broken_runs(runs) or any(made.get(each) for each in campaign.commands):
        raise typer.Exit(1)
