"""Messages survive the wire exactly, and their bytes do not change from one release to the next."""

import math
import struct
from datetime import UTC, datetime, timedelta, timezone
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import InputError
from holdfast.model.messages import (
    AttributeValue,
    Batch,
    Deliver,
    Gossip,
    GossipEvent,
    Handover,
    Message,
    Numbered,
    Publication,
    Publish,
    Stamp,
    Stamped,
    StoredAck,
    with_skew,
)
from holdfast.wire.codec import (
    decode_frame_untrusted,
    decode_untrusted,
    encode,
    encode_message,
    framed,
    is_event,
    size_of,
)
from holdfast.wire.event_encoding import sendable, sendable_payload
from holdfast.wire.signals import Signal, Welcome, decode_signal_untrusted, encode_signal
from tests.wire.golden import MESSAGES, SIGNALS


@pytest.mark.parametrize(("frame", "message"), MESSAGES, ids=lambda each: type(each).__name__)
def test_a_message_has_the_bytes_it_always_had(frame: str, message: Message) -> None:
    assert encode(message).hex() == frame.replace(" ", "")
    assert decode_untrusted(bytes.fromhex(frame)) == message
    assert size_of(message) == len(bytes.fromhex(frame))


@pytest.mark.parametrize("skew_us", [-3_600_000_000, 5])
@pytest.mark.parametrize("attributes", [{"n": 1}, {"at": datetime(2026, 1, 1, tzinfo=UTC)}], ids=["n", "timestamp"])
def test_a_skew_travels_behind_all_that_older_versions_know(
    skew_us: int, attributes: dict[str, AttributeValue]
) -> None:
    plain = Publication("p", 1, 7, 9, attributes)
    for wrap in (Publish, Deliver, lambda each: Handover(1, 2, 1, False, Publish(each))):
        message = wrap(with_skew(plain, skew_us))
        frame = encode(message)
        assert decode_untrusted(frame) == message
        assert encode_message(plain)[1:] in frame  # the same fields, in a longer list
        assert encode(wrap(with_skew(with_skew(plain, skew_us), 0))) == encode(wrap(plain))


@pytest.mark.parametrize(("frame", "signal"), SIGNALS, ids=lambda each: type(each).__name__)
def test_a_signal_has_the_bytes_it_always_had(frame: str, signal: Signal) -> None:
    assert encode_signal(signal).hex() == frame.replace(" ", "")
    assert decode_signal_untrusted(bytes.fromhex(frame)) == signal


def test_what_peers_said_before_they_could_say_more_is_understood() -> None:
    welcome = bytes.fromhex("01 01 94 a777656c636f6d65 a26232 a662726f6b6572 06")
    assert decode_signal_untrusted(welcome) == Welcome("b2", "broker", 6, None)
    taken = bytes.fromhex("01 00 91 94 a3746b6e 05 09 91 0b")
    assert decode_untrusted(taken) == StoredAck(5, 9, (11,), 0, 0)
    batch = bytes.fromhex("01 00 91 99 a372756e 91 01 a170 91 00 91 80 90 03 01 00")
    assert decode_untrusted(batch) == Batch((1,), "p", (0,), ({},), (), 3, 1, 0, b"")


def sent(value: Any) -> Any:
    """A value after its journey."""
    message = Publish(Publication("p", 1, 0, None, sendable({"a": value})))
    arrived = decode_untrusted(encode(message))
    assert isinstance(arrived, Publish)
    return arrived.publication.attributes["a"]


@pytest.mark.parametrize(
    "value",
    [0, 1, -1, 127, 128, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**31) - 1, -(2**53) - 1, -(2**63)],
)
def test_integers_of_both_64_bit_ranges_stay_integers(value: int) -> None:
    assert sent(value) == value
    assert type(sent(value)) is int


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 120.0, 2.0**53, 1e19, 5e-324, math.inf, -math.inf, math.nan, 0.1])
def test_doubles_stay_doubles_to_the_bit(value: float) -> None:
    assert type(sent(value)) is float
    assert struct.pack(">d", sent(value)) == struct.pack(">d", value)


def test_true_is_not_one_and_the_string_120_is_not_a_number() -> None:
    assert sent(True) is True
    assert sent(False) is False
    assert sent("120") == "120"
    assert sent(None) is None


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2020, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ],
)
def test_timestamps_keep_their_microseconds(moment: datetime) -> None:
    assert sent(moment) == moment
    assert sent(moment).tzinfo == UTC


def test_a_timestamp_of_another_zone_is_the_same_moment_and_one_of_none_is_utc() -> None:
    there = datetime(2020, 1, 1, 1, 0, tzinfo=timezone(timedelta(hours=2)))
    assert sent(there) == datetime(2019, 12, 31, 23, 0, tzinfo=UTC)
    assert sent(datetime(2020, 1, 1)) == datetime(2020, 1, 1, tzinfo=UTC)


values = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text()
    | st.datetimes(timezones=st.just(UTC))
)
publications = st.builds(
    Publication,
    source=st.text(min_size=1, max_size=20),
    seq=st.integers(0, 2**62),
    time_us=st.integers(0, 2**62),
    lifetime_us=st.none() | st.integers(0, 2**62),
    attributes=st.dictionaries(st.text(max_size=20), values, max_size=20),
    payload=st.binary(max_size=300),
)
vias = st.sampled_from(["original", "repair", "gossip", "retransmission", "multipath", "replica"])
hops = st.integers(0, 2**16)
published = st.builds(Publish, publications, st.lists(st.text(min_size=1), max_size=40).map(tuple), hops, vias)
numbers = st.integers(0, 2**62)
names = st.lists(st.text(min_size=1, max_size=20), max_size=40).map(tuple)
tags = st.integers(0, 2**32 - 1)
places = st.lists(st.tuples(tags, numbers, numbers), max_size=20).map(tuple)
stamps = st.builds(Stamp, st.text(min_size=1, max_size=20), numbers, places)
stamped = st.builds(Stamped, publications, stamps, names, names, hops, vias)
delivered = st.builds(Deliver, publications, vias)
numbered = st.builds(Numbered, numbers, numbers, st.booleans(), published | stamped | delivered)
gossiped = st.builds(GossipEvent, publications, st.none() | stamps, names)
handed = st.builds(Handover, numbers, numbers, numbers, st.booleans(), published | delivered | st.none())
events = published | delivered | numbered | stamped | gossiped | handed


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    each = draw(st.lists(publications, min_size=1, max_size=20))
    payloads = tuple(one.payload for one in each) if draw(st.booleans()) else ()
    seqs, times_us = tuple(one.seq for one in each), tuple(one.time_us for one in each)
    return Batch(seqs, each[0].source, times_us, tuple(one.attributes for one in each), payloads, draw(hops))


def same(one: Any, other: Any) -> bool:
    """Equal, of one type, and NaN equals NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack(">d", one) == struct.pack(">d", other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Publish | Deliver | Batch | Numbered | Handover | Publication | Stamped | GossipEvent):
        return all(same(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__)
    return bool(one == other)


@given(events | batches())
def test_any_event_survives(message: Message) -> None:
    frame = encode(message)
    assert same(decode_untrusted(frame), message)
    assert size_of(message) == len(frame)
    assert is_event(encode_message(message))


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 65_535, 65_536])
def test_a_frame_holds_any_number_of_messages_in_order(count: int) -> None:
    messages = [message for _, (_, message) in zip(range(count), cycle(MESSAGES), strict=False)]
    assert decode_frame_untrusted(framed([encode_message(each) for each in messages])) == messages


def test_only_publications_and_what_recovers_them_count_as_events() -> None:
    events = Publish | Deliver | Batch | Numbered | Handover | Stamped | Gossip
    for _, message in MESSAGES:
        assert is_event(encode_message(message)) == isinstance(message, events)


@pytest.mark.parametrize(
    "found",
    [
        [],
        [None],
        ["a", "", None, "a"],
        [1, -1.5, 2**53, float("inf")],
        [2**64 - 1, 0],
        [True, False],
        [datetime(2026, 1, 31, 9, 30, 0, 1, UTC), None],
    ],
    ids=repr,
)
def test_a_list_survives_alone_and_in_a_batch(found: list[Any]) -> None:
    event = sendable({"tags": found, "n": 1})
    for message in (
        Publish(Publication("p", 1, 0, None, event)),
        Batch((1, 2), "p", (0, 0), (event, {}), (), 0),
    ):
        again = decode_untrusted(encode(message))
        assert again == message
        got = again.publication.attributes if isinstance(again, Publish) else again.attributes[0]  # type: ignore[union-attr]
        assert list(map(type, got["tags"])) == list(map(type, found))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        ({"a": "\ud800"}, "'a'"),
        ({"\udfff": 1}, "udfff"),
        ({"a": 2**64}, "64 bits"),
        ({"a": [[1]]}, "list"),
        ({"a": [1, "x"]}, "one kind"),
        ({"a": ["x", "\ud800"]}, "'a'"),
        ({"a": [0] * 257}, "the limit is 256"),
        ({"a": object()}, "object"),
        ({1: 1}, "1"),
        ({"x" * 256: 1}, "256 characters"),
        ({f"a{n}": n for n in range(257)}, "too many attributes: 257"),
    ],
)
def test_an_event_that_would_not_survive_is_refused_where_it_is_published(event: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        sendable(event)


def test_what_is_sent_does_not_change_with_the_map_it_came_from() -> None:
    event: dict[str, object] = {"a": 1}
    kept = sendable(event)
    event["a"] = 2
    assert kept == {"a": 1}


def test_a_payload_is_bytes_and_of_bounded_size() -> None:
    assert sendable_payload(bytearray(b"ab")) == b"ab"
    with pytest.raises(InputError, match="must be bytes, not str"):
        sendable_payload("ab")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="1048577 bytes"):
        sendable_payload(bytes(2**20 + 1))


def test_encoding_refuses_a_timestamp_without_a_zone_rather_than_send_it_as_a_string() -> None:
    with pytest.raises(InputError, match="time zone"):
        encode(Publish(Publication("p", 1, 0, None, {"t": datetime(2020, 1, 1)})))
