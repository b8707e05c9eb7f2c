"""Drawn worlds against all states written out, and the same answer however they are asked."""

from math import sqrt

import pytest

from holdfast.planner import connected_worlds
from holdfast.planner.connected_worlds import ConnectedWorlds
from holdfast.planner.overlay import Overlay
from tests.planner.networks import drawn, enumerated, overlay

WORLDS = 40_500  # not whole blocks
SURE = 4.5  # standard errors


def near(found: float, expected: float) -> bool:
    return abs(found - expected) <= SURE * sqrt(max(expected * (1 - expected), 1 / WORLDS) / WORLDS)


GRAPHS = [
    overlay([0.8, 0.7, 0.6, 0.9], [(0, 1, 0.9), (1, 3, 0.8), (0, 2, 0.7), (2, 3, 0.9)]),
    overlay([0.5, 0.4, 0.6, 0.5], [(0, 1, 0.5), (1, 2, 0.9), (2, 0, 0.7), (2, 3, 1.0)]),  # falls into many parts
    overlay([0.9, 1.0, 0.9], [(0, 1, 0.9)]),  # one broker has no link
]


@pytest.mark.parametrize("graph", GRAPHS)
def test_pairs_are_connected_as_often_as_the_states_in_which_they_are_so_are_likely(graph: Overlay) -> None:
    worlds = ConnectedWorlds(graph, WORLDS, "states")
    brokers = range(len(graph.names))
    for target in brokers:
        counts = worlds.reached(target, brokers) / WORLDS
        for source in brokers:
            if source != target:
                assert near(counts[source, 0], enumerated(graph, source, target)), (source, target)
                assert near(counts[source, 1], enumerated(graph, source, target, ends_up=True)), (source, target)


def test_the_answer_does_not_depend_on_who_was_asked_for_before(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = drawn(12, 2, 0.6, 0.8)
    one = ConnectedWorlds(graph, 2_500, "seed")
    there = {target: one.reached(target, range(12)) for target in (3, 7)}
    monkeypatch.setattr(connected_worlds, "_KEPT_BYTES_MAX", 0)  # drawn again each time
    other = ConnectedWorlds(graph, 2_500, "seed")
    for target in (7, 3, 7):
        assert (other.reached(target, range(12)) == there[target]).all()
    assert (other.reached(3, [5, 1]) == there[3][[5, 1]]).all()
    assert (ConnectedWorlds(graph, 2_500, "another").reached(3, range(12)) != there[3]).any()
