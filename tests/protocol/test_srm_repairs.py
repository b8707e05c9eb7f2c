"""Answering, as the paper has it: one holder speaks, the others hold back, and there is an end without any."""

from math import sqrt
from statistics import mean, stdev

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.limits import ATTRIBUTES_MAX
from holdfast.model.messages import Publication
from holdfast.protocol.recovery.srm import counts as c
from holdfast.protocol.recovery.srm.messages import repair_attributes, wanted_untrusted
from holdfast.protocol.recovery.srm.settings import SrmSettings
from tests.protocol.srm_network import FIXED, D, Room
from tests.protocol.test_srm_requests import EXACT, FOREVER, hear, request

HOLDERS = ("h1", "h2", "h3", "h4")


def one_loss(*holders: str, **options: object) -> Room:
    """Node a misses publication 1, the holders have it."""
    room = Room("a", *holders, **options)  # type: ignore[arg-type]
    room.publish(1, to=holders)
    room.publish(2, to=("a", *holders))
    return room


def test_a_loss_is_repaired_by_a_holder() -> None:
    room = one_loss("h", settings=EXACT)
    room.run(FOREVER)
    # known at D, asked at 3 D, heard at 4 D, answered after the distance to the one who asks
    assert room.said == [(3 * D, "a", "request"), (5 * D, "h", "repair")]
    assert room.nodes["a"].got == [2, 1]
    took_us = {phase: list(times_us) for phase, times_us in room.nodes["a"].machine.phases_us.items()}
    assert took_us["request"] == [2 * D] and took_us["repair"] == [2 * D] and took_us["answer"] == [3 * D]
    assert room.nodes["a"].machine.settled and room.nodes["h"].machine.settled


def test_repair_timers_are_in_the_distance_to_the_one_who_asks() -> None:
    far = 3 * D
    room = one_loss("h", settings=EXACT, delay=lambda a, b: far if {a, b} == {"a", "h"} else D)
    room.run(FOREVER)
    assert room.times("repair") == [3 * D + far + far]


def test_as_many_answer_as_the_closed_form_says() -> None:
    """n holders, timers spread over W = D2 d, mutual hearing after r W: 1 + n r - r^n answer on average."""
    ratio, answered = 0.25, []
    for seed in range(200):
        room = one_loss(*HOLDERS, seed=seed, delay=lambda a, b: int(ratio * D) if a[0] == b[0] == "h" else D)
        room.run(9 * D)  # repaired by then, and nobody has asked twice
        answered.append(len(room.times("repair")))
    expected = 1 + len(HOLDERS) * ratio - ratio ** len(HOLDERS)
    assert abs(mean(answered) - expected) <= 3 * stdev(answered) / sqrt(len(answered))


def test_requests_during_the_hold_down_are_taken_for_answered() -> None:
    room = one_loss("h", settings=EXACT)
    room.run(5 * D)
    for when in (6 * D, 8 * D - 1):
        room.run(when)
        hear(room, "h", request(room, 1, "b"))
    room.run(FOREVER)
    assert room.times("repair") == [5 * D]


def test_a_request_after_the_hold_down_is_answered_again() -> None:
    room = one_loss("h", settings=EXACT)
    room.run(8 * D)
    sent = request(room, 1, "a")
    room.run(9 * D)
    hear(room, "h", sent)
    room.run(FOREVER)
    assert room.times("repair") == [5 * D, 10 * D]


def test_a_repaired_node_does_not_answer_those_who_could_not_know() -> None:
    room = one_loss("h", settings=EXACT)
    room.run(6 * D)  # a has the repair
    hear(room, "a", request(room, 1, "b"))
    room.run(9 * D - 1)
    hear(room, "a", request(room, 1, "b"))
    room.run(FOREVER)
    assert room.times("repair", by="a") == []


def test_duplicate_repairs_are_counted_once() -> None:
    room = one_loss("h1", "h2", settings=EXACT)  # both answer at the same moment
    room.run(FOREVER)
    assert room.count(c.REPAIRED) == 2
    assert room.count(c.REPAIRED_TWICE) == 1
    assert room.nodes["a"].got == [2, 1]


