"""Publishers and subscribers for the scene in which a server is killed: Holdfast, RabbitMQ, JetStream and Mosquitto.

    python -m bench.reliable_peers '{"system": "rabbitmq", "role": "sub", "address": "amqp://...", "number": 0}'

Each uses its client as its documentation says it should be used so that nothing is lost: a publisher keeps what is not
acknowledged and sends it again over the next connection, a subscriber acknowledges an event after it has counted it,
and what it is subscribed to outlives its connection. As in bench/reliable_worker.py, lines of JSON go in and out.
"""

import asyncio
import json
import sys
import threading
import time
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np

import holdfast
from bench.live_events import MATCHING
from bench.reliable_work import work
from bench.reliable_worker import named, say, tasks
from holdfast.model.errors import TransportError

AHEAD = 512  # events that a publisher keeps unacknowledged
AGAIN_S = 0.2  # between attempts to connect
LOOK_S = 0.05
ACK_WAIT_S = 3.0  # after which JetStream delivers again what was not acknowledged

On = Callable[[int], None]
HOLDFAST: dict[str, dict[str, Any]] = {
    "holdfast, strict": {"recovery": True, "order": "strict"},
    "holdfast, stored": {"durable": True},
}


class Progress:
    """What a publisher has done; from whatever thread its client calls."""

    def __init__(self, count: int, until_s: float) -> None:
        self.count, self.until_s = count, until_s
        self.unacknowledged: dict[int, None] = {}
        self.sent = 0  # so far; the next number

    def next(self) -> int:
        number, self.sent = self.sent, self.sent + 1
        self.unacknowledged[number] = None
        if self.sent == self.count // 2:
            say(halfway=self.sent)
        return number

    @property
    def done(self) -> bool:
        return (self.sent == self.count and not self.unacknowledged) or time.monotonic() > self.until_s

    @property
    def may_send(self) -> bool:
        return self.sent < self.count and len(self.unacknowledged) < AHEAD


def body(number: int) -> bytes:
    return json.dumps(work("stock", 1).event(number)).encode()


async def publish(task: dict[str, Any]) -> None:
    work("stock", 1)
    async for line in tasks():
        progress = Progress(line["count"], line["until_s"])
        began_s = time.monotonic()
        await PUBLISHERS[task["system"]](task, progress)
        left = [*progress.unacknowledged, *range(progress.sent, progress.count)]
        say(took_s=time.monotonic() - began_s, unacknowledged=left)


async def subscribe(task: dict[str, Any]) -> None:
    numbers, different = array("q"), set[int]()
    last_s = time.monotonic()

    def on(number: int) -> None:
        nonlocal last_s
        numbers.append(number)
        different.add(number)
        last_s = time.monotonic()

    knows = await SUBSCRIBERS[task["system"]](task, on)
    async for line in tasks():
        while len(different) < line["wanted"] and time.monotonic() < line["until_s"]:
            if time.monotonic() > last_s + line["quiet_s"] and knows.settled():
                break
            await asyncio.sleep(LOOK_S)
        np.savez(line["report"], lengths=[len(numbers)], numbers=np.frombuffer(numbers, np.int64))
        say(last_s=last_s, named=knows.named(), settled=knows.settled())


@dataclass(frozen=True)
class Knows:
    """What a client can say of what it has not got; only Holdfast's can."""

    named: Callable[[], Counter[str]] = Counter
    settled: Callable[[], bool] = lambda: True


KEPT: list[Any] = []  # until the process ends; a task that nobody holds may be collected


# Holdfast ------------------------------------------------------------------------------------------------------


async def _holdfast(task: dict[str, Any]) -> Any:
    client = await holdfast.connect(task["address"], **HOLDFAST[task["system"]]).__aenter__()
    KEPT.append(client)  # it stays, also for those who ask for what they lost
    return client


async def holdfast_pub(task: dict[str, Any], progress: Progress) -> None:
    given, client = work("stock", 1), await _holdfast(task)
    with suppress(TimeoutError):
        async with asyncio.timeout(progress.until_s - time.monotonic()):
            while progress.sent < progress.count:
                await client.publish(given.event(progress.next()))
            while progress.unacknowledged:  # a flush that the crash breaks is asked for again
                with suppress(TransportError):
                    await client.flush()
                    progress.unacknowledged.clear()


