"""Over real servers, which are killed under a burst; and beside other clients of them."""

import asyncio
import json

import pytest

import holdfast
from bench.bus_servers import BUSES
from bench.live_systems import free_port
from tests.carriers.riding import numbers, taken, twice
from tests.carriers.servers import running

_SLOW = [pytest.param(each, marks=pytest.mark.slow) for each in BUSES if each != "nats"]


@pytest.mark.parametrize("bus", ["nats", *_SLOW])
def test_a_server_killed_under_a_burst_costs_no_event_and_no_order(bus, tmp_path):
    async def story(server):
        address = server.address
        how = {"space": "plant", "recovery": "end-to-end", "order": "strict"}
        async with holdfast.connect(address, **how) as sub, holdfast.connect(address, **how) as pub:
            mine = sub.subscribe("n >= 0", queue_max=100_000)
            await sub.flush()
            await pub.publish_many([{"n": n} for n in range(10_000)])
            server.kill()
            server.start()
            await pub.publish_many([{"n": n} for n in range(10_000, 20_000)])
            got = await taken(mine, 20_000, 60)
            return numbers(got), twice(got)

    with running(bus, tmp_path) as server:
        got, doubled = asyncio.run(story(server))
    assert got == list(range(20_000))
    assert not doubled


def test_a_plain_nats_client_reads_and_writes_the_same_events(tmp_path):
    import nats

    async def story(server):
        address = server.address
        how = {"space": "plant", "recovery": "end-to-end", "lanes": "plant.{site}", "body": "json"}
        plain = await nats.connect(address)
        theirs = await plain.subscribe("plant.*")
        async with holdfast.connect(address, **how) as client:
            mine = client.subscribe("site = 'north' AND temp > 3")
            await client.flush()
            await client.publish({"site": "north", "temp": 4})
            seen = await theirs.next_msg(10)
            await plain.publish("plant.north", b'{"temp": 5}')
            await plain.flush()
            got = await taken(mine, 2)
        await plain.close()
        return seen, got

    with running("nats", tmp_path) as server:
        seen, got = asyncio.run(story(server))
    assert (seen.subject, json.loads(seen.data)) == ("plant.north", {"site": "north", "temp": 4})
    assert [each.event["temp"] for each in got] == [4, 5]
    assert got[1].source == "~bus"


def test_no_server_is_an_error_of_one_line():
    port = free_port()

    async def story():
        async with holdfast.connect(f"nats://user:secret@127.0.0.1:{port}"):
            pass

    with pytest.raises(holdfast.TransportError) as problem:
        asyncio.run(story())
    assert f"nats://127.0.0.1:{port}" in str(problem.value)
    assert "secret" not in str(problem.value)
