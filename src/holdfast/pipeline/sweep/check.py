"""Is a plan one that can be run? Every key and value is tried on the network file before anything starts.

The network file's own readers judge, so that a sweep knows no second list of keys. What they find is told at the
place of the sweep file that caused it, all at once. All combinations are tried when they are few; otherwise every
value beside the first values of the others, and what only fails together is recorded as a failed run.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.network.building.network import build
from holdfast.network.document import Document, with_settings
from holdfast.network.keys.root import ROOT
from holdfast.network.keys.units import SEED
from holdfast.network.problems import FileProblem, KeyPath, NetworkError, Place, Problems, dotted
from holdfast.network.shapes import shown
from holdfast.network.tables import complaint_about
from holdfast.pipeline.sweep.plan import (
    CELLS_MAX,
    POINTS_MAX,
    SEEDS_MAX,
    Point,
    SweepAxis,
    SweepPlan,
    grid_axes,
    network_document,
)

TRIED_MAX = 100  # combinations that are all tried: about a second for a network of a hundred brokers

VARIANT = "variant"  # the name of the axis and of its column


def plan(
    network: str | Path | Mapping[str, Any] | Document,
    grid: Mapping[str, Sequence[object]] | None = None,
    *,
    variants: Mapping[str, Mapping[str, object]] | None = None,
    seeds: int | Iterable[int] = 1,
    settings: Mapping[str, object] | None = None,
    traces: bool = False,
) -> SweepPlan:
    """A plan from Python: `plan("net.toml", {"links.loss": [0, 0.1]}, seeds=10)`. `seeds` are a number or a list."""
    problems = Problems(lambda path: Place(None))
    points = tuple(Point(name, dict(changed)) for name, changed in (variants or {}).items())
    axes = [*([SweepAxis(VARIANT, points)] if points else []), *grid_axes(grid or {})]
    chosen = range(1, seeds + 1) if isinstance(seeds, int) else seeds
    made = SweepPlan(network_document(network), tuple(axes), tuple(chosen), dict(settings or {}), traces)
    check(made, "sweep", problems)
    return made


def check(plan: SweepPlan, name: str, problems: Problems, locate: Callable[[KeyPath], Place] | None = None) -> None:
    """Add what is wrong with a plan to the problems found so far, and raise them all if there are any."""
    locate = locate or (lambda path: Place(None))
    _check_sizes(plan, problems)
    _check_keys(plan, problems)
    found = problems.in_order()
    if not len(plan):
        found = found or [FileProblem("seeds", "there is nothing to run", "give a seed at least")]
    elif len(plan) <= CELLS_MAX:
        found += _problems_of_values(plan, locate)
    if found:
        raise NetworkError(name, sorted(dict.fromkeys(found), key=lambda each: each.line or 0), problems.more)


def _check_sizes(plan: SweepPlan, problems: Problems) -> None:
    for axis in plan.axes:
        if not axis.points:
            problems.add(("grid", axis.name), "an empty list, expected values", "leave the key out instead")
        elif len(axis.points) > POINTS_MAX:
            problems.add(("grid", axis.name), f"{len(axis.points):,} values; the limit is {POINTS_MAX:,}")
    if len(plan.seeds) > SEEDS_MAX:
        problems.add(("seeds",), f"{len(plan.seeds):,} seeds; the limit is {SEEDS_MAX:,}")
    if len(set(plan.seeds)) < len(plan.seeds):
        twice = next(seed for seed in plan.seeds if plan.seeds.count(seed) > 1)
        problems.add(("seeds",), f"{twice} is there twice", "the same seed gives the same run")
    for seed in plan.seeds[:SEEDS_MAX]:
        SEED.read(seed, ("seeds",), problems)
    if len(plan) > CELLS_MAX:
        size = " x ".join([*(f"{len(axis.points):,}" for axis in plan.axes), f"{len(plan.seeds):,} seeds"])
        problems.add((), f"{size} are {len(plan):,} runs; the limit is {CELLS_MAX:,}", "make several sweeps of it")


def _check_keys(plan: SweepPlan, problems: Problems) -> None:
    owners: dict[str, str] = {}
    for axis in plan.axes:
        for key in dict.fromkeys(key for point in axis.points for key in point.settings):
            if key in owners:
                place = _place_of(key, axis.points, axis.name)
                problems.add(place, f"{owners[key]} sets it, too", "say it in one place")
            owners.setdefault(key, "[[variant]]" if axis.name == VARIANT else "[grid]")
            if axis.name != VARIANT and key in plan.settings:
                problems.add(_place_of(key, axis.points, axis.name), "[set] sets it, too", "say it in one place")
            _check_key(key, _place_of(key, axis.points, axis.name), problems)
        _check_labels(axis, problems)
    for key in plan.settings:
        _check_key(key, plan.places.get(key, ("set", key)), problems)


def _check_key(key: str, place: KeyPath, problems: Problems) -> None:
    if key == "seed":
        problems.add(place, "the seed of each run comes from `seeds`", "seeds = 10, or seeds = [7, 8, 9]")
        return
    complaint = complaint_about(ROOT, key)
    if complaint:
        problems.add(place, complaint)


def _check_labels(axis: SweepAxis, problems: Problems) -> None:
    seen: set[str] = set()
    for point in axis.points[:POINTS_MAX]:
        text = json.dumps(point.label, default=str)
        if text in seen:
            place = _place_of(next(iter(point.settings), axis.name), [point], axis.name)
            problems.add(place, f"{shown(point.label)} is there twice")
        seen.add(text)


def _place_of(key: str, points: Iterable[Point], axis: str) -> KeyPath:
    """The first place that names the key; for a plan made in Python, where a file would."""
    places = (point.places[key] for point in points if key in point.places)
    return next(places, ("variant", key) if axis == VARIANT else ("grid", key))


def _problems_of_values(plan: SweepPlan, locate: Callable[[KeyPath], Place]) -> Iterator[FileProblem]:
    """What the network file's readers say to the combinations, each thing once."""
    spoiled = {key for key in _all_keys(plan) if key == "seed" or complaint_about(ROOT, key)}
    seen: dict[FileProblem, int] = {}
    tried = 0
    first: dict[FileProblem, str] = {}
    for chosen in _combinations(plan):
        tried += 1
        settings = {key: value for key, value in plan.together(chosen).items() if key not in spoiled}
        for problem in _problems_of_network(plan.network, settings):
            moved = _moved(problem, plan, chosen, settings, locate)
            seen[moved] = seen.get(moved, 0) + 1
            first.setdefault(moved, ", ".join(f"{key} = {shown(value)}" for key, value in settings.items()))
    for problem, count in seen.items():
        elsewhere = problem.key == "network" and count < tried and first[problem]
        suffix = f" (with {first[problem]})" if elsewhere else ""
        yield FileProblem(problem.key, problem.message + suffix, problem.suggestion, problem.line)


