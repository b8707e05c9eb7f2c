"""How long an event waits on a path when every broker keeps it until the next one has it (paper 004, retransmission).

At a hop the event passes at the first moment when the sending broker, the link and the receiving broker are all up.
It has just arrived, so the sender is up; link and receiver are as they usually are. Once it has passed, the receiver
is up whatever happened before, so the waits of successive hops are independent although they share a broker, and the
delay of a path is a convolution without any approximation. Each wait is of phase type: an atom at 0 and seven states
of three components. Before the first hop the publisher waits for its own broker.

Probabilities are of waiting longer, computed from non-negative terms only, so that one in a billion keeps its digits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.planner.components import Component
from holdfast.planner.kernels.wait_trees import STATES
from holdfast.planner.uniformization import Floats, poisson_weights


@dataclass(frozen=True, slots=True)
class Hop:
    sender: Component
    link: Component
    receiver: Component

    @property
    def components(self) -> tuple[Component, Component, Component]:
        return self.sender, self.link, self.receiver


def starts_of(hops: Sequence[Hop]) -> Floats:
    """In which state an event finds each hop, a row each; state 0 is the atom."""
    _, _, link = rates_and_shares([hop.link for hop in hops])
    _, _, receiver = rates_and_shares([hop.receiver for hop in hops])
    return start_shares(link, receiver).T


def start_shares(link: tuple[Floats, Floats], receiver: tuple[Floats, Floats]) -> Floats:
    """From the shares of the time up and down, a row for each state: the sender is up, the others as they usually
    are."""
    starts = np.zeros((STATES, len(link[0])))
    starts[0], starts[2] = link[0] * receiver[0], link[1] * receiver[0]
    starts[4], starts[6] = link[0] * receiver[1], link[1] * receiver[1]
    return starts


def rates_and_shares(parts: Sequence[Component]) -> tuple[Floats, Floats, tuple[Floats, Floats]]:
    """Of many components at once: how often they fail and recover, and their shares of the time up and down."""
    up_s, down_s = np.array([each.up_s for each in parts]), np.array([each.down_s for each in parts])
    fails = (up_s > 0) & (down_s > 0)
    up_s, down_s = np.where(fails, up_s, 1.0), np.where(fails, down_s, 0.0)  # what never fails is always up
    fail, mend = fails / up_s, np.divide(1.0, down_s, out=np.zeros_like(down_s), where=fails)
    return fail, mend, (up_s / (up_s + down_s), down_s / (up_s + down_s))


def generator_of(hop: Hop) -> Floats:
    """The rates between the eight states; row 0 is empty, since the event is gone."""
    rates = np.zeros((STATES, STATES))
    for state in range(1, STATES):
        for bit, component in enumerate(hop.components):
            rate = component.recovery_rate if state >> bit & 1 else component.failure_rate
            rates[state, state ^ 1 << bit] += rate
            rates[state, state] -= rate
    return rates


@dataclass(frozen=True)
class PhaseType:
    """A waiting time: `start` over waiting phases, `rates` among them, and an atom at 0 for the rest."""

    start: Floats
    rates: Floats
    atom: float

    def then(self, other: "PhaseType") -> "PhaseType":
        """One wait after the other: leaving the first enters the second, or passes it at once."""
        leaving = -self.rates.sum(axis=1)
        size, more = len(self.start), len(other.start)
        rates = np.zeros((size + more, size + more))
        rates[:size, :size] = self.rates
        rates[:size, size:] = np.outer(leaving, other.start)
        rates[size:, size:] = other.rates
        return PhaseType(np.concatenate([self.start, self.atom * other.start]), rates, self.atom * other.atom)

    def longer_than(self, t: float) -> float:
        """P(wait > t)."""
        return float(self.start @ _after(self.rates, t).sum(axis=1))

    def mean(self) -> float:
        live = _reachable(self.start, self.rates)
        if not live.any():
            return 0.0
        within = self.rates[np.ix_(live, live)]
        return float(np.linalg.solve(-within.T, self.start[live]).sum())


def wait_at(hop: Hop) -> PhaseType:
    start, rates = starts_of([hop])[0], generator_of(hop)
    return PhaseType(start[1:], rates[1:, 1:], float(start[0]))


def path_wait(hops: Sequence[Hop]) -> PhaseType:
    total = wait_at(hops[0])
    for hop in hops[1:]:
        total = total.then(wait_at(hop))
    return total


def _after(rates: Floats, t: float) -> Floats:
    """exp(rates · t) without cancellation: a short time by uniformization, doubled as often as needed."""
    fastest = float(-rates.diagonal().min(initial=0.0))
    result = np.eye(len(rates))
    if fastest == 0 or t == 0:
        return result
    doublings = max(0, int(np.ceil(np.log2(fastest * t))))
    jump = np.eye(len(rates)) + rates / fastest
    short, power = np.zeros_like(rates), result
    for weight in poisson_weights(fastest * t / 2.0**doublings):
        short += weight * power
        power = power @ jump
    for _ in range(doublings):
        short = short @ short
    return short


def _reachable(start: Floats, rates: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Phases that the wait may pass through; those of components that never fail would make a singular system."""
    live = start > 0
    while True:
        wider = live | (live @ (rates > 0))
        if (wider == live).all():
            return live
        live = wider
