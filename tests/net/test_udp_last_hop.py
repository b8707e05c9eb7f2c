"""Clients over UDP with `hops = "nack"`: what datagrams lose on the last hop is repaired, and what is not is named."""

import asyncio
from random import Random

import pytest

from holdfast.model.errors import TransportError
from holdfast.net.udp import UdpWire
from holdfast.protocol.hops.settings import HopSettings
from holdfast.protocol.settings import ProtocolSettings
from holdfast.wire.codec import MESSAGES
from tests.net.harness import PATIENCE_S, lab, live, take, values

UDP = "udp://127.0.0.1:0"
NACK = HopSettings("nack")
EVENTS = 900  # a broker keeps more for a link, and a client waits before it has sent as many
# No lease runs out during a test, however slow the machine is.
PATIENT = ProtocolSettings(heartbeat_us=100_000, lease_us=int(2 * PATIENCE_S * 1e6))


@live
async def test_everything_arrives_once_over_datagrams_that_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    dice, send = Random(1), UdpWire.send

    def loses(wire: UdpWire, frame: bytes) -> None:
        if frame[1] != MESSAGES or dice.random() >= 0.2:
            send(wire, frame)

    async with lab() as net:
        b1 = await net.broker("b1", UDP, hops=NACK, protocol=PATIENT)
        publisher, subscriber = [await net.client(b1, hops=NACK, settings=PATIENT) for _ in range(2)]
        wanted = subscriber.subscribe("n > 0")
        await subscriber.flush()
        monkeypatch.setattr(UdpWire, "send", loses)
        for number in range(1, EVENTS // 2 + 1):
            await publisher.publish({"n": number})
        await publisher.publish_many([{"n": number} for number in range(EVENTS // 2 + 1, EVENTS + 1)])
        await publisher.flush()
        sent, confirmed = publisher._machine.sent_and_confirmed
        assert sent == confirmed == EVENTS
        assert sorted(values(await take(wanted, EVENTS))) == list(range(1, EVENTS + 1))
        assert not subscriber.losses()


@pytest.mark.parametrize(("broker", "client"), [("nack", "basic"), ("basic", "nack")])
@live
async def test_one_end_that_repairs_serves_one_that_does_not(broker: str, client: str) -> None:
    async with lab() as net:
        b1 = await net.broker("b1", UDP, hops=HopSettings(broker), protocol=PATIENT)  # type: ignore[arg-type]
        publisher, subscriber = [await net.client(b1, hops=client, settings=PATIENT) for _ in range(2)]
        wanted = subscriber.subscribe("n > 0")
        await subscriber.flush()
        await publisher.publish({"n": 1})
        await publisher.flush()
        assert publisher._machine.sent_and_confirmed == (0, 0)
        assert values(await take(wanted, 1)) == [1]


@live
async def test_what_is_published_while_a_flush_waits_is_in_doubt_too(monkeypatch: pytest.MonkeyPatch) -> None:
    send = UdpWire.send
    async with lab() as net:
        b1 = await net.broker("b1", UDP, hops=NACK, protocol=PATIENT)
        client = await net.client(b1, hops=NACK, settings=PATIENT)
        monkeypatch.setattr(UdpWire, "send", lambda wire, frame: None)
        await client.publish({"n": 1})
        flushing = asyncio.create_task(client.flush())
        await asyncio.sleep(0)  # it waits now
        await client.publish({"n": 2})
        b1.crash()
        monkeypatch.setattr(UdpWire, "send", send)
        await net.broker("b1", b1.listening[0], hops=NACK, protocol=PATIENT)
        with pytest.raises(TransportError):
            await flushing
        with pytest.raises(TransportError, match="lost since the last flush"):
            await client.flush()
        await client.flush()


@live
async def test_a_restart_of_the_broker_is_named_to_subscribers_and_publishers() -> None:
    async with lab() as net:
        b1 = await net.broker("b1", UDP, hops=NACK, protocol=PATIENT)
        address = b1.listening[0]
        client = await net.client(b1, hops=NACK, settings=PATIENT)
        wanted = client.subscribe("n > 0")
        await client.flush()
        b1.crash()
        await client.publish({"n": 1})
        await net.broker("b1", address, hops=NACK, protocol=PATIENT)
        with pytest.raises(TransportError, match=r"lost since the last flush|connection broke"):
            await client.flush()
        loss = await anext(client.losses())
        assert loss.reason == "b1 was restarted"
        assert 0 < loss.since_us < loss.until_us
        wanted.close()
