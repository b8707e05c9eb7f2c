"""The pieces of replication by themselves: queues, the cache, the merge of two ways, the paper's measure of order."""

from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.messages import (
    Publication,
    Publish,
)
from holdfast.model.replication_messages import (
    CopyOpen,
    LastAdvertisement,
    LastSubscription,
)
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.replication.cache import EventCache
from holdfast.protocol.replication.echoes import Echoes
from holdfast.protocol.replication.out_queue import OutQueue
from holdfast.protocol.replication.overload import Load, LoadWatch
from holdfast.protocol.replication.reordering import Reordering
from holdfast.protocol.replication.replica import Copies, Replica
from holdfast.protocol.replication.settings import ReplicationSettings, Role
from holdfast.protocol.replication.states import ReplicaState
from holdfast_papers.replication.model import ordering_degree


def event(seq: int, value: int = 0, source: str = "p") -> Publish:
    return Publish(Publication(source, seq, 0, None, {"v": value}))


def matching(limit: int):  # type: ignore[no-untyped-def]
    return lambda publish: publish.publication.attributes["v"] > limit


def seqs(messages) -> list[int]:  # type: ignore[no-untyped-def]
    return [each.publication.seq for each in messages]


def test_control_messages_go_before_events_and_one_at_a_time() -> None:
    queue = OutQueue(pace_us=10, events_max=100)
    queue.make_one_ready(event(1))
    queue.put_control(CopyOpen(1))
    assert queue.take(0) == [CopyOpen(1)]
    assert queue.take(5) == []
    assert queue.next_due_us() == 10
    assert seqs(queue.take(10)) == [1]


def test_an_event_waits_for_a_subscription_that_it_matches_and_goes_once() -> None:
    queue = OutQueue(pace_us=0, events_max=100)
    for seq, value in enumerate([3, 9, 5], 1):
        queue.hold(event(seq, value))
    queue.make_ready("v > 4", matching(4))
    queue.make_ready("v > 8", matching(8))
    assert seqs(queue.take(0)) == [2, 3]
    queue.make_ready("v > 2", matching(2))
    assert seqs(queue.take(0)) == [1]


def test_ready_queues_are_served_in_turn() -> None:
    queue = OutQueue(pace_us=0, events_max=100)
    for seq in range(1, 5):
        queue.hold(event(seq, seq))
    queue.make_ready("v <= 2", lambda publish: publish.publication.attributes["v"] <= 2)
    queue.make_ready("v > 2", matching(2))
    assert seqs(queue.take(0)) == [1, 3, 2, 4]


def test_a_full_queue_drops_the_oldest_and_counts_it() -> None:
    queue = OutQueue(pace_us=0, events_max=2)
    for seq in (1, 2, 3):
        queue.hold(event(seq))
    queue.make_all_ready()
    assert (seqs(queue.take(0)), queue.dropped) == ([2, 3], 1)


def test_a_late_subscription_gets_each_earlier_event_once_per_neighbour() -> None:
    cache = EventCache(ConditionBook(), 10)
    cache.on_event("a", event(1, 5), ["s"])
    cache.on_event("a", event(2, 5), [])
    assert seqs(cache.on_subscriptions("s", ["v > 4", "v > 3"])) == [2]
    assert seqs(cache.on_subscriptions("s", ["v > 1"])) == []  # two subscriptions of one neighbour (erratum 4)
    assert seqs(cache.on_subscriptions("t", ["v > 1"])) == [1, 2]
    assert cache.on_subscriptions("a", ["v > 1"]) == []  # it came from there


def joined(in_order: bool, held_max: int, sources_max: int) -> Reordering:
    """Behind f and r; whether what r sends is in order."""
    joint = Reordering("f", held_max, sources_max)
    joint.join("r", in_order)
    return joint


@given(st.integers(0, 10_000), st.integers(1, 40))
def test_two_ways_that_keep_their_order_are_merged_into_one(seed: int, count: int) -> None:
    dice = Random(seed)
    hops: dict[str, list[Publish]] = {"f": [], "r": []}
    for seq in range(1, count + 1):
        hops[dice.choice("fr")].append(event(seq))
    joint = joined(True, 1_000, 100)
    released: list[int] = []
    while hops["f"] or hops["r"]:
        route = dice.choice([name for name in "fr" if hops[name]])
        released += seqs(publish for _, publish in joint.on_event(route, hops[route].pop(0)))
        assert released == list(range(1, len(released) + 1))
    for route in "fr":
        released += seqs(publish for _, publish in joint.on_marks(route, [("p", count)]))
    assert released == list(range(1, count + 1))
    assert len(joint) == 0