async def holdfast_sub(task: dict[str, Any], on: On) -> Knows:
    client = await _holdfast(task)
    subscription = client.subscribe(MATCHING, when_full="push-back")

    async def read() -> None:
        while batch := await subscription.batch():
            for each in batch:
                on(each.event["seq"])

    KEPT.append(asyncio.create_task(read()))
    await client.flush()
    return Knows(lambda: named(client), lambda: client.settled)


# RabbitMQ: a durable queue for each subscriber, confirms and acknowledgements ----------------------------------

_EXCHANGE, _KEY = "bench-reliable", "stock.trade"


def _rabbit(address: str) -> Any:
    import pika

    place = urlsplit(address)
    return pika.ConnectionParameters(place.hostname, place.port, heartbeat=0)


async def rabbitmq_pub(task: dict[str, Any], progress: Progress) -> None:
    while not progress.done:
        await asyncio.to_thread(RabbitPublishing(task["address"], progress).run)
        await asyncio.sleep(AGAIN_S)


class RabbitPublishing:
    """One connection's worth: what is not acknowledged is sent again first."""

    def __init__(self, address: str, progress: Progress) -> None:
        import pika

        self._progress = progress
        self._stored = pika.BasicProperties(delivery_mode=2)
        self._nack = pika.spec.Basic.Nack
        self._numbers: list[int] = []  # of what was sent over this connection
        self._confirmed = 0  # all up to here
        self._connection = pika.SelectConnection(_rabbit(address), self._on_open, self._on_end, self._on_end)

    def run(self) -> None:
        self._connection.ioloop.start()

    def _on_open(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._on_channel)

    def _on_end(self, connection: Any, _: Any) -> None:
        connection.ioloop.stop()

    def _on_channel(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._on_confirm, self._on_ready)

    def _on_ready(self, _: Any) -> None:
        for number in list(self._progress.unacknowledged):
            self._send(number)
        self._more()

    def _more(self) -> None:
        while self._progress.may_send:
            self._send(self._progress.next())

    def _send(self, number: int) -> None:
        self._numbers.append(number)
        self._channel.basic_publish(_EXCHANGE, _KEY, body(number), self._stored)

    def _on_confirm(self, frame: Any) -> None:
        last = frame.method.delivery_tag  # they count from 1
        if isinstance(frame.method, self._nack):
            self._connection.close()  # and all that is not acknowledged is sent again over the next
            return
        for number in self._numbers[self._confirmed if frame.method.multiple else last - 1 : last]:
            self._progress.unacknowledged.pop(number, None)
        if frame.method.multiple:
            self._confirmed = last
        self._more()
        if self._progress.done:
            self._connection.ioloop.stop()


async def rabbitmq_sub(task: dict[str, Any], on: On) -> Knows:
    ready = threading.Event()
    threading.Thread(target=_rabbit_consume, args=(task, on, ready), daemon=True).start()
    await asyncio.to_thread(ready.wait)
    return Knows()


def _rabbit_consume(task: dict[str, Any], on: On, ready: threading.Event) -> None:
    import pika
    from pika.exceptions import AMQPError

    def on_message(channel: Any, method: Any, _: Any, message: bytes) -> None:
        on(json.loads(message)["seq"])
        channel.basic_ack(method.delivery_tag)

    queue = f"bench-{task['number']}"
    while True:
        with suppress(AMQPError, OSError):
            channel = pika.BlockingConnection(_rabbit(task["address"])).channel()
            channel.exchange_declare(_EXCHANGE, exchange_type="topic", durable=True)
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, _EXCHANGE, "stock.*")
            channel.basic_qos(prefetch_count=AHEAD)
            channel.basic_consume(queue, on_message)
            ready.set()
            channel.start_consuming()
        time.sleep(AGAIN_S)


# JetStream: a file stream, a durable pull consumer for each subscriber -----------------------------------------


async def _nats(address: str) -> Any:
    import nats

    async def quiet(_: Exception) -> None:
        """That the server is gone is what we wait for."""

    connection = await nats.connect(address, max_reconnect_attempts=-1, reconnect_time_wait=AGAIN_S, error_cb=quiet)
    await connection.jetstream().add_stream(name="bench", subjects=["stock.*"], storage="file")
    return connection


