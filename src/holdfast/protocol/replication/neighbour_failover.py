"""One broker that fails, and the replica in its place, as a neighbour of both sees them.

While the broker is only suspected, events for it wait. When a replica has asked for our tables they still wait, or go,
as the protocol has it. When the replica has everything, it is the broker's successor, and nothing is left of this.
`states` has what may follow what.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from holdfast.model.event import Attributes
from holdfast.model.limits import NODES_MAX
from holdfast.model.messages import Publish
from holdfast.model.replication_messages import HighWaterMarks, ReplicaRequest
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Effect, Incident, Multicast, ReplicaWanted, Send
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.replication.states import FAILOVER, FailoverEvent, FailoverState, after
from holdfast.protocol.replication.table_copy import TableCopy

_LOST_MAX = 64  # replicas of one broker that failed in a row; by then somebody has come to look


class NeighbourFailover:
    def __init__(self, faulty: str, settings: ReplicationSettings, now_us: int, ask_us: int) -> None:
        self.faulty = faulty
        self.state = FailoverState.SUSPECTED
        self.replica: str | None = None
        self.lost: set[str] = set()  # replicas that did not get so far as to take over
        self.copy = TableCopy(settings, now_us)
        self.out = self.copy.out
        self.began_us = now_us
        self.ask_us = ask_us  # when to ask for a replica, while it is suspected
        self.back_us: int | None = None  # it is back in another life: when it gets what waits
        self._marks: dict[str, int] = {}  # to be passed on to those who stand there, behind what waits
        self._settings = settings

    @property
    def epoch(self) -> int:
        return self.copy.epoch

    def on(self, event: FailoverEvent) -> None:
        self.state = after(FAILOVER, self.state, event)

    def next_due_us(self) -> int | None:
        dues_us = [self.out.next_due_us()]
        if self.state is FailoverState.SUSPECTED and self.back_us is not None:
            dues_us.append(self.back_us)
        elif self.state is FailoverState.SUSPECTED:
            dues_us += [self.ask_us, self.began_us + self._settings.patience_us]
        if self.state.copies:
            dues_us.append(self.copy.due_us)
        return min((each for each in dues_us if each is not None), default=None)

    def patience_is_over(self, now_us: int) -> bool:
        """Whether no replica has come in time."""
        is_awaited = self.state is FailoverState.SUSPECTED and self.back_us is None
        return is_awaited and now_us >= self.began_us + self._settings.patience_us

    def on_timer(self, now_us: int, neighbours_of: Callable[[str], tuple[str, ...]]) -> list[Effect]:
        if self.state is FailoverState.SUSPECTED and self.back_us is None and now_us >= self.ask_us:
            around = neighbours_of(self.faulty)
            self.ask_us = now_us + self._settings.takeover_us * (1 + len(around))
            return [ReplicaWanted(self.faulty, around, self._settings.copying, "failover")]
        if self.state.copies:
            self.copy.on_timer(now_us)
        return []

    def on_gone_again(self, now_us: int) -> list[Effect]:
        """It was back for a moment at most."""
        if self.back_us is None:
            return []
        self.back_us, self.ask_us = None, now_us + self._settings.suspect_us
        return [Incident("suspected", self.faulty)]

    def on_request(self, replica: str, request: ReplicaRequest, now_us: int) -> None:
        self.on(FailoverEvent.REQUESTED)
        self.replica, self.back_us = replica, None
        self.copy.begin(request, now_us)

    def on_replica_gone(self, now_us: int) -> None:
        """If it had not taken over yet, back to waiting for one."""
        self.on(FailoverEvent.REPLICA_GONE)
        if self.state is FailoverState.SUSPECTED and self.replica is not None:
            if len(self.lost) < _LOST_MAX:
                self.lost.add(self.replica)
            self.replica = None
            self.began_us = now_us
            self.ask_us = now_us + self._settings.takeover_us
            self.out.forget_readiness()

    def on_subscriptions(self, conditions: list[str], book: ConditionBook) -> None:
        """The replica has told of these: what waited for them may go."""
        if not self.state.copies or not conditions:
            return
        if self.copy.copying == "incremental":
            for condition in conditions:
                wanted = book.subscription(condition)
                self.out.make_ready(condition, lambda publish, to=wanted: to.matches(publish.publication.attributes))  # type: ignore[misc]
        elif self.copy.copying == "basic":
            self._open()

    def on_open(self) -> None:
        if self.copy.copying == "ordered" and self.state.copies:
            self._open()

    def _open(self) -> None:
        if not self.state.is_open:
            self.on(FailoverEvent.OPENED)
            self.out.make_all_ready()

    def on_done(self) -> None:
        self.on(FailoverEvent.COPIED)
        self.out.make_all_ready()

    def split_off(self, effects: list[Effect]) -> list[Effect]:
        """Take out what is for the faulty broker or its replica, and keep or send it as the protocol has it."""
        out: list[Effect] = []
        pair = self.faulty, self.replica
        for effect in effects:
            if type(effect) is not Multicast or type(effect.message) is not Publish or not set(pair) & set(effect.to):
                out.append(effect)
                continue
            others = tuple([name for name in effect.to if name not in pair])
            if others:
                out.append(Multicast(others, effect.message))
            self._keep(replace(effect.message, via="replica"), self.replica in effect.to)
        return out

    def _keep(self, publish: Publish, to_replica: bool) -> None:
        """Held, or on its way as soon as its turn comes."""
        if self.state.is_open or (to_replica and self.copy.copying == "incremental"):
            self.out.make_one_ready(publish)
        else:
            self.out.hold(publish)

    def keep_marks(self, marks: HighWaterMarks) -> None:
        """A mark must not overtake what waits."""
        for source, seq in marks.marks:
            self._marks[source] = max(self._marks.pop(source, 0), seq)  # the latest comes last
        while len(self._marks) > self._settings.sources_max:
            del self._marks[next(iter(self._marks))]

    def kept_marks(self) -> list[Effect]:
        """For whoever stands there now, when nothing waits any more."""
        to, marks = self.replica or self.faulty, list(self._marks.items())
        parts = [tuple(marks[start : start + NODES_MAX]) for start in range(0, len(marks), NODES_MAX)]
        return [Send(to, HighWaterMarks(part, onwards=False)) for part in parts]

    def what_goes(self, now_us: int, wanting: Callable[[Attributes], tuple[str, ...]]) -> list[Effect]:
        """To the replica, now. The basic protocol drops what the replica has not asked for yet."""
        assert self.replica is not None
        blind = self.copy.copying == "basic" and self.state.copies
        going: list[Effect] = []
        for message in self.out.take(now_us):
            if blind and type(message) is Publish and self.replica not in wanting(message.publication.attributes):
                going.append(
                    Incident("replica_not_ready", source=message.publication.source, first=message.publication.seq)
                )
            else:
                going.append(Send(self.replica, message))
        return going

    def overflow(self) -> list[Effect]:
        """What was dropped since the last time, because too much waited for the replica."""
        dropped, self.out.dropped = self.out.dropped, 0
        return [Incident("replica_backlog_overflow", self.faulty, dropped)] if dropped else []


class Failovers:
    """Those that a broker takes part in, by the faulty broker."""

    def __init__(self, settings: ReplicationSettings) -> None:
        self._settings = settings
        self._of: dict[str, NeighbourFailover] = {}
        self._faulty_of: dict[str, str] = {}  # replica -> for whom it stands
        self._entries = 0  # of those that are over

    def __contains__(self, faulty: str) -> bool:
        return faulty in self._of

    def __iter__(self) -> Iterator[NeighbourFailover]:
        return iter(list(self._of.values()))

    def __len__(self) -> int:
        return len(self._of)

    @property
    def entries(self) -> int:
        """That their queues have had so far."""
        return self._entries + sum(each.out.filed for each in self._of.values())

    @property
    def waiting(self) -> int:
        """Events for the replica that most wait for."""
        return max((len(each.out) for each in self._of.values()), default=0)

    def get(self, faulty: str) -> NeighbourFailover | None:
        return self._of.get(faulty)

    def meant_by(self, faulty: str) -> str:
        """Whom this broker stood for, if it was a replica that did not get so far as to take over."""
        return next((each.faulty for each in self._of.values() if faulty in each.lost), faulty)

    def by(self, replica: str) -> NeighbourFailover | None:
        return self._of.get(self._faulty_of.get(replica, ""))

    def has_replica(self, name: str) -> bool:
        return name in self._faulty_of

    def begin(self, faulty: str, now_us: int, ask_us: int) -> NeighbourFailover:
        begun = self._of[faulty] = NeighbourFailover(faulty, self._settings, now_us, ask_us)
        return begun

    def on_request(self, failover: NeighbourFailover, replica: str, request: ReplicaRequest, now_us: int) -> None:
        failover.on_request(replica, request, now_us)
        self._of[failover.faulty] = failover
        self._faulty_of[replica] = failover.faulty

    def hand_over(self, replica: str, failover: NeighbourFailover) -> bool:
        """A replica that was suspected itself begins anew, for the same broker: it gets what waited for it."""
        suspected = self._of.get(replica)
        if suspected is None or suspected.state is not FailoverState.SUSPECTED:
            return False
        self.end(suspected, FailoverEvent.BROKER_BACK)
        for each in suspected.out.held():
            failover.out.hold(each)
        return True

    def on_replica_gone(self, replica: str, now_us: int) -> None:
        failover = self._of[self._faulty_of.pop(replica)]
        failover.on_replica_gone(now_us)
        self._drop_if_over(failover)

    def end(self, failover: NeighbourFailover, event: FailoverEvent) -> None:
        failover.on(event)
        self._drop_if_over(failover)

    def _drop_if_over(self, failover: NeighbourFailover) -> None:
        if failover.state is FailoverState.OVER:
            del self._of[failover.faulty]
            self._faulty_of.pop(failover.replica or "", None)
            self._entries += failover.out.filed
