"""Publishers that do not recover, that die early, that begin anew, and that want to leave."""

import pytest

from holdfast.model.messages import Delta, Publication
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.effects import PublishCall, Send, Wake
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.subscriber import Subscriber
from holdfast.protocol.settings import Order
from tests.protocol.recovering_pair import SECOND_US, Pair, channel


@pytest.mark.parametrize("order", ["none", "fifo", "strict"])
def test_a_publisher_that_does_not_recover_is_neither_waited_for_nor_followed(order: Order) -> None:
    pair = Pair(order, is_feed_plain=True)
    for n in range(3):
        pair.publish({"n": n}, is_lost=n == 1)
    assert pair.delivered == [0, 2]
    assert pair.desk.gauges()["publishers followed"][0] == 0
    assert pair.desk.has_settled(pair.now_us)
    pair.go_on(70)
    assert pair.lost == []


def test_numbers_that_a_publisher_did_not_live_to_tell_of_are_told_to_the_application() -> None:
    pair = Pair()
    for n in range(4):
        pair.publish({"n": n}, is_lost=n in (1, 2))
    pair.is_dead = True
    pair.go_on(50)
    assert pair.lost == []  # it may be cut off
    pair.go_on(15)
    assert pair.lost == [(2, 3)]


def test_strict_order_lets_events_go_when_their_publisher_died_before_it_told_of_anything() -> None:
    pair = Pair("strict")
    for n in range(4):
        pair.publish({"n": n}, is_lost=n == 1)
    pair.is_dead = True
    pair.go_on(50)
    assert pair.delivered == []
    pair.go_on(15)
    assert pair.delivered == [0, 2, 3]


@pytest.mark.parametrize("is_plain", [False, True])
def test_the_events_of_a_publisher_s_next_life_do_not_wait_for_those_of_the_last(is_plain: bool) -> None:
    pair = Pair("strict")
    pair.publish({"n": 0})
    pair.go_on(3)
    pair.publish({"n": 1}, is_lost=True)
    pair.publish({"n": 2})
    pair.begin_anew(10_000_000, is_plain)
    for n in range(3, 6):
        pair.publish({"n": n})
    pair.go_on(10)
    assert pair.delivered == [0, 2, 3, 4, 5]
    assert pair.lost[0] == (2, 2) or is_plain


def test_who_leaves_tells_of_its_last_events_for_some_seconds_if_somebody_listens() -> None:
    pair = Pair()
    assert pair.feed.has_announced
    pair.publish({"n": 0})
    pair.go_on(5)
    assert not pair.feed.has_announced
    pair.go_on(1)
    assert pair.feed.has_announced


def test_who_leaves_does_not_tell_of_its_last_events_for_long_if_nobody_listens() -> None:
    feed = Pair().feed
    feed.handle(PublishCall({"n": 0}), 0)
    assert not feed.has_announced
    for at_us in range(0, 2 * SECOND_US, SECOND_US // 10):
        feed.handle(Wake(), at_us)
    assert feed.has_announced


def test_who_subscribes_may_leave_at_once() -> None:
    pair = Pair()
    pair.publish({"n": 0})
    pair.publish({"n": 1}, is_lost=True)
    pair.publish({"n": 2})
    pair.go_on(0.5)
    assert pair.desk.has_announced


def test_what_brokers_usually_get_back_by_themselves_is_not_asked_for_too_early() -> None:
    pair = Pair()
    pair.publish({"n": 0})
    pair.go_on(3)
    for n in range(1, 8):
        event = pair.keep_back({"n": n})
        pair.go_on(0.6)  # sooner than the digest that tells of it
        pair.bring(event, "gossip")
        pair.go_on(2)
    assert pair.repairs == 0
    event = pair.keep_back({"n": 8})
    for n in range(9, 18):  # so many that the digest comes soon
        pair.publish({"n": n})
    pair.go_on(0.5)
    pair.bring(event, "gossip")
    pair.go_on(3)
    assert pair.repairs == 0
    assert sorted(map(int, map(str, pair.delivered))) == list(range(18))
    pair.publish({"n": 18}, is_lost=True)  # but brokers cannot get back everything
    pair.go_on(5)
    assert pair.delivered[-1] == 18


def test_one_more_publisher_is_followed_when_another_has_been_silent_for_a_while() -> None:
    desk = Subscriber(RecoverySettings(sources_max=2), Seen(100, 100), 0, channel("desk"))

    def hear(source: str, at_s: int) -> bool:
        """Whether it is followed from now on."""
        effects = desk.on_event(Publication(source, at_s, 0, None, {}, b"", b""), "original", at_s * SECOND_US)
        changes = [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, Delta)]
        return any(each.add for each in changes)

    assert hear("a", 100)
    assert hear("b", 102)
    assert [hear("c", at_s) for at_s in (103, 110, 114)] == [False] * 3
    hear("a", 114)  # so now b is the one to make room
    assert [hear("c", at_s) for at_s in (115, 116)] == [False] * 2
    assert hear("c", 118)
    assert not hear("b", 119)
