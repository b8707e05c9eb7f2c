"""One attribute with skewed values, and subscriptions to the values above a bound (paper 003).

Publications are `{attr: v}` and conditions `attr > w`, where v and w are drawn from 1 to `values`, the n-th in
proportion to 1/n**skew. `favour = "high"` turns the publications around, so that most of them match.
"""

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import Literal

from holdfast.model.settings import setting
from holdfast.model.values import Value
from holdfast.network.workload.publication import PublishingWindow, ScheduledEvent, publication
from holdfast.network.workload.traffic import Traffic, dice_of


@lru_cache(maxsize=8)  # every client of a workload asks for the same one
def cumulative(count: int, skew: float) -> tuple[float, ...]:
    """Where a number drawn from 0 to 1 falls is the rank, counted from 0: `bisect(cumulative(...), drawn)`."""
    weights = [rank**-skew for rank in range(1, count + 1)]
    total = sum(weights)
    # The last bound is left out: rounding could put it below 1, and then a draw could fall past the last rank.
    return tuple(sums / total for sums in accumulate(weights))[:-1]


@dataclass(frozen=True)
class Zipf:
    traffic: Traffic
    per_client: int = setting(
        1,
        "subscriptions of each subscriber",
        "as in paper 003",
        unit="subscriptions",
        at_least=0,
        at_most=10_000,
        key="per_client",
    )
    values: int = setting(
        20, "the attribute's values, from 1", "as in paper 003", at_least=2, at_most=1_000_000, key="values"
    )
    skew: float = setting(
        0.5,
        "the n-th value comes in proportion to 1/n**skew",
        "as in paper 003",
        at_least=0,
        at_most=10,
        key="skew",
    )
    favour: Literal["low", "high"] = setting(
        "low", "which values publications prefer", "as conditions do", key="favour"
    )

    def streams(self, publishers: Sequence[str], seed: int, window: PublishingWindow) -> list[Iterator[ScheduledEvent]]:
        bounds = cumulative(self.values, self.skew)
        return [self._stream(client, bounds, dice_of(seed, client), window) for client in publishers]

    def _stream(
        self, client: str, bounds: Sequence[float], dice: Random, window: PublishingWindow
    ) -> Iterator[ScheduledEvent]:
        random, traffic = dice.random, self.traffic
        highest = self.values if self.favour == "high" else 0
        for at_us in traffic.times(dice, window):
            value = bisect(bounds, random()) + 1
            attributes: dict[str, Value] = {"attr": highest + 1 - value if highest else value}
            yield publication((at_us, client, attributes, traffic.payload_bytes, traffic.lifetime_us))

    def conditions(self, number: int, dice: Random) -> list[str]:
        bounds = cumulative(self.values, self.skew)
        return [f"attr > {bisect(bounds, dice.random()) + 1}" for _ in range(self.per_client)]

    def advertisement(self) -> str:
        return f"attr BETWEEN 1 AND {self.values}"
