"""How far Spark is with the jobs that run: tasks, rows that they have read or written, and the time left.

A classic session is asked for its stages. Spark Connect tells them while an answer is awaited, without rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from holdfast.pipeline.shipping import is_connected

Stages = tuple[list[tuple[int, int]], int | None]  # tasks done and in all, of each stage; rows


@dataclass(frozen=True)
class TaskCounts:
    done: int
    total: int
    rows: int | None  # None: not known
    left_s: float | None

    def __str__(self) -> str:
        words = [f"{self.done:,} of {self.total:,} tasks"]
        if self.rows:
            words.append(f"{self.rows:,} rows")
        if self.left_s is not None:
            minutes, seconds = divmod(round(self.left_s), 60)
            words.append(f"{minutes}:{seconds:02} left")
        return ", ".join(words)


def task_counts(spark: Any, now: Callable[[], float] = monotonic) -> Callable[[], TaskCounts]:
    """A function that says how far the session is at the moment."""
    if is_connected(spark):
        told: dict[int, tuple[int, int]] = {}

        def hear(stages: Any, **_: Any) -> None:
            told.clear()
            told.update({at: (each.num_completed_tasks, each.num_tasks) for at, each in enumerate(stages or ())})

        spark.registerProgressHandler(hear)
        return Timed(lambda: ([*told.values()], None), now)
    context = spark.sparkContext
    return Timed(lambda: _stages(context), now)


class Timed:
    """Adds the time left: what is running goes on as quickly as it did since its first task was done."""

    def __init__(
        self, stages: Callable[[], tuple[list[tuple[int, int]], int | None]], now: Callable[[], float]
    ) -> None:
        self._stages, self._now = stages, now
        self._began: tuple[int, float] | None = None  # of how many tasks, and since when

    def __call__(self) -> TaskCounts:
        stages, rows = self._stages()
        done, total = sum(each for each, _ in stages), sum(each for _, each in stages)
        if self._began is None or self._began[0] != total:
            self._began = total, self._now()
        took_s = self._now() - self._began[1]
        left_s = took_s * (total - done) / done if done and took_s else None
        return TaskCounts(done, total, rows, left_s)


def _stages(context: Any) -> Stages:
    """Nothing where the session has ended, or ends while we look."""
    from py4j.protocol import Py4JError  # noqa: PLC0415  # only where there is Spark

    try:
        tracker = context.statusTracker()
        active = list(tracker.getActiveStageIds())
        found = [info for info in map(tracker.getStageInfo, active) if info is not None]
        return [(info.numCompletedTasks, info.numTasks) for info in found], _rows(context, active)
    except (AttributeError, Py4JError):  # a stopped context has neither JVM nor tracker
        return [], None


def _rows(context: Any, stages: list[int]) -> int | None:
    """What the tasks have read and written so far, as the JVM has counted it."""
    store = context._jsc.sc().statusStore()
    try:
        data = [store.lastStageAttempt(each) for each in stages]
        return sum(max(each.inputRecords() + each.shuffleReadRecords(), each.outputRecords()) for each in data)
    except Exception:  # a stage that has just ended; Py4J's errors are of no use here
        return None
