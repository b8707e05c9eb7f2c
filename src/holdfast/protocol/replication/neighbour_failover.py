"""One broker that fails or is overloaded, and its replica, as a neighbour of both sees them.

While the broker is only suspected, events for it wait. When a replica has asked for our tables they still wait, go, or
are shared between the two, as the protocol has it. When the replica has everything, it either is the broker's
successor, and nothing is left of this, or works beside it. `states` has what may follow what.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from holdfast.model.event import Attributes
from holdfast.model.limits import NODES_MAX
from holdfast.model.messages import (
    CopyProtocol,
    Delta,
    HighWaterMarks,
    LastAdvertisement,
    LastSubscription,
    Publish,
    ReplicaRequest,
    Snapshot,
    Table,
)
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Effect, Incident, Multicast, ReplicaWanted, Send
from holdfast.protocol.replication.out_queue import OutQueue
from holdfast.protocol.replication.replica import Copies
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.replication.states import FAILOVER, FailoverEvent, FailoverState, after
from holdfast.protocol.tables import SentTable

_MARKS_REPEATED = 4  # a mark is said so often, in case it is lost
_LOST_MAX = 64  # replicas of one broker that failed in a row; by then somebody has come to look


class NeighbourFailover:
    def __init__(self, faulty: str, settings: ReplicationSettings, now_us: int, ask_us: int) -> None:
        self.faulty = faulty
        self.state = FailoverState.SUSPECTED
        self.replica: str | None = None
        self.lost: set[str] = set()  # replicas that did not get so far as to take over
        self.epoch = 0
        self.copying: CopyProtocol = settings.copying
        self.reorders = False  # events that the two share are put in order again behind them
        self.out = OutQueue(settings.pace_us, settings.pending_max)
        self.began_us = now_us
        self.ask_us = ask_us  # when to ask for a replica, while it is suspected
        self.back_us: int | None = None  # it is back in another life: when it gets what waits
        self.sent_us = now_us
        self.sent_advertisement_digest: int | None = None  # digests that the replica was told last
        self.sent_subscription_digests: tuple[int, int] | None = None
        self.marks: dict[str, int] = {}  # source -> the last number sent by either way
        self.marks_left = 0  # times that they are still to be said
        self.used: dict[str, dict[str, None]] = {}  # way -> sources of which it had an event since the last marks
        self.marks_us = now_us
        self._settings = settings

    @property
    def takes_over(self) -> bool:
        return self.state.takes_over

    @property
    def _has_marks(self) -> bool:
        return self.reorders and not self.takes_over and self.marks_left > 0

    def on(self, event: FailoverEvent) -> None:
        self.state = after(FAILOVER, self.state, event)

    def next_due_us(self) -> int | None:
        dues_us = [self.out.next_due_us()]
        if self.state is FailoverState.SUSPECTED and self.back_us is not None:
            dues_us.append(self.back_us)
        elif self.state is FailoverState.SUSPECTED:
            dues_us += [self.ask_us, self.began_us + self._settings.patience_us]
        if self.state.copies:
            dues_us.append(self.sent_us + self._settings.retry_us)
        if self._has_marks:
            dues_us.append(self.marks_us)
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
        if self.state.copies and now_us >= self.sent_us + self._settings.retry_us:
            self.sent_subscription_digests = None  # say it again
            self.sent_us = now_us
        if self._has_marks and now_us >= self.marks_us:
            return self.take_marks(now_us)
        return []

    def on_gone_again(self, now_us: int) -> list[Effect]:
        """It was back for a moment at most."""
        if self.back_us is None:
            return []
        self.back_us, self.ask_us = None, now_us + self._settings.suspect_us
        return [Incident("suspected", self.faulty)]

    def on_request(self, replica: str, request: ReplicaRequest, now_us: int) -> None:
        takes_over = request.use == "failover"
        self.on(FailoverEvent.TAKEOVER_REQUESTED if takes_over else FailoverEvent.JOIN_REQUESTED)
        self.replica, self.epoch, self.back_us = replica, request.epoch, None
        self.copying, self.reorders = request.copying, request.use == "reordering"
        self.sent_us = self.marks_us = now_us
        self.sent_advertisement_digest = self.sent_subscription_digests = None

    def send_all_again(self, tables: Mapping[Table, SentTable]) -> list[Effect]:
        assert self.replica is not None
        self.sent_advertisement_digest = self.sent_subscription_digests = None
        sent = tables.values() if self.state.copies else ()
        return [Send(self.replica, part) for each in sent for part in each.snapshots()]

    def on_replica_gone(self, now_us: int) -> None:
        """If it was to take over and had not yet, back to waiting for one."""
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
        if not self.takes_over or not self.state.copies or not conditions:
            return
        if self.copying == "incremental":
            for condition in conditions:
                wanted = book.subscription(condition)
                self.out.make_ready(condition, lambda publish, to=wanted: to.matches(publish.publication.attributes))  # type: ignore[misc]
        elif self.copying == "basic":
            self._open()

    def on_open(self) -> None:
        if self.copying == "ordered" and self.state.copies:
            self._open()

    def _open(self) -> None:
        if not self.state.is_open:
            self.on(FailoverEvent.OPENED)
            if self.takes_over:
                self.out.make_all_ready()

    def on_done(self) -> None:
        self.on(FailoverEvent.COPIED)
        self.out.make_all_ready()

    def split_off(self, effects: list[Effect], length: Callable[[str], int]) -> list[Effect]:
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
            to_faulty, to_replica = (name in effect.to for name in pair)
            if self.takes_over:
                self.keep(replace(effect.message, via="replica"), to_replica)
            else:
                out.append(self._share(effect.message, self.choose(to_faulty, to_replica, length)))
        return out

    def keep(self, publish: Publish, to_replica: bool) -> None:
        """Events instead of the faulty broker: held, or on their way as soon as their turn comes."""
        if self.state.is_open or (to_replica and self.copying == "incremental"):
            self.out.make_one_ready(publish)
        else:
            self.out.hold(publish)

    def choose(self, to_faulty: bool, to_replica: bool, length: Callable[[str], int]) -> str:
        """Events beside the faulty broker: whoever has the shorter queue, of those that can take it."""
        assert self.replica is not None
        known = to_replica and (self.state is FailoverState.BESIDE or self.copying in ("basic", "incremental"))
        if not known and not (self.copying == "ordered" and self.state.is_open):
            return self.faulty
        if not to_faulty:
            return self.replica
        return self.replica if length(self.replica) < length(self.faulty) else self.faulty

    def _share(self, publish: Publish, hop: str) -> Effect:
        source, seq = publish.publication.source, publish.publication.seq
        self.marks[source] = max(self.marks.pop(source, 0), seq)  # the latest comes last
        if len(self.marks) > self._settings.sources_max:
            del self.marks[next(iter(self.marks))]
        self.used.setdefault(hop, {})[source] = None
        self.marks_left = _MARKS_REPEATED
        return Send(hop, publish if hop == self.faulty else replace(publish, via="replica"))

    def take_marks(self, now_us: int) -> list[Effect]:
        """For each way, how far the sources are of which it had no event lately: an event says as much by itself."""
        assert self.replica is not None
        self.marks_left -= 1
        self.marks_us = now_us + self._settings.marks_us
        used, self.used = self.used, {}
        effects: list[Effect] = []
        for hop in (self.faulty, self.replica):
            quiet = [each for each in self.marks.items() if each[0] not in used.get(hop, ())]
            for start in range(0, len(quiet), NODES_MAX):
                effects.append(Send(hop, HighWaterMarks(tuple(quiet[start : start + NODES_MAX]), onwards=True)))
        return effects

    def queue_tables(
        self, effects: list[Effect], copies: Copies, sent: int, is_all: tuple[bool, bool], now_us: int
    ) -> list[Effect]:
        """Tables for the replica go through its queue, and behind them the word that this was all, once it is."""
        left: list[Effect] = []
        for effect in effects:
            if type(effect) is Send and effect.to == self.replica and isinstance(effect.message, Delta | Snapshot):
                self.out.put_control(effect.message)
            else:
                left.append(effect)
        if is_all[0] and self.sent_advertisement_digest != copies.sent_advertisements:
            self.sent_advertisement_digest = copies.sent_advertisements
            self.out.put_control(LastAdvertisement(self.epoch, copies.sent_advertisements))
        answers = copies.heard_advertisements, sent
        if is_all[1] and self.sent_subscription_digests != answers:
            self.sent_subscription_digests, self.sent_us = answers, now_us
            self.out.put_control(LastSubscription(self.epoch, *answers))
        return left

    def what_goes(self, now_us: int, wanting: Callable[[Attributes], tuple[str, ...]]) -> list[Effect]:
        """To the replica, now. The basic protocol drops what the replica has not asked for yet."""
        assert self.replica is not None
        blind = self.copying == "basic" and self.state.copies
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
