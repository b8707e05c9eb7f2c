"""What the verbs that talk to a broker share: their options, and stopping when asked to."""

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdfast.cli.flags import flag
from holdfast.net.settings import ClientSettings
from holdfast.protocol.hops.settings import Hops
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.trust.settings import TrustSettings

if TYPE_CHECKING:
    from holdfast.net.client import Client
    from holdfast.net.states import StateChange

Broker = Annotated[
    list[str] | None,
    typer.Option(
        "--broker",
        "-b",
        metavar="ADDRESS",
        envvar="HOLDFAST_BROKER",
        help="The address of a broker; several are tried in turn.",
    ),
]
Name = Annotated[str | None, flag(ClientSettings, "name")]
Certificate = Annotated[str | None, flag(ClientSettings, "certificate", "--certificate", metavar="FILE")]
PrivateKey = Annotated[str | None, flag(ClientSettings, "key", "--key", metavar="FILE")]
Authority = Annotated[str | None, flag(ClientSettings, "ca", "--ca", metavar="FILE")]
Token = Annotated[str | None, flag(ClientSettings, "token", "--token", metavar="FILE")]
SigningKey = Annotated[str | None, flag(ClientSettings, "sign", "--sign", metavar="FILE")]
DigestKey = Annotated[str | None, flag(ClientSettings, "digest_key", "--digest-key", metavar="FILE")]
SignersFile = Annotated[str | None, flag(ClientSettings, "verify", "--verify", metavar="FILE")]
BrokerKey = Annotated[Path | None, flag(TrustSettings, "broker_key", "--broker-key", metavar="FILE")]
TokenKeys = Annotated[Path | None, flag(TrustSettings, "token_keys", "--token-keys", metavar="FILE")]
Rights = Annotated[Path | None, flag(TrustSettings, "rights", "--rights", metavar="FILE")]
Directory = Annotated[str | None, flag(ReplicationSettings, "directory", metavar="ADDRESS")]
Recovery = Annotated[bool, flag(ClientSettings, "recovery", "--recovery")]
InOrder = Annotated[str, flag(ClientSettings, "order", "--order", metavar="none|fifo|strict")]
HopsOf = Annotated[Hops, flag(ClientSettings, "hops", "--hops")]
Durably = Annotated[bool, flag(ClientSettings, "durable", "--durable")]

Space = Annotated[str, typer.Option(help="On a bus: the space, which clients that are to reach each other share.")]
Lanes = Annotated[str, typer.Option(metavar="TEMPLATE", help="On a bus: its subjects, such as plant.{site}.{kind}.")]
BusBody = Annotated[Literal["native", "json"], typer.Option("--body", help="On a bus: what stands in a message.")]

DEFAULT_BROKER = "tcp://127.0.0.1:7001"


def client_of(broker: list[str] | None, **options: Any) -> "Client":
    """The client that these options, arguments of `connect`, describe; not connected yet."""
    from holdfast.carriers.connecting import connect

    return connect(broker or DEFAULT_BROKER, **options)


@contextmanager
def stopping() -> Iterator[asyncio.Event]:
    """An event that Ctrl-C or SIGTERM sets; a second one ends the process at once."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)

    def on_signal() -> None:
        stop.set()
        for each in signals:
            loop.remove_signal_handler(each)

    for each in signals:
        loop.add_signal_handler(each, on_signal)
    try:
        yield stop
    finally:
        for each in signals:
            loop.remove_signal_handler(each)


@contextmanager
def telling_connection(client: "Client") -> Iterator[None]:
    """On stderr meanwhile: when the connection is gone, why, and when there is one again."""

    def tell(change: "StateChange") -> None:
        if change.state == "disconnected":
            words = f"disconnected from {change.broker}: {change.reason}; connecting again"
        else:
            how = "and nothing was missed" if change.resumed else change.reason
            words = f"connected to {change.broker} again{f': {how}' if how else ''}"
        print(words, file=sys.stderr, flush=True)

    end = client.on_state(tell)
    try:
        yield
    finally:
        end()


def tell_denials(client: "Client") -> int:
    """On stderr, what the broker has denied this client; how many events of these it has refused."""
    refused = 0
    for each in client.denials():
        if each.condition and each.instead:
            print(f"narrowed to {each.instead}: {each.reason}", file=sys.stderr, flush=True)
        elif each.events:
            refused += each.events
            events = "an event was" if each.events == 1 else f"{each.events:,} events were"
            print(f"{events} refused: {each.reason}", file=sys.stderr, flush=True)
        else:
            print(each.reason, file=sys.stderr, flush=True)
    return refused
