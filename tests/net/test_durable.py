"""Subscriptions that outlive their process, and what a durable client may rely on."""

import asyncio
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.model.errors import InputError, MisuseError, TransportError
from holdfast.net.address import parse_address
from holdfast.net.client import Client
from holdfast.net.node import BrokerNode
from holdfast.net.settings import NodeSettings
from holdfast.net.status import status_of
from holdfast.net.subscription import Subscription
from holdfast.protocol.hops.settings import HandoverSettings, HopSettings
from holdfast.protocol.settings import ProtocolSettings
from holdfast.wire.signals import Welcome, encode_signal
from tests.net.harness import QUICK, Lab, fails, lab, live, take, until, values

STORING = HopSettings("retransmission")


async def storing(net: Lab, folder: Path, name: str = "b1", **handover: Any) -> BrokerNode:
    hops = replace(STORING, handover=HandoverSettings(**handover))
    return await net.broker(name, hops=hops, store=folder / f"{name}.db")


async def publish(feed: Client, *numbers: int) -> None:
    for number in numbers:
        await feed.publish({"n": number})
    await feed.flush()


def kill(client: Client) -> None:
    """What a killed process leaves: a connection that breaks, and nothing said."""
    client.driver.stop()
    for link in client.driver.links.values():
        link.wire.abort()
    for task in client._tasks:
        task.cancel()
    client._closed = True


async def killed(broker: BrokerNode, client: Client) -> None:
    kill(client)
    await until(lambda: client.name not in broker.neighbours)


async def desk_of(net: Lab, broker: BrokerNode, condition: str = "n > 0") -> tuple[Client, Subscription]:
    desk = await net.client(broker, name="desk", durable=True)
    wanted = desk.subscribe(condition)
    await desk.flush()
    return desk, wanted


@live
async def test_a_killed_subscriber_gets_what_was_acknowledged_meanwhile_once_and_in_order(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path)
        feed = await net.client(broker, name="feed", durable=True)
        desk, wanted = await desk_of(net, broker)
        await publish(feed, 1, 2)
        assert values(await take(wanted, 2)) == [1, 2]
        await desk.flush()
        await killed(broker, desk)
        await publish(feed, *range(3, 2_000))
        _, again = await desk_of(net, broker)
        await publish(feed, 2_000)
        assert values(await take(again, 1_998)) == list(range(3, 2_001))
        assert again.waiting == 0


@live
async def test_what_waits_in_the_queue_of_a_killed_subscriber_comes_to_the_next_one(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path)
        feed = await net.client(broker, name="feed", durable=True)
        desk, wanted = await desk_of(net, broker)
        await publish(feed, *range(1, 11))
        await until(lambda: wanted.waiting == 10)
        assert values(await take(wanted, 4)) == [1, 2, 3, 4]
        await desk.flush()
        assert values(await take(wanted, 1)) == [5]
        await killed(broker, desk)  # with one in its hands and five in its queue
        desk, again = await desk_of(net, broker)
        assert values(await take(again, 2)) == [5, 6]
        await desk.flush()
        await killed(broker, desk)
        _, again = await desk_of(net, broker)
        assert values(await take(again, 4)) == [7, 8, 9, 10]


@live
async def test_under_load_each_process_goes_on_where_the_one_before_was_killed(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path)
        feed = await net.client(broker, name="feed", durable=True)
        desk, wanted = await desk_of(net, broker)

        async def load() -> None:
            for first in range(1, 5_001, 100):
                await publish(feed, *range(first, first + 100))

        loading = asyncio.create_task(load())
        found: list[list[int]] = [[]]
        async with asyncio.timeout(50):
            while found[-1][-1:] != [5_000]:
                found[-1].append((await anext(wanted)).event["n"])
                if found[-1][-1] % 700 == 0 and found[-1][-1] // 700 == len(found):
                    await killed(broker, desk)
                    desk, wanted = await desk_of(net, broker)
                    found.append([])
        await loading
        assert len(found) == 8
        for before, after in pairwise(found):
            assert before[0] <= after[0] <= before[-1] + 1  # what it had not said to be done with comes again
        for each in found:
            assert each == list(range(each[0], each[-1] + 1))
        assert found[0][0] == 1


