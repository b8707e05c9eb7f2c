"""Events reach exactly those who asked, whatever the way of routing, and tables heal by themselves."""

import pytest

from holdfast.model.limits import TIME_US_MAX
from holdfast.model.messages import Delta, Heartbeat, LinkState, Publication, Publish, Snapshot, TableRefused
from holdfast.protocol.effects import (
    AdvertiseCall,
    Incident,
    LinkDown,
    PublishCall,
    Received,
    Send,
    SubscribeCall,
    UnadvertiseCall,
    UnsubscribeCall,
)
from holdfast.protocol.settings import Routing
from holdfast.protocol.tables import ReceivedTable, SentTable
from tests.protocol.test_tables import hear
from tests.protocol.wires import BEAT_US, SETTINGS, Wires, line

ALL: list[Routing] = ["subscriptions", "advertisements", "destinations"]


def ready(routing: Routing) -> Wires:
    """A line whose left client may publish anything."""
    wires = line(routing)
    wires.give("left", AdvertiseCall("all", "TRUE"))
    return wires


@pytest.mark.parametrize("routing", ALL)
def test_an_event_goes_to_those_who_asked_and_to_nobody_else(routing: Routing) -> None:
    wires = ready(routing)
    wires.give("right", SubscribeCall("cheap", "price < 120"))
    assert wires.publish("left", price=99.5) == ["right"]
    assert wires.publish("left", price=120) == []
    assert wires.publish("left", price="99.5") == []


@pytest.mark.parametrize("routing", ALL)
def test_an_event_that_nobody_wants_does_not_leave_its_broker(routing: Routing) -> None:
    wires = ready(routing)
    wires.give("right", SubscribeCall("cheap", "price < 120"))
    wires.sent.clear()
    wires.publish("left", price=500)
    assert [(sender, to) for sender, to, message in wires.sent if isinstance(message, Publish)] == [("left", "b1")]


@pytest.mark.parametrize("routing", ALL)
def test_a_publisher_gets_its_own_events_when_it_asked_for_them(routing: Routing) -> None:
    wires = ready(routing)
    wires.give("left", SubscribeCall("mine", "price > 0"))
    assert wires.publish("left", price=1) == ["left"]


@pytest.mark.parametrize("routing", ALL)
def test_unsubscribing_stops_deliveries_and_the_traffic_that_carried_them(routing: Routing) -> None:
    wires = ready(routing)
    wires.give("right", SubscribeCall("one", "price < 120"))
    wires.give("right", UnsubscribeCall("one"))
    wires.sent.clear()
    assert wires.publish("left", price=1) == []
    assert len([1 for _, _, message in wires.sent if isinstance(message, Publish)]) == 1


@pytest.mark.parametrize("routing", ALL)
def test_two_subscriptions_of_one_client_bring_an_event_once(routing: Routing) -> None:
    wires = ready(routing)
    wires.give("right", SubscribeCall("one", "price < 120"))
    wires.give("right", SubscribeCall("two", "price > 5"))
    assert wires.publish("left", price=50) == ["right"]
    wires.give("right", UnsubscribeCall("one"))
    assert wires.publish("left", price=50) == ["right"]
    assert wires.publish("left", price=1) == []


def test_a_covered_subscription_is_not_told_and_is_told_when_its_cover_goes() -> None:
    wires = line()
    wires.give("right", SubscribeCall("wide", "price < 200"))
    wires.give("right", SubscribeCall("narrow", "price < 120 AND symbol = 'IBM'"))
    assert wires.told("b3", "b2") == {"price < 200"}
    wires.give("right", UnsubscribeCall("wide"))
    assert wires.told("b3", "b2") == {"price < 120 AND symbol = 'IBM'"}
    assert wires.publish("left", price=99, symbol="IBM") == ["right"]
    assert wires.publish("left", price=150, symbol="IBM") == []


def test_uncovering_tells_only_what_nothing_else_covers() -> None:
    wires = line()
    for id_, condition in {"a": "p < 9", "b": "p < 5", "c": "p < 3", "d": "q = 1 AND p < 5"}.items():
        wires.give("right", SubscribeCall(id_, condition))
    assert wires.told("b3", "b2") == {"p < 9"}
    wires.give("right", UnsubscribeCall("a"))
    assert wires.told("b3", "b2") == {"p < 5"}


