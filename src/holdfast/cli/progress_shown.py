"""Progress on the standard error: a bar on a terminal; elsewhere a line now and then, so that a log shows something."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

_LINE_EVERY_S = 10

Show = Callable[[int, int, str], None]  # how many of how many are done, and what to say


@contextmanager
def progress_shown(name: str) -> Iterator[Show]:
    if not sys.stderr.isatty():
        yield _Lines(name)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=text)


class _Lines:
    def __init__(self, name: str) -> None:
        self._name = name
        self._last_s = monotonic()

    def __call__(self, done: int, total: int, text: str) -> None:
        if monotonic() - self._last_s >= _LINE_EVERY_S:
            self._last_s = monotonic()
            print(f"{self._name}: {text}", file=sys.stderr, flush=True)
