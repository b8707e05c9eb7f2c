"""Sessions of MQTT that go on in the middle of something: over another connection, and after the broker's crash."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.mqtt.packets import (
    AskedFilter,
    Disconnect,
    Packet,
    PublishAck,
    PublishPacket,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Will,
)
from tests.net.harness import lab, live, until
from tests.net.mqtt_client import MqttClient, mqtt_port
from tests.net.test_mqtt import MODES, broker

LASTING: dict[str, Any] = {"clean": False, "session_expiry_interval": 1_000}
HANDED_OUT = 255  # events that a broker's store has on their way to a client, and one more


def crashed(folder: Path) -> Path:
    """What a broker that is killed now leaves: its files, while it writes nothing."""
    return Path(shutil.copytree(folder, folder.with_name(f"{folder.name}-crashed")))


async def read(client: MqttClient, count: int) -> None:
    """So many events, without an acknowledgement; and the broker has written what it had to."""
    for _ in range(count):
        await client.next(PublishPacket)
    assert await client.silent()


async def packets(client: MqttClient, last: bytes) -> list[Packet]:
    """All up to the event with this payload, each answered."""
    found: list[Packet] = []
    while True:
        each = await client.any()
        found.append(each)
        if isinstance(each, PublishAck) and each.kind == "pubrel":
            client.send(PublishAck("pubcomp", each.packet_id))
        elif isinstance(each, PublishPacket):
            client.send(PublishAck("puback" if each.qos == 1 else "pubrec", each.packet_id))
            if each.payload == last:
                return found


async def retained(broker: holdfast.Broker, count: int, qos: int) -> None:
    """So many topics have an event, and the broker has written it down."""
    async with MqttClient(mqtt_port(broker), "pub") as pub:
        for number in range(count):
            await pub.publish(f"r/{number}", b"%d" % number, qos, retain=True)
    async with MqttClient(mqtt_port(broker), "other") as other:
        await other.subscribe("r/#", qos=0)
        for _ in range(count):
            await other.event()


@live
async def test_what_is_sent_again_keeps_to_what_the_new_connection_takes() -> None:
    async with lab() as net:
        node = await net.broker("b1", "mqtt://127.0.0.1:0")
        port = node.listening[0].port
        async with MqttClient(port, "pub") as pub:
            async with MqttClient(port, "sub", **LASTING) as sub:
                await sub.subscribe("a", qos=1)
                for payload in (b"1", b"2" * 100, b"3"):
                    await pub.publish("a", payload, 1)
                await read(sub, 3)
            async with MqttClient(port, "sub", receive_maximum=1, maximum_packet_size=60, **LASTING) as sub:
                first = await sub.next(PublishPacket)
                assert (first.payload, first.duplicate) == (b"1", True) and await sub.silent()
                assert "events_dropped" not in node.counters.incidents
                sub.send(PublishAck("puback", first.packet_id))
                last = await sub.next(PublishPacket)
                assert (last.payload, last.duplicate) == (b"3", True) and await sub.silent()
                assert node.counters.incidents["events_dropped"] == 1, "the one in between is too large"


@pytest.mark.parametrize("hops", MODES)
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("before", [0, 1, 3])
@live
async def test_what_is_acknowledged_before_the_store_hands_it_over_again_is_that_event_and_no_other(
    tmp_path: Path, hops: str, qos: int, before: int
) -> None:
    """A client that takes two at a time has no room for what its broker's store hands over until it acknowledges."""
    async with (
        broker(tmp_path, hops) as b1,
        MqttClient(mqtt_port(b1), "pub") as pub,
    ):
        async with MqttClient(mqtt_port(b1), "sub", receive_maximum=2, **LASTING) as sub:
            await sub.subscribe("a", qos=qos)
            for number in range(before + 6):
                await pub.publish("a", b"%d" % number, 1)
            assert [(await sub.event()).payload for _ in range(before)] == [b"%d" % each for each in range(before)]
            await read(sub, 2)
        async with MqttClient(mqtt_port(b1), "sub", receive_maximum=2, **LASTING) as sub:
            again = [await sub.event() for _ in range(6)]
            assert await sub.silent()
        expected = [(b"%d" % (before + number), number < 2) for number in range(6)]
        assert [(each.payload, each.duplicate) for each in again] == expected


