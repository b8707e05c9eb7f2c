"""`holdfast replicate`: put a replica in the place of a broker, or beside it, by hand."""

from typing import Annotated

import typer

from holdfast.cli.broker_process import Log, Metrics, Operation, serve
from holdfast.cli.connection_options import (
    Authority,
    BrokerKey,
    Certificate,
    Directory,
    PrivateKey,
    Rights,
    TokenKeys,
)
from holdfast.cli.flags import flag
from holdfast.cli.peers import peer_of
from holdfast.model.errors import InputError
from holdfast.model.replication_messages import CopyProtocol, ReplicaUse
from holdfast.net.address import parse_address
from holdfast.net.settings import NodeSettings
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.settings import Routing


def run(
    faulty: Annotated[str, typer.Option(metavar="NAME", help="The broker to replace or to relieve.")],
    peer: Annotated[list[str], typer.Option(metavar="NAME=ADDRESS", help="A neighbour of that broker; name them all.")],
    protocol: Annotated[CopyProtocol, flag(ReplicationSettings, "copying", "--protocol")] = ReplicationSettings.copying,
    use: Annotated[ReplicaUse, typer.Option(help="Replace the broker, or share its events, with or without order.")] = (
        "failover"
    ),
    id_: Annotated[
        str | None, typer.Option("--id", metavar="NAME", help="The replica's name. [default: FAULTY+1]")
    ] = None,
    listen: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="The faulty broker's address, so that its clients find the replica."),
    ] = "tcp://127.0.0.1:0",
    routing: Annotated[Routing, typer.Option(help="The routing of the network.")] = NodeSettings.routing,
    directory: Directory = None,
    certificate: Certificate = None,
    key: PrivateKey = None,
    ca: Authority = None,
    broker_key: BrokerKey = None,
    token_keys: TokenKeys = None,
    rights: Rights = None,
    metrics: Metrics = None,
    log: Log = "text",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON objects.")] = False,
) -> None:
    """Run a replica of a broker until Ctrl-C or SIGTERM. It learns its tables from the broker's neighbours.

    The neighbours must have been started with --replaceable. Logs its progress to stderr. Once it has everything it
    is a broker like any other.

    \b
    Example:
      holdfast replicate --faulty b3 --protocol incremental --peer b2=tcp://127.0.0.1:7002 --peer b5=tcp://127.0.0.1:7005
    """
    from holdfast.net.directory import directory_at
    from holdfast.net.event_loop import run as run_loop
    from holdfast.net.http import parse_place
    from holdfast.net.tls import TlsFiles
    from holdfast.protocol.replication.settings import Role
    from holdfast.trust.settings import TrustSettings
    from holdfast.wire.event_encoding import sendable_name

    peers = dict(peer_of(each) for each in peer)
    name = sendable_name(id_ or f"{faulty}+1", "broker")
    sendable_name(faulty, "broker")
    if len(peers) < len(peer):
        raise InputError("--peer: a neighbour is named twice; name each once")
    if faulty in peers:
        raise InputError(f"--peer {faulty}: this is the broker to be replaced; name its neighbours")
    if name == faulty or name in peers:
        raise InputError(f"--id {name}: the replica needs a name that no other broker has, such as {faulty}+1")
    if routing == "destinations":
        raise InputError('--routing destinations: replicas need a tree; use "advertisements" or "subscriptions"')
    settings = NodeSettings(
        name,
        (parse_address(listen),),
        peers,
        routing,
        tls=TlsFiles(certificate, key, ca),
        trust=TrustSettings(broker_key, token_keys, rights),
        replication=ReplicationSettings(copying=protocol, directory=directory),
        directory=None if directory is None else directory_at(directory),
        role=Role(faulty, tuple(peers), protocol, use),
    )
    run_loop(serve(settings, Operation(as_json, log, None if metrics is None else parse_place(metrics))))
