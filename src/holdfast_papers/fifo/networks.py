"""The network of paper 002: eight brokers with fifty clients each, fifty publishers and 350 subscribers.

Brokers match in parallel, which is what lets later events overtake earlier ones; links keep the order and lose one
message in a hundred. The slides tell neither rates nor what subscribers want: here each follows one publisher and
wants half of its events, so that a latch can learn within a run.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

from holdfast.pipeline.sweep.check import plan
from holdfast.pipeline.sweep.plan import SweepPlan
from holdfast_papers.study import Scale

BROKERS, PER_BROKER, PUBLISHERS = 8, 50, 50
SERVERS, SERVICE_MS = 16, 10.0
RATE_PER_S = 20.0
_HALF = 2**15  # of the values of the attribute that conditions test

NONE, IN_TURN = "best effort", "best effort, one server"
LAW, RULE, DEFAULT = "parametric", "parametric, of all", "age-conformal"
TARGET, RULE_TARGET = 0.005, 0.05  # that of the violations, and the paper's own, of all events
VARIANTS: dict[str, dict[str, object]] = {
    NONE: {"reliability.order": "none"},
    # As quick in all, one message after the other.
    IN_TURN: {"reliability.order": "none", "brokers.servers": 1, "brokers.service_ms": SERVICE_MS / SERVERS},
    LAW: {"reliability.order": "fifo", "reliability.order_estimator": LAW, "reliability.order_target": TARGET},
    RULE: {
        "reliability.order": "fifo",
        "reliability.order_estimator": LAW,
        "reliability.order_target": RULE_TARGET,
        "reliability.order_of": "all",
    },
    DEFAULT: {"reliability.order": "fifo", "reliability.order_estimator": DEFAULT, "reliability.order_target": TARGET},
}
# Each run is there twice, short and long: what differs is what happens once the latches have learned.
WARM_S: dict[Scale, float] = {"quick": 10.0, "paper": 60.0}
SECONDS: dict[Scale, float] = {"quick": 25.0, "paper": 300.0}
SEEDS = 5


def network() -> dict[str, Any]:
    brokers = [f"b{number}" for number in range(1, BROKERS + 1)]
    places = [broker for broker in brokers for _ in range(PER_BROKER)]
    publishing = sorted(Random("publishers").sample(range(len(places)), PUBLISHERS))
    clients: list[dict[str, object]] = []
    others = [at for at in range(len(places)) if at not in set(publishing)]
    for at in publishing:
        clients.append({"id": f"p{at}", "broker": places[at], "publishes": True})
    for number, at in enumerate(others):
        followed = f"p{publishing[number % PUBLISHERS]}"
        wanted = [f"source = '{followed}' AND a1 < {_HALF}"]
        clients.append({"id": f"s{at}", "broker": places[at], "subscriptions": wanted})
    return {
        "routing": "subscriptions",
        "topology": {"kind": "tree", "brokers": brokers, "degree": 3},
        "brokers": {"service_ms": SERVICE_MS, "service": "exponential", "servers": SERVERS},
        "links": {"delay_ms": 1, "loss": 0.01},
        "workload": {"kind": "rates", "rates_per_s": [RATE_PER_S, RATE_PER_S], "match": [0, 0], "attributes": 2},
        "client": clients,
    }


def plans(scale: Scale) -> Mapping[str, SweepPlan]:
    grid = {"duration_s": [WARM_S[scale], SECONDS[scale]]}
    return {"parallel": plan(network(), grid, variants=VARIANTS, seeds=SEEDS)}
