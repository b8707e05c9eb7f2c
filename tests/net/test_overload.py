"""Whoever is too slow loses the oldest, or holds the others up; either way it is counted and nothing grows."""

import asyncio
from math import ceil

import pytest

from holdfast.model.messages import Batch, Deliver, Delta, Publication, Publish
from holdfast.net.counters import Counters
from holdfast.net.outbox import Outbox
from holdfast.wire.codec import decode_frame_untrusted, encode_message, framed
from holdfast.wire.signals import Welcome
from tests.net.harness import lab, live, settled, take, until, values
from tests.net.raw import RawPeer
from tests.wire.golden import MESSAGES

EVENT, CONTROL = (
    encode_message(next(each for _, each in MESSAGES if isinstance(each, kind))) for kind in (Publish, Delta)
)
KILOBYTE = bytes(1_000)


def outbox(bytes_max: int, frame_aim: int = 64_000) -> tuple[Outbox, Counters]:
    counters = Counters()
    return Outbox(frame_aim, 60_000, counters, bytes_max), counters


def drained(box: Outbox) -> list[bytes]:
    """Every message that leaves, in order."""
    left = []
    while (frame := box.next_frame()) is not None:
        left += [encode_message(each) for each in decode_frame_untrusted(frame)]
    assert (len(box), box.waiting_bytes) == (0, 0)
    return left


def test_an_outbox_drops_the_oldest_events_and_never_control() -> None:
    box, counters = outbox(bytes_max=3 * len(EVENT) + len(CONTROL))
    for each in (EVENT, EVENT, CONTROL, EVENT, EVENT):
        box.put(each)
    assert counters.dropped == 1
    assert drained(box) == [EVENT, CONTROL, EVENT, EVENT]


def test_control_messages_keep_their_place_when_events_before_and_behind_them_are_dropped() -> None:
    box, counters = outbox(bytes_max=2 * len(CONTROL) + len(EVENT))
    for each in (CONTROL, EVENT, EVENT, CONTROL, EVENT):
        box.put(each)
    assert counters.dropped == 2
    assert drained(box) == [CONTROL, CONTROL, EVENT]


def run_of(first: int, count: int) -> bytes:
    seqs = tuple(range(first, first + count))
    return encode_message(Batch(seqs, "p", (0,) * count, tuple({"n": 1_000 + seq} for seq in seqs), (), 0))


def seqs_in(messages: list[bytes]) -> list[int]:
    decoded = decode_frame_untrusted(framed(messages))
    return [seq for each in decoded if isinstance(each, Batch) for seq in each.seqs]


def test_of_a_run_only_as_many_events_are_dropped_as_there_is_no_room_for() -> None:
    size = len(run_of(1_000, 100))
    box, counters = outbox(bytes_max=2 * size + len(CONTROL))
    box.put(run_of(1_000, 100))
    box.put_all([run_of(1_100, 100), CONTROL])
    assert counters.dropped == 0
    more = run_of(1_200, 50)
    box.put(more)
    an_event = (size - len(more)) / 50  # a run also has a head, and what is left of the first one keeps its own
    assert counters.dropped == ceil(len(more) / an_event)
    assert box.messages == 250 + 1 - counters.dropped
    left = drained(box)
    assert CONTROL in left
    assert seqs_in(left) == list(range(1_000 + counters.dropped, 1_250))


def alone(source: str, seq: int, record: bytes | None = b"") -> bytes:
    return encode_message(Deliver(Publication(source, seq, 0, None, {"n": 1}, KILOBYTE, record)))


def stated(source: str, since: int, upto: int, *seqs: int) -> bytes:
    return encode_message(Batch(seqs, source, (0,) * len(seqs), ({},) * len(seqs), (), 0, since, upto))


