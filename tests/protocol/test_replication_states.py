"""What may follow what in a replication, and what becomes of events in each state."""

from itertools import product
from typing import get_args

import pytest

from holdfast.model.messages import (
    Publication,
    Publish,
)
from holdfast.model.replication_messages import CopyProtocol, ReplicaRequest
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Effect, Multicast, ReplicaReleased, Send
from holdfast.protocol.replication.departure import Departure
from holdfast.protocol.replication.neighbour_failover import NeighbourFailover
from holdfast.protocol.replication.relief import Relief
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.replication.states import (
    DEPARTURE,
    FAILOVER,
    RELIEF,
    REPLICA,
    DepartureState,
    FailoverEvent,
    FailoverState,
    ReliefEvent,
    ReliefState,
    ReplicaEvent,
    ReplicaState,
    after,
)

ASK_US = 10
COPYING = get_args(CopyProtocol)
EVENT = Publish(Publication("p", 1, 0, None, {"v": 1}))


def failover(copying: str = "basic") -> NeighbourFailover:
    made = NeighbourFailover("f", ReplicationSettings(), 0, ASK_US)
    made.on_request("r", ReplicaRequest(1, "f", copying, "failover"), 0)  # type: ignore[arg-type]
    return made


def sent(made: NeighbourFailover, wanted_by: tuple[str, ...] = ("f",)) -> list[tuple[str, ...]]:
    """Those whom an event leaves for at once."""
    effects: list[Effect] = made.split_off([Multicast(wanted_by, EVENT)])
    if made.replica is not None:
        effects += made.what_goes(0, lambda attributes: wanted_by)
    return [(each.to,) if isinstance(each, Send) else each.to for each in effects]  # type: ignore[union-attr]


def test_every_state_has_its_row_and_is_reached() -> None:
    tables = (FAILOVER, FailoverState), (RELIEF, ReliefState), (REPLICA, ReplicaState), (DEPARTURE, DepartureState)
    for table, states in tables:
        reached = {state for row in table.values() for state in row.values()}  # type: ignore[attr-defined]
        assert set(table) == set(states)
        assert reached | {next(iter(states))} == set(states)


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
    made = failover()
    assert sent(made) == []
    made.on_subscriptions(["v > 0"], ConditionBook())
    assert made.state is FailoverState.COPYING_OPEN
    assert sent(made, ("f", "r")) == [("r",)]
    made.on_done()
    assert made.state is FailoverState.DRAINING


def relief(copying: str) -> Relief:
    made = Relief("r", "f", ReplicationSettings(), 0)
    made.on_request(ReplicaRequest(1, "f", copying, "scheduling"), 0)  # type: ignore[arg-type]
    return made


def test_a_replica_that_joins_may_have_what_its_protocol_lets_it_have_and_later_what_it_wants() -> None:
    may = {copying: (relief(copying).takes(True), relief(copying).takes(False)) for copying in COPYING}
    early, not_yet = (True, False), (False, False)
    assert may == {"basic": early, "incremental": early, "synchronous": not_yet, "ordered": not_yet}
    made = relief("ordered")
    made.on_open()
    assert (made.state, made.takes(False)) == (ReliefState.JOINING_OPEN, True)
    made.on(ReliefEvent.COPIED)
    assert (made.takes(True), made.takes(False)) == (True, False)
    made.on(ReliefEvent.DRAIN_ASKED)
    assert not made.takes(True)


def departure(now_us: int = 10) -> Departure:
    """Of a replica with two neighbours that can spare it."""
    made = Departure("f", 1, heartbeat_us=1_000, linger_us=5_000)
    for name in "ab":
        made.on_release(name, "spare", now_us)
    return made


def said(made: Departure, now_us: int, neighbours: str = "ab", is_free: bool = True) -> list[tuple[str, str]]:
    """To whom it says which step of its release."""
    effects = [each for each in made.on_heartbeat(list(neighbours), is_free, now_us) if type(each) is Multicast]
    return [(to, each.message.step) for each in effects for to in each.to]  # type: ignore[union-attr]


def test_a_replica_leaves_when_everybody_can_spare_it_and_nobody_sends_it_anything_more() -> None:
    made = departure()
    assert said(made, 100) == [("a", "drain"), ("b", "drain")]
    made.on_release("a", "last", 200)
    assert said(made, 1_100) == [("b", "drain")]  # again: it may have been lost
    made.on_release("b", "last", 1_200)
    assert said(made, 2_100) == said(made, 7_000) == []  # it lingers
    assert said(made, 7_100) == [("a", "last"), ("b", "last")]
    assert said(made, 8_100, neighbours="b") == [("b", "last")]
    assert made.on_heartbeat([], True, 9_100)[-1] == ReplicaReleased()
    assert made.on_heartbeat([], True, 10_100) == []


def test_a_replica_stays_while_one_neighbour_needs_it_or_it_keeps_something() -> None:
    made = departure()
    assert said(made, 100, is_free=False) == []
    assert said(made, 100, neighbours="abc") == []
    assert said(made, 4_000) == []  # that was long ago
    assert made.state is DepartureState.WORKING


def test_a_replica_that_keeps_events_for_a_neighbour_drains_its_successor_too() -> None:
    made = departure()
    said(made, 100)
    for name in "ab":
        made.on_release(name, "last", 200)
    assert said(made, 1_100) == []
    assert said(made, 2_100, neighbours="a", is_free=False) == []  # b has died, and has no successor yet
    assert said(made, 9_100, neighbours="ac") == [("c", "drain")]
    made.on_release("c", "last", 9_200)
    assert said(made, 10_100, neighbours="ac") == []
    assert said(made, 14_100, neighbours="ac") == [("a", "last"), ("c", "last")]


def test_when_a_replica_dies_that_was_open_events_wait_for_the_next_one() -> None:
    made = failover()
    made.on_subscriptions(["v > 0"], ConditionBook())
    made.on_replica_gone(100)
    assert made.state is FailoverState.SUSPECTED
    assert sent(made) == []
    assert made.next_due_us() == 100 + ReplicationSettings().takeover_us  # and nothing is due before that
    made.on_request("r2", ReplicaRequest(2, "f", "basic", "failover"), 200)
    assert [each for each in made.what_goes(200, lambda attributes: ("r2",))] == []
