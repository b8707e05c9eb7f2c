"""What a publisher keeps and sends again: never more than fits, neither into its memory nor into a message."""

import pytest

from holdfast.model.limits import ATTRIBUTES_MAX, PAYLOAD_BYTES_MAX
from holdfast.model.messages import Scalar
from tests.protocol.recovering_pair import SECOND_US, Pair


@pytest.mark.parametrize("offset_us", [0, 3_600 * SECOND_US, -900 * SECOND_US])
def test_clocks_that_differ_do_not_delay_the_request_for_a_lost_event(offset_us: int) -> None:
    pair = Pair(offset_us=offset_us)
    pair.publish({"n": 0})
    pair.go_on(5)
    pair.publish({"n": 1}, is_lost=True)
    pair.go_on(15)
    assert pair.delivered == [0, 1]


@pytest.mark.parametrize(
    "text", ["x" * 2 * PAYLOAD_BYTES_MAX, "€" * (PAYLOAD_BYTES_MAX // 3), "x" * 400_000], ids=["ascii", "euros", "half"]
)
def test_events_with_large_texts_are_repaired_in_messages_that_fit(text: str) -> None:
    pair = Pair()
    pair.publish({"n": 0})
    pair.go_on(5)
    for n in (1, 2, 3):
        pair.publish({"n": n, "text": text}, is_lost=True)
    pair.go_on(15)
    assert sorted(map(int, map(str, pair.delivered))) == [0, 1, 2, 3]


def test_what_is_too_large_for_any_repair_is_told_as_lost() -> None:
    pair = Pair()
    pair.publish({"n": 0})
    pair.go_on(5)
    wide: dict[str, Scalar] = {"n": 1, **{f"a{at}": at for at in range(ATTRIBUTES_MAX - 1)}}
    pair.publish(wide, b"x" * PAYLOAD_BYTES_MAX, is_lost=True)
    pair.go_on(15)
    assert pair.delivered == [0]
    assert pair.lost == [(2, 2)]


def test_texts_count_among_the_bytes_that_a_publisher_keeps() -> None:
    pair = Pair()
    for n in range(60):
        pair.publish({"n": n, "text": "x" * PAYLOAD_BYTES_MAX})
    kept, limit = pair.feed.gauges()["publications kept"][0], pair.feed.gauges()["bytes kept"][1]
    assert kept * PAYLOAD_BYTES_MAX <= limit
