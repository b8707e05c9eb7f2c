"""An event that cannot be sent is refused where it is published, and the largest that can be gets there."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.gateway.client import RefusedError
from holdfast.gateway.messages import EventToPublish
from holdfast.model.errors import InputError
from holdfast.model.limits import ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX, PAYLOAD_BYTES_MAX
from holdfast.model.messages import Publication, Publish
from holdfast.protocol.hops.settings import HopSettings
from holdfast.wire.codec import encode_message
from tests.net.harness import fails, lab, live, settled, take, until, values
from tests.net.raw import RawPeer
from tests.net.test_gateway import client_of, gateway

LARGE = {"n": 1, "blob": "x" * 8 * 2**20}
COMPLAINT = (
    "event too large: its attributes take 8388622 bytes, most of them blob; the limit is 262144. "
    "Put large data into the payload (up to 1048576 bytes), or store it elsewhere and send its address"
)
LARGEST = {"n": 1, "blob": "x" * (ATTRIBUTES_BYTES_MAX - 14)}  # 14 for the map, the names, the 1 and the length


def test_the_limit_is_one_of_bytes_as_they_are_sent() -> None:
    assert len(encode_message(LARGEST)) == ATTRIBUTES_BYTES_MAX


@pytest.mark.parametrize(
    "options",
    [{}, {"recovery": True}, {"order": "fifo"}, {"recovery": True, "order": "strict"}, {"durable": True}],
    ids=str,
)
@live
async def test_an_attribute_of_8_mib_is_refused_and_the_largest_one_is_delivered(
    options: dict[str, Any], tmp_path: Path
) -> None:
    async with lab() as net:
        stores = {"hops": HopSettings("retransmission"), "store": tmp_path / "b1.db"} if "durable" in options else {}
        client = await net.client(await net.broker("b1", **stores), **options)
        wanted = client.subscribe("n >= 0")
        await settled(client, client)
        sent = [await client.publish({"n": 0})]
        for lifetime in (None, 60.0):
            assert await fails(client.publish(LARGE, lifetime=lifetime), InputError) == COMPLAINT
            await fails(client.publish({**LARGEST, "one": "more"}, lifetime=lifetime), InputError)
            sent.append(await client.publish(LARGEST, bytes(PAYLOAD_BYTES_MAX), lifetime))
            await asyncio.sleep(0)
        deliveries = await take(wanted, 3)
        assert [each.seq for each in deliveries] == sent == list(range(sent[0], sent[0] + 3))
        assert client.counters.oversized == 0


@live
async def test_a_script_is_told_as_well() -> None:
    async with lab() as net:
        address = str((await net.broker("b1")).listening[0])

        def script() -> str:
            with holdfast.connect_sync(address) as client, pytest.raises(InputError) as problem:
                client.publish(LARGE)
            return str(problem.value)

        assert await asyncio.to_thread(script) == COMPLAINT


@live
async def test_a_gateway_stages_nothing_that_could_not_be_published(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        async with gateway(tmp_path, broker) as running, client_of(running) as writer:
            assert await fails(writer.publish([LARGE], query="q", batch=1), InputError) == COMPLAINT
            staged = writer.stage(
                "q", 1, 0, iter([[EventToPublish({"n": 1, "blob": "x" * 2**19})]])
            )  # past our own look
            assert "524302 bytes" in await fails(staged, RefusedError)


@live
async def test_the_largest_event_of_all_is_recovered_however_wide_it_is() -> None:
    """It fits into a repair for one, although it has no attribute free for the marks of a repair for all."""
    wide = {f"a{number}": "x" * 900 for number in range(ATTRIBUTES_MAX - 1)}
    async with lab() as net:
        b1 = await net.broker("b1")
        publisher, subscriber = await net.client(b1, recovery=True), await net.client(b1, recovery=True)
        wanted = subscriber.subscribe("n >= 0")
        await settled(subscriber, publisher)
        lost = b1.driver.links[subscriber.name].outbox
        before, lost.bytes_max = lost.bytes_max, 2**16
        await publisher.publish({**wide, "n": 1}, bytes(PAYLOAD_BYTES_MAX))
        await until(lambda: b1.counters.dropped)
        lost.bytes_max = before
        (repaired,) = await take(wanted, 1)
        assert (repaired.via, len(repaired.payload), len(repaired.event)) == ("repair", PAYLOAD_BYTES_MAX, 256)


@pytest.mark.parametrize("what", ["attributes", "payload"])
@live
async def test_an_event_of_somebody_else_that_is_too_large_is_counted_and_goes_nowhere(what: str) -> None:
    blob, payload = ("x" * 2**19, b"") if what == "attributes" else ("", bytes(PAYLOAD_BYTES_MAX + 1))
    async with lab() as net:
        broker = await net.broker("b1")
        subscriber = await net.client(broker)
        wanted = subscriber.subscribe("TRUE")
        await subscriber.flush()
        async with RawPeer(broker.listening[0]) as raw:
            await raw.greet()
            raw.say(Publish(Publication("raw", 1, 0, None, {"blob": blob}, payload)))
            assert await raw.closed()
        assert broker.counters.bad_frames == 1
        await subscriber.publish({"n": 1})
        assert values(await take(wanted, 1)) == [1]
