"""`holdfast demo`: a live network that loses messages and a broker, watched, predicted and audited."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.console_options import Act, Console, console_of_run
from holdfast.model.errors import InputError
from holdfast.model.extras import require

if TYPE_CHECKING:
    from holdfast.console.run_console import RunConsole
    from holdfast.demo.episodes import Episode
    from holdfast.demo.mqtt_desk import MqttDesk
    from holdfast.demo.prediction import DemoPrediction
    from holdfast.demo.screen import RunScreen
    from holdfast.demo.watch import RunWatch
    from holdfast.net.live import LiveRun
    from holdfast.network.schema import Network
    from holdfast.pipeline.audit.expectations import Expectation
    from holdfast.pipeline.audit.job import AuditedRun
    from holdfast.pipeline.audit.slices import Shown

_PRESET = "demo-12"
_DESK_AT = "rome"  # behind the broker that is killed, seen from most publishers
_FILE, _RUN, _AUDIT = "network.toml", "run", "audit"  # what the folder holds


def run(
    out: Annotated[Path, typer.Option(help="The folder for the trace, the audit and the report.")] = Path(
        "holdfast-demo"
    ),
    seed: Annotated[int | None, typer.Option(min=0, help="Instead of the network's own.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one value.")] = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="All brokers in this process instead of one process each.")
    ] = False,
    console: Console = None,
    act: Act = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a lossy live network, kill a broker, prove what arrived.

    Starts twelve brokers as processes on this machine, kills one and replaces it. Everything that it prints is
    measured in this run. Replaces an earlier demo in the folder. Takes about two minutes.

    Exit code 0: every promise held. 1: one is broken, or the client of MQTT misses an event. 2: an option is invalid.

    \b
    Example:
      holdfast demo
      holdfast demo --console
      holdfast demo --seed 8 --set links.loss=0.05 --out lossier
    """
    require("duckdb")  # before two minutes of work that could not be judged
    require("aiomqtt")
    network = _network(out, seed, settings or [])
    from holdfast.demo.prediction import predict
    from holdfast.demo.screen import NetworkOutline, view_on_stderr
    from holdfast.demo.watch import RunWatch

    if console is None:
        print("in a browser: holdfast demo --console", file=sys.stderr)
    watch = RunWatch()
    title = f"{len(network.brokers)} brokers, {len(network.clients)} clients, {_loss(network)}"
    root = max(network.neighbours().items(), key=lambda each: len(each[1]))[0]
    shape = NetworkOutline(f"Holdfast demo: {title}", network.neighbours(), root, network.duration_us / 1e6)
    with view_on_stderr(shape, watch) as view:
        view.show_step(f"starting {title}")
        watched = console_of_run(network, console, act)
        desk = _desk(network)
        lag_us, start_us = _live(network, out, in_process, watch, view, watched, desk)
        view.show_step("predicting with the planner")
        prediction = predict(network, start_us)
        audited, shown, expected, met = _audit(network, out, prediction, view)
    count = desk.counted(out / _RUN)
    from holdfast.demo.summary import as_json as summary_json
    from holdfast.demo.summary import summary

    if as_json:
        print(
            json.dumps(
                {
                    **summary_json(audited, shown, expected, met, count, lag_us),
                    "report": str(out / _AUDIT / "report.html"),
                }
            )
        )
    else:
        print(summary(audited, shown, expected, met, count, lag_us))
        print(f"\nreport: {out / _AUDIT / 'report.html'}")
    if audited.broken or count.missing:
        raise typer.Exit(1)


def _network(out: Path, seed: int | None, settings: list[str]) -> "Network":
    """The preset with these changes, also as a file in the folder: the brokers' processes read it, and you may."""
    from holdfast.net.free_ports import free_ports
    from holdfast.network.document import settings_from
    from holdfast.network.load import parse_text
    from holdfast.network.presets import preset_text

    words = [f"transport.mqtt_port={free_ports(12)}", *settings, *([f"seed={seed}"] if seed is not None else [])]
    network = parse_text(preset_text(_PRESET), _PRESET, settings_from(words))
    for warning in network.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    try:
        out.mkdir(parents=True, exist_ok=True)
        foreign = [each.name for each in sorted(out.iterdir()) if each.name not in (_FILE, _RUN, _AUDIT)]
        if foreign:
            raise InputError(f"--out {out} holds what is not part of a demo: {', '.join(foreign[:3])}; name another")
        (out / _FILE).write_text(network.text, encoding="utf-8")
    except OSError as problem:
        raise InputError(f"--out {out}: cannot be written ({problem.strerror or problem})") from None
    return network