def test_what_is_stated_behind_a_dropped_event_leaves_it_out() -> None:
    """A subscriber would believe that the event is not for it, and not ask its publisher."""
    some = [alone("p", 1), alone("q", 1, record=None), alone("p", 2), alone("q", 7)]
    behind = [stated("p", 1, 2), stated("q", 6, 8, 8), stated("p", 3, 3)]
    more = [alone("p", 4), stated("p", 4, 4)]
    box, counters = outbox(bytes_max=sum(map(len, [*some, *behind, *more])) - 4 * len(KILOBYTE))
    box.put_all([*some, *behind])
    box.put_all(more)
    assert counters.dropped == 4
    assert drained(box) == [stated("p", 3, 2), stated("q", 8, 8, 8), stated("p", 3, 3), *more]


def test_an_outbox_full_of_control_messages_is_stuck_rather_than_lossy() -> None:
    box, counters = outbox(bytes_max=100)
    large = encode_message(Delta("subscriptions", 1, ("a = 1" * 10_000,), ()))
    while not box.stuck:
        box.put(large)
    box.put(EVENT)
    assert counters.dropped == 1
    assert len(drained(box)) > 1_000


def test_messages_share_frames_up_to_the_size_that_suits_the_transport() -> None:
    box, _ = outbox(bytes_max=10**6, frame_aim=10 * len(EVENT))
    for _ in range(100):
        box.put(EVENT)
    frames = []
    while (frame := box.next_frame()) is not None:
        frames.append(frame)
    assert len(frames) == 12  # nine fit with the head of a frame, and one remains
    assert max(map(len, frames)) <= 10 * len(EVENT)


def test_a_message_larger_than_that_goes_alone_and_one_that_no_frame_holds_is_counted() -> None:
    box, counters = outbox(bytes_max=10**6, frame_aim=1_400)
    large = encode_message(Delta("subscriptions", 1, ("x" * 50_000,), ()))
    for each in (EVENT, large, EVENT, encode_message(Delta("subscriptions", 1, ("x" * 60_000,), ()))):
        box.put(each)
    assert counters.oversized == 1
    assert [len(decode_frame_untrusted(box.next_frame() or b"")) for _ in range(3)] == [1, 1, 1]


@live
async def test_a_subscriber_that_does_not_read_loses_the_oldest_and_harms_nobody() -> None:
    number = 15_000
    async with lab() as net:
        broker = await net.broker("b1", queue_bytes=2**20)
        publisher, good = await net.client(broker), await net.client(broker)
        wanted = good.subscribe("n >= 0", queue_max=number)
        await settled(good, publisher)
        async with RawPeer(broker.listening[0]) as raw:
            assert isinstance(await raw.greet(), Welcome)
            raw.say(Delta("subscriptions", 1, ("n >= 0",), ()))
            await until(lambda: broker.driver.links["raw"].outbox is not None)
            await settled(good, publisher)  # whose heartbeat came after the raw one's table
            for first in range(0, number, 500):  # so that who does read never has a full queue, however slow we all are
                for n in range(first, first + 500):
                    await publisher.publish({"n": n}, payload=KILOBYTE)
                assert values(await take(wanted, 500)) == list(range(first, first + 500))
            assert broker.counters.dropped > 0
            assert broker.driver.links["raw"].outbox.waiting_bytes <= 2**20
            got: list[object] = []
            while got[-1:] != [number - 1]:
                for message in await raw.heard():
                    if isinstance(message, Deliver):
                        got.append(message.publication.attributes["n"])
                    elif isinstance(message, Batch):
                        got += [each["n"] for each in message.attributes]
            assert len(got) + broker.counters.dropped == number
            assert got == sorted(got)  # type: ignore[type-var]


@live
async def test_with_push_back_a_slow_subscriber_slows_the_publisher_and_nothing_is_lost() -> None:
    number = 25_000  # 25 MB: more than the kernel keeps for us
    async with lab() as net:
        broker = await net.broker("b1", queue_bytes=64 * 1024, push_back=True)
        publisher, slow = await net.client(broker), await net.client(broker)
        wanted = slow.subscribe("n >= 0", queue_max=100, when_full="push-back")
        await settled(slow, publisher)

        async def publish() -> None:
            for n in range(number):
                await publisher.publish({"n": n}, payload=KILOBYTE)

        publishing = asyncio.create_task(publish())
        await until(lambda: slow.driver.links["b1"].held_up)
        await until(lambda: broker.driver.links[publisher.name].held_up)
        assert not publishing.done()
        assert values(await take(wanted, number)) == list(range(number))
        await publishing
        assert (broker.counters.dropped, wanted.dropped) == (0, 0)
        assert not broker.driver.links[publisher.name].held_up


