"""Exactly once and at least once, with clients that keep to the specification, that die, at a broker that does."""

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

import pytest

import holdfast
from holdfast.mqtt.packets import PublishAck, PublishPacket
from holdfast.net.free_ports import free_ports
from holdfast.store.note_file import NoteFile
from tests.net.harness import live
from tests.net.mqtt_client import MqttClient, mqtt_port
from tests.net.test_mqtt_clients import started
from tests.net.test_processes import Processes, processes

__all__ = ["processes"]  # the fixture

EVENTS, KILLS, DEATHS = 300, 2, 20  # of the broker, and of its clients
PATIENCE_S = 300.0  # a broker takes seconds to start, and a synced disk is slow


class Device:
    """A client whose own end of its session survives everything."""

    def __init__(self, port: int, name: str, version: int, qos: int, subscribes: bool) -> None:
        self._port, self._name, self._version, self._qos = port, name, version, qos
        self._subscribes = subscribes
        self.subscribed = False
        self.got: list[int] = []
        self.unacknowledged: dict[int, tuple[bytes, bool]] = {}  # by identifier: payload, and whether it is released
        self._unreleased: set[int] = set()  # of quality 2, that we have handed to the application
        self._number = 0
        self._client: MqttClient | None = None

    async def run(self) -> None:
        while True:
            with suppress(EOFError, OSError, TimeoutError):
                await self._connected()
            self._client = None
            await asyncio.sleep(0.05)

    async def _connected(self) -> None:
        lasting: dict[str, Any] = {"session_expiry_interval": 1_000} if self._version == 5 else {}
        async with MqttClient(self._port, self._name, self._version, clean=False, **lasting) as client:
            if self._subscribes and not self.subscribed:
                assert not client.connack.session_present
                await client.subscribe("a/#", qos=self._qos)
                self.subscribed = True
            elif self.subscribed:
                assert client.connack.session_present, "the session is lost"
            for number, (payload, released) in self.unacknowledged.items():
                again = PublishPacket("a/b", payload, self._qos, duplicate=True, packet_id=number)
                client.send(PublishAck("pubrel", number) if released else again)
            self._client = client
            while True:
                self._on_packet(client, await client.any())

    def die(self) -> None:
        """In the middle of whatever it does; it comes back with what it has on its disk."""
        if self._client is not None:
            self._client.abort()

    def publish(self, value: int) -> None:
        self._number += 1
        payload = b"%d" % value
        self.unacknowledged[self._number] = payload, False
        if self._client is not None:
            self._client.send(PublishPacket("a/b", payload, self._qos, packet_id=self._number))

    def _on_packet(self, client: MqttClient, packet: object) -> None:
        match packet:
            case PublishPacket(qos=2):
                if packet.packet_id not in self._unreleased:
                    self._unreleased.add(packet.packet_id)
                    self.got.append(int(packet.payload))
                client.send(PublishAck("pubrec", packet.packet_id))
            case PublishPacket():
                self.got.append(int(packet.payload))
                client.send(PublishAck("puback", packet.packet_id))
            case PublishAck(kind="pubrel"):
                self._unreleased.discard(packet.packet_id)
                client.send(PublishAck("pubcomp", packet.packet_id))
            case PublishAck(kind="pubrec"):
                payload, _ = self.unacknowledged[packet.packet_id]
                self.unacknowledged[packet.packet_id] = payload, True
                client.send(PublishAck("pubrel", packet.packet_id))
            case PublishAck():
                self.unacknowledged.pop(packet.packet_id, None)


@pytest.mark.slow
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
def test_no_event_is_lost_and_none_of_quality_2_comes_twice(
    processes: Processes, tmp_path: Path, qos: int, version: int
) -> None:
    got = asyncio.run(asyncio.wait_for(_events_through_kills(processes, tmp_path, qos, version), PATIENCE_S))
    assert set(got) == set(range(EVENTS))
    if qos == 2:
        assert got == list(range(EVENTS)), "once, and in order"


async def _events_through_kills(processes: Processes, tmp_path: Path, qos: int, version: int) -> list[int]:
    """What a subscriber gets of what a publisher sends while they and their broker die and come back."""
    port, dice = free_ports(), Random(f"{qos}/{version}")
    broker = await asyncio.to_thread(started, processes, tmp_path, port)
    sub, pub = Device(port, "sub", version, qos, True), Device(port, "pub", version, qos, False)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each.run()) for each in (sub, pub)]
        while not sub.subscribed:
            await asyncio.sleep(0.01)
        kills, deaths = (set(dice.sample(range(20, EVENTS), count)) for count in (KILLS, DEATHS))
        for value in range(EVENTS):
            pub.publish(value)
            while len(pub.unacknowledged) >= 20:
                await asyncio.sleep(0.001)
            if value in deaths:
                dice.choice((sub, pub)).die()
            if value in kills:
                await asyncio.to_thread(broker.ask, signal.SIGKILL)
                broker = await asyncio.to_thread(started, processes, tmp_path, port)
        while pub.unacknowledged or not set(range(EVENTS)) <= set(sub.got):
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
    return sub.got


@pytest.mark.parametrize("stored", [False, True])
@live
async def test_a_publisher_that_dies_before_its_answers_is_answered_when_it_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    write = NoteFile.write

    def written_slowly(self: NoteFile, changes: Any) -> None:
        sleep(0.05)  # so that it dies between what the broker has read and what it has published
        write(self, changes)

    monkeypatch.setattr(NoteFile, "write", written_slowly)
    given: Any = {"hops": "retransmission", "store": tmp_path / "b1.db"} if stored else {}
    lasting: Any = {"clean": False, "session_expiry_interval": 100}
    numbers = range(1, 201)
    async with holdfast.Broker(["mqtt://127.0.0.1:0"], **given) as broker, MqttClient(mqtt_port(broker), "sub") as sub:
        await sub.subscribe("a", qos=0)
        async with MqttClient(mqtt_port(broker), "pub", **lasting) as pub:
            for number in numbers:
                pub.send(PublishPacket("a", b"%d" % number, 2, packet_id=number))
            await asyncio.sleep(0.02)
        async with MqttClient(mqtt_port(broker), "pub", **lasting) as pub:
            for number in numbers:
                pub.send(PublishPacket("a", b"%d" % number, 2, duplicate=True, packet_id=number))
            assert {(await pub.next(PublishAck)).packet_id for _ in numbers} == set(numbers)
            for number in numbers:
                pub.send(PublishAck("pubrel", number))
            assert {(await pub.next(PublishAck)).packet_id for _ in numbers} == set(numbers)
        assert [int((await sub.event()).payload) for _ in numbers] == list(numbers)
        assert await sub.silent()
