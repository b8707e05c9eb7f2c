"""A subscription that begins in the past: first what was kept, then what came meanwhile, each event once."""

from typing import NamedTuple

from holdfast.protocol.replay import Replay
from holdfast.protocol.settings import ProtocolSettings


class Numbered(NamedTuple):
    source: str
    seq: int


def events(*numbers: int) -> list[Numbered]:
    return [Numbered("p", each) for each in numbers]


def replay(held_max: int = 10) -> Replay[Numbered]:
    return Replay(ProtocolSettings(), held_max)


def test_what_comes_live_waits_for_the_past_and_follows_it() -> None:
    one = replay()
    one.on_end_asked()
    assert one.on_live(events(4, 5)) == []
    assert one.on_past(events(1, 2, 3)) == events(1, 2, 3)
    assert one.on_end_reached() == events(4, 5)
    assert one.on_live(events(6)) == events(6)


def test_an_event_that_comes_both_ways_is_handed_out_once() -> None:
    one = replay()
    one.on_end_asked()
    one.on_live(events(3, 4))
    assert one.on_past(events(1, 2, 3)) == events(1, 2, 3)
    assert one.on_end_reached() == events(4)
    assert one.on_live(events(2, 4, 5)) == events(5)


def test_more_than_may_be_held_back_is_read_from_the_history_instead() -> None:
    one = replay(held_max=2)
    one.on_end_asked()
    one.on_live(events(2, 3, 4))
    assert one.held == 0
    one.on_past(events(1, 2))
    assert one.on_end_reached() is None
    one.on_end_asked()
    one.on_live(events(5))
    assert one.on_past(events(3, 4)) == events(3, 4)
    assert one.on_end_reached() == events(5)


def test_what_was_held_before_the_end_is_asked_for_is_in_the_history_and_let_go() -> None:
    one = replay()
    one.on_live(events(1, 2))
    one.on_end_asked()
    assert one.held == 0
    assert one.on_past(events(1, 2)) == events(1, 2)
    assert one.on_end_reached() == []


def test_a_history_that_is_refused_leaves_what_came_live() -> None:
    one = replay()
    one.on_end_asked()
    one.on_live(events(7))
    assert (one.give_up(), one.is_live, one.on_live(events(8))) == (events(7), True, events(8))
