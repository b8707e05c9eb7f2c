"""What is put together for a pair of brokers: which method, which ends, and what may never be."""

from dataclasses import replace
from math import inf

import pytest

from holdfast.planner.hybrid import hybrid_bound
from holdfast.planner.overlay import Overlay
from holdfast.planner.pairs import NOTHING, PROFILE, Predictor
from tests.planner.networks import LIFETIME_S, drawn, line, overlay


def test_on_a_tree_there_is_only_one_way() -> None:
    graph = drawn(10, 4, 0.9, 0.95, degree=None)
    for pair in Predictor(graph).to(3, [(source, LIFETIME_S) for source in range(10) if source != 3]):
        for schemes in (pair.counted, pair.assumed_up):
            assert schemes.multipath == pytest.approx(schemes.basic, rel=1e-12)
            assert schemes.multipath_bound == pytest.approx(schemes.basic, rel=1e-12)
            assert schemes.hybrid == pytest.approx(schemes.retransmission, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_schemes_stand_in_the_order_that_logic_asks_for(seed: int) -> None:
    graph = drawn(8, seed, 0.7, 0.95)
    for pair in Predictor(graph).to(0, [(source, LIFETIME_S) for source in range(1, 8)]):
        ends = graph.brokers[pair.source].availability * graph.brokers[0].availability
        for schemes, most in ((pair.counted, ends), (pair.assumed_up, 1.0)):
            assert schemes.basic <= schemes.multipath_bound + 1e-12
            assert schemes.multipath_bound <= schemes.multipath + 1e-12 <= most + 2e-12
            assert schemes.basic <= schemes.retransmission <= schemes.hybrid + 1e-12 <= 1 + 1e-12
            assert schemes.multipath <= schemes.hybrid + 1e-12
        assert pair.counted.retransmission <= pair.assumed_up.retransmission


def test_the_hybrid_bound_stays_below_the_exact_value() -> None:
    graph = drawn(8, 3, 0.8, 0.95)
    rough = Predictor(graph, wanted=frozenset({"hybrid"}))
    exact = Predictor(graph)
    asked = [(source, LIFETIME_S) for source in range(1, 8)]
    for low, high in zip(rough.to(0, asked), exact.to(0, asked), strict=True):
        assert (low.hybrid_method, high.hybrid_method) == ("bound", "exact")
        for a, b in ((low.counted, high.counted), (low.assumed_up, high.assumed_up)):
            assert b.retransmission - 1e-12 <= a.hybrid <= b.hybrid + 1e-12


def test_the_hybrid_bound_by_hand() -> None:
    assert hybrid_bound(0.9, 0.95, 0.81, 0.5) == pytest.approx(0.9 + 0.81 * 0.05 * 0.5)


def test_a_broker_s_own_subscribers_need_only_it() -> None:
    graph = line(0.9, 0.8)
    [pair] = Predictor(graph).to(0, [(0, LIFETIME_S)])
    assert pair.counted.basic == pair.counted.multipath == pytest.approx(0.9)
    assert set(pair.assumed_up) == {1.0}


def test_events_that_live_for_ever_arrive_when_they_are_kept() -> None:
    graph = line(0.9, 0.8, 0.7)
    [pair] = Predictor(graph).to(2, [(0, inf)])
    assert pair.counted.retransmission == pair.counted.hybrid == 1.0
    assert pair.counted.basic == pytest.approx(0.9 * 0.8 * 0.7 * 0.99**2)


def test_links_take_their_time_from_the_lifetime() -> None:
    graph = line(0.9, 0.8)
    slow = replace(graph, links=(replace(graph.links[0], delay_s=100.0),))
    [late] = Predictor(slow).to(1, [(0, 99.0)])
    assert late.counted == NOTHING
    [shorter] = Predictor(graph).to(1, [(0, 500.0)])
    [same] = Predictor(slow).to(1, [(0, 600.0)])
    assert same.counted.retransmission == pytest.approx(shorter.counted.retransmission, rel=1e-12)


def test_the_delays_end_at_the_reliability_on_one_broker_and_where_nothing_comes_in_time() -> None:
    graph = line(0.9, 0.8)
    slow = replace(graph, links=(replace(graph.links[0], delay_s=60.0),))
    here, late = Predictor(slow).to(1, [(1, 50.0), (0, 50.0)])
    assert here.waiting[0] == pytest.approx(0.2)
    assert 1 - here.waiting[-1] == pytest.approx(here.counted.retransmission)
    assert 0.8 < here.counted.retransmission < 1
    assert late.counted.retransmission == 0.0
    assert late.waiting == (1.0,) * len(PROFILE)


def test_a_link_that_loses_messages_hurts_what_is_sent_once() -> None:
    graph = line(0.9, 0.8)
    lossy = replace(graph, links=(replace(graph.links[0], loss=0.25),))
    [pair] = Predictor(lossy).to(1, [(0, LIFETIME_S)])
    [whole] = Predictor(graph).to(1, [(0, LIFETIME_S)])
    assert pair.counted.basic == pytest.approx(0.75 * whole.counted.basic)
    assert pair.counted.retransmission == whole.counted.retransmission


def test_who_cannot_be_reached_gets_nothing() -> None:
    graph = overlay([0.9, 0.9, 0.9], [(0, 1, 0.9)])
    [pair] = Predictor(graph).to(2, [(0, LIFETIME_S)])
    assert (pair.counted, pair.assumed_up, pair.links) == (NOTHING, NOTHING, None)


def _chord_ring(brokers: int) -> Overlay:
    """A ring with links to the second, fifth and eleventh next: too wide for a diagram beyond some forty brokers."""
    links = {tuple(sorted((at, (at + far) % brokers))) for at in range(brokers) for far in (1, 5, 11)}
    return overlay([0.9] * brokers, [(a, b, 0.97) for a, b in sorted(links)])


def _losing(graph: Overlay, loss: float) -> Overlay:
    return replace(graph, links=tuple(replace(each, loss=loss) for each in graph.links))


def test_losses_count_also_where_worlds_are_drawn() -> None:
    graph = _chord_ring(210)
    [whole], [half] = (Predictor(_losing(graph, loss), samples=500).to(100, [(0, LIFETIME_S)]) for loss in (0.0, 0.5))
    assert half.links == whole.links
    assert half.links is not None
    assert half.counted.multipath == pytest.approx(whole.counted.multipath * 0.5**half.links)
    assert half.assumed_up.multipath == pytest.approx(whole.assumed_up.multipath * 0.5**half.links)
    assert half.error == pytest.approx(whole.error * 0.5**half.links)


def test_a_link_that_loses_everything_lets_nothing_pass_however_often_it_is_sent() -> None:
    [pair] = Predictor(_losing(line(0.9, 0.9), 1.0)).to(1, [(0, LIFETIME_S)])
    assert (pair.counted, pair.assumed_up, pair.links) == (NOTHING, NOTHING, 1)


def test_what_is_too_large_is_sampled_with_its_error_and_near_the_truth() -> None:
    large = Predictor(_chord_ring(210), samples=4_000)
    [pair] = large.to(100, [(0, LIFETIME_S)])
    assert pair.multipath_method == "monte-carlo"
    assert pair.hybrid_method == "bound"
    assert 0 < pair.error < 0.02
    # Six ways out of each end: all of them are hardly ever down at once.
    assert pair.assumed_up.multipath_bound - pair.error <= pair.assumed_up.multipath <= 1
    [again] = Predictor(_chord_ring(210), samples=4_000).to(100, [(0, LIFETIME_S)])
    assert again == pair
