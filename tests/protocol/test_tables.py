"""Tables on both ends of a link: when the whole of one is sent again, and when not; and tables of any size."""

import tracemalloc
from random import Random

import pytest

from holdfast.matching.index import Index
from holdfast.model.limits import CONDITIONS_BYTES_AIM, PARTS_MAX
from holdfast.model.messages import Batch, Delta, Heartbeat, LinkState, Snapshot, TableRefused
from holdfast.protocol import tables
from holdfast.protocol.broker import CoreBroker
from holdfast.protocol.client import CoreClient
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.destinations import DestinationRouter
from holdfast.protocol.effects import (
    Effect,
    Incident,
    LinkUp,
    Lost,
    Multicast,
    Received,
    Send,
    SubscribeCall,
    UnsubscribeCall,
    Wake,
)
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.settings import ProtocolSettings
from holdfast.protocol.tables import ReceivedTable, SentTable, digest_of
from holdfast.protocol.tree import SLICE
from holdfast.wire.codec import encode_message
from tests.protocol.wires import bare_broker

PATIENCE_US = 500_000
BEAT_US = 1_000_000


def told(count: int) -> tuple[SentTable, list[Delta]]:
    """A table that has grown to so many conditions, one change each, all at time 0."""
    table = SentTable("subscriptions", 1)
    return table, [each for number in range(count) for each in table.change([f"x = {number}"], (), 0)]


def hear(heard: ReceivedTable, *messages: Delta | Snapshot) -> None:
    for each in messages:
        heard.apply(each, *heard.change_by(each))


@pytest.mark.parametrize(("count", "sent_again"), [(20, True), (2_000, False)])
def test_a_large_table_is_not_sent_again_to_who_is_seen_to_read_on(count: int, sent_again: bool) -> None:
    table, changes = told(count)
    listener = ReceivedTable()
    for number in range(1, 4):  # it gets on by five changes from one heartbeat to the next
        hear(listener, *changes[5 * (number - 1) : 5 * number])
        is_snapshot = table.on_heard(*listener.summary, 1_000_000 * number, PATIENCE_US)
        assert bool(is_snapshot) is sent_again


def test_a_large_table_is_sent_again_to_who_stops_reading() -> None:
    table, changes = told(2_000)
    listener = ReceivedTable()
    hear(listener, *changes[:5])
    assert table.on_heard(*listener.summary, 1_000_000, PATIENCE_US) == []
    assert table.on_heard(*listener.summary, 2_000_000, PATIENCE_US) != []


def test_a_change_that_was_lost_lately_is_noticed_at_once_however_large_the_table() -> None:
    table, changes = told(2_000)
    listener = ReceivedTable()
    hear(listener, *changes[:-10], *changes[-9:-5])
    assert table.on_heard(*listener.summary, 1, PATIENCE_US) != []


# Tables that take more than one message ------------------------------------------------------------------------


def condition(number: int, dice: Random) -> str:
    return f"x = {number} AND text = '{'€x'[number % 2] * dice.choice([1, 100, 5_000])}'"


@pytest.mark.parametrize("most", [3, 7, 200_000])
def test_no_message_of_a_table_is_larger_than_a_datagram_holds(most: int) -> None:
    dice = Random(most)
    conditions = [condition(number, dice) for number in range(200)]
    table = SentTable("subscriptions", 1)
    messages: list[Delta | Snapshot] = [*table.change(conditions, (), 0, most), *table.snapshots(most)]
    messages += table.change(["y = 1"], conditions, 0, most)
    assert len(messages) > 6
    for each in messages:
        held = each.conditions if isinstance(each, Snapshot) else each.add + each.drop
        assert len(held) <= most
        assert len(encode_message(each)) < CONDITIONS_BYTES_AIM + 100


def test_a_condition_larger_than_that_goes_alone() -> None:
    table = SentTable("subscriptions", 1)
    large = f"a = '{'x' * 60_000}'"
    assert [each.add for each in table.change(["b = 1", large, "c = 1"], (), 0)] == [("b = 1",), (large,), ("c = 1",)]
    parts = table.snapshots()
    assert sorted(len(each.conditions) for each in parts if large in each.conditions) == [1]


