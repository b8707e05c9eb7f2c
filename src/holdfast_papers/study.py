"""Run a study: its sweeps on Spark, its figures from their tables, its claims from their runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow.parquet as pq

from holdfast.model.errors import HoldfastError
from holdfast.pipeline.charts.lines import LineChart, svg
from holdfast.pipeline.sweep.folder import SweepFolder
from holdfast.pipeline.sweep.plan import SweepPlan
from holdfast_papers.claims import Claim, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.pipeline.sweep.progress import Progress

Scale = Literal["quick", "paper"]
Row = Mapping[str, Any]


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
    # What is not a sweep of the simulator: tables of its own, by name, from a job that may use the folder.
    measured: "Callable[[SparkSession, Scale, Path], Mapping[str, Runs]] | None" = None


def reproduce(
    spark: "SparkSession",
    study: Study,
    scale: Scale,
    out: Path,
    watch: Callable[[str, "Progress"], None] | None = None,
) -> list[Claim]:
    """Run what is missing of the study's sweeps, then write claims and figures into the folder."""
    from holdfast.pipeline.sweep.job import sweep  # noqa: PLC0415  # Spark is slow to import, and a finished study needs none

    runs: dict[str, Runs] = {}
    for name, plan in study.plans(scale).items():
        folder = SweepFolder((out / "sweeps" / name).resolve())
        sweep(spark, plan, folder.path, watch=None if watch is None else lambda seen, name=name: watch(name, seen))  # type: ignore[misc]
        runs[name] = _read(folder, name)
    if study.measured is not None:
        runs |= study.measured(spark, scale, out)
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
