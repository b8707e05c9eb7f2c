"""The layer that helps to replace a broker's neighbours, and that makes a broker a replica.

What it adds happens only when a neighbour fails or a replica speaks to us. Tables are told to a replica as to any
neighbour, except that a faulty broker and its replica stand in one place: neither is told what came from the other, so
there is never a second or a circular way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace as settings_with
from functools import partial
from typing import get_args

from msgspec.structs import replace

from holdfast.model.messages import (
    Batch,
    Delta,
    Detach,
    Heartbeat,
    Message,
    Publish,
    Snapshot,
    Stamped,
    TableRefused,
)
from holdfast.model.replication_messages import (
    CopyDone,
    CopyOpen,
    Echo,
    EchoAnswer,
    HighWaterMarks,
    LastAdvertisement,
    LastSubscription,
    Neighbours,
    ReplicaRelease,
    ReplicaRequest,
    ReplicationMessage,
    Retired,
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
    NeighboursListed,
    Received,
    ReplicaWanted,
    Send,
    Wake,
)
from holdfast.protocol.hops.failure_detector import FailureDetector
from holdfast.protocol.hops.settings import WatchSettings
from holdfast.protocol.node import BrokerLayer
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.replication.departure import Departure
from holdfast.protocol.replication.directory import Directory, Successors
from holdfast.protocol.replication.neighbour_failover import Failovers
from holdfast.protocol.replication.relief import Relief
from holdfast.protocol.replication.reliefs import Released, Reliefs
from holdfast.protocol.replication.replica import copies_between
from holdfast.protocol.replication.replica_session import ReplicaSession
from holdfast.protocol.replication.settings import ReplicationSettings, Role
from holdfast.protocol.replication.states import FailoverEvent, FailoverState
from holdfast.protocol.replication.takeovers import Takeovers
from holdfast.protocol.tree import TreeRouter

_REPLICATION = get_args(ReplicationMessage)
_EVENTS = (Publish, Stamped, Batch)
_WAKE = Wake()


class ReplicationLayer(BrokerLayer[CoreBroker]):
    def __init__(
        self,
        broker: CoreBroker,
        tree: TreeRouter,
        parts: BrokerParts,
        settings: ReplicationSettings,
        role: Role | None,
        watch: WatchSettings,
    ) -> None:
        """Around a broker that routes by this tree; with a role, it is a replica."""
        super().__init__(broker)
        broker.judge = self._judge
        self._tree = tree
        self._book = parts.book
        self._settings = settings
        self._failovers = Failovers(settings)
        self._directory = Directory(parts.name, settings.directory is not None)
        self._retired = Successors(settings.retired_max)
        known = self._failovers, self._directory, self._retired, parts.queue_length
        self._reliefs = Reliefs(broker, tree, settings, *known, self._let_go)
        self._reorderings = self._reliefs.reorderings
        self._stalled_max = settings.patience_us // parts.settings.heartbeat_us
        # Heartbeats are the beats: watching costs no message.
        self._watch = FailureDetector(settings_with(watch, beat_us=parts.settings.heartbeat_us), parts.epoch)
        together = self._failovers, self._directory, self._retired, self._reliefs, self._watch
        settle_us = 2 * parts.settings.heartbeat_us
        self._takeovers = Takeovers(broker, tree, settings, *together, settle_us, self._on_replica_gone)
        self._copies = partial(copies_between, tree, broker)
        self._session: ReplicaSession | None = None
        self._departure: Departure | None = None
        if role is not None:
            if role.use == "failover":
                broker.outages.stand_for(role.faulty)
            else:
                beats_us = parts.settings.heartbeat_us, 2 * settings.retry_us
                self._departure = Departure(role.faulty, parts.epoch, *beats_us)
            own = role, parts.epoch, settings, self._copies, tree, parts.book, self._want_if_silent
            self._session = ReplicaSession(*own)

    # Of itself -----------------------------------------------------------------------------------

    def next_due_us(self) -> int:
        due_us = self.inner.next_due_us()
        if self._session is not None:
            due_us = min(due_us, self._session.next_due_us() or due_us)
        for failover in self._failovers:
            due_us = min(due_us, failover.next_due_us() or due_us)
        return min(due_us, self._reliefs.next_due_us() or due_us)

    def gauges(self) -> Gauges:
        return {
            **self.inner.gauges(),
            "waiting for a replica": (self._failovers.waiting, self._settings.pending_max),
            "waiting for their order": (self._reorderings.held, self._settings.held_max),
            "kept by a replica": (len(self._session.cache) if self._session else 0, self._settings.cache_max),
        }

    @property
    def counts(self) -> Mapping[str, int]:
        """Entries of queues and caches that it has handled: what the bookkeeping of replication costs."""
        cached = 0 if self._session is None else self._session.cache.matched
        return {**self.inner.counts, "replication entries": self._failovers.entries + cached}

    def has_settled(self, now_us: int) -> bool:
        return not self._reorderings.held and not self._failovers.waiting and self.inner.has_settled(now_us)

    def neighbours_of(self, broker: str) -> tuple[str, ...]:
        """Those next to this broker, as far as is known here."""
        return self._directory.neighbours_of(broker)

    # Inputs --------------------------------------------------------------------------------------

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        if not self._is_busy and sender not in self._retired and all(type(each) in _EVENTS for each in messages):
            return self.inner.receive(sender, messages, now_us)
        return super().receive(sender, messages, now_us)

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        if type(given) is Received:
            effects = self._on_received(given.sender, given.message, now_us)
        elif type(given) is Wake:
            effects = self._on_wake(now_us)
        elif type(given) is LinkUp:
            effects = self._on_link_up(given, now_us)
        elif type(given) is LinkDown:
            effects = self._on_link_down(given.neighbour, now_us)
        elif type(given) is NeighboursListed:
            self._directory.on_neighbours(given.broker, given.neighbours)
            return []
        else:
            effects = self.inner.handle(given, now_us)
        return self._after(effects, now_us) if self._is_busy else effects

    @property
    def _is_busy(self) -> bool:
        return bool(self._failovers or self._reliefs or self._is_copying)

    @property
    def _is_copying(self) -> bool:
        return self._session is not None and not self._session.is_done

    def _on_received(self, sender: str, message: Message, now_us: int) -> list[Effect]:
        if not self.inner.knows(sender):
            return self._on_unknown(sender, message, now_us)
        if type(message) is Publish or type(message) is Stamped:
            return self._on_publish(sender, message, now_us)
        if type(message) is not Batch:
            return self._on_control(sender, message, now_us)
        if not self._is_busy or self.inner.refusal(sender, message, now_us) is not None:
            return self.inner.handle(Received(sender, message), now_us)
        return [effect for each in message.published() for effect in self._on_publish(sender, each, now_us)]

    def _on_wake(self, now_us: int) -> list[Effect]:
        is_heartbeat_due = now_us >= self.inner.heartbeat_us
        effects = self.inner.handle(_WAKE, now_us)
        if is_heartbeat_due:
            for name in [each for each in self._watch.names() if not self.inner.knows(each)]:
                self._watch.end(name)
            effects += self._reliefs.on_heartbeat(self._stalled_max)
            effects += self._announce() + self._reliefs.look(now_us) + self._depart(now_us)
        if self._session is not None:
            effects += self._session.on_timer(now_us)
        for failover in self._failovers:
            if failover.back_us is not None and now_us >= failover.back_us:
                effects += self._takeovers.resume(failover)
            elif failover.patience_is_over(now_us):
                effects += self._takeovers.give_up(failover, now_us)
            else:
                effects += failover.on_timer(now_us, self.neighbours_of)
        for relief in self._reliefs:
            if relief.state.copies:
                relief.copy.on_timer(now_us)
        return effects + self._reliefs.take_marks(now_us)

    def _announce(self) -> list[Effect]:
        """Who is next to us. A neighbour that waits for its replica is: whoever replaces us is to ask that one."""
        brokers = self.inner.brokers().items()
        return self._directory.announce([name for name, is_up in brokers if is_up or name in self._failovers])

    def _want_if_silent(self, name: str) -> list[Effect]:
        """A neighbour that we are to ask as a replica may be dead as well, and nobody else next to it."""
        if not self._settings.replace or not self.inner.is_silent(name):
            return []
        return [ReplicaWanted(name, self._directory.neighbours_of(name), self._settings.copying, "failover")]

    def _depart(self, now_us: int) -> list[Effect]:
        if self._departure is None:
            return []
        joining = any(each.state.copies for each in self._reliefs)
        is_free = not (self._is_copying or self._failovers or self._reorderings.held or joining)
        neighbours = [name for name, is_up in self.inner.brokers().items() if is_up or name in self._failovers]
        if self._departure.is_leaving:  # there is nothing left that the successor of a dead neighbour could miss
            neighbours = [name for name in neighbours if name not in self._failovers]
        return self._departure.on_heartbeat(neighbours, is_free, now_us)

    # A neighbour fails ---------------------------------------------------------------------------

    def _judge(self, name: str, now_us: int) -> list[Effect]:
        """Brokers that can be replaced are judged by how regular they were before, others by the lease."""
        replaceable = self.inner.kind_of(name) == "broker" and self._settings.replace
        if not (self._watch.gives_up(name, now_us) if replaceable else self.inner.lease_is_over(name, now_us)):
            return []
        if name in self._reliefs or self._failovers.has_replica(name):
            return [*self._on_replica_gone(name, now_us), *self.inner.expire(name, now_us)]
        if name in self._failovers:
            return self._takeovers.on_broker_gone(name, now_us)
        if replaceable:
            return self._takeovers.suspect(name, now_us, now_us)
        return [*self.inner.expire(name, now_us), *self._reliefs.leave_order(name)]

    def _on_link_down(self, name: str, now_us: int) -> list[Effect]:
        kind = self.inner.kind_of(name)
        effects: list[Effect] = []
        if name in self._reliefs or self._failovers.has_replica(name):
            effects = self._on_replica_gone(name, now_us)
        elif kind is not None and name in self._failovers:
            return self._takeovers.on_broker_gone(name, now_us)
        elif kind == "broker" and self._settings.replace and name not in self._retired:
            return self._takeovers.suspect(name, now_us, now_us + self._settings.suspect_us)
        if self._departure is not None:
            self._departure.on_gone(name)
        return effects + self._reliefs.leave_order(name) + self.inner.handle(LinkDown(name), now_us)

    # Links ---------------------------------------------------------------------------------------

    def _on_link_up(self, given: LinkUp, now_us: int) -> list[Effect]:
        name, kind, replaces = given.neighbour, given.kind, given.replaces
        if name in self._retired:
            return [Incident("replaced_broker_returned", name), Send(name, Retired(self._retired[name]))]
        if self._departure is not None and self._departure.is_leaving:
            return [Send(name, Retired(self._departure.faulty))]
        is_known = self.inner.knows(name)
        failover = self._failovers.get(name)
        if failover is not None and failover.state is FailoverState.SUSPECTED and is_known:
            return self.inner.greet(name, now_us)  # its heartbeat says whether it is the same as before
        if failover is not None:
            return [Send(name, Retired(failover.replica or self.name))]
        replaces_known = replaces is not None and (self.inner.knows(replaces) or replaces in self._failovers)
        effects = self._on_link_down(name, now_us) if is_known else []
        if kind == "broker" and replaces_known:
            self.inner.admit(
                name, now_us, given.reliable, given.hears_outages
            )  # told nothing until it says what it wants
        elif is_known:
            return effects + self._on_link_up(replace(given, replaces=None), now_us)
        else:
            effects += self.inner.handle(replace(given, replaces=None), now_us)
        if kind == "broker":
            self._watch.begin(name, now_us)
            self._reliefs.on_holder_up(name)
            is_beside = self._departure is not None  # whoever comes has to know whom we stand beside
            if self._session is not None and (self._is_copying or is_beside or not replaces_known):
                effects += self._session.on_link_up(name, replaces)
            effects += self._announce()  # at once: we may be gone before the next heartbeat
        return effects

    def _on_unknown(self, name: str, message: Message, now_us: int) -> list[Effect]:
        if name in self._retired:  # two that retired each other would answer each other for ever
            return [] if type(message) is Retired else self._on_link_up(LinkUp(name, "broker"), now_us)
        effects: list[Effect] = []
        if type(message) is ReplicaRequest:
            self.inner.admit(name, now_us)
        elif type(message) is Heartbeat:
            effects = self._on_link_up(LinkUp(name, message.kind), now_us)
        else:
            return self.inner.handle(Received(name, message), now_us)
        return effects + self._on_control(name, message, now_us) if self.inner.knows(name) else effects

    # Control -------------------------------------------------------------------------------------

    def _on_control(self, name: str, message: Message, now_us: int) -> list[Effect]:
        kind = self.inner.kind_of(name)
        if kind == "broker":
            self._watch.begin(name, now_us)
            self._watch.on_heard(name, type(message) is Heartbeat, now_us)
        failover = self._failovers.get(name)
        if type(message) in _REPLICATION:
            if kind != "broker":
                return [Incident("unexpected_message", name)]
            heard = [] if failover is not None else self.inner.heard(name, now_us)
            return heard + self._on_replication(name, message, now_us)
        forgot = type(message) is Heartbeat and self.inner.began_anew(name, message.epoch)
        effects: list[Effect] = []
        if failover is not None:
            if failover.state is not FailoverState.SUSPECTED:
                return []  # its tables no longer count
            effects = self._takeovers.on_return(failover, forgot, now_us)
        if type(message) is Detach:
            return effects + self.inner.heard(name, now_us) + self._on_link_down(name, now_us)
        by_it = self._failovers.by(name) or self._reliefs.get(name)
        if type(message) is Heartbeat and (self._is_copying or (by_it is not None and by_it.state.copies)):
            # Tables on their way to a replica take long; what is missing is asked for.
            self.inner.adopt(name, message.epoch)
            return effects + self.inner.heard(name, now_us)
        subscribes = kind == "client" and isinstance(message, Delta | Snapshot) and message.table == "subscriptions"
        was_served = not subscribes or self._tree.serves
        effects += self.inner.handle(Received(name, message), now_us)
        if not was_served and self._tree.serves:
            effects = self._reliefs.tell_alone(now_us) + effects
        if self._session is not None and forgot:
            effects += self._session.on_link_up(name, None)  # or it would take the faulty broker in again
        if type(message) is Delta or type(message) is Snapshot:
            refused = any(type(each) is Send and type(each.message) is TableRefused for each in effects)
            effects += [] if refused else self._on_table(name, message)
        return effects

    def _on_table(self, name: str, change: Delta | Snapshot) -> list[Effect]:
        if change.table != "subscriptions":
            return []
        given = list(change.add if isinstance(change, Delta) else change.conditions)
        failover = self._failovers.by(name)
        if failover is not None:
            failover.on_subscriptions(given, self._book)
        return [] if self._session is None else self._session.on_subscriptions(name, given)

    def _on_replication(self, name: str, message: Message, now_us: int) -> list[Effect]:
        session, failover = self._session, self._failovers.by(name)
        match message:
            case ReplicaRequest():
                return self._takeovers.on_request(name, message, now_us)
            case Neighbours():
                self._directory.on_neighbours(name, message.names)
            case HighWaterMarks(onwards=True):
                return self._pass_marks_on(name, message)
            case HighWaterMarks() if name in self._reorderings:
                return self._let_go(self._reorderings.on_marks(name, message.marks))
            case Echo(sent_us):
                return [Send(name, EchoAnswer(sent_us, now_us, self._reliefs.stays_alone))]
            case EchoAnswer():
                self._reliefs.on_answer(name, message)
            case LastAdvertisement() | LastSubscription() if session is not None:
                return session.on_last(name, message)
            case CopyOpen(epoch) if failover is not None and failover.epoch == epoch:
                failover.on_open()
            case CopyDone(epoch, digest) if failover is not None and failover.epoch == epoch:
                return self._takeovers.on_copy_done(failover, name, digest, now_us)
            case ReplicaRelease(epoch, step) if self._departure is not None and self._departure.epoch == epoch:
                self._departure.on_release(name, step, now_us)
            case _ if (relief := self._reliefs.get(name)) is not None:
                return self._on_relief(relief, message, now_us)
            case Retired() if self._departure is not None and self._departure.is_leaving:
                self.inner.handle(LinkDown(name), now_us)  # we have nothing more to say to the others
            case Retired():
                self._retired.add(name, message.replica)
                if session is not None:
                    session.on_gone(name)
                return [Incident("replaced", message.replica), *self.inner.handle(LinkDown(name), now_us)]
        return []

    def _on_relief(self, relief: Relief, message: Message, now_us: int) -> list[Effect]:
        match message:
            case CopyOpen(epoch) if relief.copy.epoch == epoch:
                relief.on_open()
            case CopyDone(epoch, digest) if relief.copy.epoch == epoch:
                self._reliefs.on_done(relief, digest)
            case ReplicaRelease(epoch, step) if relief.copy.epoch == epoch:
                return self._reliefs.on_release(relief, step, now_us)
            case Retired():
                return self._on_link_down(relief.replica, now_us)
        return []

    def _on_replica_gone(self, name: str, now_us: int) -> list[Effect]:
        if self._session is not None:
            self._session.on_gone(name)
        relief = self._reliefs.get(name)
        if relief is not None:
            return self._reliefs.on_gone(relief)
        self._tree.unpair(name)
        effects = self._reliefs.leave_order(name)
        self._failovers.on_replica_gone(name, now_us)
        return [Incident("replica_lost", name), *effects]

    def _let_go(self, events: Released) -> list[Effect]:
        return [effect for hop, publish in events for effect in self._forward(hop, publish)]

    # Events --------------------------------------------------------------------------------------

    def _on_publish(self, sender: str, publish: Publish | Stamped, now_us: int) -> list[Effect]:
        if sender in self._reorderings and type(publish) is Publish:
            return self._let_go(self._reorderings.on_event(sender, publish))
        refused = self.inner.refusal(sender, publish, now_us)
        return self._forward(sender, publish) if refused is None else [refused]

    def _forward(self, sender: str, publish: Publish | Stamped) -> list[Effect]:
        effects = self._tree.forward(sender, publish)
        if self._session is not None and type(publish) is Publish:
            effects = self._session.forward(sender, publish, effects)
        effects = self._reliefs.share(effects)
        for failover in self._failovers:
            effects = failover.split_off(effects)
        return effects

    def _pass_marks_on(self, sender: str, marks: HighWaterMarks) -> list[Effect]:
        if self._departure is not None and self._departure.is_leaving:
            return []
        names = [name for name in self.inner.brokers() if name != sender]
        for failover in self._failovers:
            pair = failover.faulty, failover.replica
            if not set(pair).isdisjoint(names):
                names = [name for name in names if name not in pair]
                failover.keep_marks(marks)
        if self._session is not None:
            names = self._session.ready_for_marks(names, marks)
        return [Multicast(tuple(names), replace(marks, onwards=False))] if names else []

    # After every input ---------------------------------------------------------------------------

    def _after(self, effects: list[Effect], now_us: int) -> list[Effect]:
        if self._session is not None and self._is_copying:
            effects = effects + self._session.advance()
        for failover in self._failovers:
            if failover.replica is not None:
                copies, tables = self._copies(failover.replica), self._tree.sent_tables(failover.replica)
                if failover.state.copies and copies is not None:
                    is_all = self._knows_all_for(failover.replica)
                    effects = failover.copy.queue(failover.replica, effects, copies, tables, is_all, now_us)
                effects = effects + failover.what_goes(now_us, self._tree.wanting)
            effects = effects + failover.overflow()
            if failover.state is FailoverState.DRAINING and not len(failover.out):
                effects = effects + failover.kept_marks()
                self._failovers.end(failover, FailoverEvent.DRAINED)
        for relief in self._reliefs:
            copies, is_all = self._copies(relief.replica), self._knows_all_for(relief.replica)
            effects = self._reliefs.queue_tables(relief, effects, copies, is_all, now_us)
        return effects + self._reorderings.overflow()

    def _knows_all_for(self, replica: str) -> tuple[bool, bool]:
        return self._session.knows_all_for(replica) if self._session else (True, True)
