"""Strict order with recovery, where numbers, names and times are not those of a tidy network."""

from random import Random

from holdfast.matching.index import Index
from holdfast.model.messages import Deliver, Publication
from holdfast.protocol.client import Client
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Delivered, Effect, LinkUp, PublishCall, Received, Send, SubscribeCall, Wake
from holdfast.protocol.settings import ProtocolSettings, guarantees_of

TIME_OF_DAY = 1_790_000_000_000_000  # where the numbers of a publisher with a name begin


def client(name: str, first_seq: int = 1, order: str = "strict") -> Client:
    guarantees = guarantees_of(True, order)  # type: ignore[arg-type]
    made = Client(name, ProtocolSettings(), ConditionBook(), Index, 1, Random(1), first_seq, guarantees)
    made.handle(LinkUp("b1", "broker"), 0)
    return made


def published(effects: list[Effect]) -> list[Publication]:
    """What a client has handed to its broker."""
    sent = [each.message for each in effects if isinstance(each, Send)]
    return [each.publication for each in sent if hasattr(each, "publication")]


def delivered(effects: list[Effect]) -> list[int]:
    return [each.publication.seq for each in effects if isinstance(each, Delivered)]


def test_numbers_that_begin_at_the_time_of_day_are_told_and_released_like_others() -> None:
    feed, desk = client("feed", TIME_OF_DAY), client("desk")
    desk.handle(SubscribeCall("s", "n >= 0"), 0)
    got: list[int] = []
    for n in range(3):
        for each in published(feed.handle(PublishCall({"n": n}), 1_000 + n)):
            got += delivered(desk.handle(Received("b1", Deliver(each)), 2_000 + n))
    for _ in range(5):  # until a digest has told that there was nothing before
        now_us = feed.next_due_us() or 0
        for each in published(feed.handle(Wake(), now_us)):
            got += delivered(desk.handle(Received("b1", Deliver(each)), now_us))
    assert got == [TIME_OF_DAY, TIME_OF_DAY + 1, TIME_OF_DAY + 2]
