"""Records as bytes: what is written is read, in few bytes, and whatever else comes in is refused."""

import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from hashlib import blake2b
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.errors import PeerError
from holdfast.model.limits import RECORD_BYTES_MAX
from holdfast.protocol.records import (
    PAPER,
    BloomSettings,
    Codebook,
    ColumnSettings,
    RecordReader,
    RecordSettings,
    RecordWriter,
)
from holdfast.protocol.records.bits import BitReader, BitWriter
from holdfast.protocol.records.block import block_bytes, head_untrusted
from holdfast.protocol.records.codebook_bytes import BOOK_BYTES_MAX, book_untrusted
from holdfast.protocol.records.settings import ENTRIES_MAX
from tests.language.generators import Event, event, events
from tests.protocol.record_books import ENCODINGS, books

BLOOM = RecordSettings(BloomSettings(64))
COLUMNS = RecordSettings(ColumnSettings(8))


def written(settings: RecordSettings, several: list[Event], every_us: int = 10_000) -> RecordWriter:
    writer = RecordWriter(settings)
    for number, each in enumerate(several):
        writer.add(each, 1_000_000 + number * every_us)
    return writer


# What is written is read -----------------------------------------------------------------------------------------


@given(st.integers(0, 2**64 - 1), st.integers(0, 40), st.sets(st.integers(0, 299)), st.integers(0, 8))
def test_numbers_and_subsets_survive_as_bits(number: int, k: int, members: set[int], count_k: int) -> None:
    out = BitWriter()
    out.put(1, 1)
    out.rice(number, k)
    out.subset(sorted(members), 300, count_k)
    bits = BitReader(out.to_bytes())
    assert bits.take(1) == 1
    assert bits.rice(k) == number
    assert bits.subset(300, count_k) == sorted(members)
    bits.end()


