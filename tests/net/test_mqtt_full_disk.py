"""A disk that takes nothing: a client of MQTT that comes is told so, and comes in when there is room again."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.mqtt.packets import AskedFilter, Subscribe
from holdfast.mqtt.reasons import SERVER_UNAVAILABLE
from holdfast.protocol.hops.settings import HopSettings
from holdfast.store.interface import StoreError
from holdfast.store.note_file import NoteFile
from holdfast.store.sqlite import SqliteStore
from tests.net.harness import lab, live
from tests.net.mqtt_client import MqttClient


class Disk:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        for kind in (NoteFile, SqliteStore):
            monkeypatch.setattr(kind, "write", self._writing(kind.write))

    def _writing(self, write: Any) -> Any:
        def guarded(store: Any, changes: Sequence[Any]) -> None:
            if self.full:
                raise StoreError("disk full")
            write(store, changes)

        return guarded


@pytest.mark.parametrize("stuck", ["notes", "events"])
@live
async def test_who_takes_a_session_over_is_told_that_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stuck: str
) -> None:
    monkeypatch.setattr("holdfast.net.committer._AGAIN_S", 0.01)
    disk, told = Disk(monkeypatch), list[str]()
    async with lab() as net:
        node = await net.broker(
            "b1",
            "mqtt://127.0.0.1:0",
            hops=HopSettings("retransmission"),
            store=tmp_path / "b1.db",
            log=lambda note: told.append(note.text),
        )
        port, lasts = node.listening[0].port, {"session_expiry_interval": 100}
        async with MqttClient(port, "same", clean=False, **lasts) as first:
            await first.subscribe("a", qos=1)
            disk.full = True
            publishing = None
            if stuck == "notes":
                first.send(Subscribe(first.number(), (AskedFilter("b", 1),)))
            else:
                publishing = asyncio.create_task(first.publish("a", b"x", qos=1))
            while not any("retrying" in each for each in told):
                await asyncio.sleep(0.01)
            async with MqttClient(port, "same", clean=False, **lasts) as second:
                assert second.connack.reason == SERVER_UNAVAILABLE
                assert "cannot write to its store: disk full" in second.connack.properties["reason_string"]
            disk.full = False
            if publishing is not None:
                assert (await publishing) is not None
            while not any("writable again" in each for each in told):
                await asyncio.sleep(0.01)
            async with MqttClient(port, "same", clean=False, **lasts) as third:
                assert third.connack.reason == 0 and third.connack.session_present
