"""The latch, case by case. Each gap is waited for a millisecond unless a test says otherwise."""

import pytest

from holdfast.model.errors import InputError
from holdfast.protocol.order.latch import Release
from holdfast.protocol.order.settings import LatchSettings
from tests.protocol.latches import Rig

# Waiting ---------------------------------------------------------------------------------------------------------


def test_what_misses_nothing_is_released_at_once() -> None:
    rig = Rig()
    assert [rig.gets(n, at_us=n) for n in (1, 2, 5, 9)] == [[1], [2], [5], [9]]
    assert rig.latch.next_due_us() is None


def test_a_message_waits_for_an_earlier_one_that_matters_and_follows_it() -> None:
    rig = Rig()
    rig.gets(1, at_us=0)
    assert rig.gets(3, at_us=100, missing=[2]) == []
    assert rig.gets(2, at_us=400) == [2, 3]


def test_the_release_says_how_long_it_was_held() -> None:
    rig = Rig()
    rig.gets(1, at_us=0)
    rig.gets(3, at_us=100, missing=[2])
    assert rig.latch.on_message("a", 2, 200, 400, [], 2) == [
        Release(2, late=False, held_us=0),
        Release(3, late=False, held_us=300),
    ]


def test_a_message_waits_for_no_longer_than_the_deadline() -> None:
    rig = Rig()
    rig.gets(1, at_us=0)
    rig.gets(3, at_us=100, missing=[2])
    assert rig.latch.next_due_us() == 1_100
    assert rig.waits_until(1_099) == []
    assert rig.waits_until(1_100) == [3]
    assert rig.latch.next_due_us() is None


def test_what_comes_after_its_successor_is_late_and_counted() -> None:
    rig = Rig()
    rig.gets(1, at_us=0)
    rig.gets(3, at_us=100, missing=[2])
    rig.waits_until(1_100)
    assert rig.gets(2, at_us=1_200) == [(2, "late")]
    assert rig.latch.counts["late"] == 1


def test_late_ones_can_be_dropped() -> None:
    rig = Rig(late="drop")
    rig.gets(1, at_us=0)
    rig.gets(3, at_us=100, missing=[2])
    rig.waits_until(1_100)
    assert rig.gets(2, at_us=1_200) == [(2, "dropped")]
    assert rig.latch.counts["late, dropped"] == 1


def test_what_was_never_known_to_be_missing_can_be_late_too() -> None:
    rig = Rig()
    rig.gets(1, at_us=0)
    assert rig.gets(30, at_us=100) == [30]
    assert rig.gets(2, at_us=200) == [(2, "late")]


def test_others_wait_behind_one_that_waits_even_if_they_know_nothing_of_the_gap() -> None:
    rig = Rig()
    rig.gets(1, at_us=0)
    rig.gets(3, at_us=100, missing=[2])
    assert rig.gets(4, at_us=200) == []
    assert rig.waits_until(1_100) == [3, 4]


def test_a_passed_deadline_releases_everything_up_to_the_next_live_gap() -> None:
    rig = Rig()
    rig.gets(1, at_us=0)
    rig.gets(3, at_us=100, missing=[2])
    rig.gets(4, at_us=200)
    rig.gets(6, at_us=600, missing=[5, 2])
    assert rig.waits_until(1_100) == [3, 4]
    assert rig.latch.next_due_us() == 1_600
    assert rig.waits_until(1_600) == [6]


def test_a_gap_has_one_deadline_however_many_messages_show_it() -> None:
    rig = Rig()
    rig.gets(1, at_us=0)
    rig.gets(3, at_us=100, missing=[2])
    rig.gets(4, at_us=900, missing=[2])
    assert rig.waits_until(1_100) == [3, 4]
    assert rig.gets(5, at_us=1_200, missing=[2]) == [5]


def test_a_number_given_up_on_is_not_late_while_nothing_after_it_is_out() -> None:
    rig = Rig()
    rig.gets(3, at_us=0)
    rig.gets(6, at_us=200, missing=[4])
    rig.gets(7, at_us=800, missing=[4, 5])
    assert rig.waits_until(1_200) == []  # 4 is given up, but 5 is awaited until 1800 and 6 stands behind it
    assert rig.gets(8, at_us=1_250, missing=[4]) == []  # and 4 is not waited for again
    assert rig.gets(4, at_us=1_300) == [4]
    assert rig.gets(5, at_us=1_400) == [5, 6, 7, 8]