def test_a_wide_condition_is_there_before_those_that_it_replaces_are_gone() -> None:
    table = SentTable("subscriptions", 1)
    narrow = [f"x = {number}" for number in range(20_000)]
    table.change(narrow, (), 0)
    first, *rest = table.change(["x >= 0"], narrow, 0)
    assert (first.add, first.drop) == (("x >= 0",), ())
    assert len(rest) > 1
    assert not any(each.add for each in rest)


@pytest.mark.parametrize("loss", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("seed", range(5))
def test_tables_in_parts_become_equal_over_a_link_that_loses_doubles_and_reorders(seed: int, loss: float) -> None:
    """And no condition that is in the teller's table all the time is ever missing again once it has been there."""
    dice = Random(f"{seed}/{loss}")
    most = dice.choice([3, 20])
    teller, listener = SentTable("subscriptions", 1), ReceivedTable()
    base = [f"x = {number}" for number in range(300)]
    on_the_way: list[Delta | Snapshot] = [*teller.change(base, (), 0, most)]
    there: set[str] = set()
    for beat in range(1, 100):
        if beat < 20:  # it also changes meanwhile
            new = [f"y = {dice.randrange(100)}" for _ in range(30)]
            old = [f"y = {dice.randrange(100)}" for _ in range(30)]
            on_the_way += teller.change(new, old, beat * BEAT_US, most)
        dice.shuffle(on_the_way)
        for each in on_the_way:
            for _ in range(dice.choice([1, 1, 2])):
                if dice.random() >= loss:
                    hear(listener, each)
                    assert there <= set(listener.conditions)
                    there |= set(base) & set(listener.conditions)
        on_the_way = [*_whole(teller.on_heard(*listener.summary, beat * BEAT_US, PATIENCE_US), teller, most)]
    assert listener.conditions.keys() == teller.conditions.keys()
    assert listener.summary[1] == teller.digest


def _whole(sent: list[Snapshot], teller: SentTable, most: int) -> list[Snapshot]:
    return teller.snapshots(most) if sent else []


def test_a_lost_part_of_a_whole_table_comes_again_and_drops_nothing_meanwhile() -> None:
    teller, listener = SentTable("subscriptions", 1), ReceivedTable()
    hear(listener, *teller.change([f"x = {number}" for number in range(10_000)], (), 0)[:-1])
    assert teller.on_heard(*listener.summary, BEAT_US, PATIENCE_US) == []  # it may be reading on
    parts = teller.on_heard(*listener.summary, 2 * BEAT_US, PATIENCE_US)
    assert len(parts) > 2
    before = dict(listener.conditions)
    hear(listener, *parts[1:])
    assert before.items() <= listener.conditions.items()
    assert teller.on_heard(*listener.summary, 3 * BEAT_US, PATIENCE_US) == []
    hear(listener, *teller.on_heard(*listener.summary, 4 * BEAT_US, PATIENCE_US))
    assert listener.summary == (teller.version, teller.digest)


def test_a_large_table_that_is_wrong_is_told_and_heard_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither end looks through the table, or sends all of it, in one go: nothing else would be heard meanwhile."""
    looked = list[str]()
    monkeypatch.setattr(tables, "digest_of", lambda text: looked.append(text) or digest_of(text))
    teller, listener = SentTable("subscriptions", 1), ReceivedTable()
    hear(listener, *teller.change([f"x = {number} AND text = '{'x' * 100}'" for number in range(20_000)], (), 0)[1:-1])
    hear(listener, *teller.change([f"y = {number}" for number in range(2_000)], (), 0)[:-1])
    beats = 0
    while listener.summary != (teller.version, teller.digest):
        beats += 1
        if beats < 5:  # and these are lost
            teller.change([f"z = {beats}"], (), beats * BEAT_US)
        looked.clear()
        told = teller.on_heard(*listener.summary, beats * BEAT_US, PATIENCE_US)
        assert len(told) <= 16
        assert not looked
        for each in told:
            looked.clear()
            hear(listener, each)
            assert len(looked) < 20 * len(each.conditions)
        assert beats < 30
    assert beats > 5


def test_parts_that_contradict_each_other_do_no_harm() -> None:
    listener = ReceivedTable()
    for part in (0, 1, 0, 1, 5):
        hear(listener, Snapshot("subscriptions", 1, ("a = 1", "a = 1"), part, 2))
    for part in (0, 1):
        hear(listener, Snapshot("subscriptions", 1, (), part, 2))
    assert listener.summary == (1, 0)


def test_who_speaks_after_every_message_is_not_sent_the_whole_table_each_time() -> None:
    teller, listener = SentTable("subscriptions", 1), ReceivedTable()
    messages = teller.change([f"x = {number}" for number in range(20_000)], (), 0)
    sent = 0
    for at, each in enumerate(messages):  # it says what it has twice after each, for a while longer than our patience
        hear(listener, each)
        for _ in range(2):
            sent += len(teller.on_heard(*listener.summary, 10 * PATIENCE_US + at, PATIENCE_US))
    assert sent == 0
    assert listener.summary == (teller.version, teller.digest)


# Tables that are refused ---------------------------------------------------------------------------------------


def broker(routing: str = "subscriptions", slice_max: int = SLICE, **settings: int) -> CoreBroker:
    parts = BrokerParts("b1", routing, ProtocolSettings(**settings), ConditionBook(), Index, 1, Random(0))  # type: ignore[arg-type]
    made = bare_broker(parts, slice_max=slice_max)
    made.handle(LinkUp("desk", "client"), 0)
    return made


def said(effects: list[object]) -> list[object]:
    return [each.message for each in effects if isinstance(each, Send)]


def test_a_client_whose_conditions_are_refused_learns_it_once_and_again_when_it_has_tried_with_fewer() -> None:
    server = broker(filters_max=2)
    desk = CoreClient("desk", ProtocolSettings(), ConditionBook(), Index, 1, Random(0))
    desk.handle(LinkUp("b1", "broker"), 0)
    lost: list[Lost] = []
    incidents: list[str] = []

    def exchange(effects: list[object], now_us: int) -> None:
        while effects:
            back = [each for message in said(effects) for each in server.handle(Received("desk", message), now_us)]
            effects = [each for message in said(back) for each in desk.handle(Received("b1", message), now_us)]
            lost.extend(each for each in effects if isinstance(each, Lost))
            incidents.extend(each.kind for each in back if isinstance(each, Incident))

    for number in range(4):
        exchange(desk.handle(SubscribeCall(f"s{number}", f"x = {number}"), 10 + number), 10 + number)
    why = "b1 accepts at most 2 filters of a neighbour's subscriptions (filters_max)"
    assert lost == [Lost("", 0, 0, why, 12)]

    def beat(now_us: int) -> None:
        summary = Heartbeat(1, (server.heard_summary("desk", "subscriptions"), (0, 0)))
        exchange(desk.handle(Received("b1", summary), now_us), now_us)

    for number in range(1, 4):  # what is refused is not sent again and again
        beat(number * BEAT_US)
    assert incidents == ["too_many_conditions"] * 2
    exchange(desk.handle(UnsubscribeCall("s0"), 4 * BEAT_US), 4 * BEAT_US)
    beat(5 * BEAT_US)
    assert len(lost) == 2
    exchange(desk.handle(UnsubscribeCall("s1"), 6 * BEAT_US), 6 * BEAT_US)
    beat(7 * BEAT_US)
    assert len(lost) == 2
    assert server.gauges()["filters of a neighbour"] == (2, 2)


def test_a_table_that_only_replaces_conditions_is_not_too_large() -> None:
    server = broker(filters_max=2)
    server.handle(Received("desk", Delta("subscriptions", 1, ("a = 1", "a = 2"), ())), 0)
    change = Delta("subscriptions", 2, ("a = 1", "a = 3"), ("a = 2",))
    for message in (change, Snapshot("subscriptions", 3, ("a = 4", "a = 5"))):
        assert not any(isinstance(each, Incident) for each in server.handle(Received("desk", message), 0))


def test_a_broker_is_told_that_its_neighbour_refuses_and_notes_it_once() -> None:
    server = broker()
    server.handle(LinkUp("b2", "broker"), 0)
    refused = Received("b2", TableRefused("subscriptions", "b2 takes at most 2 subscriptions of a neighbour"))
    assert server.handle(refused, 0) == [Incident("conditions_refused", "b2")]
    assert server.handle(refused, 0) == []


def test_what_a_link_state_cannot_hold_is_refused_to_the_client_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.model.limits.CONDITIONS_MAX", 3)
    server = broker("destinations")
    assert isinstance(server._router, DestinationRouter)
    server.handle(LinkUp("b2", "broker"), 0)
    ack = server.handle(Received("desk", Delta("subscriptions", 1, ("a = 1", "a = 2", "a = 3"), ())), 0)
    assert [each.conditions for each in said(ack) if isinstance(each, LinkState)] == [("a = 1", "a = 2", "a = 3")]
    refused = server.handle(Received("desk", Delta("subscriptions", 2, ("a = 4",), ())), 0)
    assert isinstance(refused[0], Incident)
    (answer,) = said(refused)
    assert isinstance(answer, TableRefused)
    assert "at most 3 different conditions" in answer.reason


# Tables that are told in slices --------------------------------------------------------------------------------


def test_nothing_is_stated_for_a_broker_that_has_not_been_told_all_that_is_wanted() -> None:
    """A batch of a broker that knows the first of two conditions says nothing about events for the second."""
    parts = BrokerParts("b1", "subscriptions", ProtocolSettings(), ConditionBook(), Index, 1, Random(0))
    server = bare_broker(parts, states=True, slice_max=1)
    server.handle(LinkUp("desk", "client", reliable=True), 0)
    server.handle(Received("desk", Delta("subscriptions", 1, ("x = 1", "x = 2"), ())), 0)
    far = ReceivedTable()

    def hears(effects: list[Effect]) -> None:
        for each in effects:
            if isinstance(each, Send) and each.to == "b2" and isinstance(each.message, Delta):
                hear(far, each.message)

    def states(seq: int) -> tuple[int, int]:
        batch = Batch((seq,), "feed", (0,), ({"x": 1},), (), 0, seq, seq)
        (passed,) = server.handle(Received("b2", batch), 0)
        assert isinstance(passed, Multicast)
        assert isinstance(passed.message, Batch)
        return passed.message.since, passed.message.upto

    hears(server.handle(LinkUp("b2", "broker", reliable=True), 0))
    assert list(far.conditions) == ["x = 1"]
    server.handle(Received("b2", Heartbeat(1, (far.summary, (0, 0)))), 0)
    assert states(5) == (1, 0)
    assert server.next_due_us() == 0
    hears(server.handle(Wake(), 0))
    assert list(far.conditions) == ["x = 1", "x = 2"]
    assert states(6) == (1, 0)  # it may have been sent before that arrived
    server.handle(Received("b2", Heartbeat(1, (far.summary, (0, 0)))), 0)
    assert states(7) == (7, 7)


def test_a_table_told_in_slices_is_told_whole_in_the_end_whatever_changes_meanwhile() -> None:
    server, far = broker(slice_max=3), ReceivedTable()
    effects = server.handle(Received("desk", Delta("subscriptions", 1, tuple(f"x = {n}" for n in range(20)), ())), 0)
    effects += server.handle(LinkUp("b2", "broker"), 0)
    effects += server.handle(Received("desk", Delta("subscriptions", 2, ("y = 1",), ("x = 1", "x = 19"))), 0)
    while server.next_due_us() == 0:
        more = server.handle(Wake(), 0)
        assert sum(len(each.add) for each in said(more) if isinstance(each, Delta)) <= 3
        effects += more
    hear(far, *[each for each in said(effects) if isinstance(each, Delta)])
    assert far.conditions.keys() == {f"x = {n}" for n in range(20) if n not in (1, 19)} | {"y = 1"}


def test_a_small_message_about_many_parts_costs_nothing() -> None:
    """Of 31 bytes; it took 60 ms and 4 MB when each part had its place."""
    table = ReceivedTable()
    tracemalloc.start()
    for version in range(1, 200):
        message = Snapshot("subscriptions", version, (), version, PARTS_MAX - version % 2)
        table.apply(message, *table.change_by(message))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
