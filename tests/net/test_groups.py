"""Shared subscriptions over real sockets and processes: native clients, clients of MQTT, and both in one group."""

import asyncio
import json
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.model.errors import InputError
from holdfast.mqtt.packets import PublishAck, PublishPacket
from holdfast.net.client import Client
from holdfast.net.free_ports import free_ports
from holdfast.net.subscription import Subscription
from holdfast.trust.settings import TrustSettings
from tests.net.harness import Lab, fails, lab, live, settled, take, until, values
from tests.net.mqtt_client import MqttClient, mqtt_port
from tests.net.test_durable import STORING, kill
from tests.net.test_mqtt import MODES, broker
from tests.net.test_mqtt_clients import started
from tests.net.test_processes import Processes, processes

__all__ = ["processes"]  # the fixture


async def member(net: Lab, broker: Any, name: str, **given: Any) -> tuple[Client, Subscription]:
    client = await net.client(broker, name=name, **given)
    shared = client.subscribe("n > 0", group="workers")
    await client.flush()
    return client, shared


async def count(shared: Subscription, got: list[int]) -> None:
    with suppress(asyncio.CancelledError):
        async for each in shared:
            got.append(each.event["n"])


@live
async def test_members_at_two_brokers_share_events() -> None:
    async with lab() as net:
        b1, b2 = await net.pair()
        feed = await net.client(b2, name="feed")
        m1, s1 = await member(net, b1, "m1")
        _, s2 = await member(net, b2, "m2")
        got: tuple[list[int], list[int]] = ([], [])
        counting = [asyncio.create_task(count(each, into)) for each, into in zip((s1, s2), got, strict=True)]
        await settled(m1, feed)
        number = 0
        while not all(got):  # until both are known to the one home
            number += 1
            await feed.publish({"n": number})
            await asyncio.sleep(0.01)
        before = number
        for number in range(before + 1, before + 101):
            await feed.publish({"n": number})
        await until(lambda: len(got[0]) + len(got[1]) >= number)
        assert Counter(got[0] + got[1]) == Counter(range(1, number + 1))
        late = [sum(each > before for each in into) for into in got]
        assert min(late) >= 40
        for task in counting:
            task.cancel()


@pytest.mark.parametrize("given", [{}, {"durable": True}])
@live
async def test_what_a_killed_member_was_not_done_with_goes_to_another(tmp_path: Path, given: dict[str, Any]) -> None:
    async with lab() as net:
        stored: dict[str, Any] = {"hops": STORING, "store": tmp_path / "b1.db"} if given else {}
        b1 = await net.broker("b1", **stored)
        feed = await net.client(b1, name="feed", **given)
        dies, taken = await member(net, b1, "dies", **given)
        for number in range(1, 11):
            await feed.publish({"n": number})
        assert values(await take(taken, 4)) == [1, 2, 3, 4]  # and so it is done with three
        await until(lambda: _done_to(b1) == 3)
        kill(dies)
        _, rest = await member(net, b1, "rest", **given)
        assert sorted(values(await take(rest, 7))) == [4, 5, 6, 7, 8, 9, 10]
        assert b1.counters.incidents["group_handed_on"] == 7


def _done_to(node: Any) -> int:
    (seat,) = node._machine._seats.values()
    return int(seat.home.done_to)


@live
async def test_members_are_told_of_outages_between_brokers_as_any_subscriber_is() -> None:
    async with lab() as net:
        b1, b2 = await net.pair()
        near, _ = await member(net, b2, "near")
        far, _ = await member(net, b1, "far")
        feed = await net.client(b1, name="feed")
        await settled(near, feed)
        await settled(far, feed)
        b2.set_peers({})
        await until(lambda: "b2" not in b1.neighbours)
        await feed.publish({"n": 1})
        await feed.flush()
        b2.set_peers({"b1": b1.listening[0]})
        for each in (near, far):
            loss = await asyncio.wait_for(anext(each.losses()), 30)
            assert loss.reason == "the link between b2 and b1 was down" or "b1 and b2" in loss.reason


@live
async def test_a_group_has_a_name_and_a_member_a_window() -> None:
    async with lab() as net:
        b1 = await net.broker("b1")
        client = await net.client(b1)
        with pytest.raises(InputError, match="1 to 128 characters"):
            client.subscribe("n > 0", group="x" * 129)
        with pytest.raises(InputError, match="queue_max is 0"):
            client.subscribe("n > 0", group="workers", queue_max=0)
        refused = await fails(net.client(b1, name="group:x@b1"), holdfast.TransportError)
        assert "homes of groups" in refused


@live
async def test_a_member_with_rights_shares_only_what_it_may_see(tmp_path: Path) -> None:
    rights = tmp_path / "rights.toml"
    rights.write_text('[[right]]\nwho = "anonymous"\npublish = "TRUE"\nsubscribe = "n < 100"\n')
    async with lab() as net:
        b1 = await net.broker("b1", trust=TrustSettings(rights=rights))
        client = await net.client(b1, name="anonymous.desk")
        wide, narrow = client.subscribe("n > 0", group="g"), client.subscribe("n < 50", group="g")
        await client.flush()
        await client.publish({"n": 7})
        assert values(await take(narrow, 1)) == [7]
        assert wide.waiting == 0
        assert any("a group shares one condition" in each.reason for each in client.denials())


