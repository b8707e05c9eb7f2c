"""A broker in the middle is gone for a while: what was published meanwhile comes from its publisher, in order."""

import asyncio
import json

import pytest

from holdfast.net.address import Address, parse_address
from holdfast.net.client import Client
from holdfast.net.subscription import Subscription
from tests.net.harness import Lab, lab, live, settled, take, until, values
from tests.net.test_processes import Process, Processes, processes

__all__ = ["processes"]  # a fixture


def broker(processes: Processes, name: str, listen: str = "tcp://127.0.0.1:0", **peer: str) -> tuple[Process, Address]:
    peers = [word for other, at in peer.items() for word in ("--peer", f"{other}={at}")]
    process = processes.start("broker", "--id", name, "--listen", listen, *peers, "--json")
    return process, parse_address(json.loads(process.line('"ready'))["listen"][0])


async def publish(publisher: Client, numbers: range, per_s: float | None = None) -> None:
    for n in numbers:
        await publisher.publish({"n": n})
        if per_s is not None:
            await asyncio.sleep(1 / per_s)


async def in_a_row(net: Lab, subscribers: int = 1, **guarantees: object) -> tuple[Client, list[Subscription], list]:  # type: ignore[type-arg]
    """A publisher at the first of three brokers, subscribers at the last."""
    b1, b2 = await net.pair()
    b3 = await net.broker("b3", peers={"b2": b2.listening[0]})
    publisher = await net.client(b1, name="feed", recovery=True)
    clients = [await net.client(b3, **guarantees) for _ in range(subscribers)]
    subscriptions = [each.subscribe("n >= 0", queue_max=100_000) for each in clients]
    for each in clients:
        await settled(each, publisher)
    return publisher, subscriptions, [b1, b2, b3]


@pytest.mark.parametrize("order", ["none", "fifo", "strict"])
@live
async def test_a_burst_through_three_brokers_arrives_whole_and_in_order_without_a_request(order: str) -> None:
    async with lab() as net:
        publisher, subscriptions, brokers = await in_a_row(net, 2, recovery=True, order=order)
        received = [each.counters.received for each in brokers]
        await publish(publisher, range(20_000))
        for each in subscriptions:
            assert values(await take(each, 20_000)) == list(range(20_000))
        # Events, and a few digests, greetings and heartbeats: nobody asked for anything.
        assert all(now.counters.received - then < 20_500 for now, then in zip(brokers, received, strict=True))


@live
async def test_what_is_published_while_a_broker_is_down_comes_later_strictly_in_order() -> None:
    async with lab() as net:
        publisher, subscriptions, (b1, b2, _) = await in_a_row(net, 3, recovery=True, order="strict")
        await publish(publisher, range(200))
        address = b2.listening[0]
        b2.crash()
        await until(lambda: not b1.neighbours or "b2" not in b1.neighbours)
        await publish(publisher, range(200, 900))
        again = await net.broker("b2", address, peers={"b1": b1.listening[0]})
        await again.connected_to("b1", "b3")
        await publish(publisher, range(900, 1_000))
        for each in subscriptions:
            assert values(await take(each, 1_000)) == list(range(1_000))


@pytest.mark.slow
@live
async def test_strict_order_survives_a_broker_that_is_killed_under_load(processes: Processes) -> None:
    async with lab() as net:
        _, first = broker(processes, "b1")
        b2, middle = broker(processes, "b2", b1=str(first))
        _, last = broker(processes, "b3", b2=str(middle))
        publisher = await net.client(first, name="feed", recovery=True)
        clients = [await net.client(last, recovery=True, order="strict") for _ in range(4)]
        subscriptions = [each.subscribe("n >= 0", queue_max=100_000) for each in clients]
        for each in clients:
            await settled(each, publisher)
        publishing = asyncio.create_task(publish(publisher, range(4_000), per_s=400))
        await asyncio.sleep(2)
        b2.end()  # kill -9
        await asyncio.sleep(4)
        broker(processes, "b2", str(middle), b1=str(first))
        await publishing
        for each in subscriptions:
            assert values(await take(each, 4_000)) == list(range(4_000))
        for each in clients:  # all that is missing of publishers that it knows has come, but there may be others
            assert {(loss.source, loss.first) for loss in each.losses().take()} == {("", 0)}


