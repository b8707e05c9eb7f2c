"""Clients of MQTT begin with events that their broker has kept: `$last` and `$since` beside `$where`."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.mqtt.packets import AskedFilter, PublishAck, PublishPacket, Suback, Subscribe
from holdfast.net.broker import Broker
from tests.net.harness import live
from tests.net.mqtt_client import MqttClient, mqtt_port


def stored(tmp_path: Path, hops: str) -> Broker:
    more: dict[str, Any] = {"hops": hops, "store": tmp_path / "b1.db"} if hops != "basic" else {}
    return holdfast.Broker(["mqtt://127.0.0.1:0"], name="b1", history=tmp_path / "past", **more)


async def payloads(client: MqttClient, count: int) -> list[int]:
    return [int((await client.event()).payload) for _ in range(count)]


@pytest.mark.parametrize("hops", ["basic", "retransmission"])
@live
async def test_the_last_events_come_before_what_is_new_each_once(tmp_path: Path, hops: str) -> None:
    async with stored(tmp_path, hops) as broker, MqttClient(mqtt_port(broker), "pub") as pub:
        for number in range(50):
            await pub.publish("a" if number % 2 else "b", b"%d" % number, qos=1)
        async with MqttClient(mqtt_port(broker), "sub") as sub:
            suback = await sub.subscribe("a", qos=1, user_property=[("$last", "3")])
            assert suback.reasons == (1,) and "reason_string" not in suback.properties
            await pub.publish("a", b"51", qos=1)
            assert await payloads(sub, 4) == [45, 47, 49, 51] and await sub.silent()


@live
async def test_what_is_published_while_the_past_is_read_comes_once_and_in_order(tmp_path: Path) -> None:
    async with stored(tmp_path, "basic") as broker, MqttClient(mqtt_port(broker), "pub") as pub:

        async def publish(numbers: range) -> None:
            for number in numbers:
                await pub.publish("a", b"%d" % number, qos=1)

        await publish(range(2_000))
        publishing = asyncio.create_task(publish(range(2_000, 2_400)))
        async with MqttClient(mqtt_port(broker), "sub") as sub:
            await asyncio.sleep(0)
            await sub.subscribe("a", qos=1, user_property=[("$since", "3600")])
            assert await payloads(sub, 2_400) == list(range(2_400))
            await publishing
            assert await sub.silent()


@live
async def test_the_pasts_of_several_subscriptions_follow_each_other_however_long(tmp_path: Path) -> None:
    """Longer than what is read ahead, and the second asked for while the first is read."""
    async with stored(tmp_path, "basic") as broker, MqttClient(mqtt_port(broker), "pub") as pub:
        for number in range(2_500):
            await pub.publish("ab"[number % 2], b"%d" % number, qos=1)
        async with MqttClient(mqtt_port(broker), "sub", receive_maximum=5) as sub:
            await sub.subscribe("a", "b", qos=1, user_property=[("$since", "3600")])
            sub.send(Subscribe(9, (AskedFilter("+", 0),), {"user_property": [("$last", "2")]}))
            found: list[tuple[int, int]] = []
            while len(found) < 2_502:
                packet = await sub.any()
                if isinstance(packet, PublishPacket):
                    found.append((packet.qos, int(packet.payload)))
                    if packet.qos:
                        sub.send(PublishAck("puback", packet.packet_id))
            assert found == [(1, each) for each in [*range(0, 2_500, 2), *range(1, 2_500, 2)]] + [
                (0, 2_498),
                (0, 2_499),
            ]


@live
async def test_conditions_and_moments_narrow_the_past(tmp_path: Path) -> None:
    async with stored(tmp_path, "basic") as broker, MqttClient(mqtt_port(broker), "pub") as pub:
        for number in range(10):
            await pub.publish("a", b"%d" % number, qos=1, user_property=[("parity", "even" if number % 2 else "odd")])
        async with MqttClient(mqtt_port(broker), "sub") as sub:
            asked = [("$last", "2"), ("$where", "parity = 'odd'"), ("$since", "2020-01-31T09:30:00Z")]
            await sub.subscribe("#", qos=1, user_property=asked)
            assert await payloads(sub, 2) == [6, 8]
            await sub.subscribe("a", qos=1, user_property=[("$since", "2999-01-31T09:30:00Z")])
            assert await sub.silent()


@live
async def test_retain_handling_decides_when_the_past_comes_again(tmp_path: Path) -> None:
    async with stored(tmp_path, "basic") as broker, MqttClient(mqtt_port(broker), "pub") as pub:
        await pub.publish("a", b"1", qos=1)
        async with MqttClient(mqtt_port(broker), "sub") as sub:
            for handling, comes in ((1, True), (1, False), (0, True), (2, False)):
                options = {"retain_handling": handling}
                await sub.subscribe("a", qos=1, options=options, user_property=[("$last", "1")])
                if comes:
                    assert await payloads(sub, 1) == [1]
                assert await sub.silent()


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("$last", "0", "from 1 to 1,000,000"),
        ("$last", "many", "from 1 to 1,000,000"),
        ("$last", "9" * 5_000, "from 1 to 1,000,000"),
        ("$since", "yesterday", "or seconds ago"),
        ("$since", "-1", "or seconds ago"),
        ("$since", "inf", "or seconds ago"),
    ],
)
@live
async def test_a_wrong_wish_is_refused_with_what_is_right(tmp_path: Path, name: str, value: str, why: str) -> None:
    async with stored(tmp_path, "basic") as broker, MqttClient(mqtt_port(broker), "sub") as sub:
        suback = await sub.subscribe("a", user_property=[(name, value)])
        assert suback.reasons == (0x8F,) and why in suback.properties["reason_string"]


@live
async def test_a_group_begins_with_what_is_new(tmp_path: Path) -> None:
    async with stored(tmp_path, "basic") as broker, MqttClient(mqtt_port(broker), "sub") as sub:
        suback = await sub.subscribe("$share/g/a", user_property=[("$last", "1")])
        assert suback.reasons == (0x8F,) and "not for groups" in suback.properties["reason_string"]


@live
async def test_a_broker_without_history_says_so_and_serves_what_is_new() -> None:
    async with holdfast.Broker(["mqtt://127.0.0.1:0"]) as broker, MqttClient(mqtt_port(broker), "c") as client:
        client.send(Subscribe(7, (AskedFilter("a", 1),), {"user_property": [("$last", "1")]}))
        suback = await client.next(Suback)
        assert suback.reasons == (1,) and "--history" in suback.properties["reason_string"]
        await client.publish("a", b"1", qos=1)
        assert isinstance(await client.event(), PublishPacket)