@live
async def test_a_client_that_detaches_gets_what_was_flushed_meanwhile(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path)
        feed = await net.client(broker, name="feed", durable=True)
        desk = await net.client(broker, durable=True)  # also one without a name: it is the same process
        wanted = desk.subscribe("n > 0")
        await desk.flush()
        await publish(feed, 1)
        assert values(await take(wanted, 1)) == [1]
        await desk.detach()
        await publish(feed, 2, 3)
        await desk.attach()
        await publish(feed, 4)
        assert values(await take(wanted, 3)) == [2, 3, 4]


@live
async def test_a_client_that_closes_keeps_its_subscription_and_one_that_forgets_does_not(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path)
        feed = await net.client(broker, name="feed", durable=True)
        desk, wanted = await desk_of(net, broker)
        await publish(feed, 1, 2, 3)
        assert values(await take(wanted, 1)) == [1]
        await desk.close()
        await publish(feed, 4)
        desk, wanted = await desk_of(net, broker)
        assert values(await take(wanted, 3)) == [2, 3, 4]
        await desk.forget()
        assert wanted.closed
        await publish(feed, 5)
        later = desk.subscribe("n > 0")
        await desk.flush()
        await publish(feed, 6)
        assert values(await take(later, 1)) == [6]
        await desk.forget()
        await desk.close()
        await publish(feed, 7)
        await until(lambda: status_of(broker).gauges["stored events"][0] == 0)
        _, wanted = await desk_of(net, broker)
        await publish(feed, 8)
        assert values(await take(wanted, 1)) == [8]


@live
async def test_a_subscription_that_is_closed_ends_and_one_that_is_let_go_of_does_not(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path)
        feed = await net.client(broker, name="feed", durable=True)
        desk, wanted = await desk_of(net, broker)
        other = desk.subscribe("m > 0")
        await desk.flush()
        other.close()
        await desk.flush()
        del wanted
        await desk.close()
        await publish(feed, 1)
        await feed.publish({"m": 1})
        await feed.flush()
        assert status_of(broker).gauges["stored events"][0] == 1
        _, wanted = await desk_of(net, broker)
        assert values(await take(wanted, 1)) == [1]


@live
async def test_only_what_is_kept_can_be_forgotten() -> None:
    async with lab() as net:
        client = await net.client(await net.broker("b1"))
        assert "durable=True" in await fails(client.forget(), MisuseError)


@live
async def test_a_client_without_a_name_leaves_nothing_behind(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path)
        feed = await net.client(broker, durable=True)
        desk = await net.client(broker, durable=True)
        desk.subscribe("n > 0")
        await desk.flush()
        await desk.close()
        await publish(feed, 1)
        assert status_of(broker).gauges["stored events"][0] == 0


@live
async def test_conditions_of_an_earlier_process_count_until_the_next_has_told_its_own(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path)
        feed = await net.client(broker, name="feed", durable=True)
        desk = await net.client(broker, name="desk", durable=True)
        both = desk.subscribe("n > 0"), desk.subscribe("m > 0")
        await desk.flush()
        assert [each.waiting for each in both] == [0, 0]
        await killed(broker, desk)
        desk = await net.client(broker, name="desk", durable=True)
        await publish(feed, 1)  # it is there again, and wants nothing yet
        await asyncio.sleep(3 * QUICK.heartbeat_us / 1e6)  # tables are compared meanwhile
        await publish(feed, 2)
        wanted = desk.subscribe("n > 0")
        assert values(await take(wanted, 2)) == [1, 2]
        await until(lambda: status_of(broker).gauges["filters of a neighbour"][0] == 1)


@live
async def test_a_broker_that_restarts_meanwhile_forgets_nothing(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path)
        feed = await net.client(broker, name="feed", durable=True)
        desk, _ = await desk_of(net, broker)
        await killed(broker, desk)
        await publish(feed, 1, 2, 3)
        broker.crash()
        again = BrokerNode(replace(broker.settings, listen=broker.listening))
        await again.start()
        _, wanted = await desk_of(net, again)
        await publish(feed, 4)
        assert values(await take(wanted, 4)) == [1, 2, 3, 4]
        await feed.close(in_haste=True)
        await again.stop(0.1)


