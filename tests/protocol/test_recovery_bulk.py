"""What a subscriber asks for when it has missed thousands of events, and how often."""

from holdfast.language.parser import parse
from holdfast.model.messages import Batch, Publication, Publish
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.effects import Effect, Lost, Send
from holdfast.protocol.recovery.control import (
    CONTROL_SEQ,
    OF,
    Digest,
    Repair,
    Repaired,
    Request,
    decode_untrusted,
    labels,
    numbers,
)
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.subscriber import Subscriber
from tests.protocol.recovering_pair import SECOND_US, channel

FEED, EPOCH = "feed", 7
START_US = 1_000 * SECOND_US


class Desk:
    """A subscriber that has got the events 1,001 to 1,300 with statements, and learns that there are 5,000."""

    def __init__(self, for_us: int, told_to: int = 5_000) -> None:
        self.machine = Subscriber(RecoverySettings(), Seen(100_000, 100), 0, channel("desk"))
        self.machine.on_subscriptions([(0, parse("n >= 0"))])
        self.now_us = START_US
        seqs = tuple(range(1_301 - for_us, 1_301))
        self._hear(Batch(seqs, FEED, (START_US,) * for_us, ({"n": 1},) * for_us, (), 0, 1_001, 1_300))
        said = Publication(FEED, CONTROL_SEQ, START_US, None, {OF: FEED})
        self.machine.on_digest(said, Digest(EPOCH, told_to, 1, b""), START_US)

    def _hear(self, batch: Batch) -> None:
        self.machine.on_batch(batch, batch.seqs, True, self.now_us)

    def asks(self, after_us: int) -> Request:
        """All that it asks for by then, in one."""
        self.now_us += after_us
        requests = [
            control
            for each in self.machine.on_timer(self.now_us)
            if (control := _control_in(each)) is not None and isinstance(control, Request)
        ]
        wanted = [seq for each in requests for seq in numbers(each.wanted)]
        return Request(tuple(wanted), tuple(one for each in requests for one in each.unannounced))

    def repair(self, seqs: range) -> None:
        repaired = tuple(Repaired(seq, START_US, None, {"n": 1}, b"") for seq in seqs)
        said = Publication(FEED, CONTROL_SEQ, self.now_us, None, labels(Repair(), ("desk",)), b"")
        for each in self.machine.on_repair(said, Repair(repaired))[1]:
            self.machine.on_repaired(each, self.now_us)

    @property
    def looks_for(self) -> list[tuple[int, int]]:
        return [(first, last) for _, first, last in self.machine.missing() if first > 1_000]


def _control_in(effect: Effect) -> object:
    if isinstance(effect, Send) and isinstance(effect.message, Publish) and effect.message.publication.payload:
        return decode_untrusted(effect.message.publication)
    return None


def test_who_wants_most_of_a_publisher_asks_for_its_events_without_a_list_of_them_first() -> None:
    asked = Desk(for_us=300).asks(0)
    assert asked.wanted == tuple(range(1_301, 5_001))
    assert all(last <= 1_000 for _, last in asked.unannounced)  # of before it came: what of it is ours, a list tells


def test_who_wants_few_events_of_a_publisher_asks_for_the_list() -> None:
    asked = Desk(for_us=30).asks(0)
    assert not asked.wanted
    assert (1_301, 3_348) in asked.unannounced


def test_a_number_that_no_digest_has_told_of_may_be_of_another_life_and_is_not_asked_for() -> None:
    desk = Desk(for_us=300, told_to=1_300)
    desk._hear(Batch((9_000,), FEED, (START_US,), ({"n": 1},), (), 0, 9_000, 9_000))
    assert not desk.asks(0).wanted


def test_what_was_asked_for_is_not_asked_for_again_while_earlier_requests_are_being_answered() -> None:
    desk = Desk(for_us=300)
    desk.asks(0)
    desk.now_us += SECOND_US
    desk.repair(range(1_301, 1_801))
    assert not desk.asks(SECOND_US).wanted  # as long again as the others took
    assert desk.asks(5 * SECOND_US).wanted == tuple(range(1_801, 5_001))  # nothing more has come


def test_a_hole_in_the_answers_is_asked_for_again_at_the_usual_pace() -> None:
    desk = Desk(for_us=300)
    desk.asks(0)
    desk.now_us += SECOND_US
    desk.repair(range(1_301, 1_801))
    desk.repair(range(2_001, 2_101))
    assert desk.asks(SECOND_US).wanted == tuple(range(1_801, 2_001))


def test_the_next_thousands_are_asked_for_before_the_last_have_come() -> None:
    desk = Desk(for_us=300, told_to=30_000)
    first = desk.asks(0).wanted
    desk.now_us += 100_000
    desk.repair(range(1_301, 1_301 + len(first) // 2))
    assert desk.asks(0).wanted == tuple(range(1_301 + len(first), 1_301 + len(first) + len(first) // 2))


def test_what_a_keeper_vouches_for_and_does_not_send_is_not_looked_for_any_longer() -> None:
    desk = Desk(for_us=200)
    assert len(desk.asks(0).wanted) == 3_700
    desk._hear(Batch((1_301, 1_305), FEED, (START_US,) * 2, ({"n": 1},) * 2, (), 0, 1_301, 4_000))
    assert desk.looks_for == [(4_001, 5_000)]


def test_what_a_digest_had_told_of_is_named_when_the_publisher_begins_anew() -> None:
    """The list of it was asked for, and not answered."""
    desk = Desk(for_us=30)
    desk.asks(0)
    said = Publication(FEED, CONTROL_SEQ, START_US, None, {OF: FEED})
    effects = desk.machine.on_digest(said, Digest(EPOCH + 1, 90_010, 90_001, b""), START_US)
    assert [(each.first, each.last) for each in effects if isinstance(each, Lost)] == [(1_301, 5_000)]
