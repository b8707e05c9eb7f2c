"""What a publisher keeps and sends again: never more than fits, neither into its memory nor into a message."""

import pytest

from holdfast.model.limits import ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX, PAYLOAD_BYTES_MAX
from holdfast.model.messages import AttributeValue, Publication, Publish
from holdfast.protocol.effects import Send
from holdfast.protocol.records import BloomSettings, RecordSettings
from holdfast.protocol.recovery.control import Request
from holdfast.protocol.recovery.publisher import Publisher
from holdfast.protocol.recovery.settings import RecoverySettings
from tests.protocol.recovering_pair import SECOND_US, Pair, channel

_LARGE = ATTRIBUTES_BYTES_MAX - 100  # of a text, beside a number and the names


@pytest.mark.parametrize("offset_us", [0, 3_600 * SECOND_US, -900 * SECOND_US])
def test_clocks_that_differ_do_not_delay_the_request_for_a_lost_event(offset_us: int) -> None:
    pair = Pair(offset_us=offset_us)
    pair.publish({"n": 0})
    pair.go_on(5)
    pair.publish({"n": 1}, is_lost=True)
    pair.go_on(15)
    assert pair.delivered == [0, 1]


@pytest.mark.parametrize(
    "text", ["x" * _LARGE, "€" * (_LARGE // 3), "x" * (_LARGE // 2)], ids=["ascii", "euros", "half"]
)
def test_events_with_large_texts_are_repaired_in_messages_that_fit(text: str) -> None:
    pair = Pair()
    pair.publish({"n": 0})
    pair.go_on(5)
    for n in (1, 2, 3):
        pair.publish({"n": n, "text": text}, is_lost=True)
    pair.go_on(15)
    assert sorted(map(int, map(str, pair.delivered))) == [0, 1, 2, 3]


def test_the_largest_event_fits_into_a_repair_for_one_when_it_is_too_wide_for_one_to_all() -> None:
    pair = Pair()
    pair.publish({"n": 0})
    pair.go_on(5)
    wide: dict[str, AttributeValue] = {"n": 1, **{f"a{at}": at for at in range(ATTRIBUTES_MAX - 1)}}
    pair.publish(wide, b"x" * PAYLOAD_BYTES_MAX, is_lost=True)
    pair.go_on(15)
    assert pair.delivered == [0, 1]
    assert pair.lost == []


def test_texts_count_among_the_bytes_that_a_publisher_keeps() -> None:
    pair = Pair()
    for n in range(240):
        pair.publish({"n": n, "text": "x" * _LARGE})
    kept, limit = pair.feed.gauges()["publications kept"][0], pair.feed.gauges()["bytes kept"][1]
    assert kept * _LARGE <= limit


def test_what_is_told_fits_a_datagram_however_much_there_is_to_tell() -> None:
    wide = RecordSettings(BloomSettings(2_048), delta=False)  # 256 bytes for each event
    feed = Publisher("feed", 1, RecoverySettings(records=wide), 1, channel("feed"))
    for seq in range(1, 301):
        feed.on_published(Publication("feed", seq, seq, None, {"n": seq}), seq)
    told = feed.on_request("desk", Request((), ((1, 300),), True), 400) + feed.on_timer(5 * SECOND_US)
    sent = [each.message for each in told if isinstance(each, Send)]
    sizes = [len(each.publication.payload) for each in sent if isinstance(each, Publish)]
    assert len(sizes) == 2
    assert min(sizes) > 40_000
    assert max(sizes) < 60_000
