"""The relief replicas next to a broker: who joins, who gets which event, when one more is wanted and when one can go.

A relief replica stands in one place with the broker that it relieves, its `holder`. If the holder fails, it is replaced
as any broker is; meanwhile its relief replicas carry the events, and afterwards they stand beside its successor.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from holdfast.model.incidents import REQUESTED
from holdfast.model.messages import Publish
from holdfast.model.replication_messages import Echo, EchoAnswer, ReplicaRelease, ReplicaRequest, ReplicaUse, Retired
from holdfast.protocol.broker import CoreBroker
from holdfast.protocol.effects import Effect, Incident, LinkDown, Multicast, ReplicaWanted, Send
from holdfast.protocol.replication.directory import Directory, Successors
from holdfast.protocol.replication.echoes import Echoes
from holdfast.protocol.replication.neighbour_failover import Failovers
from holdfast.protocol.replication.overload import Load, LoadWatch
from holdfast.protocol.replication.relief import Relief
from holdfast.protocol.replication.reordering import Reorderings
from holdfast.protocol.replication.replica import Copies
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.replication.sharing import WayMarks, shortest
from holdfast.protocol.replication.states import ReliefEvent, ReliefState
from holdfast.protocol.tree import TreeRouter

_ASKED_EVERY = 5  # heartbeats, without a limit for delays: whether clients subscribe is told when it changes
Released = list[tuple[str, Publish]]  # events that waited for their order, with the way that each came by


class Reliefs:
    def __init__(
        self,
        broker: CoreBroker,
        tree: TreeRouter,
        settings: ReplicationSettings,
        failovers: Failovers,
        directory: Directory,
        retired: Successors,
        queue_length: Callable[[str], int],
        let_go: Callable[[Released], list[Effect]],
    ) -> None:
        self._broker = broker
        self._tree = tree
        self._settings = settings
        self._failovers = failovers
        self._directory = directory
        self._retired = retired
        self._queue_length = queue_length
        self._let_go = let_go
        self._of: dict[str, Relief] = {}  # by replica
        self._marks: dict[str, WayMarks] = {}  # by holder
        self._load = LoadWatch(settings)
        self._echoes = Echoes()
        self._looks = 0
        self._alone: dict[str, bool] = {}  # brokers, and whether no replica may stand beside them, as they have told
        self.reorderings = Reorderings(settings)

    def __bool__(self) -> bool:
        return bool(self._of or self._marks or self.reorderings)

    def __contains__(self, replica: str) -> bool:
        return replica in self._of

    def __iter__(self) -> Iterator[Relief]:
        return iter(list(self._of.values()))

    def get(self, replica: str) -> Relief | None:
        return self._of.get(replica)

    def of(self, holder: str) -> list[Relief]:
        """Those of one broker, the first to come first."""
        return sorted((each for each in self._of.values() if each.holder == holder), key=lambda each: each.seniority)

    def next_due_us(self) -> int | None:
        dues_us = [each.next_due_us() for each in self._of.values()] + [each.due_us for each in self._marks.values()]
        return min((each for each in dues_us if each is not None), default=None)

    # Joining -------------------------------------------------------------------------------------

    def on_request(self, name: str, request: ReplicaRequest, now_us: int) -> list[Effect]:
        relief = self._of.get(name)
        if relief is not None and relief.copy.epoch == request.epoch:
            return relief.copy.all_again(name, self._tree.sent_tables(name) if relief.state.copies else {})
        holder, _ = self._retired.latest(self._failovers.meant_by(request.faulty))
        relief = self._of[name] = Relief(name, holder, self._settings, now_us)
        relief.on_request(request, now_us)
        self._tree.on_link_down(name)
        self._tree.pair(holder, name)
        marks = self._marks.get(holder) or WayMarks(self._settings, now_us)
        if relief.reorders:
            self.reorderings.join(holder, name, request.copying != "incremental")
            self._marks[holder] = marks
            marks.on_ways_changed()
        self._load.on_joined(holder, now_us)
        joins = Incident(REQUESTED[request.use], holder, other=name, copying=request.copying)
        told = self.tell_alone(now_us) if holder < self._broker.name else []
        return [joins, *told, *self._tree.on_link_up(name, "broker", now_us)]

    def on_done(self, relief: Relief, digest: int) -> None:
        if relief.state.copies and self._broker.heard_summary(relief.replica, "subscriptions")[1] == digest:
            relief.on(ReliefEvent.COPIED)

    def queue_tables(
        self, relief: Relief, effects: list[Effect], copies: Copies | None, is_all: tuple[bool, bool], now_us: int
    ) -> list[Effect]:
        """Its tables go through its queue while it joins."""
        if relief.state.copies and copies is not None:
            tables = self._tree.sent_tables(relief.replica)
            effects = relief.copy.queue(relief.replica, effects, copies, tables, is_all, now_us)
        return effects + relief.what_goes(now_us)

    # The broker that is relieved -----------------------------------------------------------------

    @property
    def stays_alone(self) -> bool:
        """Whether no replica may stand beside us; of two adjacent brokers the first by name gets one."""
        return self._tree.serves or any(each.holder < self._broker.name for each in self._of.values())

    def tell_alone(self, now_us: int) -> list[Effect]:
        """A replica beside us would not know what clients here want: nobody may send it what is for them."""
        brokers = tuple(self._broker.brokers())
        return [Multicast(brokers, EchoAnswer(0, now_us, stays_alone=True))] if brokers and self._load.is_on else []

    def on_answer(self, name: str, answer: EchoAnswer) -> None:
        self._alone[name] = answer.stays_alone
        if answer.sent_us:
            self._echoes.on_answer(name, answer.sent_us, answer.came_us)

    def on_holder_up(self, name: str) -> None:
        """A broker is there, or there again, that relief replicas stand beside."""
        for relief in self.of(name):
            if relief.reorders:
                self.reorderings.join(relief.replica, name)

    def on_takeover(self, faulty: str, replica: str) -> list[Effect]:
        """A replica is to take the place of a broker that has failed: it has nothing more for us."""
        if faulty not in self.reorderings:
            return []
        self.reorderings.join(faulty, replica)
        if faulty in self._marks:
            self._marks[faulty].on_ways_changed()
        return self.leave_order(faulty)

    def leave_order(self, way: str) -> list[Effect]:
        """Nothing more comes by this way."""
        return self._let_go(self.reorderings.leave(way))

    def on_replaced(self, faulty: str, replica: str) -> None:
        """The replica is the broker now."""
        for relief in self.of(faulty):
            relief.holder = replica
        if faulty in self._marks:
            self._marks[replica] = self._marks.pop(faulty)

    # Leaving -------------------------------------------------------------------------------------

    def on_gone(self, relief: Relief) -> list[Effect]:
        """It is dead, or cannot be reached: what it had is lost, and the others go on without it."""
        relief.on(ReliefEvent.REPLICA_GONE)
        return [Incident("replica_lost", relief.replica), *self._drop(relief)]

    def on_release(self, relief: Relief, step: str, now_us: int) -> list[Effect]:
        if step == "drain":
            return self._drain(relief)
        if step != "last" or relief.state is not ReliefState.LEAVING:
            return []
        relief.on(ReliefEvent.LAST_CAME)
        name, holder = relief.replica, relief.holder
        self._retired.add(name, holder)
        self._load.on_released(holder, now_us)
        effects: list[Effect] = [Incident("replica_relieved", holder, other=name), Send(name, Retired(holder))]
        effects += self._drop(relief)
        return effects + self._broker.handle(LinkDown(name), now_us)

    def _drain(self, relief: Relief) -> list[Effect]:
        """From here on its tables count for nothing: whatever it wants, its holder wants as well."""
        if relief.state is ReliefState.BESIDE and self._can_do_without(relief):
            relief.on(ReliefEvent.DRAIN_ASKED)
        if relief.state is not ReliefState.LEAVING:
            return []
        return [Send(relief.replica, ReplicaRelease(relief.copy.epoch, "last"))]

    def _can_do_without(self, relief: Relief) -> bool:
        holder = relief.holder
        is_there = self._broker.brokers().get(holder, False) and holder not in self._failovers
        return is_there and self._tree.is_stood_for(relief.replica, holder)

    def _drop(self, relief: Relief) -> list[Effect]:
        del self._of[relief.replica]
        self._tree.unpair(relief.replica)
        if relief.holder in self._marks:
            self._marks[relief.holder].on_ways_changed()
        return self.leave_order(relief.replica)

    # Load ----------------------------------------------------------------------------------------

    def look(self, now_us: int) -> list[Effect]:
        """At a heartbeat: who has too much waiting for it gets a replica beside it, and who has little gives one up."""
        if not self._load.is_on:
            return []
        brokers = [name for name, is_up in self._broker.brokers().items() if is_up and name not in self._failovers]
        holders = [name for name in brokers if name not in self._of and not self._failovers.has_replica(name)]
        self._looks += 1
        always = self._settings.relieve_delay_us is not None or self._looks % _ASKED_EVERY == 0
        asked = tuple([name for name in brokers if always or name not in self._alone])
        effects: list[Effect] = [Multicast(asked, Echo(now_us))] if asked else []
        self._load.forget(holders)
        self._alone = {name: alone for name, alone in self._alone.items() if name in brokers}
        self._echoes.forget(brokers)
        for holder in holders:
            effects += self._look_at(holder, now_us)
        return effects

    def _look_at(self, holder: str, now_us: int) -> list[Effect]:
        reliefs = self.of(holder)
        ways = [holder, *[each.replica for each in reliefs if each.state is ReliefState.BESIDE]]
        loads = [Load(self._queue_length(each), self._echoes.waited_us(each)) for each in ways]
        self._load.look(holder, loads, now_us)
        if len(ways) <= len(reliefs):
            return []  # first one has to come, or to go
        if self._load.wants_one_more(holder) and len(reliefs) < self._settings.relief_max:
            use: ReplicaUse = "reordering" if self._settings.reorder else "scheduling"
            own = self._directory.neighbours_of(holder), self._settings.copying, use, len(reliefs)
            wanted = [] if self._alone.get(holder, True) else [ReplicaWanted(holder, *own)]
            return [Incident("overloaded", holder), *wanted]
        is_idle = self._load.can_miss_one(holder, now_us) or self._alone.get(holder, False)
        if reliefs and is_idle and self._can_do_without(reliefs[-1]):
            return [Send(reliefs[-1].replica, ReplicaRelease(reliefs[-1].copy.epoch, "spare"))]
        return []

    # Events --------------------------------------------------------------------------------------

    def share(self, effects: list[Effect]) -> list[Effect]:
        """Each event for a place takes one of its ways; what is left for the holder may still have to wait for it."""
        for holder in dict.fromkeys(each.holder for each in self._of.values()):
            effects = [part for effect in effects for part in self._shared(effect, holder)]
        return effects

    def _shared(self, effect: Effect, holder: str) -> list[Effect]:
        if type(effect) is not Multicast or type(effect.message) is not Publish:
            return [effect]
        reliefs, publish = self.of(holder), effect.message
        place = {holder, self._successor_of(holder), *[each.replica for each in reliefs]}
        if place.isdisjoint(effect.to):
            return [effect]
        others = tuple([name for name in effect.to if name not in place])
        at_holder = tuple([name for name in effect.to if name in (holder, self._successor_of(holder))])
        ways = [each.replica for each in reliefs if each.takes(each.replica in effect.to)]
        if at_holder and self._alone.get(holder, False):
            ways = []  # it may be for clients of the holder
        way = self._choose(holder, bool(at_holder), ways)
        if way is not None and holder in self._marks:
            self._marks[holder].on_event(publish.publication, way)
        out: list[Effect] = []
        if way in self._of:
            out.append(Send(way, replace(publish, via="replica")))
        elif way is not None:
            others += at_holder
        return [Multicast(others, publish), *out] if others else out

    def _choose(self, holder: str, holder_wants: bool, ways: list[str]) -> str | None:
        failover = self._failovers.get(holder)
        if not holder_wants:
            return shortest(ways, self._queue_length) if ways else None
        if failover is None:
            return shortest([holder, *ways], self._queue_length)
        if ways and (failover.replica is None or not failover.state.is_open):
            return shortest(ways, self._queue_length)  # rather than wait
        return shortest([failover.replica or holder, *ways], self._queue_length)

    def _successor_of(self, holder: str) -> str:
        """The replica that is about to take its place, if there is one."""
        failover = self._failovers.get(holder)
        return holder if failover is None or failover.replica is None else failover.replica

    def on_heartbeat(self, stalled_max: int) -> list[Effect]:
        for holder in {each.holder: None for each in self._of.values() if each.holder in self._marks}:
            self._marks[holder].repeat()
        return self._let_go(self.reorderings.on_heartbeat(stalled_max))

    def take_marks(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for holder, marks in list(self._marks.items()):
            reliefs, failover, up = self.of(holder), self._failovers.get(holder), self._broker.brokers()
            at_holder = [holder] if failover is None else [failover.replica or ""]
            if failover is not None and len(failover.out):
                at_holder = []  # a mark would overtake what waits
            effects += marks.take([*[each for each in at_holder if each in up], *[r.replica for r in reliefs]], now_us)
            if not reliefs and marks.due_us is None:
                del self._marks[holder]
        return effects
