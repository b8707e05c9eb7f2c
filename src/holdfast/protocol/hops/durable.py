"""The layer that stores every event before it acknowledges it (`hops = "retransmission"`).

The broker inside knows nothing of it, and says where an event is to go. Then the layer writes the event, for whom it is
kept and how far we are to the store; when that is safe, it hands the event on and acknowledges it. So at any time
somebody has the event safe, until all subscribers have it. Silent neighbours are not forgotten: what they want is kept
for them, and stored as well, so that a broker that begins again knows where events go.
"""

from collections import deque
from collections.abc import Sequence

from holdfast.model.messages import (
    Batch,
    Deliver,
    Delta,
    Detach,
    GivenUp,
    Handover,
    Heartbeat,
    LinkState,
    Message,
    Publish,
    Snapshot,
    StoredAck,
)
from holdfast.protocol.broker import CoreBroker
from holdfast.protocol.effects import (
    Effect,
    Gauges,
    Incident,
    Input,
    LinkDown,
    LinkUp,
    Multicast,
    Persist,
    Persisted,
    Received,
    Save,
    Send,
    Wake,
)
from holdfast.protocol.hops.absent_clients import Away
from holdfast.protocol.hops.incoming import Incoming
from holdfast.protocol.hops.outgoing import KeptMessage, Outgoing, events_in, is_control
from holdfast.protocol.hops.safe_then import SafeThen
from holdfast.protocol.hops.settings import HandoverSettings
from holdfast.protocol.hops.store_admission import has_own_part, shared_part
from holdfast.protocol.node import BrokerLayer
from holdfast.protocol.store_changes import (
    AckedUpTo,
    At,
    Began,
    Body,
    Change,
    Erase,
    Forgot,
    Keep,
    Knows,
    Learned,
    Met,
    Opened,
    Partly,
    Skipped,
    Stored,
)

_WAKE = Wake()
_NEVER_US = 2**62
_GIVE_UP_PARTS = 10  # what is kept for who is away is given up a tenth at a time, not with every event


