"""Shared subscriptions as stories: each event to one member of a group, and none lost when a member or broker goes."""

from collections import Counter

import pytest

from holdfast.model.messages import Deliver, Message
from holdfast.protocol.hops.settings import HopSettings
from holdfast.protocol.settings import Routing
from tests.protocol.group_network import MS, GroupNetwork, star

SECOND = 1_000 * MS
STORING = HopSettings("retransmission")


def once_each(network: GroupNetwork, numbers: range) -> bool:
    return Counter(number for _, number in network.delivered) == Counter(numbers) and network.done == Counter(numbers)


@pytest.mark.parametrize("routing", ["subscriptions", "destinations"])
def test_each_event_goes_to_one_member_wherever_members_are(routing: Routing) -> None:
    network = star(routing=routing)
    for name, broker in (("m1", "b1"), ("m2", "b2"), ("m3", "b2"), ("m4", "b3")):
        network.member(name, broker)
    network.run(3 * SECOND)  # rival homes have met by then
    network.publish("p", *range(1, 201))
    network.run(5 * SECOND)
    assert once_each(network, range(1, 201))
    assert sorted(network.by_member().values()) == [50, 50, 50, 50]


def test_a_broker_without_neighbours_hands_events_out_at_once() -> None:
    network = GroupNetwork()
    network.broker("b0")
    network.client("p", "b0")
    network.member("m1", "b0")
    network.run(50 * MS)
    network.publish("p", *range(1, 11))
    network.run(50 * MS)
    assert once_each(network, range(1, 11))


def test_rivals_that_were_founded_at_once_agree_before_anything_is_handed_out_twice() -> None:
    network = star()
    network.member("m1", "b1")
    network.member("m2", "b2")
    network.run(100 * MS)
    network.publish("p", *range(1, 101))  # both homes have these, and neither has handed any out
    network.run(5 * SECOND)
    assert once_each(network, range(1, 101))
    assert network.incidents["group_yielded"] == 0  # of events that nobody else has
    assert set(network.by_member()) == {"m1", "m2"}


def test_what_a_killed_member_was_not_done_with_is_handed_on() -> None:
    network = star()
    network.member("m1", "b1")
    network.member("m2", "b2")
    network.run(3 * SECOND)
    del network.work_us["m2"]  # its application takes events and finishes none
    network.publish("p", *range(1, 21))
    network.run(SECOND)
    assert len(network.done) == 10
    network.kill("m2")
    network.run(5 * SECOND)
    assert network.done == Counter(range(1, 21))
    assert network.incidents["group_handed_on"] == 10


def test_who_leaves_hands_back_what_it_has_at_once() -> None:
    network = star()
    network.member("m1", "b1")
    network.member("m2", "b2")
    network.run(3 * SECOND)
    del network.work_us["m2"]
    network.publish("p", *range(1, 21))
    network.run(SECOND)
    network.leave("m2")
    network.run(100 * MS)
    assert network.done == Counter(range(1, 21))


def test_a_member_gets_no_more_at_a_time_than_it_asked_for() -> None:
    network = GroupNetwork()
    network.broker("b0")
    network.client("p", "b0")
    network.member("slow", "b0", work_us=400 * MS, window=1)
    network.member("fast", "b0", work_us=MS, window=1)
    network.run(50 * MS)
    network.publish("p", *range(1, 41))
    network.run(4 * SECOND)
    assert once_each(network, range(1, 41))
    assert network.by_member()["slow"] <= 5


def test_members_are_told_how_many_events_had_no_room_at_their_home() -> None:
    network = star()
    network.member("m1", "b1")
    network.member("m2", "b2")
    network.run(3 * SECOND)
    network.work_us.clear()  # nobody finishes anything
    for first in range(1, 12_000, 1_000):
        network.publish("p", *range(first, first + 1_000))
        network.run(20 * MS)
    network.run(3 * SECOND)
    dropped = network.incidents["group_events_dropped"]
    assert dropped == 12_000 - 10_000 - 2 * 256
    assert sum(each.events for each in network.lost) == 2 * dropped  # either member is told
    assert {each.reason for each in network.lost} == {
        "more events of group workers than may wait had no member with room for them"
    }


def test_groups_of_different_names_or_conditions_each_get_their_own() -> None:
    network = star()
    network.member("m1", "b1")
    network.member("m2", "b2", condition="n > 50")
    network.run(3 * SECOND)
    network.publish("p", *range(1, 101))
    network.run(3 * SECOND)
    assert network.by_member() == {"m1": 100, "m2": 50}


def test_others_subscribe_as_before() -> None:
    """Who wants everything gets every event once, and nothing of what homes and members say."""
    from holdfast.protocol.effects import SubscribeCall

    network = star()
    network.member("m1", "b1")
    network.client("all", "b2")
    network.give("all", SubscribeCall("all", "TRUE"))
    network.run(3 * SECOND)
    network.publish("p", *range(1, 11))
    network.run(3 * SECOND)
    assert network.by_member() == {"m1": 10, "all": 10}


def test_lost_messages_between_home_and_member_are_sent_again() -> None:
    network = star(seed=3)
    network.member("m1", "b1")
    network.member("m2", "b2")
    network.run(3 * SECOND)

    def loses(sender: str, to: str, message: Message) -> bool:
        return isinstance(message, Deliver) and message.publication.seq == 0 and network.dice.random() < 0.3

    network.loses = loses
    network.publish("p", *range(1, 101))
    network.run(20 * SECOND)
    assert set(network.done) == set(range(1, 101))


