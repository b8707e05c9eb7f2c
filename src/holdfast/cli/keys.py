"""`holdfast keys`: certificates, tokens and a key for brokers, for development."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.model.errors import InputError


def run(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where everything is written; made if it is not there.")
    ],
    broker: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A broker that gets a certificate; may be repeated.")
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:GROUP,...]",
            help="A client, with its groups, that gets a certificate and a token; may be repeated.",
        ),
    ] = None,
    signer: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A publisher that gets a key to sign its events with; may be repeated."),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(help="A host by which brokers are reached; may be repeated. [default: 127.0.0.1, localhost]"),
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="How long certificates and tokens are valid.")] = 365,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Make certificates, tokens and keys, for development.

    They come from an authority of its own, with a key that brokers share. Prints what it has made. Called again for
    the same folder, it makes what is missing, and new tokens for the clients that are named. To change the key of a
    signer, move its file away first. Whoever can read the folder can become anybody: in production, use an
    authority of your own.

    \b
    Example:
      holdfast keys keys --broker b1 --broker b2 --client feed --client desk-1:traders
      holdfast broker --id b1 --listen tls://127.0.0.1:7001 --certificate keys/b1.pem --key keys/b1.key --ca keys/ca.pem
    """
    from holdfast.trust.authority import DevelopmentAuthority
    from holdfast.wire.event_encoding import sendable_name

    clients: dict[str, list[str]] = {}
    for each in client or ():
        name, _, listed = each.partition(":")
        clients[name] = [group.strip() for group in listed.split(",") if group.strip()]
    for name in (*(broker or ()), *clients, *(signer or ())):
        if sendable_name(name, "node") and ("/" in name or name.startswith(".")):
            raise InputError(f"{name}: a file cannot have this name")
    both = sorted({*(broker or ())} & clients.keys())
    if both:
        raise InputError(f"{both[0]} is named as a broker and as a client; each node has a name of its own")
    authority = DevelopmentAuthority(folder, days)
    for name in broker or ():
        authority.certify("broker", name, host or ("127.0.0.1", "localhost"))
    for name, groups in clients.items():
        authority.certify("client", name, (), groups)
        authority.issue(name, groups)
    for name in signer or ():
        authority.add_signer(name)
    if as_json:
        print(json.dumps({"made": [str(each) for each in authority.made]}))
        return
    for made in authority.made:
        print(made)
    if not authority.made:
        print(f"{folder}: everything that was asked for is there already", file=sys.stderr)
