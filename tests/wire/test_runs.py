"""Many events as one message: written as they come, counted, cut and sent on without being decoded."""

import msgspec
import pytest
from msgspec import Raw

from holdfast.model.messages import Batch, Message, Publication, with_statement
from holdfast.wire import batch_writer
from holdfast.wire.batch_writer import Relay
from holdfast.wire.codec import (
    count_in,
    decode_frame_untrusted,
    encode_message,
    framed,
    shortened,
)
from tests.wire.golden import MESSAGES, MOMENT


def run_of(count: int, payload: bytes = b"") -> Batch:
    attributes = tuple({"n": n, "t": MOMENT} for n in range(count))
    payloads = (payload,) * count if payload else ()
    return Batch(tuple(range(5, 5 + count)), "p", (7,) * count, attributes, payloads, 0)


def decoded(encoded: bytes) -> Message:
    (message,) = decode_frame_untrusted(framed([encoded]))
    return message


@pytest.mark.parametrize("payload", [b"", b"x"])
@pytest.mark.parametrize("count", [1, 15, 16, 4_096])
def test_what_is_written_event_by_event_is_the_run(count: int, payload: bytes) -> None:
    batch = run_of(count, payload)
    assert decoded(written(batch)) == batch


def test_a_run_is_what_its_publications_are() -> None:
    batch = Batch((1, 3), "p", (10, 20), ({"n": 1}, {"n": 3}), (b"", b"x"), 2)
    publications = [Publication("p", 1, 10, None, {"n": 1}), Publication("p", 3, 20, None, {"n": 3}, b"x")]
    assert batch.publications() == publications
    assert [(each.publication, each.homes, each.hops, each.via) for each in batch.published()] == [
        (each, (), 2, "original") for each in publications
    ]
    assert [(each.publication, each.via) for each in batch.delivered()] == [(each, "original") for each in publications]
    assert batch.picked([1]).publications() == publications[1:]


@pytest.mark.parametrize("count", [1, 15, 16, 255, 256, 4_096])
def test_the_events_of_an_encoded_run_can_be_counted(count: int) -> None:
    assert count_in(encode_message(run_of(count))) == count


def test_any_other_message_is_one() -> None:
    assert all(count_in(encode_message(each)) == 1 for _, each in MESSAGES if not isinstance(each, Batch))


@pytest.mark.parametrize("payload", [b"", b"x" * 100], ids=["small", "large"])
def test_a_run_loses_its_oldest_events_first_and_no_more_than_it_has_to(payload: bytes) -> None:
    batch = run_of(200, payload)
    encoded = encode_message(batch)
    for less in (1, 50, len(encoded) // 3, len(encoded) // 2):
        kept = decoded(shortened(encoded, less))
        assert isinstance(kept, Batch)
        lost = 200 - len(kept.seqs)
        assert kept == batch.picked(range(lost, 200))
        assert 0 <= lost - less * 200 / len(encoded) < 1


def test_of_a_run_that_is_too_long_as_a_whole_and_of_a_single_event_nothing_is_left() -> None:
    encoded = encode_message(run_of(3))
    assert shortened(encoded, len(encoded) - 1) == b""
    assert shortened(encoded, len(encoded)) == b""
    assert shortened(encode_message(MESSAGES[0][1]), 1) == b""


def written(batch: Batch) -> bytes:
    """As its publisher writes it, from attributes that are encoded already."""
    attributes = Raw(encode_message(batch.attributes))
    return Relay().encoded(msgspec.structs.replace(batch, attributes=attributes))


@pytest.mark.parametrize("written_by", [written, encode_message])
def test_a_run_is_passed_on_with_other_hops_and_another_statement_but_the_same_events(written_by: object) -> None:
    frame = framed([written_by(run_of(20, b"x"))])  # type: ignore[operator]
    messages = decode_frame_untrusted(frame)
    (came,) = messages
    assert isinstance(came, Batch)
    relay = Relay(messages, memoryview(frame))
    for passed in (with_statement(came, 3, 2, 24), with_statement(came, 0, 0, 0), came.picked([1, 7])):
        assert decoded(relay.encoded(passed)) == passed


def test_what_came_is_not_encoded_again_whatever_came_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    other = encode_message(MESSAGES[0][1])
    frame = framed([written(run_of(1)), other, written(run_of(20, b"x")), written(run_of(0))])
    messages = decode_frame_untrusted(frame)
    relay, again = Relay(messages, memoryview(frame)), list[object]()
    monkeypatch.setattr(batch_writer, "encode_message", lambda each: again.append(each) or encode_message(each))
    for came in (messages[0], messages[2]):
        assert isinstance(came, Batch)
        for places in ([0], list(range(0, len(came.seqs), 2))):
            picked = with_statement(came.picked(places), 1, 3, 30)
            assert decoded(relay.encoded(picked, came, places)) == decoded(relay.encoded(picked)) == picked
        assert decoded(relay.encoded(with_statement(came, 2, 3, 9))) == with_statement(came, 2, 3, 9)
    assert not any(isinstance(each, dict) for each in again)
    stated = Batch((), "q", (), (), (), 1, 2, 3)  # of another source than the empty one that came
    assert decoded(relay.encoded(stated)) == stated


def test_a_frame_of_which_messages_were_left_out_is_passed_on_right() -> None:
    frame = framed([written(run_of(2)), written(run_of(3, b"x"))])
    left = decode_frame_untrusted(frame)[1:]
    (came,) = left
    assert isinstance(came, Batch)
    assert decoded(Relay(left, frame).encoded(came)) == came
    assert decoded(Relay(left, frame).encoded(came.picked([1, 2]), came, [1, 2])) == came.picked([1, 2])


def test_a_foreign_frame_is_passed_on_as_what_it_says() -> None:
    fields = ["run", [1], "p", [0], [{"n": 7}], [], 0]
    odd_tag = b"\x97\xd9\x03run" + b"".join(map(msgspec.msgpack.encode, fields[1:]))
    odd_count = b"\x97\xa3run\xdd\0\0\0\x01\x01" + b"".join(map(msgspec.msgpack.encode, fields[2:]))
    longer = msgspec.msgpack.encode([*fields, 0, 0, b"", "more"])
    two = [written(run_of(2)), written(run_of(3))]
    for frame in (framed([odd_tag]), framed([odd_count]), framed([longer]), framed(two)):
        messages = decode_frame_untrusted(frame)  # which is acceptable all the same
        for batch in messages:
            assert isinstance(batch, Batch)
            passed = with_statement(batch, 1, 4, 9)
            assert decoded(Relay(messages, frame).encoded(passed)) == passed


def test_a_run_that_lost_its_oldest_events_states_nothing_of_them() -> None:
    batch = with_statement(run_of(200), 0, 1, 210)
    kept = decoded(shortened(encode_message(batch), 300))
    assert isinstance(kept, Batch)
    assert kept.upto == 210
    assert kept.since == kept.seqs[0] > 5
