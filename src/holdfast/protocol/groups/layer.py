"""A broker that can be the home of groups: a layer, in which each home is a client of the broker inside.

The first member's broker founds the home. It says so on the group's channel, and while it has other brokers for
neighbours it hands nothing out until rivals had the time to answer: then it keeps what came, or yields to an older one.
Later rivals, after a partition, are found the same way, because homes announce themselves with every heartbeat.

Where brokers store events, the home is a durable client: its events are on disk until a member is done with them, it
begins again with its broker, and while it has no members it is away like any other, within the limits for those. Where
they do not, a home without members ends.
"""

from collections import deque
from collections.abc import Callable, Sequence

from holdfast.language.problems import ConditionError
from holdfast.model.errors import PeerError
from holdfast.model.messages import Deliver, Detach, Message, Publication, Publish
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Begin,
    Consumed,
    Delivered,
    DeliveredBatch,
    Effect,
    Gauges,
    HandedOut,
    Incident,
    Input,
    LinkDown,
    LinkUp,
    Multicast,
    Received,
    Send,
    SubscribeCall,
    Wake,
)
from holdfast.protocol.groups.home import MEMBERS_MAX, WAITING_MAX, GroupHome, Handing
from holdfast.protocol.groups.messages import (
    Announce,
    Join,
    Report,
    channel_of,
    decode_untrusted,
    desk_of,
    envelope,
    home_of,
    is_group_message,
    key_of,
)
from holdfast.protocol.groups.settings import HOMES
from holdfast.protocol.node import BrokerLayer, BrokerMachine, ClientMachine
from holdfast.protocol.recovery.control import address_condition, address_of
from holdfast.protocol.settings import ProtocolSettings
from holdfast.protocol.store_changes import Stored

HOMES_MAX = 1_000  # at one broker: each costs it a look at every tick
_TICKS = 4  # in a heartbeat: how soon silence and losses are noticed
_NEVER_US = 2**62


class _Seat:
    """A home, and the client that it is to the broker."""

    def __init__(self, home: GroupHome, client: ClientMachine, condition: str, founded_us: int, quiet_us: int) -> None:
        self.home = home
        self.client = client
        self.condition = condition
        self.founded_us = founded_us
        self.quiet_us = quiet_us  # until then nothing is handed out
        self.attached = self.subscribed = False
        self.deserted_us = founded_us  # since when it has no members
        self.tokens: deque[tuple[int, int]] = deque()  # what was handed out to us by then, by the broker's token


