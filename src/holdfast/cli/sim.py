"""`holdfast sim`: run a network file in the simulator."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.swarm import run_swarm
from holdfast.model.errors import InputError

if TYPE_CHECKING:
    from holdfast.books.outcome import Outcome
    from holdfast.books.verdict import Verdict


def run(
    path: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A network file; `holdfast init` writes one.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Instead of the file's seed.")] = None,
    duration: Annotated[float | None, typer.Option(help="Seconds to simulate, instead of the file's.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one value.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the trace into this folder.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a run that is in the folder already.")] = False,
    check: Annotated[bool, typer.Option(help="Check the promises on the trace; needs --out.")] = False,
    swarm: Annotated[
        int | None, typer.Option(min=1, help="Instead of a file: draw and run this many scenarios.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="With --swarm: in so many processes. Default: 1.")] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --swarm: keep a table here; continues one that was begun.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Simulate a network file with the real protocol code.

    The simulator models links and the brokers' processing time. The same file and seed give the same run.

    With --swarm N, draw N random scenarios with faults (from --seed on), run each, and check the promises. With --save
    the table of what was found is kept in a file after every few scenarios, and a stopped run continues where it was.

    Exit code 0: done. 1: a promise is broken. 2: the file or an option is invalid.

    \b
    Example:
      holdfast init net.toml
      holdfast sim net.toml --seed 7 --set links.loss=0.05 --out run-7 --check
      holdfast sim --swarm 100
      holdfast sim --swarm 10000 --jobs 2 --save swarm.json
    """
    if swarm is not None:
        if path or settings or out or duration is not None or check:
            raise InputError("--swarm draws its own networks: only --seed, --jobs, --save and --json go with it")
        run_swarm(swarm, seed or 0, 1 if jobs is None else jobs, save, as_json)
        return
    if jobs is not None or save is not None:
        raise InputError("--jobs and --save go with --swarm N")
    if path is None:
        raise InputError("give a network file, or --swarm N; `holdfast init` writes a file")
    if out == Path():
        raise InputError("--out: expected the name of a folder for the trace, such as run-7")
    if check and out is None:
        raise InputError("--check reads the trace; add --out FOLDER")
    words = [*(settings or ())]
    words += [f"seed={seed}"] if seed is not None else []
    words += [f"duration_s={duration}"] if duration is not None else []
    chosen, name, outcome = _simulate(path, words, out, overwrite, as_json)
    verdicts = _verdicts(out) if check and out is not None else []
    if as_json:
        promises = {each.promise: asdict(each) for each in verdicts}
        print(json.dumps({"seed": chosen, **outcome.as_json(), "promises": promises}))
    else:
        print(_summary(name, chosen, outcome))
        print("".join(f"{_verdict_line(each)}\n" for each in verdicts), end="")
        if out is not None:
            print(f"trace in {out}")
    if not all(each.holds for each in verdicts):
        raise typer.Exit(1)


def _simulate(
    path: str, settings: list[str], out: Path | None, overwrite: bool, quiet: bool
) -> tuple[int, str, "Outcome"]:
    from holdfast.books.trace import TraceWriter
    from holdfast.network.document import settings_from
    from holdfast.network.load import load
    from holdfast.network.provenance import about_run
    from holdfast.sim.simulator import Simulation

    network = load(path, settings_from(settings))
    for warning in network.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    trace = None if out is None else TraceWriter(out, about_run(network, "sim", network.seed), overwrite)
    with trace or nullcontext(), _progress(network.duration_us, quiet) as advance:
        return network.seed, network.name, Simulation(network, trace=trace).run(advance)


def _verdicts(run_folder: Path) -> list["Verdict"]:
    """The promises that the run's file makes: order is promised where it is asked for."""
    from holdfast.books.promises import check, may_remain
    from holdfast.books.runs import Run

    verdicts = check(run_folder)
    in_order = [] if may_remain(Run(run_folder)) is None else ["P3"]
    replicated = ["P6"] if verdicts["P6"].checked else []
    return [verdicts[name] for name in ("P1", "P2", *in_order, "P4", "P5", *replicated, "P7")]


def _verdict_line(verdict: "Verdict") -> str:
    if not verdict.checked:
        return f"  {verdict.promise:<20}nothing to check"
    if verdict.holds:
        against = f"; {verdict.broken:,} against it, within what is promised" if verdict.broken else ""
        return f"  {verdict.promise:<20}holds ({verdict.checked:,} checked{against})"
    such = f", such as {verdict.examples[0]}" if verdict.examples else ""
    note = f"; {verdict.note}" if verdict.note else ""
    return f"  {verdict.promise:<20}BROKEN {verdict.broken:,} times in {verdict.checked:,}{such}{note}"


@contextmanager
def _progress(duration_us: int, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """A bar on a terminal, nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=duration_us)
        yield lambda now_us: bar.update(task, completed=now_us)


def _quantiles(times_us: dict[str, int]) -> str:
    return ", ".join(f"{q} {us / 1000:,.1f} ms" for q, us in times_us.items())


def _recovered(outcome: "Outcome") -> list[tuple[str, str]]:
    """How much each way brought; how long that took is known of all together."""
    took = _quantiles(outcome.recovery_delay_us)
    counts = [(f"by {via}", f"{count:,} of those delivered") for via, count in sorted(outcome.recovered.items())]
    if len(counts) == 1:
        return [(label, f"{text}, {took}") for label, text in counts]
    return [*counts, ("recovered", f"{sum(outcome.recovered.values()):,} in all, {took}")] if counts else []


def _summary(name: str, seed: int, outcome: "Outcome") -> str:
    rows = [
        ("published", f"{outcome.published:,}"),
        ("owed", f"{outcome.owed:,}"),
        ("delivered", f"{outcome.delivered:,} ({outcome.delivery_ratio * 100:.2f} % of what was owed)"),
        ("lost", f"{outcome.lost:,}"),
        ("late", f"{outcome.late:,}"),
        ("duplicates", f"{outcome.duplicates:,}"),
        ("FIFO violations", f"{outcome.fifo_violations:,}"),
        ("delay", _quantiles(outcome.delay_us) or "nothing arrived"),
        *_recovered(outcome),
        *(
            [("held back", f"{outcome.held:,} of those delivered, {_quantiles(outcome.held_us)}")]
            if outcome.held
            else []
        ),
        ("transmissions", f"{outcome.transmissions:,}, {outcome.bytes:,} bytes (all but Deliver)"),
    ]
    lines = [f"{name}, seed {seed}"]
    lines += [f"  {label:<20}{text}" for label, text in rows]
    for kind, counts in sorted(outcome.messages.items()):
        lines.append(
            f"    {kind:<14}{counts['sent']:>12,} sent {counts['bytes']:>14,} bytes {counts['lost']:>10,} lost"
        )
    if outcome.incidents:
        lines.append(f"  {'incidents':<20}{sum(outcome.incidents.values()):,}")
        lines += [f"    {kind:<17} {count:,}" for kind, count in sorted(outcome.incidents.items())]
    return "\n".join(lines)