def test_a_timer_that_comes_late_still_releases_in_order() -> None:
    rig = Rig()
    rig.gets(1, at_us=0)
    rig.gets(5, at_us=100, missing=[4])
    rig.gets(3, at_us=200, missing=[2])
    assert rig.waits_until(9_000) == [3, 5]


def test_an_overdue_gap_does_not_wait_for_the_timer() -> None:
    rig = Rig()
    rig.gets(1, at_us=0)
    rig.gets(3, at_us=100, missing=[2])
    assert rig.gets(4, at_us=2_000) == [3, 4]


def test_sources_do_not_wait_for_each_other() -> None:
    rig = Rig()
    rig.gets(1, at_us=0)
    rig.gets(3, at_us=100, missing=[2])
    assert rig.gets(9, at_us=200, source="b") == [9]
    assert rig.waits_until(5_000) == [3]


# Losses and repairs ----------------------------------------------------------------------------------------------


def test_a_declared_loss_ends_the_wait() -> None:
    rig = Rig()
    rig.gets(1, at_us=0)
    rig.gets(4, at_us=100, missing=[2, 3])
    assert rig.latch.on_lost("a", 2, 200) == []
    assert rig.latch.on_lost("a", 3, 300) == [Release(4, late=False, held_us=200)]
    assert rig.latch.on_lost("a", 3, 400) == rig.latch.on_lost("nobody", 1, 400) == []


def test_a_repair_ends_the_wait_and_teaches_how_long_one_takes_but_nothing_about_the_usual_delay() -> None:
    rig = Rig()
    rig.gets(1, at_us=0)
    rig.gets(3, at_us=100, missing=[2])
    assert rig.gets(2, at_us=600, is_repair=True) == [2, 3]
    assert rig.estimator.arrived == [1, 3]
    assert rig.estimator.found == [(400, 500, False)]


def test_a_repair_that_comes_too_late_is_late_like_any_other() -> None:
    rig = Rig()
    rig.gets(1, at_us=0)
    rig.gets(3, at_us=100, missing=[2])
    rig.waits_until(1_100)
    assert rig.gets(2, at_us=9_000, is_repair=True) == [(2, "late")]
    assert rig.estimator.found == [(8_800, 8_900, True)]


def test_originals_teach_the_estimator_whether_they_were_waited_for_long_enough() -> None:
    rig = Rig()
    rig.gets(1, at_us=1_000)
    rig.gets(4, at_us=1_100, missing=[2, 3])
    rig.gets(2, at_us=1_500)  # left at 200, noticed at 1100
    rig.waits_until(2_100)
    rig.gets(3, at_us=9_000)
    assert rig.estimator.found == [(1_300, 400, False), (8_700, 7_900, True)]


@pytest.mark.parametrize("wait_us", [float("inf"), 1e18])
def test_no_estimate_holds_a_message_longer_than_allowed(wait_us: float) -> None:
    rig = Rig(wait_us=wait_us, hold_us_max=2_000)
    rig.gets(1, at_us=0)
    rig.gets(5, at_us=100, missing=[4])
    rig.gets(6, at_us=2_000, missing=[3])  # news of a gap below 5 does not lengthen the wait of 5
    assert rig.waits_until(2_100) == [5, 6]


def test_a_deadline_in_the_past_is_no_wait() -> None:
    rig = Rig(wait_us=-5e9)
    rig.gets(1, at_us=0)
    assert rig.gets(3, at_us=100, missing=[2]) == [3]


# Beginnings ------------------------------------------------------------------------------------------------------


def test_the_first_message_of_a_source_does_not_wait_for_history() -> None:
    rig = Rig()
    assert rig.gets(500, at_us=0, missing=[498, 499]) == [500]
    assert rig.gets(501, at_us=10, missing=[499]) == [501]
    assert rig.gets(503, at_us=20, missing=[502, 499]) == []