@pytest.mark.parametrize("at_once", [100, 1])
@live
async def test_what_was_acknowledged_before_a_broker_stops_does_not_come_again(at_once: int, tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path, sweep_us=600_000_000)  # stopping does not rely on it
        feed = await net.client(broker, name="feed", durable=True)
        desk, wanted = await desk_of(net, broker)
        for first in range(1, 101, at_once):
            await publish(feed, *range(first, first + at_once))  # one message, and one row of the store
        assert values(await take(wanted, 40)) == list(range(1, 41))
        await desk.flush()
        await desk.close()
        await feed.close()
        await broker.stop(0.1)
        again = await net.broker("b1", broker.listening[0], hops=broker.settings.hops, store=broker.settings.store)
        _, wanted = await desk_of(net, again)
        assert values(await take(wanted, 60)) == list(range(41, 101))


@live
async def test_events_come_through_other_brokers_while_a_subscriber_is_away(tmp_path: Path) -> None:
    async with lab() as net:
        b1 = await storing(net, tmp_path)
        b2 = await net.broker("b2", hops=STORING, store=tmp_path / "b2.db", peers={"b1": b1.listening[0]})
        await b1.connected_to("b2")
        feed = await net.client(b1, name="feed", durable=True)
        desk, wanted = await desk_of(net, b2)
        await until(lambda: status_of(b1).gauges["filters of a neighbour"][0] == 1)
        await publish(feed, 1)
        assert values(await take(wanted, 1)) == [1]
        await desk.flush()
        await killed(b2, desk)
        await publish(feed, *range(2, 400))
        _, wanted = await desk_of(net, b2)
        await publish(feed, 400)
        assert values(await take(wanted, 399)) == list(range(2, 401))


@live
async def test_what_a_limit_costs_a_client_that_was_away_is_named(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path, away_max=100, away_us=0)
        feed = await net.client(broker, name="feed", durable=True)
        desk, _ = await desk_of(net, broker)
        await killed(broker, desk)
        for number in range(1, 251):
            await publish(feed, number)
        desk, wanted = await desk_of(net, broker)
        loss = await anext(desk.losses())
        assert loss.events > 150
        assert "more than 100 events arrived while the client was away" in loss.reason
        assert 0 < loss.since_us < loss.until_us
        left = 250 - loss.events
        assert values(await take(wanted, left)) == list(range(loss.events + 1, 251))
        await killed(broker, desk)
        desk, _ = await desk_of(net, broker)
        await publish(feed, 251)
        await desk.flush()
        assert len(desk.losses()) == 0  # it was told once


@live
async def test_who_stays_away_for_too_long_is_told_when_it_comes_back(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path, keep_us=200_000, sweep_us=20_000)
        feed = await net.client(broker, name="feed", durable=True)
        desk, _ = await desk_of(net, broker)
        await killed(broker, desk)
        await publish(feed, 1, 2)
        await until(lambda: broker.counters.incidents.get("client_forgotten"))
        desk, wanted = await desk_of(net, broker)
        loss = await anext(desk.losses())
        assert "longer than 0.2 s" in loss.reason
        assert loss.events == 2
        await publish(feed, 3)
        assert values(await take(wanted, 1)) == [3]


@live
async def test_a_client_that_goes_to_another_broker_is_told_where_its_events_are(tmp_path: Path) -> None:
    async with lab() as net:
        b1 = await storing(net, tmp_path)
        b2 = await storing(net, tmp_path, "b2")
        desk, _ = await desk_of(net, b1)
        await desk.attach(b2.listening[0])
        loss = await anext(desk.losses())
        assert "stored at b1" in loss.reason
        assert loss.since_us <= loss.until_us


@live
async def test_a_slow_application_is_sent_nothing_twice_and_loses_nothing(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path)
        feed = await net.client(broker, name="feed", durable=True)
        _, wanted = await desk_of(net, broker)
        for first in range(1, 6_001, 50):
            await publish(feed, *range(first, first + 50))
        sent = broker.counters.sent
        await asyncio.sleep(0.6)  # longer than it waits for an answer
        assert broker.counters.sent - sent < 20  # heartbeats, nothing else
        assert values(await take(wanted, 6_000)) == list(range(1, 6_001))


