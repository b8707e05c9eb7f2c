"""One cell of a sweep: build its network, simulate it, and put the outcome into a flat record.

A record holds whole numbers and others apart, by dotted name: `messages.Publish.sent`, `delay_us.p50`. It needs no
list of metrics, so a new mechanism's counts turn up in the tables by themselves. Nothing here knows Spark.
"""

import json
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from holdfast.books.trace import TraceWriter
from holdfast.model.errors import HoldfastError
from holdfast.network.provenance import about_run
from holdfast.pipeline.sweep.plan import SweepCell, SweepPlan
from holdfast.sim.simulator import Simulation

_TRACEBACK_CHARACTERS_MAX = 8_000  # the last calls are what helps; a deep recursion has thousands


@dataclass(frozen=True)
class CellRecord:
    cell: int
    seed: int
    took_s: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    measures: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None  # in one line; then there are no numbers
    traceback: str | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def record_from(text: str) -> CellRecord:
    return CellRecord(**json.loads(text))


def run_cell(plan: SweepPlan, number: int, trace_folder: Path | None = None) -> CellRecord:
    """Simulate one cell. What goes wrong is part of the record: it must not stop the others."""
    cell = plan.cell(number)
    began = time.perf_counter()
    try:
        outcome = _simulate(plan, cell, trace_folder)
    except HoldfastError as error:
        return failed(cell.number, cell.seed, str(error), time.perf_counter() - began)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        calls = traceback.format_exc()[-_TRACEBACK_CHARACTERS_MAX:]
        return failed(cell.number, cell.seed, text, time.perf_counter() - began, calls)
    numbers = dict(_flattened(outcome))
    counts = {name: value for name, value in numbers.items() if isinstance(value, int)}
    measures = {name: value for name, value in numbers.items() if isinstance(value, float)}
    return CellRecord(cell.number, cell.seed, time.perf_counter() - began, counts, measures)


def failed(number: int, seed: int, error: str, took_s: float = 0.0, calls: str | None = None) -> CellRecord:
    return CellRecord(number, seed, took_s, error=" ".join(error.split()), traceback=calls)


def _simulate(plan: SweepPlan, cell: SweepCell, trace_folder: Path | None) -> dict[str, object]:
    network = plan.network_of(cell)
    trace = None
    if trace_folder is not None:
        about = about_run(network, "sim", network.seed)
        trace = TraceWriter(trace_folder, about, overwrite=True)  # what is there was left by a run that was killed
    return Simulation(network, trace=trace).run().as_json()


def _flattened(found: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, int | float]]:
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{before}{name}.")
        elif isinstance(value, int | float):
            yield f"{before}{name}", value
