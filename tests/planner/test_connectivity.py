"""Being connected, exactly: against every state written out, another formula, and graphs solved by hand."""

from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.planner.connectivity import diagram_between
from holdfast.planner.overlay import Overlay
from holdfast.planner.simple_paths import relevant_between
from tests.planner.networks import drawn, enumerated, line, overlay


def exact(graph: Overlay, source: int, target: int) -> float:
    diagram = diagram_between(graph, source, target)
    assert diagram is not None
    return diagram.reliability(graph.availabilities)


def by_cuts(graph: Overlay, source: int, target: int) -> float:
    """Both ends up, by sums over sets of brokers: shared/spec/prediction.md E.4, in 3**n steps."""
    count = len(graph.names)
    down = np.ones((count, count))
    for link in graph.links:
        down[link.a, link.b] = down[link.b, link.a] = 1 - link.component.availability
    up = [1.0 if at in (source, target) else each.availability for at, each in enumerate(graph.brokers)]
    together: dict[int, float] = {}  # P(all of these hang together, by their own links)

    def apart(one: int, other: int) -> float:
        return prod(down[a, b] for a in range(count) for b in range(count) if one >> a & 1 and other >> b & 1)

    total = 0.0
    for members in range(1 << count):
        if not members >> source & 1:
            continue
        value, part = 1.0, (members - 1) & members
        while part:
            if part >> source & 1:
                value -= together[part] * apart(part, members & ~part)
            part = (part - 1) & members
        together[members] = value
        if members >> target & 1:
            outside = prod(1 - up[v] + up[v] * apart(1 << v, members) for v in range(count) if not members >> v & 1)
            total += value * prod(up[v] for v in range(count) if members >> v & 1) * outside
    return total


def test_two_brokers_and_a_link() -> None:
    assert exact(line(0.9, 0.8, link=0.7), 0, 1) == pytest.approx(0.7)


def test_in_series_availabilities_multiply() -> None:
    assert exact(line(0.9, 0.8, 0.7, 0.6, link=0.95), 0, 3) == pytest.approx(0.95**3 * 0.8 * 0.7)


def test_in_parallel_failures_multiply() -> None:
    graph = overlay([0.5, 0.8, 0.7, 0.5], [(0, 1, 0.9), (1, 3, 0.9), (0, 2, 0.6), (2, 3, 1.0)])
    assert exact(graph, 0, 3) == pytest.approx(1 - (1 - 0.9 * 0.9 * 0.8) * (1 - 0.6 * 0.7))


def test_a_bridge_is_solved_by_conditioning_on_it() -> None:
    # The bridge up: (0-1 or 0-2) and (1-3 or 2-3). Down: 0-1-3 or 0-2-3.
    share, bridge = 0.8, 0.3
    graph = overlay([1.0] * 4, [(0, 1, share), (0, 2, share), (1, 3, share), (2, 3, share), (1, 2, bridge)])
    up = (1 - (1 - share) ** 2) ** 2
    down = 1 - (1 - share**2) ** 2
    assert exact(graph, 0, 3) == pytest.approx(bridge * up + (1 - bridge) * down)


def test_brokers_that_no_path_reaches_are_not_connected() -> None:
    graph = overlay([0.9, 0.9, 0.9, 0.9], [(0, 1, 0.9), (2, 3, 0.9)])
    assert exact(graph, 0, 3) == 0.0


@settings(max_examples=60)
@given(st.data())
def test_any_small_graph_is_as_likely_connected_as_its_states_written_out(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 5))
    pairs = data.draw(st.lists(st.sampled_from(list(combinations(range(count), 2))), unique=True, max_size=7))
    share = st.sampled_from([0.1, 0.35, 0.6, 0.9, 1.0])
    graph = overlay([data.draw(share) for _ in range(count)], [(a, b, data.draw(share)) for a, b in pairs])
    assert exact(graph, 0, count - 1) == pytest.approx(enumerated(graph, 0, count - 1, ends_up=True), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs_of_paper_004_agree_with_the_sum_over_sets_of_brokers(seed: int) -> None:
    graph = drawn(9, seed, 0.6, 0.95, link=0.9)
    assert exact(graph, 0, 8) == pytest.approx(by_cuts(graph, 0, 8), abs=1e-11)


@pytest.mark.parametrize("seed", range(6))
def test_thirty_brokers_stay_far_below_the_limit(seed: int) -> None:
    diagram = diagram_between(drawn(30, seed, 0.9, 0.95), 0, 29, nodes_max=1_000_000)
    assert diagram is not None


def test_a_diagram_that_would_be_too_large_is_refused() -> None:
    assert diagram_between(drawn(120, 1, 0.9, 0.95), 0, 119, nodes_max=100_000) is None


def test_many_cases_at_a_time_are_as_one_by_one() -> None:
    graph = drawn(8, 2, 0.7, 0.95)
    diagram = diagram_between(graph, 0, 7)
    assert diagram is not None
    cases = np.random.default_rng(1).uniform(0.2, 1.0, (len(graph.availabilities), 5))
    assert diagram.reliabilities(cases) == pytest.approx([diagram.reliability(each) for each in cases.T])


def test_what_lies_on_no_simple_path_is_left_out() -> None:
    # A triangle 0-1-2 with a tail 2-3-4 and a pocket 1-5-6-1 that leads nowhere else.
    links = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (1, 5), (5, 6), (6, 1)]
    graph = overlay([0.9] * 7, [(a, b, 0.9) for a, b in links])
    found = relevant_between(graph.neighbours, 0, 4)
    assert found.brokers == {0, 1, 2, 3, 4}
    assert found.links == {0, 1, 2, 3, 4}
    assert relevant_between(graph.neighbours, 5, 6).brokers == {1, 5, 6}
