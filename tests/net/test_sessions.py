"""A client's session outlives its connection, and what it costs when it does not is named."""

import asyncio
import time
from collections.abc import Callable

import pytest

import holdfast
from holdfast.model.errors import PeerError, TransportError
from holdfast.net.client import Client
from holdfast.net.losses import Loss
from holdfast.net.node import BrokerNode
from holdfast.net.stream import SessionStream
from holdfast.protocol.settings import Order, ProtocolSettings
from holdfast.wire.signals import Ack, Hello, Welcome
from tests.net.certificates import Authority
from tests.net.harness import QUICK, fails, lab, live, settled, take, until, values
from tests.net.raw import RawPeer

KILOBYTE = bytes(1_000)
BRIEF = ProtocolSettings(heartbeat_us=100_000, lease_us=1_000_000, session_us=100_000)


def cut(node: BrokerNode | Client, neighbour: str) -> None:
    """Break the connection as a network does, without a good-bye."""
    node.driver.links[neighbour].wire.abort()


async def publish(client: Client, numbers: range, payload: bytes = b"") -> None:
    for n in numbers:
        await client.publish({"n": n}, payload=payload)
    await client.flush()


async def losses_of(client: Client, count: int = 1) -> list[Loss]:
    await until(lambda: len(client.losses()) >= count)
    return client.losses().take()


# Nothing is lost ---------------------------------------------------------------------------------


