"""Charts of a sweep, drawn from its saved summary and from nothing else.

A chart shows one metric along one axis of the sweep, a line for each value of the others. Axes that the chart does not
name become lines too, so that no two kinds of runs are ever mixed; `where` picks one of their values instead.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.books.outcome import Outcome
from holdfast.model.errors import InputError
from holdfast.model.validation import did_you_mean
from holdfast.pipeline.charts.lines import LINES_MAX, Line, LineChart, Marks, Spot, svg
from holdfast.pipeline.confidence import LEVEL

__all__ = ["Axes", "Chart", "Marks", "chart_from_words", "check_chart", "draw", "line_chart"]


@dataclass(frozen=True)
class Chart:
    y: str
    x: str
    by: tuple[str, ...] = ()
    where: Mapping[str, object] = field(default_factory=dict)
    marks: tuple[Marks, ...] = ()
    title: str = ""
    file: str = ""
    log: str = ""
    x_label: str = ""
    y_label: str = ""
    y_range: tuple[float, float] | None = None

    @property
    def file_name(self) -> str:
        made = f"{self.y}-by-{self.x}" + "".join(f"-{key}-{value}" for key, value in self.where.items())
        return (self.file or "".join(each if each.isalnum() or each in "-_." else "-" for each in made)) + ".svg"


def chart_from_words(words: str) -> Chart:
    """What `--chart y=delivery_ratio,x=links.loss,by=variant+routing,log=y` says."""
    given: dict[str, Any] = {}
    known = [each.name for each in fields(Chart) if each.name not in ("marks", "where", "y_range")]
    for word in words.split(","):
        key, equals, value = (part.strip() for part in word.partition("="))
        if not equals or key not in known or not value:
            hint = did_you_mean(key, known) or f"the words are {', '.join(known)}"
            raise InputError(f"--chart: found {word!r}, expected key=value; {hint}")
        given[key] = tuple(value.split("+")) if key == "by" else value
    for key in ("x", "y"):
        if key not in given:
            raise InputError(f"--chart: {key} is missing; such as y=delivery_ratio,x=links.loss,by=variant")
    if given.get("log", "x") not in ("x", "y", "xy"):
        raise InputError(f"--chart: log={given['log']}, expected x, y or xy")
    return Chart(**given)


Axes = Mapping[str, Sequence[object]]
"""What varies in a sweep: columns, each with its values in the order of the plan."""


def check_chart(chart: Chart, axes: Axes) -> None:
    """What can be known before anything has run: that x and the others vary, and that y may be a metric."""
    _check_axes(chart, axes)
    heads = [*Outcome.__dataclass_fields__, "delivery_ratio"]
    if chart.y.partition(".")[0] not in heads:
        hint = did_you_mean(chart.y, heads) or f"metrics begin with {', '.join(heads)}"
        raise InputError(f'chart: there is no metric "{chart.y}"; {hint}')


def _check_axes(chart: Chart, axes: Axes) -> None:
    for name in (chart.x, *chart.by, *chart.where):
        if name not in axes:
            hint = did_you_mean(name, axes) or f"what varies is {', '.join(axes) or 'nothing'}"
            raise InputError(f'chart: "{name}" does not vary in this sweep; {hint}')


def draw(chart: Chart, summary: str | Path, axes: Axes, folder: str | Path) -> Path:
    """Draw one chart into the folder and say where it is."""
    picture = svg(line_chart(chart, Path(summary), axes))
    Path(folder).mkdir(parents=True, exist_ok=True)
    file = Path(folder) / chart.file_name
    file.write_text(picture, encoding="utf-8")
    return file


def line_chart(chart: Chart, summary: Path, axes: Axes) -> LineChart:
    """The chart with its points, from the saved summary, whose metrics may be more than a sweep's own."""
    _check_axes(chart, axes)
    rows = [row for row in _rows(chart.y, summary) if all(_same(row[key], value) for key, value in chart.where.items())]
    rest = [name for name in axes if name != chart.x and name not in chart.where and name not in chart.by]
    by = [name for name in (*chart.by, *rest) if len({json.dumps(row[name]) for row in rows}) > 1 or name in chart.by]
    places = {name: [_shown(each) for each in values] for name, values in axes.items()}
    rows.sort(key=lambda row: [places[name].index(_shown(row[name])) for name in (*by, chart.x)])
    unit, scale = _unit(chart.y)
    names, lines = _lines(rows, chart.x, by, scale)
    if not lines:
        text = ", ".join(f"{key} = {value}" for key, value in chart.where.items())
        raise InputError(f"chart of {chart.y}: there are no runs{f' with {text}' if text else ''}")
    if len(lines) > LINES_MAX:
        raise InputError(f"chart of {chart.y}: {len(lines)} lines; pick one value of {' or '.join(by)} with `where`")
    _check_logarithms(chart, lines, names)
    return LineChart(
        title=chart.title or _title(chart),
        x_label=chart.x_label or _words(chart.x),
        y_label=chart.y_label or f"{_words(chart.y)}{f' ({unit})' if unit else ''}",
        lines=tuple(lines),
        marks=chart.marks,
        x_log="x" in chart.log,
        y_log="y" in chart.log,
        x_names=tuple(names),
        y_range=chart.y_range,
        y_limits=(0.0, 1.0) if chart.y.endswith("_ratio") else None,
        note=_note(rows),
    )


