"""What others say about recovery is not to be trusted: whatever it is, a client counts it and goes on."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.matching.index import Index
from holdfast.model.errors import PeerError
from holdfast.model.messages import AttributeValue, Deliver, Publication, Publish
from holdfast.protocol.client import CoreClient
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Delivered,
    Effect,
    Incident,
    LinkUp,
    PublishCall,
    Published,
    Received,
    Send,
    SubscribeCall,
    Wake,
)
from holdfast.protocol.node import ClientMachine
from holdfast.protocol.records import RecordReader, RecordSettings, RecordWriter
from holdfast.protocol.recovery import control
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.settings import Guarantees, ProtocolSettings, guarantees_of
from holdfast.protocol.stack import new_client

NOW_US = 5_000_000


def client(guarantees: Guarantees | None = None) -> ClientMachine:
    wanted = guarantees or Guarantees(RecoverySettings())
    made = new_client("desk", ProtocolSettings(), ConditionBook(), Index, 1, Random(1), guarantees=wanted)
    made.handle(LinkUp("b1", "broker"), 0)
    made.handle(SubscribeCall("s", "x >= 0"), 0)
    for number in range(5):
        made.handle(PublishCall({"x": number}), 1_000 * number)
    event = Publication("feed", 3, 1_000, None, {"x": 1})
    made.handle(Received("b1", Deliver(event)), 2_000)
    return made


def said(attributes: dict[str, AttributeValue], payload: bytes, source: str = "feed") -> Received:
    return Received("b1", Deliver(Publication(source, control.CONTROL_SEQ, 3_000, None, attributes, payload)))


def real_messages() -> list[bytes]:
    writer = RecordWriter(RecordSettings())
    for number in range(20):
        writer.add({"x": number}, 1_000 * number)
    record = writer.digest(1, writer.last_seq, 30_000, with_book=True)
    repair = control.Repair((control.Repaired(2, 500, None, {"x": 7}, b"p"),), (1,))
    return [
        control.encoded(control.Digest(5, 20, 1, record)),
        control.encoded(control.Greeting(0, ("x",), 10)),
        control.encoded(control.Request((1, 2), ((1, 3),), True)),
        control.encoded(repair),
    ]


def survives(made: ClientMachine, given: Received) -> list[object]:
    effects = made.handle(given, NOW_US)
    due_us = made.next_due_us()
    assert due_us is not None
    made.handle(Wake(), max(due_us, NOW_US))
    assert all(value <= limit for value, limit in made.gauges().values())
    return list(effects)


@given(payload=st.binary(max_size=200), kind=st.sampled_from(["d", "g", "q", "r", "", "?"]))
@settings(max_examples=300, deadline=None)
def test_random_bytes_are_counted_and_dropped(payload: bytes, kind: str) -> None:
    effects = survives(client(), said({control.KIND: kind}, payload))
    assert not any(isinstance(each, Delivered) for each in effects)


def test_a_flood_of_requests_finds_a_limit_and_who_asks_in_earnest_is_answered() -> None:
    made = client(Guarantees(RecoverySettings(kept_max=50)))
    for requester in range(100):
        request = control.Request(control.distances(list(range(100 * requester, 100 * requester + 100))), (), False)
        marks = control.labels(request, ("desk",))
        made.handle(said(marks, control.encoded(request), f"crowd-{requester}"), NOW_US)
        asked, limit = made.gauges()["publications asked for"]
        assert asked <= limit == control.ASKED_MAX
    request = control.Request((3,), (), False)
    made.handle(said(control.labels(request, ("desk",)), control.encoded(request), "earnest"), NOW_US)
    effects = made.handle(Wake(), NOW_US + RecoverySettings().gather_us_max)
    sent = [
        each.message.publication for each in effects if isinstance(each, Send) and isinstance(each.message, Publish)
    ]
    assert any(control.address_of("earnest") in each.attributes for each in sent)


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_damaged_messages_do_no_harm(data: st.DataObject) -> None:
    is_snapshot = bytearray(data.draw(st.sampled_from(real_messages())))
    for _ in range(data.draw(st.integers(1, 4))):
        is_snapshot[data.draw(st.integers(0, len(is_snapshot) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(is_snapshot)))
    order = data.draw(st.sampled_from(["none", "fifo", "strict"]))
    survives(
        client(guarantees_of(True, order)), said({control.KIND: "d", control.OF: "feed"}, bytes(is_snapshot[:cut]))
    )


@pytest.mark.parametrize("payload", real_messages(), ids=["digest", "greeting", "request", "repair"])
def test_real_messages_of_a_stranger_are_taken_for_what_they_are(payload: bytes) -> None:
    survives(client(), said({control.KIND: "d"}, payload, source="stranger"))


@pytest.mark.parametrize(
    "marks",
    [
        {control.SEQ: "1", control.OF: "feed", control.TIME: 1},
        {control.SEQ: 1, control.OF: 7, control.TIME: 1},
        {control.SEQ: 1, control.OF: "feed"},
        {control.SEQ: -1, control.OF: "feed", control.TIME: 1},
        {control.SEQ: True, control.OF: "feed", control.TIME: 1},
    ],
)
def test_an_open_repair_that_does_not_say_what_it_repairs_is_refused(marks: dict[str, AttributeValue]) -> None:
    with pytest.raises(PeerError):
        control.from_open_untrusted(Publication("p", 0, 1, None, marks))
    effects = survives(client(), said({**marks, "x": 1}, b""))
    assert Incident("bad_recovery_message", source="feed") in effects


def test_a_repair_in_anothers_name_is_refused() -> None:
    marks: dict[str, AttributeValue] = {control.SEQ: 2, control.OF: "feed", control.TIME: 1, "x": 1}
    effects = survives(client(), said(marks, b"", source="mallory"))
    assert effects == [Incident("bad_recovery_message", source="mallory")]


def test_a_repair_with_a_list_among_its_attributes_is_refused() -> None:
    bad = control.Repair((control.Repaired(2, 500, None, {"x": [[1]]}, b""),))
    effects = survives(client(), said({control.KIND: "r"}, control.encoded(bad)))
    assert effects == [Incident("bad_recovery_message", source="feed")]


def test_a_repair_is_delivered_once_and_says_how_it_came() -> None:
    made = client()
    repair = control.Repair((control.Repaired(2, 500, None, {"x": 7}, b"p"),))
    first = survives(made, said({control.KIND: "r"}, control.encoded(repair)))
    again = survives(made, said({control.KIND: "r"}, control.encoded(repair)))
    (delivered,) = [each for each in first if isinstance(each, Delivered)]
    assert (delivered.via, delivered.publication.seq, delivered.publication.payload) == ("repair", 2, b"p")
    assert not [each for each in again if isinstance(each, Delivered)]


def test_who_does_not_recover_ignores_it_all() -> None:
    plain = CoreClient("desk", ProtocolSettings(), ConditionBook(), Index, 1, Random(1))
    plain.handle(LinkUp("b1", "broker"), 0)
    plain.handle(SubscribeCall("s", "TRUE"), 0)
    for payload in real_messages():
        assert plain.handle(said({control.KIND: "d"}, payload), NOW_US) == []


def after(made: ClientMachine, given: Received) -> list[Effect]:
    """What a client does about it and in the next seconds, while it goes on publishing."""
    effects = made.handle(given, NOW_US)
    for step in range(10):
        effects += made.handle(PublishCall({"x": step}), NOW_US + 1_000_000 * step)
        effects += made.handle(Wake(), NOW_US + 1_000_000 * step + 500_000)
    return effects


@pytest.mark.parametrize(
    "control_message",
    [
        control.Request((2**62, 2**62, 2**62)),
        control.Greeting(0, ("x" * 300,), 0),
        control.Repair((control.Repaired(0, 500, None, {"x": 7}, control.encoded(control.Repair())),)),
    ],
    ids=["numbers past all counting", "a name past its limit", "a repair of a repair"],
)
def test_what_no_client_would_say_is_refused_and_the_publisher_goes_on(control_message: control.Control) -> None:
    made = client()
    effects = after(made, said(control.labels(control_message, ("desk",)), control.encoded(control_message)))
    assert effects[0] == Incident("bad_recovery_message", source="feed")
    assert sum(isinstance(each, Published) for each in effects) == 10


def test_a_repair_for_all_of_what_is_no_event_is_refused() -> None:
    marks: dict[str, AttributeValue] = {control.SEQ: 0, control.OF: "feed", control.TIME: 1, "x": 1}
    with pytest.raises(PeerError):
        control.from_open_untrusted(Publication("feed", 0, 1, None, marks))


def test_a_stranger_cannot_make_every_event_carry_the_whole_past() -> None:
    made = client()
    greeting = control.Greeting(0, ("x",), 2**62)
    made.handle(said(control.labels(greeting, ("desk",)), control.encoded(greeting)), NOW_US)
    for number in range(500):
        effects = made.handle(PublishCall({"x": number}), NOW_US + 1_000 * number)
    (record,) = [each.publication.record for each in effects if isinstance(each, Published)]
    assert record is not None
    read = RecordReader(RecordSettings()).read_untrusted("desk", record, made.last_seq, NOW_US + 500_000)
    assert 10 <= len(read) <= 100


def test_many_numbers_that_are_gone_are_told_in_messages_that_can_be_read() -> None:
    made, gone = client(), range(10**6, 10**6 + 6_000)
    for at in range(0, len(gone), 1_000):
        request = control.Request(control.distances(list(gone[at : at + 1_000])))
        made.handle(said(control.labels(request, ("desk",)), control.encoded(request)), NOW_US)
    effects = [each for turn in range(6) for each in made.handle(Wake(), NOW_US + 1_000_000 + turn)]  # in slices
    told = [
        each.message.publication for each in effects if isinstance(each, Send) and isinstance(each.message, Publish)
    ]
    answers = [control.decode_untrusted(each) for each in told if control.kind_of(each) == "Repair"]
    assert [seq for each in answers if isinstance(each, control.Repair) for seq in each.gone] == list(gone)
