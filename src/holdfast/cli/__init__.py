"""The command line: one thin file per verb.

A verb `x` is the function `run` in `cli/x.py`; its docstring is the help and shows an example. Only the verb
that was asked for is imported, so a file that needs Arrow or Spark slows down nobody else. Nothing at all is imported
before `main` stands ready to be interrupted. Other packages bring verbs of their own: `cli/verbs.py`.

Exit codes: 0, done; 1, the thing asked for did not hold (a verb raises `typer.Exit(1)`); 2, bad usage or
bad input, told on stderr without a traceback; 130, interrupted; 143, terminated. Whoever is interrupted or
terminated tidies up first.
"""

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

# In the order of --help.
VERBS: tuple[str, ...] = (
    "demo",
    "init",
    "check",
    "sim",
    "up",
    "console",
    "nemesis",
    "plan",
    "match",
    "audit",
    "sweep",
    "broker",
    "replicate",
    "pub",
    "sub",
    "gateway",
    "keep",
    "keys",
    "explain",
    "doctor",
)


INTERRUPTED = 130  # what shells make of a process that an interrupt has ended
TERMINATED = 143  # and of one that was terminated


def main(arguments: Sequence[str] | None = None) -> None:
    words = sys.argv[1:] if arguments is None else list(arguments)
    _open_standard_streams()
    try:
        with _terminable():
            _run(words)
    except KeyboardInterrupt:
        _end_interrupted()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _end_interrupted()
        raise
    finally:
        _flush()


def _open_standard_streams() -> None:
    """Who was started without one of them would get a socket in its place, and closing that ends the process."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the verb as an exception does, so that half a result is taken away; a second one ends it at once."""

    asked = False

    def on_signal(number: int, _: object) -> None:
        nonlocal asked
        asked = True
        signal.signal(number, signal.SIG_DFL)
        print("holdfast: terminated", file=sys.stderr, flush=True)
        # Who terminates us may have terminated Spark, too; that it cannot be asked any more is not worth a word.
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        sys.exit(TERMINATED)

    if threading.current_thread() is not threading.main_thread():  # only there can signals be taken
        yield
        return
    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield
    except BaseException:
        if asked:
            sys.exit(TERMINATED)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


_FORMER_FLAGS = {"--cert": "--certificate"}  # what version 0.1 called them; each use is told on stderr


def _current(word: str) -> str:
    name, equals, value = word.partition("=")
    if name not in _FORMER_FLAGS:
        return word
    print(f"holdfast: {name} is called {_FORMER_FLAGS[name]} now", file=sys.stderr)
    return f"{_FORMER_FLAGS[name]}{equals}{value}"


def _with_values(words: list[str]) -> list[str]:
    """An option that may stand without a value gets one: typer knows no such options."""
    after = [*words[1:], "-"]
    return [
        f"{word}=on" if word == "--console" and after[at].startswith("-") else word for at, word in enumerate(words)
    ]


def _run(words: list[str]) -> None:
    from holdfast.model.errors import HoldfastError
    from holdfast.model.extras import extras_named

    try:
        with extras_named():
            from holdfast.cli.app import app
            from holdfast.cli.verbs import wanted

            app(wanted(words, VERBS))(_with_values([_current(word) for word in words]), prog_name="holdfast")
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as problem:
        if problem.errno not in _DISK_FULL:
            raise
        where = f"{problem.filename}: " if problem.filename else ""
        print(f"holdfast: {where}no space left on the disk", file=sys.stderr)
        sys.exit(2)


_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)  # may hit any verb at any time, and is nobody's mistake in a program


def _end_interrupted() -> None:
    print("holdfast: interrupted", file=sys.stderr)
    sys.exit(INTERRUPTED)


def _flush() -> None:
    """Whoever reads our output may have gone; that is no reason for a traceback at the very end."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
