"""Publications that overtake each other, and what a latch makes of them: a Monte-Carlo without a network.

One publisher, 200 publications a second, half of them relevant to the one subscriber; four brokers, each of which
keeps every message for a random time of its own (mean 4 ms), so that messages overtake each other as they do where
brokers match in parallel. The subscriber's clock is hours away from the publisher's and 50 ppm slower. Each message
carries a record of the ten before it, so the subscriber knows what is missing and relevant, but not whether it is late
or lost.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.protocol.order.latch import Dropped, Latch, Release

RATE = 200.0  # publications a second
RELEVANT = 0.5
BROKERS = 4
PROCESSING_S = 0.004
RECORD = 10
SHIFT_S = 30.0  # the load changes twice a minute
CLOCK_OFFSET_US = 5 * 3_600_000_000
CLOCK_DRIFT = 50e-6

Floats = npt.NDArray[np.float64]
Travel = Callable[[np.random.Generator, Floats], Floats]  # departures to travel times, in seconds


def exponential(dice: np.random.Generator, departures: Floats) -> Floats:
    return np.asarray(dice.exponential(PROCESSING_S, (len(departures), BROKERS)).sum(axis=1))


def shifting(dice: np.random.Generator, departures: Floats) -> Floats:
    loaded = (departures // SHIFT_S) % 2 == 1
    return exponential(dice, departures) * np.where(loaded, 3, 1)


def pareto(dice: np.random.Generator, departures: Floats) -> Floats:
    shape = 2.6
    times = (1 + dice.pareto(shape, (len(departures), BROKERS))).sum(axis=1)
    return np.asarray(PROCESSING_S * (shape - 1) / shape * times)


def jittery(dice: np.random.Generator, departures: Floats) -> Floats:
    return exponential(dice, departures) + np.abs(dice.normal(0, 0.005, len(departures)))


@dataclass(frozen=True)
class TravelScenario:
    name: str
    travel: Travel
    loss: float


SCENARIOS = (
    TravelScenario("loss 5 %", exponential, 0.05),
    TravelScenario("load x3 shifts, loss 5 %", shifting, 0.05),
    TravelScenario("Pareto 2.6, loss 5 %", pareto, 0.05),
    TravelScenario("jitter 5 ms, loss 1 %", jittery, 0.01),
)


@dataclass(frozen=True)
class Stream:
    """By number; times in microseconds, departures by the publisher's clock and arrivals by the subscriber's."""

    departures_us: list[int]
    arrivals_us: list[int]
    relevant: list[bool]
    lost: list[bool]
    order: list[int]  # the numbers that arrive, in the order in which they do


def draw(scenario: TravelScenario, publications: int, seed: int, drift: float = CLOCK_DRIFT) -> Stream:
    dice = np.random.default_rng([seed, len(scenario.name)])
    departures = np.cumsum(dice.exponential(1 / RATE, publications))
    arrivals_us = ((departures + scenario.travel(dice, departures)) * 1e6).astype(np.int64)
    relevant = dice.random(publications) < RELEVANT
    lost = dice.random(publications) < scenario.loss
    coming = np.nonzero(relevant & ~lost)[0]
    return Stream(
        (departures * (1 + drift) * 1e6).astype(np.int64).tolist(),
        (arrivals_us + CLOCK_OFFSET_US).tolist(),
        relevant.tolist(),
        lost.tolist(),
        coming[np.argsort(arrivals_us[coming], kind="stable")].tolist(),
    )


@dataclass
class ReplayOutcome:
    delivered: int = 0
    late: int = 0
    late_without: int = 0  # what the network alone would have delivered late
    found: int = 0  # noticed missing and came after all
    found_late: int = 0
    held_us: int = 0

    @property
    def removed(self) -> float:
        return 1 - self.late / self.late_without

    @property
    def share(self) -> float:
        """Of the messages that were noticed missing, how many came after a later one had been delivered."""
        return self.found_late / self.found

    @property
    def of_all(self) -> float:
        return self.late / self.delivered

    @property
    def added_ms(self) -> float:
        return self.held_us / self.delivered / 1_000


def replay(stream: Stream, latch: Latch[int], source: str = "publisher", foresight: bool = False) -> ReplayOutcome:
    """With foresight the subscriber knows what is lost, and does not wait for it."""
    outcome = ReplayOutcome()
    come = bytearray(len(stream.relevant))
    noticed = bytearray(len(stream.relevant))
    newest = -1

    def take(effects: list[Release[int] | Dropped[int]]) -> int:
        late = sum(effect.late for effect in effects if isinstance(effect, Release))
        outcome.delivered += len(effects)
        outcome.held_us += sum(effect.held_us for effect in effects if isinstance(effect, Release))
        outcome.late += late
        return late

    for seq in stream.order:
        now_us = stream.arrivals_us[seq]
        while (due_us := latch.next_due_us()) is not None and due_us <= now_us:
            take(latch.on_timer(due_us))
        outcome.late_without += seq < newest
        newest = max(newest, seq)
        gaps = [
            (each, stream.departures_us[each])
            for each in range(max(seq - RECORD, 0), seq)
            if stream.relevant[each] and not come[each] and not (foresight and stream.lost[each])
        ]
        for each, _ in gaps:
            noticed[each] = 1
        come[seq] = 1
        late = take(latch.on_message(source, seq, stream.departures_us[seq], now_us, gaps, seq))
        if noticed[seq]:
            outcome.found += 1
            outcome.found_late += late
    while (due_us := latch.next_due_us()) is not None:
        take(latch.on_timer(due_us))
    return outcome
