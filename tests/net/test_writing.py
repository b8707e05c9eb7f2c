"""When what is sent is written: an event on its own at once, what comes right behind it together."""

import asyncio

from holdfast.model.errors import InputError
from holdfast.model.messages import Batch, Deliver, Delta, Message, Publication, Publish
from holdfast.net.node import BrokerNode
from holdfast.net.session import Session
from holdfast.net.settings import NodeSettings
from holdfast.wire.codec import MESSAGES, decode_frame_untrusted, encode_message, framed
from holdfast.wire.signals import Hello, encode_signal
from tests.net.harness import fails, lab, live, settled, take, values


class Paper:
    """A wire that keeps what is written on it."""

    far, reliable, frame_aim, frame_max = "paper", True, 64 * 1024, 2**20

    def __init__(self) -> None:
        self.frames: list[list[Message]] = []
        self.certificate: dict[str, object] = {}
        self.vouched = None

    def send(self, frame: bytes) -> None:
        if frame[1] == MESSAGES:
            self.frames.append(decode_frame_untrusted(frame))

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


def greeted(node: BrokerNode, name: str) -> tuple[Session, Paper]:
    paper = Paper()
    session = Session(paper, node, dialled=False)
    session.on_frame(encode_signal(Hello(name, "client", 1)))
    return session, paper


def event(seq: int) -> Publish:
    return Publish(Publication("p", seq, 0, None, {"n": seq}))


def numbers(frames: list[list[Message]]) -> list[list[int]]:
    return [[each.publication.seq for each in frame if isinstance(each, Deliver)] for frame in frames]


@live
async def test_the_first_event_of_a_turn_is_written_at_once_and_the_others_together_when_the_loop_turns() -> None:
    node = BrokerNode(NodeSettings("b1", ()))
    publisher, _ = greeted(node, "p")
    subscriber, paper = greeted(node, "s")
    subscriber.on_frame(framed([encode_message(Delta("subscriptions", 1, ("n > 0",), ()))]))
    await asyncio.sleep(0)
    for turn in range(2):  # and again, when all is written
        paper.frames.clear()
        first = 10 * turn + 1
        publisher.on_frame(framed([encode_message(event(first))]))
        assert numbers(paper.frames) == [[first]]
        for seq in range(first + 1, first + 4):
            publisher.on_frame(framed([encode_message(event(seq))]))
        assert numbers(paper.frames) == [[first]]
        await asyncio.sleep(0)
        assert numbers(paper.frames) == [[first], [first + 1, first + 2, first + 3]]
    node.crash()


@live
async def test_a_publishers_first_event_is_written_at_once_and_what_follows_it_in_one_message() -> None:
    async with lab() as net:
        publisher = await net.client(await net.broker("b1"), name="p")
        link = publisher.driver.links["b1"]
        await publisher.flush()
        link.wire = paper = Paper()
        before = publisher.counters.sent
        for n in range(5):
            await publisher.publish({"n": n}, payload=b"x" * n)
        assert [type(each) for each in paper.frames[0]] == [Publish]
        assert len(paper.frames) == 1
        await asyncio.sleep(0)
        ((run,),) = paper.frames[1:]
        assert isinstance(run, Batch)
        assert (run.source, [each["n"] for each in run.attributes]) == ("p", [1, 2, 3, 4])
        assert run.payloads == (b"x", b"xx", b"xxx", b"xxxx")
        assert run.seqs == tuple(range(run.seqs[0], run.seqs[0] + 4))
        assert publisher.counters.sent == before + 5


@live
async def test_an_event_with_a_lifetime_keeps_its_place_among_those_written_together() -> None:
    async with lab() as net:
        publisher = await net.client(await net.broker("b1"))
        link = publisher.driver.links["b1"]
        await publisher.flush()
        link.wire = paper = Paper()
        seqs = [await publisher.publish({"n": n}, lifetime=9 if n == 3 else None) for n in range(6)]
        await asyncio.sleep(0)
        written = [each for frame in paper.frames for each in frame]
        assert [type(each) for each in written] == [Publish, Batch, Publish, Batch]
        assert [seq for each in written for seq in seqs_of(each)] == seqs


def seqs_of(message: Message) -> tuple[int, ...]:
    if isinstance(message, Batch):
        return message.seqs
    assert isinstance(message, Publish | Deliver)
    return (message.publication.seq,)


@live
async def test_what_cannot_be_sent_is_refused_to_its_caller_and_those_around_it_arrive() -> None:
    async with lab() as net:
        client = await net.client(await net.broker("b1"))
        wanted = client.subscribe("n >= 0")
        await settled(client, client)
        seqs = []
        for n in range(6):
            seqs.append(await client.publish({"n": n, "s": ""}))
            for value in ("\ud800", 2**64):
                await fails(client.publish({"n": n, "s": value}), InputError)
        deliveries = await take(wanted, 6)
        assert values(deliveries) == list(range(6))
        assert [each.seq for each in deliveries] == seqs == list(range(seqs[0], seqs[0] + 6))


@live
async def test_an_event_that_is_too_large_is_refused_and_takes_none_of_those_around_it_along() -> None:
    async with lab() as net:
        client = await net.client(await net.broker("b1"))
        wanted = client.subscribe("n >= 0")
        await settled(client, client)
        for n in range(9):
            if n in (0, 5):  # alone, and in the middle of a run
                await fails(client.publish({"n": n, "s": "x" * 17 * 2**20}), InputError)
            else:
                await client.publish({"n": n, "s": "x"})
        assert values(await take(wanted, 7)) == [1, 2, 3, 4, 6, 7, 8]
        assert client.counters.oversized == 0


@live
async def test_the_same_events_reach_subscribers_over_tcp_together_and_over_udp_one_by_one() -> None:
    async with lab() as net:
        b1 = await net.broker("b1")
        b2 = await net.broker("b2", "udp://127.0.0.1:0", peers={"b1": b1.listening[0]})
        await b1.connected_to("b2")
        publisher, near, far = await net.client(b1), await net.client(b1), await net.client(b2)
        subscriptions = [each.subscribe("n >= 0") for each in (near, far)]
        for each in (near, far):
            await settled(each, publisher)
        for n in range(200):
            await publisher.publish({"n": n})
        for each in subscriptions:
            assert values(await take(each, 200)) == list(range(200))
        assert near.counters.received >= 200  # however they came, each counts
        assert b2.counters.received >= 200
