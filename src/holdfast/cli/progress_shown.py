"""Progress on the standard error: a bar on a terminal; elsewhere a line now and then, so that a log shows something."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.pipeline.spark_tasks import TaskCounts

_LINE_EVERY_S = 10
_LOOK_EVERY_S = 1

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


# Spark's jobs ------------------------------------------------------------------------------------------------------


@contextmanager
def spark_progress(quiet: bool) -> Iterator["SparkProgress"]:
    """The step, tasks, rows and time left on a terminal; nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield SparkProgress(None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        progress = SparkProgress(
            lambda text, done, total: bar.update(task, description=text, completed=done, total=total or None)
        )
        try:
            yield progress
        finally:
            progress.stop()


class SparkProgress:
    """Looks at Spark every second, if there is anybody to show it to; without Spark it shows the step alone."""

    def __init__(self, show: Callable[[str, int, int], None] | None) -> None:
        self._show, self._step = show, "starting"
        self._over = Event()
        self._watcher: Thread | None = None

    def step(self, words: str) -> None:
        self._step = words
        if self._show is not None:
            self._show(words, 0, 0)

    def watch(self, spark: Any) -> None:
        """Begin to look at this session; None when the work is not Spark's."""
        if spark is None or self._show is None or self._watcher is not None:
            return
        from holdfast.pipeline.spark_tasks import task_counts

        self._watcher = Thread(target=self._look, args=(task_counts(spark), self._show), daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        self._over.set()
        if self._watcher is not None:
            self._watcher.join()

    def _look(self, counts: Callable[[], "TaskCounts"], show: Callable[[str, int, int], None]) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            now = counts()
            if now.total:
                show(f"{self._step}: {now}", now.done, now.total)
