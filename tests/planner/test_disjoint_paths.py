"""The lower bound of disjoint paths."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.planner.disjoint_paths import alternates, bounds_of, disjoint_bound, interior_reliability, one_is_up
from holdfast.planner.overlay import Overlay, Path
from tests.planner.networks import drawn, enumerated, overlay


def simple_paths(graph: Overlay, source: int, target: int) -> list[Path]:
    found, waiting = [], [Path((source,), ())]
    while waiting:
        path = waiting.pop()
        if path.brokers[-1] == target:
            found.append(path)
            continue
        for other, link in graph.neighbours[path.brokers[-1]]:
            if other not in path.brokers:
                waiting.append(Path((*path.brokers, other), (*path.links, link)))
    return found


def are_disjoint(paths: tuple[Path, ...]) -> bool:
    inner = [set(path.brokers[1:-1]) | {f"link {each}" for each in path.links} for path in paths]
    return all(not a & b for a, b in combinations(inner, 2))


def test_a_shortest_path_that_would_block_two_others_is_turned() -> None:
    # 0-1-2-5 is shortest, but 0-1-4-5 and 0-3-2-5 go together.
    links = [(0, 1), (1, 2), (2, 5), (0, 3), (3, 2), (1, 4), (4, 5)]
    graph = overlay([1.0] * 6, [(a, b, 0.9) for a, b in links])
    bound = disjoint_bound(graph, 0, 5)
    assert len(bound.paths) == 2
    assert bound.reliability == pytest.approx(1 - (1 - 0.9**3) ** 2)


@settings(max_examples=60)
@given(st.data())
def test_it_is_a_lower_bound_from_paths_that_share_nothing(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 5))
    pairs = data.draw(st.lists(st.sampled_from(list(combinations(range(count), 2))), unique=True, max_size=7))
    share = st.sampled_from([0.1, 0.35, 0.6, 0.9, 1.0])
    graph = overlay([data.draw(share) for _ in range(count)], [(a, b, data.draw(share)) for a, b in pairs])
    bound = disjoint_bound(graph, 0, count - 1)
    assert are_disjoint(bound.paths)
    assert bound.reliability <= enumerated(graph, 0, count - 1, ends_up=True) + 1e-12
    best = max((interior_reliability(graph, path) for path in simple_paths(graph, 0, count - 1)), default=0.0)
    assert bound.reliability >= best - 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_it_is_nearly_the_best_of_all_sets_of_disjoint_paths(seed: int) -> None:
    """Flows make the product of the paths' reliabilities largest, which is not quite the bound itself."""
    graph = drawn(7, seed, 0.6, 0.95, degree=3)
    paths = simple_paths(graph, 0, 6)
    best = max(
        one_is_up(interior_reliability(graph, path) for path in chosen)
        for size in (1, 2, 3)
        for chosen in combinations(paths, size)
        if are_disjoint(chosen)
    )
    assert best * 0.97 <= disjoint_bound(graph, 0, 6).reliability <= best + 1e-12


def test_alternates_avoid_the_default_path() -> None:
    graph = overlay([0.9] * 4, [(0, 1, 0.9), (1, 3, 0.9), (0, 2, 0.9), (2, 3, 0.9), (0, 3, 0.9)])
    path = graph.path(0, 3)
    assert path == Path((0, 3), (4,))
    assert {each.brokers for each in alternates(graph, path).paths} == {(0, 1, 3), (0, 2, 3)}


@pytest.mark.parametrize("degree", [2.5, 4])
def test_all_paths_to_a_broker_at_once_have_the_bounds_of_each_alone(degree: float) -> None:
    graph = drawn(30, 8, 0.6, 0.95, degree)
    for target in (0, 17):
        paths = [path for source in range(30) if source != target and (path := graph.path(source, target))]
        assert len(paths) > 20
        bounds, others = bounds_of(graph, graph.ways_to(target), np.array([path.brokers[0] for path in paths]))
        for path, bound, other in zip(paths, bounds, others, strict=True):
            alone = disjoint_bound(graph, path.brokers[0], target)
            assert bound == pytest.approx(alone.reliability, rel=1e-12)
            inner = set(path.brokers[1:-1])
            apart = [
                each for each in alone.paths if not inner & set(each.brokers) and not set(path.links) & set(each.links)
            ]
            assert other == pytest.approx(one_is_up(interior_reliability(graph, each) for each in apart), rel=1e-12)
            assert other <= alternates(graph, path).reliability + 1e-12


def test_perfect_and_hopeless_components_do_not_lead_the_search_astray() -> None:
    graph = overlay(
        [1.0, 1.0, 1e-9, 0.5, 1.0], [(0, 1, 1.0), (1, 4, 1.0), (0, 2, 1.0), (2, 4, 0.9), (0, 3, 1e-9), (3, 4, 1)]
    )
    bounds, _ = bounds_of(graph, graph.ways_to(4), np.arange(4))
    assert bounds.tolist() == [pytest.approx(disjoint_bound(graph, source, 4).reliability) for source in range(4)]
