"""Events find those who asked for them, over real sockets, and arrive as they were sent."""

import asyncio
import math
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.carriers.connecting import connect
from holdfast.language.problems import ConditionError
from holdfast.model.errors import InputError, MisuseError
from holdfast.net.client import Client
from holdfast.net.node import BrokerNode
from holdfast.net.settings import NodeSettings
from holdfast.net.status import status_of
from tests.net.certificates import Authority
from tests.net.harness import fails, lab, live, settled, take, values


@pytest.mark.parametrize("scheme", ["tcp", "udp"])
@live
async def test_an_event_crosses_two_brokers(scheme: str) -> None:
    async with lab() as net:
        b1, b2 = await net.pair(scheme)
        publisher, subscriber = await net.client(b1, name="desk-1"), await net.client(b2)
        wanted = subscriber.subscribe("symbol = 'IBM' AND price < 120")
        await settled(subscriber, publisher)
        await publisher.publish({"symbol": "IBM", "price": 130})
        seq = await publisher.publish({"symbol": "IBM", "price": 119.5}, payload=b"\x00opaque")
        delivery = await anext(wanted)
        assert delivery.event == {"symbol": "IBM", "price": 119.5}
        assert (delivery.payload, delivery.source, delivery.seq) == (b"\x00opaque", "desk-1", seq)
        assert delivery.via == "original"
        assert 0 <= delivery.delay < 60
        assert abs(delivery.time - datetime.now(UTC)) < timedelta(minutes=1)


@live
async def test_a_number_is_compared_as_a_number_and_a_string_is_none() -> None:
    async with lab() as net:
        client = await net.client(await net.broker("b1"))
        cheap = client.subscribe("price < 120")
        for price in (99.5, "99.5", "120", 120, 119, 120.5, -(2**63), True, None, 119.99999999999999):
            await client.publish({"price": price})
        assert values(await take(cheap, 4), "price") == [99.5, 119, -(2**63), 119.99999999999999]
        assert cheap.waiting == 0


@live
async def test_values_arrive_exactly_through_two_brokers() -> None:
    event = {
        "float": 1.0,
        "integer": 1,
        "big": 2**53 + 1,
        "unsigned": 2**64 - 1,
        "negative zero": -0.0,
        "infinite": math.inf,
        "true": True,
        "text": "naïve ☃ 𝄞",
        "nothing": None,
        "time": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    }
    async with lab() as net:
        b1, b2 = await net.pair()
        publisher, subscriber = await net.client(b1), await net.client(b2)
        wanted = subscriber.subscribe("big = 9007199254740993")
        await settled(subscriber, publisher)
        await publisher.publish({**event, "big": 2**53})  # which as a double would be the same number
        await publisher.publish({**event, "nan": math.nan})
        arrived = dict((await anext(wanted)).event)
        assert math.isnan(arrived.pop("nan"))  # type: ignore[arg-type]
        assert arrived == event
        assert [type(each) for each in arrived.values()] == [type(each) for each in event.values()]
        assert str(arrived["negative zero"]) == "-0.0"


@live
async def test_one_event_reaches_each_subscription_that_wants_it_once() -> None:
    async with lab() as net:
        b1, b2 = await net.pair()
        one, other = await net.client(b1), await net.client(b2)
        wide, narrow = one.subscribe("n > 0"), one.subscribe("n > 5")
        elsewhere = other.subscribe("n > 5 OR n < 3")
        await settled(one, other)
        await settled(other, other)
        for n in range(1, 8):
            await other.publish({"n": n})
        assert values(await take(wide, 7)) == [1, 2, 3, 4, 5, 6, 7]
        assert values(await take(narrow, 2)) == [6, 7]
        assert values(await take(elsewhere, 4)) == [1, 2, 6, 7]


@pytest.mark.parametrize("number", [1, 5_000])
@live
async def test_everything_arrives_in_order_over_tcp(number: int) -> None:
    async with lab() as net:
        b1, b2 = await net.pair()
        publisher, subscriber = await net.client(b1), await net.client(b2)
        wanted = subscriber.subscribe("n >= 0")
        await settled(subscriber, publisher)
        for n in range(number):
            await publisher.publish({"n": n})
        assert values(await take(wanted, number)) == list(range(number))
        assert b1.counters.dropped == b2.counters.dropped == wanted.dropped == 0


