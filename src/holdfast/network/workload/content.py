"""Events of ten attributes and subscriptions of several tests each, with chosen match probabilities (paper 000).

A publisher has some kinds of events, all as likely. A kind is its source and a few attributes with values of their
own; the other attributes are noise. A subscriber wants some kinds of each publisher, as many as its match probability
with that publisher says, and its condition is one conjunction of equalities for each: `source = 'c1' AND a1 = 7 AND
a2 = 31 AND a3 = 2`. So a pair matches as often as drawn, no event is wider than another, and a Bloom filter of 256
bits hardly ever errs; with one test alone it errs several times for each true loss. With a popularity above 0 a few
kinds interest many: subscribers draw kinds with log-normal weights.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp
from random import Random
from typing import ClassVar

from holdfast.language.constraint import Constraint
from holdfast.model.settings import setting
from holdfast.model.values import Value
from holdfast.network.limits import ATTRIBUTES_MAX
from holdfast.network.workload.publication import PublishingWindow, ScheduledEvent, publication
from holdfast.network.workload.traffic import Profile, dice_of

_VALUES = 50  # of each attribute that is tested: as many as there are causes, regions or priorities of something
_FILLER_BITS = 16  # the others only make events as wide as the paper's; 65,536 values hardly ever repeat


@dataclass(frozen=True)
class Content:
    traffic: Profile
    match: tuple[float, float] = (0.0, 0.1)
    kinds: int = setting(
        40,
        "kinds of events that each publisher has",
        "the fewest that tell 0.08 from 0.1; a condition has one conjunction for each kind that it wants",
        unit="kinds",
        at_most=10_000,
        key="kinds",
    )
    tests: int = setting(
        4,
        "equalities in each conjunction of a condition, one of them on the source",
        "Bloom filters of paper 000 then hardly ever err",
        unit="tests",
        at_most=100,
        key="tests",
    )
    popularity: float = setting(
        0.0,
        "spread of the log-normal weight with which subscribers choose a kind",
        "all kinds alike",
        at_least=0,
        at_most=5,
        key="popularity",
    )
    attributes: int = setting(
        10,
        "of each event, those beyond the tested ones being noise",
        "as in paper 000",
        unit="attributes",
        at_most=ATTRIBUTES_MAX,
        key="attributes",
    )
    publishers: tuple[str, ...] = ()
    per_client: ClassVar[int] = 1

    def streams(self, publishers: Sequence[str], seed: int, window: PublishingWindow) -> list[Iterator[ScheduledEvent]]:
        return [self._stream(client, dice_of(seed, client), window) for client in publishers]

    def _stream(self, client: str, dice: Random, window: PublishingWindow) -> Iterator[ScheduledEvent]:
        traffic, count = self.traffic, self.kinds
        tested = [_values(client, number, self.tests) for number in range(count)]
        noise = [f"a{number}" for number in range(self.tests, self.attributes)]
        for at_us in traffic.times(dice, window):
            attributes: dict[str, Value] = {**tested[int(dice.random() * count)]}
            for name in noise:
                attributes[name] = dice.getrandbits(_FILLER_BITS)
            yield publication((at_us, client, attributes, traffic.payload_bytes, traffic.lifetime_us))

    def conditions(self, number: int, dice: Random) -> list[str]:
        low, high = self.match
        wanted = []
        for publisher in self.publishers:
            share = low + (high - low) * dice.random()
            count = int(share * self.kinds + dice.random())  # rounded up as often as keeps the mean
            for kind in self._drawn(publisher, count, dice):
                tests = (Constraint(name, "=", value) for name, value in _values(publisher, kind, self.tests).items())
                wanted.append(" AND ".join(map(str, tests)))
        return [" OR ".join(wanted)] if wanted else ["FALSE"]

    def _drawn(self, publisher: str, count: int, dice: Random) -> list[int]:
        """Different kinds, each with the weight of its popularity: the first to come, if each comes at that rate."""
        weights = _weights(publisher, self.kinds, self.popularity)
        times = [dice.expovariate(1.0) / weight for weight in weights]
        return sorted(sorted(range(self.kinds), key=times.__getitem__)[:count])

    def advertisement(self) -> str:
        return "source IS NOT NULL"


@cache
def _weights(publisher: str, kinds: int, popularity: float) -> tuple[float, ...]:
    """The same for every subscriber and every seed."""
    dice = Random(f"{publisher}/popularity")
    return tuple(exp(dice.gauss(0.0, popularity)) for _ in range(kinds))


@cache
def _values(publisher: str, kind: int, tests: int) -> dict[str, Value]:
    dice = Random(f"{publisher}/kind {kind}")
    return {"source": publisher, **{f"a{number}": int(dice.random() * _VALUES) for number in range(1, tests)}}
