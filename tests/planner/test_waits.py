"""Waits of retransmission against values worked out elsewhere, by hand, and by another road."""

from collections.abc import Sequence
from itertools import pairwise
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.planner.components import NEVER_FAILS, Component, with_share
from holdfast.planner.hybrid import late_alone
from holdfast.planner.overlay import Overlay
from holdfast.planner.paths_to import OverlayRates, WaitsTo
from holdfast.planner.waits import Hop, path_wait, wait_at
from tests.planner.networks import CYCLE_S, LIFETIME_S, drawn, line


def hops_of(brokers: Sequence[Component], links: Sequence[Component]) -> list[Hop]:
    """The hops of a path, the wait for the publisher's own broker first."""
    first = Hop(NEVER_FAILS, NEVER_FAILS, brokers[0])
    return [first, *(Hop(a, link, b) for a, link, b in zip(brokers, links, brokers[1:], strict=False))]


def on_time(graph: Overlay, lifetime_s: float = LIFETIME_S) -> float:
    hops = hops_of(graph.brokers, [link.component for link in graph.links])
    return 1 - path_wait(hops).longer_than(lifetime_s)


# shared/spec/prediction.md E.2 and E.3: computed by another program, and by Monte Carlo.
@pytest.mark.parametrize(
    ("brokers", "expected", "mean_s"),
    [(1, 0.96221, 384), (2, 0.92427, 792), (3, 0.88715, 1199), (5, 0.81556, 2015), (8, 0.71530, 3238)],
)
def test_a_path_is_on_time_as_often_as_the_specification_says(brokers: int, expected: float, mean_s: float) -> None:
    graph = line(*[0.92] * brokers)
    assert on_time(graph) == pytest.approx(expected, abs=5e-6)
    hops = hops_of(graph.brokers, [link.component for link in graph.links])
    assert path_wait(hops).mean() == pytest.approx(mean_s, abs=0.7)


@pytest.mark.parametrize(("brokers", "expected"), [(2, 2.5e-5), (3, 5.2e-5), (4, 8.1e-5), (5, 1.11e-4), (6, 1.42e-4)])
def test_rare_misses_keep_their_digits(brokers: int, expected: float) -> None:
    assert 1 - on_time(line(*[0.995] * brokers)) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("lifetime_s", "expected"), [(600, 0.809), (3_600, 0.899), (7_200, 0.951)])
def test_a_longer_lifetime_helps(lifetime_s: float, expected: float) -> None:
    assert on_time(line(0.925, 0.925, 0.925), lifetime_s) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize("share", [0.9, 0.95, 0.99, 0.999])
def test_a_single_broker_is_late_as_its_outages_last(share: float) -> None:
    # Down with probability u, and then for longer than D with exp(-D / mean time down).
    down = 1 - share
    late = path_wait(hops_of([with_share(share, CYCLE_S)], [])).longer_than(LIFETIME_S)
    assert late == pytest.approx(down * exp(-LIFETIME_S / (down * CYCLE_S)), rel=1e-12)


def test_nothing_that_fails_means_no_wait() -> None:
    wait = wait_at(Hop(NEVER_FAILS, NEVER_FAILS, NEVER_FAILS))
    assert (wait.atom, wait.longer_than(1.0), wait.mean()) == (1.0, 0.0, 0.0)


def test_the_sender_matters_only_after_it_has_received() -> None:
    """A hop over a perfect link to a perfect broker takes no time, however bad the sender is: it is up just then."""
    assert wait_at(Hop(Component(1.0, 9.0), NEVER_FAILS, NEVER_FAILS)).atom == 1.0


def test_components_that_recover_in_no_time_do_not_need_more_work() -> None:
    """A million failures in a lifetime; the wait is then the mean of what is left, and nearly never long."""
    quick = with_share(0.9, 0.01)
    late = path_wait(hops_of([quick, quick], [quick])).longer_than(LIFETIME_S)
    assert 0 <= late < 1e-15


@settings(max_examples=25)
@given(
    st.lists(st.floats(0.5, 0.999), min_size=2, max_size=4),
    st.floats(0.5, 0.999),
    st.floats(0.0, 20_000.0),
)
def test_hops_that_share_a_broker_are_independent(brokers: list[float], link: float, lifetime_s: float) -> None:
    """The chain of all components together assumes nothing of the kind, and gives the same."""
    graph = line(*brokers, link=link)
    path = graph.path(0, len(brokers) - 1)
    assert path is not None
    for ends_up in (False, True):
        together = late_alone(graph, path, lifetime_s, ends_up)
        ways = graph.ways_to(len(brokers) - 1)
        apart = WaitsTo(graph, OverlayRates(graph), ways, np.array([0]), ends_up, lifetime_s).late(0, lifetime_s)
        assert apart == pytest.approx(together, rel=1e-9, abs=1e-15)


def test_all_paths_to_a_broker_at_once_are_as_one_by_one() -> None:
    graph = drawn(12, 3, 0.8, 0.99)
    for target in range(3):
        at_once = WaitsTo(graph, OverlayRates(graph), graph.ways_to(target), np.arange(12), False, LIFETIME_S)
        for source in range(12):
            path = graph.path(source, target)
            assert path is not None
            hops = hops_of(
                [graph.brokers[each] for each in path.brokers], [graph.links[each].component for each in path.links]
            )
            wait = path_wait(hops)
            for t in (0.0, 100.0, LIFETIME_S):
                assert at_once.late(source, t) == pytest.approx(wait.longer_than(t), rel=1e-10)


def test_the_distribution_falls_with_time_from_the_share_that_waits_at_all() -> None:
    graph = line(0.9, 0.93, 0.95)
    late = [1 - on_time(graph, t) for t in np.linspace(0, 20_000, 30)]
    assert late[0] == pytest.approx(1 - 0.9 * 0.93 * 0.95 * 0.99**2, rel=1e-12)
    assert all(a >= b for a, b in pairwise(late))
