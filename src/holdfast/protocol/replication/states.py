"""The states of a replication and what may follow what: of a neighbour of the faulty broker, and of the replica.

A machine is in one state at a time, and what happens leads from there to the next by a table. What a table does not
have cannot happen: asking for it is a mistake of ours.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import TypeVar


class FailoverState(Enum):
    """A broker that fails or is overloaded, and its replica, as a neighbour of both sees them."""

    SUSPECTED = auto()  # the broker is silent: events for it wait for a replica
    COPYING = auto()  # a replica is to take its place: our tables are on their way there, and events wait
    COPYING_OPEN = auto()  # the same, but events go there already
    DRAINING = auto()  # the replica is the broker now: what waited for it is on its way
    JOINING = auto()  # a replica is to work beside it: our tables are on their way there
    JOINING_OPEN = auto()  # the same, but it may have any event already
    BESIDE = auto()  # it has our tables: the two share the events
    OVER = auto()

    @property
    def takes_over(self) -> bool:
        """Whether the broker is not sent anything any more."""
        return self in _TAKES_OVER

    @property
    def copies(self) -> bool:
        """Whether tables are on their way to the replica."""
        return self in _COPIES

    @property
    def is_open(self) -> bool:
        """Whether the replica takes events that it may not know a subscription for."""
        return self in _IS_OPEN


class FailoverEvent(Enum):
    TAKEOVER_REQUESTED = auto()  # a replica, perhaps another one, asks for our tables: it is to take the place
    JOIN_REQUESTED = auto()  # the same: it is to work beside the broker
    OPENED = auto()  # the replica takes events before it has everything
    COPIED = auto()  # it has everything
    BROKER_GONE = auto()  # the broker is gone whose replica works beside it, or was about to
    REPLICA_GONE = auto()
    BROKER_BACK = auto()  # it speaks again before it was replaced
    GIVEN_UP = auto()  # no replica has come
    DRAINED = auto()  # nothing waits for the replica any more


class ReplicaState(Enum):
    """The replica: what it waits for, as incidents report it."""

    ADVERTISEMENTS = "replica_awaits_advertisements"
    SUBSCRIPTIONS = "replica_awaits_subscriptions"
    REPLICATED = "replica_ready"


class ReplicaEvent(Enum):
    HAS_ADVERTISEMENTS = auto()
    HAS_SUBSCRIPTIONS = auto()


_S, _E = FailoverState, FailoverEvent
_TAKES_OVER = (_S.SUSPECTED, _S.COPYING, _S.COPYING_OPEN, _S.DRAINING)
_COPIES = (_S.COPYING, _S.COPYING_OPEN, _S.JOINING, _S.JOINING_OPEN)
_IS_OPEN = (_S.COPYING_OPEN, _S.DRAINING, _S.JOINING_OPEN, _S.BESIDE)
_REQUESTS = {_E.TAKEOVER_REQUESTED: _S.COPYING, _E.JOIN_REQUESTED: _S.JOINING}  # at any time: a newer replica may ask

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
    _S.JOINING: {
        **_REQUESTS,
        _E.OPENED: _S.JOINING_OPEN,
        _E.COPIED: _S.BESIDE,
        _E.BROKER_GONE: _S.COPYING,
        _E.REPLICA_GONE: _S.OVER,
    },
    _S.JOINING_OPEN: {
        **_REQUESTS,
        _E.COPIED: _S.BESIDE,
        _E.BROKER_GONE: _S.COPYING_OPEN,
        _E.REPLICA_GONE: _S.OVER,
    },
    _S.BESIDE: {**_REQUESTS, _E.BROKER_GONE: _S.DRAINING, _E.REPLICA_GONE: _S.OVER},
    _S.OVER: _REQUESTS,
}

REPLICA: Mapping[ReplicaState, Mapping[ReplicaEvent, ReplicaState]] = {
    ReplicaState.ADVERTISEMENTS: {ReplicaEvent.HAS_ADVERTISEMENTS: ReplicaState.SUBSCRIPTIONS},
    ReplicaState.SUBSCRIPTIONS: {ReplicaEvent.HAS_SUBSCRIPTIONS: ReplicaState.REPLICATED},
    ReplicaState.REPLICATED: {},
}


S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


def after(table: Mapping[S, Mapping[E, S]], state: S, event: E) -> S:
    """The state that an event leads to."""
    if event not in table[state]:
        raise AssertionError(f"{event.name} cannot happen in {state.name}")
    return table[state][event]
