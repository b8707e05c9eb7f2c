"""Brokers next to us that fail, and the replicas that take their places.

A broker that is silent is suspected: its tables are kept as they are, and what is for it waits, until a replica has
asked for our tables and has everything, the broker is back, or nobody comes.
"""

from collections.abc import Callable

from holdfast.model.replication_messages import ReplicaRequest, Retired
from holdfast.protocol.broker import CoreBroker
from holdfast.protocol.effects import Effect, Incident, LinkDown, Send
from holdfast.protocol.hops.failure_detector import FailureDetector
from holdfast.protocol.replication.directory import Directory, Successors
from holdfast.protocol.replication.neighbour_failover import Failovers, NeighbourFailover
from holdfast.protocol.replication.reliefs import Reliefs
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.replication.states import FailoverEvent
from holdfast.protocol.tree import TreeRouter


class Takeovers:
    def __init__(
        self,
        broker: CoreBroker,
        tree: TreeRouter,
        settings: ReplicationSettings,
        failovers: Failovers,
        directory: Directory,
        retired: Successors,
        reliefs: Reliefs,
        watch: FailureDetector,
        settle_us: int,
        on_replica_gone: Callable[[str, int], list[Effect]],
    ) -> None:
        self._broker = broker
        self._tree = tree
        self._settings = settings
        self._failovers = failovers
        self._directory = directory
        self._retired = retired
        self._reliefs = reliefs
        self._watch = watch
        self._settle_us = settle_us  # until all have told a broker what they want
        self._on_replica_gone = on_replica_gone

    def suspect(self, name: str, now_us: int, ask_us: int) -> list[Effect]:
        """Its tables are kept as they are, and what is for it waits."""
        self._broker.suspend(name)
        self._watch.give_up(name)
        ask_us += self._directory.rank(name) * self._settings.takeover_us
        self._failovers.begin(name, now_us, ask_us)
        return [Incident("suspected", name)]

    def on_broker_gone(self, name: str, now_us: int) -> list[Effect]:
        """A suspected broker that was back falls silent again."""
        failover = self._failovers.get(name)
        self._broker.suspend(name)
        return [] if failover is None else failover.on_gone_again(now_us)

    def give_up(self, failover: NeighbourFailover, now_us: int) -> list[Effect]:
        self._failovers.end(failover, FailoverEvent.GIVEN_UP)
        waiting, faulty = len(failover.out), failover.faulty
        dropped = [Incident("replica_backlog_dropped", faulty, waiting)] if waiting else []
        effects = self._reliefs.leave_order(faulty) + self._broker.handle(LinkDown(faulty), now_us)
        return [Incident("no_replica", faulty), *dropped, *effects]

    def on_return(self, failover: NeighbourFailover, is_anew: bool, now_us: int) -> list[Effect]:
        """The suspected broker speaks. If it began anew, it has lost what it had, and knows nobody who wants ours."""
        if is_anew:
            failover.back_us = now_us + self._settle_us
            self._broker.resume(failover.faulty)
            return self._broker.begins_anew(failover.faulty, now_us)
        return self.resume(failover) if failover.back_us is None else []

    def resume(self, failover: NeighbourFailover) -> list[Effect]:
        """The suspected broker is back before it was replaced: it gets what waited for it."""
        self._failovers.end(failover, FailoverEvent.BROKER_BACK)
        self._broker.resume(failover.faulty)
        waited = [Send(failover.faulty, each) for each in failover.out.held()]
        return [Incident("suspect_returned", failover.faulty), *waited, *failover.kept_marks()]

    def on_request(self, name: str, request: ReplicaRequest, now_us: int) -> list[Effect]:
        faulty = self._failovers.meant_by(request.faulty)
        if faulty in (self._broker.name, name) or self._broker.kind_of(faulty) == "client":
            return [Incident("unexpected_message", name)]  # nobody can stand for these
        if request.use != "failover":
            suspected = self._failovers.get(name)
            back = self.resume(suspected) if suspected is not None and suspected.replica is None else []
            return back + self._reliefs.on_request(name, request, now_us)
        failover = self._failovers.get(faulty)
        if failover is not None and failover.replica not in (None, name) and request.epoch < failover.epoch:
            return self._dismiss(name, failover.replica or faulty, now_us)
        if failover is not None and failover.replica == name and failover.epoch == request.epoch:
            return failover.copy.all_again(name, self._tree.sent_tables(name) if failover.state.copies else {})
        successor, epoch = self._retired.latest(faulty)
        if successor == name and epoch == request.epoch:
            return []
        if successor not in (name, faulty):
            if request.epoch < epoch or self._broker.brokers().get(successor, False):
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
            self._broker.resume(name)
        self._failovers.on_request(failover, name, request, now_us)
        self._tree.on_link_down(name)
        self._tree.pair(faulty, name)
        if self._broker.knows(faulty):
            self._broker.suspend(faulty)
        effects += self._reliefs.on_takeover(faulty, name)
        effects.append(Incident("failover_requested", faulty, other=name, copying=request.copying))
        return effects + self._tree.on_link_up(name, "broker", now_us)

    def _dismiss(self, name: str, successor: str, now_us: int) -> list[Effect]:
        """There is a newer replica: this one would be a second way, and is no neighbour any more."""
        self._retired.add(name, successor)
        told: list[Effect] = [Incident("replica_outdated", name), Send(name, Retired(successor))]
        return told + self._broker.handle(LinkDown(name), now_us)

    def on_copy_done(self, failover: NeighbourFailover, replica: str, digest: int, now_us: int) -> list[Effect]:
        if not failover.state.copies or self._broker.heard_summary(replica, "subscriptions")[1] != digest:
            return []  # something was lost on the way; it is told again, and so is this
        failover.on_done()
        return self._finish(failover, now_us)

    def _finish(self, failover: NeighbourFailover, now_us: int) -> list[Effect]:
        """The replica is the broker now."""
        assert failover.replica is not None
        faulty, replica = failover.faulty, failover.replica
        self._retired.add(faulty, replica, failover.epoch)
        effects: list[Effect] = [Incident("replaced_by", faulty, other=replica), Send(faulty, Retired(replica))]
        effects += self._directory.on_replaced(faulty, replica) + self._broker.is_replaced(faulty, replica, now_us)
        self._tree.unpair(faulty)
        self._reliefs.on_replaced(faulty, replica)
        return effects
