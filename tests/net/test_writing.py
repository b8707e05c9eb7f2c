"""When what a broker sends on is written: an event on its own at once, what comes right behind it together."""

import asyncio

from holdfast.model.messages import Deliver, Message, Publication, Publish, Tell
from holdfast.net.node import BrokerNode, NodeSettings
from holdfast.net.session import Session
from holdfast.wire.codec import MESSAGES, decode_frame_untrusted, encode_message, framed
from holdfast.wire.signals import Hello, encode_signal
from tests.net.harness import live


class Paper:
    """A wire that keeps what is written on it."""

    far, reliable, frame_aim, frame_max = "paper", True, 64 * 1024, 2**20

    def __init__(self) -> None:
        self.frames: list[list[Message]] = []

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
    subscriber.on_frame(framed([encode_message(Tell("subscriptions", 1, ("n > 0",), ()))]))
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
