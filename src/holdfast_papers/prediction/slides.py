"""Formulas as the slides of paper 004 print them, wrong as they are: for comparison, and for nothing else.

The availability is upside down (it is the share of the time down). The bound of disjoint paths and the hybrid formula
take each path's reliability with its end brokers, as if every path had ends of its own; they are shared, so neither is
a bound. `holdfast reproduce prediction` shows how far off they are.
"""

from collections.abc import Iterable
from math import prod

from holdfast.planner.components import Component
from holdfast.planner.disjoint_paths import interior_reliability, one_is_up
from holdfast.planner.overlay import Overlay, Path


def availability(component: Component) -> float:
    """(1/σ) / (1/γ + 1/σ): mean time down over the whole."""
    return component.unavailability


def whole_path(overlay: Overlay, path: Path) -> float:
    """A path's reliability with its ends (the availability itself put right)."""
    ends = prod(overlay.brokers[each].availability for each in {path.brokers[0], path.brokers[-1]})
    return ends * interior_reliability(overlay, path)


def multipath(overlay: Overlay, paths: Iterable[Path]) -> float:
    """1 - (1 - r1)(1 - r2)…"""
    return one_is_up(whole_path(overlay, path) for path in paths)


def hybrid(overlay: Overlay, on_time: float, alternates: Iterable[Path]) -> float:
    """P[d < D] + P[d > D] (1 - (1 - r1)(1 - r2)…)."""
    return on_time + (1 - on_time) * multipath(overlay, alternates)
