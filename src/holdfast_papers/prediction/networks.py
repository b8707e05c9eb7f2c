"""The networks of paper 004, and what prediction and simulation say of each: one row a subscriber, scheme and reading.

Ten brokers, everything with a period of 60,000 s, links up 0.99 of the time, low-end brokers between 0.90 and 0.95,
high-end ones between 0.99 and 0.999, events that live an hour. At each broker one client publishes and another one
wants what is published elsewhere. The simulation is the one of failures alone (`failures`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from statistics import fmean
from typing import Any

from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from holdfast.planner.disjoint_paths import alternates, disjoint_bound
from holdfast.planner.hybrid import late_alone
from holdfast.planner.overlay import Overlay, Path
from holdfast.planner.pairs import Predictor
from holdfast.planner.plan import Endpoints, case_of, predict
from holdfast_papers.prediction import slides
from holdfast_papers.prediction.failures import SCHEMES, simulate

BROKERS = 10
LIFETIME_S = 3_600.0
READINGS: tuple[Endpoints, ...] = ("counted", "assumed-up")
CLASSES = {"low-end": (0.90, 0.95), "high-end": (0.99, 0.999)}
TOPOLOGIES: dict[str, dict[str, object]] = {
    "trees": {"kind": "tree", "shape": "attached"},
    "graphs": {"kind": "random"},
}


@dataclass(frozen=True)
class PredictionSetting:
    topology: str
    quality: str
    seed: int
    worlds: int
    lifetime_s: float = LIFETIME_S
    mean_degree: float = 4  # of graphs


def network_file(setting: PredictionSetting, every_s: float = 100.0) -> dict[str, Any]:
    names = [f"b{at + 1}" for at in range(BROKERS)]
    low, high = CLASSES[setting.quality]
    published = {"every_s": every_s, "lifetime_s": setting.lifetime_s}
    clients: list[dict[str, object]] = [
        {"id": f"from-{name}", "broker": name, "publish": [{**published, "attributes": {"home": name}}]}
        for name in names
    ]
    clients += [{"id": f"at-{name}", "broker": name, "subscriptions": [f"home <> '{name}'"]} for name in names]
    shape = TOPOLOGIES[setting.topology] | (
        {"mean_degree": setting.mean_degree} if setting.topology == "graphs" else {}
    )
    return {
        "seed": setting.seed,
        "duration_s": 600_000.0,
        "routing": "destinations",
        "topology": {**shape, "brokers": names},
        "brokers": {"availability": [low, high], "cycle_s": 60_000},
        "links": {"delay_ms": 0, "availability": 0.99, "cycle_s": 60_000},
        "client": clients,
    }


def network_of(setting: PredictionSetting) -> Network:
    return parse_text(network_file(setting))


def rows_of(setting: PredictionSetting) -> Iterator[dict[str, Any]]:
    """Predicted and simulated reliability of every subscriber, with the end brokers counted and assumed up."""
    case = case_of(network_of(setting))
    overlay = case.overlay
    paths = [
        path
        for target in range(BROKERS)
        for source in range(BROKERS)
        if source != target and (path := overlay.path(source, target)) is not None
    ]
    groups = [path.brokers[-1] for path in paths]
    name = f"{setting.topology}/{setting.quality}/{setting.seed}"
    sample = simulate(overlay, paths, LIFETIME_S, setting.worlds, name, groups)
    shares, errors = sample.group_reliability(), sample.group_errors()
    odd = _slides(overlay, paths, Predictor(overlay))
    for each in predict(case, Predictor(overlay)):
        home = overlay.number[each.broker]
        for reading, schemes in enumerate((each.counted, each.assumed_up)):
            for at, scheme in enumerate(SCHEMES):
                column = len(SCHEMES) * reading + at
                yield {
                    "topology": setting.topology,
                    "quality": setting.quality,
                    "seed": setting.seed,
                    "subscriber": each.subscriber,
                    "endpoints": READINGS[reading],
                    "scheme": scheme,
                    "predicted": getattr(schemes, scheme),
                    "bound": schemes.multipath_bound if scheme == "multipath" else None,
                    "method": each.method,
                    "simulated": float(shares[home, column]),
                    "error": float(errors[home, column]),
                    "worlds": setting.worlds,
                    "slides": odd[home].get(scheme) if reading == 0 else None,
                }


def exact_misses(setting: PredictionSetting) -> dict[str, Any]:
    """What the prediction alone says of a network, without a simulation: mean shares missed, by scheme and reading."""
    case = case_of(network_of(setting))
    found = list(predict(case, Predictor(case.overlay)))
    return {
        f"{endpoints}/{scheme}": fmean(1 - each.of(scheme, endpoints) for each in found)
        for endpoints in READINGS
        for scheme in SCHEMES
    }


def hop_errors(setting: PredictionSetting) -> Iterator[dict[str, Any]]:
    """P(late) by the convolution of independent waits and by the chain of the whole path, which assumes no such
    thing."""
    overlay = case_of(network_of(setting)).overlay
    predictor = Predictor(overlay, wanted=frozenset({"retransmission"}))
    for target in range(BROKERS):
        for pair in predictor.to(target, [(source, LIFETIME_S) for source in range(BROKERS) if source != target]):
            path = overlay.path(pair.source, target)
            for ends_up, schemes in ((False, pair.counted), (True, pair.assumed_up)):
                together = late_alone(overlay, path, LIFETIME_S, ends_up) if path is not None else None
                if together is not None:
                    late = 1 - schemes.retransmission
                    yield {"seed": setting.seed, "apart": late, "together": together, "error": abs(late - together)}


def _slides(overlay: Overlay, paths: list[Path], predictor: Predictor) -> dict[int, dict[str, float]]:
    """What the slides' formulas give a subscriber: the mean over its publishers."""
    found: dict[int, dict[str, float]] = {
        at: dict.fromkeys(("basic", "multipath", "hybrid"), 0.0) for at in range(BROKERS)
    }
    for path in paths:
        source, target = path.brokers[0], path.brokers[-1]
        [pair] = predictor.to(target, [(source, LIFETIME_S)])
        share = 1 / (BROKERS - 1)
        parts = [overlay.brokers[each] for each in path.brokers] + [
            overlay.links[each].component for each in path.links
        ]
        found[target]["basic"] += share * prod(map(slides.availability, parts))
        disjoint = disjoint_bound(overlay, source, target).paths
        found[target]["multipath"] += share * slides.multipath(overlay, disjoint)
        others = alternates(overlay, path).paths
        found[target]["hybrid"] += share * slides.hybrid(overlay, pair.counted.retransmission, others)
    return found
