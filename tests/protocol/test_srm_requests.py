"""Asking, as the paper has it: who stays quiet, who gives up, and what never begins."""

from itertools import pairwise

from holdfast.model.messages import AttributeValue, Publication
from holdfast.protocol.records import ColumnSettings, RecordSettings, first_book
from holdfast.protocol.recovery.srm import counts as c
from holdfast.protocol.recovery.srm.messages import Wanted, encoded, routing_of
from holdfast.protocol.recovery.srm.settings import SrmSettings
from tests.protocol.srm_network import D, Room

EXACT = SrmSettings(adaptive=False, request_spread=0, repair_spread=0)  # asks after 2 D, repairs after 1 D
FOREVER = 10**10


def routing() -> dict[str, AttributeValue]:
    """The attributes of a request for the event x = 1."""
    book = first_book(EXACT.records.encoding)
    return routing_of("Z", book, book.entry({"x": 1}))


def request(room: Room, seq: int, by: str, round_: int = 0) -> Publication:
    wanted = Wanted(((seq, room.now_us),), round_, D, 2 * D)
    return Publication(by, 0, room.now_us, None, routing(), encoded(wanted))


def hear(room: Room, name: str, publication: Publication) -> None:
    node = room.nodes[name]
    effects, _ = node.machine.on_control(publication, room.now_us)
    node.note(effects)


def with_a_loss(settings: SrmSettings = EXACT) -> Room:
    """Node a misses publication 1 and knows it at D; by itself it asks at 3 D."""
    room = Room("a", settings=settings)
    room.publish(1)
    room.publish(2, to=("a",))
    room.run(D)
    return room


def test_a_request_is_withheld_when_another_asks_first() -> None:
    room = with_a_loss()
    room.run(2 * D)
    hear(room, "a", request(room, 1, "b"))
    room.run(2 * D + 4 * D - 1)
    assert room.said == []
    room.run(2 * D + 4 * D)  # twice the first wait
    assert room.times("request") == [6 * D]


def test_requests_of_the_same_round_do_not_double_the_wait_again() -> None:
    room = with_a_loss()
    room.run(2 * D)
    hear(room, "a", request(room, 1, "b"))
    room.run(4 * D - 1)  # just before the half of the wait
    hear(room, "a", request(room, 1, "c"))
    room.run(6 * D)
    assert room.times("request") == [6 * D]


def test_a_request_after_half_the_wait_begins_the_next_round() -> None:
    room = with_a_loss()
    room.run(2 * D)
    hear(room, "a", request(room, 1, "b"))
    room.run(4 * D)
    hear(room, "a", request(room, 1, "b", round_=1))
    room.run(4 * D + 8 * D)
    assert room.times("request") == [12 * D]


def test_an_abandoned_id_is_not_woken() -> None:
    room = with_a_loss()
    room.run(FOREVER)
    asked = len(room.said)
    hear(room, "a", request(room, 1, "b"))
    room.publish(3, to=("a",))  # its record tells of the same loss once more
    room.run(2 * FOREVER)
    assert len(room.said) == asked == EXACT.rounds_max
    assert room.count(c.ABANDONED) == 1


def test_two_who_gave_up_do_not_wake_each_other() -> None:
    room = Room("a", "b", "d", "e", delay=lambda _a, b: D * (1 + "abdeZ".index(b)))
    room.publish(1)
    room.publish(2, to=("a", "b"))
    room.run(FOREVER)
    assert all(each.lost == [(1, "nobody answers")] for each in room.nodes.values())
    assert room.count(c.ABANDONED) == 4
    assert room.count(c.OVERHEARD) == 2  # d and e got nothing, but heard that something was missing
    assert len(room.times("request")) <= 4 * EXACT.rounds_max
    assert all(each.machine.settled for each in room.nodes.values())


def test_who_overhears_a_loss_of_its_own_starts_in_the_second_round() -> None:
    room = Room("a", settings=EXACT)
    room.publish(1, to=("a",))
    room.run(D)
    hear(room, "a", request(room, 2, "b"))
    room.run(D + 4 * D - 1)
    assert room.said == []
    room.run(D + 4 * D)
    assert room.times("request") == [5 * D]


def test_what_was_published_before_we_subscribed_is_not_asked_for() -> None:
    room = Room("a", settings=EXACT)
    room.publish(1)
    room.run(D)
    node = room.nodes["a"]
    node.note(node.machine.on_subscriptions([(D, node.condition)], room.now_us))
    room.publish(2, to=("a",))
    earlier = Publication("b", 0, D, None, routing(), encoded(Wanted(((1, 0),), 0, D, D)))
    hear(room, "a", earlier)
    room.run(FOREVER)
    assert room.said == []


