"""Bytes from outside: whatever they are, the answer is a message or a PeerError, and nothing is kept."""

import tracemalloc
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import limits
from holdfast.model.errors import PeerError
from holdfast.model.messages import Batch, Delta
from holdfast.net.counters import Counters
from holdfast.net.outbox import Outbox
from holdfast.net.tcp import FRAME_AIM
from holdfast.wire.codec import (
    check_together_untrusted,
    decode_frame_untrusted,
    decode_untrusted,
    encode,
    encode_message,
    framed,
)
from holdfast.wire.signals import decode_signal_untrusted, encode_signal
from tests.wire.golden import MESSAGES, SIGNALS

FRAMES = [bytes.fromhex(frame) for frame, _ in (*MESSAGES, *SIGNALS)]


def frame_of(message: object) -> bytes:
    """Any nonsense, well formed."""
    return b"\x01\x00" + msgspec.msgpack.encode([message])


def publish(attributes: Any, **other: Any) -> bytes:
    fields = {"source": "p", "seq": 1, "time_us": 0, "lifetime_us": None, "attributes": attributes, "payload": b""}
    return frame_of(["pub", list({**fields, **other}.values()), [], 0, "original"])


def run(**other: Any) -> bytes:
    fields = {"seqs": [1, 2], "source": "p", "times_us": [0, 0], "attributes": [{}, {}], "payloads": [], "hops": 0}
    return frame_of(["run", *{**fields, **other}.values()])


def batch(count: int, size: int) -> Batch:
    """So many events of so many bytes together."""
    attributes: Any = tuple([{"t": "x" * (size // count)} for _ in range(count)])
    return Batch(tuple(range(1, count + 1)), "p", (0,) * count, attributes, (), 0)


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (framed([encode_message(Delta("subscriptions", 1, (), ()))] * 4_000), "several messages in a frame of 8"),
        (framed([encode_message(batch(1, 40_000))] * 2), "several messages in a frame of 80"),
        (framed([encode_message(batch(2, limits.BATCH_BYTES_MAX))]), "several events in a frame of 131"),
        (framed([encode_message(batch(200, limits.BATCH_BYTES_MAX))]), "several events"),
        (run(seqs=[0] * 140_000), "several events"),
        (b"\x01\x00\x91\x9a\xd9\x03run" + b"\xc0" * limits.BATCH_BYTES_MAX, "begins with no message"),
        (b"\x01\x00\xdd\0\0\0\1" + b"\xc0" * limits.MESSAGES_BYTES_MAX, "several messages"),
    ],
    ids=["changes", "batches", "two events", "events", "odd batch", "odd tag", "odd array"],
)
def test_a_frame_of_more_than_nodes_put_into_one_is_refused(frame: bytes, complaint: str) -> None:
    with pytest.raises(PeerError, match=complaint):
        check_together_untrusted(frame)


def test_a_large_frame_of_one_message_is_taken() -> None:
    conditions = tuple([f"x = {number}" for number in range(50_000)])
    for message in (batch(1, limits.BATCH_BYTES_MAX), batch(400, 100_000), Delta("subscriptions", 1, conditions, ())):
        check_together_untrusted(framed([encode_message(message)]))
    counters = Counters()
    for size in (1, 20, 300):
        box = Outbox(FRAME_AIM, limits.FRAME_BYTES_MAX, counters)
        box.put_all([encode_message(batch(1, size))] * 10_000)
        while (frame := box.next_frame()) is not None:
            check_together_untrusted(frame)


@pytest.mark.parametrize("frame", FRAMES, ids=range(len(FRAMES)))
def test_a_truncated_frame_is_refused_at_every_length(frame: bytes) -> None:
    decode = decode_untrusted if frame[1] == 0 else decode_signal_untrusted
    for length in range(len(frame)):
        with pytest.raises(PeerError):
            decode(frame[:length])


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (b"", "0 bytes"),
        (b"\x02" + FRAMES[0][1:], "version 2; this is version 1"),
        (b"\x01\x01" + FRAMES[0][2:], "received 1"),
        (FRAMES[0] + b"\x00", "trailing"),
        (b"\x01\x00\x90", "received 0"),
        (b"\x01\x00\x92" + FRAMES[0][3:] + FRAMES[0][3:], "received 2"),
        (b"\x01\x00" + b"\x91" * 100_000, "recursion|Expected"),
        (frame_of(["pub"]), "length"),
        (frame_of(["nonsense"]), "nonsense"),
        (frame_of({"pub": 1}), "Expected"),
        (frame_of(7), "Expected"),
        (publish({"a": [[1]]}), "neither a scalar nor a list"),
        (publish({"a": {"b": 1}}), "neither a scalar nor a list"),
        (publish({"a": b"bytes"}), "neither a scalar nor a list"),
        (publish({"a": msgspec.msgpack.Ext(5, b"x")}), "neither a scalar nor a list"),
        (publish({1: 1}), "Expected `str`"),
        (publish([]), "Expected `object`"),
        (publish({}, source=""), "length >= 1"),
        (publish({}, source="x" * 256), "length <= 255"),
        (publish({}, seq=1.0), "Expected `int`"),
        (publish({}, seq=-1), ">= 0"),
        (publish({}, seq=2**63), "<= 4611686018427387904"),
        (publish({}, time_us=2**62 + 1), "<="),
        (publish({}, payload="text"), "Expected `bytes`"),
        (
            publish({}, payload=bytes(limits.PAYLOAD_BYTES_MAX + 1)),
            "payload too large: 1048577 bytes",
        ),
        (publish({f"a{n}": n for n in range(limits.ATTRIBUTES_MAX + 1)}), "length <= 256"),
        (publish({"x" * 256: 1}), "255 characters"),
        (frame_of(["run", [1], "p", [0], [{}], []]), "length"),
        (run(seqs=[]), "lists of different lengths"),
        (run(seqs=[1] * (limits.BATCH_EVENTS_MAX + 1)), "length <= 4096"),
        (run(seqs=[1, -1]), ">= 0"),
        (run(seqs=[1]), "different lengths"),
        (run(times_us=[0]), "different lengths"),
        (run(attributes=[{}] * 3), "different lengths"),
        (run(payloads=[b""]), "different lengths"),
        (
            run(payloads=[b"", bytes(limits.PAYLOAD_BYTES_MAX + 1)]),
            "payload too large: 1048577 bytes",
        ),
        (publish({"a": [b"bytes"]}), "neither a scalar nor a list"),
        (publish({"a": [0] * 257}), "neither a scalar nor a list"),
        (run(attributes=[{}, {"a": [{}]}]), "neither a scalar nor a list"),
        (run(attributes=[{}, {"x" * 256: 1}]), "255 characters"),
        (run(attributes=[{}, {f"a{n}": n for n in range(limits.ATTRIBUTES_MAX + 1)}]), "length <= 256"),
        (run(source=""), "length >= 1"),
        (run(hops=2**16 + 1), "<="),
        (frame_of(["tel", "nonsense", 1, [], []]), "nonsense"),
        (frame_of(["tel", "subscriptions", 1, ["x" * 65_537], []]), "length <= 65536"),
        (frame_of(["all", "subscriptions", 1, ["a"] * (limits.CONDITIONS_MAX + 1)]), "length <= 200000"),
        (frame_of(["sum", 1, [[0, 0]] * 9]), "length <= 8"),
        (frame_of(["sum", 1, [[0, -1]]]), ">= 0"),
        (b"\x01\x00" + bytes(limits.FRAME_BYTES_MAX), "16777218 bytes"),
        (b"\x01\x00\xdd\xff\xff\xff\xff", "truncated"),
        (b"\x01\x00\x91\x95\xa3pub\x96\xa1\xff", "utf-8"),
    ],
    ids=lambda given: given if type(given) is str else f"{len(given)} bytes",  # not the bytes: one frame has 16 MiB
)
def test_what_is_wrong_with_a_frame_is_said(frame: bytes, complaint: str) -> None:
    with pytest.raises(PeerError, match=complaint):
        decode_untrusted(frame)