def test_a_publisher_that_jumps_ahead_is_not_waited_for_in_between() -> None:
    rig = Rig()
    rig.gets(5, at_us=0)
    assert rig.gets(1_000_000, at_us=10) == [1_000_000]


def test_a_new_life_releases_what_the_old_one_left_and_starts_anew() -> None:
    rig = Rig()
    rig.gets(100, at_us=0, epoch=1)
    rig.gets(103, at_us=100, missing=[102], epoch=1)
    rig.gets(104, at_us=150, missing=[102], epoch=1)
    assert rig.gets(3, at_us=200, missing=[1, 2], epoch=2, departure_us=15_000) == [103, 104, 3]
    assert rig.gets(102, at_us=300, epoch=1) == [(102, "late")]
    assert rig.gets(5, at_us=400, missing=[4], epoch=2) == []
    assert rig.gets(4, at_us=500, epoch=2) == [4, 5]


def test_numbers_that_start_again_are_recognised_by_their_departure() -> None:
    rig = Rig(late="drop")
    rig.gets(100, at_us=10_000)  # left at 10000
    rig.gets(102, at_us=10_300, missing=[101])
    assert rig.gets(1, at_us=99_000, departure_us=98_000) == [102, 1]
    assert rig.gets(3, at_us=99_100, missing=[2], departure_us=98_900) == []
    assert rig.gets(2, at_us=99_200, departure_us=98_500) == [2, 3]


# Limits ----------------------------------------------------------------------------------------------------------


def test_past_the_limit_of_a_source_its_lowest_gap_is_given_up() -> None:
    rig = Rig(held_per_source_max=2)
    rig.gets(1, at_us=0)
    rig.gets(3, at_us=10, missing=[2])
    rig.gets(5, at_us=20, missing=[4])
    assert rig.gets(7, at_us=30, missing=[6]) == [3]
    assert rig.latch.counts["past a limit"] == 1
    assert rig.latch.gauges()["messages held back"] == (2, 200_000)


def test_past_the_limit_of_all_the_source_that_has_waited_longest_gives_up() -> None:
    rig = Rig(held_max=2)
    for source in "abc":
        rig.gets(1, at_us=0, source=source)
    rig.gets(13, at_us=10, missing=[12], source="b")
    rig.gets(23, at_us=20, missing=[22], source="a")
    assert rig.gets(33, at_us=30, missing=[32], source="c") == [13]


def test_gaps_are_limited_as_well() -> None:
    rig = Rig(gaps_per_source_max=2, gaps_max=3)
    rig.gets(1, at_us=0)
    rig.gets(5, at_us=10, missing=[2, 3, 4])
    assert rig.latch.gauges()["missing numbers awaited"] == (2, 3)
    rig.gets(1, at_us=15, source="b")
    assert rig.gets(8, at_us=20, missing=[6, 7], source="b") == []
    assert rig.latch.gauges()["missing numbers awaited"] == (3, 3)
    assert rig.gets(4, at_us=30) == [4, 5]


def test_what_a_limit_ended_is_not_blamed_on_the_estimator() -> None:
    rig = Rig(held_per_source_max=1)
    rig.gets(1, at_us=0)
    rig.gets(3, at_us=10, missing=[2])
    assert rig.gets(4, at_us=20, missing=[2]) == [3, 4]
    assert rig.gets(2, at_us=30) == [(2, "late")]
    assert rig.estimator.found == []


def test_a_source_that_is_forgotten_leaves_nothing_behind() -> None:
    rig = Rig(sources_max=2)
    for source in "ab":
        rig.gets(1, at_us=0, source=source)
    rig.gets(3, at_us=10, missing=[2], source="a")
    rig.gets(4, at_us=20, source="b")
    assert rig.gets(50, at_us=30, source="c") == [3, 50]
    assert rig.latch.next_due_us() is None
    assert rig.latch.gauges()["sources latched"] == (2, 2)
    assert rig.gets(2, at_us=40, source="a") == [2]  # a newcomer again


def test_bad_settings_are_all_named_at_once() -> None:
    with pytest.raises(InputError, match=r"target .* 0\.7; held_max .* 0; window .* -1"):
        LatchSettings(target=0.7, held_max=0, window=-1)
