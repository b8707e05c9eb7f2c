"""The systems of the durable bench: brokers that acknowledge an event once it is on disk, and how to publish to each.

A publisher keeps some events unacknowledged, as many as suit its client, and is done when all are acknowledged.
Holdfast's brokers also deliver them to a subscriber, and are done when it has them all; the others only take them.
"""

import asyncio
import json
import subprocess
import sys
import time
from typing import Any
from urllib.parse import urlsplit

from bench.live_events import MATCHING, stream
from bench.live_stomp import Stomp
from bench.live_systems import ActiveMqBare, Nats, RabbitMq, Server
from holdfast.carriers.servers import nats_server

AHEAD = 512  # events that a publisher of the others keeps unacknowledged


class Durable(Server):
    first_turn = 256

    async def publish(self, count: int) -> float:
        """Publish so many events; seconds until all were acknowledged."""
        raise NotImplementedError


class Holdfast(Durable):
    first_turn = 4_096
    brokers = 1

    def start(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        peer: list[str] = []
        addresses = []
        for number in range(1, self.brokers + 1):
            more = ["--id", f"b{number}", "--listen", "tcp://127.0.0.1:0", "--hops", "retransmission"]
            more += ["--store", str(self.folder / f"b{number}.db"), *peer]
            self._spawn([sys.executable, "-c", "from holdfast.cli import main; main()", "broker", *more], quiet=False)
            assert self.process is not None
            self._processes.append(self.process)
            addresses.append(self._first_word_starting("tcp://"))
            peer = ["--peer", f"b{number}={addresses[-1]}"]
        self.address = addresses[0]
        command = [sys.executable, "-m", "bench.durable_systems", addresses[-1]]
        self._spawn_subscriber(command)

    def _spawn_subscriber(self, command: list[str]) -> None:
        pipe = subprocess.PIPE
        self._subscriber = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._processes.append(self._subscriber)
        assert self._subscriber.stdout is not None
        assert self._subscriber.stdout.readline().strip() == "ready"
        time.sleep(1.5)  # its subscription has passed through all brokers

    async def publish(self, count: int) -> float:
        import holdfast

        assert self._subscriber.stdin is not None
        assert self._subscriber.stdout is not None
        self._subscriber.stdin.write(f"{count}\n")
        self._subscriber.stdin.flush()
        async with holdfast.connect(self.address, durable=True) as client:
            began_s = time.monotonic()
            for event in stream(count):
                await client.publish(event)
            await client.flush()
            acknowledged_s = time.monotonic()
            line = await asyncio.to_thread(self._subscriber.stdout.readline)
        return max(acknowledged_s, json.loads(line)["last_s"]) - began_s

    def stop(self) -> None:
        for each in self._processes:
            each.kill()
            each.communicate()


class HoldfastThree(Holdfast):
    brokers = 3


class DurableRabbit(RabbitMq, Durable):
    first_turn = 256

    async def publish(self, count: int) -> float:
        return await asyncio.to_thread(self._publish, count)

    def _publish(self, count: int) -> float:
        import pika

        place = urlsplit(self.address)
        loop_done: dict[str, float] = {}
        work, sent, confirmed = stream(count), 0, 0

        def on_open(connection: Any) -> None:
            connection.channel(on_open_callback=on_channel)

        def on_channel(channel: Any) -> None:
            channel.queue_declare("bench", durable=True, callback=lambda _: channel.confirm_delivery(on_confirm, ready))
            loop_done["channel"] = channel

        def ready(_: Any) -> None:
            loop_done["began_s"] = time.monotonic()
            more()

        def more() -> None:
            nonlocal sent
            while sent < count and sent - confirmed < AHEAD:
                event = {name: str(value) if isinstance(value, float) else value for name, value in next(work).items()}
                stored = pika.BasicProperties(headers=event, delivery_mode=2)
                loop_done["channel"].basic_publish("", "bench", b"", stored)  # type: ignore[attr-defined]
                sent += 1

        def on_confirm(frame: Any) -> None:
            nonlocal confirmed
            confirmed = frame.method.delivery_tag if frame.method.multiple else confirmed + 1
            if confirmed >= count:
                loop_done["ended_s"] = time.monotonic()
                connection.ioloop.stop()
            more()

        parameters = pika.ConnectionParameters(place.hostname, place.port, heartbeat=0)
        connection = pika.SelectConnection(parameters, on_open_callback=on_open)
        connection.ioloop.start()
        return loop_done["ended_s"] - loop_done["began_s"]


class DurableActiveMq(ActiveMqBare, Durable):
    first_turn = 256
    options = "persistent=true&useJmx=false"

    async def publish(self, count: int) -> float:
        stomp = await Stomp.connect(self.address, lambda headers: None)
        began_s = time.monotonic()
        waiting: set[asyncio.Task[None]] = set()
        for event in stream(count):
            headers = {"destination": "/queue/bench", "persistent": "true", **event}
            waiting.add(asyncio.create_task(stomp._receipt("SEND", headers)))
            if len(waiting) >= AHEAD:
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(waiting)
        return time.monotonic() - began_s


class JetStream(Nats, Durable):
    first_turn = 512
    sync = "always"

    def start(self) -> None:
        port = self._port()
        config = self.folder / "nats.conf"
        sync = f"sync_interval: {self.sync}" if self.sync else ""
        config.write_text(f'jetstream {{ store_dir: "{self.folder / "js"}"\n {sync} }}\n')
        self._spawn([str(nats_server()), "-a", "127.0.0.1", "-p", str(port), "-c", str(config)])
        self._wait_for(port)
        self.address = f"nats://127.0.0.1:{port}"

    async def publish(self, count: int) -> float:
        import nats

        connection = await nats.connect(self.address)
        stream_ = connection.jetstream(publish_async_max_pending=AHEAD)
        await stream_.add_stream(name="bench", subjects=["bench"])
        encode = json.JSONEncoder().encode
        began_s = time.monotonic()
        for event in stream(count):
            await stream_.publish_async("bench", encode(event).encode(), wait_stall=60)
        await stream_.publish_async_completed()
        took_s = time.monotonic() - began_s
        await connection.close()
        return took_s


class JetStreamDefault(JetStream):
    sync = ""


SYSTEMS: dict[str, type[Durable]] = {
    "holdfast": Holdfast,
    "holdfast, 3 brokers": HoldfastThree,
    "rabbitmq": DurableRabbit,
    "activemq": DurableActiveMq,
    "jetstream, sync always": JetStream,
    "jetstream, default": JetStreamDefault,
}
SYNCING = ("rabbitmq", "activemq", "jetstream, sync always")  # they acknowledge what is on disk


async def subscribe(address: str) -> None:
    """Holdfast's subscriber, as a process of its own: told how many will come, it says when it had them all."""
    import holdfast

    async with holdfast.connect(address, durable=True) as client:
        subscription = client.subscribe(MATCHING, queue_max=100_000, when_full="push-back")
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            left = int(line)
            while left > 0:
                left -= len(await subscription.batch() or ())
            print(json.dumps({"last_s": time.monotonic()}), flush=True)


if __name__ == "__main__":
    asyncio.run(subscribe(sys.argv[1]))
