"""Brokers that are linked in a circle, where routing needs a tree, do not melt."""

from itertools import combinations

import pytest

from holdfast.model.messages import Batch, Publication, Publish
from holdfast.protocol.circles import Circles
from tests.protocol.wires import Wires


def mesh(brokers: int) -> Wires:
    wires = Wires()
    names = [f"b{number}" for number in range(brokers)]
    wires.broker(*names)
    for one, other in combinations(names, 2):
        wires.link(one, other)
    for name in names:
        wires.client(f"c-{name}", name, "n >= 0")
    return wires


@pytest.mark.parametrize("brokers", [3, 6])
def test_an_event_on_a_full_mesh_crosses_each_link_a_few_times(brokers: int) -> None:
    wires = mesh(brokers)
    everybody = sorted(f"c-b{number}" for number in range(brokers))
    for n in range(5):
        before = len(wires.sent)
        assert wires.publish("c-b0", n=n) == everybody
        events = [each for each in wires.sent[before:] if isinstance(each[2], Publish | Batch)]
        assert len(events) <= 2 * brokers * (brokers - 1)  # each broker forwards it twice at most


def test_a_source_that_moves_loses_nothing() -> None:
    circles = Circles()
    assert all(circles.is_first("left", event(seq)) for seq in (1, 2, 5))
    assert all(circles.is_first("right", event(seq)) for seq in (6, 7))
    assert all(circles.is_first("left", event(seq)) for seq in (3, 4))  # that were still under way
    assert not circles.is_first("right", event(3))


def test_what_comes_over_one_link_is_never_taken_for_a_circle() -> None:
    """It may have been retransmitted there."""
    circles = Circles()
    assert all(circles.is_first("left", event(seq)) for seq in (1, 1, 1))


def test_of_a_batch_only_what_is_new_goes_on() -> None:
    circles = Circles()
    assert circles.first_of("left", batch(1, 2)) is None
    assert circles.first_of("right", batch(3, 4)) is None
    assert circles.first_of("left", batch(4, 5)) == [1]
    assert circles.first_of("right", batch(4, 5)) == []


def test_control_messages_are_told_apart_by_what_they_hold() -> None:
    circles = Circles()
    circles.is_first("left", event(1))
    for payload, first in ((b"a", True), (b"b", True), (b"a", False)):
        assert circles.is_first("right", Publication("p", 0, 9, None, {}, payload)) is first


def event(seq: int) -> Publication:
    return Publication("p", seq, 1, None, {}, b"")


def batch(*seqs: int) -> Batch:
    return Batch(seqs, "p", (1,) * len(seqs), ({},) * len(seqs), (), 0)
