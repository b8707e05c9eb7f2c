"""What becomes of a PUBLISH on its way through a network, and of an event that was none."""

import json

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.messages import Publication
from holdfast.mqtt.events import event_of, publish_of, topic_of
from holdfast.mqtt.packets import PublishPacket
from holdfast.wire.event_encoding import encoded_event
from tests.mqtt.packets import properties as drawn_properties


def through(packet: PublishPacket, now_us: int = 0) -> PublishPacket:
    """As subscribers get it."""
    event = event_of(packet)
    encoded_event(event.attributes)  # it can be sent
    lifetime_us = None if event.lifetime_s is None else int(event.lifetime_s * 1e6)
    publication = Publication("p", 1, 0, lifetime_us, event.attributes, event.payload)
    return publish_of(publication, topic_of(publication, "none"), now_us)


@given(drawn_properties("publish", 5), st.integers(0, 2), st.booleans(), st.binary(max_size=50))
def test_a_publication_comes_out_as_it_went_in(given_: dict, qos: int, retain: bool, payload: bytes) -> None:
    kept = {name: value for name, value in given_.items() if name not in ("topic_alias", "subscription_identifier")}
    if "message_expiry_interval" in kept:
        kept["message_expiry_interval"] = 7
    packet = PublishPacket("a/b", payload, qos, retain, properties=kept)
    assert through(packet) == packet


def test_user_properties_are_attributes_in_their_order_and_json_scalars_have_their_types() -> None:
    document = {"price": 5.5, "count": 3, "ok": True, "name": "x", "in": {"deep": 1, "tags": ["a", None]}, "none": None}
    document |= {"nested": [[1]], "odd": [1, "a"], "long": [0] * 257, "large": [2**64]}
    user = [("site", "north"), ("name", "mine"), ("site", "again"), ("", "no name"), ("topic", "no"), ("~x", "no")]
    packet = PublishPacket(
        "a/b", json.dumps(document).encode(), 1, properties={"content_type": "application/json", "user_property": user}
    )
    attributes = event_of(packet).attributes
    expected = {"topic": "a/b", "price": 5.5, "count": 3, "ok": True, "in.deep": 1, "site": "again", "name": "mine"}
    expected["in.tags"] = ["a", None]
    assert {name: value for name, value in attributes.items() if not name.startswith("mqtt.")} == expected
    assert through(packet) == packet


def test_a_payload_is_read_only_where_it_says_that_it_is_json_or_we_do() -> None:
    packet = PublishPacket("a", b'{"n": 1}')
    assert "n" not in event_of(packet).attributes
    assert event_of(packet, is_json=True).attributes["n"] == 1
    for broken in (b"{", b"[1]", b"5", b'{"n": 1e999}', b'{"n": 99999999999999999999}', b"\xff", b"[" * 100_000):
        assert "n" not in event_of(PublishPacket("a", broken), is_json=True).attributes


def test_a_large_document_brings_as_many_attributes_as_an_event_may_have() -> None:
    document = {f"n{number}": number for number in range(1_000)}
    user = [(f"u{number}", "x") for number in range(40)]
    packet = PublishPacket("a", json.dumps(document).encode(), properties={"user_property": user})
    encoded_event(event_of(packet, is_json=True).attributes)


def test_a_native_event_has_its_attributes_as_json_or_as_user_properties() -> None:
    native = Publication("p1", 1, 0, None, {"symbol": "IBM", "home.team": "x", "price": 5.5, "tags": ["a"]})
    packet = publish_of(native, topic_of(native, "events/{source}/{symbol}/{none}"), 0)
    assert packet.topic == "events/p1/IBM/_"
    assert json.loads(packet.payload) == {"symbol": "IBM", "home": {"team": "x"}, "price": 5.5, "tags": ["a"]}
    assert packet.properties == {"content_type": "application/json"} and packet.qos == 2
    loaded = Publication("p1", 1, 0, None, {"topic": "a/b", "n": 1, "ok": True}, b"bytes")
    packet = publish_of(loaded, topic_of(loaded, "x"), 0)
    assert (packet.topic, packet.payload) == ("a/b", b"bytes")
    assert packet.properties == {"user_property": [("n", "1"), ("ok", "true")]}


def test_a_topic_from_a_template_has_no_wildcards_and_no_levels_too_many() -> None:
    odd = Publication("p", 1, 0, None, {"topic": "a/+", "n": "x/y+#\n"})
    assert topic_of(odd, "t/{n}") == "t/x_y___"


def test_odd_values_under_our_names_do_no_harm() -> None:
    odd = {"mqtt.qos": 9, "mqtt.retain": "yes", "mqtt.content_type": 5, "mqtt.response_topic": "a/#"}
    odd |= {"mqtt.correlation_data": "???", "mqtt.user_properties": "[1]", "mqtt.payload_format_indicator": 7}
    assert publish_of(Publication("p", 1, 0, None, odd, b"x"), "t", 0) == PublishPacket("t", b"x")


def test_what_is_left_of_a_lifetime_is_told_in_whole_seconds() -> None:
    packet = PublishPacket("a", b"x", properties={"message_expiry_interval": 10})
    assert through(packet, 2_500_000).properties == {"message_expiry_interval": 8}
    assert event_of(PublishPacket("a", properties={"message_expiry_interval": 0})).lifetime_s == 1e-6
