"""What a broker says of itself: metrics that Prometheus can read, and its health."""

import asyncio
import json
import math
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any
from urllib.request import urlopen

import pytest

from holdfast.model.errors import InputError, TransportError
from holdfast.net import http
from holdfast.net.address import Address
from holdfast.net.clock import Clock
from holdfast.net.counters import Counters
from holdfast.net.free_ports import free_ports
from holdfast.net.lost_peers import LostPeers
from holdfast.net.member import Member
from holdfast.net.metrics import exposition
from holdfast.net.node import BrokerNode
from holdfast.net.status import Queue, Status, StoreStatus, status_of
from holdfast.net.watching import watch
from holdfast.network.load import parse_text
from holdfast.protocol.hops.settings import HopSettings
from holdfast.protocol.settings import ProtocolSettings
from holdfast.wire.signals import Hello
from tests.net.harness import Lab, fails, lab, live, settled, until

ANYWHERE = Address("tcp", "127.0.0.1", 0)

WELL = Status(
    broker="b1",
    routing="subscriptions",
    hops="basic",
    peers={"b2": True},
    clients=2,
    broker_queues={"b2": Queue(1, 100)},
    client_queues=(Queue(0, 0), Queue(2, 70)),
    queue_bytes_max=1_000,
    store=None,
    gauges={"stored events": (3, 10)},
    counters=Counters(received=5, incidents={"expired": 2}),
)


def read(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """By the parser of Prometheus' own library."""
    parser = pytest.importorskip("prometheus_client.parser", reason="the parser of Prometheus is not installed")
    families = list(parser.text_string_to_metric_families(text))
    assert all(family.documentation and family.type in ("gauge", "counter") for family in families)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_prometheus_reads_the_metrics_as_they_were_meant() -> None:
    found = read(exposition(WELL))
    assert found["holdfast_messages_received_total", ()] == 5
    assert found["holdfast_incidents_total", (("kind", "expired"),)] == 2
    assert found["holdfast_held", (("what", "stored events"),)] == 3
    assert found["holdfast_held_limit", (("what", "stored events"),)] == 10
    assert found["holdfast_peer_connected", (("peer", "b2"),)] == 1
    assert found["holdfast_queue_bytes", (("neighbour", "b2"),)] == 100
    assert (found["holdfast_client_queue_bytes", ()], found["holdfast_client_queue_bytes_max", ()]) == (70, 70)
    assert found["holdfast_healthy", ()] == 1
    assert all(math.isfinite(value) for value in found.values())


def test_names_that_need_quoting_survive() -> None:
    name = 'b"2\\ \n'
    assert read(exposition(replace(WELL, peers={name: False})))["holdfast_peer_connected", (("peer", name),)] == 0


def test_every_counter_has_a_metric() -> None:
    counters = Counters(**{name: 7 for name in vars(Counters()) if name != "incidents"})
    totals = [value for (name, _), value in read(exposition(replace(WELL, counters=counters))).items() if value == 7]
    assert len(totals) == len(vars(counters)) - 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"peers": {"b2": True, "b3": False}}, "peer b3 is not connected"),
        ({"broker_queues": {"b2": Queue(9, 950)}}, "the queue for b2 is full: 950 of 1,000 bytes"),
        ({"client_queues": (Queue(9, 950), Queue(0, 0))}, "the queues of 1 clients are full"),
        ({"store": StoreStatus(4, "b1.db: cannot be written: disk is full", 0)}, "b1.db: cannot be written"),
    ],
)
def test_a_broker_with_a_problem_is_not_healthy_and_says_why(change: dict[str, Any], problem: str) -> None:
    assert WELL.problems == []
    found = replace(WELL, **change)
    assert found.as_json()["ok"] is False
    (told,) = found.problems
    assert problem in told
    assert read(exposition(found))["holdfast_healthy", ()] == 0