@live
async def test_a_large_event_crosses_tcp_and_is_refused_where_no_datagram_can_hold_it() -> None:
    async with lab() as net:
        for scheme in ("tcp", "udp"):
            broker = await net.broker(f"b-{scheme}", f"{scheme}://127.0.0.1:0")
            client = await net.client(broker)
            wanted = client.subscribe("n > 0")
            if scheme == "tcp":
                await client.publish({"n": 1}, payload=bytes(2**20))
            else:
                problem = await fails(client.publish({"n": 1}, payload=bytes(60_000)), InputError)
                assert problem == "event too large: 60004 bytes; the limit over UDP is 60000"
            await client.publish({"n": 2}, payload=bytes(59_990))
            assert values(await take(wanted, 2 if scheme == "tcp" else 1)) == ([1, 2] if scheme == "tcp" else [2])
            assert client.counters.oversized == 0


@pytest.mark.parametrize("routing", ["subscriptions", "advertisements", "destinations"])
@live
async def test_every_way_of_routing_works_on_a_line_of_three(routing: str) -> None:
    async with lab() as net:
        b1 = await net.broker("b1", routing=routing)
        b2 = await net.broker("b2", routing=routing, peers={"b1": b1.listening[0]})
        b3 = await net.broker("b3", routing=routing, peers={"b2": b2.listening[0]})
        publisher, subscriber = await net.client(b1), await net.client(b3)
        publisher.advertise("n >= 0 OR probe IS NOT NULL")
        wanted = subscriber.subscribe("n >= 0")
        await settled(subscriber, publisher)
        await publisher.publish({"n": 7})
        assert values([await anext(wanted)]) == [7]


@live
async def test_an_advertisement_that_is_closed_no_longer_draws_subscriptions() -> None:
    async with lab() as net:
        b1, b2 = await net.pair(routing="advertisements")
        publisher, subscriber = await net.client(b1), await net.client(b2)
        probes = publisher.advertise("probe IS NOT NULL AND n IS NULL")
        numbers = publisher.advertise("n > 0")
        wanted = subscriber.subscribe("n > 0")
        await settled(subscriber, publisher)
        await publisher.publish({"n": 1})
        assert values([await anext(wanted)]) == [1]
        numbers.close()
        numbers.close()
        await settled(subscriber, publisher)  # b2 knows
        await settled(subscriber, publisher)  # and b1 knows what b2 made of it
        sent = b1.counters.sent
        await publisher.publish({"n": 2})
        await publisher.flush()
        assert b1.counters.sent <= sent + 2  # a heartbeat may fall in between; the event stays where it is
        await settled(subscriber, publisher)
        assert wanted.waiting == 0
        assert "n IS NULL" in probes.condition


@live
async def test_closing_a_subscription_unsubscribes() -> None:
    async with lab() as net:
        b1, b2 = await net.pair()
        publisher, subscriber = await net.client(b1), await net.client(b2)
        wanted = subscriber.subscribe("n >= 0")
        await settled(subscriber, publisher)
        await publisher.publish({"n": 1})
        assert values([await anext(wanted)]) == [1]
        await wanted.aclose()
        wanted.close()
        await settled(subscriber, publisher)
        sent = b1.counters.sent
        await publisher.publish({"n": 2})
        await publisher.flush()
        assert b1.counters.sent <= sent + 2  # a heartbeat may fall in between; the event stays where nobody wants it
        assert [each async for each in wanted] == []


def _sent_to(broker: BrokerNode, client: Client) -> int:
    """Messages, each event by itself."""
    return status_of(broker).links[client.name].sent


@live
async def test_leaving_the_loop_unsubscribes() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        subscriber, publisher = await net.client(broker), await net.client(broker)

        async def first() -> int:
            async for delivery in subscriber.subscribe("n >= 0"):
                return int(delivery.event["n"])  # type: ignore[arg-type]
            raise AssertionError("ended")

        reading = asyncio.create_task(first())
        await asyncio.sleep(0)
        await settled(subscriber, publisher)
        await publisher.publish({"n": 1})
        assert await reading == 1
        await settled(subscriber, publisher)
        sent = _sent_to(broker, subscriber)
        for _ in range(1_000):
            await publisher.publish({"n": 2})
        await publisher.flush()
        await subscriber.flush()
        assert _sent_to(broker, subscriber) < sent + 500  # heartbeats may fall in between, but no event
        assert "not_subscribed" not in subscriber.counters.incidents


