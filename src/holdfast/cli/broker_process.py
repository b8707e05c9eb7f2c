"""Run a broker process until it is asked to stop: its log, its metrics, its peers again when they have changed."""

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.connection_options import stopping
from holdfast.cli.slow_output import SlowLines
from holdfast.model.errors import InputError, TransportError
from holdfast.net.address import Address
from holdfast.net.journal import Journal, LogStyle, Note

if TYPE_CHECKING:
    from holdfast.console.broker_console import BrokerConsole
    from holdfast.net.node import BrokerNode
    from holdfast.net.settings import NodeSettings
    from holdfast.protocol.effects import ReplicaWanted

Metrics = Annotated[
    str | None, typer.Option("--metrics", metavar="HOST:PORT", help="Serve /metrics (Prometheus) and /health there.")
]
Log = Annotated[LogStyle, typer.Option("--log", help="The format of the log on stderr, one line per incident.")]

_TICK_S = 1.0  # between looks at the counters that should not grow


@dataclass(frozen=True)
class Operation:
    """What whoever runs a broker wants beside the broker itself."""

    as_json: bool = False  # the lines on standard output
    log: LogStyle = "text"
    metrics: Address | None = None
    console: Address | None = None
    peers: Callable[[], dict[str, Address]] | None = None  # read again at SIGHUP


async def serve(settings: "NodeSettings", operation: Operation) -> None:
    from holdfast.matching import collector
    from holdfast.net.node import BrokerNode
    from holdfast.net.setup import check_places

    collector.own_process()
    check_places(settings.listen, operation.metrics)
    lines = SlowLines()
    journal = Journal(settings.name, operation.log, lines.put)

    def wanted(replica: "ReplicaWanted") -> None:
        peers = " ".join(f"--peer {name}=ADDRESS" for name in replica.neighbours)
        text = f"{replica.faulty} is gone; replace it with: holdfast replicate --faulty {replica.faulty} {peers}"
        journal.note(Note("replica_wanted", replica.faulty, text))

    node = BrokerNode(settings, journal, log=journal.note)
    node.driver.on_replica_wanted = wanted
    try:
        with stopping() as stop, _reloading(node, operation, journal) as started:
            node.driver.on_replica_released = stop.set
            await node.start()
            started()
            await _work(node, operation, journal, stop)
        await node.stop()
        journal.tick(node.counters)
    finally:
        lines.finish()
    _print_end(node, operation.as_json)
    if node.given_up.is_set():
        raise TransportError(f"{settings.name} gives up: {node.name_taken}; give it another --id")


async def _work(node: "BrokerNode", operation: Operation, journal: Journal, stop: asyncio.Event) -> None:
    """Until it is asked to stop."""
    watched = None
    if operation.metrics is not None:
        from holdfast.net.watching import watch

        try:
            watched = await watch(node, operation.metrics)
        except BaseException:
            await node.stop(0)
            raise
    console = await _console(node, operation)
    _print_ready(node, None if watched is None else watched.address, operation.as_json)
    ticking = asyncio.create_task(_tick(node, journal))
    ends = [asyncio.create_task(each.wait()) for each in (stop, node.given_up)]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for task in (ticking, *ends):
        task.cancel()
    if console is not None:
        await console.stop()
    if watched is not None:
        watched.close()


async def _console(node: "BrokerNode", operation: Operation) -> "BrokerConsole | None":
    if operation.console is None:
        return None
    from holdfast.cli.console_options import tell_console
    from holdfast.console.broker_console import BrokerConsole
    from holdfast.trust.token import read_token_keys

    keys = node.settings.trust.token_keys
    console = BrokerConsole(operation.console, node, None if keys is None else read_token_keys(keys))
    try:
        tell_console(await console.start())
    except BaseException:
        await node.stop(0)
        raise
    return console


async def _tick(node: "BrokerNode", journal: Journal) -> None:
    while True:
        await asyncio.sleep(_TICK_S)
        journal.tick(node.counters)


@contextmanager
def _reloading(node: "BrokerNode", operation: Operation, journal: Journal) -> Iterator[Callable[[], None]]:
    """At SIGHUP peers, keys, rights and certificates are read again; what cannot be read stays as it is.

    Yields what is to be called once the broker has started: who asks before that is answered then.
    """
    trust = node.settings.trust.files or (node.settings.tls is not None and node.settings.tls.certificate is not None)
    if operation.peers is None and not trust:  # then SIGHUP means what it always does
        yield lambda: None
        return
    from holdfast.net.setup import check_peers

    read = operation.peers
    asked = False

    def on_signal() -> None:
        nonlocal asked
        asked = True
        if node.listening:
            reload()

    def reload() -> None:
        if read is not None:
            try:
                peers = read()
                check_peers(node.settings.name, node.settings.listen, peers)
            except InputError as problem:
                journal.note(Note("reload_refused", "", f"peers unchanged: {problem}"))
            else:
                node.set_peers(peers)
                journal.note(Note("reloaded", "", f"peers are now {', '.join(peers) or 'none'}"))
        if trust:
            try:
                node.read_trust()
            except InputError as problem:
                journal.note(Note("reload_refused", "", f"keys and rights unchanged: {problem}"))
            else:
                journal.note(Note("reloaded", "", "keys, rights and certificates read"))

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, on_signal)
    try:
        yield lambda: reload() if asked else None
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


def _print_ready(node: "BrokerNode", watched: str | None, as_json: bool) -> None:
    name, places = node.settings.name, [str(each) for each in node.listening]
    if as_json:
        print(json.dumps({"ready": name, "listen": places, **({"metrics": watched} if watched else {})}), flush=True)
    else:
        metrics = f"; metrics on {watched}/metrics" if watched else ""
        print(f"{name} ready on {', '.join(places)}{metrics}", flush=True)


def _print_end(node: "BrokerNode", as_json: bool) -> None:
    name, counted = node.settings.name, node.counters
    if as_json:
        print(json.dumps({"stopped": name, **counted.as_json()}), flush=True)
    else:
        print(
            f"{name} stopped: {counted.received:,} messages received, {counted.sent:,} sent, "
            f"{counted.dropped:,} dropped, {counted.unsent:,} left unsent, {counted.bad_frames:,} bad frames",
            flush=True,
        )
