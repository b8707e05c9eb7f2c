"""The model's rules for all four schemes against the simulator that runs the real protocol, event by event.

The simulator's failures come from named dice, so the test knows of every event what the model expects of it. What may
differ are events on their way as something fails, the time until a failure is noticed, and the moments after a restart
until a broker has heard again who wants what. And the failure-only simulation, which draws outages of its own, gives
in the long run what these rules give."""

from math import sqrt
from pathlib import Path as Folder
from random import Random

import pytest

from holdfast.books.runs import Run
from holdfast.books.trace import TraceWriter
from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from holdfast.planner.overlay import Overlay, overlay_of
from holdfast.sim.simulator import Simulation
from holdfast_papers.prediction.failures import SCHEMES, simulate
from holdfast_papers.prediction.outages import Outages, arrives, outages_of
from tests.planner.networks import drawn

SECONDS = 1_800
# Seconds that the publication may count as later, and the lifetime as longer: neighbours learn after some heartbeats
# that somebody is gone or back, and who is silent is tried again after two seconds, at each hop.
SLACK = [(-4.5, 0.0), (0.0, 0.0), (0.0, -9.0), (1.0, 0.0), (0.0, 9.0)]
RING = [["b1", "b2"], ["b2", "b3"], ["b3", "b4"], ["b4", "b5"], ["b5", "b1"]]


def network(hops: str, lifetime_s: float) -> Network:
    """Five brokers in a ring; basic gets a line, since brokers that route by destinations would go round in the end."""
    line = hops == "basic"
    return parse_text(
        {
            "seed": 5,
            "duration_s": float(SECONDS),
            "routing": "subscriptions" if line else "destinations",
            "topology": {
                "kind": "listed",
                "brokers": ["b1", "b2", "b3"] if line else ["b1", "b2", "b3", "b4", "b5"],
                "links": RING[:2] if line else RING,
            },
            "brokers": {"availability": 0.9, "cycle_s": 400.0},
            "links": {"delay_ms": 1, "availability": 0.95, "cycle_s": 400.0},
            "client": [
                {
                    "id": "source",
                    "broker": "b1",
                    "publish": [{"at_s": 10, "every_s": 2.0, "attributes": {"kind": "a"}, "lifetime_s": lifetime_s}],
                },
                {"id": "desk", "broker": "b3", "subscriptions": ["kind = 'a'"]},
            ],
            "protocol": {"heartbeat_s": 1.0, "lease_s": 3.5},
            "reliability": {"hops": hops},
        }
    )


@pytest.mark.parametrize("hops", SCHEMES)
def test_events_arrive_as_the_rules_say(hops: str, tmp_path: Folder) -> None:
    lifetime_s = 40.0
    made = network(hops, lifetime_s)
    overlay, outages = overlay_of(made), outages_of(made)
    path = overlay.path(0, 2)
    assert path is not None
    Simulation(made, trace=TraceWriter(tmp_path / "run", {})).run()
    trace = Run(tmp_path / "run")
    came = dict(zip(*(trace.table("deliveries")[name].to_pylist() for name in ("seq", "time_us")), strict=True))
    wrong, near_a_change, missed, events = 0, 0, 0, 0
    for seq, time_us in zip(
        *(trace.table("publications")[name].to_pylist() for name in ("seq", "time_us")), strict=True
    ):
        at_s = time_us / 1e6
        if at_s > SECONDS - 2 * lifetime_s:
            continue
        found = seq in came and came[seq] <= time_us + lifetime_s * 1e6
        # Brokers find each other again within a few heartbeats: what the rules say for a moment later goes as well.
        said = {arrives(overlay, path, outages, at_s + later_s, lifetime_s + more_s)[hops] for later_s, more_s in SLACK}
        events += 1
        missed += not found
        near_a_change += len(said) > 1
        wrong += found not in said
    assert events > 800
    assert 0.02 * events < missed < 0.6 * events
    assert near_a_change < 0.15 * events
    assert wrong == 0


def test_the_failure_only_simulation_gives_in_the_long_run_what_the_rules_give() -> None:
    graph, worlds = drawn(6, 4, 0.7, 0.9), 4_000
    path = graph.path(0, 5)
    assert path is not None
    lifetime_s = 3_600.0
    dice = Random(1)
    counts = dict.fromkeys(SCHEMES, 0)
    for _ in range(worlds):
        outages, at_s = _drawn(graph, dice)
        for scheme, found in arrives(graph, path, outages, at_s, lifetime_s).items():
            counts[scheme] += found
    shares = simulate(graph, [path], lifetime_s, 200_000, "rules").reliability()[0]
    for at, scheme in enumerate(SCHEMES):
        expected = float(shares[at])
        assert abs(counts[scheme] / worlds - expected) <= 4.5 * sqrt(expected * (1 - expected) / worlds), scheme


def _drawn(graph: Overlay, dice: Random) -> tuple[Outages, float]:
    """Outages that have gone on for long, and a moment in them."""
    at_s, until_s = 600_000.0, 620_000.0
    changes = []
    for part in [*graph.brokers, *(link.component for link in graph.links)]:
        now_s, found = 0.0, list[float]()
        while now_s < until_s:
            now_s += dice.expovariate(1 / (part.down_s if len(found) % 2 else part.up_s))
            found.append(now_s)
        changes.append(found)
    return Outages(changes), at_s
