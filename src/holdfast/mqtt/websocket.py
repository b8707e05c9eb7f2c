"""The server's end of a WebSocket as MQTT uses it: binary messages whose borders mean nothing.

Bytes in, bytes out: the handshake and the frames are those of the library `websockets`, without its sockets. What it
leaves open is decided here: the path, the subprotocol, no extensions, and how much may come before who it is.
"""

import logging
from http import HTTPStatus
from typing import Final

from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

HEAD_BYTES_MAX: Final = 16 * 1024  # of the request: cookies and tokens of browsers are long
_PROTOCOLS = Subprotocol("mqtt"), Subprotocol("mqttv3.1")
_DATA = frozenset({Opcode.BINARY, Opcode.CONT})
_NO_LOG = logging.Logger("holdfast.websocket", logging.CRITICAL + 1)  # what a peer does wrong is told by its connection


class WebSocket:
    def __init__(self, path: str, bytes_max: int) -> None:
        """`bytes_max` is the limit of a frame; a message may have any number of them, as a stream has."""
        self._path = path or "/"
        self._protocol = ServerProtocol(
            subprotocols=_PROTOCOLS, extensions=None, max_size=(None, bytes_max), logger=_NO_LOG
        )
        self._head_bytes = 0  # that have come before the handshake was over

    @property
    def is_open(self) -> bool:
        """Whether the handshake is over, and well."""
        return self._protocol.state is State.OPEN

    @property
    def closed(self) -> bool:
        """Whether nothing more comes that is of any use."""
        return self._protocol.state in (State.CLOSING, State.CLOSED) or self._protocol.close_expected()

    def feed_untrusted(self, data: bytes) -> tuple[bytes, bytes]:
        """The bytes of messages, and those to send back."""
        protocol = self._protocol
        if protocol.state is State.CONNECTING:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                refusal = protocol.reject(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request is too long.\n")
                protocol.send_response(refusal)
                return b"", self._to_send()
        protocol.receive_data(data)
        carried = [self._on_event(event) for event in protocol.events_received()]
        return b"".join(carried), self._to_send()

    def _on_event(self, event: Request | Frame | object) -> bytes:
        if isinstance(event, Request):
            self._on_request(event)
        elif isinstance(event, Frame) and self.is_open:
            if event.opcode in _DATA:
                return bytes(event.data)
            if event.opcode is Opcode.TEXT:
                self._protocol.fail(CloseCode.UNSUPPORTED_DATA, "MQTT is in binary frames")
        return b""

    def _on_request(self, request: Request) -> None:
        protocol = self._protocol
        if request.path.partition("?")[0] != self._path:
            answer = protocol.reject(HTTPStatus.NOT_FOUND, f"MQTT is at {self._path}\n")
        else:
            answer = protocol.accept(request)
        protocol.send_response(answer)

    def framed(self, data: bytes) -> bytes:
        """As a message; nothing once the WebSocket is closed."""
        try:
            self._protocol.send_binary(data)
        except InvalidState:
            return b""
        return self._to_send()

    def _to_send(self) -> bytes:
        return b"".join(self._protocol.data_to_send())