def test_a_subscription_follows_only_advertisements_that_it_can_meet() -> None:
    wires = line("advertisements")
    wires.give("right", SubscribeCall("cheap", "price < 120"))
    assert wires.told("b2", "b1") == set()
    wires.give("left", AdvertiseCall("dear", "price > 500"))
    assert wires.told("b2", "b1") == set()
    wires.give("left", AdvertiseCall("stock", "price > 0"))  # a late advertisement pulls what is there already
    assert wires.told("b2", "b1") == {"price < 120"}
    assert wires.publish("left", price=50) == ["right"]
    wires.give("left", UnadvertiseCall("stock"))
    assert wires.told("b2", "b1") == set()


@pytest.mark.parametrize("routing", ALL)
def test_a_lost_control_message_heals_within_two_heartbeats(routing: Routing) -> None:
    wires = ready(routing)
    wires.loses = lambda sender, to, message: isinstance(message, Delta | Snapshot | LinkState)
    wires.give("right", SubscribeCall("cheap", "price < 120"))
    assert wires.publish("left", price=1) == []
    wires.loses = lambda sender, to, message: False
    wires.pass_time(4 * BEAT_US)
    assert wires.publish("left", price=1) == ["right"]


def test_a_client_cannot_say_where_brokers_are() -> None:
    wires = ready("destinations")
    wires.give("right", SubscribeCall("cheap", "price < 120"))
    forged = LinkState("b3", TIME_US_MAX, TIME_US_MAX, (), ())  # newer than anything that b3 can say
    wires.give("b1", Received("left", forged))
    assert wires.publish("left", price=1) == ["right"]


@pytest.mark.parametrize("routing", ALL)
def test_when_nothing_is_lost_heartbeats_repeat_nothing(routing: Routing) -> None:
    wires = ready(routing)
    wires.give("right", SubscribeCall("cheap", "price < 120"))
    wires.pass_time(2 * BEAT_US)
    wires.sent.clear()
    wires.pass_time(5 * BEAT_US)
    assert {type(message) for _, _, message in wires.sent} == {Heartbeat}


@pytest.mark.parametrize("routing", ALL)
def test_a_restarted_broker_learns_everything_anew(routing: Routing) -> None:
    wires = ready(routing)
    wires.give("right", SubscribeCall("cheap", "price < 120"))
    wires.now_us += 10
    wires.restart("b2")
    wires.pass_time(4 * BEAT_US)
    assert wires.publish("left", price=1) == ["right"]
    wires.give("right", UnsubscribeCall("cheap"))
    assert wires.publish("left", price=1) == []


@pytest.mark.parametrize("routing", ALL)
def test_a_replaced_link_carries_what_the_old_one_did(routing: Routing) -> None:
    wires = ready(routing)
    wires.give("right", SubscribeCall("cheap", "price < 120"))
    wires.cut("b2", "b3")
    assert wires.publish("left", price=1) == []
    wires.now_us += 100_000
    wires.link("b1", "b3")
    assert wires.publish("left", price=1) == ["right"]
    wires.sent.clear()
    wires.publish("left", price=2)
    hops = [(sender, to) for sender, to, message in wires.sent if isinstance(message, Publish)]
    assert hops == [("left", "b1"), ("b1", "b3")]


@pytest.mark.parametrize("routing", ALL)
def test_a_client_that_moves_gets_its_events_at_the_new_place(routing: Routing) -> None:
    wires = ready(routing)
    wires.give("right", SubscribeCall("cheap", "price < 120"))
    wires.give("right", LinkDown("b3"))
    del wires.links["right", "b3"], wires.links["b3", "right"]
    assert wires.publish("left", price=1) == []
    wires.link("b2", "right")
    wires.pass_time(BEAT_US)
    assert wires.publish("left", price=2) == ["right"]


def test_a_silent_client_is_forgotten_after_its_lease_and_welcome_when_it_speaks_again() -> None:
    wires = line()
    wires.give("right", SubscribeCall("cheap", "price < 120"))
    wires.loses = lambda sender, to, message: sender == "right"
    wires.pass_time(SETTINGS.lease_us + 2 * BEAT_US)
    assert wires.told("b2", "b1") == set()
    wires.loses = lambda sender, to, message: False
    wires.pass_time(3 * BEAT_US)
    assert wires.told("b2", "b1") == {"price < 120"}
    assert wires.publish("left", price=1) == ["right"]


def test_an_expired_event_is_not_delivered() -> None:
    wires = line()
    wires.give("right", SubscribeCall("all", "TRUE"))
    waiting: list[tuple[str, str]] = []

    def hold(sender: str, to: str, message: object) -> bool:
        if isinstance(message, Publish) and to == "b3":
            wires.now_us += 50_000
            waiting.append((sender, to))
        return False

    wires.loses = hold
    wires.give("left", PublishCall({"price": 1}, lifetime_us=40_000))
    assert waiting
    assert wires.delivered == []