# MQTT ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hops", MODES)
@pytest.mark.parametrize("version", [4, 5])
@live
async def test_clients_of_mqtt_and_native_ones_are_members_of_one_group(
    tmp_path: Path, hops: Any, version: int
) -> None:
    async with broker(tmp_path, hops) as b1, holdfast.connect(b1.address, name="native", hops=hops) as native:
        port = mqtt_port(b1)
        async with MqttClient(port, "w1", version) as w1, MqttClient(port, "pub", version) as pub:
            assert (await w1.subscribe("$share/workers/jobs/+", qos=2)).reasons == (1,)
            native_share = native.subscribe("topic LIKE 'jobs/%' AND topic NOT LIKE '%/%/%'", group="workers")
            await native.flush()
            for number in range(20):
                await pub.publish("jobs/a", b"%d" % number, 1)
            mine = [int((await w1.event()).payload) for _ in range(10)]
            theirs = [int(each.payload) for each in await take(native_share, 10)]
            assert sorted(mine + theirs) == list(range(20))


@pytest.mark.parametrize("hops", MODES)
@live
async def test_what_a_client_of_mqtt_has_not_acknowledged_goes_to_another(tmp_path: Path, hops: str) -> None:
    async with broker(tmp_path, hops) as b1:
        port = mqtt_port(b1)
        async with MqttClient(port, "pub") as pub, MqttClient(port, "w2") as w2:
            async with MqttClient(port, "w1", clean=False, session_expiry_interval=100) as w1:
                await w1.subscribe("$share/workers/jobs/#", qos=1)
                for number in range(10):
                    await pub.publish("jobs/a", b"%d" % number, 1)
                held = [await w1.next(PublishPacket) for _ in range(10)]
                w1.send(PublishAck("puback", held[0].packet_id))
                assert await w1.silent()
                await w2.subscribe("$share/workers/jobs/#", qos=1)
            rest = sorted([int((await w2.event()).payload) for _ in range(9)])
            assert rest == list(range(1, 10))
            async with MqttClient(port, "w1", clean=False, session_expiry_interval=100) as w1:
                assert w1.connack.session_present
                assert await w1.silent()  # it has none of those any more, and is a member again
                for number in range(10, 20):
                    await pub.publish("jobs/a", b"%d" % number, 1)
                both = [int((await each.event()).payload) for each in (w1, w2) for _ in range(5)]
                assert sorted(both) == list(range(10, 20))


@live
async def test_a_shared_and_a_plain_subscription_each_get_the_event(tmp_path: Path) -> None:
    async with broker(tmp_path) as b1, MqttClient(mqtt_port(b1), "m") as m:
        await m.subscribe("$share/workers/a", "a", qos=1)
        await m.publish("a", b"x", 1)
        assert [(await m.event()).payload for _ in range(2)] == [b"x", b"x"]


@live
async def test_a_shared_subscription_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for wrong in ("$share/g", "$share//a", "$share/+/a", "$share/g/"):
        async with broker(tmp_path) as b1, MqttClient(mqtt_port(b1), "m") as m:
            with pytest.raises((EOFError, AssertionError)):
                await m.subscribe(wrong)
    async with broker(tmp_path) as b1, MqttClient(mqtt_port(b1), "m") as m:
        answer = await m.subscribe("$share/g/a", user_property=[("$where", "price >")])
        assert answer.reasons == (0x8F,)


@pytest.mark.slow
@live
async def test_a_killed_broker_loses_no_event_of_a_group(tmp_path: Path, processes: Processes) -> None:
    """Members take events and die, and the broker with the group's home dies: all are done with in the end."""
    port = free_ports()
    process = started(processes, tmp_path, port)
    done: set[int] = set()

    async def work(name: str, limit: int) -> None:
        """Acknowledge so many events, then die with those at hand."""
        while len(done) < 100:
            with suppress(OSError, EOFError, TimeoutError):
                async with MqttClient(port, name, clean=False, session_expiry_interval=100) as client:
                    if not client.connack.session_present:
                        await client.subscribe("$share/workers/jobs/#", qos=1)
                    for _ in range(limit):
                        done.add(json.loads((await client.event()).payload))
            await asyncio.sleep(0.05)

    async with MqttClient(port, "pub") as pub:
        working = [asyncio.create_task(work(f"w{number}", 7 + number)) for number in range(3)]
        await asyncio.sleep(1)
        for number in range(50):
            await pub.publish("jobs/a", b"%d" % number, 1)
    await asyncio.to_thread(process.ask, signal.SIGKILL)
    started(processes, tmp_path, port)
    async with MqttClient(port, "pub") as pub:
        for number in range(50, 100):
            await pub.publish("jobs/a", b"%d" % number, 1)
        await until(lambda: done == set(range(100)))
    for task in working:
        task.cancel()
