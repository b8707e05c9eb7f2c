"""Generated graphs: connected, of the size and degree asked for, and what the papers' figures say they are."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.network.graph import a_cycle, components, measure, neighbours_of
from holdfast.network.load import parse_text
from holdfast.network.topology import Pairs, attached_tree, filled_tree, line, random_graph, ring, star


def slow_distances(size: int, pairs: Pairs) -> list[list[float]]:
    """Floyd and Warshall, as a judge."""
    far = [[0 if a == b else float("inf") for b in range(size)] for a in range(size)]
    for a, b in pairs:
        far[a][b] = far[b][a] = 1
    for via in range(size):
        for a in range(size):
            for b in range(size):
                far[a][b] = min(far[a][b], far[a][via] + far[via][b])
    return far


def named(size: int, pairs: Pairs) -> dict[str, list[str]]:
    return neighbours_of(map(str, range(size)), ((str(a), str(b)) for a, b in pairs))


def degrees(size: int, pairs: Pairs) -> list[int]:
    return [sum(node in pair for pair in pairs) for node in range(size)]


sizes = st.integers(1, 24)
seeds = st.integers(0, 10_000)


@given(sizes, st.integers(2, 6), seeds)
def test_trees_are_trees_within_their_degree(size: int, degree: int, seed: int) -> None:
    for pairs in (line(size), star(size), filled_tree(size, degree), attached_tree(size, degree, Random(seed))):
        assert len(pairs) == size - 1
        assert all(each < float("inf") for row in slow_distances(size, pairs) for each in row)
    assert max(degrees(size, filled_tree(size, degree))) <= degree
    assert max(degrees(size, attached_tree(size, degree, Random(seed)))) <= degree
    assert max(degrees(size, line(size))) <= 2


@given(st.integers(3, 24), st.floats(0, 1), seeds)
def test_a_random_graph_is_connected_and_has_its_mean_degree(size: int, share: float, seed: int) -> None:
    least = 2 * (size - 1) / size
    wanted = least + share * (size - 1 - least)
    pairs = random_graph(size, wanted, Random(seed))
    assert all(a < b for a, b in pairs) and len(set(pairs)) == len(pairs)
    assert abs(2 * len(pairs) / size - wanted) <= 1 / size
    assert all(each < float("inf") for row in slow_distances(size, pairs) for each in row)


def test_a_ring_is_a_ring() -> None:
    assert degrees(7, ring(7)) == [2] * 7
    assert measure(named(7, ring(7))).diameter == 3


def test_the_filled_tree_of_100_is_that_of_paper_001() -> None:
    pairs = filled_tree(100, 4)
    far = slow_distances(100, pairs)
    apart = [far[a][b] for a in range(100) for b in range(a)]
    assert degrees(100, pairs)[:2] == [4, 4]
    assert round(sum(apart) / len(apart), 2) == 5.67 and max(apart) == 8  # spec/oracles
    for loss, arrives in ((0.01, 0.945), (0.05, 0.750), (0.1, 0.559)):  # spec/gossip, the paper's baselines
        assert round(sum((1 - loss) ** each for each in apart) / len(apart), 3) == arrives


@given(st.integers(2, 16), seeds, st.booleans())
def test_mean_distance_and_diameter_are_those_of_the_slow_way(size: int, seed: int, tree: bool) -> None:
    dice = Random(seed)
    pairs = attached_tree(size, 3, dice) if tree else random_graph(size, min(size - 1, 3), dice)
    far = slow_distances(size, pairs)
    apart = [far[a][b] for a in range(size) for b in range(a)]
    found = measure(named(size, pairs))
    assert found.mean == pytest.approx(sum(apart) / len(apart))
    assert (found.diameter, found.exact) == (max(apart), True)


@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=14))
def test_parts_and_cycles_are_found(size: int, drawn: Pairs) -> None:
    pairs = sorted({(min(pair), max(pair)) for pair in drawn if pair[0] != pair[1] and max(pair) < size})
    far = slow_distances(size, pairs)
    parts = {frozenset(str(b) for b in range(size) if far[a][b] < float("inf")) for a in range(size)}
    graph = named(size, pairs)
    assert {frozenset(each) for each in components(graph)} == parts
    cycle = a_cycle(graph)
    assert bool(cycle) == (len(pairs) > size - len(parts))  # a forest has one link less a part than nodes
    if cycle:
        assert cycle[0] == cycle[-1] and len(set(cycle)) == len(cycle) - 1 >= 3
        assert all(b in graph[a] for a, b in pairwise(cycle))


@pytest.mark.parametrize("kind", ["line", "star", "ring", "tree", "random"])
def test_the_file_makes_them(kind: str) -> None:
    network = parse_text({"routing": "destinations", "topology": {"kind": kind, "brokers": 20, "prefix": "x"}})
    assert [broker.id for broker in network.brokers][:2] == ["x1", "x2"]
    assert len(network.links) == {"ring": 20, "random": 40}.get(kind, 19)


def test_names_may_be_given() -> None:
    network = parse_text({"topology": {"kind": "star", "brokers": ["hub", "east", "west"]}})
    assert [(link.a, link.b) for link in network.links] == [("hub", "east"), ("hub", "west")]


def test_a_network_may_be_spelled_out_entry_by_entry() -> None:
    network = parse_text({"broker": [{"id": "x"}, {"id": "y"}], "link": [{"between": ["y", "x"], "loss": 0.5}]})
    assert [(link.a, link.b, link.loss_ratio) for link in network.links] == [("y", "x", 0.5)]


def test_a_network_of_one_broker_is_a_network() -> None:
    assert parse_text({"topology": {"brokers": 1}}).links == ()


def test_the_graph_may_stay_while_the_seed_changes() -> None:
    file = {
        "routing": "destinations",
        "topology": {"kind": "random", "brokers": 30, "seed": 5},
        "links": {"delay_ms": [1, 9]},
        "clients": {"publishers": 4},
        "workload": {"kind": "stock"},
    }
    one, other = (parse_text(file, settings={"seed": seed}) for seed in (1, 2))
    assert one.links == other.links
    assert [client.publishes for client in one.clients] == [client.publishes for client in other.clients]
    assert [client.subscriptions for client in one.clients] != [client.subscriptions for client in other.clients]
    moved = parse_text(file, settings={"topology.seed": 6})
    assert [(link.a, link.b) for link in moved.links] != [(link.a, link.b) for link in one.links]
