"""In which order a publisher of MQTT sends: Paho on its own, and as the nemesis has it publish."""

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.mqtt.decoding import CONNECT, Framer, decode_untrusted
from holdfast.mqtt.encoding import encode
from holdfast.mqtt.packets import Connack, Packet, PublishAck, PublishPacket
from holdfast.nemesis import mqtt_process
from holdfast.nemesis.client_process import ClientPlan
from holdfast.nemesis.mqtt_process import MqttProcess
from tests.house.tree import ROOT
from tests.net.test_mqtt_clients import until

PATIENCE_S = 20.0


class SlowServer:
    """A server that answers when it is told to."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(PATIENCE_S)
        self.port: int = self._listening.getsockname()[1]
        self._framer = Framer(2**20, lambda first: None)
        self._publishes: list[PublishPacket] = []
        self._socket: socket.socket

    def on_connect(self) -> None:
        """Wait for a connection and its CONNECT."""
        self._socket, _ = self._listening.accept()
        self._socket.settimeout(PATIENCE_S)
        assert [first >> 4 for first, _ in self._framer.feed_untrusted(self._socket.recv(2**16))] == [CONNECT]

    def send(self, packet: Packet) -> None:
        self._socket.sendall(encode(packet, 5))

    def publish(self) -> PublishPacket:
        """The next one."""
        while not self._publishes:
            packets = [decode_untrusted(*each, 5) for each in self._framer.feed_untrusted(self._socket.recv(2**16))]
            self._publishes += [each for each in packets if isinstance(each, PublishPacket)]
        return self._publishes.pop(0)

    def drop(self) -> None:
        """End the connection."""
        self._socket.close()

    def close(self) -> None:
        self._listening.close()
        self._socket.close()


@pytest.fixture
def server() -> Iterator[SlowServer]:
    found = SlowServer()
    yield found
    found.close()


@pytest.fixture
def publisher(server: SlowServer, tmp_path: Path) -> Iterator[MqttProcess]:
    """It has published its first event, and then connects."""
    file = str(ROOT / "examples" / "nemesis.toml")
    plan = ClientPlan("p1", 0, file, {}, 1, tmp_path / "journal", f"tcp://127.0.0.1:{server.port}", 0, 0)
    found = MqttProcess(plan, cast(Any, None))
    assert found.published_in_turn({"n": 1})
    found.paho.connect_async("127.0.0.1", server.port)
    found.paho.loop_start()
    server.on_connect()
    yield found
    found.paho.disconnect()
    found.paho.loop_stop()


def test_paho_sends_what_is_published_before_connack_ahead_of_earlier_ones(
    server: SlowServer, publisher: MqttProcess
) -> None:
    publisher.paho.publish("n", "second", 1)
    assert server.publish().payload == b"second"
    server.send(Connack(0))
    assert b'"n": 1' in server.publish().payload


def test_the_nemesis_publishes_nothing_between_connect_and_the_last_of_those_before(
    server: SlowServer, publisher: MqttProcess
) -> None:
    assert not publisher.published_in_turn({"n": 2})
    server.send(Connack(0))
    first = server.publish()
    assert b'"n": 1' in first.payload
    assert not publisher.published_in_turn({"n": 2})
    server.send(PublishAck("puback", first.packet_id))
    until(lambda: publisher.published_in_turn({"n": 2}), "it is its turn")
    assert b'"n": 2' in server.publish().payload


def test_without_a_connection_events_wait_in_paho_in_their_order(server: SlowServer, publisher: MqttProcess) -> None:
    publisher.paho.reconnect_delay_set(0.05, 0.05)
    server.drop()
    until(lambda: publisher.published_in_turn({"n": 2}), "it is its turn")
    server.on_connect()
    server.send(Connack(0))
    assert [b'"n": %d' % n in server.publish().payload for n in (1, 2)] == [True, True]


def test_who_leaves_says_what_its_broker_has_not_acknowledged(
    server: SlowServer, publisher: MqttProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mqtt_process, "_STOP_S", 0.0)
    server.send(Connack(0))
    server.send(PublishAck("puback", server.publish().packet_id))
    until(lambda: publisher.published_in_turn({"n": 2}), "it is its turn")
    assert publisher.published_in_turn({"n": 3})
    asyncio.run(publisher._do({"do": "close"}))
    lines = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    assert [(each["first"], each["last"]) for each in lines if each["k"] == "unflushed"] == [(2, 2), (3, 3)]
    assert [each["upto"] for each in lines if each["k"] == "flushed"] == [1]
