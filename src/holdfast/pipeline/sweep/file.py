"""The sweep file: a TOML file that names a network, what varies, the seeds and the charts to draw.

It is read with the network file's own shapes and judged in its style: all problems at once, each with its line. A key
of the network is written dotted, in quotes or not: `links.loss = [0, 0.1]` in `[grid]`. docs/sweep.md explains it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from holdfast.model.errors import InputError
from holdfast.model.validation import did_you_mean
from holdfast.network.document import Document, read
from holdfast.network.keys.units import SEED
from holdfast.network.presets import PRESETS
from holdfast.network.problems import KeyPath, NetworkError, Problems
from holdfast.network.shapes import Choice, Either, Flag, Listed, Name, Number, Text, wrong
from holdfast.network.tables import Key, Repeated, Table
from holdfast.pipeline.sweep.chart import Chart, Marks
from holdfast.pipeline.sweep.check import VARIANT, check
from holdfast.pipeline.sweep.plan import (
    POINTS_MAX,
    SEEDS_MAX,
    Point,
    SweepAxis,
    SweepPlan,
    network_document,
    preset_document,
)

CHARTS_MAX = 100  # files to draw and to look at


@dataclass(frozen=True)
class SweepSetting:
    key: str  # dotted, as `--set` takes it
    value: Any
    place: KeyPath


@dataclass(frozen=True)
class GridTable:
    """A table whose keys are those of the network file, nested or dotted."""

    def words(self) -> str:
        return "a table of the network file's keys"

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any:
        if not isinstance(found, Mapping):
            return wrong(self, found, path, problems, "such as { links.loss = 0.1 }")
        return list(_flattened(found, path, ""))


def _flattened(found: Mapping[str, Any], path: KeyPath, before: str) -> Iterator[SweepSetting]:
    for name, value in found.items():
        key = f"{before}.{name}" if before else name
        if isinstance(value, Mapping) and value:
            yield from _flattened(value, (*path, name), key)
        else:
            yield SweepSetting(key, value, (*path, name))


@dataclass(frozen=True)
class _AnyNumber:
    def words(self) -> str:
        return "a number"

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any:
        if isinstance(found, bool) or not isinstance(found, int | float) or not isfinite(found):
            return wrong(self, found, path, problems)
        return float(found)


_LABEL = Text("a text in quotes", characters_max=200)
_PAIR = Listed(_AnyNumber(), "two numbers", size=2)
_MARKS = Table(
    "chart.marks",
    "Points from elsewhere, such as a paper's figure, drawn as hollow marks.",
    (
        Key("name", _LABEL, "what they are called", required=True),
        Key("of", _LABEL, "the line whose colour they take"),
        Key("points", Listed(_PAIR, "pairs [x, y]", most=POINTS_MAX), "where they stand", required=True),
    ),
)
_CHART = Table(
    "chart",
    "A line chart, drawn from the saved summary.",
    (
        Key("y", _LABEL, "the measured value", required=True),
        Key("x", _LABEL, "what varies along the chart: a key of the grid, or variant", required=True),
        Key("by", Either(_LABEL, Listed(_LABEL, "keys"), list), "one line for each value of it"),
        Key("where", GridTable(), "only these runs"),
        Key("title", _LABEL, "above the chart", default_words="made from x, y and where"),
        Key("file", Name(), "its file in charts, without .svg", default_words="made from x and y"),
        Key("log", Choice(("x", "y", "xy")), "which axis is logarithmic"),
        Key("x_label", _LABEL, "below the chart"),
        Key("y_label", _LABEL, "beside the chart"),
        Key("y_range", _PAIR, "[low, high] of the axis"),
        Key("marks", Repeated(_MARKS, 20), "points from elsewhere"),
    ),
)
_VARIANT = Table(
    "variant",
    "Settings that go together, under a name.",
    (
        Key("name", _LABEL, "what stands in the column `variant`", required=True),
        Key("set", GridTable(), "what it changes; nothing: the network as it is"),
    ),
)
SWEEP = Table(
    "sweep",
    "The whole file.",
    (
        Key("network", Text("a path in quotes"), "a network file, looked for beside this one"),
        Key("preset", Choice(tuple(PRESETS)), "instead of a file"),
        Key(
            "seeds",
            Either(Number(1, SEEDS_MAX, integer=True), Listed(SEED, "seeds", most=SEEDS_MAX), list),
            "how many, from 1 on, or a list",
            1,
        ),
        Key("traces", Flag(), "keep the trace of every run", False),
        Key("set", GridTable(), "the same in every run"),
        Key("grid", GridTable(), "lists of values, every one with every other"),
        Key(VARIANT, Repeated(_VARIANT, POINTS_MAX), "settings that go together"),
        Key("chart", Repeated(_CHART, CHARTS_MAX), "what to draw"),
    ),
)


@dataclass(frozen=True)
class SweepFile:
    plan: SweepPlan
    charts: tuple[Chart, ...]


def load_sweep(path: str | Path) -> SweepFile:
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: there is no such file; docs/sweep.md shows how to write one")
    return parse_sweep(read(path))


def parse_sweep(document: Document) -> SweepFile:
    problems = Problems(document.place)
    values = SWEEP.values(document.data, (), problems)
    axes = [*_variants(values, problems), *_grid(values, problems)]
    charts = tuple(_charts(values, axes, problems))
    network = _network(values, document, problems)
    if network is None:
        raise NetworkError(document.name, problems.in_order(), problems.more)
    fixed: list[SweepSetting] = values["set"] or []
    seeds = values["seeds"]
    plan = SweepPlan(
        network,
        tuple(axes),
        tuple(range(1, seeds + 1) if isinstance(seeds, int) else seeds),
        {each.key: each.value for each in fixed},
        values["traces"],
        {each.key: each.place for each in fixed},
    )
    check(plan, document.name, problems, document.place)
    return SweepFile(plan, charts)


def _network(values: dict[str, Any], document: Document, problems: Problems) -> Document | None:
    file, preset = values["network"], values["preset"]
    if file is not None and preset is not None:
        problems.add(("preset",), "the network comes from a file or from a preset, not from both")
    elif preset is not None:
        return preset_document(preset)
    elif file is not None:
        path = document.folder / file
        if path.is_file():
            return network_document(path)
        beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
        problems.add(("network",), f"there is no file {path}", did_you_mean(path.name, beside))
    elif not problems.within("network") and not problems.within("preset"):
        problems.add((), '"network" is missing, expected a path in quotes', 'or preset = "quickstart"')
    return None


def _variants(values: dict[str, Any], problems: Problems) -> list[SweepAxis]:
    given = values[VARIANT]
    points = []
    for number, each in enumerate(given or ()):
        entry = _VARIANT.values(each, (VARIANT, number), problems)
        if entry["name"] is None:
            continue
        settings: list[SweepSetting] = entry["set"] or []
        changed = {setting.key: setting.value for setting in settings}
        points.append(Point(entry["name"], changed, {setting.key: setting.place for setting in settings}))
    return [SweepAxis(VARIANT, tuple(points))] if points else []


def _grid(values: dict[str, Any], problems: Problems) -> list[SweepAxis]:
    axes = []
    for setting in values["grid"] or ():
        if not isinstance(setting.value, list):
            wrong(_VALUES, setting.value, setting.place, problems, "put it into [ ], or into [set]")
        elif not setting.value:
            problems.add(setting.place, "an empty list, expected values", "leave the key out instead")
        else:
            points = [
                Point(value, {setting.key: value}, {setting.key: (*setting.place, at)})
                for at, value in enumerate(setting.value)
            ]
            axes.append(SweepAxis(setting.key, tuple(points)))
    return axes


_VALUES = Listed(Text(), "values")


def _charts(values: dict[str, Any], axes: list[SweepAxis], problems: Problems) -> Iterator[Chart]:
    known = [axis.name for axis in axes]
    for number, each in enumerate(values["chart"] or ()):
        path = "chart", number
        entry = _CHART.values(each, path, problems)
        by = [entry["by"]] if isinstance(entry["by"], str) else entry["by"] or []
        where: list[SweepSetting] = entry["where"] or []
        for key, name in [("x", entry["x"]), *(("by", name) for name in by)]:
            if name is not None and name not in known:
                _not_varied(name, known, (*path, key), problems)
        for setting in where:
            if setting.key not in known:
                _not_varied(setting.key, known, setting.place, problems)
        marks = [_MARKS.values(raw, (*path, "marks", at), problems) for at, raw in enumerate(entry["marks"] or ())]
        if entry["x"] is not None and entry["y"] is not None:
            plain = {key: entry[key] for key in ("title", "file", "log", "x_label", "y_label")}
            yield Chart(
                entry["y"],
                entry["x"],
                tuple(by),
                {setting.key: setting.value for setting in where},
                marks=tuple(_marks(found) for found in marks if found["name"] and found["points"]),
                y_range=tuple(entry["y_range"]) if entry["y_range"] else None,
                **{key: value for key, value in plain.items() if value is not None},
            )


def _not_varied(name: str, known: list[str], path: KeyPath, problems: Problems) -> None:
    hint = did_you_mean(name, known) or (f"what varies is {', '.join(known)}" if known else "give a [grid]")
    problems.add(path, f'"{name}" does not vary in this sweep', hint)


def _marks(entry: dict[str, Any]) -> Marks:
    return Marks(entry["name"], tuple((x, y) for x, y in entry["points"]), entry["of"])
