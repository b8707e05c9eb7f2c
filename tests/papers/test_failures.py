"""The failure-only simulation against closed forms and all states written out; it shares no formula with them."""

from math import sqrt

import numpy as np
import pytest

from holdfast.model.errors import MisuseError
from holdfast.planner.components import NEVER_FAILS, Component
from holdfast.planner.overlay import Overlay, Path
from holdfast.planner.pairs import Predictor
from holdfast_papers.prediction.failures import SCHEMES, Sample, simulate
from tests.planner.networks import LIFETIME_S, connected, drawn, enumerated, line, overlay, states

WORLDS = 60_000
SURE = 4.5  # standard errors: of a few hundred comparisons none is farther off, but for one run in a thousand


def paths_of(graph: Overlay, pairs: list[tuple[int, int]]) -> list[Path]:
    found = [graph.path(source, target) for source, target in pairs]
    return [path for path in found if path is not None]


def near(found: float, expected: float, worlds: int = WORLDS) -> bool:
    return abs(found - expected) <= SURE * sqrt(max(expected * (1 - expected), 1 / worlds) / worlds)


def test_basic_and_multipath_are_as_frequent_as_their_states_are_likely() -> None:
    graph = overlay([0.8, 0.7, 0.6, 0.9], [(0, 1, 0.9), (1, 3, 0.8), (0, 2, 0.7), (2, 3, 0.9)])
    sample = simulate(graph, paths_of(graph, [(0, 3)]), LIFETIME_S, WORLDS, "states").reliability()[0]
    parts = [*graph.brokers, *(link.component for link in graph.links)]
    path = graph.path(0, 3)
    assert path is not None
    needed = [*path.brokers, *(4 + link for link in path.links)]
    basic = sum(likely for ups, likely in states(parts) if all(ups[each] for each in needed))
    multipath = sum(likely for ups, likely in states(parts) if connected(graph, ups, 0, 3))
    assert near(sample[0], basic)
    assert near(sample[2], multipath)
    assert near(sample[6], enumerated(graph, 0, 3, ends_up=True))


@pytest.mark.parametrize(("low", "high"), [(0.9, 0.95), (0.99, 0.999), (0.5, 0.8)])
def test_all_schemes_are_as_predicted_on_a_random_graph(low: float, high: float) -> None:
    graph = drawn(8, 5, low, high)
    pairs = [(source, target) for target in range(4) for source in range(8) if source != target]
    found = simulate(graph, paths_of(graph, pairs), LIFETIME_S, WORLDS, "graph").reliability()
    predictor = Predictor(graph)
    for row, (source, target) in zip(found, pairs, strict=True):
        [pair] = predictor.to(target, [(source, LIFETIME_S)])
        assert (pair.multipath_method, pair.hybrid_method) == ("exact", "exact")
        for at, scheme in enumerate(SCHEMES):
            assert near(row[at], getattr(pair.counted, scheme)), (source, target, scheme)
            assert near(row[4 + at], getattr(pair.assumed_up, scheme)), (source, target, scheme)
        assert pair.counted.multipath_bound <= pair.counted.multipath + 1e-12


def test_the_waits_of_the_specification_come_out() -> None:
    # shared/spec/prediction.md E.2: Monte Carlo of another program, 400,000 events.
    graph = line(*[0.92] * 5)
    sample = simulate(graph, paths_of(graph, [(0, 4)]), LIFETIME_S, WORLDS, "line").reliability()[0]
    assert near(sample[1], 0.81574)


def test_with_nothing_that_fails_everything_arrives() -> None:
    graph = line(1.0, 1.0, link=1.0)
    sample = simulate(graph, paths_of(graph, [(0, 1)]), LIFETIME_S, 100, "perfect")
    assert (sample.pairs == 100).all()


def test_the_same_seed_gives_the_same_worlds_and_another_one_others() -> None:
    graph, paths = drawn(6, 1, 0.8, 0.9), []
    paths = paths_of(graph, [(0, 5), (1, 5)])
    one, two = (simulate(graph, paths, LIFETIME_S, 2_000, "same") for _ in range(2))
    assert (one.pairs == two.pairs).all()
    assert (simulate(graph, paths, LIFETIME_S, 2_000, "other").pairs != one.pairs).any()


def test_errors_of_a_group_are_those_of_its_mean_over_worlds() -> None:
    """Pairs of one world are not independent: two that are the same have the error of one."""
    graph = line(0.8, 0.8)
    paths = paths_of(graph, [(0, 1), (0, 1)])
    sample = simulate(graph, paths, LIFETIME_S, 20_000, "group", groups=[0, 0])
    share = sample.reliability()[0, 0]
    assert sample.group_reliability()[0, 0] == pytest.approx(share)
    assert sample.group_errors()[0, 0] == pytest.approx(sqrt(share * (1 - share) / 20_000), rel=1e-6)


def test_weights_count_within_a_group() -> None:
    graph = line(0.9, 0.5, link=1.0)
    paths = paths_of(graph, [(0, 0), (1, 1)])
    sample: Sample = simulate(graph, paths, LIFETIME_S, 20_000, "weights", groups=[0, 0], weights=[3.0, 1.0])
    expected = sample.reliability()[:, 0] @ np.array([0.75, 0.25])
    assert sample.group_reliability()[0, 0] == pytest.approx(expected)


def test_components_that_change_too_often_are_refused() -> None:
    busy = Overlay(("b1",), (Component(1e-6, 1e-6),), ())
    with pytest.raises(MisuseError, match="too often"):
        simulate(busy, [Path((0,), ())], LIFETIME_S, 1, "busy")
    assert not NEVER_FAILS.fails
