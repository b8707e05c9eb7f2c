"""`holdfast up`: run a network file with live brokers and clients."""

import asyncio
import json
import sys
import weakref
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli.console_options import Act, Console, console_of_run, tell_console
from holdfast.model.errors import InputError

if TYPE_CHECKING:
    from holdfast.books.live import LiveBooks
    from holdfast.books.outcome import Outcome
    from holdfast.console.run_console import RunConsole
    from holdfast.net.clock import Clock
    from holdfast.net.live import LiveRun, NewHost
    from holdfast.net.member import NewImpairment, OnWanted
    from holdfast.network.schema import Network
    from holdfast.network.settings import CarrierSettings
    from holdfast.protocol.replication.settings import Role

_Grow = Annotated[
    float | None, typer.Option(min=1, help="Write the trace every so many seconds, for `audit --follow`.")
]


def run(
    path: Annotated[str, typer.Argument(metavar="FILE", help="A network file; `holdfast init` writes one.")],
    seed: Annotated[int | None, typer.Option(help="Instead of the file's seed.")] = None,
    duration: Annotated[float | None, typer.Option(help="Seconds to run, instead of the file's.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one value.")] = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="All brokers in this process instead of one process each.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the trace into this folder.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a run that is in the folder already.")] = False,
    grow: _Grow = None,
    member: Annotated[str | None, typer.Option(hidden=True)] = None,
    role: Annotated[str | None, typer.Option(hidden=True)] = None,
    console: Console = None,
    act: Act = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a network file live, over sockets, with its loss and delay.

    Ends after the file's duration or with Ctrl-C. Events in flight arrive first, or are accounted for.

    Exit code 0: done. 2: the file or an option is invalid, or a port is in use.

    \b
    Example:
      holdfast init net.toml
      holdfast up net.toml --duration 10 --out run-live
      holdfast up net.toml --duration 600 --console 127.0.0.1:8180 --act
    """
    from holdfast.net.clock import Clock
    from holdfast.net.event_loop import run as run_loop
    from holdfast.network.document import settings_from
    from holdfast.network.load import load

    if grow is not None and out is None:
        raise InputError("--grow is about the trace, which --out names")
    words = [*(settings or ()), *([f"duration_s={duration}"] if duration is not None else ())]
    network = load(path, settings_from(words))
    if network.reliability.hops.durable and network.reliability.store is None:
        with TemporaryDirectory(prefix="holdfast-store-") as folder:
            stored = [*(settings or ()), f"reliability.store={json.dumps(folder)}"]
            run(path, seed, duration, stored, in_process, out, overwrite, grow, member, role, console, act, as_json)
        return
    chosen = network.seed if seed is None else seed
    new_impairment = impairments(chosen)
    clock = Clock()
    if member is not None:
        from holdfast.net.member import Member
        from holdfast.net.member_process import serve

        run_loop(serve(Member(member, network, new_impairment, clock, _role(role))))
        return
    from holdfast.books.live import LiveBooks
    from holdfast.books.trace import TraceWriter
    from holdfast.network.provenance import about_run

    for warning in network.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    again = [path, "--seed", str(chosen), *(word for each in words for word in ("--set", each))]
    trace = None if out is None else TraceWriter(out, about_run(network, "live", chosen), overwrite, grow is not None)
    with trace or nullcontext():
        watched = console_of_run(network, console, act)
        books = LiveBooks(trace, onlooker=None if watched is None else watched.streams)
        new_host = hosts(network, None if in_process else again, new_impairment, clock, books)
        show = None if grow is None else _marking(grow, clock)
        lag_us = run_loop(run_live(network, chosen, new_host, books, clock, show, watched))
        if lag_us is None:
            raise KeyboardInterrupt
        outcome = books.close()
    _print_end(network, chosen, outcome, lag_us, out, as_json)


def _print_end(network: "Network", seed: int, outcome: "Outcome", lag_us: int, out: Path | None, as_json: bool) -> None:
    from holdfast.cli.sim import _summary

    if as_json:
        print(json.dumps({"seed": seed, "lag_us": lag_us, **outcome.as_json()}))
        return
    print(_summary(f"{network.name}, live", seed, outcome))
    print(f"  {'lag':<20}{lag_us / 1000:,.1f} ms at most behind the workload's times")
    if out is not None:
        print(f"trace in {out}")


def impairments(seed: int) -> "NewImpairment":
    """What the file says of links, as the simulator does it."""
    from holdfast.sim.links import SimLink

    return lambda spec, sender, receiver: SimLink(spec, seed, sender, receiver)


def hosts(
    network: "Network",
    arguments: list[str] | None,
    new_impairment: "NewImpairment",
    clock: "Clock",
    books: "LiveBooks",
) -> "NewHost":
    """Brokers as processes that are started with these arguments; without any, in this process."""
    from holdfast.net.member import Member
    from holdfast.net.member_process import MemberProcess

    if network.carrier is not None:
        return bus_host(network, network.carrier)
    if arguments is None:
        return lambda name, role, on_wanted: Member(name, network, new_impairment, clock, role, on_wanted)
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", "up", *arguments, "--member"]

    def new_process(name: str, role: "Role | None", on_wanted: "OnWanted") -> MemberProcess:
        words = [] if role is None else ["--role", msgspec.json.encode(role).decode()]
        return MemberProcess(name, [*command, name, *words], books.on_rows, on_wanted)

    return new_process


def bus_host(network: "Network", carrier: "CarrierSettings") -> "NewHost":
    """A bus has one host, whatever life its server is in; what the server writes goes when this process does."""
    from holdfast.carriers.live_bus import BusHost, check_faults

    check_faults(network, carrier)

    folder = TemporaryDirectory(prefix="holdfast-bus-")
    host = BusHost(carrier, Path(folder.name))
    weakref.finalize(host, folder.cleanup)
    return lambda name, role, on_wanted: host


def _role(text: str | None) -> "Role | None":
    from holdfast.protocol.replication.settings import Role

    return None if text is None else msgspec.json.decode(text, type=Role)


async def run_live(
    network: "Network",
    seed: int,
    new_host: "NewHost",
    books: "LiveBooks",
    clock: "Clock",
    show: "Callable[[LiveRun, LiveBooks], None] | None" = None,
    console: "RunConsole | None" = None,
    on_started: "Callable[[], Awaitable[None]] | None" = None,
    on_drained: "Callable[[], Awaitable[None]] | None" = None,
) -> int | None:
    """By how much the workload was behind its times at most; None if it was stopped before anything had begun."""
    from holdfast.carriers.live_bus import new_bus_client
    from holdfast.cli.connection_options import stopping
    from holdfast.net.live import LiveRun
    from holdfast.net.participant import new_client
    from holdfast.sim.faults import Faults

    clients = new_client if network.carrier is None else new_bus_client
    live = LiveRun(network, seed, new_host, books, clock, clients)
    with stopping() as stop:
        try:
            starting = asyncio.create_task(live.start())
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if not starting.done():
                starting.cancel()
                return None
            starting.result()
            if on_started is not None:
                await on_started()
                live.zero_us = clock.now_us()  # the run begins now
            books.begin(live.zero_us)
            if console is not None:
                tell_console(await console.start(live))
            Faults(live)  # the same faults at the same times as in the simulator
            await live.run(stop, lambda: (show or _show)(live, books))
            if on_drained is not None:
                await on_drained()  # while brokers still run
        finally:
            if console is not None:
                await console.stop()
            await live.stop()
            if show is None and sys.stderr.isatty():
                print(file=sys.stderr)
    return live.lag_us


def _marking(every_s: float, clock: "Clock") -> "Callable[[LiveRun, LiveBooks], None]":
    """Shows how far the run is, and marks its trace, which grows."""
    due_us = 0

    def show(live: "LiveRun", books: "LiveBooks") -> None:
        nonlocal due_us
        _show(live, books)
        if clock.now_us() >= due_us:
            books.mark(clock.now_us())
            due_us = clock.now_us() + int(every_s * 1e6)

    return show


def _show(live: "LiveRun", books: "LiveBooks") -> None:
    found = books.outcome
    line = (
        f"{live.now_us / 1e6:5.0f} s  published {found.published:,}  owed {found.owed:,}  "
        f"delivered {found.delivered:,}  missing {books.missing:,}"
    )
    if sys.stderr.isatty():
        print(f"\r{line:<100}", end="", file=sys.stderr, flush=True)
    else:
        print(line, file=sys.stderr, flush=True)
