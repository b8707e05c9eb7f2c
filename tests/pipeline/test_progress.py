"""What a bar says of Spark's jobs: tasks, rows and the time left."""

from collections.abc import Iterator

import pytest

from holdfast.cli.progress_shown import spark_progress
from holdfast.pipeline.spark_tasks import Stages, TaskCounts, Timed


def timed(*steps: tuple[float, Stages]) -> Iterator[TaskCounts]:
    """What is said at each of these times, of what Spark tells then."""
    now: list[tuple[float, Stages]] = []
    ask = Timed(lambda: now[-1][1], lambda: now[-1][0])
    for step in steps:
        now.append(step)
        yield ask()


def test_the_time_left_is_that_of_the_tasks_so_far() -> None:
    begun, half, nearly = timed((100.0, ([(0, 8)], None)), (110.0, ([(4, 8)], 1_000)), (120.0, ([(6, 8)], 2_000)))
    assert str(begun) == "0 of 8 tasks"
    assert str(half) == "4 of 8 tasks, 1,000 rows, 0:10 left"
    assert nearly.left_s == 20 * 2 / 6


def test_a_new_stage_begins_anew() -> None:
    *_, first, second, third = timed(
        (0.0, ([(0, 2)], None)), (60.0, ([(1, 2)], None)), (61.0, ([(0, 100)], None)), (63.0, ([(50, 100)], None))
    )
    assert first.left_s == 60
    assert second.left_s is None
    assert third.left_s == 2


def test_stages_side_by_side_are_one_number() -> None:
    [found] = timed((0.0, ([(3, 4), (1, 8)], None)))
    assert (found.done, found.total) == (4, 12)


class Unasked:
    """A session that nobody may look at."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(name)


@pytest.mark.parametrize("quiet", [False, True])  # and what pytest has caught is no terminal
def test_spark_is_not_asked_every_second_where_nothing_is_shown(quiet: bool) -> None:
    """Each such question is 4 ms of two processes, and a job as a library call would never end asking."""
    with spark_progress(quiet) as progress:
        progress.watch(Unasked())
        progress.step("matching")
