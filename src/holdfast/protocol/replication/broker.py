"""A broker that can be replaced, that helps to replace its neighbours, and that can be a replica itself.

It is a broker like any other; what it adds happens only when a neighbour fails or a replica speaks to it. Tables are
told to a replica as to any neighbour, except that a faulty broker and its replica stand in one place: neither is told
what came from the other, so there is never a second or a circular way.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace as settings_with
from typing import get_args

from msgspec.structs import replace

from holdfast.model.incidents import REQUESTED
from holdfast.model.messages import (
    Batch,
    CopyDone,
    CopyOpen,
    CopyProtocol,
    Delta,
    Heartbeat,
    HighWaterMarks,
    LastAdvertisement,
    LastSubscription,
    Message,
    Neighbours,
    NodeKind,
    Publish,
    ReplicaRequest,
    ReplicationMessage,
    ReplicaUse,
    Retired,
    Snapshot,
    Stamped,
)
from holdfast.protocol.broker import Broker, BrokerParts, Neighbour
from holdfast.protocol.effects import Effect, Gauges, Incident, Input, Multicast, NeighboursListed, ReplicaWanted, Send
from holdfast.protocol.hops.settings import WatchSettings
from holdfast.protocol.hops.watch import Watch
from holdfast.protocol.replication.directory import Directory
from holdfast.protocol.replication.neighbour_failover import NeighbourFailover, Phase
from holdfast.protocol.replication.queue_watch import QueueWatch
from holdfast.protocol.replication.reordering import Reordering
from holdfast.protocol.replication.replica import Copies, Role
from holdfast.protocol.replication.replica_session import ReplicaSession
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.tree import TreeRouter

_SAYS = get_args(ReplicationMessage)


class ReplicatingBroker(Broker):
    def __init__(
        self,
        parts: BrokerParts,
        replication: ReplicationSettings,
        role: Role | None = None,
        watch: WatchSettings = WatchSettings(),  # noqa: B008 - it is frozen
    ) -> None:
        super().__init__(parts)
        assert isinstance(self._router, TreeRouter)
        self._tree = self._router
        self._tree.chunk = replication.chunk
        self.tell_at_once()
        self._plan = replication
        self._stands: dict[str, NeighbourFailover] = {}  # by the faulty broker
        self._faulty_of: dict[str, str] = {}  # replica -> for whom it stands
        self._joints: dict[str, Reordering] = {}  # by each of the two whose events are put in order together
        self._directory = Directory(parts.name, replication.directory is not None)
        self._retired: dict[str, str] = {}  # brokers that were replaced, and by whom
        self._queues = QueueWatch(replication.relieve_queue)
        # Heartbeats are the beats: watching costs no message.
        self._watch = Watch(settings_with(watch, beat_us=parts.settings.heartbeat_us), parts.epoch)
        self.queue_length: Callable[[str], int] = lambda neighbour: 0  # that wait for it, as the driver sees it
        self._being: ReplicaSession | None = None
        if role is not None:
            self._being = ReplicaSession(role, parts.epoch, replication, parts.book, self._copies)

    # Time ----------------------------------------------------------------------------------------

    def next_due_us(self) -> int:
        due_us = super().next_due_us()
        if self._being is not None:
            due_us = min(due_us, self._being.next_due_us() or due_us)
        for stand in self._stands.values():
            due_us = min(due_us, stand.next_due_us() or due_us)
        return due_us

    def gauges(self) -> Gauges:
        pending = max((len(each.out) for each in self._stands.values()), default=0)
        held = max(map(len, self._joints.values()), default=0)
        return {
            **super().gauges(),
            "waiting for a replica": (pending, self._plan.pending_max),
            "waiting for their order": (held, self._plan.held_max),
            "kept by a replica": (len(self._being.cache) if self._being else 0, self._plan.cache_max),
        }

    def take_work(self) -> int:
        """Entries of queues and caches handled since the last look: what the bookkeeping of replication costs."""
        work = 0
        for stand in self._stands.values():
            work += stand.out.filed
            stand.out.filed = 0
        if self._being is not None:
            work += self._being.cache.matched
            self._being.cache.matched = 0
        return work

    def has_settled(self, now_us: int) -> bool:
        """Whether it holds back no events that it is going to send."""
        holds = any(map(len, self._joints.values())) or any(len(each.out) for each in self._stands.values())
        return not holds and super().has_settled(now_us)

    # Inputs --------------------------------------------------------------------------------------

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        if not self._is_busy:
            return super().receive(sender, messages, now_us)
        effects: list[Effect] = []
        for each in messages:
            effects += super().receive(sender, (each,), now_us)
        return self._after(effects, now_us)

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        if type(given) is NeighboursListed:
            self._directory.on_neighbours(given.broker, given.neighbours)
            return []
        effects = super().handle(given, now_us)
        return self._after(effects, now_us) if self._is_busy else effects

    @property
    def _is_busy(self) -> bool:
        return bool(self._stands or self._joints or (self._being is not None and not self._being.is_done))

    def _on_wake(self, now_us: int) -> list[Effect]:
        beats = now_us >= self._due_us
        effects = super()._on_wake(now_us)
        if beats:
            for name in [each for each in self._watch.names() if each not in self._neighbours]:
                self._watch.end(name)
            effects += self._tell_neighbours()
            effects += self._look_at_queues()
        if self._being is not None:
            effects += self._being.on_timer(now_us, self._tree)
        for stand in list(self._stands.values()):
            effects += self._on_stand_timer(stand, now_us)
        return effects

    def _tell_neighbours(self) -> list[Effect]:
        brokers = tuple(name for name, each in self._neighbours.items() if each.kind == "broker" and not each.silent)
        return self._directory.announce(brokers) if brokers else []

    def around(self, broker: str) -> tuple[str, ...]:
        """Those next to this broker, as far as is known here."""
        return self._directory.around(broker)

    def _look_at_queues(self) -> list[Effect]:
        """Whoever has too much waiting for it gets a replica beside it."""
        apart = {**self._stands, **self._faulty_of}
        brokers = [name for name, each in self._neighbours.items() if each.kind == "broker" and name not in apart]
        use: ReplicaUse = "reordering" if self._plan.reorder else "scheduling"
        effects: list[Effect] = []
        for name in self._queues.look((each, self.queue_length(each)) for each in brokers):
            effects.append(Incident("overloaded", name))
            effects.append(ReplicaWanted(name, self._directory.around(name), self._plan.copying, use))
        return effects

    def _on_stand_timer(self, stand: NeighbourFailover, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if stand.phase is Phase.SUSPECTED and now_us >= stand.began_us + self._plan.patience_us:
            return self._give_up(stand, now_us)
        if stand.ask_us is not None and now_us >= stand.ask_us:
            around = self._directory.around(stand.faulty)
            stand.ask_us = now_us + self._plan.takeover_us * (1 + len(around))
            effects.append(ReplicaWanted(stand.faulty, around, self._plan.copying, "failover"))
        return effects + stand.on_timer(now_us)

    # A neighbour fails ---------------------------------------------------------------------------

    def _is_silent(self, name: str, neighbour: Neighbour, now_us: int) -> bool:
        """Of brokers that can be replaced, as regular as they were before; of others, by the lease."""
        if neighbour.kind != "broker" or not self._plan.replace:
            return super()._is_silent(name, neighbour, now_us)
        self._watch.begin(name, neighbour.heard_us)
        return self._watch.gives_up(name, now_us)

    def _on_silence(self, name: str, neighbour: Neighbour, now_us: int) -> list[Effect]:
        if name in self._faulty_of:
            return [*self._on_replica_gone(name, now_us), *super()._on_silence(name, neighbour, now_us)]
        if neighbour.kind == "broker" and name in self._stands:
            return self._on_both_gone(name, now_us)
        if neighbour.kind != "broker" or not self._plan.replace:
            return super()._on_silence(name, neighbour, now_us)
        return self._suspect(name, neighbour, now_us, now_us)

    def _on_link_down(self, name: str, now_us: int) -> list[Effect]:
        neighbour = self._neighbours.get(name)
        effects: list[Effect] = []
        if neighbour is None:
            return effects
        if name in self._faulty_of:
            effects += self._on_replica_gone(name, now_us)
        elif name in self._stands:
            return self._on_both_gone(name, now_us)
        elif neighbour.kind == "broker" and self._plan.replace and name not in self._retired:
            return self._suspect(name, neighbour, now_us, now_us + self._plan.suspect_us)
        return effects + super()._on_link_down(name, now_us)

    def _suspect(self, name: str, neighbour: Neighbour, now_us: int, ask_us: int) -> list[Effect]:
        """Its tables are kept as they are, and what is for it waits."""
        neighbour.silent = True
        self._watch.give_up(name)
        stand = self._stands[name] = NeighbourFailover(name, self._plan, now_us)
        stand.ask_us = ask_us + self._directory.rank(name) * self._plan.takeover_us
        return [Incident("suspected", name)]

    def _on_both_gone(self, name: str, now_us: int) -> list[Effect]:
        """A broker that has a replica, or is to get one, falls silent: the replica goes on alone."""
        stand = self._stands[name]
        self._neighbours[name].silent = True
        if stand.phase is Phase.BESIDE:
            return self._flush(stand, now_us) + self._finish(stand, now_us)
        if stand.phase is Phase.COPYING and not stand.takes_over:
            stand.use = "failover"
            return [Incident("suspected", name), *self._flush(stand, now_us)]
        return []

    def _give_up(self, stand: NeighbourFailover, now_us: int) -> list[Effect]:
        del self._stands[stand.faulty]
        effects: list[Effect] = [Incident("no_replica", stand.faulty)]
        if len(stand.out):
            effects.append(Incident("replica_backlog_dropped", stand.faulty, len(stand.out)))
        return effects + super()._on_link_down(stand.faulty, now_us)

    def _thaw(self, stand: NeighbourFailover) -> list[Effect]:
        """The suspected broker is back before it was replaced: it gets what waited for it."""
        del self._stands[stand.faulty]
        self._neighbours[stand.faulty].silent = False
        waited = [Send(stand.faulty, each) for each in stand.out.held()]
        return [Incident("suspect_returned", stand.faulty), *waited]

    # Links ---------------------------------------------------------------------------------------

    def _on_link_up(
        self, name: str, kind: NodeKind, now_us: int, replaces: str | None = None, reliable: bool = False
    ) -> list[Effect]:
        if name in self._retired:
            return [Incident("replaced_broker_returned", name), Send(name, Retired(self._retired[name]))]
        stand = self._stands.get(name)
        if stand is not None and stand.phase is Phase.SUSPECTED:
            return [*self._thaw(stand), Send(name, self._summary(self._neighbours[name]))]
        if stand is not None and stand.takes_over:
            return [Send(name, Retired(stand.replica or self.name))]
        if kind == "broker" and (replaces in self._neighbours or replaces in self._stands):
            effects = self._on_link_down(name, now_us) if name in self._neighbours else []
            self._neighbours[name] = Neighbour(kind, now_us, reliable)  # told nothing until it says what it wants
            return effects
        effects = super()._on_link_up(name, kind, now_us, reliable=reliable)
        if self._being is not None:
            effects += self._being.on_link_up(name)
        return effects

    def _on_stranger(self, name: str, message: Message, now_us: int) -> list[Effect]:
        if name in self._retired:
            return [Incident("replaced_broker_returned", name), Send(name, Retired(self._retired[name]))]
        if isinstance(message, ReplicaRequest):
            self._neighbours[name] = Neighbour("broker", now_us)
            return self._on_control(name, self._neighbours[name], message, now_us)
        return super()._on_stranger(name, message, now_us)

    # Control -------------------------------------------------------------------------------------

    def _on_control(self, name: str, neighbour: Neighbour, message: Message, now_us: int) -> list[Effect]:
        if neighbour.kind == "broker":
            self._watch.begin(name, now_us)
            self._watch.on_heard(name, type(message) is Heartbeat, now_us)
        if type(message) in _SAYS:
            if neighbour.kind != "broker":
                return [Incident("unexpected_message", name)]
            neighbour.heard_us = now_us
            return self._on_replication(name, message, now_us)
        stand = self._stands.get(name)
        if stand is None or not stand.takes_over:
            return super()._on_control(name, neighbour, message, now_us)
        if stand.phase is Phase.SUSPECTED:
            return self._thaw(stand) + super()._on_control(name, neighbour, message, now_us)
        return []  # it is being replaced: its tables no longer count

    def _on_summary(self, name: str, neighbour: Neighbour, summary: Heartbeat, now_us: int) -> list[Effect]:
        copying = self._being is not None and not self._being.is_done
        stand = self._stands.get(self._faulty_of.get(name, ""))
        if not copying and (stand is None or stand.phase is not Phase.COPYING):
            return super()._on_summary(name, neighbour, summary, now_us)
        neighbour.epoch = summary.epoch  # tables on their way to a replica take long; what is missing is asked for
        return []

    def _on_replication(self, name: str, message: Message, now_us: int) -> list[Effect]:
        being = self._being
        stand = self._stands.get(self._faulty_of.get(name, ""))
        match message:
            case ReplicaRequest():
                return self._on_request(name, message, now_us)
            case Neighbours():
                self._directory.on_neighbours(name, message.names)
            case HighWaterMarks(onwards=True):
                return self._pass_marks_on(name, message)
            case HighWaterMarks() if name in self._joints:
                return self._let_go(self._joints[name].on_marks(name, message.marks), now_us)
            case LastAdvertisement() | LastSubscription() if being is not None:
                return being.on_said(name, message, self._tree)
            case CopyOpen(epoch) if stand is not None and stand.epoch == epoch:
                stand.on_open()
            case CopyDone(epoch, digest) if stand is not None and stand.epoch == epoch:
                return self._on_copy_done(stand, digest, now_us)
            case Retired():
                self._retire(name, message.replica)
                return [Incident("replaced", message.replica), *super()._on_link_down(name, now_us)]
        return []

    def _on_request(self, name: str, request: ReplicaRequest, now_us: int) -> list[Effect]:
        faulty = request.faulty
        if faulty in (self.name, name) or self.kind_of(faulty) == "client":
            return [Incident("unexpected_message", name)]  # nobody can stand for these
        stand = self._stands.get(faulty)
        if stand is not None and stand.replica not in (None, name) and request.epoch < stand.epoch:
            return self._dismiss(name, stand.replica or faulty, now_us)
        if stand is not None and stand.replica == name and stand.epoch == request.epoch:
            return self._say_all_again(stand, now_us)
        if faulty in self._retired:
            successor = self._retired[faulty]
            return [] if successor == name else self._dismiss(name, successor, now_us)
        if stand is None:
            stand = self._stands[faulty] = NeighbourFailover(faulty, self._plan, now_us)
        effects: list[Effect] = []
        if stand.replica is not None and stand.replica != name:
            earlier = stand.replica
            effects += [*self._on_replica_gone(earlier, now_us), *self._dismiss(earlier, name, now_us)]
            stand = self._stands.setdefault(faulty, stand)
        stand.on_request(name, request, now_us)
        self._faulty_of[name] = faulty
        self._tree.on_link_down(name)
        self._tree.pair(faulty, name)
        if stand.takes_over and faulty in self._neighbours:
            self._neighbours[faulty].silent = True
        if request.use == "reordering":
            self._joints[faulty] = self._joints[name] = self._new_joint(faulty, name, request.copying)
        effects.append(Incident(REQUESTED[request.use], faulty, other=name, copying=request.copying))
        return effects + self._tree.on_link_up(name, "broker", now_us)

    def _dismiss(self, name: str, successor: str, now_us: int) -> list[Effect]:
        """There is a newer replica: this one would be a second way, and is no neighbour any more."""
        self._retire(name, successor)
        forgotten = super()._on_link_down(name, now_us)
        return [Incident("replica_outdated", name), Send(name, Retired(successor)), *forgotten]

    def _retire(self, name: str, successor: str) -> None:
        if len(self._retired) >= self._plan.retired_max:
            del self._retired[next(iter(self._retired))]
        self._retired[name] = successor

    def _new_joint(self, faulty: str, replica: str, copying: CopyProtocol) -> Reordering:
        unordered = replica if copying == "incremental" else None
        return Reordering((faulty, replica), unordered, self._plan.held_max, self._plan.sources_max)

    def _say_all_again(self, stand: NeighbourFailover, now_us: int) -> list[Effect]:
        assert stand.replica is not None
        stand.said_advertisements = stand.said_subscriptions = None
        tables = self._tree.told(stand.replica).values() if stand.phase is Phase.COPYING else ()
        return [Send(stand.replica, part) for each in tables for part in each.whole()]

    def _on_table(self, name: str, neighbour: Neighbour, change: Delta | Snapshot, now_us: int) -> list[Effect]:
        effects = super()._on_table(name, neighbour, change, now_us)
        if change.table != "subscriptions":
            return effects
        given = list(change.add if isinstance(change, Delta) else change.conditions)
        if self._being is not None:
            effects += self._being.on_subscriptions(name, given)
        stand = self._stands.get(self._faulty_of.get(name, ""))
        if stand is not None:
            stand.on_subscriptions(given, self._matches)
        return effects

    def _matches(self, condition: str, publish: Publish) -> bool:
        return self._book.subscription(condition).matches(publish.publication.attributes)

    # The end of a replication --------------------------------------------------------------------

    def _on_copy_done(self, stand: NeighbourFailover, digest: int, now_us: int) -> list[Effect]:
        assert stand.replica is not None
        if stand.phase is not Phase.COPYING:
            return []
        if self._neighbours[stand.replica].heard["subscriptions"].summary[1] != digest:
            return []  # something was lost on the way; it is told again, and so is this
        stand.on_done()
        return self._finish(stand, now_us) if stand.takes_over else []

    def _finish(self, stand: NeighbourFailover, now_us: int) -> list[Effect]:
        """The replica is the broker now."""
        assert stand.replica is not None
        faulty, replica = stand.faulty, stand.replica
        stand.phase, stand.use = Phase.DRAINING, "failover"
        self._retire(faulty, replica)
        effects: list[Effect] = [Incident("replaced_by", faulty, other=replica), Send(faulty, Retired(replica))]
        effects += self._directory.on_replaced(faulty, replica) + super()._on_link_down(faulty, now_us)
        self._tree.unpair(replica)
        return effects

    def _on_replica_gone(self, name: str, now_us: int) -> list[Effect]:
        faulty = self._faulty_of.pop(name)
        stand = self._stands[faulty]
        self._tree.unpair(name)
        effects: list[Effect] = [Incident("replica_lost", name)]
        if stand.phase is Phase.DRAINING or not stand.takes_over:
            effects += self._flush(stand, now_us)
            del self._stands[faulty]
        else:
            stand.on_replica_gone(now_us)
        return effects

    def _flush(self, stand: NeighbourFailover, now_us: int) -> list[Effect]:
        """One of two ways is gone: nothing waits for its order any more."""
        joint = self._joints.pop(stand.faulty, None)
        if joint is None:
            return []
        self._joints = {name: each for name, each in self._joints.items() if each is not joint}
        return self._let_go(joint.flush(), now_us)

    def _let_go(self, events: Iterable[tuple[str, Publish]], now_us: int) -> list[Effect]:
        return [effect for way, publish in events for effect in self._forward(way, publish, now_us)]

    # Events --------------------------------------------------------------------------------------

    def _on_publish(self, sender: str, neighbour: Neighbour, publish: Publish | Stamped, now_us: int) -> list[Effect]:
        joint = self._joints.get(sender)
        if joint is None or not isinstance(publish, Publish):
            return super()._on_publish(sender, neighbour, publish, now_us)
        return self._let_go(joint.on_event(sender, publish), now_us)

    def _on_batch(self, sender: str, neighbour: Neighbour, batch: Batch, now_us: int) -> list[Effect]:
        if not self._is_busy:
            return super()._on_batch(sender, neighbour, batch, now_us)
        singles = batch.published()
        return [effect for each in singles for effect in self._on_publish(sender, neighbour, each, now_us)]

    def _forward(self, sender: str, publish: Publish | Stamped, now_us: int) -> list[Effect]:
        effects = super()._forward(sender, publish, now_us)
        if self._being is not None and isinstance(publish, Publish):
            effects = self._being.forward(sender, publish, effects)
        for stand in self._stands.values():
            effects = stand.split_off(effects, self.queue_length)
        return effects

    def _pass_marks_on(self, sender: str, marks: HighWaterMarks) -> list[Effect]:
        names = [name for name, each in self._neighbours.items() if each.kind == "broker" and name != sender]
        if self._being is not None:
            names = self._being.ready_for_marks(names, marks)
        return [Multicast(tuple(names), replace(marks, onwards=False))] if names else []

    # After every input ---------------------------------------------------------------------------

    def _after(self, effects: list[Effect], now_us: int) -> list[Effect]:
        if self._being is not None and not self._being.is_done:
            effects = effects + self._being.advance(self._tree)
        for stand in list(self._stands.values()):
            if stand.replica is not None:
                copies, told = self._copies(stand.replica), self._tree.told(stand.replica)
                if stand.phase is Phase.COPYING and copies is not None:
                    effects = stand.queue_tables(effects, copies, told["subscriptions"].digest, now_us)
                effects = effects + stand.what_goes(now_us, self._tree.wanting)
            if stand.out.dropped:
                effects = [*effects, Incident("replica_backlog_overflow", stand.faulty, stand.out.dropped)]
                stand.out.dropped = 0
            joint = self._joints.get(stand.faulty)
            if joint is not None and joint.overflowed:
                effects = [*effects, Incident("reorder_buffer_overflow", stand.faulty, joint.overflowed)]
                joint.overflowed = 0
            if stand.phase is Phase.DRAINING and not len(stand.out):
                del self._stands[stand.faulty]
                self._faulty_of.pop(stand.replica or "", None)
        return effects

    def _copies(self, name: str) -> Copies | None:
        neighbour, told = self._neighbours.get(name), self._tree.told(name)
        if neighbour is None or not told:
            return None
        heard = neighbour.heard
        return Copies(
            heard["advertisements"].summary[1], heard["subscriptions"].summary[1], told["advertisements"].digest
        )