def test_when_the_home_dies_another_takes_over_and_the_time_between_is_named() -> None:
    network = star()
    network.member("m1", "b1")
    network.run(2 * SECOND)
    network.member("m2", "b2")
    network.run(2 * SECOND)
    network.kill("b1")
    network.run(SECOND)
    network.publish("p", 1)  # the home was at b1: nobody has it
    network.run(7 * SECOND)
    network.publish("p", *range(2, 12))
    network.run(3 * SECOND)
    assert set(network.done) == set(range(2, 12))
    (named,) = [each for each in network.lost if "home" in each.reason]
    assert "silent" in named.reason
    assert named.since_us < 6 * SECOND < named.until_us


def test_who_goes_over_to_a_home_whose_clock_is_behind_is_handed_events_as_well() -> None:
    network = star()
    network.ahead_us["b4"] = 3_600 * SECOND
    network.broker("b4")
    network.link("b0", "b4")
    network.member("m1", "b4")
    network.run(2 * SECOND)
    network.publish("p", 1)
    network.run(SECOND)
    network.member("m2", "b2")  # whose home counts as the older one
    network.run(3 * SECOND)
    network.publish("p", *range(2, 102))
    network.run(5 * SECOND)
    assert once_each(network, range(1, 102))
    assert network.by_member() == {"m1": 51, "m2": 50}


def test_a_home_that_begins_again_with_a_clock_that_was_set_back_hands_events_out_as_well() -> None:
    network = star()
    network.ahead_us["b4"] = 3_600 * SECOND
    network.broker("b4")
    network.link("b0", "b4")
    network.member("m1", "b4")
    network.run(2 * SECOND)
    network.publish("p", 1)
    network.run(SECOND)
    network.kill("b4")
    network.ahead_us["b4"] = 0
    network.broker("b4")
    network.link("b0", "b4")
    network.link("b4", "m1")
    network.run(6 * SECOND)
    network.publish("p", *range(2, 102))
    network.run(3 * SECOND)
    assert once_each(network, range(1, 102))


def test_a_member_that_was_stopped_gets_again_once_what_it_had_not_reported() -> None:
    """What it says of its former events when it goes on does not make it a stranger to those it is handed anew."""
    network = GroupNetwork()
    network.broker("b0")
    network.client("p", "b0")
    network.member("m1", "b0", work_us=6 * MS)
    network.run(50 * MS)
    network.stop("m1")
    network.publish("p", *range(1, 101))
    network.run(5 * SECOND)
    network.go_on("m1")
    network.run(5 * SECOND)
    assert set(network.done) == set(range(1, 101))
    assert max(Counter(network.delivered).values()) == 2


def test_after_a_partition_one_home_is_left() -> None:
    network = star()
    network.member("m1", "b1")
    network.run(2 * SECOND)
    network.member("m2", "b2")
    network.run(2 * SECOND)
    network.cut("b0", "b1")
    network.run(8 * SECOND)
    network.publish("p", *range(1, 11))  # on the side of m2
    network.run(2 * SECOND)
    assert {name for name, _ in network.delivered} == {"m2"}
    network.link("b0", "b1")
    network.run(5 * SECOND)
    network.publish("p", *range(11, 31))
    network.run(3 * SECOND)
    assert once_each(network, range(1, 31))


def test_a_home_that_stores_events_waits_for_its_members_and_begins_again_with_its_broker() -> None:
    network = star(hops=STORING)
    network.member("m1", "b1")
    network.run(3 * SECOND)
    del network.work_us["m1"]
    network.publish("p", *range(1, 21))
    network.run(SECOND)
    network.kill("m1")
    network.run(6 * SECOND)
    network.publish("p", *range(21, 41))  # the group has no member, and its events are kept
    network.run(SECOND)
    network.kill("b1")
    network.run(SECOND)
    network.publish("p", *range(41, 61))  # its broker is down: the neighbour keeps them
    network.run(SECOND)
    network.broker("b1")
    network.link("b0", "b1")
    network.run(2 * SECOND)
    network.member("m2", "b2")
    network.run(10 * SECOND)
    assert set(network.done) == set(range(1, 61))


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_with_a_store_whatever_is_killed(seed: int) -> None:
    network = star(seed=seed, hops=STORING)
    places = ["b1", "b2", "b0", "b3"]
    for at in range(4):
        network.member(f"m{at}", places[at], work_us=network.dice.randrange(MS, 40 * MS))
    network.run(3 * SECOND)
    published, joined = 0, 4
    for _ in range(6):
        network.publish("p", *range(published + 1, published + 26))
        published += 25
        network.run(network.dice.randrange(MS, 200 * MS))
        living = [name for name in network.nodes if name.startswith("m")]
        if network.dice.random() < 0.5:
            network.kill(network.dice.choice(living))
            network.member(f"m{joined}", network.dice.choice(places), work_us=network.dice.randrange(MS, 40 * MS))
            joined += 1
        else:
            _restart(network, network.dice.choice(["b1", "b2"]))
        network.run(network.dice.randrange(MS, 2 * SECOND))
    network.run(30 * SECOND)
    assert set(network.done) == set(range(1, published + 1))


def _restart(network: GroupNetwork, broker: str) -> None:
    near = [other for one, other in network.links if one == broker]
    network.kill(broker)
    network.run(500 * MS)
    network.broker(broker)
    for other in near:
        if other in network.nodes:
            network.link(broker, other)