def test_the_papers_rule_would_let_a_later_event_pass() -> None:
    joint = joined(True, 1_000, 100)
    assert joint.on_event("f", event(5)) == []
    assert joint.on_event("r", event(6)) == [("f", event(5))]
    assert joint.on_event("r", event(7)) == []  # the paper's rule lets go all but the last of each queue


def test_a_way_without_order_counts_by_its_marks_only() -> None:
    joint = joined(False, 1_000, 100)
    joint.on_marks("f", [("p", 9)])
    assert joint.on_event("r", event(4)) == []
    assert joint.on_event("r", event(2)) == []
    assert seqs(publish for _, publish in joint.on_marks("r", [("p", 4)])) == [2, 4]


def test_what_waits_for_its_order_is_bounded() -> None:
    joint = joined(True, 2, 100)
    assert [joint.on_event("r", event(seq)) for seq in (1, 2, 3)] == [[], [], [("r", event(1))]]
    assert joint.overflowed == 1


def test_how_far_a_source_is_is_known_of_the_latest_sources_only() -> None:
    joint = joined(True, 1_000, 2)
    assert joint.on_event("f", event(1, source="p")) == []
    joint.on_marks("f", [("q", 7)])
    assert joint.on_marks("r", [("s", 7)]) == [("f", event(1, source="p"))]  # out of memory, not out of the network
    assert (len(joint), joint.overflowed) == (0, 1)
    assert joint.on_event("r", event(8, source="q")) == []
    assert joint.on_marks("f", [("q", 8)]) == [("r", event(8, source="q"))]  # q was heard of after p and is known


def test_when_a_way_leaves_what_it_brought_still_waits_for_the_others() -> None:
    joint = joined(True, 1_000, 100)
    assert joint.on_event("r", event(3)) == []
    assert joint.leave("r") == []
    assert not joint.is_over
    assert joint.on_event("f", event(2)) == [("f", event(2))]
    assert joint.on_marks("f", [("p", 3)]) == [("r", event(3))]
    assert joint.is_over
    assert joint.on_event("f", event(4)) == [("f", event(4))]


def test_what_nobody_vouches_for_is_let_go_after_a_while() -> None:
    joint = joined(True, 1_000, 100)
    joint.on_event("r", event(3))
    assert [joint.on_heartbeat(2) for _ in range(3)] == [[], [], [("r", event(3))]]
    assert joint.overflowed == 1


def replica(copies: dict[str, Copies | None], tries: int = 2) -> Replica:
    role = Role("f", ("a", "s"), "synchronous", "failover")
    return Replica(role, 1, ReplicationSettings(retry_us=10, tries=tries), copies.get)


def test_a_replica_is_done_when_every_digest_is_right() -> None:
    copies: dict[str, Copies | None] = {"a": Copies(7, 0, 0), "s": Copies(0, 0, 7)}
    machine = replica(copies)
    machine.on_last_advertisement("a", LastAdvertisement(1, 7))
    machine.on_last_advertisement("s", LastAdvertisement(1, 0))
    assert machine.advance() is ReplicaState.SUBSCRIPTIONS
    machine.on_last_subscription("a", LastSubscription(1, 0, 0))
    machine.on_last_subscription("s", LastSubscription(1, 0, 0))  # it answers before it has our advertisement
    assert machine.advance() is None
    machine.on_last_subscription("s", LastSubscription(1, 7, 42))
    assert machine.advance() is None  # its subscriptions are not here yet
    copies["s"] = Copies(0, 42, 7)
    assert machine.advance() is ReplicaState.REPLICATED


def test_an_advertisement_that_comes_late_only_makes_a_replica_wait_longer() -> None:
    """The paper's counters would go below zero here."""
    copies: dict[str, Copies | None] = {"a": Copies(7, 0, 0), "s": Copies(0, 0, 7)}
    machine = replica(copies)
    for name, digest in (("a", 7), ("s", 0)):
        machine.on_last_advertisement(name, LastAdvertisement(1, digest))
    machine.advance()
    copies["a"], copies["s"] = Copies(9, 0, 0), Copies(0, 0, 9)  # one more advertisement from a
    machine.on_last_subscription("a", LastSubscription(1, 0, 0))
    machine.on_last_subscription("s", LastSubscription(1, 7, 0))  # the answer to the first one
    assert machine.advance() is None
    machine.on_last_subscription("s", LastSubscription(1, 9, 0))
    assert machine.advance() is None  # a has not said yet that this was the last
    machine.on_last_advertisement("a", LastAdvertisement(1, 9))
    assert machine.advance() is ReplicaState.REPLICATED


