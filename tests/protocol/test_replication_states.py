"""What may follow what in a replication, and what becomes of events in each state."""

from itertools import product

import pytest

from holdfast.model.messages import Publication, Publish, ReplicaRequest, ReplicaUse
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Effect, Multicast, Send
from holdfast.protocol.replication.neighbour_failover import NeighbourFailover
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.replication.states import (
    FAILOVER,
    REPLICA,
    FailoverEvent,
    FailoverState,
    ReplicaEvent,
    ReplicaState,
    after,
)

ASK_US = 10
EVENT = Publish(Publication("p", 1, 0, None, {"v": 1}))


def failover(use: ReplicaUse | None, copying: str = "basic") -> NeighbourFailover:
    made = NeighbourFailover("f", ReplicationSettings(), 0, ASK_US)
    if use is not None:
        made.on_request("r", ReplicaRequest(1, "f", copying, use), 0)  # type: ignore[arg-type]
    return made


def sent(made: NeighbourFailover, wanted_by: tuple[str, ...] = ("f",)) -> list[tuple[str, ...]]:
    """Those whom an event leaves for at once."""
    effects: list[Effect] = made.split_off([Multicast(wanted_by, EVENT)], lambda name: 0)
    if made.replica is not None:
        effects += made.what_goes(0, lambda attributes: wanted_by)
    return [(each.to,) if isinstance(each, Send) else each.to for each in effects]  # type: ignore[union-attr]


def test_every_state_has_its_row_and_is_reached() -> None:
    assert set(FAILOVER) == set(FailoverState)
    assert set(REPLICA) == set(ReplicaState)
    reached = {state for row in FAILOVER.values() for state in row.values()}
    assert reached == set(FailoverState)


@pytest.mark.parametrize(
    ("state", "event"),
    [each for each in product(FailoverState, FailoverEvent) if each[1] not in FAILOVER[each[0]]],
    ids=lambda each: each.name,
)
def test_what_cannot_happen_is_refused(state: FailoverState, event: FailoverEvent) -> None:
    with pytest.raises(AssertionError, match=f"{event.name} cannot happen in {state.name}"):
        after(FAILOVER, state, event)


def test_a_replica_has_subscriptions_only_after_advertisements() -> None:
    with pytest.raises(AssertionError, match="HAS_SUBSCRIPTIONS cannot happen in ADVERTISEMENTS"):
        after(REPLICA, ReplicaState.ADVERTISEMENTS, ReplicaEvent.HAS_SUBSCRIPTIONS)


def test_events_wait_until_the_replica_is_open_and_go_to_it_from_then_on() -> None:
    made = failover("failover")
    assert sent(made) == []
    made.on_subscriptions(["v > 0"], ConditionBook())
    assert made.state is FailoverState.COPYING_OPEN
    assert sent(made, ("f", "r")) == [("r",)]
    made.on_done()
    assert made.state is FailoverState.DRAINING


def test_beside_a_broker_that_works_events_go_to_either() -> None:
    made = failover("scheduling", "ordered")
    assert sent(made) == [("f",)]
    made.on_open()
    assert made.state is FailoverState.JOINING_OPEN
    made.on_done()
    assert made.state is FailoverState.BESIDE
    assert sent(made, ("r",)) == [("r",)]
    made.on(FailoverEvent.BROKER_GONE)
    assert made.takes_over


def test_when_a_replica_dies_that_was_open_events_wait_for_the_next_one() -> None:
    made = failover("failover")
    made.on_subscriptions(["v > 0"], ConditionBook())
    made.on_replica_gone(100)
    assert made.state is FailoverState.SUSPECTED
    assert sent(made) == []
    assert made.next_due_us() == 100 + ReplicationSettings().takeover_us  # and nothing is due before that
    made.on_request("r2", ReplicaRequest(2, "f", "basic", "failover"), 200)
    assert [each for each in made.what_goes(200, lambda attributes: ("r2",))] == []
