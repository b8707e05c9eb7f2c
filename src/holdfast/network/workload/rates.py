"""Chosen match probabilities and rates that jump (paper 000).

Each pair of a publisher and a subscriber has its own match probability, drawn evenly between two bounds: with 0
and 0.1 that is the paper's "80 % of the pairs below 0.08, none above 0.1". Subscriber 17 wants `t17 = TRUE`, and
a publication carries the topics of those it concerns, drawn one by one. With a popularity above 0 all chances
of one publication are multiplied by a log-normal factor of mean 1, which makes a few publications interest many.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log1p
from random import Random
from typing import ClassVar

from holdfast.model.settings import setting
from holdfast.model.values import Value
from holdfast.network.limits import ATTRIBUTES_MAX
from holdfast.network.workload.publication import PublishingWindow, ScheduledEvent, publication
from holdfast.network.workload.traffic import Profile, dice_of

_FILLER_BITS = 16  # fillers only make events as long as the paper's; 65,536 values hardly ever repeat


@dataclass(frozen=True)
class Rates:
    traffic: Profile
    match: tuple[float, float] = (0.0, 0.1)
    popularity: float = setting(
        0.0,
        "spread of the log-normal factor on all chances of one event",
        "the chances alone",
        at_least=0,
        at_most=5,
        key="popularity",
    )
    attributes: int = setting(
        10,
        "of each event at least, filled up with noise",
        "as in paper 000",
        unit="attributes",
        at_most=ATTRIBUTES_MAX,
        key="attributes",
    )
    subscribers: int = 0
    per_client: ClassVar[int] = 1

    def streams(self, publishers: Sequence[str], seed: int, window: PublishingWindow) -> list[Iterator[ScheduledEvent]]:
        topics = [f"t{number}" for number in range(1, self.subscribers + 1)]
        return [self._stream(client, topics, seed, window) for client in publishers]

    def chances(self, seed: int, publisher: str) -> "array[float]":
        """The match probability of each subscriber with this publisher, before popularity."""
        dice = Random(f"{seed}/{publisher}/chances")
        low, high = self.match
        return array("d", (low + (high - low) * dice.random() for _ in range(self.subscribers)))

    def _stream(self, client: str, topics: list[str], seed: int, window: PublishingWindow) -> Iterator[ScheduledEvent]:
        dice, chances, traffic = dice_of(seed, client), self.chances(seed, client), self.traffic
        spread, fillers = self.popularity, [f"a{number}" for number in range(1, self.attributes)]
        for at_us in traffic.times(dice, window):
            popular = exp(dice.gauss(-spread * spread / 2, spread)) if spread else 1.0
            attributes: dict[str, Value] = {"source": client}
            for number in _concerned(dice, chances, popular, self.match[1]):
                attributes[topics[number]] = True
            for name in fillers[: max(0, self.attributes - len(attributes))]:
                attributes[name] = dice.getrandbits(_FILLER_BITS)
            yield publication((at_us, client, attributes, traffic.payload_bytes, traffic.lifetime_us))

    def conditions(self, number: int, dice: Random) -> list[str]:
        return [f"t{number + 1} = TRUE"]

    def advertisement(self) -> str:
        return "source IS NOT NULL"


def _concerned(dice: Random, chances: "array[float]", popular: float, highest: float) -> Iterator[int]:
    """Whom a publication concerns: candidates at the highest chance by leaps, then each by its own share of that."""
    random, at, count = dice.random, -1, len(chances)
    ceiling = min(1.0, highest * popular)
    if ceiling <= 0:
        return
    scale = log1p(-ceiling) if ceiling < 1 else 0.0
    while True:
        at += 1 + int(log1p(-random()) / scale) if scale else 1
        if at >= count:
            return
        if random() * ceiling < chances[at] * popular:
            yield at
