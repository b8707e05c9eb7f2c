"""What the verbs that serve a console share: their options, and the line that says where it is."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.model.extras import require
from holdfast.net.address import Address
from holdfast.net.http import parse_place

if TYPE_CHECKING:
    from holdfast.console.run_console import RunConsole
    from holdfast.console.server import ConsoleServer
    from holdfast.network.schema import Network

DEFAULT_PLACE = "127.0.0.1:8180"

Console = Annotated[
    str | None,
    typer.Option(
        "--console",
        metavar="[HOST:PORT]",
        help=f"Serve the console, a page for a browser, at {DEFAULT_PLACE} or there.",
    ),
]
BrokerConsolePlace = Annotated[
    str | None, typer.Option("--console", metavar="HOST:PORT", help="Serve the console of this broker there.")
]
Act = Annotated[
    bool, typer.Option("--act", help="With --console: let who has the token publish, subscribe and break things.")
]


def console_place(text: str | None) -> Address | None:
    if text is None:
        return None
    require("aiohttp")
    return parse_place(DEFAULT_PLACE if text == "on" else text)


def console_of_run(network: "Network", text: str | None, act: bool) -> "RunConsole | None":
    place = console_place(text)
    if place is None:
        if act:
            raise typer.BadParameter("--act is for a console; add --console")
        return None
    from holdfast.console.run_console import RunConsole

    return RunConsole(network, place, act)


def tell_console(server: "ConsoleServer") -> None:
    """On stderr, because standard output is for results."""
    needs_token = not server.access.open_to_read or server.access.acts
    print(f"console: {server.address_with_token if needs_token else server.address}", file=sys.stderr, flush=True)
