"""A broker that recovers by itself knows what it has lost, all of it, and nothing that it was not owed."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.messages import Publication, Stamp, Stamped
from holdfast.protocol.effects import PublishCall, SubscribeCall, UnsubscribeCall
from holdfast.protocol.gossip.buffer import Buffer
from holdfast.protocol.gossip.classes import tag_of
from holdfast.protocol.gossip.lookup import beyond, left_of
from holdfast.protocol.gossip.losses import LossTracker
from holdfast.protocol.gossip.settings import GossipSettings
from tests.protocol.wires import Wires

TAG = 7
QUIET = GossipSettings("subscriber-pull", interval_us=10**12)  # so that only losses are noticed, and nothing is asked


def stamp(number: int, began_ms: int = 5, epoch: int = 0, tag: int = TAG) -> Stamp:
    return Stamp("b1", epoch, ((tag, number, began_ms),))


def losses(wanted_us: int = 0, lost_max: int = 100) -> LossTracker:
    known = LossTracker(lost_max, 10_000_000, 100)
    known.want(TAG, wanted_us)
    return known


def numbers(known: LossTracker) -> list[int]:
    return [number for *_, each in known.of_class(TAG, 1_000) for number in each]


def test_a_gap_is_lost_until_it_is_filled() -> None:
    known = losses()
    for number in (1, 2, 5):
        known.on_stamp(stamp(number), 100)
    assert known.of_class(TAG, 10) == (("b1", 0, TAG, (3, 4)),)
    assert known.of_origin("b1", 1) == (("b1", 0, TAG, (4,)),)
    known.on_stamp(stamp(3), 200)
    assert numbers(known) == [4]
    known.on_stamp(stamp(4), 200)
    assert not known
    assert known.tags == known.origins == []


def test_the_first_events_are_owed_if_they_were_numbered_after_we_asked() -> None:
    known = losses(wanted_us=5_000)
    known.on_stamp(stamp(3, began_ms=5), 100)
    assert numbers(known) == [1, 2]


def test_what_was_numbered_before_we_asked_is_not_owed() -> None:
    known = losses(wanted_us=5_001)
    known.on_stamp(stamp(3, began_ms=5), 100)
    assert not known
    known.on_stamp(stamp(5, began_ms=5), 100)
    assert numbers(known) == [4]


def test_an_origin_that_has_restarted_numbers_anew() -> None:
    known = losses()
    known.on_stamp(stamp(3), 100)
    known.on_stamp(stamp(2, epoch=9_000_000), 200)
    assert known.of_class(TAG, 10) == (("b1", 0, TAG, (1, 2)), ("b1", 9_000_000, TAG, (1,)))
    known.on_stamp(stamp(4), 300)  # a late one of its former life
    known.on_stamp(stamp(1), 300)
    assert known.of_class(TAG, 10) == (("b1", 0, TAG, (2,)), ("b1", 9_000_000, TAG, (1,)))


def test_who_no_longer_wants_a_class_has_lost_nothing_of_it() -> None:
    known = losses()
    known.on_stamp(stamp(3), 100)
    known.unwant(TAG)
    assert not known
    known.on_stamp(stamp(9), 200)
    assert not known
    known.want(TAG, 300_000)
    known.on_stamp(stamp(12), 300)
    assert not known


def test_losses_are_given_up_when_they_are_old_or_too_many() -> None:
    known = losses(lost_max=3)
    known.on_stamp(stamp(3), 0)
    known.on_stamp(stamp(6), 1_000_000)
    assert numbers(known) == [2, 4, 5]
    assert known.given_up == 1
    known.give_up_old(10_500_000)
    assert numbers(known) == [4, 5]


def test_a_loss_counts_once_also_for_who_forgot_how_far_it_was() -> None:
    known = LossTracker(100, 10_000_000, streams_max=1)
    known.want(TAG, 0)
    known.want(TAG + 1, 0)
    for _ in range(2):
        known.on_stamp(stamp(3), 0)
        known.on_stamp(stamp(1, tag=TAG + 1), 0)  # only one stream is remembered
    assert len(known) == 2
    assert numbers(known) == [1, 2]


@given(st.lists(st.integers(1, 60), max_size=80))
def test_losses_are_the_gaps_below_the_highest_number(seen: list[int]) -> None:
    known = losses(lost_max=1_000)
    for number in seen:
        known.on_stamp(stamp(number), 0)
    assert sorted(numbers(known)) == sorted(set(range(1, max(seen, default=0))) - set(seen))
    assert len(known) == len(numbers(known))


events = st.lists(
    st.tuples(st.integers(1, 30), st.lists(st.tuples(st.integers(1, 3), st.integers(1, 20)), max_size=3)), max_size=60
)


@given(events, st.integers(1, 10))
def test_a_buffer_holds_the_last_events_and_finds_them(
    added: list[tuple[int, list[tuple[int, int]]]], size: int
) -> None:
    buffer, kept = Buffer(size, 1_000, by_class=True), deque[int](maxlen=size)
    places: dict[int, list[tuple[int, int]]] = {}
    for seq, at in added:
        if seq not in kept:
            kept.append(seq)
            unique = {tag: (tag, 100 * seq + number) for tag, number in at}
            places[seq] = list(unique.values())
            tagged = Stamp("b", 0, tuple([(tag, number, 0) for tag, number in places[seq]]))
            buffer.add(Publication("s", seq, 0, None, {}), tagged, list(unique), 0)
    assert len(buffer) == len(kept)
    for seq in range(1, 31):
        found = buffer.event("s", seq)
        assert (found is not None) == (seq in kept)
        for tag, number in places.get(seq, ()):
            assert (number in buffer.numbers("b", 0, tag)) == (seq in kept)
    for tag in (1, 2, 3):
        held = [seq for source, seqs in buffer.ids(tag, 1_000) for seq in seqs]
        assert held == [seq for seq in kept if any(each == tag for each, _ in places[seq])]


def test_what_is_not_in_the_buffer_is_asked_for_further_on() -> None:
    buffer = Buffer(10, 1_000, by_class=False)
    buffer.add(Publication("s", 1, 0, None, {}), Stamp("b", 0, ((1, 4, 0), (2, 9, 0))), (), 0)
    found, left = left_of((("b", 0, 1, (3, 4)), ("b", 0, 2, (9,)), ("c", 0, 1, (4,))), buffer)
    assert [each.publication.seq for each in found] == [1]
    assert left == (("b", 0, 1, (3,)), ("c", 0, 1, (4,)))


def test_who_has_got_so_far_lacks_what_follows_as_far_back_as_it_is_kept_and_wanted() -> None:
    buffer = Buffer(5, 1_000, by_class=False)
    for number in range(1, 10):  # 5 to 9 are kept
        buffer.add(Publication("s", number, 0, None, {}), Stamp("b", 7, ((1, number, 0),)), (), 10 * number)

    def lacking(last: int, expected: int, since_us: int = 0) -> list[int]:
        return [each.publication.seq for each in beyond(buffer.numbers("b", 7, 1), last, expected, since_us)]

    assert lacking(9, 8) == [8, 9]
    assert lacking(9, 0) == [5, 6, 7, 8, 9]
    assert lacking(9, 0, since_us=65) == [7, 8, 9]
    assert lacking(9, 10) == lacking(0, 1) == []


def test_a_buffer_keeps_fewer_events_when_they_are_of_very_many_classes() -> None:
    buffer = Buffer(100, 50, by_class=False)
    for seq in range(1, 20):
        buffer.add(Publication("s", seq, 0, None, {}), Stamp("b", 7, tuple((tag, seq, 0) for tag in range(20))), (), 0)
    assert [each.publication.seq for each in buffer] == [18, 19]
    assert buffer.places == 40


# In a network ------------------------------------------------------------------------------------------------------

CONDITIONS = ("p = 1", "q = 1", "p = 1 OR q = 1", "r > 0")
steps = st.one_of(
    st.tuples(st.just("subscribe"), st.integers(0, 2), st.sampled_from(CONDITIONS)),
    st.tuples(st.just("publish"), st.integers(0, 2), st.sampled_from(["p", "q", "r"])),
    st.tuples(st.just("lose"), st.integers(0, 2), st.sampled_from(["p", "q", "r"])),
)


class Churn:
    """Three brokers in a row, a client at each that subscribes, unsubscribes and publishes; some events are lost."""

    def __init__(self, routing: str) -> None:
        self.wires = Wires(routing, QUIET)  # type: ignore[arg-type]
        self.wires.broker("b0", "b1", "b2")
        self.wires.link("b0", "b1")
        self.wires.link("b1", "b2")
        for number in range(3):
            self.wires.client(f"c{number}", f"b{number}")
        self.live: dict[tuple[int, str], int] = {}  # client and condition -> since when
        self.published: dict[tuple[str, int, int], tuple[int, str]] = {}  # origin, tag, number -> time, attribute
        self.losing = False
        self.wires.loses = lambda sender, to, message: self.losing and isinstance(message, Stamped)

    def step(self, what: str, who: int, about: str) -> None:
        self.wires.pass_time(10_000)
        if what == "subscribe":
            if self.live.pop((who, about), None) is None:
                self.live[who, about] = self.wires.now_us
                self.wires.give(f"c{who}", SubscribeCall(about, about))
            else:
                self.wires.give(f"c{who}", UnsubscribeCall(about))
            return
        self.losing = what == "lose"
        self.wires.give(f"c{who}", PublishCall({about: 1}))
        self.losing = False
        for kept in self.wires.nodes[f"b{who}"]._gossip._buffer:  # type: ignore[union-attr]
            for tag, number, _ in kept.stamp.places:
                given = kept.publication
                self.published[f"b{who}", tag, number] = given.time_us, next(iter(given.attributes))

    def claimed(self, who: int) -> list[tuple[str, int, int]]:
        """What a broker believes to have lost: origin, class and number."""
        known = self.wires.nodes[f"b{who}"]._gossip._losses  # type: ignore[union-attr]
        return [
            (origin, tag, number)
            for each in known.tags
            for origin, _, tag, numbers_ in known.of_class(each, 10_000)
            for number in numbers_
        ]


@pytest.mark.parametrize("routing", ["subscriptions", "destinations"])
@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=60))
def test_nothing_counts_as_lost_that_was_not_owed(routing: str, given_steps: list[tuple[str, int, str]]) -> None:
    churn = Churn(routing)
    for step in given_steps:
        churn.step(*step)
    got = {(int(name[1]), attributes_of) for name, attributes_of in _delivered(churn)}
    for who in range(3):
        for origin, tag, number in churn.claimed(who):
            time_us, attribute = churn.published[origin, tag, number]
            condition = next(each for each in CONDITIONS if tag_of(_canonical(each)) == tag)
            since_us = churn.live.get((who, condition))
            assert since_us is not None and since_us <= time_us  # it is owed,
            assert attribute in condition or attribute == "r"  # it is what was asked for,
            assert (who, (origin, time_us)) not in got  # and it has not come


def _canonical(condition: str) -> str:
    return str(Wires()._book.subscription(condition))


def _delivered(churn: Churn) -> list[tuple[str, tuple[str, int]]]:
    """Who got what: the client, and the event's origin and time."""
    found = []
    for _, to, message in churn.wires.sent:
        if to.startswith("c") and hasattr(message, "publication"):
            found.append((to, (f"b{message.publication.source[1]}", message.publication.time_us)))
    return found


def test_every_loss_is_noticed_with_the_next_event_of_its_class() -> None:
    churn = Churn("subscriptions")
    for who in (0, 1, 2):
        churn.step("subscribe", who, "p = 1")
        churn.step("subscribe", who, "q = 1")
    plan = [("lose", "p"), ("publish", "q"), ("lose", "p"), ("lose", "q"), ("publish", "q"), ("publish", "p")]
    for what, about in plan:
        churn.step(what, 0, about)
    lost = {("b0", tag_of(_canonical("p = 1")), 1), ("b0", tag_of(_canonical("p = 1")), 2)}
    lost.add(("b0", tag_of(_canonical("q = 1")), 2))
    assert set(churn.claimed(1)) == set(churn.claimed(2)) == lost
    assert not churn.claimed(0)
