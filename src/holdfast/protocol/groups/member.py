"""A client as a member of groups: a layer that joins, takes what it is handed, and says what it is done with.

It asks its own broker for the group's home, and from then on speaks with the home itself, wherever that is. It hears of
the home on the group's channel. When the home falls silent, a client whose broker stores events waits for it, because
the home has them all; any other asks its broker for a new one, and names the time in between.
"""

from collections.abc import Mapping, Sequence

from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.messages import AttributeValue, Deliver, Message, Publication
from holdfast.protocol.client import CoreClient
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Delivered,
    Effect,
    GroupDone,
    Incident,
    Input,
    LinkUp,
    Lost,
    Received,
    Send,
    SubscribeCall,
    UnsubscribeCall,
    Wake,
)
from holdfast.protocol.groups.messages import (
    Announce,
    GroupMessage,
    Hand,
    Join,
    MemberId,
    Report,
    Stranger,
    channel_of,
    decode_untrusted,
    desk_of,
    envelope,
    is_group_message,
    key_of,
    publication_of,
)
from holdfast.protocol.groups.settings import HANDED_MAX
from holdfast.protocol.node import ClientLayer, ClientMachine, sooner
from holdfast.protocol.recovery.control import address_condition
from holdfast.protocol.settings import ProtocolSettings

_REPORT_US = 10_000  # what is done within this time is reported together
_FULL = "more events of group {} than may wait had no member with room for them"
_PARTS = 4  # a member that is done with a quarter of what it may have says so at once


class _Membership:
    """Of one group."""

    def __init__(self, id_: str, key: str, member: MemberId, call: SubscribeCall, condition: str, now_us: int) -> None:
        self.id = id_  # of the subscription
        self.key = key
        self.member = member
        self.group = call.group
        self.condition = condition
        self.window = min(call.window or HANDED_MAX, HANDED_MAX)
        self.home: Announce | None = None
        self.heard_us = now_us  # when the home was last heard of
        self.stream = 0
        self.received = 0  # of this stream
        self.delivered = 0  # of all streams together, events that the application has been handed,
        self.done = 0  # and those that it is done with
        self.before = 0  # delivered when the stream began
        self.reported = 0  # of this stream, what the home knows to be done

    @property
    def done_here(self) -> int:
        """Of this stream."""
        return max(0, self.done - self.before)