def test_duplicate_requests_are_counted_once() -> None:
    room = Room("a", "b", "h", settings=EXACT)  # both ask at the same moment
    room.publish(1, to=("h",))
    room.publish(2, to=("a", "b", "h"))
    room.run(FOREVER)
    assert room.count(c.ASKED_FIRST) == 2
    assert room.count(c.ASKED_TWICE) == 1
    assert room.count(c.HEARD_TWICE) == 2
    assert len(room.times("repair")) == 1


def test_without_any_holder_it_ends() -> None:
    room = Room("a", "b", "d", settings=SrmSettings())
    room.publish(1)
    room.publish(2, to=("a", "b", "d"))
    room.run(FOREVER)
    assert room.times("repair") == []
    assert all(each.lost == [(1, "nobody answers")] and each.machine.settled for each in room.nodes.values())


def test_a_publisher_that_keeps_its_own_answers_when_nobody_else_can() -> None:
    room = Room("a", "b", settings=SrmSettings(publisher_cache=True))
    room.publish(1)
    room.publish(2, to=("a", "b"))
    room.run(FOREVER)
    assert all(sorted(each.got) == [1, 2] for each in room.nodes.values())
    assert {name for _, name, kind in room.said if kind == "repair"} == {"Z"}


def test_a_publisher_holds_back_when_a_subscriber_answers() -> None:
    settings = SrmSettings(adaptive=False, repair_spread=0, publisher_cache=True)
    room = one_loss("h", settings=settings, delay=lambda a, b: D // 4 if {a, b} == {"a", "h"} else D)
    room.run(FOREVER)
    assert {name for _, name, kind in room.said if kind == "repair"} == {"h"}


def test_lost_requests_and_repairs_cost_rounds_not_the_event() -> None:
    lossy: list[str] = []

    def lose(kind: str, _a: str, b: str) -> bool:
        lossy.append(kind)
        return (kind == "request" and lossy.count("request") <= 2) or (kind == "repair" and lossy.count("repair") <= 1)

    room = one_loss("h", settings=EXACT, lose=lose)
    room.run(FOREVER)
    assert room.nodes["a"].got == [2, 1]
    assert len(room.times("request")) == 4  # two were lost, then a repair was


def test_a_repair_is_delivered_once_however_often_it_comes() -> None:
    room = one_loss(*HOLDERS, settings=FIXED, delay=lambda a, b: 2 * D if a[0] == b[0] == "h" else D)
    room.run(FOREVER)
    assert len(room.times("repair")) > 1
    assert room.nodes["a"].got == [2, 1]


def test_pending_repairs_have_a_limit() -> None:
    settings = SrmSettings(adaptive=False, repairs_max=1)
    room = Room("a", "h", settings=settings)
    room.publish(1, to=("h",), y=1)
    room.publish(2, to=("h",), y=2)
    room.run(D)
    hear(room, "h", request(room, 1, "a"))
    hear(room, "h", request(room, 2, "a"))
    assert room.nodes["h"].machine.gauges()["repairs about to be sent"] == (1, 1)
    assert room.count(c.NOT_REPAIRED) == 1


def test_an_event_without_room_for_the_marks_is_not_repaired() -> None:
    full = Publication("Z", 1, 0, None, {f"a{number}": 1 for number in range(ATTRIBUTES_MAX)}, b"", None)
    assert repair_attributes(full, D) is None


@pytest.mark.parametrize(
    ("attributes", "payload"),
    [
        ({"~": "q"}, b""),
        ({"~": "q", "~of": 3}, b""),
        ({"~": "q", "~of": "Z"}, b"\xc1"),
        ({"~": "q", "~of": "Z"}, b"\x94"),
    ],
)
def test_what_is_no_request_is_refused(attributes: dict[str, object], payload: bytes) -> None:
    with pytest.raises(PeerError):
        wanted_untrusted(Publication("x", 0, 0, None, attributes, payload))  # type: ignore[arg-type]