@live
async def test_a_wrong_condition_is_told_to_the_caller_at_once() -> None:
    async with lab() as net:
        client = await net.client(await net.broker("b1"))
        for wrong in (client.subscribe, client.advertise):
            with pytest.raises(ConditionError, match="line 1, column 9"):
                wrong("price < AND symbol = 'IBM'")
        with pytest.raises(InputError, match="when_full"):
            client.subscribe("n > 0", when_full="explode")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="1 or more"):
            client.subscribe("n > 0", queue_max=0)


@live
async def test_a_wrong_event_is_told_to_the_caller_and_takes_no_number() -> None:
    async with lab() as net:
        client = await net.client(await net.broker("b1"))
        assert await client.publish({"n": 1}) == 1
        assert "list" in await fails(client.publish({"n": [[1]]}), InputError)
        assert "surrogate" in await fails(client.publish({"n": "\ud800"}), InputError)
        assert "positive" in await fails(client.publish({"n": 1}, lifetime=0), InputError)
        assert "must be bytes" in await fails(client.publish({"n": 1}, payload="text"), InputError)  # type: ignore[arg-type]
        assert await client.publish({"n": 1}, lifetime=timedelta(seconds=5)) == 2


@live
async def test_using_a_client_that_is_not_open_is_a_mistake() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        client = connect(str(broker.listening[0]))
        assert "async with" in await fails(client.publish({"n": 1}), MisuseError)
        async with client:
            subscription = client.subscribe("n > 0")
        assert "closed" in await fails(client.publish({"n": 1}), MisuseError)
        with pytest.raises(MisuseError, match="closed"):
            client.subscribe("n > 0")
        assert [each async for each in subscription] == []
        assert "once" in await fails(client.__aenter__(), MisuseError)


def test_an_address_that_is_none_is_explained() -> None:
    for wrong in (
        "127.0.0.1:7001",
        "http://127.0.0.1:7001",
        "tcp://127.0.0.1",
        "tcp://:7",
        "tcp://h:port",
        "tcp://h:1/x",
    ):
        with pytest.raises(InputError, match="tcp://host:port"):
            connect(wrong)
    with pytest.raises(InputError, match="needs the address"):
        connect([])
    with pytest.raises(InputError, match="1 to 255"):
        connect("tcp://127.0.0.1:7001", name="")


@live
async def test_tls_with_client_certificates_carries_events(authority: Authority) -> None:
    async with lab() as net:
        b1 = await net.broker("b1", "tls://127.0.0.1:0", tls=authority.broker("b1"))
        b2 = await net.broker("b2", "tls://127.0.0.1:0", tls=authority.broker("b2"), peers={"b1": b1.listening[0]})
        own = authority.files("desk")
        files = {"certificate": own.certificate, "key": own.key, "ca": own.ca}
        publisher, subscriber = await net.client(b1, **files), await net.client(b2, **files)
        wanted = subscriber.subscribe("n > 0")
        await settled(subscriber, publisher)
        await publisher.publish({"n": 1})
        assert values([await anext(wanted)]) == [1]


@live
async def test_an_event_that_is_refused_takes_no_number() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        client = await net.client(broker)
        first = await client.publish({"n": 1})
        for event, complaint in (
            ({"n": "\ud800"}, "lone surrogate"),
            ({"n": 2**64}, "64 bits"),
            ({"n": [[1]]}, "list"),
        ):
            assert complaint in await fails(client.publish(event), InputError)
        assert await client.publish({"n": 2}) == first + 1


@pytest.mark.parametrize("name", ["", "x" * 256, "a\ud800"])
def test_a_name_that_no_node_can_have_is_refused_before_anything_is_dialled(name: str) -> None:
    with pytest.raises(InputError, match="client's name"):
        connect("tcp://127.0.0.1:1", name=name)
    with pytest.raises(InputError, match="broker's name"):
        BrokerNode(NodeSettings(name, ()))
