"""`holdfast sim`: run a network file in the simulator."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from holdfast.sim.ledger import Outcome


def run(
    file: Annotated[Path, typer.Argument(help="A network file; `holdfast init` writes one.")],
    seed: Annotated[int | None, typer.Option(help="Instead of the file's seed.")] = None,
    duration: Annotated[float | None, typer.Option(help="Seconds to simulate, instead of the file's.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change a key of the file: --set links.loss=0.1")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the trace into this folder.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a run that is in the folder already.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run the real protocol code over modelled links and brokers; same file and seed, same run.

    \b
    Example:
      holdfast init net.toml
      holdfast sim net.toml --seed 7 --set links.loss=0.05 --out run-7
    """
    from holdfast import __version__
    from holdfast.cli.settings import load_with
    from holdfast.sim.simulator import Simulation
    from holdfast.wire.trace import TraceWriter

    network = load_with(file, settings or [], duration)
    chosen = network.seed if seed is None else seed
    trace = None
    if out is not None:
        about = {"name": network.name, "driver": "sim", "version": __version__, "seed": chosen, "file": network.text}
        trace = TraceWriter(out, about, overwrite)
    simulation = Simulation(network, chosen, trace)
    with _progress(network.duration_us, as_json) as advance:
        outcome = simulation.run(advance)
    if as_json:
        print(json.dumps({"seed": chosen, **outcome.as_json()}))
    else:
        print(_summary(network.name, chosen, outcome))
        if out is not None:
            print(f"trace in {out}")


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


def _summary(name: str, seed: int, outcome: "Outcome") -> str:
    rows = [
        ("published", f"{outcome.published:,}"),
        ("owed", f"{outcome.owed:,}"),
        ("delivered", f"{outcome.delivered:,} ({outcome.delivery_ratio:.2%} of what was owed)"),
        ("lost", f"{outcome.lost:,}"),
        ("late", f"{outcome.late:,}"),
        ("duplicates", f"{outcome.duplicates:,}"),
        ("FIFO violations", f"{outcome.fifo_violations:,}"),
        ("delay", ", ".join(f"{q} {us / 1000:,.1f} ms" for q, us in outcome.delay_us.items()) or "nothing arrived"),
        ("transmissions", f"{outcome.transmissions:,}, {outcome.bytes:,} bytes"),
    ]
    lines = [f"{name}, seed {seed}"]
    lines += [f"  {label:<16}{text}" for label, text in rows]
    for kind, counts in sorted(outcome.messages.items()):
        lines.append(
            f"    {kind:<14}{counts['sent']:>12,} sent {counts['bytes']:>14,} bytes {counts['lost']:>10,} lost"
        )
    lines += [f"  {kind:<16}{count:,}" for kind, count in sorted(outcome.incidents.items())]
    return "\n".join(lines)
