"""The machine of a connection, packet by packet."""

import pytest

from holdfast.mqtt.connection import Connection, Done, Effect, HangUp, Open, Take, Want, Write
from holdfast.mqtt.decoding import Framer, decode_untrusted
from holdfast.mqtt.encoding import encode
from holdfast.mqtt.notes import Notes, read_key
from holdfast.mqtt.packets import (
    AskedFilter,
    Connack,
    Connect,
    Disconnect,
    Packet,
    PublishAck,
    PublishPacket,
    Suback,
    Subscribe,
    Will,
)
from holdfast.mqtt.reasons import MqttError
from holdfast.mqtt.session import MqttSession, MqttSubscription
from holdfast.mqtt.settings import MqttSettings
from holdfast.mqtt.subscribing import SubscriptionRefused

ANY = [MqttSubscription(AskedFilter("#", 2), "#", "topic IS NOT NULL")]


class Peer:
    """A client at a connection whose driver does at once what the machine asks for."""

    def __init__(self, version: int = 5, session: MqttSession | None = None, **settings: int) -> None:
        self.machine = Connection(MqttSettings(**settings))
        self.session = session or MqttSession("c")
        self.version = version
        self.other: list[Effect] = []
        self._framer = Framer(2**20, self.machine.check_first_untrusted)

    def give(self, *packets: Packet) -> list[Packet]:
        answers: list[Packet] = []
        for packet in packets:
            try:
                for first, body in self._framer.feed_untrusted(encode(packet, self.version)):
                    answers += self.do(self.machine.on_packet_untrusted(first, body))
            except MqttError as problem:
                answers += self.do(self.machine.on_error(problem))
        return answers

    def decide(self, want: Want) -> list[Effect]:
        reasons: list[int] = []
        told: list[str] = []
        for each in want.asked:
            try:
                reasons.append(self.machine.wanted(each).asked.qos)
            except SubscriptionRefused as refused:
                reasons.append(refused.reason)
                told.append(refused.text)
        return self.machine.on_wanted(want.packet_id, reasons, "\n".join(told))

    def do(self, effects: list[Effect]) -> list[Packet]:
        answers: list[Packet] = []
        for effect in effects:
            match effect:
                case Write():
                    framer = Framer(2**20, lambda first: None)
                    answers += [decode_untrusted(*each, self.version) for each in framer.feed_untrusted(effect.data)]
                case Open():
                    answers += self.do(self.machine.on_session(self.session, False))
                case Take():
                    self.other.append(effect)
                    answers += self.do(self.machine.on_stored([effect.publish]))
                case Want():
                    answers += self.do(self.decide(effect))
                case _:
                    self.other.append(effect)
        return answers


def connected(version: int = 5, **settings: int) -> Peer:
    peer = Peer(version, **settings)
    peer.give(Connect("c", version))
    return peer


def test_the_first_packet_is_connect_and_the_only_one() -> None:
    early = Peer(4)
    assert early.give(Disconnect()) == [] and isinstance(early.other[0], HangUp)
    twice = connected()
    assert twice.give(Connect("c", 5)) == [Disconnect(0x82)]
    assert twice.give(PublishPacket("a")) == []


def test_what_the_broker_limits_is_told_in_connack() -> None:
    answer = Peer(keep_alive_s_max=100, session_s_max=50, receive_max=7).give(
        Connect("c", 5, keep_alive=200, properties={"session_expiry_interval": 60})
    )[0]
    assert isinstance(answer, Connack)
    told = {"server_keep_alive": 100, "session_expiry_interval": 50, "receive_maximum": 7}
    assert told.items() <= answer.properties.items()


def test_a_will_for_a_topic_of_the_broker_is_refused() -> None:
    assert Peer().give(Connect("c", 5, will=Will("$SYS/x", b""))) == [Connack(0x87)]
    assert Peer(4).give(Connect("c", 4, will=Will("$SYS/x", b""))) == []


def test_a_publication_of_quality_2_is_taken_once() -> None:
    peer = connected()
    packet = PublishPacket("a", b"x", 2, packet_id=7)
    assert peer.give(packet, packet) == [PublishAck("pubrec", 7)] * 2
    assert peer.other == [Take(packet)]
    assert peer.give(packet) == [Disconnect(0x82)]  # once too often


def test_a_released_identifier_is_free_again() -> None:
    peer = connected(4)
    packet = PublishPacket("a", b"x", 2, packet_id=7)
    peer.give(packet, PublishAck("pubrel", 7), packet)
    assert len(peer.other) == 2


def test_a_client_may_have_so_many_unacknowledged_and_no_more() -> None:
    peer = connected(receive_max=2)
    packets = [PublishPacket("a", b"", 2, packet_id=number) for number in (1, 2, 3)]
    assert peer.give(*packets)[-1] == Disconnect(0x93)