@pytest.mark.parametrize("recovery", [False, True])
@live
async def test_who_detaches_gets_on_return_what_a_publisher_left_that_is_gone_by_then(recovery: bool) -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        subscriber = await net.client(broker, name="desk-1", recovery=recovery)
        wanted = subscriber.subscribe("n >= 0")
        await subscriber.flush()
        await subscriber.detach()
        assert not subscriber.settled
        async with holdfast.connect(str(broker.listening[0]), recovery=recovery, settings=QUICK) as publisher:
            await publish(publisher, range(100))
        await subscriber.attach()
        assert values(await take(wanted, 100)) == list(range(100))
        assert subscriber.settled or recovery  # which goes on asking whether there was more
        assert subscriber.losses().take() == []
        assert subscriber.connections == 1


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
@live
async def test_connections_that_break_under_load_at_either_end_cost_nothing(scheme: str, authority: Authority) -> None:
    number, cuts = 20_000, 20
    async with lab() as net:
        tls = authority.files("b1", trusting=False) if scheme == "tls" else None
        ca = authority.certificate if scheme == "tls" else None
        broker = await net.broker("b1", f"{scheme}://127.0.0.1:0", tls=tls)
        publisher = await net.client(broker, name="p", ca=ca)
        subscriber = await net.client(broker, name="s", ca=ca)
        wanted = subscriber.subscribe("n >= 0", queue_max=number)
        await subscriber.flush()
        places: list[Callable[[], None]] = [
            lambda: cut(broker, "s"),
            lambda: cut(publisher, "b1"),
            lambda: cut(subscriber, "b1"),
            lambda: cut(broker, "p"),
        ]
        for n in range(number):
            await publisher.publish({"n": n})
            if n % (number // cuts) == number // cuts // 2:
                await asyncio.sleep(0)  # so that some of it is on its way
                places[n * cuts // number % 4]()
        await publisher.flush()
        assert values(await take(wanted, number)) == list(range(number))
        assert (wanted.waiting, wanted.dropped, subscriber.losses().take()) == (0, 0, [])
        assert (publisher.connections, subscriber.connections) == (1, 1)
        assert (broker.counters.dropped, broker.counters.unsent) == (0, 0)


@live
async def test_a_client_is_known_again_before_its_broker_has_noticed_that_it_was_gone() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        publisher, subscriber = await net.client(broker), await net.client(broker, name="s")
        wanted = subscriber.subscribe("n >= 0")
        await subscriber.flush()
        before = broker.driver.links["s"].wire
        before.pause()  # so that it does not read the end
        cut(subscriber, "b1")
        await publish(publisher, range(50))
        assert values(await take(wanted, 50)) == list(range(50))
        assert broker.driver.links["s"].wire is not before
        assert subscriber.connections == 1
        assert broker.neighbours == (publisher.name, "s")


@live
async def test_what_a_client_subscribes_to_while_it_is_away_is_told_when_it_is_back() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        publisher, subscriber = await net.client(broker), await net.client(broker)
        await subscriber.detach()
        wanted = subscriber.subscribe("n >= 0")
        await subscriber.attach()
        await settled(subscriber, publisher)
        await publish(publisher, range(3))
        assert values(await take(wanted, 3)) == [0, 1, 2]


@live
async def test_flush_survives_a_connection_that_breaks_when_the_session_goes_on() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        client = await net.client(broker, name="desk-1")
        broker.driver.links["desk-1"].wire.pause()
        await client.publish({"n": 1})
        flushing = asyncio.create_task(client.flush())
        await asyncio.sleep(0.01)
        assert not flushing.done()
        cut(broker, "desk-1")
        await flushing


@live
async def test_what_a_broker_had_not_acknowledged_when_it_crashed_goes_to_the_next() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        address = broker.listening[0]
        publisher = await net.client(broker, name="p")
        broker.driver.links["p"].wire.pause()
        for n in range(500):
            await publisher.publish({"n": n})
        flushing = asyncio.create_task(publisher.flush())
        await asyncio.sleep(0.01)
        broker.crash()
        again = await net.broker("b2", address)
        subscriber = await net.client(again)
        wanted = subscriber.subscribe("n >= 0")
        await subscriber.flush()
        assert "the connection broke" in await fails(flushing, TransportError)
        assert await publisher.attached() == "b2"
        got = values(await take(wanted, wanted.waiting))
        while got[-1:] != [499]:
            got.append((await anext(wanted)).event["n"])
        assert got == sorted(set(got))


# What is lost is named ---------------------------------------------------------------------------


@live
async def test_who_is_away_for_longer_than_its_session_is_told_from_when_until_when() -> None:
    async with lab() as net:
        broker = await net.broker("b1", protocol=BRIEF)
        publisher, subscriber = await net.client(broker), await net.client(broker, name="s")
        wanted = subscriber.subscribe("n >= 0")
        await subscriber.flush()
        began_us = time.time_ns() // 1_000
        await subscriber.detach()
        await until(lambda: "s" not in broker.driver.links)
        await publish(publisher, range(10))
        await subscriber.attach()
        (lost,) = await losses_of(subscriber)
        assert lost.reason == "b1 did not keep the session"
        latest_us = time.time_ns() // 1_000 + QUICK.heartbeat_us + 1_000
        assert began_us - 1_500_000 < lost.since_us < lost.until_us <= latest_us
        assert (lost.source, lost.first, lost.last, lost.events) == ("", 0, 0, 0)
        await settled(subscriber, publisher)
        await publish(publisher, range(10, 12))
        assert values(await take(wanted, 2)) == [10, 11]
        assert subscriber.settled


@live
async def test_an_absence_begins_with_the_oldest_event_that_still_waited() -> None:
    """Not when something last came: what came then may have waited at the broker for long."""
    async with lab() as net:
        broker = await net.broker("b1", queue_bytes=64 * 2**20)
        publisher, slow = await net.client(broker), await net.client(broker, name="slow")
        wanted = slow.subscribe("n >= 0", queue_max=100, when_full="push-back")
        await settled(slow, publisher)
        await publish(publisher, range(20_000), KILOBYTE)
        await until(lambda: broker.driver.links["slow"].waiting)
        await asyncio.sleep(1)  # two marks, if there were any
        got = 0
        while got < 10_000:
            got += len(await wanted.batch())
        broker.crash()
        await net.broker("b1", broker.listening[0])
        while not slow.losses():
            if wanted.waiting:
                last = await wanted.batch()
            await asyncio.sleep(0.001)
        (lost,) = slow.losses().take()
        assert lost.since_us <= last[-1].time_us


@pytest.mark.parametrize("in_good_order", [True, False])
@live
async def test_a_broker_that_began_anew_is_an_absence(in_good_order: bool) -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        subscriber, bystander = await net.client(broker), await net.client(broker)
        wanted = subscriber.subscribe("n >= 0")
        if in_good_order:
            await broker.stop()
        else:
            broker.crash()
        await until(lambda: not subscriber.settled)
        again = await net.broker("b1", broker.listening[0])
        await again.connected_to(subscriber.name, bystander.name)
        (lost,) = await losses_of(subscriber)
        assert lost.reason == "b1 was restarted"
        assert subscriber.losses().take() == []
        assert bystander.losses().take() == []  # it wanted nothing, so nothing can be missing
        assert not wanted.closed


@live
async def test_a_client_that_moves_is_told_what_it_may_have_missed() -> None:
    async with lab() as net:
        b1, b2 = await net.pair()
        subscriber = await net.client(b1, name="s")
        wanted = subscriber.subscribe("n >= 0")
        await subscriber.attach(b2.listening[0])
        lost, *others = await losses_of(subscriber)
        assert lost.reason == "moved from b1 to b2"
        # The two brokers have only just met, and what it had at b1 was not yet known at b2.
        assert {each.reason for each in others} <= {"the link between b2 and b1 was down"}
        assert "s" not in b1.driver.links  # it has said good-bye
        assert not wanted.closed


@live
async def test_of_events_beyond_what_is_kept_for_an_absent_client_it_is_told_how_many() -> None:
    number = 2_000
    async with lab() as net:
        broker = await net.broker("b1", queue_bytes=256 * 1024)
        publisher, subscriber = await net.client(broker), await net.client(broker, name="s")
        wanted = subscriber.subscribe("n >= 0")
        await subscriber.flush()
        await subscriber.detach()
        began_us = time.time_ns() // 1_000
        await publish(publisher, range(number), KILOBYTE)
        assert broker.driver.links["s"].outbox.waiting_bytes <= 256 * 1024
        assert not broker.driver.links[publisher.name].held_up
        await subscriber.attach()
        (lost,) = await losses_of(subscriber)
        assert 0 < lost.events == broker.counters.dropped < number
        assert began_us - 1_500_000 < lost.since_us < lost.until_us
        assert values(await take(wanted, number - lost.events)) == list(range(lost.events, number))
        assert wanted.waiting == 0


@live
async def test_an_attached_client_that_is_too_slow_is_told_how_many_its_broker_has_dropped() -> None:
    number = 30_000  # 30 MB: more than a window, a queue and what the kernel keeps
    async with lab() as net:
        broker = await net.broker("b1", queue_bytes=2**20)
        publisher, slow = await net.client(broker), await net.client(broker, name="slow")
        wanted = slow.subscribe("n >= 0", queue_max=100, when_full="push-back")
        await slow.flush()
        await publish(publisher, range(number), KILOBYTE)
        await until(lambda: broker.counters.dropped > 0)
        got: list[int] = []
        while got[-1:] != [number - 1]:
            got += values(await wanted.batch())
        lost = slow.losses().take()
        assert sum(each.events for each in lost) == broker.counters.dropped == number - len(got)
        assert got == sorted(got)
        assert all(each.reason == "the backlog for this client was full at b1" for each in lost)


@live
async def test_a_queue_that_overflows_is_one_loss_that_grows_until_it_is_read() -> None:
    async with lab() as net:
        client = await net.client(await net.broker("b1"))
        wanted = client.subscribe("n >= 0", queue_max=10)

        async def overflow(numbers: range, dropped: int) -> Loss:
            await publish(client, numbers)
            await until(lambda: wanted.dropped == dropped)
            assert not client.settled
            (lost,) = client.losses().take()
            return lost

        first = await overflow(range(100), 90)
        assert first.events == 90
        assert 0 < first.since_us <= first.until_us
        assert "too slow" in first.reason
        assert client.settled
        assert (await overflow(range(5), 95)).events == 5


# Pushing back ------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["none", "fifo"])
@live
async def test_publishers_wait_for_a_slow_client_that_bought_order_and_not_for_another(order: Order) -> None:
    number = 30_000
    async with lab() as net:
        broker = await net.broker("b1", queue_bytes=64 * 1024)
        publisher, slow = await net.client(broker), await net.client(broker, order=order)
        wanted = slow.subscribe("n >= 0", queue_max=100, when_full="push-back")
        await settled(slow, publisher)
        publishing = asyncio.create_task(publish(publisher, range(number), KILOBYTE))
        await until(lambda: broker.driver.links[publisher.name].held_up or broker.counters.dropped)
        assert (broker.counters.dropped > 0) == (order == "none")
        got: list[int] = []
        while got[-1:] != [number - 1]:
            got += values(await wanted.batch())
        await publishing
        assert len(got) + broker.counters.dropped == number
        assert sum(each.events for each in slow.losses().take()) == broker.counters.dropped


@live
async def test_publishers_at_other_brokers_wait_as_well() -> None:
    number = 30_000
    async with lab() as net:
        b1, b2 = await net.pair(queue_bytes=64 * 1024)
        b3 = await net.broker("b3", queue_bytes=64 * 1024, peers={"b2": b2.listening[0]})
        publisher, slow = await net.client(b1), await net.client(b3, order="fifo")
        wanted = slow.subscribe("n >= 0", queue_max=100, when_full="push-back")
        await settled(slow, publisher)
        publishing = asyncio.create_task(publish(publisher, range(number), KILOBYTE))
        await until(lambda: b1.driver.links[publisher.name].held_up)
        got: list[int] = []
        while got[-1:] != [number - 1]:
            got += values(await wanted.batch())
        await publishing
        assert got == list(range(number))
        assert [each.counters.dropped for each in (b1, b2, b3)] == [0, 0, 0]
        assert slow.losses().take() == []


@live
async def test_who_takes_nothing_at_all_is_not_waited_for_in_the_end_keeps_its_connection_and_is_told() -> None:
    number = 30_000
    async with lab() as net:
        broker = await net.broker("b1", queue_bytes=64 * 1024, blocked_s_max=0.2)
        publisher, stuck = await net.client(broker), await net.client(broker, name="stuck", order="fifo")
        wanted = stuck.subscribe("n >= 0", queue_max=100, when_full="push-back")
        await settled(stuck, publisher)
        await publish(publisher, range(number), KILOBYTE)
        assert broker.counters.incidents["backpressure_ended"] >= 1
        got: list[int] = []
        while got[-1:] != [number - 1]:
            got += values(await wanted.batch())
        assert len(got) + broker.counters.dropped == number
        assert sum(each.events for each in stuck.losses().take()) == broker.counters.dropped > 0
        assert "stuck" in broker.neighbours
        assert stuck.connections == 1


# Greetings ---------------------------------------------------------------------------------------


@live
async def test_a_session_is_resumed_by_who_knows_it_and_by_nobody_else() -> None:
    async with lab() as net:
        broker = await net.broker("b1")

        async def greet(hello: Hello) -> Welcome:
            async with RawPeer(broker.listening[0]) as raw:
                raw.signal(hello)
                welcome = await raw.heard_signal()
                assert isinstance(welcome, Welcome)
            await until(lambda: not broker.neighbours)
            return welcome

        first = await greet(Hello("raw", "client", 1, session=11))
        assert (first.session, first.received) == (11, 0)
        assert (await greet(Hello("raw", "client", 1, session=12, resumes=11))).session == 11
        assert (await greet(Hello("raw", "client", 1, session=13, resumes=12))).session == 13  # nobody has a 12
        assert (await greet(Hello("raw", "client", 1, session=14, resumes=13, received=99))).session == 14  # not sent
        assert (await greet(Hello("raw", "client", 2, session=15))).session == 15  # another life has the name at once
        assert (await greet(Hello("raw", "client", 2))).session == 0  # as clients were before there were sessions
        assert "raw" not in broker.driver.links


@live
async def test_who_acknowledges_what_was_never_sent_is_not_listened_to() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        async with RawPeer(broker.listening[0]) as raw:
            raw.signal(Hello("raw", "client", 1, session=11))
            await raw.heard_signal()
            raw.signal(Ack(1_000))
            assert await raw.closed()
        await until(lambda: "raw" not in broker.driver.links)  # nor is its session kept
        assert broker.counters.bad_frames == 1


def test_a_stream_keeps_what_is_not_acknowledged_and_asks_for_acknowledgements_in_bulk() -> None:
    stream = SessionStream(1)
    for frame in (b"aa", b"bbb", b"c"):
        stream.keep(frame)
    stream.on_ack(1)
    assert (stream.kept, stream.kept_bytes) == ((b"bbb", b"c"), 4)
    assert [stream.has_kept(received) for received in range(5)] == [False, True, True, True, False]
    for wrong in (0, 4):
        with pytest.raises(PeerError, match="acknowledged"):
            stream.on_ack(wrong)
    due = [stream.on_frame(10) for _ in range(64)]
    assert due == [False] * 63 + [True]
    assert stream.acknowledge() == 64
    assert stream.on_frame(300_000)


def test_a_window_closes_and_opens_again() -> None:
    stream = SessionStream(1)
    while stream.has_window:
        stream.keep(KILOBYTE)
    assert 8 * 2**20 <= stream.kept_bytes < 8 * 2**20 + len(KILOBYTE)
    stream.on_ack(1)
    assert stream.has_window


@live
async def test_who_was_away_for_longer_than_its_session_asks_a_publisher_that_has_gone_quiet() -> None:
    async with lab() as net:
        broker = await net.broker("b1", protocol=BRIEF)
        feed = await net.client(broker, name="feed", recovery=True, settings=BRIEF)
        desk = await net.client(broker, name="desk", recovery=True, order="strict", settings=BRIEF)
        wanted = desk.subscribe("n >= 0")
        await settled(desk, feed)
        await publish(feed, range(10))
        assert values(await take(wanted, 10)) == list(range(10))
        await desk.detach()
        await until(lambda: "desk" not in broker.driver.links)
        await publish(feed, range(10, 60))
        await desk.attach()
        assert values(await take(wanted, 50)) == list(range(10, 60))
        assert [each.source for each in await losses_of(desk)] == [""]  # others may have published something


@live
async def test_a_flush_after_a_session_was_lost_says_so_once() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        address = broker.listening[0]
        feed = await net.client(broker, name="feed")
        await feed.publish({"n": 0})
        await feed.flush()
        await feed.publish({"n": 1})
        broker.crash()
        await until(lambda: feed.broker is None)
        await net.broker("b1", address)
        await feed.attached()
        assert "since the last flush" in await fails(feed.flush(), TransportError)
        await feed.flush()
