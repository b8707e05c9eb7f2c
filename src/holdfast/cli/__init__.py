"""The command line: one thin file per verb.

A verb `x` is the function `run` in `cli/x.py`; its docstring is the help and shows an example. Only the verb
that was asked for is imported, so a file that needs Arrow or Spark slows down nobody else.

Exit codes: 0, done; 1, the thing asked for did not hold (a verb raises `typer.Exit(1)`); 2, bad usage or
bad input, told on stderr without a traceback.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated

import typer

from holdfast import __version__
from holdfast.model.errors import HoldfastError

# In the order of --help.
VERBS: tuple[str, ...] = ("demo", "init", "check", "sim", "up", "broker", "pub", "sub", "explain")


def main(arguments: Sequence[str] | None = None) -> None:
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked = words[:1] if words and words[0] in VERBS else VERBS  # help, and a mistyped verb, need them all
    try:
        _app(asked)(words, prog_name="holdfast")
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        sys.exit(2)
    finally:
        _flush()


def _flush() -> None:
    """Whoever reads our output may have gone; that is no reason for a traceback at the very end."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _app(verbs: Iterable[str]) -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # a traceback is our bug and should look like one
        rich_markup_mode=None,  # plain help can be piped and pasted
    )
    app.callback()(_options)
    for verb in verbs:
        app.command(verb)(import_module(f"holdfast.cli.{verb}").run)
    return app


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
