"""What the verbs that talk to a broker share: their options, and stopping when asked to."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from holdfast.net.client import Client

Broker = Annotated[
    list[str] | None,
    typer.Option(
        "--broker", "-b", metavar="ADDRESS", envvar="HOLDFAST_BROKER", help="Of a broker; several are tried in turn."
    ),
]
Name = Annotated[str | None, typer.Option(help="The client's name; one is made up otherwise.")]
Certificate = Annotated[str | None, typer.Option("--cert", metavar="FILE", help="Our certificate, for tls://.")]
PrivateKey = Annotated[str | None, typer.Option("--key", metavar="FILE", help="Its private key.")]
Authority = Annotated[
    str | None, typer.Option("--ca", metavar="FILE", help="Trust only certificates signed by this authority.")
]

Directory = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="zookeeper://HOST:PORT/PATH, to learn there who is next to whom; brokers tell each other otherwise.",
    ),
]

Durably = Annotated[bool, typer.Option("--durable", help="For brokers that store events (--hops retransmission).")]
Recovery = Annotated[bool, typer.Option("--recovery", help="Recover lost events; both sides need it.")]
InOrder = Annotated[
    str, typer.Option("--order", metavar="none|fifo|strict", help="Keep the order in which each source published.")
]

DEFAULT_BROKER = "tcp://127.0.0.1:7001"


def client_of(
    broker: list[str] | None,
    name: str | None,
    certificate: str | None,
    private_key: str | None,
    authority: str | None,
    recovery: bool = False,
    order: str = "none",
    durable: bool = False,
) -> "Client":
    """The client that these options describe, not connected yet."""
    from holdfast.net.client import connect

    addresses = broker or DEFAULT_BROKER
    return connect(
        addresses,
        name=name,
        certificate=certificate,
        private_key=private_key,
        authority=authority,
        recovery=recovery,
        order=order,  # type: ignore[arg-type]  # what else it says is told
        durable=durable,
    )


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