def test_destinations_take_the_shortest_way_round_a_ring_and_the_other_when_it_breaks() -> None:
    wires = Wires("destinations")
    wires.broker("b1", "b2", "b3", "b4", "b5")
    for a, b in (("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5"), ("b5", "b1")):
        wires.link(a, b)
    wires.client("left", "b1")
    wires.client("right", "b3", "price < 120")
    wires.client("other", "b4", "price < 5")
    wires.sent.clear()
    assert wires.publish("left", price=1) == ["other", "right"]
    hops = [(sender, to, message.homes) for sender, to, message in wires.sent if isinstance(message, Publish)]
    assert sorted(hops[1:]) == [
        ("b1", "b2", ("b3",)),
        ("b1", "b5", ("b4",)),
        ("b2", "b3", ("b3",)),
        ("b5", "b4", ("b4",)),
    ]
    wires.cut("b1", "b2")
    assert wires.publish("left", price=1) == ["other", "right"]


def test_a_condition_that_does_not_parse_is_refused_by_the_broker_and_counted() -> None:
    wires = line()
    effects = wires.nodes["b1"].handle(Received("left", Delta("subscriptions", 99, ("price <",), ())), 0)
    why = "b1 cannot parse one of the subscriptions; does it run another version?"
    assert effects == [Incident("bad_condition", "left"), Send("left", TableRefused("subscriptions", why))]
    assert wires.publish("left", price=1) == []


def test_a_listener_that_is_ahead_of_its_teller_is_caught_up_with() -> None:
    """As after a table begun anew within the same microseconds, when the older one had more changes."""
    told, heard = SentTable("subscriptions", 0), ReceivedTable()
    hear(heard, Delta("subscriptions", 5, ("a = 1",), ()))
    told.change(["b = 2"], (), 0)
    hear(heard, *told.on_heard(*heard.summary, BEAT_US, BEAT_US // 2))
    assert list(heard.conditions) == ["b = 2"]
    assert told.on_heard(*heard.summary, 2 * BEAT_US, BEAT_US // 2) == []


def test_a_broker_whose_clock_was_ahead_before_its_restart_is_believed_again() -> None:
    wires = Wires("destinations")
    wires.broker("b1")
    wires.now_us = 100 * BEAT_US
    wires.broker("b2")
    wires.now_us = 0
    wires.link("b1", "b2")
    wires.client("left", "b1")
    wires.client("right", "b2", "price < 120")
    wires.now_us = BEAT_US
    wires.restart("b2")
    wires.pass_time(4 * BEAT_US)
    assert wires.publish("left", price=1) == ["right"]
    wires.give("right", UnsubscribeCall("price < 120"))
    wires.sent.clear()
    assert wires.publish("left", price=1) == []
    assert len(wires.sent) == 1


def test_only_the_loss_of_its_own_broker_detaches_a_client() -> None:
    wires = line()
    wires.give("right", LinkDown("elsewhere"))
    assert wires.nodes["right"].next_due_us() is not None
    wires.cut("b3", "right")
    assert wires.nodes["right"].next_due_us() is None


def test_a_client_cannot_publish_in_the_name_of_another() -> None:
    wires = line()
    wires.give("right", SubscribeCall("all", "TRUE"))
    forged = Publish(Publication("victim", 10**9, 0, None, {"price": 1}))
    assert wires.nodes["b1"].handle(Received("left", forged), 0) == [Incident("forged_source", "left")]
    assert wires.delivered == []


def test_a_table_that_never_rests_heals_as_well() -> None:
    """One change is lost, and another one comes before every heartbeat."""
    teller, listener = SentTable("subscriptions", 0), ReceivedTable()
    first = teller.change(["a = 1"], (), 0)
    assert first  # and is lost
    for now_us in range(1_000, 10_000, 1_000):
        change = teller.change([f"b = {now_us}"], [f"b = {now_us - 1_000}"], now_us)
        assert change
        hear(listener, *change)
        hear(listener, *teller.on_heard(*listener.summary, now_us + 1, patience_us=500_000))
    assert listener.conditions.keys() == teller.conditions.keys()


def test_a_change_that_is_on_its_way_is_not_repeated() -> None:
    teller, listener = SentTable("subscriptions", 0), ReceivedTable()
    for each in ("a = 1", "a = 2"):
        change = teller.change([each], (), 1_000)
        assert change
        if each == "a = 1":
            hear(listener, *change)
    assert teller.on_heard(*listener.summary, 2_000, patience_us=500_000) == []
    assert teller.on_heard(*listener.summary, 502_000, patience_us=500_000) != []
