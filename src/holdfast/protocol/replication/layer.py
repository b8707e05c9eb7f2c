"""The layer that helps to replace a broker's neighbours, and that makes a broker a replica.

What it adds happens only when a neighbour fails or a replica speaks to us. Tables are told to a replica as to any
neighbour, except that a faulty broker and its replica stand in one place: neither is told what came from the other, so
there is never a second or a circular way.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as settings_with
from functools import partial
from typing import get_args

from msgspec.structs import replace

from holdfast.model.incidents import REQUESTED
from holdfast.model.messages import (
    Batch,
    CopyDone,
    CopyOpen,
    Delta,
    Detach,
    Heartbeat,
    HighWaterMarks,
    LastAdvertisement,
    LastSubscription,
    Message,
    Neighbours,
    Publish,
    ReplicaRequest,
    ReplicationMessage,
    ReplicaUse,
    Retired,
    Snapshot,
    Stamped,
    TableRefused,
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
from holdfast.protocol.replication.directory import Directory, Successors
from holdfast.protocol.replication.neighbour_failover import Failovers, NeighbourFailover
from holdfast.protocol.replication.overload import QueueWatch
from holdfast.protocol.replication.reordering import Reorderings
from holdfast.protocol.replication.replica import copies_between
from holdfast.protocol.replication.replica_session import ReplicaSession
from holdfast.protocol.replication.settings import ReplicationSettings, Role
from holdfast.protocol.replication.states import FailoverEvent, FailoverState
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
        self._queue_length = parts.queue_length
        self._settings = settings
        self._failovers = Failovers(settings)
        self._reorderings = Reorderings(settings)
        self._directory = Directory(parts.name, settings.directory is not None)
        self._retired = Successors(settings.retired_max)
        self._settle_us = 2 * parts.settings.heartbeat_us  # until all have told a broker what they want
        self._queues = QueueWatch(settings.relieve_queue)
        # Heartbeats are the beats: watching costs no message.
        self._watch = FailureDetector(settings_with(watch, beat_us=parts.settings.heartbeat_us), parts.epoch)
        self._copies = partial(copies_between, tree, broker)
        self._session: ReplicaSession | None = None
        if role is not None:
            if role.use == "failover":
                broker.outages.stand_for(role.faulty)
            own = role, parts.epoch, settings, self._copies, tree, parts.book, self._want_if_silent
            self._session = ReplicaSession(*own)

    # Of itself -----------------------------------------------------------------------------------

    def next_due_us(self) -> int:
        due_us = self.inner.next_due_us()
        if self._session is not None:
            due_us = min(due_us, self._session.next_due_us() or due_us)
        for failover in self._failovers:
            due_us = min(due_us, failover.next_due_us() or due_us)
        return due_us

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
        return bool(self._failovers or self._reorderings or self._is_copying)

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
            effects += self._announce() + self._look_at_queues()
        if self._session is not None:
            effects += self._session.on_timer(now_us)
        for failover in self._failovers:
            if failover.back_us is not None and now_us >= failover.back_us:
                effects += self._resume(failover)
            elif failover.patience_is_over(now_us):
                effects += self._give_up(failover, now_us)
            else:
                effects += failover.on_timer(now_us, self.neighbours_of)
        return effects

    def _announce(self) -> list[Effect]:
        """Who is next to us. A neighbour that waits for its replica is: whoever replaces us is to ask that one."""
        brokers = self.inner.brokers().items()
        return self._directory.announce([name for name, is_up in brokers if is_up or name in self._failovers])

    def _want_if_silent(self, name: str) -> list[Effect]:
        """A neighbour that we are to ask as a replica may be dead as well, and nobody else next to it."""
        if not self._settings.replace or not self.inner.is_silent(name):
            return []
        return [ReplicaWanted(name, self._directory.neighbours_of(name), self._settings.copying, "failover")]

    def _look_at_queues(self) -> list[Effect]:
        """Whoever has too much waiting for it gets a replica beside it."""
        apart = self._failovers
        brokers = [name for name in self.inner.brokers() if name not in apart and not apart.has_replica(name)]
        use: ReplicaUse = "reordering" if self._settings.reorder else "scheduling"
        effects: list[Effect] = []
        for name in self._queues.look((each, self._queue_length(each)) for each in brokers):
            wanted = ReplicaWanted(name, self._directory.neighbours_of(name), self._settings.copying, use)
            effects += [Incident("overloaded", name), wanted]
        return effects

    # A neighbour fails ---------------------------------------------------------------------------

    def _judge(self, name: str, now_us: int) -> list[Effect]:
        """Brokers that can be replaced are judged by how regular they were before, others by the lease."""
        replaceable = self.inner.kind_of(name) == "broker" and self._settings.replace
        if not (self._watch.gives_up(name, now_us) if replaceable else self.inner.lease_is_over(name, now_us)):
            return []
        if self._failovers.has_replica(name):
            return [*self._on_replica_gone(name, now_us), *self.inner.expire(name, now_us)]
        if name in self._failovers:
            return self._on_broker_gone(name, now_us)
        return self._suspect(name, now_us, now_us) if replaceable else self.inner.expire(name, now_us)

    def _on_link_down(self, name: str, now_us: int) -> list[Effect]:
        kind = self.inner.kind_of(name)
        effects: list[Effect] = []
        if self._failovers.has_replica(name):
            effects = self._on_replica_gone(name, now_us)
        elif kind is not None and name in self._failovers:
            return self._on_broker_gone(name, now_us)
        elif kind == "broker" and self._settings.replace and name not in self._retired:
            return self._suspect(name, now_us, now_us + self._settings.suspect_us)
        return effects + self.inner.handle(LinkDown(name), now_us)

    def _suspect(self, name: str, now_us: int, ask_us: int) -> list[Effect]:
        """Its tables are kept as they are, and what is for it waits."""
        self.inner.suspend(name)
        self._watch.give_up(name)
        ask_us += self._directory.rank(name) * self._settings.takeover_us
        self._failovers.begin(name, now_us, ask_us)
        return [Incident("suspected", name)]

    def _on_broker_gone(self, name: str, now_us: int) -> list[Effect]:
        """A broker that has a replica, or is to get one, falls silent: the replica goes on alone."""
        failover = self._failovers.get(name)
        self.inner.suspend(name)
        if failover is None or failover.takes_over:
            return [] if failover is None else failover.on_gone_again(now_us)
        failover.on(FailoverEvent.BROKER_GONE)
        if failover.state is FailoverState.DRAINING:
            return self._let_go(self._reorderings.end(name)) + self._finish(failover, now_us)
        return [Incident("suspected", name), *self._let_go(self._reorderings.end(name))]

    def _give_up(self, failover: NeighbourFailover, now_us: int) -> list[Effect]:
        self._failovers.end(failover, FailoverEvent.GIVEN_UP)
        waiting, faulty = len(failover.out), failover.faulty
        dropped = [Incident("replica_backlog_dropped", faulty, waiting)] if waiting else []
        return [Incident("no_replica", faulty), *dropped, *self.inner.handle(LinkDown(faulty), now_us)]

    def _on_return(self, failover: NeighbourFailover, is_anew: bool, now_us: int) -> list[Effect]:
        """The suspected broker speaks. If it began anew, it has lost what it had, and knows nobody who wants ours."""
        if is_anew:
            failover.back_us = now_us + self._settle_us
            self.inner.resume(failover.faulty)
            return self.inner.begins_anew(failover.faulty, now_us)
        return self._resume(failover) if failover.back_us is None else []

    def _resume(self, failover: NeighbourFailover) -> list[Effect]:
        """The suspected broker is back before it was replaced: it gets what waited for it."""
        self._failovers.end(failover, FailoverEvent.BROKER_BACK)
        self.inner.resume(failover.faulty)
        waited = [Send(failover.faulty, each) for each in failover.out.held()]
        return [Incident("suspect_returned", failover.faulty), *waited]

    # Links ---------------------------------------------------------------------------------------

    def _on_link_up(self, given: LinkUp, now_us: int) -> list[Effect]:
        name, kind, replaces = given.neighbour, given.kind, given.replaces
        if name in self._retired:
            return [Incident("replaced_broker_returned", name), Send(name, Retired(self._retired[name]))]
        is_known = self.inner.knows(name)
        failover = self._failovers.get(name)
        if failover is not None and failover.state is FailoverState.SUSPECTED and is_known:
            return self.inner.greet(name, now_us)  # its heartbeat says whether it is the same as before
        if failover is not None and failover.takes_over:
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
            if self._session is not None and (self._is_copying or not replaces_known):
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
        is_replaced = failover is not None and failover.takes_over
        if type(message) in _REPLICATION:
            if kind != "broker":
                return [Incident("unexpected_message", name)]
            heard = [] if is_replaced else self.inner.heard(name, now_us)
            return heard + self._on_replication(name, message, now_us)
        forgot = type(message) is Heartbeat and self.inner.began_anew(name, message.epoch)
        effects: list[Effect] = []
        if failover is not None and is_replaced:
            if failover.state is not FailoverState.SUSPECTED:
                return []  # its tables no longer count
            effects = self._on_return(failover, forgot, now_us)
        if type(message) is Detach:
            return effects + self.inner.heard(name, now_us) + self._on_link_down(name, now_us)
        by_it = self._failovers.by(name)
        if type(message) is Heartbeat and (self._is_copying or (by_it is not None and by_it.state.copies)):
            # Tables on their way to a replica take long; what is missing is asked for.
            self.inner.adopt(name, message.epoch)
            return effects + self.inner.heard(name, now_us)
        effects += self.inner.handle(Received(name, message), now_us)
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
                return self._on_request(name, message, now_us)
            case Neighbours():
                self._directory.on_neighbours(name, message.names)
            case HighWaterMarks(onwards=True):
                return self._pass_marks_on(name, message)
            case HighWaterMarks() if (reordering := self._reorderings.get(name)) is not None:
                return self._let_go(reordering.on_marks(name, message.marks))
            case LastAdvertisement() | LastSubscription() if session is not None:
                return session.on_last(name, message)
            case CopyOpen(epoch) if failover is not None and failover.epoch == epoch:
                failover.on_open()
            case CopyDone(epoch, digest) if failover is not None and failover.epoch == epoch:
                return self._on_copy_done(failover, name, digest, now_us)
            case Retired():
                self._retired.add(name, message.replica)
                return [Incident("replaced", message.replica), *self.inner.handle(LinkDown(name), now_us)]
        return []

    def _on_request(self, name: str, request: ReplicaRequest, now_us: int) -> list[Effect]:
        faulty = self._failovers.meant_by(request.faulty)
        if faulty in (self.name, name) or self.inner.kind_of(faulty) == "client":
            return [Incident("unexpected_message", name)]  # nobody can stand for these
        failover = self._failovers.get(faulty)
        if failover is not None and failover.replica not in (None, name) and request.epoch < failover.epoch:
            return self._dismiss(name, failover.replica or faulty, now_us)
        if failover is not None and failover.replica == name and failover.epoch == request.epoch:
            return failover.send_all_again(self._tree.sent_tables(name))
        successor, epoch = self._retired.latest(faulty)
        if successor == name and epoch == request.epoch:
            return []
        if successor not in (name, faulty):
            if request.epoch < epoch or self.inner.brokers().get(successor, False):
                return self._dismiss(name, successor, now_us)
            faulty = successor if successor in self._failovers else faulty  # it has failed in its turn
            failover = self._failovers.get(faulty)
        if failover is None:
            failover = self._failovers.begin(faulty, now_us, now_us)
        effects: list[Effect] = []
        if failover.replica is not None and failover.replica != name:
            earlier = failover.replica
            effects += [*self._on_replica_gone(earlier, now_us), *self._dismiss(earlier, name, now_us)]
        if self._failovers.hand_over(name, failover):
            self.inner.resume(name)
        self._failovers.on_request(failover, name, request, now_us)
        self._tree.on_link_down(name)
        self._tree.pair(faulty, name)
        if failover.takes_over and self.inner.knows(faulty):
            self.inner.suspend(faulty)
        if request.use == "reordering":
            self._reorderings.begin(faulty, name, request.copying)
        effects.append(Incident(REQUESTED[request.use], faulty, other=name, copying=request.copying))
        return effects + self._tree.on_link_up(name, "broker", now_us)

    def _dismiss(self, name: str, successor: str, now_us: int) -> list[Effect]:
        """There is a newer replica: this one would be a second way, and is no neighbour any more."""
        self._retired.add(name, successor)
        told: list[Effect] = [Incident("replica_outdated", name), Send(name, Retired(successor))]
        return told + self.inner.handle(LinkDown(name), now_us)

    # The end of a replication --------------------------------------------------------------------

    def _on_copy_done(self, failover: NeighbourFailover, replica: str, digest: int, now_us: int) -> list[Effect]:
        if not failover.state.copies or self.inner.heard_summary(replica, "subscriptions")[1] != digest:
            return []  # something was lost on the way; it is told again, and so is this
        failover.on_done()
        return self._finish(failover, now_us) if failover.takes_over else []

    def _finish(self, failover: NeighbourFailover, now_us: int) -> list[Effect]:
        """The replica is the broker now."""
        assert failover.replica is not None
        faulty, replica = failover.faulty, failover.replica
        self._retired.add(faulty, replica, failover.epoch)
        effects: list[Effect] = [Incident("replaced_by", faulty, other=replica), Send(faulty, Retired(replica))]
        effects += self._directory.on_replaced(faulty, replica) + self.inner.is_replaced(faulty, replica, now_us)
        self._tree.unpair(replica)
        return effects

    def _on_replica_gone(self, name: str, now_us: int) -> list[Effect]:
        self._tree.unpair(name)
        if self._session is not None:
            self._session.on_gone(name)
        effects = self._let_go(self._reorderings.end(name))
        self._failovers.on_replica_gone(name, now_us)
        return [Incident("replica_lost", name), *effects]

    def _let_go(self, events: Iterable[tuple[str, Publish]]) -> list[Effect]:
        return [effect for hop, publish in events for effect in self._forward(hop, publish)]

    # Events --------------------------------------------------------------------------------------

    def _on_publish(self, sender: str, publish: Publish | Stamped, now_us: int) -> list[Effect]:
        reordering = self._reorderings.get(sender)
        if reordering is not None and type(publish) is Publish:
            return self._let_go(reordering.on_event(sender, publish))
        refused = self.inner.refusal(sender, publish, now_us)
        return self._forward(sender, publish) if refused is None else [refused]

    def _forward(self, sender: str, publish: Publish | Stamped) -> list[Effect]:
        effects = self._tree.forward(sender, publish)
        if self._session is not None and type(publish) is Publish:
            effects = self._session.forward(sender, publish, effects)
        for failover in self._failovers:
            effects = failover.split_off(effects, self._queue_length)
        return effects

    def _pass_marks_on(self, sender: str, marks: HighWaterMarks) -> list[Effect]:
        names = [name for name in self.inner.brokers() if name != sender]
        if self._session is not None:
            names = self._session.ready_for_marks(names, marks)
        return [Multicast(tuple(names), replace(marks, onwards=False))] if names else []

    # After every input ---------------------------------------------------------------------------

    def _after(self, effects: list[Effect], now_us: int) -> list[Effect]:
        if self._session is not None and self._is_copying:
            effects = effects + self._session.advance()
        for failover in self._failovers:
            if failover.replica is not None:
                copies, sent = self._copies(failover.replica), self._tree.sent_tables(failover.replica)
                if failover.state.copies and copies is not None:
                    is_all = self._session.knows_all_for(failover.replica) if self._session else (True, True)
                    effects = failover.queue_tables(effects, copies, sent["subscriptions"].digest, is_all, now_us)
                effects = effects + failover.what_goes(now_us, self._tree.wanting)
            effects = effects + failover.overflow() + self._reorderings.overflow(failover.faulty)
            if failover.state is FailoverState.DRAINING and not len(failover.out):
                self._failovers.end(failover, FailoverEvent.DRAINED)
        return effects
