"""ActiveMQ through stomp.py, the usual Python client: a thread reads, and publishing writes to the socket at once."""

import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import stomp

_TOPIC = "/topic/stock"


def _connect(address: str, listener: stomp.ConnectionListener | None = None) -> stomp.Connection11:
    place = urlsplit(address)
    connection = stomp.Connection11([(place.hostname, place.port)], heartbeats=(0, 0))
    if listener is not None:
        connection.set_listener("bench", listener)
    connection.connect(wait=True)
    return connection


class StompPyPublisher:
    def __init__(self, address: str) -> None:
        self._connection = _connect(address)

    async def publish(self, event: dict[str, Any]) -> None:
        self._connection.send(_TOPIC, "", headers={name: str(value) for name, value in event.items()})

    async def flush(self) -> None:
        """Everything has been written when `publish` returns."""


class _Listener(stomp.ConnectionListener):  # type: ignore[misc]
    def __init__(self, on: Callable[[int, float | None], None]) -> None:
        self._on = on
        self.known = threading.Event()

    def on_receipt(self, frame: Any) -> None:
        self.known.set()

    def on_message(self, frame: Any) -> None:
        sent = frame.headers.get("sent")
        self._on(1, None if sent is None else float(sent))


def consume(address: str, selector: str, on: Callable[[int, float | None], None]) -> stomp.Connection11:
    """`on` is called in a thread of stomp.py's own; the server knows the selector when this returns."""
    listener = _Listener(on)
    connection = _connect(address, listener)
    connection.subscribe(_TOPIC, id="1", ack="auto", headers={"selector": selector, "receipt": "known"})
    listener.known.wait()
    return connection
