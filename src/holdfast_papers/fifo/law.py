"""How well the fitted law describes the difference of two delays, in the network that matches in parallel.

Paper 002 says that a hypoexponential law fits it. The law is that of `protocol/order/parametric.py`: k brokers with
exponential times of one rate, k and the rate from the variance and the kurtosis of 400 differences. Such a window is
tested as Kolmogorov and Smirnov do: the largest distance between the law and the sample, against distances of samples
that were drawn from that law and fitted again, since a fitted law lies closer than a given one.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.network.load import parse_text
from holdfast.protocol.effects import Delivered
from holdfast.protocol.order.bernstein import Bernstein
from holdfast.protocol.order.delay_difference import centred
from holdfast.protocol.order.parametric import EqualRates, fit_equal_rates
from holdfast.sim.host import Host
from holdfast.sim.simulator import Simulation
from holdfast_papers.fifo.networks import network
from holdfast_papers.models import Cell
from holdfast_papers.study import Scale

WINDOW = 400  # differences, as an estimator keeps
LEVEL = 0.05
_WINDOWS = 40  # subscribers looked at in a run
_DRAWS = 100  # of samples from the fitted law
_SECONDS = 60.0
_SEEDS = 5

Arrival = tuple[int, int, int]  # number, departure and arrival, in microseconds
Samples = npt.NDArray[np.float64]


class _RecordedArrivals(Simulation):
    def __init__(self, seed: int) -> None:
        super().__init__(parse_text({**network(), "duration_s": _SECONDS}), seed)
        self.arrived: dict[str, list[Arrival]] = {}

    def _deliver(self, host: Host, effect: Delivered) -> None:
        super()._deliver(host, effect)
        made = effect.publication
        self.arrived.setdefault(host.name, []).append((made.seq, made.time_us, self.now_us))


def cells(scale: Scale) -> list[Cell]:
    return [{"seed": seed, "windows": _WINDOWS, "seconds": _SECONDS} for seed in range(1, _SEEDS + 1)]


def measure(cell: Cell) -> dict[str, Any]:
    run = _RecordedArrivals(cell["seed"])
    run.run()
    dice = Random(f"{cell['seed']}/law")
    windows = list(_windows(run.arrived))
    found = [_tested(each, dice) for each in dice.sample(windows, min(cell["windows"], len(windows)))]
    gaps = [pair for rows in run.arrived.values() for pair in _gaps(rows)]
    swapped = [gap for gap, is_swapped in gaps if is_swapped]
    return {
        "windows": len(found),
        "rejected": fmean(distance > critical for distance, critical, _ in found),
        "distance": fmean(distance for distance, _, _ in found),
        "critical": fmean(critical for _, critical, _ in found),
        "beyond_bound": fmean(beyond for _, _, beyond in found),
        "swapped": len(swapped) / len(gaps),
        "swapped_gap": fmean(swapped) / fmean(gap for gap, _ in gaps),
    }


def _windows(arrived: dict[str, list[Arrival]]) -> Iterator[list[float]]:
    """Of each subscriber that has got enough, the differences of neighbours by number."""
    for rows in arrived.values():
        delays = [arrival - departure for _, departure, arrival in sorted(rows)]
        differences = [float(b - a) for a, b in pairwise(delays)]
        if len(differences) >= WINDOW:
            yield centred(differences[-WINDOW:])


def _gaps(rows: Sequence[Arrival]) -> Iterator[tuple[float, bool]]:
    """For neighbours by number: how far apart they left, and whether the later one came first."""
    for (_, left, came), (_, left_next, came_next) in pairwise(sorted(rows)):
        yield left_next - left, came_next < came


def _tested(differences: list[float], dice: Random) -> tuple[float, float, float]:
    """The distance, what it would have to be for the law to be rejected, and the share beyond Bernstein's bound."""
    law = fit_equal_rates(differences)
    draws = np.random.default_rng(dice.getrandbits(32))
    others = []
    for _ in range(_DRAWS):
        drawn = _drawn(law, draws)
        others.append(_distance(drawn, fit_equal_rates(centred(drawn.tolist()))))
    bound_us = Bernstein(differences).exceeded_with(LEVEL)
    beyond = fmean(each > bound_us for each in differences)
    return _distance(np.array(differences), law), float(np.quantile(others, 1 - LEVEL)), beyond


def _drawn(law: EqualRates, draws: np.random.Generator) -> Samples:
    times = draws.exponential(1 / law.rate, (2, law.brokers, WINDOW)).sum(axis=1)
    return np.asarray(times[0] - times[1])


def _distance(differences: Samples, law: EqualRates) -> float:
    sizes = np.sort(np.abs(differences))
    below = 1 - 2 * np.array([law.tail(each) for each in sizes])  # the law is symmetric
    steps = np.arange(len(sizes) + 1) / len(sizes)
    return float(max(np.max(np.abs(below - steps[1:])), np.max(np.abs(below - steps[:-1]))))