@pytest.mark.parametrize("hops", MODES)
@pytest.mark.parametrize("qos", [1, 2])
@live
async def test_each_subscription_begins_with_what_is_retained_as_often_as_it_is_made(
    tmp_path: Path, hops: str, qos: int
) -> None:
    async with broker(tmp_path, hops) as b1, MqttClient(mqtt_port(b1), "sub", **LASTING) as sub:
        await retained(b1, 1, qos)
        sub.send(Subscribe(1, (AskedFilter("r/#", qos), AskedFilter("r/+", qos))))
        await sub.next(Suback)
        both = [await sub.next(PublishPacket) for _ in range(2)]
        assert [each.payload for each in both] == [b"0", b"0"] and both[0].packet_id != both[1].packet_id
        for _ in range(2):
            await sub.subscribe("r/0", qos=qos)
            again = await sub.event()
            assert (again.payload, again.retain) == (b"0", True)


@live
async def test_a_retained_event_that_is_on_its_way_as_a_new_one_holds_nothing_up(tmp_path: Path) -> None:
    async with (
        broker(tmp_path, "retransmission") as b1,
        MqttClient(mqtt_port(b1), "sub", **LASTING) as sub,
        MqttClient(mqtt_port(b1), "pub") as pub,
    ):
        await sub.subscribe("a/#", qos=1)
        await pub.publish("a/b", b"x", 1, retain=True)
        new = await sub.next(PublishPacket)
        await sub.subscribe("a/b", qos=1)
        replayed = await sub.next(PublishPacket)
        assert (new.retain, replayed.retain) == (False, True)
        for each in (new, replayed):
            sub.send(PublishAck("puback", each.packet_id))
        for number in range(2 * HANDED_OUT):
            await pub.publish("a/c", b"%d" % number, 1)
            assert (await sub.event()).payload == b"%d" % number


@pytest.mark.parametrize("hops", MODES)
@live
async def test_the_rest_of_what_is_retained_comes_over_the_next_connection(tmp_path: Path, hops: str) -> None:
    async with broker(tmp_path, hops) as b1:
        await retained(b1, 20, 1)
        async with MqttClient(mqtt_port(b1), "sub", receive_maximum=5, **LASTING) as sub:
            await sub.subscribe("r/#", qos=1)
            got = [(await sub.event()).payload for _ in range(3)]
            await read(sub, 5)
        async with MqttClient(mqtt_port(b1), "sub", **LASTING) as sub:
            got += [(await sub.event()).payload for _ in range(17)]
            assert sorted(got, key=int) == [b"%d" % number for number in range(20)] and await sub.silent()


@pytest.mark.parametrize("qos", [1, 2])
@live
async def test_the_rest_of_what_is_retained_comes_after_a_crash(tmp_path: Path, qos: int) -> None:
    (tmp_path / "b1").mkdir()
    async with broker(tmp_path / "b1", "retransmission") as b1:
        await retained(b1, 20, qos)
        async with MqttClient(mqtt_port(b1), "sub", receive_maximum=5, **LASTING) as sub:
            await sub.subscribe("r/#", qos=qos)
            got = [(await sub.event()).payload for _ in range(3)]
            first = await sub.next(PublishPacket)  # and not acknowledged
            await read(sub, 4)
            left = crashed(tmp_path / "b1")
    async with broker(left, "retransmission") as b1, MqttClient(mqtt_port(b1), "sub", **LASTING) as sub:
        assert sub.connack.session_present
        found = [await sub.event() for _ in range(17 if qos == 2 else 20)]
        assert await sub.silent()
        everything = [b"%d" % number for number in range(20)]
        if qos == 1:  # all of it again
            assert sorted((each.payload for each in found), key=int) == everything
        else:
            assert sorted([*got, *(each.payload for each in found)], key=int) == everything
            assert next(each.packet_id for each in found if each.payload == first.payload) == first.packet_id


