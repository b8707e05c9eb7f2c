"""Every estimator on the same events (`overtaking`), at several targets: what remains, and the delay that it adds.

Estimators that leave different shares of the violations cannot be compared by their delays: who waits less violates
more. So each is run at many targets, and its delay is read at the share that another one left, between its two nearest
shares. Added delay grows about in proportion to the logarithm of the share, and that is how it is read.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import log, nan
from typing import Any, get_args

from holdfast.protocol.order.latch import Latch
from holdfast.protocol.order.settings import EstimatorName, LatchSettings
from holdfast_papers.fifo.overtaking import CLOCK_OFFSET_US, SCENARIOS, Stream, draw, replay
from holdfast_papers.models import Cell
from holdfast_papers.study import Runs, Scale

ESTIMATORS: tuple[EstimatorName, ...] = get_args(EstimatorName)
TARGETS = (0.05, 0.005)
SWEPT = (0.45, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.0005)
_PUBLICATIONS: dict[Scale, int] = {"quick": 20_000, "paper": 240_000}
_SEEDS: dict[Scale, int] = {"quick": 5, "paper": 10}
Point = tuple[float, float]  # the share that remains, and the delay added


def cells(scale: Scale) -> list[Cell]:
    return [
        {"scenario": scenario.name, "estimator": estimator, "seed": seed, "publications": _PUBLICATIONS[scale]}
        for scenario in SCENARIOS
        for estimator in ESTIMATORS
        for seed in range(1, _SEEDS[scale] + 1)
    ]


def measure(cell: Cell) -> dict[str, Any]:
    stream = _stream(cell)
    found = {}
    for target in SWEPT:
        outcome = replay(stream, Latch(LatchSettings(estimator=cell["estimator"], target=target)))
        found[f"share@{target:g}"], found[f"added@{target:g}"] = outcome.share, outcome.added_ms
    return found


def _stream(cell: Cell, drift: float | None = None) -> Stream:
    [scenario] = [each for each in SCENARIOS if each.name == cell["scenario"]]
    drifting = {} if drift is None else {"drift": drift}
    return draw(scenario, cell["publications"], cell["seed"], **drifting)


def clock_cells(scale: Scale) -> list[Cell]:
    return [
        {"scenario": SCENARIOS[0].name, "seed": seed, "publications": _PUBLICATIONS[scale] // 2}
        for seed in range(1, _SEEDS[scale] + 1)
    ]


def measure_clocks(cell: Cell) -> dict[str, Any]:
    """Violations with a subscriber's clock that is hours away, and with the publisher's own."""
    away = _stream(cell, 0.0)
    same = replace(away, arrivals_us=[each - CLOCK_OFFSET_US for each in away.arrivals_us])
    outcomes = [replay(each, Latch(LatchSettings(estimator="parametric"))) for each in (away, same)]
    return {"away": outcomes[0].late, "same": outcomes[1].late, "held_away": outcomes[0].held_us} | {
        "held_same": outcomes[1].held_us
    }


def points(row: dict[str, Any]) -> list[Point]:
    """From many violations to few."""
    return [(row[f"share@{target:g}"], row[f"added@{target:g}"]) for target in SWEPT]


def delay_at(found: Sequence[Point], share: float) -> float:
    """The delay with which an estimator leaves this share; not a number where it never leaves so many, or so few."""
    for (more, sooner), (fewer, later) in pairwise(sorted(found, reverse=True)):
        if more >= share >= fewer > 0 and more > fewer:
            part = log(more / share) / log(more / fewer)
            return sooner + part * (later - sooner)
    return nan


def at_equal_violations(runs: Runs, scenario: str, estimator: str, other: str, target: float) -> list[float]:
    """By seed: the delay that one adds for each millisecond of the other, where both leave the same share."""
    mine, others = (runs.of(scenario=scenario, estimator=each) for each in (estimator, other))
    found = []
    for row, rival in zip(*(sorted(each.rows, key=lambda row: row["seed"]) for each in (mine, others)), strict=True):
        found.append(row[f"added@{target:g}"] / delay_at(points(dict(rival)), row[f"share@{target:g}"]))
    return found
