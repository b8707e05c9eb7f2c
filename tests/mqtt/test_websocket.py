"""A WebSocket by the examples of RFC 6455."""

import pytest

from holdfast.model.errors import PeerError
from holdfast.mqtt.websocket import Frames, HandshakeRefused, framed, handshake_untrusted

REQUEST = (
    b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: other, mqtt\r\n\r\n"
)


def test_the_handshake_of_the_specification() -> None:
    answer = handshake_untrusted(REQUEST, "/mqtt").decode()
    assert answer.startswith("HTTP/1.1 101 ") and "Sec-WebSocket-Protocol: mqtt\r\n" in answer
    assert "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        (b"/mqtt", b"/other", "404"),
        (b"GET", b"POST", "400"),
        (b"Upgrade: websocket", b"Upgrade: h2c", "426"),
        (b"Version: 13", b"Version: 8", "400"),
        (b"other, mqtt", b"other", "400"),
    ],
)
def test_other_requests_are_refused(before: bytes, after: bytes, status: str) -> None:
    with pytest.raises(HandshakeRefused) as refused:
        handshake_untrusted(REQUEST.replace(before, after), "/mqtt")
    assert refused.value.answer.startswith(f"HTTP/1.1 {status} ".encode())


def masked(kind: int, body: bytes, fin: int = 0x80) -> bytes:
    mask = b"\x37\xfa\x21\x3d"
    length = bytes([0x80 | len(body)]) if len(body) < 126 else b"\xfe" + len(body).to_bytes(2, "big")
    return bytes([fin | kind]) + length + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(body))


def test_frames_in_parts_carry_their_bytes_and_pings_are_answered() -> None:
    stream = (
        masked(2, b"Hel", fin=0) + masked(9, b"p") + masked(0, b"lo") + masked(2, b"x" * 300) + masked(8, b"\x03\xe8")
    )
    frames, carried, answers = Frames(1_000), b"", b""
    for at in range(len(stream)):
        some, answer = frames.feed_untrusted(stream[at : at + 1])
        carried, answers = carried + some, answers + answer
    assert carried == b"Hello" + b"x" * 300
    assert answers == b"\x8a\x01p" + b"\x88\x02\x03\xe8" and frames.closed


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("810548656c6c6f"),
        masked(1, b"text"),
        masked(2, b"x" * 300)[:4],
        b"\xc2\x80\x00\x00\x00\x00",
        masked(9, b"", fin=0),
    ],
)
def test_what_is_not_for_us_is_refused(data: bytes) -> None:
    with pytest.raises(PeerError):
        Frames(200).feed_untrusted(data)


def test_lengths_are_written_as_specified() -> None:
    assert framed(b"Hello") == bytes.fromhex("820548656c6c6f")
    assert framed(b"x" * 256)[:4] == bytes.fromhex("827e0100") and framed(b"x" * 65_536)[:10] == bytes.fromhex(
        "827f0000000000010000"
    )