@pytest.mark.parametrize("why", ["expired", "unsubscribed"])
@live
async def test_an_event_that_does_not_come_again_after_a_crash_takes_no_place(tmp_path: Path, why: str) -> None:
    (tmp_path / "b1").mkdir()
    lifetime: dict[str, Any] = {"message_expiry_interval": 1} if why == "expired" else {}
    async with (
        broker(tmp_path / "b1", "retransmission") as b1,
        MqttClient(mqtt_port(b1), "pub") as pub,
        MqttClient(mqtt_port(b1), "sub", receive_maximum=1, **LASTING) as sub,
    ):
        await sub.subscribe("a/#", qos=2)
        await pub.publish("a/b", b"once", 2, **lifetime)
        sent = await sub.next(PublishPacket)
        if why == "unsubscribed":
            sub.send(Unsubscribe(99, ("a/#",)))
            await sub.next(Unsuback)
            await sub.subscribe("a/c", qos=2)
        await read(sub, 0)
        left = crashed(tmp_path / "b1")
    await asyncio.sleep(1.1 if why == "expired" else 0)
    async with (
        broker(left, "retransmission") as b1,
        MqttClient(mqtt_port(b1), "pub") as pub,
        MqttClient(mqtt_port(b1), "sub", receive_maximum=1, **LASTING) as sub,
    ):
        assert sub.connack.session_present
        for payload in (b"1", b"2"):
            await pub.publish("a/c", payload, 2)
        found = await packets(sub, b"2")
        new = [each for each in found if isinstance(each, PublishPacket)]
        assert [each.payload for each in new] == [b"1", b"2"] and not any(each.duplicate for each in new)
        # The client may wait for the release of the first, and takes no other event of that identifier till then.
        assert found[0] == PublishAck("pubrel", sent.packet_id) and new[0].packet_id != sent.packet_id


@live
async def test_an_event_of_quality_1_that_comes_again_after_a_crash_says_nothing_of_those_of_quality_2(
    tmp_path: Path,
) -> None:
    """What was sent of quality 1 is not written down, so it looks like a new event. The second may not have arrived."""
    (tmp_path / "b1").mkdir()
    async with (
        broker(tmp_path / "b1", "retransmission") as b1,
        MqttClient(mqtt_port(b1), "pub") as pub,
        MqttClient(mqtt_port(b1), "sub", **LASTING) as sub,
    ):
        await sub.subscribe("a", qos=2)
        await pub.publish("a", b"first", 1)
        await pub.publish("a", b"second", 2)
        await sub.next(PublishPacket)
        second = await sub.next(PublishPacket)
        await read(sub, 0)
        left = crashed(tmp_path / "b1")
    async with broker(left, "retransmission") as b1, MqttClient(mqtt_port(b1), "sub", **LASTING) as sub:
        first, again = await packets(sub, b"second")
        assert isinstance(first, PublishPacket) and first.payload == b"first"
        assert isinstance(again, PublishPacket) and (again.packet_id, again.duplicate) == (second.packet_id, True)


@pytest.mark.parametrize("delay_s", [0, 1])
@live
async def test_a_will_is_published_after_a_crash(tmp_path: Path, delay_s: int) -> None:
    (tmp_path / "b1").mkdir()
    delay = {"will_delay_interval": delay_s} if delay_s else {}
    will = Will("will/a", b"gone", 1, properties=delay)
    async with (
        broker(tmp_path / "b1", "retransmission") as b1,
        MqttClient(mqtt_port(b1), "sub", **LASTING) as sub,
        MqttClient(mqtt_port(b1), "a", will=will, **LASTING) as other,
        MqttClient(mqtt_port(b1), "b", will=Will("will/b", b"no", 1), **LASTING) as polite,
    ):
        await sub.subscribe("will/#", qos=1)
        polite.send(Disconnect())
        await until(lambda: "mqtt:b" not in b1.neighbours)
        await read(other, 0)
        left = crashed(tmp_path / "b1")
    for times in (1, 0):  # it is published once, however often the broker begins again
        async with broker(left, "retransmission") as b1, MqttClient(mqtt_port(b1), "sub", **LASTING) as sub:
            assert [(await sub.event()).payload for _ in range(times)] == [b"gone"] * times
            await asyncio.sleep(0.1)
            assert await sub.silent()


@live
async def test_a_client_that_is_back_in_time_takes_its_will_back_after_a_crash(tmp_path: Path) -> None:
    (tmp_path / "b1").mkdir()
    will = Will("will/a", b"gone", 1, properties={"will_delay_interval": 1})
    async with broker(tmp_path / "b1", "retransmission") as b1, MqttClient(mqtt_port(b1), "sub", **LASTING) as sub:
        await sub.subscribe("will/#", qos=1)
        async with MqttClient(mqtt_port(b1), "a", will=will, **LASTING) as other:
            await read(other, 0)
            left = crashed(tmp_path / "b1")
    async with (
        broker(left, "retransmission") as b1,
        MqttClient(mqtt_port(b1), "sub", **LASTING) as sub,
        MqttClient(mqtt_port(b1), "a", **LASTING) as other,
    ):
        assert other.connack.session_present
        await asyncio.sleep(1.2)
        assert await sub.silent()
