"""Clients of MQTT at a broker: with each other, with native clients, across brokers, and away."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import sleep
from typing import Any
from unittest.mock import patch

import pytest

import holdfast
from holdfast import MqttSettings
from holdfast.mqtt.packets import Disconnect, PublishAck, PublishPacket, Unsuback, Unsubscribe, Will
from holdfast.net.mqtt_listener import PlainStream
from holdfast.store.note_file import NoteFile
from tests.net.certificates import Authority
from tests.net.harness import live, until
from tests.net.mqtt_client import MqttClient, mqtt_port

LISTEN = ("tcp://127.0.0.1:0", "mqtt://127.0.0.1:0")
MODES = ["basic", "retransmission"]


@asynccontextmanager
async def broker(
    folder: Path, hops: str = "basic", name: str = "b1", **settings: Any
) -> AsyncIterator[holdfast.Broker]:
    store = folder / f"{name}.db" if hops == "retransmission" else None
    async with holdfast.Broker(LISTEN, name=name, hops=hops, store=store, **settings) as started:  # type: ignore[arg-type]
        yield started


@pytest.mark.parametrize("hops", MODES)
@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
@live
async def test_events_pass_between_clients_of_every_version_and_quality(
    tmp_path: Path, hops: str, version: int, qos: int
) -> None:
    async with broker(tmp_path, hops) as b1:
        port = mqtt_port(b1)
        async with MqttClient(port, "sub", version) as sub, MqttClient(port, "pub", version) as pub:
            assert (await sub.subscribe("a/+", qos=qos)).reasons == (qos,)
            for number in range(20):
                await pub.publish("a/b", b"%d" % number, qos)
            events = [await sub.event() for _ in range(20)]
            assert [each.payload for each in events] == [b"%d" % number for number in range(20)]
            assert {(each.topic, each.qos, each.retain) for each in events} == {("a/b", qos, False)}


@pytest.mark.parametrize("hops", MODES)
@live
async def test_native_and_mqtt_clients_see_each_others_events(tmp_path: Path, hops: Any) -> None:
    async with broker(tmp_path, hops) as b1, holdfast.connect(b1.address, name="native", hops=hops) as native:
        wanted = native.subscribe("price > 5 AND topic LIKE 'market/%'")
        await native.flush()
        async with MqttClient(mqtt_port(b1), "m1") as m1:
            properties = {"content_type": "application/json", "user_property": [("site", "north")]}
            await m1.publish("market/ibm", b'{"price": 4}', 1, **properties)
            await m1.publish("market/ibm", b'{"price": 6}', 1, **properties)
            delivery = await wanted.next(timeout=20)
            assert (delivery.event["price"], delivery.event["site"], delivery.payload) == (6, "north", b'{"price": 6}')
            assert delivery.event["mqtt"]["content_type"] == "application/json"
            await m1.subscribe("events/#", "market/+", qos=1)
            await native.publish({"price": 7, "in": {"deep": "x"}}, lifetime=60)
            event = await m1.event()
            assert (event.topic, event.qos) == ("events/native", 1)
            assert json.loads(event.payload) == {"price": 7, "in": {"deep": "x"}}
            assert 0 < event.properties["message_expiry_interval"] <= 60
            await native.publish({"topic": "market/dec", "n": 1}, b"payload")
            event = await m1.event()
            assert (event.topic, event.payload) == ("market/dec", b"payload")
            assert event.properties == {"user_property": [("n", "1")]}


@live
async def test_properties_pass_from_client_to_client_across_brokers(tmp_path: Path) -> None:
    async with broker(tmp_path, name="b1") as b1, broker(tmp_path, name="b2", peers={"b1": b1.address}) as b2:
        await b1.connected_to("b2")
        async with MqttClient(mqtt_port(b1), "sub") as sub, MqttClient(mqtt_port(b2), "pub") as pub:
            await sub.subscribe("a", qos=1, subscription_identifier=[7])
            properties = {
                "response_topic": "r",
                "correlation_data": b"\x00\x01",
                "user_property": [("x", "1"), ("x", "2")],
            }

            async def publish() -> None:
                while True:
                    await pub.publish("a", b"x", 1, **properties)
                    await asyncio.sleep(0.05)

            publishing = asyncio.create_task(publish())  # until b2 knows of the subscription
            event = await sub.event()
            publishing.cancel()
            assert event.properties == {**properties, "subscription_identifier": [7]}


@pytest.mark.parametrize(
    ("hops", "routing"),
    [
        ("nack", "subscriptions"),
        ("basic", "advertisements"),
        ("multipath", "destinations"),
        ("retransmission", "destinations"),
        ("hybrid", "destinations"),
    ],
)
@live
async def test_clients_are_served_in_every_mode_and_routing(tmp_path: Path, hops: Any, routing: Any) -> None:
    how: dict[str, Any] = {"hops": hops, "routing": routing}
    stores = [tmp_path / name if hops in ("retransmission", "hybrid") else None for name in ("b1.db", "b2.db")]
    async with (
        holdfast.Broker(LISTEN, name="b1", store=stores[0], **how) as b1,
        holdfast.Broker(LISTEN, name="b2", store=stores[1], peers={"b1": b1.address}, **how) as b2,
    ):
        await b1.connected_to("b2")
        async with MqttClient(mqtt_port(b1), "sub") as sub, MqttClient(mqtt_port(b2), "pub") as pub:
            await sub.subscribe("a/#", qos=1)
            while await sub.silent():  # until b2 knows of the subscription
                await pub.publish("a/b", b"x", 1)
                await asyncio.sleep(0.05)


@live
async def test_conditions_narrow_what_a_filter_describes(tmp_path: Path) -> None:
    async with broker(tmp_path) as b1:
        port = mqtt_port(b1)
        async with MqttClient(port, "five") as five, MqttClient(port, "four", 4) as four:
            where = [("$where", "price > 5 AND site = 'north'")]
            assert (await five.subscribe("m/#", user_property=where)).reasons == (0,)
            assert (await four.subscribe("m/#?price > 5")).reasons == (0,)
            refused = await five.subscribe("m/+", user_property=[("$where", "price >> 5")])
            assert refused.reasons == (0x8F,)
            assert "price >> 5" in refused.properties["reason_string"]
            assert (await four.subscribe("m/#?price >> 5", "x")).reasons == (0x80, 0)
            for price, site in ((4, "north"), (6, "south"), (7, "north")):
                await five.publish(
                    "m/x", b'{"price": %d}' % price, 1, content_type="application/json", user_property=[("site", site)]
                )
            assert (await five.event()).payload == b'{"price": 7}'
            assert [(await four.event()).payload for _ in range(2)] == [b'{"price": 6}', b'{"price": 7}']
            four.send(Unsubscribe(9, ("m/#?price > 5", "none")))
            assert await four.next(Unsuback) == Unsuback(9)


@live
async def test_subscription_options(tmp_path: Path) -> None:
    async with broker(tmp_path) as b1:
        port = mqtt_port(b1)
        async with MqttClient(port, "one") as one, MqttClient(port, "two") as two:
            await one.subscribe("a/#", options={"no_local": True}, subscription_identifier=[1])
            await one.subscribe("a/b", options={"as_published": True}, qos=1, subscription_identifier=[2])
            await one.publish("a/c", b"own")
            await two.publish("a/b", b"kept", 1, retain=True)
            event = await one.event()
            assert (event.payload, event.qos, event.retain) == (b"kept", 1, True)
            assert sorted(event.properties["subscription_identifier"]) == [1, 2]
            assert await one.silent()
            await two.subscribe("a/+", options={"retain_handling": 2})
            assert await two.silent()
            await two.subscribe("a/+", options={"retain_handling": 1})
            assert await two.silent()  # it is not new
            await two.subscribe("a/+", qos=2)
            event = await two.event()
            assert (event.payload, event.retain, event.qos) == (b"kept", True, 1)
            await two.publish("a/b", b"", 1, retain=True)
            assert (await two.event()).payload == b""
            async with MqttClient(port, "three") as three:
                await three.subscribe("a/#")
                assert await three.silent()


@live
async def test_retained_events_reach_subscribers_of_other_brokers(tmp_path: Path) -> None:
    async with broker(tmp_path, name="b1") as b1, broker(tmp_path, name="b2", peers={"b1": b1.address}) as b2:
        await b1.connected_to("b2")
        async with MqttClient(mqtt_port(b2), "pub") as pub:
            found: list[PublishPacket] = []
            while not found:  # until b2 knows that the door of b1 wants them
                await pub.publish("a", b"kept", 1, retain=True)
                async with MqttClient(mqtt_port(b1), "sub") as sub:
                    await sub.subscribe("a", options={"retain_handling": 0})
                    if not await sub.silent():
                        found.append(PublishPacket("a"))


@pytest.mark.parametrize("hops", MODES)
@pytest.mark.parametrize("version", [4, 5])
@live
async def test_a_session_survives_its_connection(tmp_path: Path, hops: str, version: int) -> None:
    lasting: dict[str, Any] = {"session_expiry_interval": 100} if version == 5 else {}
    async with broker(tmp_path, hops) as b1:
        port = mqtt_port(b1)
        async with MqttClient(port, "pub", version) as pub:
            async with MqttClient(port, "sub", version, clean=False, **lasting) as sub:
                assert not sub.connack.session_present
                await sub.subscribe("a", qos=2)
                await pub.publish("a", b"1", 1)
                first = await sub.next(PublishPacket)  # and no answer
            for number in range(2, 6):
                await pub.publish("a", b"%d" % number, 1 + number % 2)
            async with MqttClient(port, "sub", version, clean=False, **lasting) as sub:
                assert sub.connack.session_present
                events = [await sub.event() for _ in range(5)]
                assert [each.payload for each in events] == [b"1", b"2", b"3", b"4", b"5"]
                assert events[0].duplicate and events[0].packet_id == first.packet_id
                assert await sub.silent()
            async with MqttClient(port, "sub", version) as sub:  # clean
                assert not sub.connack.session_present
                await pub.publish("a", b"6", 1)
                assert await sub.silent()


@pytest.mark.parametrize("hops", MODES)
@live
async def test_first_copies_come_in_the_order_in_which_the_broker_was_sent_them(tmp_path: Path, hops: str) -> None:
    def sent(pub: MqttClient, *numbers: int, again: bool = False) -> None:
        for each in numbers:
            pub.send(PublishPacket("a", b"%d" % each, 1, duplicate=again, packet_id=each))

    async with broker(tmp_path, hops) as b1:
        port = mqtt_port(b1)
        lasting: dict[str, Any] = {"clean": False, "session_expiry_interval": 100}
        async with MqttClient(port, "sub", **lasting) as sub:
            await sub.subscribe("a", qos=1)
            async with MqttClient(port, "pub", **lasting) as pub:
                sent(pub, *range(1, 31))
                found = [(await sub.next(PublishPacket)).payload for _ in range(30)]  # and no answer
        async with MqttClient(port, "pub", **lasting) as pub:
            sent(pub, *range(11, 31), again=True)
            sent(pub, 32, *range(33, 51), 31)  # a client that sends a later one first gets what it sends
            await pub.next(PublishAck)
            async with MqttClient(port, "sub", **lasting) as sub:
                found += [(await sub.event()).payload for _ in range(30 + 20 + 20)]
    assert [int(each) for each in dict.fromkeys(found)] == [*range(1, 31), *range(32, 51), 31]


@live
async def test_quality_2_is_exactly_once_over_broken_connections(tmp_path: Path) -> None:
    async with broker(tmp_path) as b1:
        port = mqtt_port(b1)
        async with MqttClient(port, "sub", clean=False, session_expiry_interval=100) as sub:
            await sub.subscribe("a", qos=2)
            async with MqttClient(port, "pub", clean=False, session_expiry_interval=100) as pub:
                pub.send(PublishPacket("a", b"1", 2, packet_id=5))
                assert await pub.next(PublishAck) == PublishAck("pubrec", 5)
            async with MqttClient(port, "pub", clean=False, session_expiry_interval=100) as pub:
                pub.send(PublishPacket("a", b"1", 2, duplicate=True, packet_id=5))
                assert await pub.next(PublishAck) == PublishAck("pubrec", 5)
                pub.send(PublishAck("pubrel", 5))
                assert await pub.next(PublishAck) == PublishAck("pubcomp", 5)
                pub.send(PublishAck("pubrel", 5))
                assert await pub.next(PublishAck) == PublishAck("pubcomp", 5, 0x92)
                await pub.publish("a", b"2", 2)
            found = await sub.next(PublishPacket)
            sub.send(PublishAck("pubrec", found.packet_id))
        async with MqttClient(port, "sub", clean=False, session_expiry_interval=100) as sub:
            kinds = [await sub.any(), await sub.any()]
            assert PublishAck("pubrel", found.packet_id) in kinds
            others = [each.payload for each in kinds if isinstance(each, PublishPacket)]
            assert others == [b"2"]


@live
async def test_a_second_connection_takes_the_session_over(tmp_path: Path) -> None:
    async with broker(tmp_path) as b1:
        port = mqtt_port(b1)
        async with MqttClient(port, "one") as first, MqttClient(port, "one") as second:
            assert await first.next(Disconnect) == Disconnect(0x8E)
            with pytest.raises(EOFError):
                await first.any()
            await second.subscribe("a")
            await second.publish("a", b"x")
            assert (await second.event()).payload == b"x"
        async with MqttClient(port, "", 5) as named:
            assert named.connack.properties["assigned_client_identifier"].startswith("auto-")


@live
async def test_to_take_leave_of_a_client_whose_connection_is_lost_harms_nobody(tmp_path: Path) -> None:
    async with broker(tmp_path) as b1:
        reader, writer = await asyncio.open_connection("127.0.0.1", mqtt_port(b1))
        lost = PlainStream(reader, writer)
        lost.abort()
        await asyncio.sleep(0.01)  # until the event loop has closed it
        lost.write(b"DISCONNECT")  # in the way of whoever takes its session over


@pytest.mark.parametrize("hops", MODES)
@live
async def test_a_will_is_published_for_who_goes_without_leave(tmp_path: Path, hops: str) -> None:
    async with broker(tmp_path, hops) as b1:
        port = mqtt_port(b1)
        async with MqttClient(port, "sub") as sub:
            await sub.subscribe("will/#", qos=1)
            async with MqttClient(port, "polite", will=Will("will/polite", b"no")) as polite:
                polite.send(Disconnect())
                with pytest.raises(EOFError):
                    await polite.any()
            async with MqttClient(port, "rude", will=Will("will/rude", b"gone", 1, properties={"content_type": "x"})):
                pass
            event = await sub.event()
            assert (event.topic, event.payload, event.properties) == ("will/rude", b"gone", {"content_type": "x"})
            late = Will("will/late", b"late", properties={"will_delay_interval": 1})
            async with MqttClient(port, "late", will=late, session_expiry_interval=100):
                pass
            async with MqttClient(port, "late", clean=False, session_expiry_interval=100):
                await asyncio.sleep(0)
            assert await sub.silent()


@live
async def test_flow_control_and_sizes(tmp_path: Path) -> None:
    async with broker(tmp_path) as b1:
        port = mqtt_port(b1)
        limits = {"receive_maximum": 2, "maximum_packet_size": 100, "topic_alias_maximum": 1}
        async with MqttClient(port, "small", **limits) as small, MqttClient(port, "pub") as pub:
            await small.subscribe("a", qos=1)
            await pub.publish("a", b"x" * 200, 1)
            for number in range(5):
                await pub.publish("a", b"%d" % number, 1)
            first, second = await small.next(PublishPacket), await small.next(PublishPacket)
            assert (first.payload, first.topic, second.topic) == (b"0", "a", "")
            assert second.properties == {"topic_alias": 1}
            assert await small.silent()
            small.send(PublishAck("puback", second.packet_id))
            assert (await small.next(PublishPacket)).payload == b"2"
            pub.send(PublishPacket("a", b"1", properties={"topic_alias": 3}))
            await pub.publish("", b"2", 1, topic_alias=3)


@live
async def test_what_cannot_be_an_event_is_refused_with_a_reason(tmp_path: Path) -> None:
    async with broker(tmp_path) as b1, MqttClient(mqtt_port(b1), "m") as m:
        ack = await m.publish("a", b"x", 1, user_property=[(f"n{number}", "") for number in range(300)])
        assert ack is not None and ack.reason == 0x97 and "too many attributes" in ack.properties["reason_string"]
        ack = await m.publish("$SYS/x", b"x", 2)
        assert ack is not None and ack.reason == 0x87
        assert (await m.subscribe("a#", "b")).reasons == (0x8F, 0)


@live
async def test_clients_are_told_that_the_broker_stops(tmp_path: Path) -> None:
    async with broker(tmp_path) as b1, MqttClient(mqtt_port(b1), "sub") as sub:
        stopping = asyncio.create_task(b1.stop())
        assert await sub.next(Disconnect) == Disconnect(0x8B)
        await stopping


@live
async def test_sessions_and_retained_events_outlive_a_broker_with_a_store(tmp_path: Path) -> None:
    lasting = {"session_expiry_interval": 100}
    async with broker(tmp_path, "retransmission") as b1:
        port = mqtt_port(b1)
        async with MqttClient(port, "sub", clean=False, **lasting) as sub, MqttClient(port, "pub") as pub:
            await sub.subscribe("a/#", qos=1, subscription_identifier=[7])
            await pub.publish("a/b", b"kept", 1, retain=True)
            assert (await sub.event()).payload == b"kept"
        await until(lambda: "mqtt:sub" not in b1.neighbours)
        async with MqttClient(port, "pub") as pub:
            await pub.publish("a/b", b"away", 1)
    async with broker(tmp_path, "retransmission") as b1:
        async with MqttClient(mqtt_port(b1), "sub", clean=False, **lasting) as sub:
            assert sub.connack.session_present and "mqtt:sub" in b1.neighbours
            event = await sub.event()
            assert (event.payload, event.properties) == (b"away", {"subscription_identifier": [7]})
        async with MqttClient(mqtt_port(b1), "new") as new:
            await new.subscribe("a/+")
            event = await new.event()
            assert (event.payload, event.retain) == (b"kept", True)


@live
async def test_who_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    with patch("holdfast.net.mqtt_line.GREETING_S", 0.05):
        async with broker(tmp_path) as b1:
            reader, writer = await asyncio.open_connection("127.0.0.1", mqtt_port(b1))
            writer.write(b"\x10")  # and nothing more
            assert await reader.read() == b""


@live
async def test_a_client_whose_session_is_slow_to_write_down_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker(tmp_path, "retransmission") as b1:
        monkeypatch.setattr("holdfast.net.mqtt_line.GREETING_S", 0.05)
        write = NoteFile.write

        def written_slowly(self: NoteFile, changes: Any) -> None:
            sleep(0.2)
            write(self, changes)

        monkeypatch.setattr(NoteFile, "write", written_slowly)
        async with MqttClient(mqtt_port(b1), "a", clean=False, session_expiry_interval=100) as client:
            assert client.connack.reason == 0


@live
async def test_certificates_say_who_a_client_is(authority: Authority) -> None:
    own, trusted = authority.files("broker"), authority.files("client")
    listen = ["mqtts://127.0.0.1:0", "mqtt://127.0.0.1:0"]
    async with holdfast.Broker(listen, certificate=own.certificate, key=own.key, ca=own.ca) as b1:
        secure, plain = [int(each.rpartition(":")[2]) for each in b1.addresses]
        nameless = ssl.create_default_context(cafile=authority.certificate)
        with pytest.raises((OSError, EOFError)):
            async with MqttClient(secure, "client", tls=nameless):
                pass
        async with MqttClient(secure, "other", tls=trusted.for_dialling()) as other:
            assert other.connack.reason == 0x87
        lasting = {"session_expiry_interval": 100}
        async with MqttClient(secure, "client", tls=trusted.for_dialling(), clean=False, **lasting) as client:
            await client.subscribe("a")
            await client.publish("a", b"x")
            assert (await client.event()).payload == b"x"
            async with MqttClient(plain, "client", clean=False, **lasting) as stranger:
                assert not stranger.connack.session_present  # the session is not theirs
                assert {"mqtt:client", "mqtt:anonymous.client"} <= set(b1.neighbours)
            assert await client.silent()


@pytest.mark.parametrize(
    ("listen", "complaint"),
    [
        ("mqtt://127.0.0.1:1883/path", "is not an address"),
        ("mqtt://127.0.0.1", "is not an address"),
    ],
)
def test_an_address_that_is_none_is_refused(listen: str, complaint: str) -> None:
    with pytest.raises(holdfast.InputError, match=complaint):
        holdfast.Broker(listen)


def test_no_broker_dials_a_listener_for_mqtt() -> None:
    with pytest.raises(holdfast.InputError, match="MQTT clients dial this"):
        holdfast.Broker("tcp://127.0.0.1:0", peers={"b2": "mqtt://127.0.0.1:1883"})


def test_settings_of_a_listener_are_checked() -> None:
    with pytest.raises(holdfast.InputError, match="expected a topic without"):
        holdfast.Broker(LISTEN, mqtt=MqttSettings(topic="a/+"))
    with pytest.raises(holdfast.InputError, match="no topic filter"):
        holdfast.Broker(LISTEN, mqtt=MqttSettings(json=("a#",)))


@live
async def test_more_retained_events_than_a_client_takes_at_once_all_come() -> None:
    async with holdfast.Broker(["mqtt://127.0.0.1:0"]) as broker, MqttClient(mqtt_port(broker), "pub") as pub:
        for number in range(20):
            await pub.publish(f"a/{number}", b"x", qos=1, retain=True)
        async with MqttClient(mqtt_port(broker), "sub", receive_maximum=5) as sub:
            await sub.subscribe("a/#", qos=1)
            assert len({(await sub.event()).topic for _ in range(20)}) == 20
