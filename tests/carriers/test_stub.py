"""The stub broker: what it states of events holds whatever the bus loses of the others."""

import pytest

from holdfast.carriers.bus_format import CarriedEvents, read_untrusted
from holdfast.carriers.lane_book import LaneBook
from holdfast.carriers.stub import BusTerms, StubBroker
from holdfast.language.lanes import Template
from holdfast.model.messages import Batch, Deliver, Publication, Publish
from holdfast.wire.codec import encode_message, framed


def new_stub(client="pub"):
    terms = BusTerms("plant", Template("", "plant"), "native", True, True)
    return StubBroker(client, terms, LaneBook(False), True, 0)


def on_the_bus(*messages, stub=None):
    """What the bus carries for a frame of messages of the client."""
    stub = stub or new_stub()
    carried = [read_untrusted(each.payload) for each in stub.on_client(framed([*map(encode_message, messages)]))]
    assert all(isinstance(each, CarriedEvents) for each in carried)
    return [each.messages for each in carried]


def event(seq):
    return Publish(Publication("pub", seq, 1, None, {"n": seq}, b"", b"record"))


def statement(since, upto):
    return Batch((), "pub", (), (), (), 0, since, upto)


def batch(seqs, since, upto):
    events = tuple([{"n": seq} for seq in seqs])
    return Batch(tuple(seqs), "pub", (1,) * len(seqs), events, (), 0, since, upto)


def stated(messages):
    return {seq for each in messages if isinstance(each, Batch) for seq in range(each.since, each.upto + 1)}


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_statement_about_several_events_does_not_vouch_for_one_that_the_bus_has_lost(lost):
    carried = on_the_bus(event(7), event(8), event(9), statement(5, 10))
    assert [each[0].publication.seq for each in carried] == [7, 8, 9]
    arrived = [message for at, messages in enumerate(carried) if at != lost for message in messages]
    assert 7 + lost not in stated(arrived)
    assert stated(message for messages in carried for message in messages) == {5, 6, 7, 8, 9, 10}


def test_events_without_a_statement_go_without_one():
    assert [[type(each) for each in messages] for messages in on_the_bus(event(7), event(8))] == [[Deliver], [Deliver]]


def test_a_statement_says_nothing_of_events_before_it():
    assert [stated(each) for each in on_the_bus(event(7), event(8), statement(8, 8))] == [set(), {8}]


@pytest.mark.parametrize("later", [(event(8), event(9), statement(6, 9)), (batch([8, 9], 6, 9),)])
def test_a_statement_says_nothing_of_what_left_in_an_earlier_frame(later):
    stub = new_stub()
    before = on_the_bus(event(6), stub=stub) + on_the_bus(event(7), stub=stub)
    assert [stated(each) for each in before] == [set(), set()]
    carried = on_the_bus(*later, stub=stub) + on_the_bus(batch([10, 11], 10, 11), stub=stub)
    assert stated(message for messages in carried for message in messages) == {8, 9, 10, 11}