@live
async def test_with_push_back_who_takes_nothing_at_all_is_not_waited_for_in_the_end() -> None:
    async with lab() as net:
        broker = await net.broker("b1", queue_bytes=64 * 1024, push_back=True, blocked_s_max=0.2)
        publisher, good = await net.client(broker), await net.client(broker)
        wanted = good.subscribe("n >= 0", queue_max=25_000)
        await settled(good, publisher)
        async with RawPeer(broker.listening[0]) as raw:
            await raw.greet()
            raw.say(Delta("subscriptions", 1, ("n >= 0",), ()))
            await settled(good, publisher)
            for n in range(25_000):
                await publisher.publish({"n": n}, payload=KILOBYTE)
            assert values(await take(wanted, 25_000)) == list(range(25_000))
            assert broker.counters.incidents["backpressure_ended"] == 1
            assert broker.counters.dropped > 0
            assert "raw" in broker.neighbours


@live
async def test_a_subscription_keeps_the_newest_and_counts_what_it_dropped() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        client = await net.client(broker)
        wanted = client.subscribe("n >= 0", queue_max=10)
        for n in range(100):
            await client.publish({"n": n})
        await client.flush()
        await until(lambda: wanted.dropped + wanted.waiting == 100)
        assert wanted.dropped == 90
        assert values(await wanted.batch()) == list(range(90, 100))


@live
async def test_a_batch_holds_what_waits_and_ends_empty() -> None:
    async with lab() as net:
        client = await net.client(await net.broker("b1"))
        wanted = client.subscribe("n >= 0")
        for n in range(5):
            await client.publish({"n": n})
        await until(lambda: wanted.waiting == 5)
        assert values(await wanted.batch(3)) == [0, 1, 2]
        wanted.close()
        assert values(await wanted.batch()) == [3, 4]
        assert await wanted.batch() == []


@pytest.mark.parametrize("when_full", ["drop-oldest", "push-back"])
@live
async def test_a_closed_full_subscription_does_not_hold_up_the_others(when_full: str) -> None:
    async with lab() as net:
        client = await net.client(await net.broker("b1"))
        full = client.subscribe("n >= 0", queue_max=5, when_full=when_full)  # type: ignore[arg-type]
        wanted = client.subscribe("n >= 0")
        for n in range(20):
            await client.publish({"n": n})
        await until(lambda: full.waiting >= 5)
        full.close()
        for n in range(20, 40):
            await client.publish({"n": n})
        assert values(await take(wanted, 40)) == list(range(40))


@live
async def test_two_subscribers_that_are_full_hold_up_the_publisher_but_not_each_other() -> None:
    """What each of them acknowledges has to be read, or neither would get on."""
    async with lab() as net:
        broker = await net.broker("b1", queue_bytes=10_000)
        publisher = await net.client(broker, name="feed", recovery=True)
        slow = [await net.client(broker, name=name, recovery=True, order="strict") for name in ("one", "other")]
        wanted = [each.subscribe("n >= 0", queue_max=1_000) for each in slow]
        for each in slow:
            await settled(each, publisher)
        for each in slow:
            each.driver.links["b1"].hold_up(True)
        links = broker.driver.links
        count = 64  # megabytes: more than the sockets hold

        async def publish() -> None:
            for n in range(count):
                await publisher.publish({"n": n}, payload=bytes(2**20))

        publishing = asyncio.create_task(publish())
        await until(lambda: all(links[name].outbox.waiting_bytes > 10_000 for name in ("one", "other")))
        await until(lambda: links["feed"].held_up)
        assert not links["one"].held_up
        assert not links["other"].held_up
        for each in slow:
            each.driver.links["b1"].hold_up(False)
        for each in wanted:
            assert values(await take(each, count)) == list(range(count))
        await publishing
        assert broker.counters.dropped == 0