def test_the_limits_themselves_are_allowed() -> None:
    decode_untrusted(publish({f"a{n}": n for n in range(limits.ATTRIBUTES_MAX)}))
    decode_untrusted(publish({"x" * limits.NAME_CHARACTERS_MAX: 1}, payload=bytes(limits.PAYLOAD_BYTES_MAX)))


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_and_nothing_else_is_raised(data: bytes) -> None:
    for frame in (
        data,
        b"\x01\x00" + data,
        b"\x01\x01" + data,
        b"\x01\x00\x91\x95\xa3pub" + data,
        b"\x01\x00\x91\x97\xa3run" + data,
    ):
        for decode in (decode_untrusted, decode_signal_untrusted):
            try:
                decode(frame)
            except PeerError:
                continue


def mutilated(rng: Random) -> Iterator[bytes]:
    """Frames that were good once: bytes flipped, cut out, put in, doubled or glued together."""
    while True:
        frame = bytearray(rng.choice(FRAMES))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(frame) or 1)
            match rng.randrange(5):
                case 0 if frame:
                    frame[at] ^= 1 << rng.randrange(8)
                case 1 if frame:
                    frame[at] = rng.randrange(256)
                case 2:
                    del frame[at : at + rng.randint(1, 8)]
                case 3:
                    frame[at:at] = rng.randbytes(rng.randint(1, 8))
                case _:
                    frame[at:at] = rng.choice(FRAMES)[rng.randrange(8) :]
        yield bytes(frame)


def feed(frames: int, seed: int) -> int:
    """How many were refused; anything but a PeerError escapes."""
    refused = 0
    for _, frame in zip(range(frames), mutilated(Random(seed)), strict=False):
        try:
            for message in decode_frame_untrusted(frame):
                encode(message)  # what is taken in can be sent on
            decode_signal_untrusted(frame)
        except PeerError:
            refused += 1
    return refused


def test_mutilated_frames_are_refused_or_understood() -> None:
    assert feed(5_000, seed=1) > 4_000


@pytest.mark.slow
def test_the_decoder_does_not_grow_however_much_nonsense_it_is_fed() -> None:
    feed(20_000, seed=2)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    feed(250_000, seed=3)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 2**20


def test_every_signal_survives_encoding() -> None:
    for _, signal in SIGNALS:
        assert decode_signal_untrusted(encode_signal(signal)) == signal