class GroupLayer(BrokerLayer[BrokerMachine]):
    def __init__(
        self,
        broker: BrokerMachine,
        settings: ProtocolSettings,
        book: ConditionBook,
        new_client: Callable[[str], ClientMachine],
        stored: Stored | None,
        now_us: int,
    ) -> None:
        """With what was `stored`, where events are; `new_client` makes the client that a home is."""
        super().__init__(broker)
        self._settings = settings
        self._book = book
        self._new_client = new_client
        self._stores = stored is not None
        self._desk = address_of(desk_of(broker.name))
        self._brokers: dict[str, None] = {}  # neighbours
        self._seats: dict[str, _Seat] = {}  # by the name of the home
        self._tick_us = _NEVER_US
        self._beat_us = 0  # when homes announce themselves
        if stored is not None:
            self._restore(stored, now_us)

    def _restore(self, stored: Stored, now_us: int) -> None:
        """Homes of an earlier life: they are older than whoever was founded since."""
        for name, each in stored.neighbours.items():
            if each.kind == "broker":
                self._brokers[name] = None
            elif name.startswith(HOMES) and name.endswith(f"@{self.name}"):
                key = name.removeprefix(HOMES).removesuffix(f"@{self.name}")
                _, conditions = each.tables.get("subscriptions", (0, ()))
                found = [text for text in conditions if text not in (address_condition(name), channel_of(key))]
                if found:
                    self._seats[name] = self._new_seat(key, found[0], 0, 0, now_us)
                    self._seats[name].home.restored_us = now_us
                    self._tick_us = now_us

    # The interface of a node ---------------------------------------------------------------------

    def next_due_us(self) -> int:
        return min(self.inner.next_due_us(), self._tick_us)

    def gauges(self) -> Gauges:
        homes = [each.home for each in self._seats.values()]
        if not homes:
            return self.inner.gauges()
        return {
            **self.inner.gauges(),
            "homes of groups": (len(homes), HOMES_MAX),
            "members of a group": (max(len(each.members) for each in homes), MEMBERS_MAX),
            "waiting for a group": (max(each.waiting for each in homes), WAITING_MAX),
        }

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        joins = [each for each in messages if type(each) is Publish and self._is_for_desk(each.publication)]
        if not joins:
            return self._settled(self.inner.receive(sender, messages, now_us), now_us)
        others = [each for each in messages if each not in joins]
        effects = self.inner.receive(sender, others, now_us) if others else []
        for each in joins:
            effects += self._on_desk(sender, each.publication, now_us)
        return self._settled(effects, now_us)

    def _is_for_desk(self, publication: Publication) -> bool:
        return is_group_message(publication) and self._desk in publication.attributes

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        match given:
            case Received():
                return self.receive(given.sender, (given.message,), now_us)
            case Wake():
                due = self.inner.next_due_us() <= now_us
                effects = self.inner.handle(given, now_us) if due else []
                if self._tick_us <= now_us:
                    effects += self._on_tick(now_us)
                return self._settled(effects, now_us)
            case LinkUp(kind="broker"):
                self._brokers[given.neighbour] = None
            case LinkDown():
                self._brokers.pop(given.neighbour, None)
                effects = self.inner.handle(given, now_us)
                for seat in self._seats.values():
                    seat.home.on_client_gone(given.neighbour)
                    effects += self._hand_out(seat, now_us)
                return self._settled(effects, now_us)
            case _:
                pass
        return self._settled(self.inner.handle(given, now_us), now_us)

    def _settled(self, effects: list[Effect], now_us: int) -> list[Effect]:
        """The same effects without what is for homes, and what follows from that."""
        if not self._seats:
            return effects
        out: list[Effect] = []
        waiting = deque(effects)
        while waiting:
            effect = waiting.popleft()
            if type(effect) is Send and effect.to in self._seats:
                waiting += self._on_seat(effect.to, effect.message, now_us)
            elif type(effect) is Multicast and not self._seats.keys().isdisjoint(effect.to):
                others = tuple([name for name in effect.to if name not in self._seats])
                if others:
                    out.append(Multicast(others, effect.message))
                for name in [name for name in effect.to if name in self._seats]:
                    waiting += self._on_seat(name, effect.message, now_us)
            else:
                out.append(effect)
        return out

    # Founding and ending -------------------------------------------------------------------------

    def _on_desk(self, sender: str, publication: Publication, now_us: int) -> list[Effect]:
        """A client of ours asks for the home of a group."""
        message = _decoded(publication)
        if not isinstance(message, Join) or message.member.client != sender:
            return [Incident("bad_group_message", sender)]
        name = home_of(message.key, self.name)
        effects: list[Effect] = []
        if name not in self._seats:
            try:
                condition = str(self._book.subscription(message.condition))
            except ConditionError:
                return [Incident("bad_condition", sender)]
            if message.key != key_of(message.group, condition):
                return [Incident("bad_group_message", sender)]
            if len(self._seats) >= HOMES_MAX:
                return [Incident("group_full", sender)]
            quiet_us = now_us + self._settings.heartbeat_us if self._brokers else 0
            self._seats[name] = self._new_seat(message.key, condition, now_us, quiet_us, now_us)
            self._tick_us = min(self._tick_us, now_us + self._settings.heartbeat_us // _TICKS)
        return effects + self._on_join(self._seats[name], message, now_us)

    def _new_seat(self, key: str, condition: str, founded_us: int, quiet_us: int, now_us: int) -> _Seat:
        name, settings = home_of(key, self.name), self._settings
        home = GroupHome(key, name, settings.lease_us, settings.heartbeat_us // 2)
        seat = _Seat(home, self._new_client(name), condition, founded_us, quiet_us)
        seat.deserted_us = now_us
        return seat

    def _attach(self, seat: _Seat, now_us: int) -> list[Effect]:
        """To the broker, the home is there, and wants what it wants."""
        seat.attached, name = True, seat.home.address
        effects = self.inner.handle(LinkUp(name, "client", reliable=True), now_us)
        effects += self._to_broker(seat, seat.client.handle(LinkUp(self.name, "broker", reliable=True), now_us), now_us)
        if not seat.subscribed:
            seat.subscribed = True
            wanted = ("events", seat.condition), ("own", address_condition(name)), ("all", channel_of(seat.home.key))
            for id_, condition in wanted:
                effects += self._to_broker(seat, seat.client.handle(SubscribeCall(id_, condition), now_us), now_us)
            if self._stores:
                effects += self._to_broker(seat, seat.client.handle(Begin(), now_us), now_us)
        return effects

    def _end(self, seat: _Seat, now_us: int) -> list[Effect]:
        del self._seats[seat.home.address]
        return [*seat.home.incidents(), *self.inner.receive(seat.home.address, (Detach(),), now_us)]

    def _on_join(self, seat: _Seat, join: Join, now_us: int) -> list[Effect]:
        effects = [] if seat.attached else self._attach(seat, now_us)
        seat.home.on_join(join, now_us)
        return effects + self._announce(seat, now_us) + self._hand_out(seat, now_us)

    def _announce(self, seat: _Seat, now_us: int) -> list[Effect]:
        home = seat.home
        said = envelope(home.address, Announce(home.key, home.address, seat.founded_us, home.dropped), None, now_us)
        return self.inner.receive(home.address, (said,), now_us)

    # What comes to a home ------------------------------------------------------------------------

    def _on_seat(self, name: str, message: Message, now_us: int) -> list[Effect]:
        seat = self._seats.get(name)
        if seat is None:
            return []  # it has just ended
        if type(message) is Deliver and is_group_message(message.publication):
            return self._on_group_message(seat, message.publication, now_us)
        if not seat.attached:
            return []
        effects = self._to_broker(seat, seat.client.receive(self.name, (message,), now_us), now_us)
        return effects + self._hand_out(seat, now_us)

    def _to_broker(self, seat: _Seat, effects: list[Effect], now_us: int) -> list[Effect]:
        """What follows from what the client of a home does."""
        out: list[Effect] = []
        for effect in effects:
            if type(effect) is Send:
                out += self.inner.receive(seat.home.address, (effect.message,), now_us)
            elif type(effect) is Delivered:
                seat.home.on_events((effect.publication,))
            elif type(effect) is DeliveredBatch:
                seat.home.on_events(effect.publications)
            elif type(effect) is HandedOut:
                seat.tokens.append((effect.token, seat.home.came))
            elif type(effect) is Incident:
                out.append(effect)
        return out

    def _on_group_message(self, seat: _Seat, publication: Publication, now_us: int) -> list[Effect]:
        message, home = _decoded(publication), seat.home
        if isinstance(message, Announce):
            return self._on_rival(seat, message, now_us)
        if isinstance(message, Join) and message.member.client == publication.source:
            return self._on_join(seat, message, now_us)
        if isinstance(message, Report) and message.member.client == publication.source:
            answers = home.on_report(message, now_us)
            effects = self._send(seat, answers, now_us)
            if message.leaves and not message.lasts and not home.members:
                return effects + self._end(seat, now_us)
            return effects + self._hand_out(seat, now_us)
        return [Incident("bad_group_message", source=publication.source)]

    def _on_rival(self, seat: _Seat, announce: Announce, now_us: int) -> list[Effect]:
        own = seat.founded_us, seat.home.address
        if announce.home == seat.home.address:
            return []
        if own < (announce.founded_us, announce.home):
            return self._announce(seat, now_us)
        unhanded = seat.home.waiting if now_us >= seat.quiet_us else 0  # else the other one has them, too
        return [Incident("group_yielded", announce.home, unhanded, other=seat.home.address), *self._end(seat, now_us)]

    def _hand_out(self, seat: _Seat, now_us: int) -> list[Effect]:
        home = seat.home
        if home.members:
            seat.deserted_us = now_us
        if not self._stores:
            home.drop_oldest()
        effects = self._send(seat, home.hand_out(now_us), now_us) if now_us >= seat.quiet_us else []
        token = 0
        while seat.tokens and seat.tokens[0][1] <= home.done_to:
            token, _ = seat.tokens.popleft()
        if token:
            effects += self._to_broker(seat, seat.client.handle(Consumed(token), now_us), now_us)
        return effects + home.incidents()

    def _send(self, seat: _Seat, handings: list[Handing], now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for client, message in handings:
            said = envelope(seat.home.address, message, client, now_us)
            effects += self.inner.receive(seat.home.address, (said,), now_us)
        return effects

    # Time ----------------------------------------------------------------------------------------

    def _on_tick(self, now_us: int) -> list[Effect]:
        self._tick_us = now_us + self._settings.heartbeat_us // _TICKS if self._seats else _NEVER_US
        beats = self._beat_us <= now_us
        if beats:
            self._beat_us = now_us + self._settings.heartbeat_us
        effects: list[Effect] = []
        for seat in list(self._seats.values()):
            due_us = seat.client.next_due_us() if seat.attached else None
            if due_us is not None and due_us <= now_us:
                effects += self._to_broker(seat, seat.client.handle(Wake(), now_us), now_us)
            effects += self._send(seat, seat.home.on_timer(now_us), now_us)
            effects += self._hand_out(seat, now_us)
            if beats or now_us < seat.quiet_us:
                effects += self._announce(seat, now_us)
            if now_us - seat.deserted_us > self._settings.lease_us:
                effects += self._on_deserted(seat, now_us)
        return effects

    def _on_deserted(self, seat: _Seat, now_us: int) -> list[Effect]:
        """A group without members: its home ends, or is away."""
        if not self._stores:
            return self._end(seat, now_us)
        if not seat.attached:
            return []
        seat.attached = False
        effects = self.inner.handle(LinkDown(seat.home.address), now_us)
        return effects + self._to_broker(seat, seat.client.handle(LinkDown(self.name), now_us), now_us)


def _decoded(publication: Publication) -> object:
    try:
        return decode_untrusted(publication)
    except PeerError:
        return None