class GroupMember(ClientLayer):
    def __init__(
        self, inner: ClientMachine, core: CoreClient, book: ConditionBook, settings: ProtocolSettings, waits: bool
    ) -> None:
        """Who `waits` for a silent home does not ask for another."""
        super().__init__(inner)
        self._core = core
        self._book = book
        self._settings = settings
        self._waits = waits
        self._epoch = 0
        self._number = 0
        self._of: dict[str, _Membership] = {}  # by the id of the subscription
        self._report_us: int | None = None
        self._beat_us = 0

    def next_due_us(self) -> int | None:
        due_us = self.inner.next_due_us()
        if not self._of or self._core.broker is None:
            return due_us
        return sooner(sooner(due_us, self._report_us), self._beat_us)

    def publish_many(
        self, events: Sequence[Mapping[str, AttributeValue]], encoded: Sequence[bytes], now_us: int
    ) -> list[Effect]:
        return self.inner.publish_many(events, encoded, now_us)

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        if not self._of:
            return self.inner.receive(sender, messages, now_us)
        effects: list[Effect] = []
        for message in messages:
            if type(message) is Deliver and is_group_message(message.publication):
                effects += self._on_message(message.publication, now_us)
            else:
                effects += self.inner.receive(sender, (message,), now_us)
        return effects

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        match given:
            case Received():
                return self.receive(given.sender, (given.message,), now_us)
            case SubscribeCall() if given.group:
                return self._join(given, now_us)
            case UnsubscribeCall() if given.id in self._of:
                return self._leave(given, now_us)
            case GroupDone():
                return self._on_done(given, now_us)
            case Wake():
                return self._on_wake(now_us)
            case LinkUp():
                effects = self.inner.handle(given, now_us)
                for each in self._of.values():
                    effects += self._ask(each, now_us)
                return effects
            case _:
                return self.inner.handle(given, now_us)

    # Joining and leaving -------------------------------------------------------------------------

    def _join(self, call: SubscribeCall, now_us: int) -> list[Effect]:
        if call.id in self._of:
            raise MisuseError(f"{self.name} has a subscription {call.id!r} already")
        condition = str(self._book.subscription(call.condition))
        self._epoch = self._epoch or now_us
        self._number += 1
        member = MemberId(self.name, self._epoch, self._number)
        each = _Membership(call.id, key_of(call.group, condition), member, call, condition, now_us)
        self._of[call.id] = each
        self._core.shares = True
        self._beat_us = self._beat_us or now_us + self._settings.heartbeat_us
        effects = self._core.follow(address_condition(self.name), now_us)
        effects += self._core.follow(channel_of(each.key), now_us)
        return effects + self._ask(each, now_us)

    def _ask(self, each: _Membership, now_us: int) -> list[Effect]:
        """Ask the home for events, or our broker for the home."""
        broker = self._core.broker
        if broker is None:
            return []
        join = Join(each.key, each.member, each.group, each.condition, each.window)
        return self._send(join, desk_of(broker) if each.home is None else each.home.home, now_us)

    def _send(self, message: GroupMessage, to: str, now_us: int) -> list[Effect]:
        broker = self._core.broker
        return [] if broker is None else [Send(broker, envelope(self.name, message, to, now_us))]

    def _leave(self, call: UnsubscribeCall, now_us: int) -> list[Effect]:
        each = self._of.pop(call.id)
        self._core.shares = bool(self._of)
        effects = self._report(each, now_us, True, call.lasts)
        if all(other.key != each.key for other in self._of.values()):
            effects += self._core.unfollow(channel_of(each.key), now_us)
        return effects

    # What comes ----------------------------------------------------------------------------------

    def _on_message(self, publication: Publication, now_us: int) -> list[Effect]:
        try:
            message = decode_untrusted(publication)
        except PeerError:
            return [Incident("bad_group_message", source=publication.source)]
        effects: list[Effect] = []
        for each in [each for each in self._of.values() if each.key == message.key]:
            if isinstance(message, Announce):
                effects += self._on_announce(each, message, now_us)
            elif isinstance(message, Hand) and message.member == each.member:
                effects += self._on_hand(each, message, publication, now_us)
            elif isinstance(message, Stranger) and message.member == each.member:
                if each.home is not None and each.home.home == message.home:
                    effects += self._ask(each, now_us)
        return effects

    def _on_announce(self, each: _Membership, announce: Announce, now_us: int) -> list[Effect]:
        home = each.home
        if home is not None and (home.home, home.founded_us) == (announce.home, announce.founded_us):
            since_us, each.heard_us, each.home = each.heard_us, now_us, announce
            dropped = announce.dropped - home.dropped
            return [Lost("", 0, 0, _FULL.format(each.group), since_us, now_us, dropped)] if dropped > 0 else []
        rivals = home is not None and home.home != announce.home
        if home is not None and rivals and (home.founded_us, home.home) <= (announce.founded_us, announce.home):
            return []  # it will hear of ours
        each.home, each.heard_us = announce, now_us
        each.stream = 0  # another home, or another life of ours, numbers its streams by a clock of its own
        return self._ask(each, now_us)

    def _on_hand(self, each: _Membership, hand: Hand, publication: Publication, now_us: int) -> list[Effect]:
        if each.home is None or each.home.home != hand.home:  # we belong to another
            return []
        each.heard_us = now_us
        if hand.stream != each.stream:
            if hand.first != 1 or hand.stream < each.stream:
                return []  # of an earlier time, or its beginning is still to come
            each.stream, each.received, each.reported, each.before = hand.stream, 0, 0, each.delivered
        new = hand.events[each.received + 1 - hand.first :] if hand.first <= each.received + 1 else ()
        if not new:
            return self._report(each, now_us)  # it came twice, or others are missing
        each.received += len(new)
        each.delivered += len(new)
        self._report_soon(now_us)
        return [Delivered(publication_of(event, publication), (each.id,), "original") for event in new]

    # What is done --------------------------------------------------------------------------------

    def _on_done(self, given: GroupDone, now_us: int) -> list[Effect]:
        each = self._of.get(given.id)
        if each is None:
            return []
        each.done = max(each.done, min(given.done, each.delivered))
        if (each.done_here - each.reported) * _PARTS >= each.window:
            return self._report(each, now_us)
        self._report_soon(now_us)
        return []

    def _report_soon(self, now_us: int) -> None:
        if self._report_us is None:
            self._report_us = now_us + _REPORT_US

    def _report(self, each: _Membership, now_us: int, leaves: bool = False, lasts: bool = False) -> list[Effect]:
        if each.home is None:
            return []
        each.reported = each.done_here
        report = Report(each.key, each.member, each.stream, each.received, each.done_here, leaves, lasts)
        return self._send(report, each.home.home, now_us)

    # Time ----------------------------------------------------------------------------------------

    def _on_wake(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        due_us = self.inner.next_due_us()
        if due_us is not None and due_us <= now_us:
            effects = self.inner.handle(Wake(), now_us)
        if self._of and self._core.broker is not None:
            beats = self._beat_us <= now_us
            if beats:
                self._beat_us = now_us + self._settings.heartbeat_us
            if beats or (self._report_us is not None and self._report_us <= now_us):
                self._report_us = None
                for each in self._of.values():
                    effects += self._report(each, now_us)
                    effects += self._look_for_home(each, now_us) if beats else []
        return effects

    def _look_for_home(self, each: _Membership, now_us: int) -> list[Effect]:
        """Ask again while there is no answer."""
        if now_us - each.heard_us <= self._settings.lease_us and each.home is not None:
            return [] if each.stream else self._ask(each, now_us)
        if each.home is None or self._waits:
            return self._ask(each, now_us)
        silent, since_us = each.home.home, each.heard_us
        each.home, each.heard_us = None, now_us
        reason = f"the home of group {each.group} was silent: {silent}"
        return [Lost("", 0, 0, reason, since_us, now_us), *self._ask(each, now_us)]