@live
async def test_a_second_process_of_a_name_is_refused_while_the_first_is_there(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path)
        await desk_of(net, broker)
        assert "another client named desk" in await fails(desk_of(net, broker), TransportError)


@live
async def test_a_plain_client_under_the_name_of_a_durable_one_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path)
        feed = await net.client(broker, name="feed", durable=True)
        desk, _ = await desk_of(net, broker)
        await desk.close()
        await publish(feed, 1, 2, 3)
        said = await fails(net.client(broker, name="desk"), TransportError)
        assert "desk is a durable client of b1: connect with durable=True, or end it with forget()" in said
        assert "\n" not in said
        desk, wanted = await desk_of(net, broker)
        assert values(await take(wanted, 3)) == [1, 2, 3]
        await desk.forget()
        await desk.close()
        desk = await net.client(broker, name="desk")
        wanted = desk.subscribe("n > 0")
        await desk.flush()
        await publish(feed, 4)
        assert values(await take(wanted, 1)) == [4]


@live
async def test_a_name_under_which_only_events_were_published_is_free_for_a_plain_client(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await storing(net, tmp_path)
        feed = await net.client(broker, name="feed", durable=True)
        await publish(feed, 1)
        await feed.close()
        assert (await net.client(broker, name="feed")).broker == "b1"


@live
async def test_a_durable_client_is_refused_by_a_broker_that_stores_nothing() -> None:
    notes: list[str] = []
    async with lab() as net:
        broker = await net.broker("b1", log=lambda note: notes.append(note.kind))
        said = await fails(net.client(broker, durable=True), TransportError)
        assert "b1 stores no events, and a durable client needs that" in said
        assert "\n" not in said
        await until(lambda: notes)
        assert notes == ["refused"]


@live
async def test_a_durable_client_hangs_up_on_an_older_broker_that_stores_nothing_and_does_not_look() -> None:
    async def old_broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        frame = encode_signal(Welcome("b1", "broker", 1, stores=False))
        writer.write(len(frame).to_bytes(4, "big") + frame)

    async with lab() as net, await asyncio.start_server(old_broker, "127.0.0.1", 0) as server:
        address = parse_address(f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        said = await fails(net.client(address, durable=True), TransportError)
        assert "b1 stores no events, and a durable client needs that" in said


@pytest.mark.parametrize("hops", ["basic", "nack", "multipath"])
@live
async def test_a_store_that_would_not_be_used_is_refused(hops: Any, tmp_path: Path) -> None:
    settings = NodeSettings("b1", (parse_address("tcp://127.0.0.1:0"),), hops=HopSettings(hops), store=tmp_path / "b")
    with pytest.raises(InputError, match="b1 has a store") as refused:
        BrokerNode(settings)
    assert "\n" not in str(refused.value)


def test_the_client_for_scripts_acknowledges_what_was_read_and_can_forget(tmp_path: Path) -> None:
    @live
    async def main() -> None:
        async with lab() as net:
            broker = await storing(net, tmp_path)
            await asyncio.to_thread(script, str(broker.listening[0]))

    def script(address: str) -> None:
        quick = ProtocolSettings(heartbeat_us=100_000, lease_us=1_000_000)
        with holdfast.connect_sync(address, name="feed", durable=True, settings=quick) as feed:
            with holdfast.connect_sync(address, name="desk", durable=True, settings=quick) as desk:
                wanted = desk.subscribe("n > 0")
                desk.flush()
                for number in range(1, 6):
                    feed.publish({"n": number})
                feed.flush()
                assert [wanted.next().event["n"] for _ in range(2)] == [1, 2]
            with holdfast.connect_sync(address, name="desk", durable=True, settings=quick) as desk:
                wanted = desk.subscribe("n > 0")
                assert [wanted.next().event["n"] for _ in range(3)] == [3, 4, 5]
                desk.forget()
                with pytest.raises(StopIteration):
                    wanted.next()

    main()