def test_words_of_another_attempt_do_not_count() -> None:
    machine = replica({"a": Copies(0, 0, 0), "s": Copies(0, 0, 0)})
    for name in ("a", "s"):
        machine.on_last_advertisement(name, LastAdvertisement(2, 0))
    assert machine.advance() is None


def test_a_silent_neighbour_is_asked_again_and_then_left_out() -> None:
    machine = replica({"a": None, "s": None})
    assert machine.on_timer(11) == (["a", "s"], [])
    assert machine.on_timer(21) == (["a", "s"], [])
    assert machine.on_timer(31) == ([], ["a", "s"])


def looks(watch: LoadWatch, *ways: Load, from_s: int = 0, count: int = 1) -> None:
    for at_s in range(from_s, from_s + count):
        watch.look("f", ways, at_s * 1_000_000)


def test_a_broker_needs_one_more_when_no_way_was_short_at_two_looks() -> None:
    watch = LoadWatch(ReplicationSettings(relieve_queue=10))
    looks(watch, Load(11, 0))
    assert not watch.wants_one_more("f")
    looks(watch, Load(12, 0))
    assert watch.wants_one_more("f")
    looks(watch, Load(12, 0), Load(3, 0), count=2)  # the other one will bear it
    assert not watch.wants_one_more("f")


def test_a_delay_counts_as_a_queue_does() -> None:
    watch = LoadWatch(ReplicationSettings(relieve_delay_us=50_000))
    looks(watch, Load(1_000, 50_000), count=2)
    assert not watch.wants_one_more("f")
    looks(watch, Load(0, 50_001), count=2)
    assert watch.wants_one_more("f")


def test_one_can_be_missed_when_all_ways_were_short_for_long_enough() -> None:
    watch = LoadWatch(ReplicationSettings(relieve_queue=40, release_us=5_000_000))
    looks(watch, Load(10, 0), Load(11, 0), count=6)
    assert not watch.can_miss_one("f", 6_000_000)  # above a quarter
    looks(watch, Load(10, 0), Load(10, 0), from_s=6, count=5)
    assert not watch.can_miss_one("f", 10_999_999)
    assert watch.can_miss_one("f", 11_000_000)


def test_after_a_release_that_was_a_mistake_the_next_one_takes_twice_as_long() -> None:
    watch = LoadWatch(ReplicationSettings(relieve_queue=40, release_us=5_000_000))
    watch.on_joined("f", 0)
    watch.on_released("f", 10_000_000)
    watch.on_joined("f", 12_000_000)
    looks(watch, Load(0, 0), from_s=13)
    assert not watch.can_miss_one("f", 22_999_999)
    assert watch.can_miss_one("f", 23_000_000)
    watch.on_released("f", 23_000_000)
    watch.on_joined("f", 90_000_000)  # much later: another wave
    looks(watch, Load(0, 0), from_s=91)
    assert watch.can_miss_one("f", 96_000_000)


def test_waiting_is_what_a_message_took_more_than_the_quickest_whatever_the_clocks_say() -> None:
    for ahead_us in (0, 5_000_000_000, -1_000):
        echoes = Echoes()
        for sent_us, took_us, waited_us in ((10_000, 3_000, 0), (20_000, 2_000, 0), (30_000, 52_000, 50_000)):
            echoes.on_answer("f", sent_us, sent_us + took_us + ahead_us)
            assert abs(echoes.waited_us("f") - waited_us) <= 2
    assert echoes.waited_us("nobody") == 0


def test_clocks_that_drift_apart_are_no_waiting() -> None:
    echoes = Echoes()
    for second in range(1, 3_600):
        echoes.on_answer("f", second * 1_000_000, second * 1_000_050 + 2_000)  # 50 parts in a million
        assert echoes.waited_us("f") <= 50


def test_the_degree_of_order_is_one_in_order_and_never_below_a_half() -> None:
    assert ordering_degree(range(1, 11)) == 1
    assert ordering_degree(range(10, 0, -1)) == pytest.approx(0.5)
    degrees = [ordering_degree(each) for each in permutations(range(6))]
    assert min(degrees) == pytest.approx(0.5)
    assert sum(degrees) / len(degrees) == pytest.approx(2 / 3, abs=0.02)  # of a random order
