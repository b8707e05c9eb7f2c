"""How good the planner's closed forms for lossy links are: the simulator beside them (`planner/loss.py`).

A tree of twelve brokers, two publishers, and links that lose messages evenly. Everybody wants three events in ten,
which makes Eq. 1 nearly certain to notice at R = 10 and not at R = 1."""

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from holdfast.network.load import parse_text
from holdfast.pipeline.sweep.check import plan
from holdfast.pipeline.sweep.plan import SweepPlan
from holdfast.planner.loss import forecasts, gossip_of
from holdfast.planner.plan import case_of
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast_papers.claims import Claim
from holdfast_papers.estimates import difference, ratio_of_sums
from holdfast_papers.study import Runs, Scale
from holdfast_papers.verdicts import about

_LOSSES = (0.02, 0.1)
_SECONDS: dict[Scale, float] = {"quick": 20.0, "paper": 120.0}
_SEEDS: dict[Scale, int] = {"quick": 5, "paper": 8}
_WANTED = 0.01  # of the difference; the approximations leave out time, limits and the end of a run
_RECORDS = {"reliability.recovery": "end-to-end", "reliability.scheme": "srm", "reliability.publisher_cache": True}
# Variant -> what the planner calls it, and how it is set.
_VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "best effort": ("best effort", {"reliability.recovery": "none"}),
    "nack": ("nack", {"reliability.hops": "nack"}),
    "digests": ("end-to-end, digests", {"reliability.recovery": "end-to-end"}),
    "records, R = 1": ("end-to-end, records", {**_RECORDS, "reliability.record": 1}),
    "records, R = 10": ("end-to-end, records", {**_RECORDS, "reliability.record": 10}),
    "push": ("gossip, push", {"reliability.gossip": "push", "reliability.gossip_buffer": 100}),
}
_REASONS = {"gossip, push": "; for the shape only"}
_NETWORK: dict[str, Any] = {
    "topology": {"kind": "tree", "brokers": 12, "degree": 4},
    "links": {"delay_ms": 5, "loss": 0.1, "lossy_control": False},
    "clients": {"per_broker": 1, "publishers": 2, "subscribers": "others"},
    "workload": {"kind": "rates", "rates_per_s": [50, 50], "match": [0.3, 0.3]},
}


def loss_plans(scale: Scale) -> Mapping[str, SweepPlan]:
    variants = {name: settings for name, (_, settings) in _VARIANTS.items()}
    fixed = {"duration_s": _SECONDS[scale]}
    return {
        "losses": plan(_NETWORK, {"links.loss": list(_LOSSES)}, variants=variants, seeds=_SEEDS[scale], settings=fixed)
    }


def loss_claims(runs: Runs) -> Iterator[Claim]:
    for name, (mechanism, settings) in _VARIANTS.items():
        for loss in _LOSSES:
            mine = runs.of(variant=name, links__loss=loss)
            share = ratio_of_sums(mine.column("delivered"), mine.column("owed")).value
            # A seed also draws the tree and places the publishers, so that each run has its own expectation.
            expected = [
                _expected(mechanism, {**settings, "links.loss": loss, "seed": row["seed"]})
                for row in sorted(mine.rows, key=lambda row: row["seed"])
            ]
            simulated = [a / b for a, b in zip(mine.column("delivered"), mine.column("owed"), strict=True)]
            yield Claim(
                f"loss-{name}-{loss:g}",
                f"{name}, a share of {loss:g} lost on each link: simulated delivery above the closed form",
                f"within {_WANTED} is wanted",
                difference(simulated, expected),
                about(0, _WANTED),
                "ours",
                f"trees of 12 brokers, seeds 1 to {len(mine.rows)}",
                f"an approximation: {fmean(expected):.5f}; simulated {share:.5f}" + _REASONS.get(mechanism, ""),
            )


def _expected(mechanism: str, settings: Mapping[str, object]) -> float:
    network = parse_text(_NETWORK, settings=settings)
    asked = network.reliability.guarantees.recovery
    record = asked.record if isinstance(asked, SrmSettings) else 0
    found = forecasts(
        case_of(network), RecoverySettings().told, record, network.reliability.hops.nack.tries, gossip_of(network)
    )
    return next(each.delivered for each in found if each.mechanism == mechanism)
