"""Run a study: its sweeps on Spark, its figures from their tables, its claims from their runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

import pyarrow.parquet as pq

from holdfast.model.errors import HoldfastError
from holdfast.pipeline.charts.lines import LineChart, svg
from holdfast.pipeline.sweep.folder import SweepFolder
from holdfast.pipeline.sweep.plan import SweepPlan
from holdfast.pipeline.sweep.progress import Progress, Watch, duration
from holdfast_papers.claims import Claim, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Scale = Literal["quick", "paper"]
Row = Mapping[str, Any]
Show = Callable[[int, int, str], None]  # how many cells of how many are done, and what to say
WatchParts = Callable[[str], AbstractContextManager[Watch]]  # of a part of a study, by name


@dataclass(frozen=True)
class Runs:
    """The runs of one sweep, a row each: settings and metrics by name."""

    rows: Sequence[Row]

    def of(self, **settings: object) -> "Runs":
        """Those with these settings; a dot in a key is written as two underscores."""
        wanted = {key.replace("__", "."): value for key, value in settings.items()}
        return Runs([row for row in self.rows if all(row[key] == value for key, value in wanted.items())])

    def column(self, metric: str) -> list[float]:
        """By seed; a count that a run does not have is 0."""
        ordered = sorted(self.rows, key=lambda row: row["seed"])
        return [float(row.get(metric) or 0.0) for row in ordered]

    def by_seed(self) -> list["Runs"]:
        """Those of each seed, in order."""
        seeds = sorted({row["seed"] for row in self.rows})
        return [Runs([row for row in self.rows if row["seed"] == seed]) for seed in seeds]

    def total(self, metric: str) -> float:
        return sum(self.column(metric))


@dataclass(frozen=True)
class Study:
    name: str
    title: str
    plans: Callable[[Scale], Mapping[str, SweepPlan]]
    claims: Callable[[Mapping[str, Runs]], Iterable[Claim]]
    figures: Callable[[Mapping[str, Runs]], Iterable[LineChart]] = field(default=lambda runs: ())
    # What is not a sweep of the simulator: tables of its own, by name, from a job that may use the folder; and how many
    # cells the larger of them have.
    measured: "Callable[[SparkSession, Scale, Path, WatchParts], Mapping[str, Runs]] | None" = None
    cells: Callable[[Scale], Mapping[str, int]] = field(default=lambda scale: {})


def reproduce(
    spark: "SparkSession",
    study: Study,
    scale: Scale,
    out: Path,
    show: Show | None = None,
) -> list[Claim]:
    """Run what is missing of the study's sweeps, then write claims and figures into the folder."""
    from holdfast.pipeline.sweep.job import sweep  # noqa: PLC0415  # Spark is slow to import, and a finished study needs none

    runs: dict[str, Runs] = {}
    plans = study.plans(scale)
    whole = _Whole({name: len(plan) for name, plan in plans.items()} | dict(study.cells(scale)), show)
    for name, plan in plans.items():
        folder = SweepFolder((out / "sweeps" / name).resolve())
        with whole.part(name) as watch:
            sweep(spark, plan, folder.path, watch=watch)
        runs[name] = _read(folder, name)
    if study.measured is not None:
        runs |= study.measured(spark, scale, out, whole.part)
    claims = list(study.claims(runs))
    pictures = [(chart.title, svg(chart)) for chart in study.figures(runs)]
    write(out, f"{study.title}, scale {scale}", claims, pictures)
    return claims


def _read(folder: SweepFolder, name: str) -> Runs:
    rows = pq.read_table(folder.runs).to_pylist()
    failed = [row for row in rows if row["error"] is not None]
    if failed:
        raise HoldfastError(f"{name}: {len(failed)} of {len(rows)} runs failed, the first with: {failed[0]['error']}")
    return Runs(rows)


class _Whole:
    """How far a study is over all its parts, and how long it may still take."""

    def __init__(self, sizes: Mapping[str, int], show: Show | None) -> None:
        self._left = dict(sizes)  # cells of the parts that are not over
        self._total = sum(sizes.values())
        self._ran = 0  # cells of the parts that are over, without those that an earlier run had finished
        self._began_s = monotonic()
        self._show = show

    @contextmanager
    def part(self, name: str) -> Iterator[Watch]:
        size, ran = self._left.pop(name, 0), 0

        def look(now: Progress) -> None:
            nonlocal ran
            ran = now.done + now.failed - now.before
            if self._show is not None:
                left = now.total - now.done - now.failed + sum(self._left.values())
                self._show(self._total - left, self._total, f"{name}: {now}; {self._all(left, self._ran + ran)}")

        yield look
        self._ran += min(ran, size)

    def _all(self, left: int, ran: int) -> str:
        """An estimate from the rate so far; parts differ, so it gets better on the way."""
        words = f"{self._total - left:,} of {self._total:,} in all"
        seconds = monotonic() - self._began_s
        return words + (f", about {duration(left * seconds / ran)} left" if ran else "")
