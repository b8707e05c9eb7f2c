"""Those who lie in gossip crash nobody, fill no memory, and turn no honest brokers against each other."""

from holdfast.model.limits import NODES_MAX
from holdfast.model.messages import (
    Deliver,
    Detach,
    GossipComplete,
    GossipDigest,
    GossipEvent,
    GossipPull,
    GossipRequest,
    GossipVector,
    Message,
    Nack,
    Numbered,
    Publication,
    Publish,
    Stamp,
    Stamped,
)
from holdfast.protocol.effects import Effect, Incident, Multicast, Received, Send
from holdfast.protocol.gossip.classes import tag_of
from holdfast.protocol.hops.nack_sender import NackSender
from holdfast.protocol.hops.settings import NackSettings
from holdfast.wire.codec import decode_untrusted, encode
from tests.protocol.test_gossip_rounds import line

TAG = tag_of("p = 1")
HUGE = 2**62
FORGED = Publication("west", 99, 0, None, {"p": 1})


def said(effects: list[Effect]) -> list[Message]:
    """The messages, as who decodes them gets them."""
    return [decode_untrusted(encode(each.message)) for each in effects if isinstance(each, Send | Multicast)]


def test_a_client_cannot_gossip_after_its_good_bye_either() -> None:
    wires = line("reconcile")
    wires.give("b4", Received("east", Detach()))
    answer = wires.nodes["b4"].handle(Received("east", GossipEvent(FORGED)), wires.now_us)
    assert answer == [Incident("unknown_neighbour", "east")]


def test_a_client_cannot_stamp_its_events() -> None:
    wires = line("push")
    forged = Stamped(FORGED, Stamp("b9", 1, ((TAG, HUGE, 0),)), ("b9",))
    answer = wires.nodes["b1"].handle(Received("west", forged), wires.now_us)
    assert answer == [Incident("unexpected_message", "west")]


def test_what_is_sent_on_can_be_read_by_the_next_broker_however_long_its_way_was() -> None:
    wires = line("combined-pull")
    names = tuple(f"x{n}" for n in range(NODES_MAX))
    missing = (("b1", 1, TAG, (77,)),)
    for path in (names, names[1:]):
        for message in (
            GossipPull(path, missing, TAG),
            GossipPull(path, missing, None, ("b3",)),
            GossipDigest(path, TAG, (("west", (77,)),)),
            GossipRequest(path, (("west", (77,)),), ("b3",)),
            GossipVector(path, 1, ((TAG, 1, 0, ()),), ("b3",)),
            Stamped(FORGED, Stamp("b9", 1, ()), path),
        ):
            said(wires.nodes["b2"].handle(Received("b1", message), wires.now_us))


def test_an_event_whose_way_is_full_goes_on_without_it() -> None:
    wires = line("combined-pull")
    stamped = Stamped(FORGED, Stamp("b9", 1, ()), tuple(f"x{n}" for n in range(NODES_MAX)))
    kinds = {type(each) for each in said(wires.nodes["b2"].handle(Received("b1", stamped), wires.now_us))}
    assert kinds == {Stamped, Deliver}


def test_a_class_named_often_in_a_vector_is_looked_up_once() -> None:
    wires = line("reconcile")
    for n in range(300):
        wires.publish("west", p=1, n=n)
    wires.pass_time(300_000)
    origin = wires.nodes["b1"]
    vector = GossipVector(("b2",), 0, ((TAG, 1, 0, (1, 2, 3)),) * 50_000)
    assert len(said(origin.handle(Received("b2", vector), wires.now_us))) == 300


def test_an_event_named_often_in_a_request_is_handed_out_once() -> None:
    wires = line("push")
    wires.publish("west", p=1)
    seq = wires.nodes["west"].last_seq  # type: ignore[union-attr]
    request = GossipRequest(("b2",), (("west", (seq,) * 1_000),) * 10)
    assert len(said(wires.nodes["b1"].handle(Received("b2", request), wires.now_us))) == 1


def test_a_number_named_often_in_a_request_of_a_link_is_sent_once() -> None:
    sender = NackSender(7, NackSettings())
    sender.send(Publish(FORGED), 0)
    assert [type(each) for each in sender.on_missing(Nack(7, (1,) * 4_000), 0)] == [Numbered]


def test_stamps_with_huge_numbers_and_answers_of_strangers_stay_within_the_limits() -> None:
    wires = line("reconcile")
    broker = wires.nodes["b4"]
    for n in range(1, 25):
        places = ((TAG, HUGE if n == 1 else 2, HUGE), *((tag, HUGE, HUGE) for tag in range(20_000)))
        stamped = Stamped(Publication("liar", n, 0, None, {"p": 1}), Stamp(f"o{n}", HUGE, places), ("b3",))
        broker.handle(Received("b3", stamped), wires.now_us)
        broker.handle(Received("b3", GossipComplete(f"o{n}")), wires.now_us)
        broker.handle(Received("b3", GossipComplete(f"stranger-{n}")), wires.now_us)
    assert all(held <= most for held, most in broker.gauges().values())
    wires.pass_time(15_000_000)
    assert wires.publish("west", p=1) == ["east", "mid"]