async def jetstream_pub(task: dict[str, Any], progress: Progress) -> None:
    from nats.errors import Error

    stream = (await _nats(task["address"])).jetstream(publish_async_max_pending=4 * AHEAD)
    while not progress.done:
        while progress.may_send:
            progress.next()
        waiting: dict[asyncio.Future[Any], int] = {}
        with suppress(Error, TimeoutError):
            for number in progress.unacknowledged:  # with an id, so that the server knows what it has already
                future = await stream.publish_async(_KEY, body(number), AGAIN_S, headers={"Nats-Msg-Id": str(number)})
                waiting[future] = number
        if waiting:
            await asyncio.wait(waiting, timeout=ACK_WAIT_S)
        for future, number in waiting.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                progress.unacknowledged.pop(number, None)
            future.cancel()


async def jetstream_sub(task: dict[str, Any], on: On) -> Knows:
    from nats.errors import Error
    from nats.js.api import ConsumerConfig

    stream = (await _nats(task["address"])).jetstream()
    config = ConsumerConfig(ack_wait=ACK_WAIT_S)
    consumer = await stream.pull_subscribe("stock.*", durable=f"bench-{task['number']}", stream="bench", config=config)

    async def read() -> None:
        while True:
            try:
                for each in await consumer.fetch(AHEAD, timeout=1):
                    on(json.loads(each.data)["seq"])
                    await each.ack()
            except (Error, TimeoutError):
                await asyncio.sleep(LOOK_S)

    KEPT.append(asyncio.create_task(read()))
    return Knows()


# Mosquitto: QoS 1, sessions that outlive the connection --------------------------------------------------------


def _mqtt(task: dict[str, Any], name: str) -> Any:
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    client = Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
    client.reconnect_delay_set(1, 1)  # seconds, which it wants whole
    client.max_queued_messages_set(0)
    client.max_inflight_messages_set(AHEAD)
    return client


async def mosquitto_pub(task: dict[str, Any], progress: Progress) -> None:
    client, place = _mqtt(task, "bench-publisher"), urlsplit(task["address"])
    sending: dict[int, int] = {}
    told: list[int] = []
    lock = threading.Lock()

    def on_publish(_: Any, __: Any, message: int, ___: Any, ____: Any) -> None:
        with lock:  # the acknowledgement may be here before `publish` has returned
            told.append(message)

    client.on_publish = on_publish
    client.connect(place.hostname, place.port)
    client.loop_start()
    while not progress.done:
        while progress.may_send:
            number = progress.next()
            sending[client.publish("stock/trade", body(number), qos=1).mid] = number
        with lock:
            acknowledged, told[:] = list(told), []
        for message in acknowledged:
            progress.unacknowledged.pop(sending.pop(message), None)
        await asyncio.sleep(0 if acknowledged else 0.001)
    client.loop_stop()


async def mosquitto_sub(task: dict[str, Any], on: On) -> Knows:
    client, place = _mqtt(task, f"bench-{task['number']}"), urlsplit(task["address"])
    ready = threading.Event()
    client.on_message = lambda _, __, message: on(json.loads(message.payload)["seq"])
    client.on_connect = lambda *_: client.subscribe("stock/#", qos=1)
    client.on_subscribe = lambda *_: ready.set()
    client.connect(place.hostname, place.port)
    client.loop_start()
    await asyncio.to_thread(ready.wait)
    return Knows()


PUBLISHERS: dict[str, Callable[[dict[str, Any], Progress], Awaitable[None]]] = {
    **dict.fromkeys(HOLDFAST, holdfast_pub),
    "rabbitmq": rabbitmq_pub,
    "jetstream": jetstream_pub,
    "mosquitto": mosquitto_pub,
}
SUBSCRIBERS: dict[str, Callable[[dict[str, Any], On], Awaitable[Knows]]] = {
    **dict.fromkeys(HOLDFAST, holdfast_sub),
    "rabbitmq": rabbitmq_sub,
    "jetstream": jetstream_sub,
    "mosquitto": mosquitto_sub,
}


if __name__ == "__main__":
    from holdfast.net.event_loop import run

    given = json.loads(sys.argv[1])
    run(publish(given) if given["role"] == "pub" else subscribe(given))
