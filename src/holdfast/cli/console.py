"""`holdfast console`: look at brokers that run, in a browser."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.connection_options import TokenKeys
from holdfast.cli.console_options import DEFAULT_PLACE


def run(
    addresses: Annotated[
        list[str], typer.Argument(metavar="HOST:PORT...", help="The --metrics place of each broker to look at.")
    ],
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the console is served.")] = DEFAULT_PLACE,
    token_keys: TokenKeys = None,
) -> None:
    """Show brokers, their links and their load in a browser.

    Asks each broker once a second for its status, and says on stderr which of them do not answer. On the loopback
    interface everybody on this machine may look; elsewhere a page needs the token that is printed at the start. The
    console of a network file that `holdfast up` or `holdfast demo` runs shows more: give them --console.

    Exit code 0: stopped by Ctrl-C or SIGTERM. 2: an option is invalid, or the port is in use.

    \b
    Example:
      holdfast broker --id b1 --listen tcp://127.0.0.1:7001 --metrics 127.0.0.1:9101
      holdfast console 127.0.0.1:9101
    """
    from holdfast.net.event_loop import run as run_loop
    from holdfast.net.http import parse_place

    places = [str(parse_place(each.removeprefix("http://").rstrip("/"))).removeprefix("tcp://") for each in addresses]
    run_loop(_serve(places, listen, token_keys))


async def _serve(places: list[str], listen: str, token_keys: Path | None) -> None:
    from holdfast.cli.connection_options import stopping
    from holdfast.cli.console_options import console_place, tell_console
    from holdfast.console.broker_console import BrokerConsole, StatusPoller
    from holdfast.trust.token import read_token_keys

    place = console_place(listen)
    assert place is not None
    keys = None if token_keys is None else read_token_keys(token_keys)
    console = BrokerConsole(place, StatusPoller(places, lambda words: print(words, file=sys.stderr, flush=True)), keys)
    with stopping() as stop:
        tell_console(await console.start())
        try:
            await stop.wait()
        finally:
            await console.stop()
