"""What every subscriber will get, scheme by scheme: pairs of brokers weighed by who publishes what (paper 004)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np

from holdfast.network.schema import Network
from holdfast.planner.demand import Demand, demand_of
from holdfast.planner.overlay import Overlay, overlay_of
from holdfast.planner.pairs import EVERY_SCHEME, METHODS, PROFILE, Method, PairsTo, Predictor, Schemes
from holdfast.planner.uniformization import Floats

Endpoints = Literal["counted", "assumed-up"]
SCHEMES = ("basic", "multipath", "retransmission", "hybrid")  # from cheap to dear, see docs/planning.md


@dataclass(frozen=True)
class SubscriberPrediction:
    """Of one subscriber; shares of the events it wants that arrive within their lifetime."""

    subscriber: str
    broker: str
    counted: Schemes
    assumed_up: Schemes
    multipath_method: Method
    hybrid_method: Method
    error: float  # half of the 95 % interval where the method is Monte Carlo
    waiting: tuple[float, ...]  # with retransmission: P(delayed by failures for longer than PROFILE of the lifetime)
    weakest: str  # the publishers' broker from which least arrives

    def of(self, scheme: str, endpoints: Endpoints) -> float:
        return float(getattr(self.counted if endpoints == "counted" else self.assumed_up, scheme))

    @property
    def method(self) -> str:
        """Of all schemes in one word or two: what is not exact is named."""
        odd = [f"multipath {self.multipath_method}"] if self.multipath_method != "exact" else []
        odd += [f"hybrid {self.hybrid_method}"] if self.hybrid_method != "exact" else []
        return ", ".join(odd) or "exact"

    def as_json(self, endpoints: Endpoints, lifetime_s: float | None) -> dict[str, object]:
        shown, other = self.counted, self.assumed_up
        if endpoints == "assumed-up":
            shown, other = other, shown
        delays = (
            [[share * lifetime_s, 1 - late] for share, late in zip(PROFILE, self.waiting, strict=True)]
            if lifetime_s
            else []
        )
        return {
            "subscriber": self.subscriber,
            "broker": self.broker,
            **shown._asdict(),
            "method": self.method,
            "methods": {
                "basic": "exact",
                "retransmission": "exact",
                "multipath": self.multipath_method,
                "multipath_bound": "bound",
                "hybrid": self.hybrid_method,
            },
            "interval": self.error,
            "endpoints": endpoints,
            ("assumed_up" if endpoints == "counted" else "counted"): other._asdict(),
            "delay": {"retransmission": delays},
            "weakest_publisher_broker": self.weakest,
        }


@dataclass(frozen=True)
class Case:
    """What a prediction is about: the graph and who wants what."""

    overlay: Overlay
    demand: Demand

    @property
    def lifetime_s(self) -> float | None:
        """The events' lifetime if they all have the same one."""
        found = {origin.lifetime_s for origin in self.demand.origins}
        return found.pop() if len(found) == 1 and inf not in found else None


def case_of(network: Network) -> Case:
    return Case(overlay_of(network), demand_of(network))


def predict(
    case: Case, predictor: Predictor, subscribers: Iterable[int] | None = None
) -> Iterator[SubscriberPrediction]:
    """For these subscribers, or all: those of one broker together, in the order of the file's brokers."""
    for home, members in by_home(case, subscribers).items():
        yield from predict_home(case, predictor, home, members)


def by_home(case: Case, subscribers: Iterable[int] | None = None) -> dict[int, list[int]]:
    """The subscribers of each broker that has some, in the order of the file's brokers."""
    found: dict[int, list[int]] = defaultdict(list)
    for at in range(len(case.demand.subscribers)) if subscribers is None else subscribers:
        found[case.overlay.number[case.demand.subscribers[at].broker]].append(at)
    return dict(sorted(found.items()))


def predict_home(
    case: Case, predictor: Predictor, home: int, subscribers: Sequence[int]
) -> Iterator[SubscriberPrediction]:
    """For subscribers of one broker. Those who weigh publishers alike share one prediction."""
    demand, number = case.demand, case.overlay.number
    pairs = predictor.to(home, [(number[origin.broker], origin.lifetime_s) for origin in demand.origins])
    alike: dict[bytes, SubscriberPrediction] = {}
    for at in subscribers:
        who, shares = demand.subscribers[at], demand.weights(at)
        key = shares.tobytes()
        if key not in alike:
            alike[key] = _weighed(who.id, who.broker, pairs, shares, case.overlay.names)
        made = alike[key]
        yield made if made.subscriber == who.id else _renamed(made, who.id)


def _renamed(made: SubscriberPrediction, name: str) -> SubscriberPrediction:
    fields = {field: getattr(made, field) for field in made.__dataclass_fields__}
    return SubscriberPrediction(**{**fields, "subscriber": name})


def _weighed(name: str, broker: str, pairs: PairsTo, shares: Floats, names: Sequence[str]) -> SubscriberPrediction:
    used = np.flatnonzero(shares > 0)
    weakest = used[np.argmin(pairs.counted[used, Schemes._fields.index("retransmission")])] if len(used) else None
    return SubscriberPrediction(
        name,
        broker,
        Schemes(*(shares @ pairs.counted).tolist()),
        Schemes(*(shares @ pairs.assumed_up).tolist()),
        METHODS[pairs.multipath_method[used].max(initial=0)],
        METHODS[pairs.hybrid_method[used].max(initial=0)],
        float(shares @ pairs.errors),
        tuple((shares @ pairs.waiting).tolist()),
        "" if weakest is None else names[pairs.sources[weakest]],
    )


def plan(case: Case, samples: int, seed: int, wanted: frozenset[str] = EVERY_SCHEME) -> list[SubscriberPrediction]:
    return list(predict(case, Predictor(case.overlay, samples, f"{seed}/plan", wanted)))
