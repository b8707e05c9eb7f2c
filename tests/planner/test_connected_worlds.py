"""Drawn worlds against all states written out, and the same answer however they are asked."""

from math import sqrt
from typing import Any

import numpy as np
import pytest

from holdfast.planner import connected_worlds
from holdfast.planner.connected_worlds import ConnectedWorlds
from holdfast.planner.kernels.connected import count_reached, draw, packed
from holdfast.planner.overlay import Overlay
from tests.planner.networks import connected, drawn, enumerated, overlay

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
        counts = worlds.reached(target, np.array(brokers)) / WORLDS
        for source in brokers:
            if source != target:
                assert near(counts[source, 0], enumerated(graph, source, target)), (source, target)
                assert near(counts[source, 1], enumerated(graph, source, target, ends_up=True)), (source, target)


def test_the_answer_does_not_depend_on_who_was_asked_for_before(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = drawn(12, 2, 0.6, 0.8)
    one = ConnectedWorlds(graph, 2_500, "seed")
    there = {target: one.reached(target, np.arange(12)) for target in (3, 7)}
    monkeypatch.setattr(connected_worlds, "_KEPT_BYTES_MAX", 0)  # drawn again each time
    other = ConnectedWorlds(graph, 2_500, "seed")
    for target in (7, 3, 7):
        assert (other.reached(target, np.arange(12)) == there[target]).all()
    assert (other.reached(3, np.array([5, 1])) == there[3][[5, 1]]).all()
    assert (ConnectedWorlds(graph, 2_500, "another").reached(3, np.arange(12)) != there[3]).any()


@pytest.mark.parametrize(("availability", "link", "degree"), [(0.9, 0.95, 3.0), (0.6, 0.7, 3.0), (0.95, 0.99, 2.0)])
def test_worlds_as_bits_say_what_a_look_at_each_world_says(availability: float, link: float, degree: float) -> None:
    """A main part with hardly anything beside it, worlds that fall into many parts, and long ways with few links."""
    graph = drawn(25, 5, availability - 0.1, availability, degree, link)
    near, first = graph.neighbour_arrays
    part, link_up = draw(70, 11, np.array(graph.availabilities), near, first, 25)  # not whole words
    block, row_of = packed(part, link_up, near, first), np.arange(25)
    for target in (0, 13, 24):
        counts = np.zeros((25, 2), np.int64)
        count_reached(target, row_of, row_of, block, counts)
        for source in range(25):
            if source != target:
                looked = [
                    _joined(graph, here, lines, source, target) for here, lines in zip(part, link_up, strict=True)
                ]
                assert counts[source].tolist() == [sum(each[0] for each in looked), sum(each[1] for each in looked)]


def _joined(graph: Overlay, part: Any, link_up: Any, source: int, target: int) -> tuple[bool, bool]:
    """Whether two brokers are connected in a world as it is, and if both were up."""
    as_it_is = [number >= 0 for number in part]
    found = []
    for ups in (as_it_is, [up or at in (source, target) for at, up in enumerate(as_it_is)]):
        found.append(connected(graph, [*ups, *link_up], source, target))
    return found[0], found[1]