async def get(address: str, page: str) -> tuple[int, str]:
    """Through an HTTP client that is not ours."""

    def ask() -> tuple[int, str]:
        connection = HTTPConnection(address.removeprefix("http://"), timeout=30)
        connection.request("GET", page)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    return await asyncio.to_thread(ask)


@live
async def test_a_broker_is_healthy_once_its_peer_is_there_and_not_before() -> None:
    async with lab() as net:
        b1 = await net.broker("b1")
        place = b1.listening[0]
        await b1.stop(0.1)
        b2 = await net.broker("b2", peers={"b1": place})
        server = await watch(b2, ANYWHERE)
        code, body = await get(server.address, "/health")
        assert (code, json.loads(body)["problems"]) == (503, ["peer b1 is not connected"])
        await net.broker("b1", place)
        await b2.connected_to("b1")
        await until(lambda: not status_of(b2).problems)
        code, body = await get(server.address, "/health")
        assert (code, json.loads(body)["ok"], json.loads(body)["peers"]) == (200, True, {"b1": True})
        server.close()


@live
@pytest.mark.parametrize("how", ["stopped", "crashed"])
async def test_a_broker_that_had_dialled_in_and_is_gone_is_noticed_until_it_is_back(how: str) -> None:
    async with lab() as net:
        b1, b2 = await net.pair()
        assert status_of(b1).problems == []
        if how == "crashed":
            b2.crash()
        else:
            await b2.stop(0.1)
        await until(lambda: "b2" not in b1.neighbours)
        assert (status_of(b1).problems, status_of(b1).peers) == (["peer b2 is not connected"], {"b2": False})
        assert read(exposition(status_of(b1)))["holdfast_peer_connected", (("peer", "b2"),)] == 0
        await net.broker("b2", peers={"b1": b1.listening[0]})
        await b1.connected_to("b2")
        assert status_of(b1).problems == []


@live
async def test_a_broker_that_takes_leave_is_not_missed_nor_is_a_client() -> None:
    seldom = ProtocolSettings(heartbeat_us=30_000_000, lease_us=100_000_000)
    async with lab() as net:
        # Who sends a heartbeat to one that has left learns that the connection is broken, and no more that it said so.
        b1, b2 = await net.pair(protocol=seldom)
        client = await net.client(b1)
        b2.set_peers({})
        await client.close()
        await until(lambda: not b1.neighbours)
        assert (status_of(b1).problems, status_of(b1).peers) == ([], {})


@live
async def test_a_broker_that_was_replaced_or_is_gone_for_a_day_is_not_missed() -> None:
    async with lab() as net:
        b1, _ = await net.pair()
        session, now_s = b1._sessions["b2"], 0.0
        lost = LostPeers(lambda: now_s)
        lost.on_end(session)
        assert lost.names() == ("b2",)
        lost.on_connected(Hello("b3", "broker", 1, "b2"))
        assert lost.names() == ()
        lost.on_end(session)
        now_s += 25 * 3600
        assert lost.names() == ()


@live
async def test_what_goes_through_a_broker_shows_in_its_metrics() -> None:
    async with lab() as net:
        b1, b2 = await net.pair()
        server = await watch(b2, ANYWHERE)
        publisher, subscriber = await net.client(b1), await net.client(b2)
        wanted = subscriber.subscribe("n > 0")
        await settled(subscriber, publisher)
        before = read((await get(server.address, "/metrics"))[1])
        for number in range(1, 11):
            await publisher.publish({"n": number})
        for _ in range(10):
            await anext(wanted)
        after = read((await get(server.address, "/metrics"))[1])
        received = "holdfast_messages_received_total", ()
        assert after[received] - before[received] >= 10
        assert after["holdfast_clients", ()] == 1
        assert after["holdfast_held", (("what", "filters of a neighbour"),)] >= 1
        server.close()


