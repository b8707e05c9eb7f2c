"""A WebSocket by the examples of RFC 6455."""

import pytest

from holdfast.mqtt.websocket import HEAD_BYTES_MAX, WebSocket

REQUEST = (
    b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: other, mqtt\r\n\r\n"
)


def opened(bytes_max: int = 1_000) -> WebSocket:
    socket = WebSocket("/mqtt", bytes_max)
    socket.feed_untrusted(REQUEST)
    assert socket.is_open
    return socket


def test_the_handshake_of_the_specification() -> None:
    socket = WebSocket("/mqtt", 1_000)
    carried, sent = socket.feed_untrusted(REQUEST)
    assert sent.startswith(b"HTTP/1.1 101 ") and b"Sec-WebSocket-Protocol: mqtt\r\n" in sent
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in sent
    assert not carried and socket.is_open


def test_extensions_are_not_accepted() -> None:
    asked = REQUEST.replace(b"Host: x", b"Host: x\r\nSec-WebSocket-Extensions: permessage-deflate")
    _, sent = WebSocket("/mqtt", 1_000).feed_untrusted(asked)
    assert sent.startswith(b"HTTP/1.1 101 ") and b"Extensions" not in sent


def test_what_a_client_sends_right_behind_its_request_is_read() -> None:
    carried, sent = WebSocket("/mqtt", 1_000).feed_untrusted(REQUEST + masked(2, b"now"))
    assert carried == b"now" and sent.startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        (b"/mqtt", b"/other", "404"),
        (b"GET", b"POST", "405"),
        (b"Upgrade: websocket", b"Upgrade: h2c", "426"),
        (b"Version: 13", b"Version: 8", "400"),
        (b"other, mqtt", b"other", "400"),
        (b"Sec-WebSocket-Protocol: other, mqtt\r\n", b"", "400"),
    ],
)
def test_other_requests_are_refused(before: bytes, after: bytes, status: str) -> None:
    socket = WebSocket("/mqtt", 1_000)
    carried, sent = socket.feed_untrusted(REQUEST.replace(before, after) + masked(2, b"x"))
    assert sent.startswith(f"HTTP/1.1 {status} ".encode())
    assert not carried and socket.closed and not socket.is_open


def test_who_speaks_mqtt_without_a_websocket_is_hung_up_on() -> None:
    socket = WebSocket("/mqtt", 1_000)
    assert socket.feed_untrusted(b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00\r\n") == (b"", b"")
    assert socket.closed and not socket.is_open


def test_a_request_without_end_is_refused() -> None:
    socket = WebSocket("/mqtt", 1_000)
    line = b"GET /mqtt HTTP/1.1\r\n"
    sent, fed = b"", 0
    while not socket.closed:
        assert fed <= HEAD_BYTES_MAX
        sent += socket.feed_untrusted(line)[1]
        fed, line = fed + len(line), b"Cookie: x\r\n"
    assert sent.startswith(b"HTTP/1.1 431 ")


def masked(kind: int, body: bytes, fin: int = 0x80) -> bytes:
    mask = b"\x37\xfa\x21\x3d"
    length = bytes([0x80 | len(body)]) if len(body) < 126 else b"\xfe" + len(body).to_bytes(2, "big")
    return bytes([fin | kind]) + length + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(body))


def test_frames_in_parts_carry_their_bytes_and_pings_are_answered() -> None:
    stream = (
        masked(2, b"Hel", fin=0) + masked(9, b"p") + masked(0, b"lo") + masked(2, b"x" * 300) + masked(8, b"\x03\xe8")
    )
    socket, carried, answers = opened(), b"", b""
    for at in range(len(stream)):
        some, answer = socket.feed_untrusted(stream[at : at + 1])
        carried, answers = carried + some, answers + answer
    assert carried == b"Hello" + b"x" * 300
    assert answers == b"\x8a\x01p" + b"\x88\x02\x03\xe8" and socket.closed


def test_a_message_may_be_a_stream_of_any_length() -> None:
    socket = opened(bytes_max=100)
    parts = [masked(2, b"x" * 100, fin=0), *[masked(0, b"x" * 100, fin=0)] * 50]
    assert sum(len(socket.feed_untrusted(each)[0]) for each in parts) == 5_100


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (bytes.fromhex("810548656c6c6f"), 1002),
        (masked(1, b"text"), 1003),
        (masked(2, b"x" * 300)[:8], 1009),
        (b"\xc2\x80\x00\x00\x00\x00", 1002),
        (masked(9, b"", fin=0), 1002),
        (masked(0, b"of nothing"), 1002),
    ],
)
def test_what_is_not_for_us_ends_the_connection_with_a_reason(data: bytes, code: int) -> None:
    socket = opened(bytes_max=200)
    carried, sent = socket.feed_untrusted(data)
    assert not carried and socket.closed
    assert sent[0] == 0x88 and int.from_bytes(sent[2:4], "big") == code
    assert socket.framed(b"too late") == b""


def test_lengths_are_written_as_specified() -> None:
    socket = opened()
    assert socket.framed(b"Hello") == bytes.fromhex("820548656c6c6f")
    assert socket.framed(b"x" * 256)[:4] == bytes.fromhex("827e0100")
    assert socket.framed(b"x" * 65_536)[:10] == bytes.fromhex("827f0000000000010000")
