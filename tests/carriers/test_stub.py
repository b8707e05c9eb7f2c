"""The stub broker: what it states of events holds whatever the bus loses of the others."""

import pytest

from holdfast.carriers.bus_format import CarriedEvents, read_untrusted
from holdfast.carriers.lane_book import LaneBook
from holdfast.carriers.stub import BusTerms, StubBroker
from holdfast.language.lanes import Template
from holdfast.model.messages import Batch, Publication, Publish
from holdfast.wire.codec import encode_message, framed


def stub_of(book=None):
    terms = BusTerms("plant", Template("", "plant"), "native", True, True)
    return StubBroker("pub", terms, book or LaneBook(False), True, 0)


def carried(stub, *messages):
    """What the bus carries for a frame of messages of the client."""
    found = [read_untrusted(each.payload) for each in stub.on_client(framed([*map(encode_message, messages)]))]
    assert all(isinstance(each, CarriedEvents) for each in found)
    return [each.messages for each in found]


def event(seq, record=b"record"):
    return Publish(Publication("pub", seq, 1, None, {"n": seq}, b"", record))


def batch(seqs, since):
    return Batch(seqs, "pub", (1,) * len(seqs), tuple({"n": each} for each in seqs), (), 0, since, seqs[-1])


def statement(since, upto):
    return Batch((), "pub", (), (), (), 0, since, upto)


def stated(messages):
    return {seq for each in messages if isinstance(each, Batch) for seq in range(each.since, each.upto + 1)}


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_statement_about_several_events_does_not_vouch_for_one_that_the_bus_has_lost(lost):
    messages = carried(stub_of(), event(7), event(8), event(9), statement(5, 10))
    assert [each[0].publication.seq for each in messages] == [7, 8, 9]
    arrived = [message for at, messages in enumerate(messages) if at != lost for message in messages]
    assert stated(arrived) == {7, 8, 9} - {7 + lost}


def test_a_batch_states_what_its_client_states_where_nothing_else_has_left():
    stub = stub_of()
    assert [stated(each) for each in carried(stub, batch((7, 8), 1))] == [set(range(1, 9))]
    assert [stated(each) for each in carried(stub, batch((9, 10), 9))] == [{9, 10}]
    assert [stated(each) for each in carried(stub_of(), event(7, b""), statement(1, 7))] == [set(range(1, 8))]


def test_what_nobody_keeps_has_no_statement():
    assert [[each.since for each in messages] for messages in carried(stub_of(), event(7, None))] == [[0]]


def test_what_went_down_with_a_connection_before_it_left_is_stated_by_nobody():
    book = LaneBook(False)
    carried(stub_of(book), batch((1, 2), 1))
    assert [stated(each) for each in carried(stub_of(book), batch((6, 7), 6))] == [{6, 7}]
    assert [stated(each) for each in carried(stub_of(book), event(9))] == [{9}]
    assert book.since(("elsewhere",), (10,)) == 9


@pytest.mark.parametrize("later", [(event(8), event(9), statement(6, 9)), (batch((8, 9), 6),)])
def test_a_statement_says_nothing_of_what_left_in_an_earlier_frame(later):
    stub = stub_of()
    before = carried(stub, event(6)) + carried(stub, event(7))
    assert [stated(each) for each in before] == [{6}, {7}]
    after = carried(stub, *later) + carried(stub, batch((10, 11), 10))
    assert stated(message for messages in after for message in messages) == {8, 9, 10, 11}
