"""The server's end of a WebSocket (RFC 6455) as MQTT uses it: binary messages whose borders mean nothing.

Bytes in, bytes out. Fragments and control frames are handled; compression and other extensions are not offered.
"""

import hashlib
import re
from base64 import b64encode

from holdfast.model.errors import PeerError

HEAD_BYTES_MAX = 16 * 1024  # of the request: cookies and tokens of browsers are long
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PROTOCOLS = ("mqtt", "mqttv3.1")
_CONTINUED, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_CONTROL_BYTES_MAX = 125
_REQUEST = re.compile(rb"GET ([^ ]+) HTTP/1\.1\r\n")


class HandshakeRefused(PeerError):
    """A request that is answered with an error, and no more."""

    def __init__(self, status: str) -> None:
        super().__init__(f"not a WebSocket for MQTT: {status}")
        self.answer = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


def handshake_untrusted(head: bytes, path: str) -> bytes:
    """What to answer to a request, up to its empty line; `HandshakeRefused` when it is not for us."""
    request = _REQUEST.match(head)
    if request is None:
        raise HandshakeRefused("400 Bad Request")
    if request[1].partition(b"?")[0] != (path or "/").encode():
        raise HandshakeRefused("404 Not Found")
    headers: dict[bytes, bytes] = {}
    for line in head[request.end() :].split(b"\r\n"):
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    offered = [each.strip() for each in headers.get(b"sec-websocket-protocol", b"").decode("latin-1").split(",")]
    chosen = next((each for each in _PROTOCOLS if each in offered), None)
    key = headers.get(b"sec-websocket-key", b"")
    if headers.get(b"upgrade", b"").lower() != b"websocket" or not key:
        raise HandshakeRefused("426 Upgrade Required")
    if headers.get(b"sec-websocket-version") != b"13" or chosen is None:
        raise HandshakeRefused("400 Bad Request")
    accepted = b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest()).decode()
    lines = "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Accept: {accepted}"
    return "\r\n".join(
        ["HTTP/1.1 101 Switching Protocols", *lines, f"Sec-WebSocket-Protocol: {chosen}", "", ""]
    ).encode()


class Frames:
    """Cuts what comes into frames: what they carry, and what to answer."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held = bytearray()
        self.closed = False  # by the client

    def feed_untrusted(self, data: bytes) -> tuple[bytes, bytes]:
        """The bytes of messages, and those to send back."""
        self._held += data
        carried, answers = bytearray(), bytearray()
        while not self.closed and (frame := self._next()) is not None:
            kind, body = frame
            if kind in (_BINARY, _CONTINUED):
                carried += body
            elif kind == _PING:
                answers += framed(body, _PONG)
            elif kind == _CLOSE:
                answers += framed(body[:2], _CLOSE)
                self.closed = True
            elif kind != _PONG:
                raise PeerError("a frame of a WebSocket that is not binary")
        return bytes(carried), bytes(answers)

    def _next(self) -> tuple[int, bytes] | None:
        held = self._held
        if len(held) < 2:
            return None
        kind, length, at = held[0] & 0x0F, held[1] & 0x7F, 2
        if held[0] & 0x70 or not held[1] & 0x80:
            raise PeerError("a frame of a WebSocket with extensions or without a mask")
        if kind >= _CLOSE and (length > _CONTROL_BYTES_MAX or not held[0] & 0x80):
            raise PeerError("a control frame of a WebSocket that is long or in parts")
        if length > _CONTROL_BYTES_MAX:
            at += 2 if length == 126 else 8
            if len(held) < at:
                return None
            length = int.from_bytes(held[2:at], "big")
        if length > self._bytes_max:
            raise PeerError(f"a frame of {length:,} bytes; the limit is {self._bytes_max:,}")
        end = at + 4 + length
        if len(held) < end:
            return None
        mask, body = held[at : at + 4], held[at + 4 : end]
        repeated = (bytes(mask) * (length // 4 + 1))[:length]
        plain = (int.from_bytes(body, "big") ^ int.from_bytes(repeated, "big")).to_bytes(length, "big")
        del held[:end]
        return kind, plain


def framed(body: bytes, kind: int = _BINARY) -> bytes:
    length = len(body)
    if length <= _CONTROL_BYTES_MAX:
        head = bytes([0x80 | kind, length])
    elif length < 2**16:
        head = bytes([0x80 | kind, 126]) + length.to_bytes(2, "big")
    else:
        head = bytes([0x80 | kind, 127]) + length.to_bytes(8, "big")
    return head + body
