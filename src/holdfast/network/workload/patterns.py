"""Events that carry a few of many patterns, and subscriptions to single patterns (paper 001).

Pattern 17 is the attribute `p17`: an event that has the pattern carries `p17 = TRUE`, and `p17 = TRUE` is the
subscription, so that an index finds it by one lookup per pattern of the event.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from holdfast.model.settings import setting
from holdfast.model.values import Value
from holdfast.network.limits import ATTRIBUTES_MAX
from holdfast.network.workload.publication import PublishingWindow, ScheduledEvent, publication
from holdfast.network.workload.traffic import Traffic, dice_of


@dataclass(frozen=True)
class Patterns:
    traffic: Traffic
    per_client: int = setting(
        2,
        "subscriptions of each subscriber",
        "as in paper 001",
        unit="subscriptions",
        at_least=0,
        at_most=10_000,
        key="per_client",
    )
    patterns: int = setting(70, "how many patterns there are", "as in paper 001", at_most=100_000, key="patterns")
    per_event: int = setting(
        3, "different patterns in each event", "as in paper 001", at_most=ATTRIBUTES_MAX, key="per_event"
    )

    def streams(self, publishers: Sequence[str], seed: int, window: PublishingWindow) -> list[Iterator[ScheduledEvent]]:
        names = [f"p{number}" for number in range(1, self.patterns + 1)]
        return [self._stream(client, names, dice_of(seed, client), window) for client in publishers]

    def _stream(
        self, client: str, names: list[str], dice: Random, window: PublishingWindow
    ) -> Iterator[ScheduledEvent]:
        random, traffic, wanted, count = dice.random, self.traffic, self.per_event, len(names)
        payload_bytes, lifetime_us = traffic.payload_bytes, traffic.lifetime_us
        crowded = wanted > count // 2  # then drawing until all differ would take long
        for at_us in traffic.times(dice, window):
            drawn: dict[str, Value] = dict.fromkeys(dice.sample(names, wanted), True) if crowded else {}
            while len(drawn) < wanted:
                drawn[names[int(random() * count)]] = True
            yield publication((at_us, client, drawn, payload_bytes, lifetime_us))

    def conditions(self, number: int, dice: Random) -> list[str]:
        return [f"p{pattern + 1} = TRUE" for pattern in dice.sample(range(self.patterns), self.per_client)]

    def advertisement(self) -> str:
        return "TRUE"  # any pattern may come, and no attribute is in every event