@live
async def test_a_store_that_cannot_be_written_shows_and_is_told_once(tmp_path: Any) -> None:
    async with lab() as net:
        lines: list[str] = []
        node = await _storing(net, tmp_path, lines)
        assert node.store is not None
        real, broken = node.store._store.write, True

        def write(changes: Any) -> None:
            if broken:
                from holdfast.store.interface import StoreError

                raise StoreError("b1.db: cannot be written: disk is full")
            real(changes)

        node.store._store.write = write  # type: ignore[method-assign]
        client = await net.client(node)
        client.subscribe("n > 0")
        await until(lambda: status_of(node).problems)
        found = status_of(node)
        assert found.problems == ["b1.db: cannot be written: disk is full"]
        assert found.store is not None
        assert found.store.unwritten > 0
        assert read(exposition(found))["holdfast_store_writable", ()] == 0
        broken = False
        await until(lambda: not status_of(node).problems)
        assert [line for line in lines if "store" in line or ".db" in line] == [
            "b1.db: cannot be written: disk is full; retrying",
            "the store is writable again",
        ]


async def _storing(net: Lab, folder: Any, lines: list[str]) -> BrokerNode:
    settings = {"hops": HopSettings("retransmission"), "store": folder / "b1.db"}
    return await net.broker("b1", log=lambda note: lines.append(note.text), **settings)


@live
async def test_a_broker_of_a_network_file_is_watched_at_its_port_and_again_after_a_crash() -> None:
    port = free_ports()
    network = parse_text({"topology": {"kind": "line", "brokers": 1}, "transport": {"metrics_port": port}})
    for _ in range(2):
        member = Member("b1", network, lambda spec, near, far: pytest.fail("there is no link"), Clock())
        await member.start(ANYWHERE)
        assert (await get(f"http://127.0.0.1:{port}", "/health"))[0] == 200
        await member.crash()


# The pages -----------------------------------------------------------------------------------------------------


async def raw(server: http.HttpServer, request: bytes) -> bytes:
    host, _, port = server.address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


PAGES: http.Pages = {"/here": lambda: http.HttpResponse("yes")}


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /here HTTP/1.1\r\nHost: x\r\n\r\n", b"200 OK"),
        (b"GET /here?why HTTP/1.0\r\n\r\n", b"200 OK"),
        (b"GET /there HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"POST /here HTTP/1.1\r\n\r\n", b"405 Method Not Allowed"),
        (b"nonsense\r\n\r\n", b"400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400 Bad Request"),
    ],
)
def test_a_request_is_answered_and_the_connection_closed(request_: bytes, status: bytes) -> None:
    @live
    async def asked() -> None:
        server = await http.listen(ANYWHERE, PAGES)
        assert (await raw(server, request_)).startswith(b"HTTP/1.1 " + status)
        server.close()

    asked()


@live
async def test_a_head_request_gets_no_body() -> None:
    server = await http.listen(ANYWHERE, PAGES)
    answer = await raw(server, b"HEAD /here HTTP/1.1\r\n\r\n")
    assert b"Content-Length: 3" in answer
    assert answer.endswith(b"\r\n\r\n")
    server.close()


@live
async def test_a_head_without_end_is_cut_off_and_others_are_served() -> None:
    server = await http.listen(ANYWHERE, PAGES)
    with suppress(ConnectionError):  # cut off while it was still sending
        assert await raw(server, b"GET /here HTTP/1.1\r\n" + b"a: b\r\n" * 100_000) == b""
    assert (await asyncio.to_thread(lambda: urlopen(f"{server.address}/here").read())) == b"yes"
    server.close()


@live
async def test_a_port_that_is_taken_is_told_in_words() -> None:
    server = await http.listen(ANYWHERE, PAGES)
    taken = Address("tcp", "127.0.0.1", int(server.address.rpartition(":")[2]))
    assert "the port is in use" in await fails(http.listen(taken, PAGES), TransportError)
    server.close()


@pytest.mark.parametrize("text", ["9100", "here", "http://here:1", "here:port", ":9100"])
def test_a_place_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="HOST:PORT"):
        http.parse_place(text)
