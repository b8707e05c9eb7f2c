"""How messages, bytes, state and CPU time of each role grow with the network, mechanism by mechanism, with slopes.

Five sizes are varied one at a time: brokers, subscribers, conditions, publishers, and the rate of each publisher. Each
network runs in the simulator, every message through a machine, in a process of its own (bench/scaling_cells.py). Slopes
are fitted and put beside closed forms (bench/scaling_laws.py). What is saved is kept cell by cell, so that a stopped
run goes on where it was; `--more 2` asks for two sizes more on every axis, each three times the one before, and
`--large` for networks of up to a million subscribers (bench/scaling_large.py).
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import astuple, fields, replace
from datetime import UTC, datetime
from typing import Any

from bench import scaling_large
from bench.command import options, show
from bench.page import PAGE, put_section
from bench.results import load, machine, save, saved_at
from bench.scaling_cells import MECHANISMS, ROLES, Size, apart, run
from bench.scaling_laws import ELSEWHERE, fitted, laws
from bench.scaling_page import section

AXES = {
    "brokers": (10, 30, 90, 270),
    "subscribers": (30, 90, 270, 810),
    "conditions": (10, 30, 90, 270),
    "publishers": (2, 6, 18, 54),
    "rate": (2, 6, 18, 54),
}
_FLOODED = (10, 30, 60, 120)  # brokers, where link states are flooded: messages grow with their square
QUANTITIES = ("messages", "control", "bytes", "cpu_us", "state_bytes", "setup_messages", "setup_bytes")
_MORE_MAX = 9  # sizes more than a run has by itself
_QUICK = ("best effort", "nack")


def sizes(name: str, axis: str, more: int) -> list[Size]:
    base = Size(subscribers=270) if axis == "conditions" else Size()  # there are no more conditions than subscribers
    steps = _FLOODED if axis == "brokers" and MECHANISMS[name].routing == "destinations" else AXES[axis]
    further = [steps[-1] * 3**each for each in range(1, more + 1)]
    return [replace(base, **{axis: size}) for size in (*steps, *further)]


def wanted(names: list[str], more: int) -> Iterator[tuple[str, Size]]:
    """Axis by axis, so that a run that is stopped has all mechanisms on some."""
    for axis in AXES:
        for name in names:
            for size in sizes(name, axis, more):
                yield name, size
    for name, size in ELSEWHERE.items():
        if name in names:
            yield name, size


def _key(cell: dict[str, Any]) -> tuple[Any, ...]:
    return cell["mechanism"], *[cell[field.name] for field in fields(Size)]


def measure(given: argparse.Namespace, data: dict[str, Any]) -> None:
    """Run what is missing, and keep each cell when it is there."""
    known = {_key(cell) for cell in data["cells"]}
    for name, size in wanted(list(_QUICK if given.quick else MECHANISMS), given.more):
        key = name, *astuple(size)
        if key not in known:
            known.add(key)
            data["cells"].append(_rounded(apart(run, name, size)))
            print(f"{name}, {size}: {data['cells'][-1]['cpu_s']:.1f} s", file=sys.stderr)
            _keep(given, data)
    for subscribers in [each for each in scaling_large.SIZES if each <= given.large]:
        for name in scaling_large.NAMES:
            row = {"mechanism": name, "subscribers": subscribers, "heartbeat_s": given.heartbeat}
            row |= {"seconds": given.seconds}
            if not any(row.items() <= other.items() for other in data["large"]):
                data["large"].append(_rounded(apart(scaling_large.run, *row.values())))
                print(f"{name}, {subscribers} subscribers: {data['large'][-1]['cpu_s']:.0f} s", file=sys.stderr)
                _keep(given, data)


def _keep(given: argparse.Namespace, data: dict[str, Any]) -> None:
    if given.save:
        save(data, saved_at("scaling"))


def _rounded(value: Any) -> Any:
    """Four digits: more would be noise, and make the file three times as long."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def conclude(data: dict[str, Any]) -> None:
    """Fit slopes to the cells that there are."""
    cells = {_key(cell): cell for cell in data["cells"]}

    def measured(name: str, axis: str) -> list[tuple[Size, Mapping[str, Any]]]:
        found = [(size, cells.get((name, *astuple(size)))) for size in sizes(name, axis, _MORE_MAX)]
        return [(size, cell) for size, cell in found if cell is not None]

    slopes: dict[tuple[str, str], dict[str, Any]] = {}
    for axis in AXES:
        for name in MECHANISMS:
            there = measured(name, axis)
            along = [getattr(size, axis) for size, _ in there]
            columns = {f"{role}_{each}": [row[role][each] for _, row in there] for role in ROLES for each in QUANTITIES}
            columns |= {each: [row[each] for _, row in there] for each in ("cpu_s", "mib")}
            fits = {each: fitted(along, values) for each, values in columns.items()}
            slopes[name, axis] = {each: _rounded(fit._asdict()) for each, fit in fits.items() if fit is not None}
    data["slopes"] = [{"mechanism": name, "axis": axis, **found} for (name, axis), found in slopes.items() if found]
    elsewhere = {
        name: cells[name, *astuple(size)] for name, size in ELSEWHERE.items() if (name, *astuple(size)) in cells
    }
    data["laws"] = laws(slopes, measured, elsewhere)
    data["expected"] = [
        {"mechanism": name, "heartbeat_s": heartbeat_s, **_rounded(expected)}
        for name in scaling_large.NAMES
        for heartbeat_s in sorted({row["heartbeat_s"] for row in data["large"]})
        if (expected := scaling_large.expected(data["large"], name, heartbeat_s, max(scaling_large.SIZES))) is not None
    ]


def main() -> int:
    words = options("scaling", __doc__)
    words.add_argument("--quick", action="store_true", help="best effort and nack alone")
    words.add_argument(
        "--more",
        type=int,
        default=0,
        choices=range(_MORE_MAX + 1),
        help="sizes more on every axis, each three times the last",
    )
    words.add_argument("--large", type=int, default=10_000, help="subscribers of the largest network")
    words.add_argument("--seconds", type=int, default=scaling_large.SECONDS, help="simulated seconds of these networks")
    words.add_argument("--heartbeat", type=float, default=1.0, help="seconds between heartbeats there")
    words.add_argument("--anew", action="store_true", help="forget what was saved")
    given = words.parse_args()
    saved = None if given.anew or not given.save else load(saved_at("scaling"))
    data = saved or {"benchmark": "scaling", "cells": [], "large": []}
    data |= {"date": datetime.now(UTC).date().isoformat(), "machine": machine()}
    measure(given, data)
    conclude(data)
    _keep(given, data)
    if given.save:
        put_section("scaling", section(data), PAGE.with_name("scaling.md"))
    show(given, data, section)
    return 0


if __name__ == "__main__":
    sys.exit(main())