@pytest.mark.parametrize(("version", "reason"), [(4, 3), (5, 0x88)])
def test_a_client_that_waits_for_connack_is_told_of_the_end_by_one(version: int, reason: int) -> None:
    machine = Connection(MqttSettings())
    [frame] = Framer(2**20, lambda first: None).feed_untrusted(encode(Connect("c", version), version))
    assert isinstance(machine.on_packet_untrusted(*frame)[0], Open)
    peer = Peer(version)
    [answer] = peer.do(machine.end(0x8B, "the broker stops"))
    assert isinstance(answer, Connack) and answer.reason == reason
    assert isinstance(peer.other[-1], HangUp)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_publication_counts_once_while_it_is_stored(qos: int) -> None:
    peer = connected(receive_max=2)
    packets = [encode(PublishPacket("a", b"", qos, packet_id=number), 5) for number in (1, 2, 3)]
    frames = [frame for each in packets for frame in Framer(2**20, lambda first: None).feed_untrusted(each)]
    assert [len(peer.machine.on_packet_untrusted(*each)) for each in frames[:2]] == [1, 1]
    with pytest.raises(MqttError, match="more than 2"):
        peer.machine.on_packet_untrusted(*frames[2])


def test_events_wait_for_acknowledgements() -> None:
    peer = connected(in_flight_max=1)
    sent = peer.do(peer.machine.deliver(PublishPacket("a", b"x", 1), ANY, 5, ("p", 1)))
    assert sent == [PublishPacket("a", b"x", 1, packet_id=1)] and not peer.machine.has_room
    peer.give(PublishAck("puback", 1))
    assert peer.other == [Done((5,))] and peer.machine.has_room


def test_an_event_that_comes_again_keeps_its_identifier() -> None:
    peer = connected()
    peer.do(peer.machine.deliver(PublishPacket("a", b"x", 2), ANY, 5, ("p", 1)))
    assert peer.do(peer.machine.deliver(PublishPacket("a", b"x", 2), ANY, 9, ("p", 1))) == []
    assert peer.give(PublishAck("pubrec", 1)) == [PublishAck("pubrel", 1)]
    peer.give(PublishAck("pubcomp", 1))
    assert peer.other == [Done((9,))]


def test_a_wrong_condition_names_its_place() -> None:
    where = {"user_property": [("$where", "price >")]}
    answer = connected().give(Subscribe(1, (AskedFilter("a"),), where))[0]
    assert isinstance(answer, Suback) and answer.reasons == (0x8F,)
    assert "expected" in answer.properties["reason_string"]
    assert answer.properties["reason_string"].isprintable()
    quiet = Peer()
    quiet.give(Connect("c", 5, properties={"request_problem_information": 0}))
    assert quiet.give(Subscribe(1, (AskedFilter("a"),), where)) == [Suback(1, (0x8F,))]


def test_the_notes_of_a_session_are_enough_to_go_on_after_a_crash() -> None:
    written: Notes = {}
    peer = Peer(session=MqttSession("c", has_notes=True))
    peer.give(Connect("c", 5))
    for number, phase in ((1, "sent"), (2, "pubrec"), (3, "pubcomp")):
        peer.do(peer.machine.deliver(PublishPacket("a", b"%d" % number, 2), ANY, number, ("p", number)))
        if phase != "sent":
            peer.give(PublishAck("pubrec", number))
        if phase == "pubcomp":
            peer.give(PublishAck("pubcomp", number))
    peer.session.expiry_s = 100
    peer.session.note_session()
    written |= peer.session.notes()
    assert {read_key(key)[0] for key in written} == {"session", "outgoing"}
    [session] = restored(written)
    again = Peer(session=session)
    assert again.give(Connect("c", 5))[1:] == [PublishAck("pubrel", 2)]
    events = [PublishPacket("a", b"%d" % number, 2) for number in (1, 2, 3)]
    sent = [again.do(again.machine.deliver(each, ANY, at, ("p", at))) for at, each in enumerate(events, 1)]
    assert sent == [[PublishPacket("a", b"1", 2, duplicate=True, packet_id=1)], [], []]
    assert again.other == [Done((3,))]
    again.give(PublishAck("pubcomp", 2))
    assert again.other == [Done((3,)), Done((2,))]


def restored(notes: Notes, taken: tuple[int, int] = (0, 0)) -> list[MqttSession]:
    from holdfast.mqtt.restoring import restore
    from holdfast.mqtt.retained import Retained

    kept = {key: value for key, value in notes.items() if value is not None}
    return restore(kept, {"c": taken}, Retained())


def test_what_the_brokers_store_has_taken_is_not_taken_again() -> None:
    session = MqttSession("c", has_notes=True)
    session.note_session()
    session.note_incoming(7, stream=5, seq=3)
    notes = session.notes()
    packet = PublishPacket("a", b"x", 2, packet_id=7)
    for taken, is_new in (((5, 3), False), ((5, 4), False), ((5, 2), True), ((0, 0), True), ((6, 9), True)):
        [again] = restored(notes, taken)
        assert again.take(packet) is is_new
