"""What a publisher keeps and sends again: never more than fits, neither into its memory nor into a message."""

from random import Random

import pytest

from holdfast.matching.index import Index
from holdfast.model.limits import ATTRIBUTES_MAX, PAYLOAD_BYTES_MAX
from holdfast.model.messages import Deliver, Publish, Scalar
from holdfast.protocol.client import Client
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Delivered, LinkUp, Lost, PublishCall, Received, Send, SubscribeCall, Wake
from holdfast.protocol.settings import ProtocolSettings, guarantees_of
from holdfast.wire.codec import decode_untrusted, encode

SECOND_US = 1_000_000


class Pair:
    """A publisher and a subscriber, whose clock is ahead; nothing is lost between them but what a test says."""

    def __init__(self, offset_us: int = 0) -> None:
        self.feed, self.desk = self._client("feed"), self._client("desk")
        self.offset_us = offset_us
        self.now_us = 1_000 * SECOND_US
        self.effects: list[object] = []
        self.desk.handle(SubscribeCall("s", "n >= 0"), self.now_us + offset_us)

    @staticmethod
    def _client(name: str) -> Client:
        wanted = guarantees_of(True, "none")
        made = Client(name, ProtocolSettings(), ConditionBook(), Index, 1, Random(1), guarantees=wanted)
        made.handle(LinkUp("b1", "broker"), 0)
        return made

    def publish(self, attributes: dict[str, Scalar], payload: bytes = b"", is_lost: bool = False) -> None:
        effects = self.feed.handle(PublishCall(attributes, payload), self.now_us)
        if not is_lost:
            self._carry(effects, self.desk, self.offset_us)

    def go_on(self, seconds: float) -> None:
        end_us = self.now_us + int(seconds * SECOND_US)
        while self.now_us < end_us:
            self.now_us += 20_000
            self._carry(self.feed.handle(Wake(), self.now_us), self.desk, self.offset_us)
            self._carry(self.desk.handle(Wake(), self.now_us + self.offset_us), self.feed, 0)

    def _carry(self, effects: list[object], to: Client, offset_us: int) -> None:  # type: ignore[type-arg]
        self.effects += effects
        for each in effects:
            if isinstance(each, Send) and isinstance(each.message, Publish):
                sent = decode_untrusted(encode(each.message))  # which refuses what is past a limit
                assert isinstance(sent, Publish)
                answer = to.handle(Received("b1", Deliver(sent.publication)), self.now_us + offset_us)
                self._carry(answer, self.feed if to is self.desk else self.desk, self.offset_us - offset_us)

    @property
    def delivered(self) -> list[Scalar]:
        return [each.publication.attributes["n"] for each in self.effects if isinstance(each, Delivered)]


@pytest.mark.parametrize("offset_us", [0, 3_600 * SECOND_US, -900 * SECOND_US])
def test_clocks_that_differ_do_not_delay_the_request_for_a_lost_event(offset_us: int) -> None:
    pair = Pair(offset_us)
    pair.publish({"n": 0})
    pair.go_on(5)
    pair.publish({"n": 1}, is_lost=True)
    pair.go_on(15)
    assert pair.delivered == [0, 1]


@pytest.mark.parametrize("text", ["x" * 2 * PAYLOAD_BYTES_MAX, "€" * (PAYLOAD_BYTES_MAX // 3), "x" * 400_000])
def test_events_with_large_texts_are_repaired_in_messages_that_fit(text: str) -> None:
    pair = Pair()
    pair.publish({"n": 0})
    pair.go_on(5)
    for n in (1, 2, 3):
        pair.publish({"n": n, "text": text}, is_lost=True)
    pair.go_on(15)
    assert sorted(map(int, map(str, pair.delivered))) == [0, 1, 2, 3]


def test_what_is_too_large_for_any_repair_is_told_as_lost() -> None:
    pair = Pair()
    pair.publish({"n": 0})
    pair.go_on(5)
    wide: dict[str, Scalar] = {"n": 1, **{f"a{at}": at for at in range(ATTRIBUTES_MAX - 1)}}
    pair.publish(wide, b"x" * PAYLOAD_BYTES_MAX, is_lost=True)
    pair.go_on(15)
    assert pair.delivered == [0]
    assert [(each.source, each.first) for each in pair.effects if isinstance(each, Lost)] == [("feed", 2)]


def test_texts_count_among_the_bytes_that_a_publisher_keeps() -> None:
    pair = Pair()
    for n in range(60):
        pair.publish({"n": n, "text": "x" * PAYLOAD_BYTES_MAX})
    kept, limit = pair.feed.gauges()["publications kept"][0], pair.feed.gauges()["bytes kept"][1]
    assert kept * PAYLOAD_BYTES_MAX <= limit
