"""What a replica does beyond what any broker does, until it has everything.

It asks every neighbour, passes events on as its protocol has it, and says when it is done. Basic and synchronous
replicas forward by the tables they have. An incremental one also keeps every event for subscriptions to come. An
ordered one sends every event to all neighbours that have not told everything yet: they know themselves what they want,
and nothing can overtake anything.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from holdfast.model.messages import (
    Publish,
)
from holdfast.model.replication_messages import (
    CopyDone,
    CopyOpen,
    HighWaterMarks,
    LastAdvertisement,
    LastSubscription,
    ReplicaRequest,
)
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Effect, Incident, Multicast, Send
from holdfast.protocol.replication.cache import EventCache
from holdfast.protocol.replication.replica import Copies, Replica
from holdfast.protocol.replication.settings import ReplicationSettings, Role
from holdfast.protocol.replication.states import ReplicaState
from holdfast.protocol.tree import TreeRouter


class ReplicaSession:
    def __init__(
        self,
        role: Role,
        epoch: int,
        settings: ReplicationSettings,
        copies: Callable[[str], Copies | None],
        tree: TreeRouter,
        book: ConditionBook,
        want_if_silent: Callable[[str], list[Effect]],
    ) -> None:
        self._role = role
        self._settings = settings
        self._want_if_silent = want_if_silent  # a replica for a neighbour that has not said a word
        self._replica = Replica(role, epoch, settings, copies)
        self._request = ReplicaRequest(epoch, role.faulty, role.copying, role.use)
        self._marks: dict[str, dict[str, int]] = {}  # for neighbours that may still get earlier events
        self._tree = tree
        self.cache = EventCache(book, settings.cache_max)

    @property
    def is_done(self) -> bool:
        return self._replica.state is ReplicaState.REPLICATED

    def next_due_us(self) -> int | None:
        return self._replica.next_due_us()

    def on_link_up(self, name: str, replaces: str | None) -> list[Effect]:
        """Also when all is done: a neighbour may have been away, and still keep events for the faulty broker."""
        if self._role.use != "failover" and not self._replica.expects(name, replaces):
            return []  # it is next to the broker that we work beside, or to us alone
        effects: list[Effect] = [Send(name, self._request)]
        if self._replica.take_in(name, replaces) and self.is_done:
            effects.insert(0, Incident("neighbour_came_late", name))
        if self._replica.state is ReplicaState.SUBSCRIPTIONS and self._role.copying == "ordered":
            effects.append(Send(name, CopyOpen(self._replica.epoch)))
        return effects

    def on_gone(self, name: str) -> None:
        self._replica.drop(name)

    def knows_all_for(self, neighbour: str) -> tuple[bool, bool]:
        """Whether we have all the advertisements, and subscriptions, that this neighbour is to have from us."""
        return self._replica.knows_advertisements(neighbour), self._replica.knows_subscriptions(neighbour)

    def on_last(self, name: str, last: LastAdvertisement | LastSubscription) -> list[Effect]:
        if isinstance(last, LastAdvertisement):
            self._replica.on_last_advertisement(name, last)
            return []
        self._replica.on_last_subscription(name, last)
        if not self.is_done:
            return []
        ready = [Incident(ReplicaState.REPLICATED.value, self._role.faulty)] if self._replica.on_answer(name) else []
        return [*ready, *self._done(name)]

    def advance(self) -> list[Effect]:
        effects: list[Effect] = []
        if self.cache.dropped:
            effects.append(Incident("replica_cache_overflow", self._role.faulty, self.cache.dropped))
            self.cache.dropped = 0
        began = self._replica.advance()
        if began is None:
            return effects
        is_complete = began is not ReplicaState.REPLICATED or not self._replica.left_out
        missing = Incident("replica_incomplete", self._role.faulty, self._replica.left_out)
        effects.append(Incident(began.value, self._role.faulty) if is_complete else missing)
        if began is ReplicaState.SUBSCRIPTIONS and self._role.copying == "ordered":
            effects.append(Multicast(self._replica.neighbours, CopyOpen(self._replica.epoch)))
        if began is not ReplicaState.REPLICATED:
            return effects
        self.cache.clear()
        for name, marks in self._marks.items():
            effects.append(Send(name, HighWaterMarks(tuple(marks.items()), onwards=False)))
        self._marks.clear()
        return effects + [each for name in self._replica.neighbours for each in self._done(name)]

    def _done(self, name: str) -> list[Effect]:
        sent = self._tree.sent_tables(name)
        return [Send(name, CopyDone(self._replica.epoch, sent["subscriptions"].digest))] if sent else []

    def on_timer(self, now_us: int) -> list[Effect]:
        due_us = self._replica.next_due_us()
        if due_us is None or due_us > now_us:
            return []
        again, lost = self._replica.on_timer(now_us)
        effects: list[Effect] = [Incident("neighbour_left_out", name) for name in lost]
        if not self._replica.neighbours:
            effects.append(Incident("replication_failed", self._role.faulty))
            again = self._replica.begin_anew()
        for name in self._replica.neighbours:
            effects += self._want_if_silent(name)
        for name in again:
            effects.append(Send(name, self._request))
            sent = self._tree.sent_tables(name)
            if sent:
                effects += [Send(name, each) for each in sent["advertisements"].snapshots()]
        return effects

    # Events --------------------------------------------------------------------------------------

    def forward(self, sender: str, publish: Publish, effects: list[Effect]) -> list[Effect]:
        if self.is_done or self._role.copying in ("basic", "synchronous"):
            return effects
        sent_to = [name for effect in effects if type(effect) is Multicast for name in effect.to]
        if self._role.copying == "incremental":
            self.cache.on_event(sender, publish, sent_to)
            return effects
        unsettled = [
            name
            for name in self._replica.neighbours
            if name != sender and name not in sent_to and not self._replica.is_settled(name)
        ]
        if not unsettled:
            return effects
        return [*effects, Multicast(tuple(unsettled), replace(publish, hops=publish.hops + 1))]

    def on_subscriptions(self, name: str, conditions: list[str]) -> list[Effect]:
        if self.is_done or self._role.copying != "incremental":
            return []
        late = self.cache.on_subscriptions(name, conditions)
        return [Send(name, replace(each, hops=each.hops + 1)) for each in late]

    def ready_for_marks(self, names: Sequence[str], marks: HighWaterMarks) -> list[str]:
        """Whom a mark does not deceive; for the others it is kept until nothing earlier can come."""
        if self.is_done or self._role.copying != "incremental":
            return list(names)
        for name in names:
            kept = self._marks.setdefault(name, {})
            for source, seq in marks.marks:
                kept[source] = max(kept.pop(source, 0), seq)  # the latest comes last
            while len(kept) > self._settings.sources_max:
                del kept[next(iter(kept))]
        return []
