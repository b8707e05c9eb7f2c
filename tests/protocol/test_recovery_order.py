"""Strict order with recovery, and what is told of losses, where publishers have names, and die."""

from tests.protocol.recovering_pair import Pair

TIME_OF_DAY = 1_790_000_000_000_000  # where the numbers of a publisher with a name begin


def test_numbers_that_begin_at_the_time_of_day_are_told_and_released_like_others() -> None:
    pair = Pair("strict", first_seq=TIME_OF_DAY)
    for n in range(3):
        pair.publish({"n": n})
    pair.go_on(2)
    assert pair.delivered == [0, 1, 2]


def test_when_a_publisher_dies_what_waits_comes_out_and_all_that_may_be_lost_is_told() -> None:
    """The last event tells of the ten before it; of the others that were lost nobody ever tells."""
    pair = Pair("strict")
    for n in range(20):
        pair.publish({"n": n})
        pair.go_on(0.5)
    for n in range(20, 60):
        pair.publish({"n": n}, is_lost=True)
    pair.publish({"n": 60})
    pair.is_dead = True
    pair.go_on(75)
    assert pair.delivered == [*range(20), 60]
    assert {seq for first, last in pair.lost for seq in range(first, last + 1)} == set(range(21, 61))


def test_what_a_publisher_has_forgotten_before_it_could_tell_of_it_is_told_as_lost() -> None:
    pair = Pair()
    pair.publish({"n": 0})
    pair.go_on(5)
    for n in range(1, 3_000):  # more than a record can go back
        pair.publish({"n": n}, is_lost=True)
    pair.go_on(20)
    lost = {seq for first, last in pair.lost for seq in range(first, last + 1)}
    assert lost | {int(str(n)) + 1 for n in pair.delivered} == set(range(1, 3_001))
    assert len(lost) + len(pair.delivered) == 3_000


def test_a_publisher_that_does_not_recover_and_leaves_causes_no_alarm() -> None:
    pair = Pair(is_feed_plain=True)
    for n in range(5):
        pair.publish({"n": n}, is_lost=n in (1, 2))
    pair.is_dead = True
    pair.go_on(75)
    assert pair.delivered == [0, 3, 4]
    assert pair.lost == []
