"""A publisher and a subscriber that recover, in a world without brokers where only what a test says is lost."""

from collections.abc import Sequence
from random import Random

from holdfast.matching.index import Index
from holdfast.model.messages import AttributeValue, Deliver, Publication, Publish, Via
from holdfast.protocol.client import CoreClient
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Delivered,
    Effect,
    Incident,
    LinkUp,
    Lost,
    PublishCall,
    Published,
    Received,
    Send,
    SubscribeCall,
    Wake,
)
from holdfast.protocol.node import ClientMachine
from holdfast.protocol.recovery.control import kind_of
from holdfast.protocol.settings import BEST_EFFORT, Order, ProtocolSettings, guarantees_of
from holdfast.protocol.stack import new_client
from holdfast.wire.codec import decode_untrusted, encode

SECOND_US = 1_000_000
_STEP_US = 20_000


class Pair:
    """The subscriber's clock is ahead by the offset."""

    def __init__(
        self,
        order: Order = "none",
        offset_us: int = 0,
        first_seq: int = 1,
        is_feed_plain: bool = False,
        feed_keys: Sequence[bytes] = (),
        desk_keys: Sequence[bytes] = (),
    ) -> None:
        self._feed_keys = feed_keys
        self.desk = _client("desk", order, 1, keys=desk_keys)
        self.begin_anew(first_seq, is_feed_plain)
        self.is_dead = False  # the publisher is
        self.now_us = 1_000 * SECOND_US
        self._offset_us = offset_us
        self._effects: list[Effect] = []
        self.desk.handle(SubscribeCall("s", "n >= 0"), self.now_us + offset_us)

    def begin_anew(self, first_seq: int, is_feed_plain: bool = False) -> None:
        """Another life of the publisher; a plain one does not recover."""
        self.feed = _client("feed", "none", first_seq, is_feed_plain, first_seq, self._feed_keys)

    def publish(self, attributes: dict[str, AttributeValue], payload: bytes = b"", is_lost: bool = False) -> None:
        effects = self.feed.handle(PublishCall(attributes, payload), self.now_us)
        if not is_lost:
            self._carry(effects, self.desk)

    def keep_back(self, attributes: dict[str, AttributeValue]) -> Publication:
        """Publish what does not arrive, unless it is brought."""
        effects = self.feed.handle(PublishCall(attributes), self.now_us)
        return next(each.publication for each in effects if isinstance(each, Published))

    def bring(self, publication: Publication, via: Via) -> None:
        answer = self.desk.handle(Received("b1", Deliver(publication, via)), self.now_us + self._offset_us)
        self._carry(answer, self.feed)

    @property
    def repairs(self) -> int:
        """That the publisher has sent."""
        sent = [each.message for each in self._effects if isinstance(each, Send)]
        controls = [each.publication for each in sent if isinstance(each, Publish) and not each.publication.seq]
        return sum(kind_of(each) == "Repair" for each in controls)

    def go_on(self, seconds: float) -> None:
        for _ in range(int(seconds * SECOND_US / _STEP_US)):
            self.now_us += _STEP_US
            if not self.is_dead:
                self._carry(self.feed.handle(Wake(), self.now_us), self.desk)
            self._carry(self.desk.handle(Wake(), self.now_us + self._offset_us), self.feed)

    def _carry(self, effects: Sequence[Effect], to: ClientMachine) -> None:
        self._effects += effects
        for each in effects:
            if isinstance(each, Send) and isinstance(each.message, Publish) and not (self.is_dead and to is self.feed):
                sent = decode_untrusted(encode(each.message))  # which refuses what is past a limit
                assert isinstance(sent, Publish)
                now_us = self.now_us + (self._offset_us if to is self.desk else 0)
                answer = to.handle(Received("b1", Deliver(sent.publication)), now_us)
                self._carry(answer, self.feed if to is self.desk else self.desk)

    @property
    def digests(self) -> list[Publication]:
        """That the publisher has sent."""
        sent = [each.message for each in self._effects if isinstance(each, Send)]
        controls = [each.publication for each in sent if isinstance(each, Publish) and not each.publication.seq]
        return [each for each in controls if kind_of(each) == "Digest"]

    @property
    def incidents(self) -> list[str]:
        return [each.kind for each in self._effects if isinstance(each, Incident)]

    @property
    def delivered(self) -> list[AttributeValue]:
        return [each.publication.attributes["n"] for each in self._effects if isinstance(each, Delivered)]

    @property
    def lost(self) -> list[tuple[int, int]]:
        return sorted((each.first, each.last) for each in self._effects if isinstance(each, Lost))


def _client(
    name: str, order: Order, first_seq: int, is_plain: bool = False, epoch: int = 1, keys: Sequence[bytes] = ()
) -> ClientMachine:
    wanted = BEST_EFFORT if is_plain else guarantees_of(True, order)
    own = name, ProtocolSettings(), ConditionBook(), Index, epoch, Random(1), first_seq, wanted
    made = new_client(*own, digest_keys=keys)
    made.handle(LinkUp("b1", "broker"), 0)
    return made


def channel(name: str) -> CoreClient:
    """How half of a recovery reaches other clients."""
    made = CoreClient(name, ProtocolSettings(), ConditionBook(), Index, 1, Random(1), recovers=True)
    made.handle(LinkUp("b1", "broker"), 1)
    return made
