"""Clients on a bus that loses, doubles, reorders and crashes: everything owed comes once and in order, or is named."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from holdfast.carriers.carrier import BusMessage
from holdfast.carriers.lane_book import LaneBook
from holdfast.carriers.memory import MemoryBus
from holdfast.carriers.stub import PLAIN, BusTerms, StubBroker
from holdfast.language.lanes import Template, exactly
from holdfast.model.errors import HoldfastWarning
from holdfast.testing.carriers import Rider
from tests.carriers.riding import BEST_EFFORT, RECOVERS, STRICT, client, numbers, taken, twice

LANES = "plant.{site}.{kind}"
_SHAPES = [("", "native"), (LANES, "native"), ("", "json"), (LANES, "json")]
each_shape = pytest.mark.parametrize(("lanes", "body"), _SHAPES, ids=lambda each: each or "one")


def events(count, first=0):
    return [{"n": n, "site": f"s{n % 5}", "kind": "t" if n % 2 else "p"} for n in range(first, first + count)]


async def published(publisher, many, rows=20):
    """In messages of so many events, so that a lossy bus has something to choose from."""
    for at in range(0, len(many), rows):
        await publisher.publish_many(many[at : at + rows])
        await asyncio.sleep(0)


@each_shape
def test_what_a_lossy_bus_loses_doubles_and_reorders_comes_once_and_in_order(lanes, body):
    async def story():
        bus = MemoryBus(seed=7, loss_ratio=0.1, double_ratio=0.05, late_ratio=0.1)
        async with client(bus, "sub", STRICT, lanes, body) as sub, client(bus, "pub", STRICT, lanes, body) as pub:
            all_, some = sub.subscribe("n >= 0"), sub.subscribe("site IN ('s1', 's2') AND kind = 't'")
            await sub.flush()
            await published(pub, events(600))
            whole = await taken(all_, 600)
            part = await taken(some, 120)
            return numbers(whole), numbers(part), twice(whole), list(sub.losses().take())

    whole, part, doubled, lost = asyncio.run(story())
    assert whole == list(range(600))
    assert part == [n for n in range(600) if n % 5 in (1, 2) and n % 2]
    assert not doubled
    assert not lost


@each_shape
def test_a_subscriber_of_one_lane_recovers_what_is_lost_on_it(lanes, body):
    async def story():
        bus = MemoryBus(seed=3, loss_ratio=0.2)
        async with client(bus, "sub", STRICT, lanes, body) as sub, client(bus, "pub", STRICT, lanes, body) as pub:
            mine = sub.subscribe("site = 's1' AND kind = 't'")
            await sub.flush()
            await published(pub, events(500), rows=10)
            return numbers(await taken(mine, 50))

    assert asyncio.run(story()) == [n for n in range(500) if n % 5 == 1 and n % 2]


@each_shape
def test_a_crash_of_the_bus_under_way_costs_nothing(lanes, body):
    async def story():
        bus = MemoryBus()
        async with client(bus, "sub", STRICT, lanes, body) as sub, client(bus, "pub", STRICT, lanes, body) as pub:
            mine = sub.subscribe("n >= 0")
            await sub.flush()
            for at in range(5):
                await published(pub, events(100, 100 * at))
                bus.crash()
            return numbers(await taken(mine, 500)), [each.reason for each in sub.losses().take()]

    got, named = asyncio.run(story())
    assert got == list(range(500))
    assert named and all(
        "plant" not in each for each in named
    )  # an absence is named, because others may have been missed


def test_the_first_and_the_last_event_of_a_publisher_are_recovered_as_well():
    async def story():
        bus = MemoryBus()
        async with client(bus, "sub") as sub, client(bus, "pub") as pub:
            mine = sub.subscribe("n >= 0")
            await sub.flush()
            bus.loss_ratio = 1.0
            await published(pub, events(10))
            await pub.flush()
            bus.loss_ratio = 0.0
            return numbers(await taken(mine, 10))

    assert asyncio.run(story()) == list(range(10))


def test_what_is_lost_is_recovered_though_events_tell_of_earlier_ones():
    """Who first hears of a publisher from a digest has it tell of events in events, which then travel one by one."""

    async def story():
        bus = MemoryBus()
        async with client(bus, "sub") as sub, client(bus, "pub") as pub:
            mine = sub.subscribe("n >= 0")
            await sub.flush()
            bus.loss_ratio, bus.spares = 1.0, lambda message: message.lane != ("plant",)
            await published(pub, events(1))
            assert numbers(await taken(mine, 1)) == [0]  # by repair
            bus.loss_ratio = 0.2
            for each in events(400, 1):
                await pub.publish(each)
                if each["n"] % 7 == 0:
                    await asyncio.sleep(0.03 if each["n"] % 100 == 0 else 0)  # a digest, or a frame
            bus.loss_ratio = 0.0
            return numbers(await taken(mine, 400)), sub.losses().take()

    assert asyncio.run(story()) == (list(range(1, 401)), [])


@pytest.mark.parametrize("body", ["native", "json"])
def test_what_a_broken_connection_kept_from_leaving_is_recovered_on_its_lane(body):
    async def story():
        bus = MemoryBus()
        async with client(bus, "sub", STRICT, LANES, body) as sub, client(bus, "pub", STRICT, LANES, body) as pub:
            mine = sub.subscribe("site = 's1' AND kind = 't'")
            await sub.flush()
            one = {"site": "s1", "kind": "t"}
            await pub.publish({"n": 0, **one})
            await pub.flush()
            own = bus.carriers[-1]
            for n in range(1, 6):
                await pub.publish({"n": n, **one})
            own.break_off("the publisher's connection broke")  # before the event loop has turned
            for n in range(6, 10):
                await pub.publish({"n": n, **one})
                await asyncio.sleep(0)
            return numbers(await taken(mine, 10))

    assert asyncio.run(story()) == list(range(10))


def test_at_best_effort_what_a_slow_subscriber_drops_is_named():
    async def story():
        bus = MemoryBus()
        async with client(bus, "sub", BEST_EFFORT) as sub:
            sub.subscribe("n >= 0")
            await sub.flush()
            bus.carriers[0].drop(17)
            return sub.losses().take()

    (loss,) = asyncio.run(story())
    assert loss.events == 17


def test_what_is_published_before_somebody_subscribes_is_not_owed():
    async def story():
        bus = MemoryBus()
        async with client(bus, "sub") as sub, client(bus, "pub") as pub:
            await published(pub, events(50))
            await pub.flush()
            await asyncio.sleep(0.05)  # well beyond the precision of records, a millisecond
            mine = sub.subscribe("n >= 0")
            await sub.flush()
            await published(pub, events(50, 50))
            return numbers(await taken(mine, 50)), sub.losses().take()

    got, lost = asyncio.run(story())
    assert got == list(range(50, 100))
    assert not lost


def test_an_event_that_its_publisher_no_longer_has_is_named():
    async def story():
        bus = MemoryBus()
        async with client(bus, "sub", RECOVERS) as sub:
            mine = sub.subscribe("n >= 0")
            async with client(bus, "pub", RECOVERS) as pub:
                await sub.flush()
                await published(pub, events(1))
                await taken(mine, 1)
                bus.loss_ratio, bus.spares = 1.0, lambda message: message.lane == ("~plant", "all")  # digests
                await published(pub, events(1, 1))
                async with asyncio.timeout(10):
                    while not mine.account().missing:
                        await asyncio.sleep(0.01)
                await pub.close(in_haste=True)
            bus.loss_ratio = 0.0
            async with client(bus, "pub", RECOVERS) as pub:  # a new life of it
                await published(pub, events(1, 2))
                got = numbers(await taken(mine, 1))
                async with asyncio.timeout(10):
                    return got, await anext(sub.losses())

    got, loss = asyncio.run(story())
    assert got == [2]
    assert (loss.source, loss.last - loss.first) == ("pub", 0)


def test_plain_clients_read_json_and_what_they_write_is_delivered_and_marked():
    async def story():
        bus = MemoryBus()
        plain, rider = bus.connection(), Rider()
        await plain.connect(rider)
        async with client(bus, "sub", STRICT, LANES, "json") as sub, client(bus, "pub", STRICT, LANES, "json") as pub:
            mine = sub.subscribe("temp > 3 AND site = 'a'")
            await sub.flush()
            await plain.subscribe([exactly(("plant", "a", "t"))])
            await pub.publish({"site": "a", "kind": "t", "temp": 4, "home": {"team": "x"}})
            await pub.flush()
            await plain.publish([BusMessage(("plant", "a", "t"), b'{"temp": 5, "list": [{}], "deep": {"er": true}}')])
            await plain.publish([BusMessage(("plant", "a", "t"), b"\xff not json")])
            await plain.publish([BusMessage(("plant", "a", "t"), b'{"temp": 2}')])
            await plain.publish([BusMessage(("plant", "a", "t"), b'{"temp": 6}')])
            return await taken(mine, 3), rider.came

    came, seen = asyncio.run(story())
    ours, theirs, last = sorted(came, key=lambda each: each.event["temp"])
    assert json.loads(seen[0].payload) == {"site": "a", "kind": "t", "temp": 4, "home": {"team": "x"}}
    assert ours.source == "pub"
    assert theirs.source == PLAIN and theirs.event == {"site": "a", "kind": "t", "temp": 5, "deep": {"er": True}}
    assert last.event["temp"] == 6


def test_where_the_bus_has_no_headers_json_has_one_more_member():
    async def story():
        bus = MemoryBus(has_headers=False, loss_ratio=0.2, seed=5)
        async with client(bus, "sub", STRICT, "", "json") as sub, client(bus, "pub", STRICT, "", "json") as pub:
            mine = sub.subscribe("n >= 0")
            await sub.flush()
            await published(pub, events(100))
            return numbers(await taken(mine, 100))

    assert asyncio.run(story()) == list(range(100))


@pytest.mark.parametrize("body", ["native", "json"])
def test_lifetimes_payloads_and_timestamps_travel_over_a_bus(body):
    moment = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)

    async def story():
        bus = MemoryBus()
        async with client(bus, "sub", STRICT, LANES, body) as sub, client(bus, "pub", STRICT, LANES, body) as pub:
            mine = sub.subscribe("n >= 0")
            await sub.flush()
            await pub.publish({"n": 1, "site": "a", "at": moment}, b"\x00\xff", lifetime=60)
            await pub.publish({"n": 2, "at": moment, "x": 1.0})
            return await taken(mine, 2)

    one, two = asyncio.run(story())
    assert one.payload == b"\x00\xff" and one.event["at"] == moment and one.publication.lifetime_us == 60_000_000
    assert two.event == {"n": 2, "at": moment, "x": 1.0} and type(two.event["x"]) is float


def test_garbage_on_a_lane_harms_nobody():
    async def story():
        bus = MemoryBus()
        async with client(bus, "sub") as sub, client(bus, "pub") as pub:
            mine = sub.subscribe("n >= 0")
            await sub.flush()
            rogue = bus.connection()
            await rogue.connect(Rider())
            for payload in (
                b"\xc1hfe",
                b"\xc1hfe\x91\xc1",
                b"\xc1hfc",
                b"\xc1hfc\0\0\0\x01\xc0",
                b"\xc1hfz",
                b"",
                b"{",
            ):
                for lane in (("plant",), ("~plant", "all")):
                    await rogue.publish([BusMessage(lane, payload, {"Holdfast": "x y"})])
            await published(pub, events(3))
            return numbers(await taken(mine, 3)), sub.broker

    got, broker = asyncio.run(story())
    assert got == [0, 1, 2]
    assert broker is not None


@pytest.mark.parametrize(("guarantees", "name"), [(RECOVERS, "one"), (STRICT, "first")])  # each is warned of once
def test_two_clients_of_one_name_are_told(guarantees, name):
    async def story():
        bus = MemoryBus()
        async with client(bus, name, guarantees), client(bus, "other", guarantees) as other:
            await other.flush()
            bus.crash()  # which is no reason to take oneself for another
            other.subscribe("n >= 0")
            await other.flush()
            async with client(bus, name, guarantees) as namesake:
                await namesake.flush()
                await asyncio.sleep(0.05)

    with pytest.warns(HoldfastWarning) as told:
        asyncio.run(story())
    assert {str(each.message).split("'")[1] for each in told} == {name}


@pytest.mark.parametrize("about", ["rogue 5 1 5 - n", "rogue 5 1 5 - at", "rogue 5 1 5 - %ff", "rogue 5 1 5 x -", "x"])
@pytest.mark.parametrize("in_header", [True, False])
def test_a_header_that_does_not_fit_its_event_is_counted_and_nothing_else(about, in_header):
    """Such as that of an event whose payload somebody on the way has rewritten."""
    payload = b'{"n": 1}' if in_header else json.dumps({"n": 1, "~holdfast": about}).encode()
    terms = BusTerms("plant", Template("", "plant"), "json", True, True)
    stub = StubBroker("sub", terms, LaneBook(False), True, 0)
    assert stub.on_bus(BusMessage(("plant",), payload, {"Holdfast": about} if in_header else {})) == []
    assert stub.bad == 1


def test_what_order_lets_go_together_does_not_overflow_a_queue_that_pushes_back():
    async def story():
        bus = MemoryBus()
        async with client(bus, "sub") as sub, client(bus, "pub") as pub:
            mine = sub.subscribe("n >= 0", queue_max=10, when_full="push-back")
            await sub.flush()
            bus.loss_ratio, bus.spares = 1.0, lambda message: message.lane != ("plant",)
            await published(pub, events(1))
            await pub.flush()
            bus.loss_ratio = 0.0
            await published(pub, events(12_000, 1), rows=1_000)
            return numbers(await taken(mine, 12_001)), mine.dropped

    got, dropped = asyncio.run(story())
    assert got == list(range(12_001))
    assert dropped == 0


@each_shape
def test_what_was_published_before_a_subscription_is_not_named_as_lost(lanes, body):
    async def story():
        bus = MemoryBus()
        async with client(bus, "pub", STRICT, lanes, body) as pub:
            await published(pub, events(5))
            await asyncio.sleep(0.2)
            async with client(bus, "sub", STRICT, lanes, body) as sub:
                mine = sub.subscribe("n >= 0")
                await sub.flush()
                await asyncio.sleep(0.1)
                await published(pub, events(3, 5))
                found = numbers(await taken(mine, 3))
                await asyncio.sleep(0.3)  # digests and answers come every 20 ms
                return found, [each.reason for each in sub.losses().take()]

    assert asyncio.run(story()) == ([5, 6, 7], [])
