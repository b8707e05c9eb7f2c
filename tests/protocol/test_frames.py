"""The messages of one frame, handled in one go, have the effects of the same messages one by one."""

from random import Random

from holdfast.matching.index import Index
from holdfast.model.messages import Deliver, Message, Publication, Publish, Summary, Tell
from holdfast.protocol.client import Client
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Effect, LinkUp, Received, SubscribeCall
from holdfast.protocol.settings import ProtocolSettings

NOW_US = 1_000_000


def client() -> Client:
    made = Client("desk", ProtocolSettings(), ConditionBook(), Index, 1, Random(1))
    made.handle(LinkUp("b1", "broker"), 0)
    made.handle(SubscribeCall("s1", "n > 0"), 0)
    return made


def event(seq: int, n: int, lifetime_us: int | None = None, source: str = "p") -> Publication:
    return Publication(source, seq, NOW_US - 500, lifetime_us, {"n": n})


MESSAGES: list[Message] = [
    Deliver(event(1, 5)),
    Deliver(event(1, 5)),  # again
    Deliver(event(2, 0)),  # not wanted
    Deliver(event(3, 5, lifetime_us=100)),  # expired
    Summary(7, ((0, 0), (0, 0))),
    Publish(event(4, 5)),  # not for a client
    Tell("subscriptions", 1, ("n = 1",), ()),
    Deliver(event(9, 5), "repair"),
    Deliver(event(1, 7, source="q")),
]


def test_a_clients_frame_is_its_messages_in_their_order() -> None:
    at_once, one_by_one = client(), client()
    effects: list[Effect] = []
    for message in MESSAGES:
        effects += one_by_one.handle(Received("b1", message), NOW_US)
    assert at_once.receive("b1", MESSAGES, NOW_US) == effects
    assert len(effects) >= len(MESSAGES) - 1
