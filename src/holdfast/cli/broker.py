"""`holdfast broker`: run one broker."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.connecting import DEFAULT_BROKER, Authority, Certificate, PrivateKey
from holdfast.model.errors import InputError
from holdfast.net.address import Address, parse_address
from holdfast.protocol.broker import Routing
from holdfast.protocol.hops.settings import DURABLE, Hops, HopSettings

if TYPE_CHECKING:
    from holdfast.net.driver import Application
    from holdfast.net.node import NodeSettings
    from holdfast.protocol.effects import ReplicaWanted


def run(
    id_: Annotated[str, typer.Option("--id", metavar="NAME", help="The broker's name, unique in the network.")],
    listen: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help=f"tcp://, tls:// or udp://; may be repeated. [default: {DEFAULT_BROKER}]"),
    ] = None,
    peer: Annotated[
        list[str] | None, typer.Option(metavar="NAME=ADDRESS", help="A broker to connect to; may be repeated.")
    ] = None,
    routing: Annotated[Routing, typer.Option(help="The same for all brokers of a network.")] = "subscriptions",
    push_back: Annotated[
        bool, typer.Option("--push-back", help="Let slow neighbours hold up the fast instead of dropping events.")
    ] = False,
    hops: Annotated[Hops, typer.Option(help="What it does about losses and failures; the same for all.")] = "basic",
    store: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where it stores events, with --hops retransmission or hybrid.")
    ] = None,
    replaceable: Annotated[
        bool,
        typer.Option(
            "--replaceable", help="Keep events for a neighbour that fails, for a minute, for `holdfast replicate`."
        ),
    ] = False,
    certificate: Certificate = None,
    private_key: PrivateKey = None,
    authority: Authority = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON objects.")] = False,
) -> None:
    """Run one broker until Ctrl-C or SIGTERM. Peers may start in any order; one that is not there is tried again.

    Prints one line when it is ready and one with its counters when it has stopped; who comes and goes is told
    on stderr.

    \b
    Example:
      holdfast broker --id b1 --listen tcp://127.0.0.1:7001
      holdfast broker --id b2 --listen tcp://127.0.0.1:7002 --peer b1=tcp://127.0.0.1:7001
    """
    from holdfast.net.loop import run as run_loop
    from holdfast.net.node import NodeSettings
    from holdfast.net.tls import TlsFiles
    from holdfast.protocol.replication.settings import ReplicationSettings

    if hops in DURABLE and store is None:
        raise InputError(f"--hops {hops} stores events: say where with --store FILE")
    settings = NodeSettings(
        id_,
        tuple(parse_address(each) for each in listen or [DEFAULT_BROKER]),
        dict(peer_of(each) for each in peer or ()),
        routing,
        tls=TlsFiles(certificate, private_key, authority),
        push_back=push_back,
        hops=HopSettings(hops),
        store=store,
        replication=ReplicationSettings() if replaceable else None,
    )
    run_loop(serve(settings, as_json))


def peer_of(text: str) -> tuple[str, Address]:
    name, equals, address = text.partition("=")
    if not name or not equals:
        raise InputError(f"--peer {text}: write it as NAME=ADDRESS, such as b2=tcp://127.0.0.1:7002")
    return name, parse_address(address)


async def serve(settings: "NodeSettings", as_json: bool, application: "Application | None" = None) -> None:
    from holdfast.cli.connecting import stopping
    from holdfast.net.node import BrokerNode

    def log(line: str) -> None:
        print(f"{settings.name}: {line}", file=sys.stderr, flush=True)

    def wanted(replica: "ReplicaWanted") -> None:
        peers = " ".join(f"--peer {name}=ADDRESS" for name in replica.neighbours)
        log(f"{replica.faulty} is gone; replace it with: holdfast replicate --faulty {replica.faulty} {peers}")

    node = BrokerNode(settings, application, log=log)
    node.driver.on_replica_wanted = wanted
    with stopping() as stop:
        await node.start()
        places = [str(each) for each in node.listening]
        ready = f"{settings.name} ready on {', '.join(places)}"
        print(json.dumps({"ready": settings.name, "listen": places}) if as_json else ready, flush=True)
        await stop.wait()
    await node.stop()
    counted = node.counters
    if as_json:
        print(json.dumps({"stopped": settings.name, **counted.as_json()}), flush=True)
    else:
        print(
            f"{settings.name} stopped: {counted.received:,} messages received, {counted.sent:,} sent, "
            f"{counted.dropped:,} dropped, {counted.unsent:,} left unsent, {counted.bad_frames:,} bad frames",
            flush=True,
        )
