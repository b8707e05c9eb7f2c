"""Over datagrams nobody hears that a node is gone: a restart must heal without a lease running out."""

import asyncio

import pytest

from holdfast.net import session
from holdfast.net.node import BrokerNode
from holdfast.protocol.settings import ProtocolSettings
from tests.net.harness import PATIENCE_S, Lab, lab, live, settled, take, values

RESTARTS = 3
# No lease runs out during a test, so that nothing heals because of that.
PATIENT = ProtocolSettings(heartbeat_us=100_000, lease_us=int(2 * PATIENCE_S * 1e6))


async def events_pass(net: Lab, b1: BrokerNode, b2: BrokerNode) -> None:
    publisher, subscriber = await net.client(b1), await net.client(b2)
    wanted = subscriber.subscribe("n > 0")
    await settled(subscriber, publisher)
    await publisher.publish({"n": 1})
    assert values(await take(wanted, 1)) == [1]
    await subscriber.close()
    await publisher.close()


@live
async def test_a_listener_that_is_killed_and_restarted_is_connected_again() -> None:
    async with lab() as net:
        b1, b2 = await net.pair("udp", protocol=PATIENT)
        address = b1.listening[0]
        for _ in range(RESTARTS):
            b1.crash()
            b1 = await net.broker("b1", address, protocol=PATIENT)
            await b1.connected_to("b2")
            await events_pass(net, b1, b2)


@live
async def test_a_dialer_that_is_killed_and_restarted_is_connected_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_UNANSWERED_S", 0.2)
    async with lab() as net:
        b1, b2 = await net.pair("udp", protocol=PATIENT)
        for _ in range(RESTARTS):
            b2.crash()
            b2 = await net.broker("b2", "udp://127.0.0.1:0", peers={"b1": b1.listening[0]}, protocol=PATIENT)
            await b2.connected_to("b1")
            await events_pass(net, b1, b2)


@live
async def test_a_node_that_answers_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_UNANSWERED_S", 0.5)
    async with lab() as net:
        b1, b2 = await net.pair("udp", protocol=PATIENT)
        other = await net.broker("b2", "udp://127.0.0.1:0", peers={"b1": b1.listening[0]}, protocol=PATIENT)
        while not other.name_taken:
            await asyncio.sleep(0.01)
        assert "another broker named b2 is connected to b1" in other.name_taken
        await events_pass(net, b1, b2)
