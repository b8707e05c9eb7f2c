"""Paper 003, replication on demand: its table, its five figures and what it says about them.

Service times are fitted once, to figures 7 and 10 together (`ServiceTimes`); what those give there is no evidence, and
claims that rest on it say so. Everything else follows. The tenth protocol, "ordered", is ours.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.pipeline.charts.lines import Line, LineChart
from holdfast_papers.estimates import estimate, spot
from holdfast_papers.models import measured
from holdfast_papers.replication.cells import COMPARED, COPYING, measure, models
from holdfast_papers.replication.claims import claims
from holdfast_papers.study import Row, Runs, Scale, Study, WatchParts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MEASURES = (
    ("resumption_s", "delay of resumption (s)"),
    ("ordering", "degree of order"),
    ("replication_s", "replication time (s)"),
)


def _figures(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    for number, name, key, label in (
        (7, "population", "subscriptions", "subscriptions"),
        (8, "fanout", "fanout", "subscriptions that a publication matches"),
        (9, "pending", "pending", "pending publications"),
    ):
        for part, (metric, statement) in zip("abc", _MEASURES, strict=True):
            names = COPYING if name == "population" else COMPARED
            lines = tuple(_line(runs[name].of(copying=each), each, metric, key) for each in names)
            yield LineChart(f"Figure {number}({part}): {statement}, by {label} (paper 003)", label, statement, lines)
    for part, each, words in (("a", 0, "1,000 in all"), ("b", 500, "500 each")):
        lines = tuple(
            _line(runs["neighbours"].of(each=each, copying=copying), f"{copying}, {statement}", metric, "neighbours")
            for copying in ("incremental", "ordered")
            for metric, statement in (("resumption_s", "delay of resumption"), ("replication_s", "replication time"))
        )
        title = f"Figure 10({part}): subscriptions, {words} (paper 003)"
        yield LineChart(title, "neighbours with subscribers", "seconds", lines)
    for metric, statement in (("ordering", "degree of order"), ("throughput", "deliveries a second")):
        wanted = (min if metric == "ordering" else max)(row["more"] for row in runs["congestion"].rows)
        found = runs["congestion"].of(more=wanted)
        lines = tuple(
            _line(found.of(alone=False, use=use, copying=each), f"{each}, {use}", metric, "congested_us")
            for each in COPYING
            for use in (("scheduling", "reordering") if metric == "ordering" else ("scheduling",))
        )
        lines = (*lines, _line(found.of(alone=True), "no replica", metric, "congested_us"))
        yield LineChart(
            f"Figure 11: {statement}, by congestion (paper 003)", "microseconds that an event takes", statement, lines
        )


def _line(runs: Runs, name: str, metric: str, key: str) -> Line:
    groups: dict[float, list[Row]] = {}
    for row in runs.rows:
        at = float(row[key]) if key != "fanout" else float(round(row[key], -1))
        groups.setdefault(at, []).append(row)
    return Line(name, tuple(spot(at, estimate([row[metric] for row in rows])) for at, rows in sorted(groups.items())))


def _measured(spark: "SparkSession", scale: Scale, out: Path, part: WatchParts) -> Mapping[str, Runs]:
    found = {}
    for name, cells in models(scale).items():
        with part(name) as watch:
            found[name] = Runs(measured(spark, cells, measure, out / "models" / f"{name}.parquet", watch))
    return found


def _cells(scale: Scale) -> Mapping[str, int]:
    return {name: len(cells) for name, cells in models(scale).items()}


STUDY = Study("replication", "Replication on demand (paper 003)", lambda scale: {}, claims, _figures, _measured, _cells)
