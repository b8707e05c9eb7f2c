"""Over real servers, which are killed under a burst; and beside other clients of them."""

import asyncio
import json
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

import holdfast
from holdfast.carriers.servers import SERVERS
from holdfast.nemesis.proxy import TcpProxy, Weather
from holdfast.net.free_ports import free_ports
from tests.carriers.riding import numbers, taken, twice
from tests.carriers.servers import running

_SLOW = [pytest.param(each, marks=pytest.mark.slow) for each in SERVERS if each != "nats"]


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
    port = free_ports()

    async def story():
        async with holdfast.connect(f"nats://user:secret@127.0.0.1:{port}"):
            pass

    with pytest.raises(holdfast.TransportError) as problem:
        asyncio.run(story())
    assert f"nats://127.0.0.1:{port}" in str(problem.value)
    assert "secret" not in str(problem.value)


def test_subjects_that_a_nats_server_does_not_allow_are_told(tmp_path, monkeypatch):
    allowed = '{publish: ["other.>"], subscribe: ["other.>", "_INBOX.>"]}'
    user = f'{{user: "u", password: "p", permissions: {allowed}}}'
    (tmp_path / "nats.conf").write_text(f"authorization {{ users = [ {user} ] }}")

    class Guarded(SERVERS["nats"]):
        def _spawn(self, command, more=None, quiet=True):
            super()._spawn([*command, "-c", str(tmp_path / "nats.conf")], more, quiet)

    monkeypatch.setitem(SERVERS, "nats", Guarded)

    async def story(server):
        address = server.address.replace("//", "//u:p@")
        async with holdfast.connect(address, space="plant", recovery=True) as client:
            client.subscribe("n >= 0")
            await client.flush()
            await client.publish({"n": 1})
            await client.flush()

    with running("nats", tmp_path) as server, pytest.warns(holdfast.HoldfastWarning) as told:
        asyncio.run(story(server))
    said = " ".join(str(each.message) for each in told)
    assert all(f'for {what} to "plant"' in said.lower() for what in ("publish", "subscription"))
    assert ":p@" not in said


_PUBLISHER = """
import asyncio, sys, holdfast
async def main():
    async with holdfast.connect(sys.argv[1], name="pub", space="plant", recovery="end-to-end") as client:
        await client.publish_many([{"n": n} for n in range(1_000)])
        await client.flush()
        print("first", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await client.publish_many([{"n": n} for n in range(1_000, 3_000)])
        await client.flush()
        print("second", flush=True)
        await asyncio.sleep(1_000)
asyncio.run(main())
"""


@pytest.mark.slow
def test_a_keeper_has_what_a_publisher_that_was_killed_can_no_longer_send(tmp_path):
    async def story(address, publisher, keeper):
        host, port = urlsplit(address).hostname, urlsplit(address).port
        proxy = TcpProxy(lambda: (host, port), Weather())
        near = await proxy.start()
        how = {"space": "plant", "recovery": "end-to-end", "order": "strict"}
        async with holdfast.connect(f"nats://{near[0]}:{near[1]}", **how) as sub:
            mine = sub.subscribe("n >= 0", queue_max=10_000)
            await sub.flush()
            publisher.start()
            assert await asyncio.to_thread(publisher.line) == "first"
            got = await taken(mine, 1_000)
            proxy.change(cut=True)
            publisher.say()
            assert await asyncio.to_thread(publisher.line) == "second"
            await asyncio.sleep(1)  # until the keeper has them, too
            publisher.kill()
            proxy.change(cut=False)
            got += await taken(mine, 2_000, 60)
        proxy.close()
        return numbers(got), twice(got)

    with running("nats", tmp_path) as server:
        holdfast_keep = [
            "-m",
            "holdfast",
            "keep",
            server.address,
            "--space",
            "plant",
            "--store",
            str(tmp_path / "kept.db"),
        ]
        with Program(holdfast_keep) as keeper, Program(["-c", _PUBLISHER, server.address], waits=True) as publisher:
            assert keeper.line().startswith("keeper ready")
            got, doubled = asyncio.run(story(server.address, publisher, keeper))
    assert got == list(range(3_000))
    assert not doubled


class Program:
    """A Python program in a process of its own."""

    def __init__(self, arguments, waits=False):
        self._arguments = [sys.executable, *arguments]
        self._process = None
        if not waits:
            self.start()

    def start(self):
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._arguments, stdin=pipe, stdout=pipe, text=True)

    def line(self):
        return self._process.stdout.readline().strip()

    def say(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self):
        self._process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


@pytest.mark.slow
def test_a_subscription_that_is_dead_while_other_connections_live_is_noticed_over_redis(tmp_path):
    """A proxy swallows what the server says to the connection that subscribes, and nothing else."""

    async def story(server):
        there = urlsplit(server.address)
        deaf = asyncio.Event()

        async def pump(reader, writer, swallows):
            while data := await reader.read(65_536):
                if not (deaf.is_set() and swallows()):
                    writer.write(data)

        async def accept(reader, writer):
            far_reader, far_writer = await asyncio.open_connection(there.hostname, there.port)
            said = bytearray()

            async def forward():
                while data := await reader.read(65_536):
                    said.extend(data[:1_000])
                    far_writer.write(data)

            await asyncio.gather(forward(), pump(far_reader, writer, lambda: b"SUBSCRIBE" in said))

        proxy = await asyncio.start_server(accept, "127.0.0.1", 0)
        address = f"redis://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        how = {"space": "plant", "recovery": "end-to-end", "order": "strict"}
        async with holdfast.connect(server.address, **how) as pub, holdfast.connect(address, **how) as sub:
            mine = sub.subscribe("n >= 0")
            await sub.flush()
            await pub.publish({"n": 0})
            await taken(mine, 1)
            deaf.set()
            await pub.publish({"n": 1})
            async with asyncio.timeout(30):
                while mine.account().attached:
                    await asyncio.sleep(0.1)
            deaf.clear()
            got = numbers(await taken(mine, 1, 60))
        proxy.close()
        return got

    with running("redis", tmp_path) as server:
        assert asyncio.run(story(server)) == [1]