@given(books(), st.lists(events(), min_size=2, max_size=6))
@settings(max_examples=150)
def test_an_entry_survives_as_a_change_of_any_other(book: Codebook, several: list[Event]) -> None:
    assert book_untrusted(book.to_bytes()).id == book.id
    before = book.reference
    for entry in map(book.entry, several):
        change = book.change(entry, before)
        if change is not None:
            assert book.changed_untrusted(BitReader(change.to_bytes()), before) == entry
        before = entry


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=list(ENCODINGS))
@pytest.mark.parametrize(
    ("key_every", "delta", "unit_us"), [(16, True, 64), (0, True, 1), (3, True, 1_000), (16, False, 64)]
)
def test_a_record_is_read_as_it_was_written(
    encoding: BloomSettings | ColumnSettings, key_every: int, delta: bool, unit_us: int
) -> None:
    dice = Random(7)
    chosen = RecordSettings(encoding, delta=delta, key_every=key_every, time_unit_us=unit_us)
    writer, reader = RecordWriter(chosen, first_seq=100), RecordReader(chosen)
    published = []
    at_us = 10**12
    for seq in range(100, 170):
        at_us += dice.choice((0, 1, 63, 64, 5_000, 10**7, -3_000))  # a clock may be set back
        data = writer.record(10, seq, at_us, with_book=True)
        seen = list(reader.read_untrusted("p", data, seq, at_us))
        assert [(each.seq, each.departure_us) for each in seen] == [
            (number, left_us // unit_us * unit_us) for number, left_us, _ in published[-10:]
        ]
        assert [each.code for each in seen] == [writer.book.entry(attributes) for _, _, attributes in published[-10:]]
        attributes = event(dice)
        assert writer.add(attributes, at_us) == seq
        published.append((seq, at_us, attributes))


def test_a_digest_goes_back_to_the_number_asked_for() -> None:
    writer = written(COLUMNS, [{"price": n} for n in range(50)])
    data = writer.digest(41, seq=7_000, time_us=2_000_000, with_book=True)
    record = RecordReader(COLUMNS).read_untrusted("p", data, 7_000, 2_000_000)
    assert (record.first_seq, record.last_seq, len(record)) == (41, 50, 10)
    assert record.sighting(50).departure_us == (1_000_000 + 49 * 10_000) // 64 * 64
    assert record.book is writer.book


def test_the_same_publications_give_the_same_bytes_whatever_the_hash_seed() -> None:
    program = (
        "from holdfast.protocol.records import BloomSettings, ColumnSettings, RecordSettings, RecordWriter\n"
        "for encoding in (BloomSettings(), BloomSettings(64), ColumnSettings(), ColumnSettings(6, 'hashed')):\n"
        "    writer = RecordWriter(RecordSettings(encoding))\n"
        "    for n in range(70): writer.add({'a': n * 7 % 13, 'b': f'x{n % 5}', f'c{n % 11}': n / 3}, n * 1000)\n"
        "    print(writer.record(40, 71, 10**6, with_book=True).hex())\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] != b""


# The format ------------------------------------------------------------------------------------------------------


def test_the_bytes_of_a_record_do_not_change_unnoticed() -> None:
    """Golden: another version of this software reads them."""
    bloom = written(BLOOM, [{"a": 1}, {"a": 1}, {"a": "x"}]).record(3, 4, 1_030_000)
    assert bloom.hex() == GOLDEN_BLOOM
    columns = written(COLUMNS, [{"a": n % 2, "b": "x"} for n in range(4)]).record(3, 5, 1_040_000, with_book=True)
    assert columns.hex() == GOLDEN_COLUMNS


# Version and flags, the book's id; the book; one behind, three entries, 156 units ago, of 64 microseconds; k = 7;
# then the bits.
GOLDEN_BLOOM = "10 49d03387 01 03 b802 40 07 8e4704bc714007490be284".replace(" ", "")
GOLDEN_COLUMNS = (
    "11 89bfbd13 1b 000000 02 00 0161 06030001010000000001620603010101000178000103ba0240078e47140280".replace(" ", "")
)


def test_plain_entries_of_the_paper_take_32_bytes_each() -> None:
    dice = Random(5)
    writer = written(PAPER, [event(dice) for _ in range(40)])
    sizes = [len(writer.record(count, 41, 2_000_000)) for count in (10, 20)]
    assert sizes[1] - sizes[0] == pytest.approx(10 * (32 + 0.25 + 2), abs=5)  # 2 bits of form, 15 of time


def test_a_record_is_cut_to_the_bytes_that_are_allowed_and_keeps_the_latest() -> None:
    dice = Random(5)
    writer = written(COLUMNS, [event(dice) for _ in range(300)])
    is_snapshot = writer.record(300, 301, 9_000_000)
    for most in (len(is_snapshot), len(is_snapshot) - 1, 320, 40, 12):
        data = writer.record(300, 301, 9_000_000, bytes_max=most)
        assert len(data) <= most
        record = RecordReader(COLUMNS).read_untrusted("p", data, 301, 9_000_000)
        assert not len(record) or record.last_seq == 300
    assert writer.record(300, 301, 9_000_000, bytes_max=5) == writer.record(-1, 301, 9_000_000) == b""
    assert writer.record(300, 301, 9_000_000, bytes_max=10**9) == is_snapshot
    assert len(RecordReader(COLUMNS).read_untrusted("p", b"", 301, 0)) == 0


def test_no_record_is_longer_than_readers_accept() -> None:
    settings = RecordSettings(BloomSettings(), delta=False, kept=4_096)
    writer = written(settings, [{"a": n} for n in range(4_096)])
    data = writer.digest(1, 5_000, 10**9)
    assert RECORD_BYTES_MAX - 100 < len(data) <= RECORD_BYTES_MAX
    reader = RecordReader(settings)
    reader.read_untrusted("p", writer.record(1, 5_000, 10**9, with_book=True), 5_000, 10**9)
    assert reader.read_untrusted("p", data, 5_000, 10**9).last_seq == 4_096


# Bytes from outside ----------------------------------------------------------------------------------------------


def good_records() -> list[bytes]:
    dice, made = Random(11), []
    for encoding in ENCODINGS.values():
        writer = RecordWriter(RecordSettings(encoding))
        for number in range(30):
            writer.add(event(dice), 10**6 + number * 997)
        made += [writer.record(12, 31, 2 * 10**6, with_book=each) for each in (True, False)]
    return made


GOOD = good_records()


@pytest.mark.parametrize("number", range(0, len(GOOD), 2))
def test_a_record_that_was_cut_off_or_goes_on_is_refused(number: int) -> None:
    reader = RecordReader(COLUMNS)
    reader.read_untrusted("p", GOOD[number], 31, 2 * 10**6)  # without the book nobody knows where a record ends
    for data in GOOD[number : number + 2]:
        for damaged in (*(data[:length] for length in range(1, len(data), 7)), data[:-1], data + b"\0"):
            with pytest.raises(PeerError):
                reader.read_untrusted("p", damaged, 31, 2 * 10**6)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda data: b"\x20" + data[1:], "form"),
        (lambda data: bytes(RECORD_BYTES_MAX + BOOK_BYTES_MAX + 1), "bytes"),
        (lambda data: data[:1] + b"\1\2\3\4" + data[5:], "the wrong codebook"),
        (lambda data: data[:5] + b"\xff" * 11, "more than ten bytes|at most"),
        (lambda data: data[:5] + b"\x03\x00" + data[7:], "."),
    ],
)
def test_what_is_wrong_with_a_record_is_said(change: Callable[[bytes], bytes], complaint: str) -> None:
    data = GOOD[0]
    with pytest.raises(PeerError, match=complaint):
        RecordReader(COLUMNS).read_untrusted("p", change(data), 31, 2 * 10**6)


