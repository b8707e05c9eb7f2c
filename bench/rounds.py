"""One workload, all contestants, in turns: the measuring itself.

The machine is shared and noisy, so contestants are interleaved: each round runs every one of them once, and
each keeps its best round; a short workload gets more rounds, for everyone alike. Before that, a contestant
with several shapes tries each on a small part and keeps the fastest, and one that would take too long is
cut down to a part of the subscriptions. Whatever part a contestant was given, it must find as many pairs
there as Holdfast did, or the whole run is an error: a wrong answer has no speed.
"""

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

from bench.contestants import Contestant, HoldfastBatch, Outcome
from bench.workloads import Workload

RUN_SECONDS_MAX = 12.0  # expected time of one run above which only a part of the subscriptions is measured
PILOT_MIN, PILOT_MAX = 1_000, 2_000  # subscriptions that shapes are tried on: with 200, chance decided
ROUNDS_MAX = 10


class Disagreement(Exception):
    """Two contestants count different numbers of pairs on the same work."""


@dataclass(frozen=True)
class Row:
    workload: str
    events: int
    subscriptions: int
    contestant: str
    threads: int
    shape: str
    measured_events: int
    measured_subscriptions: int
    rounds: int
    pairs: int  # on the measured part
    seconds: float  # best round, scaled to the whole work
    events_per_second: float

    @property
    def whole(self) -> bool:
        return (self.measured_events, self.measured_subscriptions) == (self.events, self.subscriptions)

    @property
    def label(self) -> str:
        return f"{self.contestant} ({self.threads} thread{'s' if self.threads > 1 else ''})"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Entry:
    """A contestant, prepared, and the part of the work that it was given."""

    contestant: Contestant
    part: Workload


_BEGAN = monotonic()


def say(progress: str) -> None:
    print(f"{monotonic() - _BEGAN:5.0f} s  {progress}", file=sys.stderr, flush=True)


def settle(work: Workload, shapes: Sequence[Callable[[], Contestant]]) -> Entry:
    """Try the shapes on a few subscriptions, keep the fastest, and prepare it for what it can do in time."""
    events, subscriptions = work.size
    few = min(subscriptions, PILOT_MAX, max(PILOT_MIN, subscriptions // 10))
    tried: list[tuple[float, Contestant]] = []
    for make in shapes:
        contestant = make()
        contestant.prepare(work.part(events, few))
        first = contestant.run()
        again = contestant.run() if first.seconds < 2 else first  # the first run of all may be a cold start
        tried.append((min(first.seconds, again.seconds), contestant))
    seconds, contestant = min(tried, key=lambda each: each[0])
    expected = seconds * subscriptions / few
    kept = subscriptions
    if expected > RUN_SECONDS_MAX:
        kept = max(few, int(subscriptions * RUN_SECONDS_MAX / expected) // 100 * 100)
    part = work.part(events, kept)
    contestant.prepare(part)
    return Entry(contestant, part)


def compare(
    work: Workload, holdfast: HoldfastBatch, entries: list[Entry], rounds_min: int, seconds: float = 0
) -> list[Row]:
    """Rounds until there are enough and the seconds are used up; `holdfast` is prepared for all the work."""
    found = holdfast.found()
    everyone = [Entry(holdfast, work), *entries]
    expected = [found.within(*each.part.size) for each in everyone]
    del found
    best: list[Outcome] = []
    gc.collect()
    gc.freeze()  # what others prepared is not walked through by the collector while one of them runs
    try:
        began, rounds = monotonic(), 0
        while rounds < rounds_min or (rounds < ROUNDS_MAX and monotonic() - began < seconds):
            rounds += 1
            for i, entry in enumerate(everyone):
                outcome = entry.contestant.run()
                _agree(entry, outcome.pairs, expected[i])
                if len(best) == i:
                    best.append(outcome)
                elif outcome.seconds < best[i].seconds:
                    best[i] = outcome
    finally:
        gc.unfreeze()
    return [_row(work, entry, outcome, rounds) for entry, outcome in zip(everyone, best, strict=True)]


def _agree(entry: Entry, pairs: int, expected: int) -> None:
    if pairs != expected:
        events, subscriptions = entry.part.size
        raise Disagreement(
            f"{entry.part.name}, {events:,} events and {subscriptions:,} subscriptions: "
            f"{entry.contestant.name} {entry.contestant.shape} found {pairs:,} pairs, holdfast {expected:,}"
        )


def _row(work: Workload, entry: Entry, outcome: Outcome, rounds: int) -> Row:
    events, subscriptions = work.size
    measured_events, measured_subscriptions = entry.part.size
    seconds = outcome.seconds * (events / measured_events) * (subscriptions / measured_subscriptions)
    contestant = entry.contestant
    return Row(
        work.name, events, subscriptions, contestant.name, contestant.threads, contestant.shape,
        measured_events, measured_subscriptions, rounds, outcome.pairs, seconds, events / seconds,
    )  # fmt: skip
