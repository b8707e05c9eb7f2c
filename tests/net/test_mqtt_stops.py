"""A broker that stops while clients of MQTT come and go: they are refused or cut off, and nothing fails on the way."""

import asyncio
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from holdfast.mqtt.packets import PublishPacket
from holdfast.mqtt.reasons import SERVER_UNAVAILABLE
from holdfast.net.mqtt_door import Door
from holdfast.store.sqlite import SqliteStore
from tests.net.harness import live, until
from tests.net.mqtt_client import MqttClient, mqtt_port
from tests.net.test_mqtt import broker

LASTING: dict[str, Any] = {"clean": False, "session_expiry_interval": 1_000}


@live
async def test_who_comes_while_the_broker_stops_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def stop_and_write(self: Door, notes: Any) -> None:
        self.close()
        await write(self, notes)

    async with broker(tmp_path, "retransmission") as b1:
        async with MqttClient(mqtt_port(b1), "late", **LASTING):
            pass
        write = Door.write
        monkeypatch.setattr(Door, "write", stop_and_write)
        async with MqttClient(mqtt_port(b1), "late", **LASTING) as late:
            assert late.connack.reason == SERVER_UNAVAILABLE
            with pytest.raises(EOFError):
                await late.any()
    assert not caplog.records


@live
async def test_a_broker_stops_before_it_has_stored_what_a_client_sent_that_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker(tmp_path, "retransmission") as b1:
        write = SqliteStore.write

        def write_slowly(self: SqliteStore, changes: Any) -> None:
            sleep(1.0)
            write(self, changes)

        async with MqttClient(mqtt_port(b1), "pub", **LASTING) as pub:
            monkeypatch.setattr(SqliteStore, "write", write_slowly)
            for number in range(1, 6):
                pub.send(PublishPacket("a", b"%d" % number, 1, packet_id=number))
            await until(lambda: b1.node.store is not None and b1.node.store.unwritten)
        await asyncio.sleep(0.2)  # it notices that the client is gone, and waits for its disk
    assert not caplog.records