def test_a_record_of_impossible_publications_is_refused() -> None:
    reader = RecordReader(COLUMNS)
    for seq, time_us in ((11, 2 * 10**6), (31, 1_000), (31, 2**63)):
        with pytest.raises(PeerError, match="impossible publications"):
            reader.read_untrusted("p", GOOD[0], seq, time_us)


def test_a_record_with_more_entries_than_allowed_is_refused() -> None:
    head, _ = head_untrusted(GOOD[1])
    data = block_bytes(head._replace(entries=ENTRIES_MAX + 1), [0] * ENTRIES_MAX, [(0, 1)] * ENTRIES_MAX)
    with pytest.raises(PeerError, match=f"at most {ENTRIES_MAX}"):
        head_untrusted(data)


@given(st.binary(max_size=120))
def test_random_bytes_are_refused_and_nothing_else_is_raised(data: bytes) -> None:
    reader = RecordReader(BLOOM)
    for head in (b"", b"\x10", b"\x10" + RecordWriter(BLOOM).book_id.to_bytes(4, "big") + b"\1\5\0\1\3"):
        try:
            for each in reader.read_untrusted("p", head + data, 100, 10**6):
                assert each.seq < 100
        except PeerError:
            continue
    for kind in (b"", b"\0", b"\1"):
        try:
            book_untrusted(kind + data)
        except PeerError:
            continue


def mutilated(rng: Random) -> Iterator[bytes]:
    while True:
        data = bytearray(rng.choice(GOOD))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data) or 1)
            match rng.randrange(4):
                case 0 if data:
                    data[at] ^= 1 << rng.randrange(8)
                case 1:
                    del data[at : at + rng.randint(1, 4)]
                case 2:
                    data[at:at] = rng.randbytes(rng.randint(1, 4))
                case _:
                    data[at:] = rng.choice(GOOD)[at:]
        if data and data[0] & 1 and rng.randrange(2):
            _put_right_id(data)
        yield bytes(data)


def _put_right_id(data: bytearray) -> None:
    """Most changes of a book would fail at once because its bytes are not what the id says."""
    try:
        head, _ = head_untrusted(bytes(data))
    except PeerError:
        return
    data[1:5] = blake2b(head.book_data or b"", digest_size=4).digest()


def feed(records: int, seed: int) -> int:
    """How many were understood; anything but a PeerError escapes."""
    reader, understood = RecordReader(COLUMNS), 0
    dice = Random(seed)
    for _, data in zip(range(records), mutilated(Random(seed)), strict=False):
        try:
            record = reader.read_untrusted(f"p{dice.randrange(9)}", data, 31, 2 * 10**6)
        except PeerError:
            continue
        understood += 1
        for each in record:
            if record.book is not None and each.code is not None:
                record.book.change(each.code, record.book.reference)
                record.book.request_attributes(each.code)
    return understood


def test_mutilated_records_are_refused_or_understood() -> None:
    assert 50 < feed(1_500, seed=1) < 1_400


@pytest.mark.slow
def test_a_reader_does_not_grow_however_much_nonsense_it_is_fed() -> None:
    feed(2_000, seed=2)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    feed(8_000, seed=3)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 8 * 2**20


def test_a_book_that_is_small_to_send_is_not_large_to_work_out() -> None:
    """Forty bytes may not ask for thousands of bins a hundred times over."""
    ordered = bytes([2 | 2 << 2, 0, 0]) + b"\xfa\x0f" + b"\0" + b"\2\0\0\x90\x4e"  # knots 0 and 10,000, 2,042 parts
    columns = b"".join(b"\0" + bytes([1, 97 + n]) + ordered for n in range(20))
    with pytest.raises(PeerError, match="bins"):
        book_untrusted(b"\0\0\0\x14" + columns)
