"""A publisher and a subscriber with a stub broker each, and between them a bus that loses what a test says."""

from collections.abc import Sequence
from random import Random

import pytest

from holdfast.carriers.carrier import BusMessage
from holdfast.carriers.lane_book import LaneBook
from holdfast.carriers.stub import BusTerms, LanesWanted, StubBroker
from holdfast.language.lanes import Pattern, Template, pattern_matches
from holdfast.matching.index import Index
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Delivered,
    DeliveredBatch,
    Effect,
    LinkUp,
    Lost,
    PublishCall,
    Received,
    Send,
    SubscribeCall,
    Wake,
)
from holdfast.protocol.settings import Order, ProtocolSettings, guarantees_of
from holdfast.protocol.stack import new_client
from holdfast.wire.codec import encode_message, framed

SECOND_US = 1_000_000
STEP_US = 20_000


class Rider:
    """A client machine, its stub, and the messages of the client that are yet to leave."""

    def __init__(self, name: str, order: Order, first_seq: int) -> None:
        own = name, ProtocolSettings(), ConditionBook(), Index, 1, Random(1), first_seq, guarantees_of(True, order)
        self.machine = new_client(*own)
        terms = BusTerms("plant", Template("", "plant"), "native", has_headers=True, prefixes=True)
        self.stub = StubBroker(name, terms, LaneBook(False), True, 0)
        self.waiting: list[bytes] = []
        self.patterns: dict[Pattern, None] = {}
        self.delivered: list[int] = []
        self.lost: list[tuple[int, int]] = []

    def perform(self, effects: Sequence[Effect]) -> None:
        for each in effects:
            if isinstance(each, Send):
                self.waiting.append(encode_message(each.message))
            elif isinstance(each, Delivered):
                self.delivered.append(each.publication.attributes["n"])
            elif isinstance(each, DeliveredBatch):
                self.delivered += [one.attributes["n"] for one in each.publications]
            elif isinstance(each, Lost):
                self.lost.append((each.first, each.last))

    def leave(self, now_us: int) -> list[BusMessage]:
        """What waits leaves in one frame."""
        if not self.waiting:
            return []
        frame, self.waiting = framed(self.waiting), []
        messages = []
        for each in self.stub.on_client(frame):
            if isinstance(each, LanesWanted):
                self.patterns.update(dict.fromkeys(each.add))
                self.perform(self.machine.handle(Received("bus", self.stub.on_lanes(each)), now_us))
            else:
                messages.append(each)
        return messages

    def hear(self, message: BusMessage, now_us: int) -> None:
        if any(pattern_matches(each, message.lane) for each in self.patterns):
            for each in self.stub.on_bus(message):
                self.perform(self.machine.handle(Received("bus", each), now_us))


class Bus:
    def __init__(self, order: Order) -> None:
        self.now_us = 1_000 * SECOND_US
        self.feed, self.desk = Rider("feed", "none", self.now_us), Rider("desk", order, 1)
        for each in (self.feed, self.desk):
            each.perform(each.machine.handle(LinkUp("bus", "broker", reliable=True), self.now_us))
        self.desk.perform(self.desk.machine.handle(SubscribeCall("s", "n >= 0"), self.now_us))
        self.turn()

    def publish(self, n: int) -> None:
        self.feed.perform(self.feed.machine.handle(PublishCall({"n": n}, b""), self.now_us))

    def turn(self, loses_events: bool = False) -> None:
        """What waits leaves and arrives, until nothing waits."""
        while self.feed.waiting or self.desk.waiting:
            for sender, other in ((self.feed, self.desk), (self.desk, self.feed)):
                for message in sender.leave(self.now_us):
                    if not (loses_events and message.lane == ("plant",)):
                        other.hear(message, self.now_us)

    def wake(self) -> None:
        for each in (self.feed, self.desk):
            each.perform(each.machine.handle(Wake(), self.now_us))

    def go_on(self, seconds: float) -> None:
        for _ in range(int(seconds * SECOND_US / STEP_US)):
            self.now_us += STEP_US
            self.wake()
            self.turn()


@pytest.mark.parametrize("order", ["none", "fifo", "strict"])
@pytest.mark.parametrize("after_s", [0.1, 1.0, 1.2])
def test_an_event_that_is_lost_before_another_leaves_with_a_digest_is_found_missing(
    order: Order, after_s: float
) -> None:
    """What a client states with its digest covers all that has left since the last one, also what the bus has lost."""
    bus = Bus(order)
    bus.publish(0)
    bus.turn()
    bus.go_on(3)  # they know each other
    bus.publish(1)
    bus.turn(loses_events=True)
    bus.now_us += int(after_s * SECOND_US)  # after a second the digest is due
    bus.publish(2)
    bus.wake()
    bus.turn()
    bus.go_on(5)
    assert sorted(bus.desk.delivered) == [0, 1, 2]
    assert bus.desk.delivered == [0, 1, 2] or order == "none"
    assert bus.desk.lost == []
