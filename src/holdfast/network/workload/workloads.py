"""The kinds of workload there are.

Each draws what is published (one stream a publisher, in the order of time), says what a subscriber wants and what a
publisher advertises.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from holdfast.network.workload.content import Content
from holdfast.network.workload.files import Files
from holdfast.network.workload.patterns import Patterns
from holdfast.network.workload.publication import PublishingWindow, ScheduledEvent
from holdfast.network.workload.rates import Rates
from holdfast.network.workload.stock import Stock
from holdfast.network.workload.zipf import Zipf


@dataclass(frozen=True)
class Silent:
    """Nothing but what clients publish and subscribe to by themselves."""

    per_client: ClassVar[int] = 0

    def streams(self, publishers: Sequence[str], seed: int, window: PublishingWindow) -> list[Iterator[ScheduledEvent]]:
        return []

    def conditions(self, number: int, dice: Random) -> list[str]:
        return []

    def advertisement(self) -> str:
        return "FALSE"


Workload = Patterns | Zipf | Rates | Content | Stock | Files | Silent
