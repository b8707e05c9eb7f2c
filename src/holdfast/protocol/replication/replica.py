"""The replica's own part: who still has to tell what, and when all is told (algorithm 4 of paper 003, corrected).

The paper counts: so many advertisements, so many answers to each. A late advertisement makes such counters wrong, and a
lost message makes them wait for ever. Here every neighbour says what the replica should have by now, as a digest, and
the replica compares: a neighbour is settled when its advertisements are here, ours are answered by it, and its
subscriptions are here. What makes no progress is asked for again, and a neighbour that never answers is left out.

A neighbour may itself be a replica that still copies. It answers for what lies behind it once all its other neighbours
have answered; brokers form a tree, so nobody waits in a circle, and any number of adjacent brokers can be replaced.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.model.replication_messages import LastAdvertisement, LastSubscription
from holdfast.protocol.broker import CoreBroker
from holdfast.protocol.replication.settings import ReplicationSettings, Role
from holdfast.protocol.replication.states import REPLICA, ReplicaEvent, ReplicaState, after
from holdfast.protocol.tree import TreeRouter


@dataclass(frozen=True)
class Copies:
    """Digests of the tables between the replica and one neighbour."""

    heard_advertisements: int
    heard_subscriptions: int
    sent_advertisements: int


def copies_between(tree: TreeRouter, broker: CoreBroker, name: str) -> Copies | None:
    """What a broker and its neighbour have of each other; None when they do not know each other."""
    sent = tree.sent_tables(name)
    if not sent or not broker.knows(name):
        return None
    heard = broker.heard_summary
    digests = heard(name, "advertisements")[1], heard(name, "subscriptions")[1]
    return Copies(*digests, sent["advertisements"].digest)


class _Progress:
    def __init__(self) -> None:
        self.advertisements: int | None = None  # the digest that a neighbour says we should have
        self.subscriptions: LastSubscription | None = None
        self.tries = 0
        self.seen: Copies | None = None  # at the last look


class Replica:
    def __init__(
        self, role: Role, epoch: int, settings: ReplicationSettings, copies: Callable[[str], Copies | None]
    ) -> None:
        self.role = role
        self.epoch = epoch
        self.state = ReplicaState.ADVERTISEMENTS
        self._settings = settings
        self._copies = copies  # what we have of a neighbour; None when there is no link to it
        self._asked = dict.fromkeys(role.neighbours)  # all that ever took part
        self._left_out: dict[str, None] = {}
        self._progress = {name: _Progress() for name in role.neighbours}
        self._due_us = epoch + settings.retry_us

    @property
    def neighbours(self) -> tuple[str, ...]:
        """Those that take part; a neighbour that never answered is no longer among them."""
        return tuple(self._progress)

    @property
    def left_out(self) -> int:
        """Neighbours that have not answered, and that are not known to be gone."""
        return len(self._left_out)

    def expects(self, neighbour: str, instead_of: str | None) -> bool:
        """Whether it is next to the faulty broker as well, as far as we have heard."""
        return neighbour in self._asked or instead_of in self._asked

    def take_in(self, neighbour: str, instead_of: str | None) -> bool:
        """A neighbour has come, perhaps in the place of another; whether nobody has expected it."""
        expected = self.expects(neighbour, instead_of)
        if instead_of is not None:
            self.drop(instead_of)
        self._asked[neighbour] = None
        if len(self._asked) > self._settings.retired_max:
            del self._asked[next(iter(self._asked))]
        if self.state is not ReplicaState.REPLICATED:
            self._progress.setdefault(neighbour, _Progress())
        return not expected

    def drop(self, neighbour: str) -> None:
        """This neighbour is known to be gone."""
        self._progress.pop(neighbour, None)
        self._left_out.pop(neighbour, None)

    def on_answer(self, neighbour: str) -> bool:
        """A neighbour that was left out has answered after all; whether it was the last of them."""
        if neighbour not in self._left_out:
            return False
        del self._left_out[neighbour]
        return not self._left_out

    def next_due_us(self) -> int | None:
        return None if self.state is ReplicaState.REPLICATED else self._due_us

    def on_last_advertisement(self, neighbour: str, last: LastAdvertisement) -> None:
        if neighbour in self._progress and last.epoch == self.epoch:
            self._progress[neighbour].advertisements = last.digest

    def on_last_subscription(self, neighbour: str, last: LastSubscription) -> None:
        if neighbour in self._progress and last.epoch == self.epoch:
            self._progress[neighbour].subscriptions = last

    def has_advertisements(self, neighbour: str) -> bool:
        copies, progress = self._copies(neighbour), self._progress[neighbour]
        return copies is not None and copies.heard_advertisements == progress.advertisements

    def is_settled(self, neighbour: str) -> bool:
        """Whether all that this neighbour has for us is here."""
        copies, progress = self._copies(neighbour), self._progress[neighbour]
        last = progress.subscriptions
        return (
            copies is not None
            and last is not None
            and copies.heard_advertisements == progress.advertisements
            and copies.sent_advertisements == last.answers
            and copies.heard_subscriptions == last.digest
        )

    def knows_advertisements(self, for_whom: str) -> bool:
        """Whether all advertisements that concern this neighbour are here."""
        done = self.state is not ReplicaState.ADVERTISEMENTS
        return done or all(self.has_advertisements(name) for name in self._progress if name != for_whom)

    def knows_subscriptions(self, for_whom: str) -> bool:
        done = self.state is ReplicaState.REPLICATED
        return done or all(self.is_settled(name) for name in self._progress if name != for_whom)

    def advance(self) -> ReplicaState | None:
        """The state that has just begun, if one has; the last counts when two do."""
        before = self.state
        if not self._progress:
            return None
        if self.state is ReplicaState.ADVERTISEMENTS and all(map(self.has_advertisements, self._progress)):
            self.state = after(REPLICA, self.state, ReplicaEvent.HAS_ADVERTISEMENTS)
        if self.state is ReplicaState.SUBSCRIPTIONS and all(map(self.is_settled, self._progress)):
            self.state = after(REPLICA, self.state, ReplicaEvent.HAS_SUBSCRIPTIONS)
        return None if self.state is before else self.state

    def begin_anew(self) -> list[str]:
        """Nobody has answered: ask all of them once more."""
        self._progress = {name: _Progress() for name in self._left_out}
        self._left_out.clear()
        return list(self._progress)

    def on_timer(self, now_us: int) -> tuple[list[str], list[str]]:
        """Neighbours to ask again, and those that are given up."""
        self._due_us = now_us + self._settings.retry_us
        again, lost = [], []
        for name, progress in list(self._progress.items()):
            seen = self._copies(name)
            if self.is_settled(name):
                continue
            if seen is not None and seen != progress.seen:
                progress.seen, progress.tries = seen, 0
                continue
            progress.tries += 1
            if progress.tries > self._settings.tries:
                del self._progress[name]
                self._left_out[name] = None
                lost.append(name)
            else:
                again.append(name)
        return again, lost
