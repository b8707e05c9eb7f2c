"""Clients of MQTT at brokers that recover and keep order for them: what a lossy link takes arrives all the same."""

import asyncio

from holdfast import MqttSettings
from holdfast.net.node import BrokerNode
from tests.net.harness import Lab, lab, live, settled, take
from tests.net.mqtt_client import MqttClient
from tests.net.test_impairment import impaired

NUMBER = 300
RELIABLE = MqttSettings(json=("#",), recovery=True, order="strict")
LISTEN = ("tcp://127.0.0.1:0", "mqtt://127.0.0.1:0")


async def lossy_pair(net: Lab, mqtt: MqttSettings) -> tuple[BrokerNode, BrokerNode]:
    b1 = await net.broker("b1", LISTEN, mqtt=mqtt, **impaired(delay_us=2_000, jitter_us=1_000, loss_ratio=0.05))
    b2 = await net.broker("b2", LISTEN, mqtt=mqtt, peers={"b1": b1.listening[0]})
    await b1.connected_to("b2")
    return b1, b2


def port(node: BrokerNode) -> int:
    return node.listening[1].port


async def known(subscriber: MqttClient, publisher: MqttClient) -> None:
    """Until an event passes from one to the other: then the brokers know the subscription."""
    arriving = asyncio.create_task(subscriber.event())
    while not arriving.done():
        await publisher.publish("a/probe", b"{}", 0)
        await asyncio.wait([arriving], timeout=0.05)


@live
async def test_what_a_link_loses_reaches_an_mqtt_client_in_order() -> None:
    async with lab() as net:
        b1, b2 = await lossy_pair(net, RELIABLE)
        async with MqttClient(port(b1), "pub") as pub, MqttClient(port(b2), "sub") as sub:
            await sub.subscribe("a/#", qos=1)
            await known(sub, pub)
            for n in range(NUMBER):
                await pub.publish("a/b", b'{"n": %d}' % n, 1)
            numbers: list[bytes] = []
            while len(numbers) < NUMBER:
                event = await sub.event()
                numbers += [event.payload] if event.topic == "a/b" else []
            assert numbers == [b'{"n": %d}' % n for n in range(NUMBER)]
            assert b1.counters.lost > 0


@live
async def test_what_a_client_published_before_it_left_is_recovered_for_native_subscribers() -> None:
    async with lab() as net:
        b1, b2 = await lossy_pair(net, RELIABLE)
        desk, probe = await net.client(b2, recovery=True, order="strict"), await net.client(b1)
        wanted = desk.subscribe("n >= 0", queue_max=NUMBER)
        await settled(desk, probe)
        async with MqttClient(port(b1), "once") as once:
            for n in range(NUMBER):
                await once.publish("a/b", b'{"n": %d}' % n, 0)
        found = [each.event["n"] for each in await take(wanted, NUMBER)]
        assert found == list(range(NUMBER))
        assert b1.counters.lost > 0


@live
async def test_a_client_that_comes_back_at_once_does_not_wait_for_its_former_seat() -> None:
    async with lab() as net:
        b1, _ = await lossy_pair(net, RELIABLE)
        for _ in range(3):
            async with MqttClient(port(b1), "same") as same:
                await same.subscribe("a/#", qos=1)
                await same.publish("a/b", b'{"n": 1}', 1)
                assert (await same.event()).payload == b'{"n": 1}'
