"""Clients of MQTT that drip their bytes, over TCP, TLS and WebSocket: others are served, and the drips end.

Each sends what is right, a byte at a time, and never comes to an end. Half of them have not said who they are; the
others have, and drip a publication.
"""

import asyncio
import json
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest

import holdfast
from holdfast.mqtt.encoding import encode
from holdfast.mqtt.packets import Connect, PublishPacket
from holdfast.net import mqtt_line, mqtt_listener
from tests.net.certificates import Authority
from tests.net.harness import live
from tests.net.mqtt_client import MqttClient

SCHEMES = "mqtt", "mqtts", "ws"
HELLO = encode(Connect("x" * 20_000, 5), 5)
UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\nCookie: " + b"x" * 10_000
)


async def drip(port: int, tls: ssl.SSLContext | None, said: bytes, endless: bytes, every_s: float) -> float:
    """Say this, and then a byte at a time until the broker has enough; after how many seconds it had."""
    began_s = time.monotonic()
    with suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        try:
            writer.write(said)
            ended = asyncio.create_task(_to_the_end(reader))
            at = 0
            while not ended.done() and not writer.transport.is_closing():
                writer.write(endless[at % len(endless) :][:1])
                at += 1
                await asyncio.wait([ended], timeout=every_s)
        finally:
            writer.transport.abort()
    return time.monotonic() - began_s


async def _to_the_end(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(2**16):
            pass


def ports_of(addresses: list[str]) -> dict[str, int]:
    return {each.partition(":")[0]: int(each.partition("/mqtt")[0].rpartition(":")[2]) for each in addresses}


def beginnings(ports: dict[str, int], tls: ssl.SSLContext) -> list[Callable[[float], "asyncio.Future[float]"]]:
    """Of each kind one that has not said who it is."""
    return [
        lambda every_s: asyncio.ensure_future(drip(ports["mqtt"], None, b"", HELLO, every_s)),
        lambda every_s: asyncio.ensure_future(drip(ports["mqtts"], tls, b"", HELLO, every_s)),
        lambda every_s: asyncio.ensure_future(drip(ports["ws"], None, b"", UPGRADE, every_s)),
        lambda every_s: asyncio.ensure_future(drip(ports["ws"], None, UPGRADE + b"\r\n\r\n", b"\x82\xfe" * 9, every_s)),
    ]


@live
async def test_a_hello_that_drips_ends_and_others_are_served(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (mqtt_line, mqtt_listener):
        monkeypatch.setattr(module, "GREETING_S", 0.3)
    own = authority.files("broker")
    tls = ssl.create_default_context(cafile=authority.certificate)
    listen = ["mqtt://127.0.0.1:0", "mqtts://127.0.0.1:0", "ws://127.0.0.1:0/mqtt"]
    async with holdfast.Broker(listen, certificate=own.certificate, key=own.key) as broker:
        ports = ports_of(list(broker.addresses))
        dripping = [start(0.01) for start in beginnings(ports, tls) for _ in range(10)]
        for port, context in ((ports["mqtt"], None), (ports["mqtts"], tls)):
            async with MqttClient(port, f"good-{port}", tls=context) as good:
                await good.subscribe("a", qos=1)
                for number in range(20):
                    await good.publish("a", b"%d" % number, qos=1)
                    assert (await good.event()).payload == b"%d" % number
        await asyncio.wait_for(asyncio.gather(*dripping), 60)


@pytest.mark.slow
@live
async def test_a_publication_that_drips_does_not_keep_a_connection_alive() -> None:
    """A packet of a slow line does: `_PROGRESS_BYTES` of it are as good as a packet."""
    async with holdfast.Broker(["mqtt://127.0.0.1:0"]) as broker:
        port = ports_of(list(broker.addresses))["mqtt"]
        said = encode(Connect("c", 5, keep_alive=1), 5)
        endless = encode(PublishPacket("a", b"x" * 100_000), 5)
        dripping = asyncio.ensure_future(drip(port, None, said, endless, 0.02))
        slow_line = asyncio.ensure_future(trickle(port, encode(Connect("d", 5, keep_alive=1), 5), endless))
        assert await asyncio.wait_for(dripping, 20) < 10
        assert await asyncio.wait_for(slow_line, 60)


async def trickle(port: int, said: bytes, packet: bytes) -> bool:
    """A packet in pieces, over more than twice the keep-alive time; whether the broker has waited for all of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    assert await reader.read(100)  # CONNACK
    step = len(packet) // 20 + 1
    for at in range(0, len(packet), step):
        writer.write(packet[at : at + step])
        await asyncio.sleep(0.15)
    writer.write(b"\xc0\x00")
    answer = await reader.read(2)
    writer.close()
    return answer == b"\xd0\x00"


@asynccontextmanager
async def broker_process(own: list[str]) -> AsyncIterator[tuple[psutil.Process, dict[str, int]]]:
    listen = ["mqtt://127.0.0.1:0", "mqtts://127.0.0.1:0", "ws://127.0.0.1:0/mqtt"]
    doors = [part for each in listen for part in ("--listen", each)]
    program = [sys.executable, "-c", "from holdfast.cli import main; main()", "broker", "--id", "b1", "--json"]
    process = await asyncio.create_subprocess_exec(
        *program, *doors, *own, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        ready = json.loads(await process.stdout.readline())
        yield psutil.Process(process.pid), ports_of(ready["listen"])
    finally:
        process.kill()
        await process.wait()


@pytest.mark.slow
@live
async def test_two_thousand_drips_cost_a_broker_little(authority: Authority, tmp_path: Path) -> None:
    """Twice as many as may be half open: the oldest are closed at once, the rest when their time is up."""
    files = authority.files("broker")
    tls = ssl.create_default_context(cafile=authority.certificate)
    own = ["--certificate", str(files.certificate), "--key", str(files.key)]
    async with broker_process(own) as (process, ports), MqttClient(ports["mqtt"], "good") as good:
        await good.subscribe("a", qos=1)
        before_mib = process.memory_info().rss / 2**20
        dripping = [start(0.5) for _ in range(500) for start in beginnings(ports, tls)]
        waits, peak_mib = [0.0], before_mib
        while not all(each.done() for each in dripping):
            began_s = time.monotonic()
            await good.publish("a", b"x", qos=1)
            await good.event()
            waits.append(time.monotonic() - began_s)
            peak_mib = max(peak_mib, process.memory_info().rss / 2**20)
            await asyncio.sleep(0.05)
        assert max(each.result() for each in dripping) < 60
        assert max(waits) < 5 and sorted(waits)[len(waits) // 2] < 0.5
        assert peak_mib - before_mib < 200  # 100 KiB for each, most of it of TLS
