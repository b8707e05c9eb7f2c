"""What one client of MQTT asks for is done in slices: the others get their turn in between. Counted, not timed."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.mqtt import retained
from holdfast.mqtt.connection import Connection
from holdfast.mqtt.encoding import encode
from holdfast.mqtt.packets import Connect
from holdfast.mqtt.topics import matches
from holdfast.net.mqtt_door import Door
from holdfast.net.mqtt_place import ClientPlace
from holdfast.net.seat import Seat
from holdfast.net.slices import SLICE_S
from holdfast.store.note_file import NoteFile
from tests.net.harness import live
from tests.net.mqtt_client import MqttClient, mqtt_port

STEP_S = SLICE_S / 10  # what one step takes by the clock of these tests


class Turns:
    """Steps of some work in each turn of the event loop, on a clock that goes by steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step_s: float = STEP_S) -> None:
        self.all = self._now = 0
        self.most = 0
        for module in ("slices", "mqtt_line", "mqtt_place", "memory"):
            monkeypatch.setattr(f"holdfast.net.{module}.monotonic", lambda: 1_000.0 + step_s * self.all)
        asyncio.get_running_loop().call_soon(self._turn)

    def step(self) -> None:
        self.all += 1
        self._now += 1
        self.most = max(self.most, self._now)

    def _turn(self) -> None:
        self._now = 0
        asyncio.get_running_loop().call_soon(self._turn)


@live
async def test_small_publications_in_one_read_are_published_over_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async with holdfast.Broker(["mqtt://127.0.0.1:0"]) as broker, MqttClient(mqtt_port(broker), "flood") as flood:
        turns, publish = Turns(monkeypatch), Door.publish

        def counted(self: Door, *given: Any) -> Any:
            turns.step()
            return publish(self, *given)

        monkeypatch.setattr(Door, "publish", counted)
        for _ in range(500):
            await flood.publish("a")
        await flood.publish("a", qos=1)
        assert turns.all == 501 and turns.most <= 20


@live
async def test_a_burst_of_quality_0_does_not_pile_up_for_a_subscriber_that_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here a delivery takes three times as long as a publication; what piles up overflows a queue in the end."""
    async with (
        holdfast.Broker(["mqtt://127.0.0.1:0"]) as broker,
        MqttClient(mqtt_port(broker), "sub") as sub,
        MqttClient(mqtt_port(broker), "flood") as flood,
    ):
        await sub.subscribe("a")
        turns, publish, deliver, put = Turns(monkeypatch, SLICE_S / 300), Door.publish, Connection.deliver, Seat._put
        waiting = list[int]()

        def published(self: Door, *given: Any) -> Any:
            turns.step()
            return publish(self, *given)

        def delivered(self: Connection, *given: Any, **more: Any) -> Any:
            for _ in range(3):
                turns.step()
            return deliver(self, *given, **more)

        def queued(self: Seat, *given: Any) -> None:
            put(self, *given)
            waiting.append(len(self.queue))

        monkeypatch.setattr(Door, "publish", published)
        monkeypatch.setattr(Connection, "deliver", delivered)
        monkeypatch.setattr(Seat, "_put", queued)
        for number in range(6_000):
            await flood.publish("a", b"%d" % number)
        assert [int((await sub.event()).payload) for _ in range(6_000)] == list(range(6_000))
        assert len(waiting) == 6_000 and max(waiting) <= 1_500


@live
async def test_retained_events_are_delivered_over_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async with holdfast.Broker(["mqtt://127.0.0.1:0"]) as broker, MqttClient(mqtt_port(broker), "flood") as flood:
        for number in range(300):
            await flood.publish(f"a/{number}", b"x", retain=True)
        await flood.publish("a/300", b"x", qos=1, retain=True)
        turns, deliver = Turns(monkeypatch), Connection.deliver

        def counted(self: Connection, *given: Any, **more: Any) -> Any:
            turns.step()
            return deliver(self, *given, **more)

        monkeypatch.setattr(Connection, "deliver", counted)
        await flood.subscribe("a/#")
        assert len({(await flood.event()).topic for _ in range(301)}) == 301
        assert turns.all == 301 and turns.most <= 20


@live
async def test_a_client_with_many_filters_searches_retained_events_over_many_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retained, "LOOK_MAX", 10)
    async with holdfast.Broker(["mqtt://127.0.0.1:0"]) as broker, MqttClient(mqtt_port(broker), "flood") as flood:
        for number in range(40):
            await flood.publish(f"a/{number}", b"x", qos=1, retain=True)
        turns = Turns(monkeypatch)

        def counted(*given: str) -> bool:
            turns.step()
            return matches(*given)

        monkeypatch.setattr("holdfast.mqtt.retained.matches", counted)
        await flood.subscribe(*[f"a/+/{number}" for number in range(50)], "a/1", "a/7/#", "a/7/#")
        assert {(await flood.event()).topic for _ in range(2)} == {"a/1", "a/7"}
        assert 50 * 40 < turns.all <= 50 * 40 + 1 + 40  # the second of two equal filters takes the place of the first
        assert turns.most <= 30


@live
async def test_notes_of_retained_events_are_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    write = NoteFile.write

    def counted(self: NoteFile, changes: Any) -> None:
        written.append(len(changes))
        write(self, changes)

    monkeypatch.setattr(NoteFile, "write", counted)
    given: Any = {"hops": "retransmission", "store": tmp_path / "b1.db"}
    async with (
        holdfast.Broker(["mqtt://127.0.0.1:0"], **given) as broker,
        MqttClient(mqtt_port(broker), "flood") as flood,
    ):
        for number in range(200):
            await flood.publish(f"a/{number}", b"x", retain=True)
        await flood.publish("a/200", b"x", qos=1, retain=True)
        while sum(written) < 201:
            await asyncio.sleep(0.01)
        assert len(written) < 50


@live
async def test_of_many_that_take_a_session_over_at_once_few_are_seated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: Any = {"hops": "retransmission", "store": tmp_path / "b1.db"}
    async with holdfast.Broker(["mqtt://127.0.0.1:0"], **given) as broker, AsyncExitStack() as stack:
        port, seated, sit = mqtt_port(broker), list[ClientPlace](), ClientPlace.sit

        def counted(self: ClientPlace, *more: Any, **given: Any) -> Any:
            seated.append(self)
            return sit(self, *more, **given)

        monkeypatch.setattr(ClientPlace, "sit", counted)
        hello = Connect("same", 5, False, 0, None, None, None, {"session_expiry_interval": 100})
        streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
        for _, writer in streams:
            stack.callback(writer.transport.abort)
            writer.write(encode(hello, 5))
        answers = [await reader.readexactly(4) for reader, _ in streams]
        assert len(seated) <= 10 and {each[0] for each in answers} == {0x20}
        assert sum(each[3] == 0 for each in answers) == len(seated), "the others are told that somebody else has it"
