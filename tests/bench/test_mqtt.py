"""The MQTT bench: what it holds against its goals, its page, and packets that another codec reads."""

from typing import Any

from bench.mqtt import as_data, checks, merged, section
from bench.mqtt_load import connect_packet, publish_packet, subscribe_packet
from holdfast.mqtt.decoding import Framer, decode_untrusted
from holdfast.mqtt.packets import Connect, PublishPacket, Subscribe


def row(part: str, system: str, qos: int, *rates: float) -> dict[str, Any]:
    about = {"part": part, "system": system, "cell": "1 subscriber", "qos": qos, "rates": list(rates)}
    return about | {"deliveries_per_second": rates[0], "broker_cpu_us": 20.0}


ROWS = [
    row("one", "holdfast", 0, 20_000.0, 10_000.0, 20_000.0),
    row("one", "mosquitto", 0, 40_000.0, 40_000.0, 50_000.0),
    row("disk", "holdfast, stored", 1, 5_000.0, 5_000.0, 5_000.0),
    row("disk", "mosquitto, each second", 1, 20_000.0, 10_000.0, 4_000.0),
]


def test_each_round_is_held_against_mosquitto_in_it() -> None:
    memory, disk = checks(ROWS)
    assert (memory.measured, memory.holds) == (0.4, True)
    assert (disk.measured, disk.holds) == (0.5, False)


def test_what_does_not_hold_or_was_not_there_is_said() -> None:
    page = section(as_data(ROWS, ["rabbitmq: not installed"], 3))
    assert "0.50 x, target at least 1 x: does NOT hold" in page
    assert "left out: rabbitmq" in page


def test_a_part_that_is_measured_again_replaces_what_was_saved_of_it() -> None:
    again = [row("one", "holdfast", 0, 7.0)]
    assert merged(again, {"rows": ROWS}) == [*again, *ROWS[2:]]
    assert merged(ROWS, None) == ROWS


def test_packets_are_what_the_specification_says() -> None:
    framer = Framer(2**16, lambda first: None)
    sent = connect_packet("c", True) + subscribe_packet(7, ["a/#"], 2) + publish_packet("a/b", b"x" * 200, 1, 9)
    connect, subscribe, publish = (decode_untrusted(*each, 4) for each in framer.feed_untrusted(sent))
    assert isinstance(connect, Connect) and connect.client_id == "c" and connect.clean
    assert isinstance(subscribe, Subscribe) and subscribe.asked[0].filter == "a/#"
    assert isinstance(publish, PublishPacket) and (publish.topic, publish.qos, publish.packet_id) == ("a/b", 1, 9)
