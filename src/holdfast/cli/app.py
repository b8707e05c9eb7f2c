"""The command line as typer sees it: the verbs that are wanted, and the options of all."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from holdfast import __version__


def app(verbs: Mapping[str, Callable[..., Any]]) -> typer.Typer:
    made = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # a traceback is our bug and should look like one
        rich_markup_mode=None,  # plain help can be piped and pasted
    )
    made.callback()(_options)
    for name, run in verbs.items():
        made.command(name)(run)
    return made


def _show_version(asked: bool) -> None:
    if asked:
        print(f"holdfast {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Reliable content-based publish/subscribe: one network file, simulated and run by the same code.

    \b
    Example:
      holdfast explain "price < 120 AND symbol = 'IBM'" '{"symbol": "IBM", "price": 130}'
    """
