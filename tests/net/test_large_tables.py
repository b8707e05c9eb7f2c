"""Tables of any size reach a neighbour, and who has no room for one says so."""

import asyncio
import gc
from time import thread_time
from typing import Any

import pytest

from holdfast.matching import collector
from holdfast.model.limits import CONDITIONS_MAX
from holdfast.model.messages import Batch, Deliver
from holdfast.net.event_loop import run
from holdfast.net.node import BrokerNode
from holdfast.protocol.settings import ProtocolSettings
from holdfast.protocol.tables import SentTable
from tests.net.harness import QUICK, lab, live, take, until, values
from tests.net.raw import RawPeer
from tests.protocol.test_intake import large

PATIENT = ProtocolSettings(heartbeat_us=200_000, lease_us=600_000_000)  # our peer made by hand has no heartbeat


@live
async def test_a_table_that_no_datagram_holds_crosses_a_link() -> None:
    await crosses("udp", 8_000)


@pytest.mark.slow
def test_a_table_that_no_frame_holds_crosses_a_link() -> None:
    run(asyncio.wait_for(crosses("tcp", CONDITIONS_MAX + 50_000), 600))


async def crosses(scheme: str, number: int) -> None:
    async with lab() as net:
        far = await net.broker("far", protocol=PATIENT)
        near = await net.broker("near", f"{scheme}://127.0.0.1:0", protocol=PATIENT)
        async with RawPeer(far.listening[0]) as desk:
            await desk.greet("desk")
            for message in SentTable("subscriptions", 1).change([f"x = {n}" for n in range(number)], (), 0):
                desk.say(message)
                await desk.writer.drain()
            await until(lambda: conditions(far) == number)
            far.add_peer("near", near.listening[0])  # which is then told all at once
            await until(lambda: conditions(near) == number)
            publisher = await net.client(near, settings=PATIENT)
            await publisher.publish({"x": number - 1})
            delivered: list[Any] = []
            while not delivered:
                for each in await desk.heard():
                    if isinstance(each, Deliver):
                        delivered.append(each.publication.attributes)
                    elif isinstance(each, Batch):
                        delivered += each.attributes
            assert delivered == [{"x": number - 1}]
        assert near.counters.oversized == far.counters.oversized == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["many", "large"])
def test_tables_that_take_long_do_not_stop_a_broker(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the event loop's thread works between two of its turns; two brokers and their client share it."""
    number = 20_000 if kind == "many" else 400
    texts = [large(n) if kind == "large" else f"x = {n}" for n in range(number)]
    monkeypatch.setattr(collector, "_is_ours", True)
    gc.collect()
    gc.freeze()  # what the other tests have loaded is not the broker's
    assert run(asyncio.wait_for(longest_turn_s(texts, number * (256 if kind == "large" else 1)), 600)) < 0.05


async def longest_turn_s(texts: list[str], filters: int) -> float:
    turns: list[float] = []
    async with lab() as net:
        far = await net.broker("far", protocol=PATIENT)
        near = await net.broker("near", protocol=PATIENT)
        far.add_peer("near", near.listening[0])
        async with RawPeer(far.listening[0]) as desk:
            await desk.greet("desk")
            watching = asyncio.create_task(note_turns(turns))
            for message in SentTable("subscriptions", 1).change(texts, (), 0):
                desk.say(message)
                await desk.writer.drain()
            await until(lambda: conditions(near) == filters)
            watching.cancel()
    return max(turns)


async def note_turns(turns: list[float]) -> None:
    before = thread_time()
    while True:
        await asyncio.sleep(0)
        before, now = thread_time(), before
        turns.append(before - now)


def conditions(broker: BrokerNode) -> int:
    return broker.driver.machine.gauges()["filters of a neighbour"][0]


@live
async def test_a_client_learns_that_its_broker_has_no_room_for_its_conditions() -> None:
    async with lab() as net:
        small = ProtocolSettings(heartbeat_us=QUICK.heartbeat_us, lease_us=QUICK.lease_us, filters_max=2)
        desk = await net.client(await net.broker("b1", protocol=small))
        wanted = [desk.subscribe(f"n = {n}") for n in range(3)]
        loss = await anext(desk.losses())
        assert loss.reason == "b1 accepts at most 2 filters of a neighbour's subscriptions (filters_max)"
        for n in range(3):
            await desk.publish({"n": n})
        assert [values(await take(each, 1)) for each in wanted[:2]] == [[0], [1]]
