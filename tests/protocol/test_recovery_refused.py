"""What came is not its publisher's: the publisher's own event is missing, whatever is stated of its number."""

from holdfast.model.messages import Batch, Publication, Publish
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.effects import Effect, Send
from holdfast.protocol.recovery import control
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.subscriber import Subscriber
from tests.protocol.recovering_pair import SECOND_US, channel

NOW_US = 1_000 * SECOND_US


class Desk:
    """A subscriber that has got the first event of `feed`, over a link that loses nothing."""

    def __init__(self) -> None:
        self._seen = Seen(1_000, 100)
        self.half = Subscriber(RecoverySettings(), self._seen, 0, channel("desk"))
        self.gets(1)
        self.hears(1, 1)

    def gets(self, seq: int) -> None:
        self._seen.first_time("feed", seq)
        self.half.on_event(Publication("feed", seq, NOW_US, None, {}, b"", b""), "original", NOW_US)

    def hears(self, since: int, upto: int) -> None:
        self.half.on_batch(Batch((), "feed", (), (), (), 0, since, upto), [], True, NOW_US)

    def refuses(self, seq: int) -> None:
        self.half.on_refused("feed", seq, "its signature is missing or wrong", NOW_US)


def asked_for(effects: list[Effect]) -> list[int]:
    sent = [
        each.message.publication for each in effects if isinstance(each, Send) and isinstance(each.message, Publish)
    ]
    said = [control.decode_untrusted(each) for each in sent if "~" in each.attributes]
    return [seq for each in said if isinstance(each, control.Request) for seq in control.numbers(each.wanted)]


def test_a_statement_behind_a_refused_event_does_not_stand_for_the_genuine_one() -> None:
    desk = Desk()
    desk.refuses(2)
    desk.hears(2, 2)
    assert desk.half.missing() == [("feed", 2, 2)]
    assert asked_for(desk.half.on_timer(NOW_US + SECOND_US)) == [2]


def test_what_was_refused_stays_missing_until_its_publishers_own_comes() -> None:
    desk = Desk()
    desk.refuses(3)
    desk.refuses(3)
    desk.hears(2, 5)
    assert desk.half.missing() == [("feed", 3, 3)]
    desk.gets(3)
    assert desk.half.missing() == []
    assert desk.half.settled


def test_what_is_missing_for_another_reason_is_settled_by_a_statement() -> None:
    desk = Desk()
    desk.hears(4, 4)  # 2 and 3 were not stated
    assert desk.half.missing() == [("feed", 2, 3)]
    desk.hears(2, 3)
    assert desk.half.missing() == []
