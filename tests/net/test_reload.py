"""Peers that change while a broker runs: read again at SIGHUP, without a loss between those who stay."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.request import urlopen

import pytest

import holdfast
from holdfast.cli.broker_process import Operation, _reloading
from holdfast.cli.peers import peers_from
from holdfast.model.errors import InputError
from holdfast.net.address import parse_address
from holdfast.net.journal import Journal
from holdfast.net.node import BrokerNode
from holdfast.net.settings import NodeSettings
from holdfast.net.status import status_of
from holdfast.protocol.hops.settings import HopSettings
from tests.net.harness import lab, live, settled, take, until, values
from tests.net.test_processes import PATIENCE_S, Process, Processes, _reaches

HEADSTART = 200  # events before anything changes, and again after


@pytest.fixture
def processes() -> Iterator[Processes]:
    found = Processes()
    yield found
    found.end()


def write(path: Path, **peers: str) -> None:
    path.write_text("# who we dial\n" + "".join(f"{name} = {address}\n" for name, address in peers.items()))


def hang_up(process: Process) -> None:
    process._process.send_signal(signal.SIGHUP)


def log_line(process: Process, kind: str) -> dict[str, Any]:
    while True:
        found: dict[str, Any] = json.loads(process.line(error=True))
        if found["kind"] == kind:
            return found


class Feed(Thread):
    """Publishes numbers, one after the other, until it is told to stop."""

    def __init__(self, client: Any) -> None:
        super().__init__()
        self._client = client
        self._stop_asked = Event()
        self.published = 0

    def run(self) -> None:
        while not self._stop_asked.wait(0.001):
            self._client.publish({"n": self.published})
            self.published += 1

    def stop(self) -> int:
        self._stop_asked.set()
        self.join()
        return self.published


def test_peers_come_and_go_and_those_who_stay_lose_nothing(processes: Processes, tmp_path: Path) -> None:
    peers = tmp_path / "peers.txt"
    _, second = processes.broker("b2")
    b3, third = processes.broker("b3")
    write(peers, b2=second)
    watched = ["--peers", str(peers), "--log", "json", "--metrics", "127.0.0.1:0", "--json"]
    b1 = processes.start("broker", "--id", "b1", "--listen", "tcp://127.0.0.1:0", *watched)
    ready = json.loads(b1.line("ready"))
    first, health = ready["listen"][0], f"{ready['metrics']}/health"
    assert log_line(b1, "connected")["about"] == "b2"
    with (
        holdfast.connect_sync(first) as near,
        holdfast.connect_sync(second) as far,
        holdfast.connect_sync(third) as newcomer,
    ):
        wanted, also_wanted = far.subscribe("n >= 0"), newcomer.subscribe("n >= 0")
        _reaches(near, far)
        feed = Feed(near)
        feed.start()
        try:
            got = [wanted.next(timeout=PATIENCE_S).event["n"] for _ in range(HEADSTART)]
            write(peers, b2=second, b3=third)
            hang_up(b1)
            assert log_line(b1, "peer_added")["about"] == "b3"
            began = also_wanted.next(timeout=PATIENCE_S).event["n"]  # it is in the network now
            assert set(json.loads(urlopen(health).read())["peers"]) == {"b2", "b3"}
            write(peers, b2=second)
            hang_up(b1)
            b3.line("b1 disconnected", error=True)
            peers.write_text("b2 tcp://127.0.0.1:1\n\nb3 = 7003\n")  # a file that is wrong changes nothing
            hang_up(b1)
            assert "line 1" in log_line(b1, "reload_refused")["text"]
            got += [wanted.next(timeout=PATIENCE_S).event["n"] for _ in range(HEADSTART)]
        finally:
            published = feed.stop()
        while len(got) < published:
            got.append(wanted.next(timeout=PATIENCE_S).event["n"])
        assert got == list(range(published))
        assert 0 < began < published
        assert json.loads(urlopen(health).read())["peers"] == {"b2": True}


@live
async def test_a_peer_that_has_moved_is_dialled_where_it_is_now() -> None:
    async with lab() as net:
        old, new = await net.broker("b2"), await net.broker("b2")
        b1 = await net.broker("b1", peers={"b2": old.listening[0]})
        await b1.connected_to("b2")
        publisher, subscriber = await net.client(b1), await net.client(new)
        wanted = subscriber.subscribe("n > 0")
        b1.set_peers({"b2": new.listening[0]})
        await until(lambda: old.neighbours == () and "b1" in new.neighbours)
        await settled(subscriber, publisher)
        await publisher.publish({"n": 1})
        assert values(await take(wanted, 1)) == [1]


@live
async def test_who_stays_keeps_its_connection() -> None:
    async with lab() as net:
        b2, b3 = await net.broker("b2"), await net.broker("b3")
        told: list[str] = []
        b1 = await net.broker("b1", peers={"b2": b2.listening[0]}, log=lambda note: told.append(note.kind + note.about))
        await b1.connected_to("b2")
        b1.set_peers({"b2": b2.listening[0], "b3": b3.listening[0]})
        await b1.connected_to("b3")
        b1.set_peers({"b2": b2.listening[0]})
        await until(lambda: b1.neighbours == ("b2",))
        assert [each for each in told if "b2" in each] == ["connectedb2"]
        assert b1.peers == {"b2": b2.listening[0]}


@pytest.mark.parametrize("is_up", [True, False])
def test_a_broker_that_stores_events_keeps_none_for_a_peer_that_is_gone(tmp_path: Path, is_up: bool) -> None:
    @live
    async def check() -> None:
        async with lab() as net:

            def stores(name: str) -> dict[str, Any]:
                return {"hops": HopSettings("retransmission"), "store": tmp_path / f"{name}.db"}

            b2 = await net.broker("b2", **stores("b2"))
            b1 = await net.broker("b1", peers={"b2": b2.listening[0]}, **stores("b1"))
            feed, desk = await net.client(b1, durable=True), await net.client(b2, name="desk", durable=True)
            wanted = desk.subscribe("n > 0")
            await settled(desk, feed)
            if not is_up:
                await b2.stop(0.1)
                await until(lambda: b1.neighbours == (feed.name,))
                await feed.publish({"n": 1})
                await feed.flush()
                assert status_of(b1).gauges["stored events"][0] == 1
            b1.set_peers({})
            await until(lambda: "b2" not in b1.neighbours and b1.driver.machine.kind_of("b2") is None)
            await feed.publish({"n": 2})
            await feed.flush()
            assert status_of(b1).gauges["stored events"][0] == 0
            assert wanted.waiting == 0

    check()


@live
async def test_who_asks_for_a_reload_before_the_broker_has_started_is_answered_then() -> None:
    async with lab() as net:
        b2 = await net.broker("b2")
        b1 = BrokerNode(NodeSettings("b1", (parse_address("tcp://127.0.0.1:0"),)))
        told: list[str] = []
        operation = Operation(peers=lambda: {"b2": b2.listening[0]})
        with _reloading(b1, operation, Journal("b1", "text", told.append)) as started:
            os.kill(os.getpid(), signal.SIGHUP)
            for _ in range(10):  # turns of the loop, in which it hears of it
                await asyncio.sleep(0.01)
            assert told == []
            await b1.start()
            started()
            assert told == ["b1: peers are now b2"]
            await b1.connected_to("b2")
        await b1.stop(0.1)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("b2 = tcp://h:1\nb2 = tcp://h:2\n", "line 2: b2 stands on line 1 already"),
        ("b1 = tcp://h:2\n", "line 1: b1 is tcp://h:1 by --peer, and tcp://h:2 here"),
        ("nonsense\nb3 = 7003", "line 1: 'nonsense' is no peer; write it as NAME=ADDRESS"),
        ("nonsense\nb3 = 7003", "line 2: '7003' is not an address"),
    ],
)
def test_all_that_is_wrong_with_a_file_is_told_with_its_lines(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "peers.txt"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        peers_from(["b1=tcp://h:1"], path)
    assert complaint in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        peers_from([], tmp_path / "peers.txt")


def test_options_and_file_are_put_together_and_comments_left_out(tmp_path: Path) -> None:
    path = tmp_path / "peers.txt"
    path.write_text("# the others\nb2=tcp://h:2  # in the cellar\n\n b1 = tcp://h:1\n")
    assert {name: str(each) for name, each in peers_from(["b1=tcp://h:1"], path).items()} == {
        "b1": "tcp://h:1",
        "b2": "tcp://h:2",
    }
