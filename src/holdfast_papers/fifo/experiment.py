"""Paper 002, probabilistic FIFO: violations that remain, and what it costs in delay and throughput.

Five parts: the paper's own population of clients, where brokers match in parallel (`networks`); how well its law fits
the delays of that network (`law`); throughput live (`live`), beside ActiveMQ (`activemq`); and all estimators on the
same events, compared where they leave the same violations (`comparison`).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.pipeline.charts.lines import Line, LineChart
from holdfast_papers.estimates import estimate, spot
from holdfast_papers.fifo import activemq, comparison, law, networks
from holdfast_papers.fifo.claims import claims
from holdfast_papers.fifo.live import live_cells, live_rows
from holdfast_papers.fifo.overtaking import SCENARIOS
from holdfast_papers.models import measured
from holdfast_papers.study import Runs, Scale, Study, WatchParts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MODELS = {
    "law": (law.cells, law.measure),
    "clocks": (comparison.clock_cells, comparison.measure_clocks),
    "comparison": (comparison.cells, comparison.measure),
}


def _measured(spark: "SparkSession", scale: Scale, out: Path, part: WatchParts) -> Mapping[str, Runs]:
    found = {}
    for name, (cells, measure) in _MODELS.items():
        with part(name) as watch:
            file = out / "tables" / f"{name}.parquet"
            found[name] = Runs(measured(spark, cells(scale), measure, file, watch))
    with part("live") as watch:
        found["live"] = live_rows(scale, out, watch)
    with part("activemq") as watch:
        found["activemq"] = activemq.rows(scale, out, watch)
    return found


def _cells(scale: Scale) -> Mapping[str, int]:
    return {name: len(cells(scale)) for name, (cells, _) in _MODELS.items()} | {
        "live": live_cells(scale),
        "activemq": activemq.cells(scale),
    }


def _figures(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    """Towards the lower left is better: fewer violations, less delay."""
    found = runs["comparison"]
    for scenario in SCENARIOS:
        lines = tuple(_line(found.of(scenario=scenario.name, estimator=each), each) for each in comparison.ESTIMATORS)
        yield LineChart(
            f"Delay by the violations that remain, {scenario.name} (paper 002)",
            "share of the violations that remains",
            "added delay, mean over all deliveries (ms)",
            tuple(each for each in lines if each.spots),
            x_log=True,
        )


def _line(runs: Runs, name: str) -> Line:
    """One point a target: means over seeds; a log scale has no place for none."""
    spots = []
    for target in comparison.SWEPT:
        share = estimate(runs.column(f"share@{target:g}")).value
        if share > 0:
            spots.append(spot(share, estimate(runs.column(f"added@{target:g}"))))
    return Line(name, tuple(sorted(spots, key=lambda each: each.x)))


STUDY = Study("fifo", "Probabilistic FIFO (paper 002)", networks.plans, claims, _figures, _measured, _cells)