def _loss(network: "Network") -> str:
    losses = sorted(link.loss_ratio for link in network.links)
    low, high = (f"{100 * each:g}" for each in (losses[0], losses[-1]))
    return f"links lose {low} %" if low == high else f"links lose {low} to {high} %"


def _desk(network: "Network") -> "MqttDesk":
    from holdfast.demo.mqtt_desk import MqttDesk

    assert network.transport.mqtt_port is not None
    return MqttDesk(network.transport.mqtt_port + [each.id for each in network.brokers].index(_DESK_AT))


def _live(
    network: "Network",
    out: Path,
    in_process: bool,
    watch: "RunWatch",
    view: "RunScreen",
    console: "RunConsole | None",
    desk: "MqttDesk",
) -> tuple[int, int]:
    """By how much the workload was behind its times at most, and how long a process takes to start."""
    from holdfast.books.live import LiveBooks
    from holdfast.books.trace import TraceWriter
    from holdfast.cli.up import hosts, impairments, run_live
    from holdfast.demo.process_start import measured_start_us
    from holdfast.net.clock import Clock
    from holdfast.net.event_loop import run as run_loop
    from holdfast.network.provenance import about_run

    clock = Clock()
    with TraceWriter(out / _RUN, about_run(network, "live", network.seed), overwrite=True) as trace:
        books = LiveBooks(trace, watch.on_row, None if console is None else console.streams)

        def show(live: "LiveRun", books: LiveBooks) -> None:
            found = books.outcome
            watch.on_second(found.published, found.delivered, sum(found.recovered.values()))
            view.show(found, live.now_us / 1e6)

        again = None if in_process else [str(out / _FILE), "--seed", str(network.seed)]
        new_host = hosts(network, again, impairments(network.seed), clock, books)
        start_us = 0

        async def measure() -> None:
            nonlocal start_us
            start_us = await measured_start_us(network, new_host)
            await desk.start()

        lag_us = run_loop(run_live(network, network.seed, new_host, books, clock, show, console, measure, desk.finish))
        if lag_us is None:
            raise KeyboardInterrupt
        books.close()
    return lag_us, start_us


def _audit(
    network: "Network", out: Path, prediction: "DemoPrediction", view: "RunScreen"
) -> tuple["AuditedRun", "Shown", list["Expectation"], list["Episode"]]:
    from holdfast.demo.episodes import episodes
    from holdfast.demo.prediction import beside
    from holdfast.pipeline.audit.engines import engine_for, start
    from holdfast.pipeline.audit.trace_footers import read_footers

    footers = read_footers([out / _RUN])
    engine = start(engine_for(None, footers), footers, progress=lambda step: view.show_step(f"audit: {step}"))
    from holdfast.pipeline.audit.folder import audit_folder, write_tables
    from holdfast.pipeline.audit.job import audited
    from holdfast.pipeline.audit.promises import Asked
    from holdfast.pipeline.audit.slices import shown
    from holdfast.pipeline.report.files import write_reports

    asked = Asked(delivery_min=1.0)  # the network recovers what it loses, so nothing may be missing
    with (
        audit_folder(out / _AUDIT, overwrite=True) as folder,
        audited(engine, footers, asked, lambda step: view.show_step(f"audit: {step}")) as audit,
    ):
        [run] = audit.runs
        view.show_step("audit: writing tables and report")
        found = shown(audit)
        write_tables(audit, found, folder)
        write_reports(audit.runs, found, folder, expect=lambda run, shown: beside(prediction, run, shown))
        met = episodes(network, audit)
    return run, found[run.label], beside(prediction, run, found[run.label]), met
