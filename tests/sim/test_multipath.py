"""Brokers that send events round what is down, alone and together with storing them."""

from typing import Any

import pytest

from holdfast.books.outcome import Outcome
from holdfast.network.load import parse_text
from holdfast.network.problems import NetworkError
from holdfast.network.schema import Network
from holdfast.sim.simulator import Simulation

RING = [["b1", "b2"], ["b2", "b3"], ["b3", "b4"], ["b4", "b5"], ["b5", "b1"]]


def ring(hops: str, fault: list[dict[str, Any]], **more: Any) -> Network:
    """Five brokers in a ring; from b1 to b3 the usual way leads through b2, the other one through b5 and b4."""
    return parse_text(
        {
            "duration_s": 10,
            "routing": more.pop("routing", "destinations"),
            "topology": {"kind": "listed", "brokers": ["b1", "b2", "b3", "b4", "b5"], "links": RING},
            "links": {"delay_ms": 5, "lossy_control": False, **more.pop("links", {})},
            "client": [
                {"id": "p", "broker": "b1", "publish": [{"at_s": 1, "every_s": 0.02, "attributes": {"n": 1}}]},
                {"id": "s", "broker": "b3", "subscriptions": ["n = 1"]},
            ],
            "reliability": {"hops": hops},
            "fault": fault,
            **more,
        }
    )


def run(network: Network) -> Outcome:
    return Simulation(network).run()


CRASH = [{"at_s": 3, "kind": "crash", "broker": "b2", "for_s": 4}]


def test_events_go_round_a_broker_that_is_down_and_those_sent_to_it_meanwhile_too() -> None:
    before, after = run(ring("basic", CRASH)), run(ring("multipath", CRASH))
    assert before.lost > 150  # until the lease runs out
    assert (after.lost, after.duplicates) == (0, 0)
    assert after.recovered["multipath"] > 150
    assert after.incidents["neighbour_down"] == 2


def test_they_take_the_usual_way_again_when_it_is_back() -> None:
    outcome = run(ring("multipath", CRASH))
    assert outcome.incidents["neighbour_up"] == 2
    late = {"at_s": 9, "kind": "crash", "broker": "b5", "for_s": 1}
    assert run(ring("multipath", [*CRASH, late])).lost == 0


def test_a_link_that_fails_silently_is_gone_round() -> None:
    simulation = Simulation(ring("multipath", []))
    simulation.at(3_000_000, lambda *_: simulation.set_link("b2", "b3", up=False))
    simulation.at(7_000_000, lambda *_: simulation.set_link("b2", "b3", up=True))
    outcome = simulation.run()
    assert (outcome.lost, outcome.duplicates) == (0, 0)
    assert outcome.recovered["multipath"] > 150


def test_losses_do_not_make_brokers_suspect_each_other_for_long() -> None:
    outcome = run(ring("multipath", [], links={"loss": 0.2, "lossy_control": True}))
    assert outcome.incidents.get("neighbour_down", 0) < 10
    assert outcome.duplicates == 0


def test_what_no_way_leads_to_is_lost_by_multipath_and_waits_with_hybrid() -> None:
    both = [*CRASH, {"at_s": 4, "kind": "crash", "broker": "b4", "for_s": 1}]
    cut_off = run(ring("multipath", both))
    waits = run(ring("hybrid", both))
    assert cut_off.lost > 20
    assert (waits.lost, waits.duplicates) == (0, 0)


def test_hybrid_is_quick_where_there_is_a_way_round_and_loses_nothing() -> None:
    stored, hybrid = run(ring("retransmission", CRASH)), run(ring("hybrid", CRASH))
    for outcome in (stored, hybrid):
        assert (outcome.lost, outcome.duplicates) == (0, 0)
    assert stored.delay_us["p90"] > 2_000_000  # they wait for b2
    assert hybrid.delay_us["p90"] < 500_000
    assert hybrid.recovered["multipath"] > 150


@pytest.mark.parametrize("hops", ["multipath", "hybrid"])
def test_routing_that_knows_one_way_only_is_refused(hops: str) -> None:
    with pytest.raises(NetworkError, match="needs to know all ways"):
        ring(hops, [], routing="subscriptions")
