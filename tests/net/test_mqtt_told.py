"""What a broker tells of clients of MQTT: they are clients in its status and metrics, and a loss is an incident."""

import asyncio
import json
from urllib.request import urlopen

import pytest

import holdfast
from tests.net.harness import lab, live
from tests.net.mqtt_client import MqttClient, mqtt_port


@live
async def test_status_and_metrics_have_clients_of_mqtt_as_clients() -> None:
    def got(url: str) -> bytes:
        with urlopen(url, timeout=30) as answer:
            return bytes(answer.read())

    async with (
        holdfast.Broker(["mqtt://127.0.0.1:0"], name="b1", metrics="127.0.0.1:0") as broker,
        MqttClient(mqtt_port(broker), "sub") as sub,
        MqttClient(mqtt_port(broker), "pub") as pub,
    ):
        await sub.subscribe("a", qos=1)
        for _ in range(5):
            await pub.publish("a", b"x", 1)
            await sub.event()
        status = json.loads(await asyncio.to_thread(got, f"{broker.metrics}/status"))
        links = status["links"]
        assert {links[each]["kind"] for each in ("mqtt:sub", "mqtt:pub")} == {"client"}
        assert links["mqtt:sub"]["sent"] >= 5 and links["mqtt:pub"]["received"] >= 5
        metrics = (await asyncio.to_thread(got, f"{broker.metrics}/metrics")).decode()
        assert f"\nholdfast_clients {status['clients']}\n" in metrics and status["clients"] == 3  # the door is one


@live
async def test_events_that_are_dropped_for_a_client_that_reads_nothing_are_an_incident(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.net.seat.QUEUE_MAX", 50)
    async with lab() as net:
        node = await net.broker("b1", "mqtt://127.0.0.1:0")
        port = node.listening[0].port
        async with MqttClient(port, "sub", receive_maximum=1) as sub, MqttClient(port, "pub") as pub:
            await sub.subscribe("a", qos=1)
            for _ in range(60):  # one is with the subscriber, which does not acknowledge it
                await pub.publish("a", b"x", 1)
            while "events_dropped" not in node.counters.incidents:
                await asyncio.sleep(0.01)
            assert node.counters.incidents["events_dropped"] == 1, "once for all that overflow in a row"