def _all_keys(plan: SweepPlan) -> set[str]:
    return {*plan.settings, *(key for axis in plan.axes for point in axis.points for key in point.settings)}


def _combinations(plan: SweepPlan) -> Iterator[tuple[Point, ...]]:
    """All when they are few; otherwise each variant with each value, and the first values of all other axes."""
    if plan.combinations <= TRIED_MAX:
        yield from plan.choices()
        return
    starts = [tuple(axis.points[0] for axis in plan.axes)]
    for at, axis in enumerate(plan.axes):
        if axis.name == VARIANT:
            starts = [_swapped(starts[0], at, point) for point in axis.points]
    for start in starts:
        yield start
        for at, axis in enumerate(plan.axes):
            if axis.name != VARIANT:
                yield from (_swapped(start, at, point) for point in axis.points[1:])


def _swapped(points: tuple[Point, ...], at: int, point: Point) -> tuple[Point, ...]:
    return (*points[:at], point, *points[at + 1 :])


def _problems_of_network(network: Document, settings: Mapping[str, object]) -> list[FileProblem]:
    found: list[FileProblem] = []
    try:
        document = with_settings(network, settings)
    except NetworkError as error:  # keys that are not there in this file; the others can still be looked at
        found += error.problems
        refused = {each.key for each in error.problems}
        document = with_settings(network, {key: value for key, value in settings.items() if key not in refused})
    try:
        build(document)
    except NetworkError as error:
        found += error.problems
    return found


def _moved(
    problem: FileProblem,
    plan: SweepPlan,
    chosen: Iterable[Point],
    settings: Mapping[str, object],
    locate: Callable[[KeyPath], Place],
) -> FileProblem:
    """A problem of the network, told at the place of the sweep that caused it."""
    near = [key for key in settings if _overlap(key, problem.key)] if problem.by_setting else []
    if not near:
        where = f"{plan.network.name} line {problem.line}" if problem.line else plan.network.name
        message = f"{where}, {problem.key}: {problem.message}" if problem.key else f"{where}: {problem.message}"
        return FileProblem("network", message, problem.suggestion, locate(("network",)).line)
    key = max(near, key=len)
    places = {**{key: ("set", key) for key in plan.settings}, **plan.places}
    for axis, point in zip(plan.axes, chosen, strict=True):
        at_axis: KeyPath = (VARIANT, str(point.label)) if axis.name == VARIANT else ("grid",)
        places |= {each: (*at_axis, each) for each in point.settings}
        places |= point.places
    return FileProblem(dotted(places[key]), problem.message, problem.suggestion, locate(places[key]).line)


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")
