"""A subscription that begins in the past: first what was kept, then what came meanwhile, each event once."""

from typing import NamedTuple

from holdfast.model.messages import Via
from holdfast.protocol.replay import Replay
from holdfast.protocol.settings import ProtocolSettings


class Numbered(NamedTuple):
    source: str
    seq: int
    via: Via = "original"


def events(*numbers: int, via: Via = "original") -> list[Numbered]:
    return [Numbered("p", each, via) for each in numbers]


class Story:
    """A replay, and what it told as lost."""

    def __init__(self, held_max: int = 10, ordered: bool = False) -> None:
        self.lost: list[int] = []
        is_ordered = (lambda _: True) if ordered else None
        self.replay: Replay[Numbered] = Replay(
            ProtocolSettings(), held_max, lambda each, _: self.lost.append(each.seq), is_ordered
        )

    def rest(self, events_max: int = 1_000) -> list[int]:
        """The numbers of what follows the past, until it is live."""
        found: list[int] = []
        while not self.replay.is_live:
            followed = self.replay.on_end_reached(events_max)
            assert followed is not None
            assert len(followed) <= events_max
            found += [each.seq for each in followed]
        return found


def replay(held_max: int = 10) -> Replay[Numbered]:
    return Story(held_max).replay


def test_what_comes_live_waits_for_the_past_and_follows_it() -> None:
    one = replay()
    one.on_end_asked()
    assert one.on_live(events(4, 5)) == []
    assert one.on_past(events(1, 2, 3)) == events(1, 2, 3)
    assert one.on_end_reached(1_000) == events(4, 5)
    assert one.on_live(events(6)) == events(6)


def test_an_event_that_comes_both_ways_is_handed_out_once() -> None:
    one = replay()
    one.on_end_asked()
    one.on_live(events(3, 4))
    assert one.on_past(events(1, 2, 3)) == events(1, 2, 3)
    assert one.on_end_reached(1_000) == events(4)
    assert one.on_live(events(2, 4, 5)) == events(5)


def test_more_than_may_be_held_back_is_read_from_the_history_instead() -> None:
    one = replay(held_max=2)
    one.on_end_asked()
    one.on_live(events(2, 3, 4))
    assert one.held == 0
    one.on_past(events(1, 2))
    assert one.on_end_reached(1_000) is None
    one.on_end_asked()
    one.on_live(events(5))
    assert one.on_past(events(3, 4)) == events(3, 4)
    assert one.on_end_reached(1_000) == events(5)


def test_what_was_held_before_the_end_is_asked_for_is_in_the_history_and_let_go() -> None:
    one = replay()
    one.on_live(events(1, 2))
    one.on_end_asked()
    assert one.held == 0
    assert one.on_past(events(1, 2)) == events(1, 2)
    assert one.on_end_reached(1_000) == []


def test_a_history_that_is_refused_leaves_what_came_live() -> None:
    one = replay()
    one.on_end_asked()
    one.on_live(events(7))
    assert (one.give_up(), one.is_live, one.on_live(events(8))) == (events(7), True, events(8))


def test_repairs_are_never_let_go_because_the_history_does_not_have_them() -> None:
    story = Story(held_max=2)
    one = story.replay
    one.on_end_asked()
    one.on_live(events(3))
    one.on_live(events(2, via="repair"))
    one.on_live(events(4, 5))
    assert one.on_end_reached(1_000) is None
    one.on_live(events(6, via="repair"))
    one.on_end_asked()
    got = [each.seq for each in one.on_past(events(3, 4, 5))] + story.rest()
    assert (sorted(got), story.lost) == ([2, 3, 4, 5, 6], [])


def test_more_repairs_than_may_wait_are_told_as_lost_the_oldest_first() -> None:
    story = Story(held_max=2_000)
    story.replay.on_end_asked()
    for number in range(1, 2_004):
        story.replay.on_live(events(number, via="repair"))
    assert story.lost == [1, 2, 3]
    story.replay.on_end_asked()
    assert story.rest() == list(range(4, 2_004))


def test_new_events_of_the_history_come_in_the_order_in_which_they_came_live() -> None:
    """The broker was reached by 14, 12 and 15; 13 was lost before it and repaired; then the queue was full."""
    story = Story(held_max=2, ordered=True)
    one = story.replay
    one.on_end_asked()
    assert one.on_past(events(9, 8), is_first=True) == events(9, 8)
    for each in (*events(12), *events(13, via="repair"), *events(14, 15)):
        one.on_live([each])
    assert one.on_past(events(11, 10)) == events(11, 10)
    assert one.on_end_reached(1_000) is None
    one.on_end_asked()
    assert one.on_past(events(14, 12, 15)) == []
    assert (story.rest(events_max=2), story.lost) == ([12, 13, 14, 15], [])


def test_an_event_that_has_not_come_live_yet_is_left_until_it_has() -> None:
    """It may have to wait for an earlier one that is being repaired."""
    story = Story(held_max=1, ordered=True)
    one = story.replay
    one.on_end_asked()
    one.on_live(events(1, 2))
    assert one.on_end_reached(1_000) is None
    one.on_end_asked()
    one.on_past(events(1, 2, 4))
    assert one.skipped
    one.on_live([*events(3, via="repair"), *events(4)])
    assert one.on_end_reached(1_000) is None
    one.on_end_asked()
    one.on_past(events(1, 2, 4))
    assert not one.skipped
    assert (story.rest(), story.lost) == ([1, 2, 3, 4], [])


def test_an_event_that_comes_live_after_a_later_one_was_read_is_told_as_lost() -> None:
    story = Story(ordered=True)
    one = story.replay
    one.on_end_asked()
    assert one.on_past(events(1, 3), is_first=True) == events(1, 3)
    one.on_live([*events(2, via="repair"), *events(3, 4)])
    assert (story.rest(), story.lost) == ([4], [2])
