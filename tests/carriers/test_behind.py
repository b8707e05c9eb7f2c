"""A subscriber that is behind its bus when the connection breaks: what it had not taken in by then is named."""

import asyncio
from time import time_ns

import pytest

from holdfast.carriers import bus_wire
from holdfast.carriers.bus_wire import BusWire
from holdfast.carriers.carrier import BusMessage
from holdfast.carriers.lane_book import LaneBook
from holdfast.carriers.memory import MemoryBus
from holdfast.carriers.stub import BusTerms, StubBroker
from holdfast.language.lanes import Template
from holdfast.model.messages import Batch
from holdfast.protocol.recovery.control import CONTROL_SEQ
from holdfast.wire.signals import Mark, decode_signal_untrusted
from tests.carriers.riding import BEST_EFFORT, STRICT, client, numbers, taken


@pytest.fixture(autouse=True)
def _quick_marks(monkeypatch):
    monkeypatch.setattr(bus_wire, "_HEARTBEAT_S", 0.005)


def now_us():
    return time_ns() // 1_000


async def until(is_so):
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.005)


async def beats(bus, count=4):
    """Until so many more messages were published: marks, where nobody publishes anything else."""
    sent = bus.sent
    await until(lambda: bus.sent >= sent + count)
    await asyncio.sleep(0.005)


@pytest.mark.parametrize("guarantees", [STRICT, BEST_EFFORT], ids=["strict", "best-effort"])
@pytest.mark.parametrize("lanes", ["", "plant.{site}"], ids=["one lane", "lanes"])
def test_what_is_in_buffers_when_the_connection_breaks_is_named_though_its_publisher_has_left(guarantees, lanes):
    async def story():
        bus, departures = MemoryBus(), []
        async with client(bus, "sub", guarantees, lanes) as sub:
            mine = sub.subscribe("n >= 0")
            await sub.flush()
            (carrier,) = bus.carriers
            async with client(bus, "pub", guarantees, lanes) as pub:
                await pub.publish({"n": 0, "site": "a"})
                assert numbers(await taken(mine, 1)) == [0]
                carrier.hold_up()
                for n in range(1, 500):
                    departures.append(now_us())
                    await pub.publish({"n": n, "site": f"s{n % 3}"})
                await pub.flush()
                await pub.close(in_haste=True)
            await beats(bus)  # the subscriber's own connection seems alive
            bus.crash()
            await until(lambda: len(sub.losses()))
            return departures, sub.losses().take(), mine.account().delivered

    departures, lost, delivered = asyncio.run(story())
    assert delivered == 1
    unnamed = [each for each in departures if not any(one.since_us <= each <= one.until_us for one in lost)]
    assert unnamed == []


def test_an_absence_does_not_begin_before_what_has_been_taken_in():
    async def story():
        bus = MemoryBus()
        async with client(bus, "sub") as sub, client(bus, "pub") as pub:
            mine = sub.subscribe("n >= 0")
            await sub.flush()
            await pub.publish({"n": 0})
            await taken(mine, 1)
            had_us = now_us()
            await beats(bus, 20)
            bus.crash()
            await until(lambda: len(sub.losses()))
            return had_us, sub.losses().take()

    had_us, lost = asyncio.run(story())
    assert all(each.since_us > had_us for each in lost)


class _Session:
    """What a wire hands to the session and to the client's machines, in order."""

    def __init__(self):
        self.came = []

    def receive(self, far, messages, frame):
        self.came += [each.publication.seq for each in messages if not isinstance(each, Batch)]

    def on_frame(self, frame):
        self.came.append(decode_signal_untrusted(frame))

    def on_closed(self, reason): ...
    def on_writable(self, writable): ...
    def now_us(self):
        return 7


def test_a_mark_that_overtakes_a_queue_of_its_library_proves_nothing(monkeypatch):
    """Libraries have a queue for each subscription: one waits for room, and the mark comes by the other."""
    monkeypatch.setattr(bus_wire, "_IN_BYTES_MAX", 10)

    async def story():
        bus, session = MemoryBus(), _Session()
        terms = BusTerms("plant", Template("", "plant"), "json", True, True)
        stub = StubBroker("sub", terms, LaneBook(False), True, 0)
        wire = BusWire("here", bus.connection(), stub, session, True, client_id=1)
        wire.start(lambda wire: session)
        mark = BusMessage(stub.own_lane, bus_wire.mark_payload(wire.marks, 5))
        wire.pause()
        waits = asyncio.ensure_future(wire.on_message(BusMessage(("plant",), b'{"n": 100000000}')))
        await asyncio.sleep(0)
        assert wire.on_message(mark) is None
        await asyncio.sleep(0.01)
        wire.resume()
        await waits
        await asyncio.sleep(0.01)
        overtaking, session.came = session.came, []
        wire.on_message(mark)
        await asyncio.sleep(0.01)
        wire.abort()
        await asyncio.sleep(0)
        return overtaking, session.came

    overtaking, later = asyncio.run(story())
    assert len(overtaking) == 1 and overtaking[0] != CONTROL_SEQ
    assert later == [Mark(5)]
