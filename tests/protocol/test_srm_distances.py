"""How far others are: by clocks that agree, or by asking."""

from dataclasses import replace

from holdfast.protocol.recovery.srm.distances import PeerDistances
from tests.protocol.srm_network import D, Room
from tests.protocol.test_srm_requests import EXACT

SECOND = 1_000_000
ASKING = replace(EXACT, distances="round-trips")


def test_trusted_clocks_tell_with_every_message() -> None:
    found = PeerDistances(SECOND, None)
    assert found.to_us("b") == SECOND
    found.on_heard("b", departure_us=0, now_us=40_000)
    assert found.to_us("b") == 40_000
    assert found.take_due(40_000) == []


def test_a_clock_that_is_an_hour_off_does_not_matter_to_who_asks() -> None:
    found = PeerDistances(SECOND, 10 * SECOND)
    found.on_heard("b", departure_us=3_600 * SECOND, now_us=0)
    assert found.take_due(0) == ["b"]
    found.on_answer("b", asked_us=0, now_us=80_000)
    assert found.to_us("b") == 40_000


def test_one_is_asked_again_after_a_while_and_only_while_heard() -> None:
    found = PeerDistances(SECOND, 10 * SECOND)
    for now_us, due in ((0, ["b"]), (9 * SECOND, []), (10 * SECOND, ["b"])):
        found.on_heard("b", 0, now_us)
        assert found.take_due(now_us) == due
    assert found.take_due(99 * SECOND) == []


def test_an_answer_to_no_question_tells_nothing() -> None:
    found = PeerDistances(SECOND, 10 * SECOND)
    found.on_answer("b", asked_us=0, now_us=80_000)
    found.on_heard("b", 0, 0)
    found.take_due(0)
    found.on_answer("b", asked_us=1, now_us=80_000)
    assert found.to_us("b") == SECOND


def test_a_loss_is_asked_for_as_soon_as_with_clocks_once_the_distance_is_known() -> None:
    room = Room("a", settings=ASKING)
    room.publish(1, to=("a",))
    room.run(4 * D)  # heard at D, asked, answered at 3 D
    room.publish(2)
    room.publish(3, to=("a",))
    room.run(10 * D)
    assert room.times("request") == [4 * D + D + 2 * D]


def test_before_the_first_answer_the_default_counts() -> None:
    room = Room("a", settings=ASKING, lose=lambda kind, _a, _b: kind == "record")
    room.publish(1, to=("a",))
    room.run(4 * D)
    room.publish(2)
    room.publish(3, to=("a",))
    room.run(30 * D)
    assert room.times("request")[:1] == [5 * D + 2 * SECOND]
