"""Events that are stored before they are acknowledged: whoever dies, wherever, each arrives once and in order."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.matching.index import Index
from holdfast.model.messages import (
    Deliver,
    Delta,
    Detach,
    Handover,
    Heartbeat,
    LinkState,
    Message,
    NodeKind,
    Publication,
    Publish,
    Snapshot,
    StoredAck,
)
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Effect, Incident, LinkUp, Multicast, Persist, Persisted, Received, Send
from holdfast.protocol.hops.failure_detector import FailureDetector
from holdfast.protocol.hops.incoming import Incoming
from holdfast.protocol.hops.outgoing import KeptMessage, Outgoing
from holdfast.protocol.hops.settings import HandoverSettings, HopSettings, WatchSettings
from holdfast.protocol.node import BrokerMachine
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.settings import ProtocolSettings, Reliability, Routing
from holdfast.protocol.stack import new_broker
from holdfast.protocol.store_changes import Knows, Learned, Opened, Stored
from holdfast.protocol.tables import digest_of
from tests.protocol.stored_network import Line

SETTINGS = HandoverSettings(window=4)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    brokers=st.integers(1, 3),
    loss=st.sampled_from([0.0, 0.0, 0.3]),
    runs=st.booleans(),
    doings=st.lists(st.sampled_from(["publish", "publish", "step", "steps", "crash", "restart", "wait"]), max_size=120),
)
def test_each_event_arrives_once_and_in_order_whoever_dies_wherever(
    seed: int, brokers: int, loss: float, runs: bool, doings: list[str]
) -> None:
    line = Line(seed, brokers, loss, runs)
    published = 0
    for doing in doings:
        if doing == "publish":
            published += 1
            line.publish(published)
        elif doing == "step":
            line.step()
        elif doing == "steps":
            for _ in range(line.dice.randrange(30)):
                line.step()
        elif doing == "wait":
            line.settle(line.dice.randrange(1_000_000))
        elif doing == "crash" and len(line.down) < brokers:
            line.crash(line.dice.choice([name for name in line.names if name not in line.down]))
        elif doing == "restart" and line.down:
            line.restart(line.dice.choice(sorted(line.down)))
    line.loss = 0.0
    for name in sorted(line.down):
        line.restart(name)
    line.settle(30_000_000)
    assert line.delivered == list(range(1, published + 1))
    assert line.acknowledged == line.delivered
    for name, store in line.stores.items():
        assert not store.holds_events, name


def kept(number: int, lifetime_us: int | None = None) -> KeptMessage:
    return KeptMessage(number, Publish(Publication("p", number, 0, lifetime_us, {})), 0, 1_000_000)


def test_no_more_than_a_window_is_under_way() -> None:
    outgoing = Outgoing(5, SETTINGS)
    for number in range(1, 11):
        outgoing.put(kept(number))
    assert [each.seq for each in outgoing.release(10, 0)] == [1, 2, 3, 4]
    assert len(outgoing.on_ack(StoredAck(5, 2), 100)) == 2
    assert [each.seq for each in outgoing.fill(100)] == [5, 6]


def test_the_first_that_is_handed_over_is_the_oldest_that_is_left_whatever_was_taken_out() -> None:
    dice, outgoing = Random("first"), Outgoing(5, SETTINGS)
    left: dict[int, bool] = {}  # numbers, and whether their event is still there
    for number in range(1, 400):
        left[outgoing.put(kept(number))] = True
        outgoing.release(number, 0)
        if dice.random() < 0.2:
            taken = dice.randrange(number)
            outgoing.on_ack(StoredAck(5, taken), 0)
            left = {seq: there for seq, there in left.items() if seq > taken}
        if dice.random() < 0.1:
            for seq, _ in outgoing.give_up(dice.randrange(20)):
                left[seq] = False
        while left and not left[min(left)]:  # nobody waits for those that are gone before the first
            del left[min(left)]
        assert len(outgoing) == len(left)
        assert {each.first for each in outgoing.try_again(0)} == ({min(left)} if left else set())


def test_nothing_leaves_before_it_is_stored() -> None:
    outgoing = Outgoing(5, SETTINGS)
    outgoing.put(kept(1))
    assert outgoing.fill(0) == []
    assert [each.seq for each in outgoing.release(1, 0)] == [1]


def test_what_is_missed_is_sent_again_once_and_then_only_when_there_is_no_answer() -> None:
    outgoing = Outgoing(5, SETTINGS)
    for number in range(1, 5):
        outgoing.put(kept(number))
    outgoing.release(4, 0)
    outgoing.on_ack(StoredAck(5, 1, (2,)), 1_000)
    again = outgoing.missed(StoredAck(5, 1, (2,)), 1_000)
    assert [(each.seq, each.again, each.first) for each in again] == [(2, True, 2)]
    assert outgoing.missed(StoredAck(5, 1, (2,)), 2_000) == []
    assert outgoing.due_us is not None
    assert [each.seq for each in outgoing.on_timer(outgoing.due_us)] == [2]


def test_a_neighbour_that_is_down_is_tried_less_and_less_often() -> None:
    outgoing = Outgoing(5, SETTINGS)
    outgoing.put(kept(1))
    outgoing.release(1, 0)
    waits, now_us = [], 0
    for _ in range(8):
        assert outgoing.due_us is not None
        waits.append(outgoing.due_us - now_us)
        now_us = outgoing.due_us
        assert [each.seq for each in outgoing.on_timer(now_us)] == [1]
    assert waits == sorted(waits)
    assert waits[-1] == SETTINGS.wait_max_us


def test_after_a_silence_the_window_grows_by_what_the_neighbour_takes() -> None:
    """A neighbour whose store is full drops what it has no room for: a whole window each time would be mostly waste."""
    outgoing = Outgoing(5, SETTINGS)
    for number in range(1, 11):
        outgoing.put(kept(number))
    outgoing.release(10, 0)
    assert outgoing.due_us is not None
    assert [each.seq for each in outgoing.on_timer(outgoing.due_us)] == [1]
    sent = []
    for taken in (1, 2, 3, 4):
        outgoing.on_ack(StoredAck(5, taken), 1_000_000)
        sent.append([each.seq for each in outgoing.fill(1_000_000)])
    assert sent == [[2, 3], [4, 5], [6, 7], [8]]


def test_an_answer_that_was_overtaken_does_not_widen_the_window() -> None:
    outgoing = Outgoing(5, SETTINGS)
    for number in range(1, 11):
        outgoing.put(kept(number))
    outgoing.release(10, 0)
    outgoing.on_ack(StoredAck(5, 3), 100)
    outgoing.fill(100)
    assert outgoing.due_us is not None
    assert [each.seq for each in outgoing.on_timer(outgoing.due_us)] == [4]
    outgoing.on_ack(StoredAck(5, 2), 1_000_000)
    assert outgoing.fill(1_000_000) == []


def test_an_event_that_expires_is_handed_over_empty_when_others_wait_behind_it() -> None:
    outgoing = Outgoing(5, SETTINGS)
    for number, lifetime_us in ((1, None), (2, 10), (3, None)):
        outgoing.put(kept(number, lifetime_us))
    assert [seq for seq, _ in outgoing.expire(100)] == [2]
    sent = outgoing.release(3, 100)
    assert [(each.seq, each.message is None) for each in sent] == [(1, False), (2, True), (3, False)]
    incoming = Incoming(4)
    found = [incoming.take(each) for each in sent]
    assert [None if ready is None else len(ready) for ready in found] == [1, 1, 1]


def test_what_comes_early_waits_and_what_comes_twice_is_dropped() -> None:
    incoming = Incoming(4)
    messages = {seq: Handover(5, seq, 1, False, kept(seq).message) for seq in range(1, 8)}
    assert incoming.take(messages[2]) == []
    assert incoming.ack == StoredAck(5, 0, (1,))
    assert incoming.take(messages[1]) == [messages[1].message, messages[2].message]
    assert incoming.take(messages[1]) == []
    assert incoming.take(messages[7]) == []  # beyond the window
    assert len(incoming) == 0
    assert incoming.take(Handover(4, 9, 9, False, None)) is None  # of an earlier stream


def test_what_came_early_in_one_stream_is_not_awaited_in_the_next() -> None:
    """Two messages made a broker list all numbers up to 2**62 as missing, until it had no memory left."""
    incoming = Incoming(4)
    far = 2**62 - 2
    assert incoming.take(Handover(5, far + 2, far, False, None)) == []
    assert incoming.take(Handover(6, 1, 1, False, None)) == [None]
    assert incoming.ack == StoredAck(6, 0, ()) and len(incoming) == 0


def test_a_receiver_that_forgot_how_far_it_was_is_told_by_the_sender() -> None:
    incoming = Incoming(4)
    last = Handover(5, 103, 102, False, kept(103).message)
    assert incoming.take(last) == []
    assert incoming.ack == StoredAck(5, 101, (102,))


BEAT_US = WatchSettings().beat_us


def watched(silences_us: list[int]) -> tuple[FailureDetector, int]:
    watch, now_us = FailureDetector(WatchSettings(), 0), 0
    watch.begin("n", 0)
    for each in silences_us:
        now_us += each
        watch.on_heard("n", True, now_us)
    return watch, now_us


def suspected_after_us(silences_us: list[int]) -> int:
    watch, heard_us = watched(silences_us)
    now_us = heard_us
    while not watch.suspects("n"):
        now_us = max(now_us, watch.next_due_us())
        watch.on_timer(now_us)
    return now_us - heard_us


def test_a_regular_neighbour_is_missed_within_a_second_and_an_irregular_one_later() -> None:
    regular = suspected_after_us([BEAT_US] * 100)
    irregular = suspected_after_us([BEAT_US, BEAT_US, BEAT_US, 3 * BEAT_US] * 25)
    assert regular <= 4 * BEAT_US
    assert irregular > regular


@pytest.mark.parametrize("lost_every", [3, 10])
def test_beats_that_are_lost_now_and_then_make_nobody_suspect(lost_every: int) -> None:
    watch, now_us = FailureDetector(WatchSettings(), 0), 0
    watch.begin("n", 0)
    suspicions = 0
    for number in range(1, 1_000):
        now_us += BEAT_US
        if number % lost_every:
            watch.on_heard("n", True, now_us)
        suspicions += len(watch.on_timer(now_us) or ())
    assert suspicions == 0


def test_one_that_speaks_again_is_trusted_again() -> None:
    watch, now_us = watched([BEAT_US] * 10)
    assert watch.on_timer(now_us + 20 * BEAT_US) == ["n"]
    assert watch.on_heard("n", False, now_us + 21 * BEAT_US)
    assert not watch.suspects("n")


def test_a_table_that_is_mended_without_a_new_version_is_stored_too() -> None:
    """The first of two changes was lost on its way; the whole table that follows has the version of the second."""
    line = Line(1, 1, 0.0, False)
    broker = line.nodes["b0"]
    for number, message in enumerate(
        (
            Delta("subscriptions", 2_000_000_000, ("n = 2",), ()),
            Snapshot("subscriptions", 2_000_000_000, ("n = 1", "n = 2")),
        )
    ):
        effects = broker.handle(Received("s", message), 1_000_000 + number)
        [persist] = [each for each in effects if isinstance(each, Persist)]
        learned = [each for each in persist.changes if isinstance(each, Learned)]
        assert [each.add for each in learned] == [message.add if isinstance(message, Delta) else message.conditions]


def test_a_part_of_a_whole_table_is_stored_with_what_it_drops_and_nothing_else() -> None:
    broker = storing("subscriptions", s="client")
    conditions = [f"n = {number}" for number in range(20)]
    broker.handle(Received("s", Delta("subscriptions", 2, tuple(conditions), ())), 1)
    gone = [each for each in conditions if digest_of(each) % 2 == 1]
    effects = broker.handle(Received("s", Snapshot("subscriptions", 3, ("n = 99",), 1, 2)), 2)
    assert 0 < len(gone) < 20
    changes = [each for persist in effects if isinstance(persist, Persist) for each in persist.changes]
    learned = [each for each in changes if isinstance(each, Learned) and each.version == 3]
    assert learned == [Learned("s", "subscriptions", 3, ("n = 99",), tuple(gone), False)]


def storing(routing: Routing, **neighbours: NodeKind) -> BrokerMachine:
    parts = BrokerParts("b0", routing, ProtocolSettings(), ConditionBook(), Index, 0, Random("b0"))
    broker = new_broker(parts, Reliability(HopSettings("retransmission")), Stored())
    for name, kind in neighbours.items():
        broker.handle(LinkUp(name, kind), 1)
    return broker


def test_a_client_that_comes_back_without_saying_what_it_takes_gets_events_all_the_same() -> None:
    broker = storing("subscriptions", c="client", p="client")
    said = 0

    def published_after(epoch: int, *more: Message) -> list[Effect]:
        nonlocal said
        said += 1
        for message in (
            Heartbeat(epoch, ((0, 0),) * 2, kind="client"),
            *more,
            Snapshot("subscriptions", said, ("n > 0",)),
        ):
            broker.handle(Received("c", message), said)
        return broker.handle(Received("p", Publish(Publication("p", said, said, None, {"n": 1}))), said)

    def is_kept(effects: list[Effect]) -> bool:
        sent = [each for each in effects if isinstance(each, Send | Multicast) and isinstance(each.message, Deliver)]
        kept = [each for each in effects if isinstance(each, Persist)]
        assert len(sent) + len(kept) == 1
        return bool(kept)

    assert is_kept(published_after(5, StoredAck(0, 0)))
    assert is_kept(published_after(5))  # the same life
    assert not is_kept(published_after(6))
    assert is_kept(published_after(7, StoredAck(0, 0)))


def test_what_was_stored_for_a_client_that_has_gone_is_not_handed_over_to_it_when_it_is_back() -> None:
    """Both its lives want events while nothing is safe yet; the numbers of the second begin anew."""
    broker, at_once = storing("subscriptions", c="client", p="client"), 5
    written: list[Persist] = []

    def said(sender: str, *messages: Message) -> None:
        effects = broker.receive(sender, messages, at_once)
        written.extend(each for each in effects if isinstance(each, Persist))

    def wants() -> tuple[Message, ...]:
        beat, wanted = Heartbeat(1, ((0, 0),) * 2, kind="client"), Delta("subscriptions", 1, ("n > 0",), ())
        return StoredAck(0, 0), beat, wanted

    said("c", *wants())
    said("p", *(Publish(Publication("p", n, n, None, {"n": 1})) for n in (1, 2, 3)))
    said("c", Detach(), *wants()[1:], StoredAck(0, 0))
    said("p", Publish(Publication("p", 4, 4, None, {"n": 1})))
    handed: list[Handover] = []
    for each in written:
        effects = broker.handle(Persisted(each.token), at_once)
        handed += [one.message for one in effects if isinstance(one, Send) and isinstance(one.message, Handover)]
    assert [(each.seq, each.publication.seq) for each in handed] == [(1, 4)]
    streams = [change.stream for each in written for change in each.changes if isinstance(change, Opened)]
    assert len(set(streams)) == len(streams) == 2  # also of one instant


def test_what_was_stored_of_one_stream_is_not_acknowledged_in_the_next() -> None:
    broker = storing("subscriptions", p="client")
    first = broker.receive("p", [Handover(7, n, 1, False, None) for n in (1, 2, 3)], 2)
    broker.receive("p", [Handover(8, 1, 1, False, None)], 3)
    (persist,) = [each for each in first if isinstance(each, Persist)]
    effects = broker.handle(Persisted(persist.token), 4)
    acks = [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, StoredAck)]
    assert all((each.stream, each.seq) in ((7, 3), (8, 0)) for each in acks)


@pytest.mark.parametrize(
    "message", [Delta("subscriptions", 2, ("n > 0",), ()), Snapshot("subscriptions", 2, ("n > 0",))]
)
def test_a_table_of_somebody_who_is_forgotten_is_that_of_a_stranger(message: Message) -> None:
    broker = storing("subscriptions", c="client")
    broker.handle(Received("c", Detach()), 2)
    assert Incident("unknown_neighbour", "c") in broker.handle(Received("c", message), 3)


def test_a_publisher_whose_clock_went_back_is_told_of() -> None:
    broker = storing("subscriptions", p="client")
    for stream, told in ((9, False), (8, True)):
        effects = broker.handle(Received("p", Handover(stream, 1, 1, False, None)), 2)
        assert (Incident("clock_went_back", "p") in effects) == told


def test_of_what_is_said_about_brokers_only_what_is_believed_is_stored() -> None:
    broker = storing("destinations", b1="broker", c="client")
    stored = []
    for sender, state in (
        ("b1", LinkState("b2", 1, 5, ("b1",), ())),
        ("b1", LinkState("b2", 1, 4, (), ())),  # overtaken by the one before
        ("b1", LinkState("b3", 1, 1, ("b1",), ("n = = 1",))),
        ("c", LinkState("b2", 1, 9, (), ())),
    ):
        persisted = [each for each in broker.handle(Received(sender, state), 2) if isinstance(each, Persist)]
        stored.append([each for persist in persisted for each in persist.changes if isinstance(each, Knows)])
    assert stored == [[Knows(LinkState("b2", 1, 5, ("b1",), ()))], [], [], []]
