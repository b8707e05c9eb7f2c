"""A sweep as a plan: one network, the settings that vary, and the seeds.

An axis is something that varies. A key of the grid is an axis whose points change that key alone; the variants are one
axis whose points change several keys that go together. A cell is one point of every axis with one seed: one
simulation. Cells are numbered in a fixed order, seeds fastest, so that a number says everything about a cell.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal

from holdfast.network.building.network import build
from holdfast.network.document import Document, document_of, read, with_settings
from holdfast.network.presets import preset_text
from holdfast.network.problems import KeyPath
from holdfast.network.schema import Network

CELLS_MAX = 100_000  # each finished cell is a file in one folder: more would make listing it slow
SEEDS_MAX = 10_000  # a confidence interval from so many runs is 1 % as wide as the spread of one
POINTS_MAX = 10_000  # of one axis: each is a Python object on the driver, and a line in a chart long before

ColumnKind = Literal["boolean", "long", "double", "string"]


@dataclass(frozen=True)
class Point:
    label: object  # what stands in the axis's column
    settings: Mapping[str, object]
    places: Mapping[str, KeyPath] = field(default_factory=dict, compare=False)  # where a sweep file says each of them


@dataclass(frozen=True)
class SweepAxis:
    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class SweepCell:
    number: int
    seed: int
    settings: Mapping[str, object]  # everything that is changed in the network file but the seed
    columns: Mapping[str, object]  # the same for the table, with the names of variants


@dataclass(frozen=True)
class SweepPlan:
    network: Document
    axes: tuple[SweepAxis, ...] = ()
    seeds: tuple[int, ...] = (1,)
    settings: Mapping[str, object] = field(default_factory=dict)  # the same in every cell
    traces: bool = False
    places: Mapping[str, KeyPath] = field(default_factory=dict, compare=False)  # of `settings`, in a sweep file

    def __len__(self) -> int:
        return self.combinations * len(self.seeds)

    @property
    def combinations(self) -> int:
        return prod(len(axis.points) for axis in self.axes)

    def cell(self, number: int) -> SweepCell:
        rest, seed_at = divmod(number, len(self.seeds))
        chosen: list[Point] = []
        for axis in reversed(self.axes):
            rest, at = divmod(rest, len(axis.points))
            chosen.append(axis.points[at])
        return self._cell(number, self.seeds[seed_at], chosen[::-1])

    def choices(self) -> Iterator[tuple[Point, ...]]:
        """Every combination of points, in the order of the cells."""
        return product(*(axis.points for axis in self.axes))

    def together(self, chosen: Iterable[Point]) -> dict[str, object]:
        """The settings of a combination; a point says more than what holds for all."""
        settings = dict(self.settings)
        for point in chosen:
            settings |= point.settings
        return settings

    def network_of(self, cell: SweepCell) -> Network:
        return build(with_settings(self.network, {**cell.settings, "seed": cell.seed}))

    @cached_property
    def columns(self) -> dict[str, ColumnKind]:
        """The settings' columns with their types: the axes first, then what variants and the plan itself set."""
        values: dict[str, list[object]] = {axis.name: [point.label for point in axis.points] for axis in self.axes}
        for axis in self.axes:
            for point in axis.points:
                for key in point.settings:
                    if key not in values:
                        values[key] = [self._value_of(key, (other,)) for other in axis.points]
        for key, value in self.settings.items():
            values.setdefault(key, [value])
        return {name: _kind_of(found) for name, found in values.items()}

    def axis_values(self) -> dict[str, list[object]]:
        """What varies: the axes' columns, each with its values in order, as they stand in the tables."""
        return {
            axis.name: [_as_kind(point.label, self.columns[axis.name]) for point in axis.points] for axis in self.axes
        }

    def _cell(self, number: int, seed: int, chosen: Sequence[Point]) -> SweepCell:
        labels = {axis.name: point.label for axis, point in zip(self.axes, chosen, strict=True)}
        columns = {
            name: _as_kind(labels[name] if name in labels else self._value_of(name, chosen), kind)
            for name, kind in self.columns.items()
        }
        return SweepCell(number, seed, self.together(chosen), columns)

    def _value_of(self, key: str, chosen: Iterable[Point]) -> object:
        """The value of a key in a combination; where no setting says it, what the network file does."""
        settings = self.together(chosen)
        return settings[key] if key in settings else _in_document(self.network.data, key)

    def as_json(self) -> dict[str, Any]:
        """All that a cell's outcome depends on, to tell whether a folder holds this sweep or another one."""
        axes = {
            axis.name: [[_plain(point.label), _plain(point.settings)] for point in axis.points] for axis in self.axes
        }
        return {
            "network": self.network.toml(),
            "settings": _plain(self.settings),
            "axes": axes,
            "seeds": list(self.seeds),
            "traces": self.traces,
        }


def network_document(network: str | Path | Mapping[str, Any] | Document) -> Document:
    """A network for a plan: the path of a file, the same as plain maps and lists, or a document."""
    if isinstance(network, str | Path):
        return read(Path(network).resolve())  # tasks on other machines have another working folder
    return document_of(network)


def preset_document(name: str) -> Document:
    return document_of(preset_text(name), name)


def grid_axes(grid: Mapping[str, Sequence[object]]) -> list[SweepAxis]:
    return [SweepAxis(key, tuple(Point(value, {key: value}) for value in values)) for key, values in grid.items()]


def _in_document(data: Any, key: str) -> object:
    for name in key.split("."):
        if isinstance(data, Mapping) and name in data:
            data = data[name]
        elif isinstance(data, list) and name.isdigit() and int(name) < len(data):
            data = data[int(name)]
        else:
            return None
    return data


def _kind_of(values: Iterable[object]) -> ColumnKind:
    """One type for a column. What is no scalar, or of several types, stands in it as JSON text."""
    types = {type(value) for value in values if value is not None}
    if types == {bool}:
        return "boolean"
    if types == {int}:
        return "long"
    if types and types <= {int, float}:
        return "double"
    return "string"


def _as_kind(value: object, kind: ColumnKind) -> object:
    if value is None:
        return None
    if kind == "double":
        assert isinstance(value, int | float)
        return float(value)
    if kind == "string" and not isinstance(value, str):
        return json.dumps(_plain(value))
    return value


def _plain(value: Any) -> Any:
    """Only what JSON has; a TOML date becomes text."""
    return json.loads(json.dumps(value, default=str))