class DurableLayer(BrokerLayer[CoreBroker]):
    def __init__(self, broker: CoreBroker, settings: HandoverSettings, stored: Stored, now_us: int) -> None:
        super().__init__(broker)
        self._settings = settings
        self._acknowledges: dict[str, bool] = {}  # neighbours, and whether they say what they have taken
        self._incoming: dict[str, Incoming] = {}
        self._outgoing: dict[str, Outgoing] = {}
        self._kept: dict[int, KeptMessage] = {}  # by body
        self._events = 0  # in them
        self._early = 0  # events that have come before others that are missing
        self._for_clients = 0  # of those that are kept, events that some client has not taken
        self._body = 0  # the last number given to one
        self._stream = 0  # the last that was opened
        self._token = 0
        self._changes: list[Change] = []  # not yet handed to the store
        self._urgent = False  # somebody waits for them
        self._safe_then = SafeThen()  # what may happen when they are safe
        self._waiting: deque[tuple[int, SafeThen]] = deque()  # the same for what the store has, by token
        self._heard_us: dict[str, int] = {}
        self._away = Away(settings, dict(stored.gave_up))
        self._due_us = _NEVER_US  # of handing over; never late, sometimes early
        self._sweep_us = now_us + settings.sweep_us
        self._restore(stored, now_us)

    # Beginning again -----------------------------------------------------------------------------

    def _restore(self, stored: Stored, now_us: int) -> None:
        if stored.epoch is None:
            self._changes.append(Began(now_us))
        bodies = {
            body: KeptMessage(body, each, at_us, self._settings.keep_us)
            for body, (at_us, each) in stored.bodies.items()
        }
        for name, each in stored.neighbours.items():
            self._acknowledges[name] = each.acknowledges
            self._heard_us[name] = now_us
            if each.kind == "client":
                self._away.begin(name, now_us)
            self.inner.handle(LinkUp(name, each.kind), now_us)  # what it would say has been said in its earlier life
            for table, (version, conditions) in each.tables.items():
                self.inner.handle(Received(name, Snapshot(table, version, tuple(conditions))), now_us)
            if each.at is not None:
                self._incoming[name] = Incoming(self._settings.window, *each.at)
            if each.stream is not None:
                self._stream = max(self._stream, each.stream)
                outgoing = self._outgoing[name] = Outgoing(each.stream, self._settings, each.kind == "client")
                outgoing.restore({seq: bodies[body] for seq, body in each.queue.items()}, each.used, each.partly)
                if len(outgoing):
                    outgoing.due_us = self._due_us = now_us
        brokers = [name for name, each in stored.neighbours.items() if each.kind == "broker"]
        for state in stored.states:
            if brokers:
                self.inner.handle(Received(brokers[0], state), now_us)
        for kept in bodies.values():
            self._body = max(self._body, kept.body)
            if kept.holders:
                self._kept[kept.body] = kept
                self._events += kept.events
                self._for_clients += kept.events if kept.clients else 0
            else:
                self._changes.append(Erase((kept.body,)))

    # The interface of a node ---------------------------------------------------------------------

    def next_due_us(self) -> int:
        return min(self._due_us, self._sweep_us, self.inner.next_due_us())

    def gauges(self) -> Gauges:
        early = max(map(len, self._incoming.values()), default=0)
        return {
            **self.inner.gauges(),
            "stored events": (self._events, self._settings.stored_max),
            "early from a neighbour": (early, self._settings.window),
        }

    def backlog(self, neighbour: str) -> list[Body]:
        """What a neighbour is still to get."""
        return [kept.message for kept in self._outgoing[neighbour].kept()] if neighbour in self._outgoing else []

    def keeps_for(self, client: str) -> bool:
        if not self._acknowledges.get(client) or self.inner.kind_of(client) != "client":
            return False
        return bool(self._outgoing.get(client) or self.inner.heard_summary(client, "subscriptions")[1])

    def has_settled(self, now_us: int) -> bool:
        """Whether it has nothing to hand over."""
        return not self._kept

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for message in messages:
            effects += self._on_received(sender, message, now_us)
        return self._persist(effects)

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        match given:
            case Received():
                return self._persist(self._on_received(given.sender, given.message, now_us))
            case Persisted():
                return self._on_persisted(given.token, now_us)
            case Wake():
                return self._persist(self._on_wake(now_us))
            case Save():
                self._store_rest()
                return self._persist([])
            case LinkUp():
                return self._persist(self._on_link_up(given, now_us))
            case LinkDown():  # it is out of reach, not gone: what it wants is kept for it
                if self.inner.kind_of(given.neighbour) == "client":
                    self._away.begin(given.neighbour, now_us)
                return []
            case _:
                raise AssertionError(f"a broker cannot handle {given!r}")

    def _persist(self, effects: list[Effect]) -> list[Effect]:
        """Hand the changes to the store when somebody waits for them; others come along or wait for the next sweep."""
        if self._urgent:
            self._token += 1
            self._waiting.append((self._token, self._safe_then))
            effects.append(Persist(self._token, tuple(self._changes)))
            self._changes, self._safe_then, self._urgent = [], SafeThen(), False
        return effects

    def _on_persisted(self, token: int, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        while self._waiting and self._waiting[0][0] <= token:
            _, then = self._waiting.popleft()
            effects += then.effects
            for name, (stream, seq) in then.ack.items():
                incoming = self._incoming.get(name)
                if incoming is not None and incoming.stream == stream:
                    incoming.stored = max(incoming.stored, seq)
                    effects.append(Send(name, incoming.ack))
            for name, (stream, seq) in then.kept.items():
                outgoing = self._outgoing.get(name)
                if outgoing is not None and outgoing.stream == stream:
                    effects += self._hand_over(name, outgoing.release(seq, now_us))
        return effects

    # What comes ----------------------------------------------------------------------------------

    def _on_received(self, sender: str, message: Message, now_us: int) -> list[Effect]:
        if sender in self._heard_us:
            self._heard_us[sender] = now_us
        if type(message) is Handover:
            return self._on_handover(sender, message, now_us)
        if type(message) is StoredAck:
            return self._on_ack(sender, message, now_us)
        if type(message) is GivenUp:
            self._changes += self._away.on_heard(sender, message)
            return []
        if type(message) is Publish or type(message) is Batch:
            return self._route(self.inner.handle(Received(sender, message), now_us), now_us)
        return self._on_control(sender, message, now_us)

    def _on_handover(self, sender: str, handover: Handover, now_us: int) -> list[Effect]:
        if not self.inner.knows(sender):
            return [Incident("unknown_neighbour", sender)]  # it is not told that we have it, and comes again
        incoming = self._incoming.get(sender)
        if incoming is None:
            incoming = self._incoming[sender] = Incoming(self._settings.window)
        if not self._can_store(sender, incoming, handover):
            return [Incident("store_full", sender)]
        self._early -= incoming.early
        ready = incoming.take(handover)
        self._early += incoming.early
        if ready is None:
            return [Incident("clock_went_back", sender)]  # or, over UDP, something was overtaken by a later life
        if not ready:
            return [Send(sender, incoming.ack)]  # it came before, or others are missing
        self._acknowledges.setdefault(sender, True)
        effects: list[Effect] = []
        for each in ready:
            if each is not None:
                effects += self._route(self.inner.handle(Received(sender, each), now_us), now_us)
        self._changes.append(At(sender, incoming.stream, incoming.accepted))
        self._safe_then.ack[sender] = incoming.stream, incoming.accepted
        self._urgent = True
        return effects

    def _can_store(self, sender: str, incoming: Incoming, handover: Handover) -> bool:
        """Whether the store takes it, with all that has come early and would be stored after it."""
        message = handover.message
        if message is None:
            return True
        count = events_in(message)
        most = shared_part(self._settings.stored_max, 0 if isinstance(message, Deliver) else message.hops)
        if self._events + self._early + count <= most:
            return True
        if handover.stream == incoming.stream and handover.seq > incoming.accepted + 1:
            return False
        self._early -= incoming.drop_early()  # what others wait for goes first; they will come again
        if not self._events or self._events + self._early + count <= most:
            return True
        if self.inner.kind_of(sender) != "broker":
            return False
        others = [each.events for name, each in self._outgoing.items() if name != sender and not each.to_client]
        return has_own_part(self._settings.stored_max, [*others, self._for_clients], count)

    def _on_ack(self, sender: str, ack: StoredAck, now_us: int) -> list[Effect]:
        kind = self.inner.kind_of(sender)
        if kind is not None and not self._acknowledges.get(sender):
            self._acknowledges[sender] = True
            self._changes.append(Met(sender, kind, True))
        outgoing = self._outgoing.get(sender)
        attaches = ack.stream == 0
        effects: list[Effect] = []
        if ack.seq == 0 if attaches else outgoing is not None and outgoing.stream == ack.stream:
            was_away = self._away.end(sender)
            effects = self._report_given_up(sender, now_us) if was_away or attaches else []
        if outgoing is None:
            return effects
        if attaches:
            return effects if ack.seq else effects + self._hand_over(sender, outgoing.try_again(now_us))
        done = outgoing.on_ack(ack, now_us)
        if done:
            self._changes.append(AckedUpTo(sender, ack.seq))
            self._release(outgoing, done)
        return effects + self._hand_over(sender, [*outgoing.missed(ack, now_us), *outgoing.fill(now_us)])

    def _report_given_up(self, client: str, now_us: int) -> list[Effect]:
        notice = self._away.notice(client, now_us) if self._acknowledges.get(client) else None
        return [] if notice is None else [Send(client, notice)]

    def _release(self, outgoing: Outgoing, done: list[KeptMessage]) -> None:
        """Erase what nobody needs any more, after one neighbour has no more need of it."""
        for kept in done if outgoing.to_client else ():
            kept.clients -= 1
            if not kept.clients:
                self._for_clients -= kept.events
        gone = [kept for kept in done if not kept.holders and self._kept.pop(kept.body, None) is not None]
        if gone:
            self._events -= sum([kept.events for kept in gone])
            self._changes.append(Erase(tuple([kept.body for kept in gone])))

    def _on_control(self, sender: str, message: Message, now_us: int) -> list[Effect]:
        if type(message) is Detach:
            self._urgent = True  # it may rely on it, and must not come back with us after a crash
            self._changes += self._away.forgive(sender)
            return self._forget(sender, "backlog_dropped", now_us)
        knew = self.inner.knows(sender)
        if isinstance(message, Heartbeat) and self.inner.kind_of(sender) == "client":
            self._check_epoch(sender, message)
        table = message.table if isinstance(message, Delta | Snapshot) else None
        before = self.inner.heard_summary(sender, table) if table is not None and knew else None
        drop = self.inner.dropped_by(sender, message)
        effects = self._route(self.inner.handle(Received(sender, message), now_us), now_us)
        if not knew:
            self._meet(sender, now_us)
        if table is not None and self.inner.knows(sender) and self.inner.heard_summary(sender, table) != before:
            assert isinstance(message, Delta | Snapshot)
            add, drop = (message.add, message.drop) if isinstance(message, Delta) else (message.conditions, drop)
            is_all = isinstance(message, Snapshot) and message.parts == 1
            self._changes.append(Learned(sender, table, message.version, add, drop, is_all))
            self._urgent = True
        if isinstance(message, LinkState) and self.inner.holds(message):
            self._changes.append(Knows(message))
            self._urgent = True
        if self._urgent:  # nobody is to rely on what we have not stored
            self._safe_then.effects += effects
            effects = []
        outgoing = self._outgoing.get(sender)
        if isinstance(message, Heartbeat):
            effects += self._report_given_up(sender, now_us)  # until we know that it has heard it
            if outgoing is not None and outgoing.quiet:
                effects += self._hand_over(sender, outgoing.try_again(now_us))
        return effects

    def _check_epoch(self, client: str, summary: Heartbeat) -> None:
        """In another life a client may not say any more what it takes. One that does says so in its next message.

        What it wanted in its earlier life is kept: it will mend the table when it has subscribed to everything.
        """
        if self._acknowledges.get(client) and self.inner.began_anew(client, summary.epoch):
            self.inner.adopt(client, summary.epoch)
            self._acknowledges[client] = False
            self._changes.append(Met(client, "client", False))

    # Neighbours ----------------------------------------------------------------------------------

    def _on_link_up(self, given: LinkUp, now_us: int) -> list[Effect]:
        name = given.neighbour
        if not self.inner.knows(name):
            effects = self._route(self.inner.handle(given, now_us), now_us)
            self._meet(name, now_us)
            return effects
        effects = self.inner.greet(name, now_us)
        if name in self._outgoing:
            effects += self._hand_over(name, self._outgoing[name].try_again(now_us))
        return effects

    def _meet(self, name: str, now_us: int) -> None:
        kind = self.inner.kind_of(name)
        if kind is not None:
            self._heard_us[name] = now_us
            self._acknowledges.setdefault(name, kind == "broker")
            self._changes.append(Met(name, kind, self._acknowledges[name]))

    def _forget(self, name: str, why: str, now_us: int) -> list[Effect]:
        effects = self._route(self.inner.handle(LinkDown(name), now_us), now_us)
        outgoing = self._outgoing.pop(name, None)
        if outgoing is not None and len(outgoing):
            left = outgoing.kept()
            for kept in left:
                kept.holders -= 1
            self._release(outgoing, left)
            effects.append(Incident(why, name, sum([kept.events for kept in left])))
        self._acknowledges.pop(name, None)
        incoming = self._incoming.pop(name, None)
        self._early -= 0 if incoming is None else incoming.early
        self._heard_us.pop(name, None)
        self._away.end(name)
        self._changes.append(Forgot(name))
        return effects

    # What goes -----------------------------------------------------------------------------------

    def _route(self, effects: list[Effect], now_us: int) -> list[Effect]:
        """What the broker wants to happen, but events are kept for those who say what they take."""
        out: list[Effect] = []
        for effect in effects:
            names = effect.to if type(effect) is Multicast else (effect.to,) if type(effect) is Send else ()
            message = effect.message if names else None  # type: ignore[union-attr]
            if not isinstance(message, Body) or is_control(message):
                out.append(effect)
                continue
            takers = [name for name in names if self._acknowledges.get(name)]
            if len(takers) < len(names):
                out.append(Multicast(tuple([name for name in names if not self._acknowledges.get(name)]), message))
            if takers:
                self._keep(takers, message, now_us)
        return out

    def _keep(self, takers: list[str], message: Body, now_us: int) -> None:
        self._body += 1
        kept = self._kept[self._body] = KeptMessage(self._body, message, now_us, self._settings.keep_us)
        self._events += kept.events
        to: list[tuple[str, int]] = []
        for name in takers:
            outgoing = self._outgoing.get(name)
            if outgoing is None:
                to_client = self.inner.kind_of(name) == "client"
                self._stream = max(now_us, self._stream + 1)  # two of an instant are not the same; 0: attaches
                outgoing = self._outgoing[name] = Outgoing(self._stream, self._settings, to_client)
                self._changes.append(Opened(name, outgoing.stream))
            seq = outgoing.put(kept)
            self._safe_then.kept[name] = outgoing.stream, seq
            to.append((name, seq))
        self._for_clients += kept.events if kept.clients else 0
        self._changes.append(Keep(self._body, now_us, message, tuple(to)))
        self._urgent = True
        for name in takers:
            most = self._away.most_for(name, now_us)
            if most is not None and self._outgoing[name].events > most:
                self._give_up_oldest(name, most)

    def _give_up_oldest(self, client: str, most: int) -> None:
        """Give up the oldest of what is kept for a client that is away."""
        outgoing = self._outgoing[client]
        gone = outgoing.give_up(most - most // _GIVE_UP_PARTS)
        self._give_up(client, gone, f"more than {most:,} events arrived while the client was away")
        self._changes += [Skipped(client, seq) for seq, _ in gone]
        self._release(outgoing, [kept for _, kept in gone])

    def _give_up(self, client: str, gone: list[tuple[int, KeptMessage]], reason: str) -> None:
        if gone:
            kept_us = [kept.kept_us for _, kept in gone]
            events = sum([kept.events for _, kept in gone])
            self._changes += self._away.give_up(client, min(kept_us), max(kept_us), events, reason)
            self._safe_then.effects.append(Incident("stored_events_dropped", client, events))

    def _hand_over(self, name: str, handovers: list[Handover]) -> list[Effect]:
        self._due_us = min(self._due_us, self._outgoing[name].due_us or _NEVER_US)
        return [Send(name, each) for each in handovers]

    # Time ----------------------------------------------------------------------------------------

    def _on_wake(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if self.inner.next_due_us() <= now_us:
            effects = self._route(self.inner.handle(_WAKE, now_us), now_us)
        if self._sweep_us <= now_us:
            self._sweep_us = now_us + self._settings.sweep_us
            effects += self._sweep(now_us)
        if self._due_us <= now_us:
            self._due_us = _NEVER_US
            for name, outgoing in self._outgoing.items():
                effects += self._hand_over(name, outgoing.on_timer(now_us))
        return effects

    def _sweep(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for name, outgoing in self._outgoing.items():
            expired = outgoing.expire(now_us)
            for seq, kept in expired:
                self._changes.append(Skipped(name, seq))
                effects.append(kept.expired(name))
            if outgoing.to_client:
                too_long = [(seq, kept) for seq, kept in expired if not kept.has_lifetime]
                self._give_up(name, too_long, f"kept for longer than {self._settings.keep_us / 1e6:g} s")
            self._release(outgoing, [kept for _, kept in expired])
        gone = [
            name
            for name, heard_us in self._heard_us.items()
            if now_us - heard_us > self._settings.keep_us and self.inner.kind_of(name) == "client"
        ]
        for name in gone:
            self._remember_forgotten(name, now_us)
            effects += [Incident("client_forgotten", name), *self._forget(name, "backlog_dropped", now_us)]
        self._store_rest()
        return effects

    def _store_rest(self) -> None:
        """Store what nobody waits for, and how far clients are in runs; most runs are finished before a sweep."""
        found = [(name, each.partly()) for name, each in self._outgoing.items()]
        self._changes += [Partly(name, *partly) for name, partly in found if partly is not None]
        self._urgent = self._urgent or bool(self._changes)

    def _remember_forgotten(self, client: str, now_us: int) -> None:
        """A client that took part is forgotten: it is told when it comes back after all."""
        if self._acknowledges.get(client) and self.inner.heard_summary(client, "subscriptions")[1]:
            events = self._outgoing[client].events if client in self._outgoing else 0
            since_us = self._away.since_us(client, self._heard_us[client])
            reason = f"away for longer than {self._settings.keep_us / 1e6:g} s; later events are not counted"
            self._changes += self._away.give_up(client, since_us, 0, events, reason)
