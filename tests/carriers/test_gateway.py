"""A gateway over a bus: its log has every event once, and it publishes once what is committed, though servers die."""

import asyncio
from pathlib import Path

import pytest

import holdfast
from holdfast.carriers import client as bus_clients
from holdfast.carriers.carrier import BusMessage
from holdfast.carriers.memory import MemoryBus
from holdfast.gateway import gateway as gateways
from holdfast.gateway.client import GatewayClient
from holdfast.gateway.dialling import BusSpace, addresses_of
from holdfast.gateway.gateway import Gateway, GatewaySettings
from holdfast.gateway.messages import EventToPublish
from holdfast.net.address import parse_address
from tests.carriers.riding import Failing, taken, twice
from tests.carriers.servers import running

HERE = (parse_address("tcp://127.0.0.1:0"),)
HOW = {"space": "plant", "lanes": "plant.{site}", "recovery": "end-to-end", "order": "strict"}


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(gateways, "_SUBSCRIBE_S", 60.0)  # of a machine that has other things to do as well


def gateway(folder: Path, address: str) -> Gateway:
    bus = BusSpace("plant", "plant.{site}")
    return Gateway(GatewaySettings(folder, addresses_of([address]), HERE, {"events": "n >= 0"}, bus=bus))


async def logged(client: GatewayClient, count: int) -> list[int]:
    stream = await client.ends("events", count - 1, 60)
    return [row.attributes["n"] async for rows in client.batches(stream, 0, stream.end) for row in rows.rows]


@pytest.mark.parametrize("refuses", [True, False], ids=["refused", "broken"])
@pytest.mark.parametrize("name", ["events", "others"])  # that is there, and that is made
def test_a_stream_is_open_when_the_bus_knows_of_it_however_often_connecting_fails(name, refuses, tmp_path, monkeypatch):
    bus, left = MemoryBus(), [1, 2, 3]
    monkeypatch.setattr(bus_clients, "carrier_of", lambda address: lambda: Failing(bus, left, refuses))

    async def story():
        made = gateway(tmp_path / "log", "nats://127.0.0.1:1")
        await made.start()
        try:
            await made.open_stream("n >= 0", name)
            return any(each.wants(BusMessage(("plant", "north"), b"")) for each in bus.carriers)
        finally:
            await made.stop()

    assert asyncio.run(story())
    assert not left


def test_a_log_has_every_event_once_though_the_server_is_killed(tmp_path):
    async def story(server):
        made = gateway(tmp_path / "log", server.address)
        await made.start()
        try:
            async with holdfast.connect(server.address, **HOW) as pub, GatewayClient(made.listening[0]) as client:
                await made.open_stream("n >= 0", "events")
                await pub.publish_many([{"n": n, "site": "north"} for n in range(2_000)])
                server.kill()
                server.start()
                await pub.publish_many([{"n": n, "site": "south"} for n in range(2_000, 3_000)])
                first = await logged(client, 3_000)
                return first, await logged(client, 3_000)
        finally:
            await made.stop()

    with running("nats", tmp_path) as server:
        first, again = asyncio.run(story(server))
    assert sorted(first) == list(range(3_000))
    assert again == first  # as often as somebody reads it


@pytest.mark.slow
def test_what_is_committed_is_published_once_though_the_server_is_killed(tmp_path):
    async def story(server):
        made = gateway(tmp_path / "log", server.address)
        await made.start()
        try:
            async with holdfast.connect(server.address, **HOW) as sub, GatewayClient(made.listening[0]) as client:
                mine = sub.subscribe("m >= 0", queue_max=10_000)
                await sub.flush()
                for batch in range(3):
                    rows = [EventToPublish({"m": 500 * batch + n, "site": "north"}, b"", None) for n in range(500)]
                    part = await client.stage("q", batch, 0, iter([rows]))
                    await client.commit("q", batch, [part])
                    await client.commit("q", batch, [part])  # as Spark does after a crash
                    if batch == 1:
                        server.kill()
                        server.start()
                got = await taken(mine, 1_500, 30)
                return [each.event["m"] for each in got], twice(got)
        finally:
            await made.stop()

    with running("nats", tmp_path) as server:
        got, doubled = asyncio.run(story(server))
    assert got == list(range(1_500))
    assert not doubled