@pytest.mark.slow
@pytest.mark.parametrize("order", ["none", "strict"])
@live
async def test_a_minute_of_a_thousand_events_a_second_is_recovered_after_an_outage(order: str) -> None:
    async with lab() as net:
        publisher, (subscription,), (b1, b2, _) = await in_a_row(net, recovery=True, order=order)
        await publish(publisher, range(100))
        address = b2.listening[0]
        b2.crash()
        await until(lambda: "b2" not in b1.neighbours)
        await publish(publisher, range(100, 60_100))
        again = await net.broker("b2", address, peers={"b1": b1.listening[0]})
        await again.connected_to("b1", "b3")
        await publish(publisher, range(60_100, 60_200))
        came = values(await take(subscription, 60_200))
        assert sorted(came) == list(range(60_200))
        assert order == "none" or came == sorted(came)


@pytest.mark.parametrize("recovery", [False, True])
@live
async def test_a_link_between_brokers_that_was_down_is_named_to_those_who_may_have_missed_something(
    recovery: bool,
) -> None:
    """Also of a publisher that nobody on the other side has heard of, and that is quiet afterwards."""
    async with lab() as net:
        b1, b2 = await net.pair()
        b3 = await net.broker("b3", peers={"b2": b2.listening[0]})
        await b2.connected_to("b3")
        near, far = await net.client(b1, recovery=recovery), await net.client(b3, recovery=recovery)
        subscriptions = [each.subscribe("n >= 0") for each in (near, far)]
        for each in (near, far):
            await each.flush()
        idle = await net.client(b3)  # it subscribes to nothing
        address = b2.listening[0]
        b2.crash()
        await until(lambda: "b2" not in b1.neighbours and "b2" not in b3.neighbours)
        publisher = await net.client(b1, name="feed", recovery=recovery)
        await publish(publisher, range(10))
        await publisher.flush()
        again = await net.broker("b2", address, peers={"b1": b1.listening[0]})
        await again.connected_to("b1", "b3")
        await until(lambda: not far.settled)
        named = far.losses().take()
        assert {each.reason for each in named} <= {
            "the link between b3 and b2 was down",
            "the link between b2 and b1 was down",
        }
        assert named
        assert all(each.since_us < each.until_us for each in named)
        await until(lambda: len(near.losses()) > 0)
        assert not idle.losses()
        assert all(each.account().lost for each in subscriptions)


@live
async def test_a_link_that_is_down_for_longer_than_its_restarted_end_is_named_to_those_behind_that_end() -> None:
    """The new process knows nothing of the outage, and its neighbours do (best-effort, seed 5)."""
    async with lab() as net:
        b1, b2 = await net.pair()
        b3 = await net.broker("b3", peers={"b2": b2.listening[0]})
        await b2.connected_to("b3")
        far = await net.client(b3)
        wanted = far.subscribe("n >= 0")
        await far.flush()
        address = b2.listening[0]
        b2.crash()
        await until(lambda: "b2" not in b1.neighbours and "b2" not in b3.neighbours)
        again = await net.broker("b2", address)
        await again.connected_to("b3")
        await until(lambda: not far.settled)
        far.losses().take()
        again.add_peer("b1", b1.listening[0])
        await again.connected_to("b1")
        await until(lambda: len(far.losses()) > 0)
        named = far.losses().take()
        assert {each.reason for each in named} <= {
            "the link between b3 and b2 was down",  # which lasts until b1 is next to b2 again
            "the link between b2 and b1 was down",
        }
        assert all(each.since_us < each.until_us for each in named) and not wanted.closed
