"""One broker that fails or is overloaded, and its replica, as a neighbour of both sees them.

While the broker is only suspected, events for it wait. When a replica has asked for our tables they still wait, go, or
are shared between the two, as the protocol has it. When the replica has everything, it either is the broker's
successor, and nothing is left of this, or works beside it.
"""

from collections.abc import Callable
from enum import Enum

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
    ReplicaUse,
    Snapshot,
)
from holdfast.protocol.effects import Effect, Incident, Multicast, Send
from holdfast.protocol.replication.out_queue import OutQueue
from holdfast.protocol.replication.replica import Copies
from holdfast.protocol.replication.settings import ReplicationSettings

_MARKS_REPEATED = 4  # a mark is said so often, in case it is lost


class Phase(Enum):
    SUSPECTED = "suspected"
    COPYING = "copying"
    DRAINING = "draining"  # the replica has everything, and what waited for it is on its way
    BESIDE = "beside"


class NeighbourFailover:
    def __init__(self, faulty: str, settings: ReplicationSettings, now_us: int) -> None:
        self.faulty = faulty
        self.phase = Phase.SUSPECTED
        self.replica: str | None = None
        self.epoch = 0
        self.copying: CopyProtocol = settings.copying
        self.use: ReplicaUse = "failover"
        self.out = OutQueue(settings.pace_us, settings.pending_max)
        self.began_us = now_us
        self.ask_us: int | None = None  # when to ask for a replica
        self.said_us = now_us
        self.said_advertisements: int | None = None  # digests that the replica was told last
        self.said_subscriptions: tuple[int, int] | None = None
        self.moves = False  # the replica can take events before it has everything
        self.marks: dict[str, int] = {}  # source -> the last number sent by either way
        self.marks_left = 0  # times that they are still to be said
        self.used: dict[str, dict[str, None]] = {}  # way -> sources of which it had an event since the last marks
        self.marks_us = now_us
        self._settings = settings

    @property
    def takes_over(self) -> bool:
        return self.use == "failover"

    def next_due_us(self) -> int | None:
        dues_us = [self.ask_us, self.out.next_due_us()]
        if self.phase is Phase.SUSPECTED:
            dues_us.append(self.began_us + self._settings.patience_us)
        if self.phase is Phase.COPYING:
            dues_us.append(self.said_us + self._settings.retry_us)
        if self.use == "reordering" and self.marks_left:
            dues_us.append(self.marks_us)
        return min((each for each in dues_us if each is not None), default=None)

    def on_timer(self, now_us: int) -> list[Effect]:
        if self.phase is Phase.COPYING and now_us >= self.said_us + self._settings.retry_us:
            self.said_subscriptions = None  # say it again
            self.said_us = now_us
        if self.use == "reordering" and self.marks_left and now_us >= self.marks_us:
            return self.take_marks(now_us)
        return []

    def on_request(self, replica: str, request: ReplicaRequest, now_us: int) -> None:
        self.phase = Phase.COPYING
        self.replica, self.epoch = replica, request.epoch
        self.copying, self.use = request.copying, request.use
        self.said_us = self.marks_us = now_us
        self.said_advertisements = self.said_subscriptions = None
        self.ask_us = None
        self.moves = False

    def on_replica_gone(self, now_us: int) -> None:
        """Back to waiting for one."""
        self.phase = Phase.SUSPECTED
        self.replica = None
        self.began_us = now_us
        self.ask_us = now_us + self._settings.takeover_us
        self.out.forget_readiness()

    def on_subscriptions(self, conditions: list[str], matches: Callable[[str, Publish], bool]) -> None:
        """The replica has told of these: what waited for them may go."""
        if not self.takes_over or self.phase is not Phase.COPYING or not conditions:
            return
        if self.copying == "incremental":
            for condition in conditions:
                self.out.make_ready(condition, lambda publish, condition=condition: matches(condition, publish))  # type: ignore[misc]
        elif self.copying == "basic" and not self.moves:
            self.moves = True
            self.out.make_all_ready()

    def on_open(self) -> None:
        if self.copying == "ordered" and not self.moves:
            self.moves = True
            if self.takes_over:
                self.out.make_all_ready()

    def on_done(self) -> None:
        self.moves = True
        self.phase = Phase.DRAINING if self.takes_over else Phase.BESIDE
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
        if self.phase is Phase.DRAINING or self.moves or (to_replica and self.copying == "incremental"):
            self.out.make_one_ready(publish)
        else:
            self.out.hold(publish)

    def choose(self, to_faulty: bool, to_replica: bool, length: Callable[[str], int]) -> str:
        """Events beside the faulty broker: whoever has the shorter queue, of those that can take it."""
        assert self.replica is not None
        complete = self.phase is Phase.BESIDE
        known = to_replica and self.copying in ("basic", "incremental")
        if not (complete and to_replica) and not known and not (self.copying == "ordered" and self.moves):
            return self.faulty
        if not to_faulty:
            return self.replica
        return self.replica if length(self.replica) < length(self.faulty) else self.faulty

    def _share(self, publish: Publish, way: str) -> Effect:
        source, seq = publish.publication.source, publish.publication.seq
        self.marks[source] = max(self.marks.pop(source, 0), seq)  # the latest comes last
        if len(self.marks) > self._settings.sources_max:
            del self.marks[next(iter(self.marks))]
        self.used.setdefault(way, {})[source] = None
        self.marks_left = _MARKS_REPEATED
        return Send(way, publish if way == self.faulty else replace(publish, via="replica"))

    def take_marks(self, now_us: int) -> list[Effect]:
        """For each way, how far the sources are of which it had no event lately: an event says as much by itself."""
        assert self.replica is not None
        self.marks_left -= 1
        self.marks_us = now_us + self._settings.marks_us
        used, self.used = self.used, {}
        effects: list[Effect] = []
        for way in (self.faulty, self.replica):
            quiet = [each for each in self.marks.items() if each[0] not in used.get(way, ())]
            for start in range(0, len(quiet), NODES_MAX):
                effects.append(Send(way, HighWaterMarks(tuple(quiet[start : start + NODES_MAX]), onwards=True)))
        return effects

    def queue_tables(self, effects: list[Effect], copies: Copies, told: int, now_us: int) -> list[Effect]:
        """Tables for the replica go through its queue, and behind them the word that this was all."""
        left: list[Effect] = []
        for effect in effects:
            if type(effect) is Send and effect.to == self.replica and isinstance(effect.message, Delta | Snapshot):
                self.out.put_control(effect.message)
            else:
                left.append(effect)
        if self.said_advertisements != copies.told_advertisements:
            self.said_advertisements = copies.told_advertisements
            self.out.put_control(LastAdvertisement(self.epoch, copies.told_advertisements))
        answers = copies.heard_advertisements, told
        if self.said_subscriptions != answers:
            self.said_subscriptions, self.said_us = answers, now_us
            self.out.put_control(LastSubscription(self.epoch, *answers))
        return left

    def what_goes(self, now_us: int, wanting: Callable[[Attributes], tuple[str, ...]]) -> list[Effect]:
        """To the replica, now. The basic protocol drops what the replica has not asked for yet."""
        assert self.replica is not None
        blind = self.copying == "basic" and self.phase is Phase.COPYING
        going: list[Effect] = []
        for message in self.out.take(now_us):
            if blind and type(message) is Publish and self.replica not in wanting(message.publication.attributes):
                going.append(
                    Incident("replica_not_ready", source=message.publication.source, first=message.publication.seq)
                )
            else:
                going.append(Send(self.replica, message))
        return going
