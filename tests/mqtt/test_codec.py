"""Packets as bytes and back; and bytes that are none."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.errors import PeerError
from holdfast.mqtt.decoding import Framer, decode_untrusted
from holdfast.mqtt.encoding import encode
from holdfast.mqtt.packets import Packet, PublishPacket
from holdfast.mqtt.reasons import MALFORMED, PROTOCOL_ERROR, TOO_LARGE, MqttError
from tests.mqtt.packets import EXAMPLES, packets

VERSIONS = (3, 4, 5)


def decoded(data: bytes, version: int) -> list[Packet]:
    framer = Framer(2**20, lambda first: None)
    return [decode_untrusted(first, body, version) for first, body in framer.feed_untrusted(data)]


def why(data: str, version: int = 5) -> int:
    with pytest.raises(MqttError) as problem:
        decoded(bytes.fromhex(data), version)
    return problem.value.reason


@pytest.mark.parametrize(("data", "version", "packet"), EXAMPLES)
def test_packets_are_written_and_read_as_the_specification_has_them(data: str, version: int, packet: Packet) -> None:
    assert encode(packet, version) == bytes.fromhex(data)
    assert decoded(bytes.fromhex(data), version) == [packet]


@given(st.data())
@settings(max_examples=300)
def test_every_packet_of_every_version_survives(data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(VERSIONS))
    packet = data.draw(packets(version))
    assert decoded(encode(packet, version), version) == [packet]


@given(st.data())
@settings(max_examples=50)
def test_a_stream_may_be_cut_anywhere(data: st.DataObject) -> None:
    several = data.draw(st.lists(packets(5), min_size=1, max_size=5))
    stream = b"".join(encode(each, 5) for each in several)
    framer, found, at = Framer(2**20, lambda first: None), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, 40))
        found += [decode_untrusted(*each, 5) for each in framer.feed_untrusted(stream[at : at + size])]
        at += size
    assert found == several


def test_what_is_wrong_is_told_by_its_reason() -> None:
    assert why("38 0a 0005 746f706963 00 6869") == MALFORMED  # a duplicate of quality 0
    assert why("36 0c 0005 746f706963 0001 00 6869") == MALFORMED  # quality 3
    assert why("32 0c 0005 746f706963 0000 00 6869") == PROTOCOL_ERROR  # an identifier of 0
    assert why("30 05 0001 2b 00 61") == MALFORMED  # a wildcard
    assert why("30 04 0000 00 61") == MALFORMED  # no topic
    assert why("30 06 0003 eda080 00") == MALFORMED  # a lone surrogate
    assert why("30 06 0001 61 02 01 02") == PROTOCOL_ERROR  # a payload format of 2
    assert why("30 08 0001 61 04 01 00 01 00") == PROTOCOL_ERROR  # twice
    assert why("30 05 0001 61 01 01") == MALFORMED  # without its value
    assert why("30 06 0001 61 02 04 00") == MALFORMED  # no such property
    assert why("40 06 0001 00 02 01 00") == PROTOCOL_ERROR  # a property of another packet
    assert why("40 03 0001 ff") == PROTOCOL_ERROR  # no such reason
    assert why("40 05 0001 00 00 00") == MALFORMED  # more than the packet has
    assert why("82 06 0001 00 0001 61") == MALFORMED  # a filter without options
    assert why("82 07 0001 00 0001 61 30") == MALFORMED  # a retain handling of 3
    assert why("80 07 0001 00 0001 61 00") == MALFORMED  # wrong flags
    assert why("30 8080808001") == MALFORMED  # a length of five bytes
    assert why("30 ffffff7f") == TOO_LARGE  # refused before it has come


def test_a_line_end_may_stand_in_a_value_and_not_in_a_name() -> None:
    packet = PublishPacket("a", properties={"user_property": [("$where", "price > 5\nAND price < 9")]})
    assert decoded(encode(packet, 5), 5) == [packet]
    with pytest.raises(MqttError):
        decoded(encode(PublishPacket("a\nb"), 5), 5)


def damaged(dice: Random, frame: bytes) -> bytes:
    """A frame with some bytes changed, cut, or put in, its length mended every other time."""
    data = bytearray(frame)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(3):
            case 0 if at < len(data):
                data[at] = dice.randrange(256)
            case 1:
                del data[at : at + dice.randint(1, 3)]
            case _:
                data[at:at] = dice.randbytes(dice.randint(1, 3))
    if dice.random() < 0.5 and len(data) > 2:
        data[1:2] = bytes([min(127, len(data) - 2)])
    return bytes(data)


def fuzz(frames: int, seed: int) -> int:
    """How many of these frames could be read; anything but a packet or a MqttError is an error of ours."""
    dice, read = Random(seed), 0
    known = [(bytes.fromhex(data), version) for data, version, _ in EXAMPLES]
    for _ in range(frames):
        frame, version = dice.choice(known)
        data = damaged(dice, frame) if dice.random() < 0.9 else dice.randbytes(dice.randint(1, 40))
        try:
            read += bool(decoded(data, version))
        except PeerError as problem:
            assert isinstance(problem, MqttError)
    return read


def test_damaged_frames_are_read_or_refused() -> None:
    assert fuzz(20_000, seed=1) > 1_000


@pytest.mark.slow
def test_half_a_million_damaged_frames_are_read_or_refused() -> None:
    assert fuzz(500_000, seed=2) > 25_000
