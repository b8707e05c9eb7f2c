"""Strict order: what lies below the frontier goes, in order; nothing else does."""

from random import Random

from holdfast.protocol.order.latch import Dropped, Release
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.order.strict import StrictQueue


def numbers(effects: list[Release[int] | Dropped[int]]) -> list[int]:
    assert all(isinstance(each, Release) and not each.late for each in effects)
    return [each.item for each in effects]


def gets(queue: StrictQueue[int], seq: int, frontier: int, at_us: int = 0) -> list[int]:
    return numbers(queue.on_message("a", seq, 100 * seq, at_us, frontier, seq))


def test_an_event_waits_until_nothing_earlier_is_missing() -> None:
    queue: StrictQueue[int] = StrictQueue(LatchSettings("strict"))
    assert gets(queue, 1, frontier=2) == [1]
    assert gets(queue, 3, frontier=2) == []
    assert gets(queue, 5, frontier=2) == []
    assert queue.blocked == ["a"]
    assert gets(queue, 2, frontier=4) == [2, 3]
    assert numbers(queue.on_frontier("a", 6, 0)) == [5]
    assert queue.blocked == []


def test_how_long_an_event_was_held_is_told() -> None:
    queue: StrictQueue[int] = StrictQueue(LatchSettings("strict"))
    queue.on_message("a", 2, 0, 1_000, 1, 2)
    (release,) = queue.on_frontier("a", 3, 5_000)
    assert isinstance(release, Release)
    assert release.held_us == 4_000


def test_what_was_given_up_and_comes_after_all_is_dropped() -> None:
    queue: StrictQueue[int] = StrictQueue(LatchSettings("strict"))
    assert gets(queue, 1, frontier=2) == [1]
    assert gets(queue, 3, frontier=2) == []
    assert numbers(queue.on_frontier("a", 4, 0)) == [3]
    assert queue.on_message("a", 2, 200, 0, 4, 2) == [Dropped(2)]


def test_a_publisher_that_begins_anew_is_followed_from_there() -> None:
    queue: StrictQueue[int] = StrictQueue(LatchSettings("strict"))
    assert gets(queue, 50, frontier=51) == [50]
    assert numbers(queue.on_message("a", 1, 900_000, 0, 2, 1)) == [1]


def test_events_in_a_row_pass_at_once_only_if_nothing_is_missing_before_any_of_them() -> None:
    queue: StrictQueue[int] = StrictQueue(LatchSettings("strict"))
    assert queue.passes("a", [1, 2, 4], 400, frontier=5)
    assert not queue.passes("a", [6, 7], 700, frontier=5)
    assert gets(queue, 6, frontier=5) == []
    assert not queue.passes("a", [7, 8], 800, frontier=9)  # 6 goes first
    assert not queue.passes("a", [3], 300, frontier=9)  # too late


def test_nothing_waits_for_ever() -> None:
    queue: StrictQueue[int] = StrictQueue(LatchSettings("strict", strict_hold_us_max=5_000))
    assert gets(queue, 3, frontier=1, at_us=100) == []
    assert queue.next_due_us() == 5_100
    assert queue.overdue(5_099) == []
    assert queue.overdue(5_100) == [("a", 3, "nobody answers")]


def test_past_a_limit_the_lowest_gap_is_to_be_given_up() -> None:
    queue: StrictQueue[int] = StrictQueue(LatchSettings("strict", held_per_source_max=2))
    for seq in (3, 5, 7):
        assert gets(queue, seq, frontier=2) == []
    assert queue.too_many
    assert queue.overdue(0) == [("a", 3, "too many events wait for it")]


def test_whatever_comes_in_whatever_order_leaves_in_order_and_once() -> None:
    for seed in range(200):
        rng = Random(seed)
        queue: StrictQueue[int] = StrictQueue(LatchSettings("strict"))
        wanted = sorted(rng.sample(range(1, 200), 60))
        lost, seen, out = set(rng.sample(wanted, 5)), set[int](), list[int]()
        for seq in sorted(wanted, key=lambda seq: seq + rng.randrange(40)):
            if seq in lost:
                continue
            seen.add(seq)
            frontier = next((each for each in wanted if each not in seen), 1_000)
            out += gets(queue, seq, frontier)
        out += numbers(queue.on_frontier("a", 1_000, 0))
        assert out == [seq for seq in wanted if seq not in lost]
