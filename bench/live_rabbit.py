"""RabbitMQ's headers exchange through pika: events as headers, bindings that compare for equality."""

import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pika

_EXCHANGE = "bench-headers"
_ALL = {"x-match": "all"}


def _connect(address: str) -> tuple[Any, Any]:
    place = urlsplit(address)
    connection = pika.BlockingConnection(pika.ConnectionParameters(place.hostname, place.port, heartbeat=0))
    channel = connection.channel()
    channel.exchange_declare(_EXCHANGE, exchange_type="headers")
    return connection, channel


class RabbitPublisher:
    def __init__(self, address: str) -> None:
        self._connection, self._channel = _connect(address)

    async def publish(self, event: dict[str, Any]) -> None:
        headers = {name: str(value) if isinstance(value, float) else value for name, value in event.items()}
        self._channel.basic_publish(_EXCHANGE, "", b"", pika.BasicProperties(headers=headers))

    async def flush(self) -> None:
        self._connection.process_data_events(0)


def consume(address: str, wanted: dict[str, Any], on: Callable[[int, float | None], None]) -> None:
    _, channel = _connect(address)
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, _EXCHANGE, arguments={**_ALL, **wanted})

    def on_message(_: Any, __: Any, properties: Any, ___: bytes) -> None:
        sent = properties.headers.get("sent")
        on(1, None if sent is None else float(sent))

    channel.basic_consume(queue, on_message, auto_ack=True)
    threading.Thread(target=channel.start_consuming, daemon=True).start()


def bind_others(address: str, wanted: list[tuple[str, str]]) -> Any:
    connection, channel = _connect(address)
    queue = channel.queue_declare("", exclusive=True).method.queue
    for symbol, exchange in wanted:
        channel.queue_bind(queue, _EXCHANGE, arguments={**_ALL, "symbol": symbol, "exchange": exchange})
    return connection
