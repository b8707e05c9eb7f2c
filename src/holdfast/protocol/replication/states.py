"""The states of a replication and what may follow what: of a neighbour of the faulty broker, and of the replica.

A machine is in one state at a time, and what happens leads from there to the next by a table. What a table does not
have cannot happen: asking for it is a mistake of ours.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import TypeVar


class FailoverState(Enum):
    """A broker that fails, and the replica in its place, as a neighbour of both sees them."""

    SUSPECTED = auto()  # the broker is silent: events for it wait for a replica
    COPYING = auto()  # a replica is to take its place: our tables are on their way there, and events wait
    COPYING_OPEN = auto()  # the same, but events go there already
    DRAINING = auto()  # the replica is the broker now: what waited for it is on its way
    OVER = auto()

    @property
    def copies(self) -> bool:
        """Whether tables are on their way to the replica."""
        return self in (FailoverState.COPYING, FailoverState.COPYING_OPEN)

    @property
    def is_open(self) -> bool:
        """Whether the replica takes events that it may not know a subscription for."""
        return self in (FailoverState.COPYING_OPEN, FailoverState.DRAINING)


class FailoverEvent(Enum):
    REQUESTED = auto()  # a replica, perhaps another one, asks for our tables
    OPENED = auto()  # it takes events before it has everything
    COPIED = auto()  # it has everything
    REPLICA_GONE = auto()
    BROKER_BACK = auto()  # it speaks again before it was replaced
    GIVEN_UP = auto()  # no replica has come
    DRAINED = auto()  # nothing waits for the replica any more


class ReliefState(Enum):
    """A replica beside a broker that cannot keep up, as a neighbour of both sees it."""

    JOINING = auto()  # our tables are on their way there
    JOINING_OPEN = auto()  # the same, but it may have any event already
    BESIDE = auto()  # it has our tables: the two share the events
    LEAVING = auto()  # it gets no more events, and passes on what it has
    OVER = auto()

    @property
    def copies(self) -> bool:
        """Whether tables are on their way to the replica."""
        return self in (ReliefState.JOINING, ReliefState.JOINING_OPEN)


class ReliefEvent(Enum):
    REQUESTED = auto()  # it asks for our tables, perhaps again
    OPENED = auto()
    COPIED = auto()
    DRAIN_ASKED = auto()  # it asks us to send it no more events, and we can do without it
    LAST_CAME = auto()  # nothing more comes from it
    REPLICA_GONE = auto()


class ReplicaState(Enum):
    """The replica: what it waits for, as incidents report it."""

    ADVERTISEMENTS = "replica_awaits_advertisements"
    SUBSCRIPTIONS = "replica_awaits_subscriptions"
    REPLICATED = "replica_ready"


class ReplicaEvent(Enum):
    HAS_ADVERTISEMENTS = auto()
    HAS_SUBSCRIPTIONS = auto()


class DepartureState(Enum):
    """A relief replica that is released, in its own eyes."""

    WORKING = "working"
    DRAINING = "replica_draining"  # neighbours are to send it no more events
    LINGERING = "lingering"  # none has anything for it; what links repair may still come
    LEAVING = "leaving"  # it has said that its own last event has left
    RELEASED = "replica_released"


class DepartureEvent(Enum):
    SPARED = auto()  # every neighbour can do without it
    DRAINED = auto()  # no neighbour sends it anything any more
    LINGERED = auto()
    FORGOTTEN = auto()  # no neighbour is left


_S, _E = FailoverState, FailoverEvent
_REQUESTS = {_E.REQUESTED: _S.COPYING}  # at any time: a newer replica may ask

FAILOVER: Mapping[FailoverState, Mapping[FailoverEvent, FailoverState]] = {
    _S.SUSPECTED: {**_REQUESTS, _E.BROKER_BACK: _S.OVER, _E.GIVEN_UP: _S.OVER},
    _S.COPYING: {
        **_REQUESTS,
        _E.OPENED: _S.COPYING_OPEN,
        _E.COPIED: _S.DRAINING,
        _E.REPLICA_GONE: _S.SUSPECTED,
    },
    _S.COPYING_OPEN: {**_REQUESTS, _E.COPIED: _S.DRAINING, _E.REPLICA_GONE: _S.SUSPECTED},
    _S.DRAINING: {**_REQUESTS, _E.DRAINED: _S.OVER, _E.REPLICA_GONE: _S.OVER},
    _S.OVER: _REQUESTS,
}

_R, _F = ReliefState, ReliefEvent
_AT_ANY_TIME = {_F.REQUESTED: _R.JOINING, _F.REPLICA_GONE: _R.OVER}
_COPIED = {_F.COPIED: _R.BESIDE}

RELIEF: Mapping[ReliefState, Mapping[ReliefEvent, ReliefState]] = {
    _R.JOINING: {**_AT_ANY_TIME, **_COPIED, _F.OPENED: _R.JOINING_OPEN},
    _R.JOINING_OPEN: {**_AT_ANY_TIME, **_COPIED},
    _R.BESIDE: {**_AT_ANY_TIME, _F.DRAIN_ASKED: _R.LEAVING},
    _R.LEAVING: {**_AT_ANY_TIME, _F.LAST_CAME: _R.OVER},
    _R.OVER: {},
}

REPLICA: Mapping[ReplicaState, Mapping[ReplicaEvent, ReplicaState]] = {
    ReplicaState.ADVERTISEMENTS: {ReplicaEvent.HAS_ADVERTISEMENTS: ReplicaState.SUBSCRIPTIONS},
    ReplicaState.SUBSCRIPTIONS: {ReplicaEvent.HAS_SUBSCRIPTIONS: ReplicaState.REPLICATED},
    ReplicaState.REPLICATED: {},
}

DEPARTURE: Mapping[DepartureState, Mapping[DepartureEvent, DepartureState]] = {
    DepartureState.WORKING: {DepartureEvent.SPARED: DepartureState.DRAINING},
    DepartureState.DRAINING: {DepartureEvent.DRAINED: DepartureState.LINGERING},
    DepartureState.LINGERING: {DepartureEvent.LINGERED: DepartureState.LEAVING},
    DepartureState.LEAVING: {DepartureEvent.FORGOTTEN: DepartureState.RELEASED},
    DepartureState.RELEASED: {},
}


S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


def after(table: Mapping[S, Mapping[E, S]], state: S, event: E) -> S:
    """The state that an event leads to."""
    if event not in table[state]:
        raise AssertionError(f"{event.name} cannot happen in {state.name}")
    return table[state][event]