def test_what_is_not_for_us_is_not_asked_for() -> None:
    room = Room("a", settings=EXACT)
    room.publish(1, x=2)
    room.publish(2, to=("a",))
    room.run(FOREVER)
    assert room.said == []


def test_an_event_that_was_only_late_is_not_asked_for() -> None:
    room = with_a_loss()
    late = Publication("Z", 1, 0, None, {"x": 1}, b"", None)
    room.now_us = 2 * D
    room._receive(room.nodes["a"], late)
    room.run(FOREVER)
    assert room.said == []
    assert room.count(c.CAME_LATE) == 1
    assert room.nodes["a"].machine.noticed("Z", 2) == []


def test_a_false_alarm_ends_although_a_holder_answers() -> None:
    """The filter of some other event has all bits of x = 1; its repairs go to those who want it, and we do not."""
    book = first_book(EXACT.records.encoding)
    wanted = book.entry({"x": 1})
    stranger = next(x for x in range(2, 200_000) if book.entry({"x": x, "y": x}) & wanted == wanted)
    room = Room("a", "h", settings=EXACT, conditions={"h": f"x = {stranger}"})
    room.publish(1, to=("h",), x=stranger, y=stranger)
    room.publish(2, to=("a",))
    room.run(FOREVER)
    assert len(room.times("request")) == EXACT.rounds_max
    assert len(room.times("repair")) > 1
    assert room.nodes["a"].got == [2]
    assert room.nodes["a"].lost == [(1, "nobody answers")]


def test_events_with_the_same_content_share_a_request() -> None:
    room = Room("a", "h", settings=EXACT)
    for seq in (1, 2, 3):
        room.publish(seq, to=("h",))
    room.publish(4, to=("h",), y=1)
    room.publish(5, to=("a", "h"))
    room.run(FOREVER)
    assert room.nodes["a"].got[0] == 5 and sorted(room.nodes["a"].got) == [1, 2, 3, 4, 5]
    assert room.times("request") == [3 * D, 3 * D]  # one for three numbers, one for the event with y
    assert room.count(c.WANTED) == room.count(c.ANSWERED) == 4


def test_no_more_are_looked_for_than_allowed() -> None:
    room = Room("a", settings=SrmSettings(adaptive=False, missing_max=2))
    for seq in range(1, 6):
        room.publish(seq, y=seq)
    room.publish(6, to=("a",))
    room.run(D)
    gauge = room.nodes["a"].machine.gauges()["publications looked for"]
    assert gauge == (2, 2)
    assert [reason for _, reason in room.nodes["a"].lost] == ["too many events are missing"] * 3


def test_a_forgotten_publisher_leaves_nothing_behind() -> None:
    room = with_a_loss(SrmSettings(adaptive=False, sources_max=1))
    machine = room.nodes["a"].machine
    effects = machine.on_event(Publication("Y", 1, D, None, {"x": 1}, b"", None), "original", room.now_us)
    room.nodes["a"].note(effects)
    assert room.nodes["a"].lost == [(1, "too many publishers")]
    assert machine.settled and machine.next_due_us() is None
    assert machine.gauges()["publications kept"][0] == 1


def test_a_quiet_publisher_repeats_its_record_ever_more_rarely_when_told_to() -> None:
    settings = SrmSettings(adaptive=False, soft_state_us=D, soft_state_us_max=8 * D)
    room = Room("a", "h", settings=settings)
    room.publish(1, to=("a", "h"))
    room.run(D // 2)
    room.publish(2, to=("h",))  # the last one: no publication tells of it
    room.run(40 * D)
    assert room.nodes["a"].got == [1, 2]
    repeated = room.times("record")
    pauses = [late - soon for soon, late in pairwise(repeated)]
    assert pauses[:5] == [2 * D, 4 * D, 8 * D, 8 * D, 8 * D]


def test_learned_codebooks_are_told_and_listened_to() -> None:
    settings = SrmSettings(adaptive=False, kept_first=50, records=RecordSettings(ColumnSettings()))
    room = Room("a", "h", settings=settings)
    for seq in range(1, 40):
        room.publish(seq, to=("h",) if seq == 30 else ("a", "h"), y=seq)
        room.run(room.now_us + D)
    room.run(FOREVER)
    assert sorted(room.nodes["a"].got) == list(range(1, 40))
    assert room.nodes["a"].lost == []