def _rows(metric: str, summary: Path) -> list[dict[str, Any]]:
    metrics = pq.read_table(summary, columns=["metric"])["metric"].unique().to_pylist()
    if metric not in metrics:
        hint = did_you_mean(metric, metrics) or f"there are {', '.join(sorted(metrics))}"
        raise InputError(f'chart: there is no metric "{metric}"; {hint}')
    table = pq.read_table(summary, filters=pc.field("metric") == metric)
    rows: list[dict[str, Any]] = table.filter(pc.is_valid(table["mean"])).to_pylist()
    return rows


def _lines(rows: list[dict[str, Any]], x: str, by: list[str], scale: float) -> tuple[list[str], list[Line]]:
    """The lines in the order of the rows, and the names on the x axis when it has no numbers."""
    rows = [row for row in rows if row[x] is not None]
    numeric = all(isinstance(row[x], int | float) and not isinstance(row[x], bool) for row in rows)
    names = [] if numeric else list(dict.fromkeys(_shown(row[x]) for row in rows))
    found: dict[str, list[Spot]] = {}
    for row in rows:
        place = float(row[x]) if numeric else float(names.index(_shown(row[x])))
        low, high = (None if row[key] is None else row[key] * scale for key in ("low", "high"))
        name = ", ".join(_label(key, row[key]) for key in by)
        found.setdefault(name, []).append(Spot(place, row["mean"] * scale, low, high))
    return names, [Line(name, tuple(sorted(spots, key=lambda spot: spot.x))) for name, spots in found.items()]


def _check_logarithms(chart: Chart, lines: list[Line], names: list[str]) -> None:
    spots = [spot for line in lines for spot in line.spots]
    if "x" in chart.log and (names or any(spot.x <= 0 for spot in spots)):
        raise InputError(f"chart of {chart.y}: {chart.x} has values that a logarithmic axis cannot show")
    if "y" in chart.log and any(spot.y <= 0 for spot in spots):
        raise InputError(f"chart of {chart.y}: some means are 0 or below, which a logarithmic axis cannot show")


def _same(found: object, wanted: object) -> bool:
    return found == wanted or (isinstance(found, str) and not isinstance(wanted, str) and found == json.dumps(wanted))


def _label(key: str, value: object) -> str:
    return _shown(value) if isinstance(value, str) else f"{key.rpartition('.')[2]} {_shown(value)}"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else json.dumps(value)


def _unit(metric: str) -> tuple[str, float]:
    """The unit that is drawn, and what to multiply by: delays are kept in microseconds and read in milliseconds."""
    return ("ms", 0.001) if metric.partition(".")[0].endswith("_us") else ("", 1.0)


_SUFFIXES = (("_per_s", " (per second)"), ("_ms", " (ms)"), ("_us", ""), ("_s", " (s)"), ("_bytes", " (bytes)"))


def _words(name: str) -> str:
    """`delay_us.p50` as "delay p50", `workload.rate_per_s` as "workload rate (per second)"."""
    head, dot, tail = name.rpartition(".")
    unit = ""
    for suffix, words in _SUFFIXES:
        if tail.endswith(suffix) and tail != suffix:
            tail, unit = tail.removesuffix(suffix), words
            break
    return f"{head.removesuffix('_us')}{dot}{tail}".replace("_", " ").replace(".", " ") + unit


def _title(chart: Chart) -> str:
    text = ", ".join(f"{_words(key)} {_shown(value)}" for key, value in chart.where.items())
    return f"{_words(chart.y).capitalize()} by {_words(chart.x)}{f', {text}' if text else ''}"


def _note(rows: list[dict[str, Any]]) -> str:
    sizes = [row["n"] for row in rows]
    runs = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    if max(sizes) < 2:
        return "one run a point"
    return f"means of {runs} runs; bands: {LEVEL * 100:g} % confidence"
