"""What the benchmark of publication records encodes: events with a schema, with locality, and of our own workloads.

`schema_events` and `schema_conditions` are the setting of the specification's table C.4: five texts with Zipf
frequencies (20 to 200 different ones) and five even numbers; conditions are conjunctions of equalities and ranges on
them, with constants as frequent as the values. `local_events` change each of ten attributes with a given probability.
"""

from bisect import bisect
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random

from holdfast.model.values import Value
from holdfast.network.workload.publication import PublishingWindow
from holdfast.network.workload.rates import Rates
from holdfast.network.workload.stock import Stock
from holdfast.network.workload.traffic import Profile, Traffic
from holdfast.network.workload.zipf import Zipf, cumulative

Event = dict[str, Value]
Timed = tuple[int, Event]  # when it left, in microseconds

_TEXTS = {"s1": 20, "s2": 40, "s3": 80, "s4": 120, "s5": 200}  # how many different ones
_NUMBERS = ("n1", "n2", "n3", "n4", "n5")
_RANGE = 1_000.0
SHAPES = {"1 eq": (1, 0), "1 eq + 1 range": (1, 1), "2 eq + 1 range": (2, 1), "3 eq": (3, 0)}


def _text(dice: Random, name: str) -> str:
    number = bisect(cumulative(_TEXTS[name], 1.0), dice.random())
    return f"{name}-{number * 7 % _TEXTS[name]:03}"


def schema_event(dice: Random) -> Event:
    event: Event = {name: _text(dice, name) for name in _TEXTS}
    return event | {name: round(dice.random() * _RANGE, 3) for name in _NUMBERS}


def schema_condition(dice: Random, shape: str) -> str:
    equalities, ranges = SHAPES[shape]
    tests = [f"{name} = '{_text(dice, name)}'" for name in dice.sample(sorted(_TEXTS), equalities)]
    for name in dice.sample(_NUMBERS, ranges):
        bound = round(dice.random() * _RANGE, 3)
        width = round(dice.random() * _RANGE / 2, 3)
        kinds = (f"{name} < {bound}", f"{name} > {bound}", f"{name} BETWEEN {bound} AND {bound + width}")
        tests.append(dice.choice(kinds))
    return " AND ".join(tests)


def local_events(changed_ratio: float, seed: int = 5) -> Iterator[Timed]:
    """100 publications a second at random; each attribute is drawn anew with this probability."""
    dice = Random(f"{seed}/local")
    event, at_us = schema_event(dice), 0.0
    while True:
        drawn = schema_event(dice)
        event = {name: drawn[name] if dice.random() < changed_ratio else value for name, value in event.items()}
        at_us += dice.expovariate(100 / 1e6)
        yield int(at_us), event


_WINDOW = PublishingWindow(0, 600_000_000)
_SPIKES = Profile(20, 500, (500_000, 2_000_000), 0.05)  # the paper's rates
_SPIKES_LARGE = Profile(20, 250, (500_000, 2_000_000), 0.05)
TOPICS_SMALL = tuple(f"t{number}" for number in range(1, 55))
TOPICS_LARGE = tuple(f"t{number}" for number in range(1, 221))


def _drawn(workload: Rates | Stock | Zipf) -> Iterator[Timed]:
    for each in workload.streams(["p1"], 1, _WINDOW)[0]:
        yield each.at_us, each.attributes


WORKLOADS: dict[str, Callable[[], Iterator[Timed]]] = {
    "locality 0.1": lambda: local_events(0.1),
    "locality 0.3": lambda: local_events(0.3),
    "locality 0.5": lambda: local_events(0.5),
    "rates, 54 subscribers": lambda: _drawn(Rates(_SPIKES, subscribers=len(TOPICS_SMALL))),
    "rates, 220 subscribers": lambda: _drawn(Rates(_SPIKES_LARGE, popularity=1.6, subscribers=len(TOPICS_LARGE))),
    "stock": lambda: _drawn(Stock(Traffic(100))),
    "zipf": lambda: _drawn(Zipf(Traffic(100), 1)),
}
FOCUS = {"rates, 54 subscribers": TOPICS_SMALL, "rates, 220 subscribers": TOPICS_LARGE}  # what conditions test


def events(workload: str, count: int) -> list[Timed]:
    return list(islice(WORKLOADS[workload](), count))
