"""Publisher and subscriber: what a record tells, and what happens when books change, are missed, or pile up."""

from collections.abc import Mapping
from random import Random

import pytest

from bench.record_events import TOPICS_SMALL, events, schema_event
from holdfast import parse
from holdfast.model.errors import InputError, MisuseError
from holdfast.model.values import Value
from holdfast.protocol.records import (
    BloomSettings,
    ColumnSettings,
    RecordReader,
    RecordSettings,
    RecordWriter,
    Relevance,
)

COLUMNS = RecordSettings()
BLOOM = RecordSettings(BloomSettings())
TRADES = [{"symbol": ("IBM", "SAP", "ABB")[n % 3], "price": 10.0 * (n % 7)} for n in range(40)]


def told(settings: RecordSettings, several: list[dict[str, Value]], condition: str) -> list[int]:
    """The numbers of publications that a subscriber to the condition is told of."""
    writer, reader, relevance = RecordWriter(settings), RecordReader(settings), Relevance([parse(condition)])
    for number, each in enumerate(several):
        writer.add(each, number * 1_000)
    record = reader.read_untrusted("p", writer.digest(1, 1_000, 10**6, with_book=True), 1_000, 10**6)
    assert record.book is not None
    return [each.seq for each in record if each.code is not None and relevance.covers(record.book, each.code)]


@pytest.mark.parametrize("settings", [COLUMNS, BLOOM])
def test_a_subscriber_is_told_of_what_concerns_it_and_hardly_of_anything_else(settings: RecordSettings) -> None:
    condition = "symbol = 'SAP' AND price >= 30"
    owed = [seq for seq, each in enumerate(TRADES, 1) if parse(condition).matches(each)]
    found = told(settings, TRADES, condition)
    assert set(owed) <= set(found)
    assert len(found) <= len(owed) + 2


def test_every_loss_among_hundreds_of_publications_is_found_from_the_records_that_arrive() -> None:
    """The receive rule of the paper: each publication that arrives tells of the ten before it."""
    dice, writer, reader = Random(1), RecordWriter(COLUMNS), RecordReader(COLUMNS)
    subscription = parse("s1 = 's1-000' OR n1 < 250")
    relevance = Relevance([subscription])
    received: set[int] = set()
    lost: set[int] = set()
    found: set[int] = set()
    spurious = 0
    for seq in range(1, 601):
        attributes, at_us = schema_event(dice), seq * 10_000
        data = writer.record(10, seq, at_us, with_book=True)
        writer.add(attributes, at_us)
        if not subscription.matches(attributes):
            continue
        if dice.random() < 0.1:
            lost.add(seq)
            continue
        received.add(seq)
        record = reader.read_untrusted("p", data, seq, at_us)
        for number, _, code in record:
            if number in received or code is None or record.book is None:
                continue
            if relevance.covers(record.book, code):
                found.add(number)
                spurious += number not in lost
    assert len(lost) > 15
    assert lost <= found  # one in three matches, so that ten in a row hardly ever bring nothing
    assert spurious < 30  # of the first few books; later ones are exact to a percent


# Codebooks -------------------------------------------------------------------------------------------------------


def test_without_its_book_a_record_tells_only_which_publications_there_were_and_when() -> None:
    writer, reader = RecordWriter(COLUMNS), RecordReader(COLUMNS)
    for number, each in enumerate(TRADES):
        writer.add(each, number * 640)
    record = reader.read_untrusted("p", writer.record(3, 41, 40 * 640), 41, 40 * 640)
    assert not reader.knows("p", record.book_id)
    assert [tuple(each) for each in record] == [(38, 37 * 640, None), (39, 38 * 640, None), (40, 39 * 640, None)]
    reader.read_untrusted("p", writer.record(1, 41, 40 * 640, with_book=True), 41, 40 * 640)
    again = reader.read_untrusted("p", writer.record(3, 41, 40 * 640), 41, 40 * 640)
    assert [each.code for each in again] == [writer.book.entry(each) for each in TRADES[-3:]]
    assert not reader.knows("q", record.book_id)


def test_the_first_book_of_a_bloom_filter_needs_no_telling() -> None:
    writer, reader = RecordWriter(BLOOM), RecordReader(BLOOM)
    writer.add({"symbol": "IBM"}, 0)
    record = reader.read_untrusted("p", writer.record(1, 2, 64), 2, 64)
    assert record.sighting(1).code == writer.book.entry({"symbol": "IBM"})


def test_a_book_is_learned_soon_and_kept_while_it_serves() -> None:
    dice, writer = Random(2), RecordWriter(COLUMNS)
    changed = []
    for number in range(1, 3_000):
        before = writer.book_id
        writer.add(schema_event(dice), number)
        if writer.book_id != before:
            changed.append(number)
    assert changed[0] == 1
    assert set(changed) <= {1, 8, 64, 128, 256, 512}


def test_a_book_is_learned_again_when_the_values_have_moved_on() -> None:
    writer = RecordWriter(COLUMNS)
    for number in range(2_000):
        writer.add({"price": number % 977}, number)
    before = writer.book_id
    for number in range(2_000, 4_096):
        writer.add({"price": 10**6 + number % 977}, number)
    assert writer.book_id != before


def test_a_new_attribute_is_listed_in_the_next_book() -> None:
    writer = RecordWriter(COLUMNS)
    for number in range(600):
        writer.add({"a": number % 5}, number)
    pattern = parse("b = 3")
    for number in range(600, 2_048):
        writer.add({"a": number % 5, "b": number % 7}, number)
    relevance = Relevance([pattern])
    assert relevance.covers(writer.book, writer.book.entry({"a": 1, "b": 3}))
    assert not relevance.covers(writer.book, writer.book.entry({"a": 1, "b": 4}))


def test_more_attributes_than_a_book_can_list_are_told_as_others() -> None:
    writer = RecordWriter(COLUMNS)
    for number in range(64):
        writer.add({f"name{number}-{n}": n for n in range(200)}, number)
    assert len(writer.book.to_bytes()) <= 4_096
    rare = {"name3-7": 7}
    assert Relevance([parse('"name3-7" = 7')]).covers(writer.book, writer.book.entry(rare))


def test_books_of_one_source_and_sources_themselves_are_bounded() -> None:
    reader = RecordReader(COLUMNS)
    ids = []
    for number in range(7):
        writer = RecordWriter(COLUMNS)
        writer.add({f"a{number}": 1}, 0)
        ids.append(writer.book_id)
        reader.read_untrusted("p", writer.record(1, 2, 0, with_book=True), 2, 0)
    assert [reader.knows("p", each) for each in ids] == [False] * 3 + [True] * 4
    data = writer.record(1, 2, 0, with_book=True)
    for number in range(1_001):
        reader.read_untrusted(f"q{number}", data, 2, 0)
    assert not reader.knows("p", ids[-1])
    assert reader.knows("q1000", ids[-1])


# Focus -----------------------------------------------------------------------------------------------------------


def bytes_per_entry(
    settings: RecordSettings, several: list[tuple[int, dict[str, Value]]], focus: object = None
) -> float:
    writer = RecordWriter(settings)
    if isinstance(focus, tuple):
        writer.focus(focus)
    for at_us, attributes in several:
        writer.add(attributes, at_us)
    return len(writer.record(120, writer.last_seq + 1, several[-1][0])) / 120


def test_telling_only_what_somebody_tests_takes_a_third_of_the_bytes_and_is_as_sharp() -> None:
    several = events("rates, 54 subscribers", 600)
    assert bytes_per_entry(COLUMNS, several, TOPICS_SMALL) < bytes_per_entry(COLUMNS, several) / 2.5
    writer = RecordWriter(COLUMNS)
    writer.focus(TOPICS_SMALL)
    for at_us, attributes in several:
        writer.add(attributes, at_us)
    for topic in TOPICS_SMALL[::9]:
        relevance = Relevance([parse(f"{topic} = TRUE")])
        for _, attributes in several[-100:]:
            assert relevance.covers(writer.book, writer.book.entry(attributes)) == (topic in attributes)


def test_an_attribute_in_focus_that_was_never_published_is_told_to_be_missing() -> None:
    writer = RecordWriter(COLUMNS)
    writer.focus(["a", "later"])
    for number in range(20):
        writer.add({"a": number, "b": 1}, number)
    relevance = Relevance([parse("later = 5")])
    assert not relevance.covers(writer.book, writer.book.entry({"a": 1, "b": 2}))
    assert relevance.covers(writer.book, writer.book.entry({"later": 5}))


# Size ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload", "most"),
    [
        ("locality 0.1", 4.0),
        ("locality 0.3", 6.6),
        ("locality 0.5", 8.8),
        ("rates, 54 subscribers", 11.0),
        ("stock", 5.0),
        ("zipf", 2.5),
    ],
)
def test_a_columnar_entry_takes_few_bytes_with_its_departure_time(workload: str, most: float) -> None:
    assert bytes_per_entry(COLUMNS, events(workload, 700)) < most


def test_a_filter_that_changes_little_is_sent_as_what_changed() -> None:
    several = events("locality 0.1", 700)
    plain = bytes_per_entry(RecordSettings(BloomSettings(), delta=False), several)
    assert plain > 33
    assert bytes_per_entry(BLOOM, several) < plain / 2
    assert bytes_per_entry(RecordSettings(BloomSettings(hashes=2)), several) < plain / 4


# Misuse ----------------------------------------------------------------------------------------------------------


def test_a_writer_goes_back_only_as_far_as_it_keeps() -> None:
    settings = RecordSettings(kept=5)
    writer = RecordWriter(settings)
    for number in range(9):
        writer.add({"a": number}, number * 64)
    assert len(writer) == 5
    record = RecordReader(settings).read_untrusted("p", writer.digest(1, 10, 1_000), 10, 1_000)
    assert (record.first_seq, record.last_seq) == (5, 9)


def test_a_record_is_not_carried_by_an_earlier_publication() -> None:
    writer = RecordWriter(COLUMNS)
    for number in range(3):
        writer.add({"a": number}, number)
    with pytest.raises(MisuseError, match="carried by 2"):
        writer.record(1, 2, 10)


@pytest.mark.parametrize(
    ("make", "arguments", "complaint"),
    [
        (ColumnSettings, {"code_bits": 13}, "bits from 3 to 12"),
        (ColumnSettings, {"code_bits": 2}, "bits from 3 to 12"),
        (BloomSettings, {"bits": 100}, "64, 128, 256 or 2,048"),
        (BloomSettings, {"hashes": 9}, "bits from 1 to 8"),
        (BloomSettings, {"items": 0}, "a whole number of tags, 1 or more"),
        (BloomSettings, {"optional": tuple(f"a{n}" for n in range(17))}, "at most 16"),
        (RecordSettings, {"kept": 0}, "publications from 1 to 4,096"),
        (RecordSettings, {"time_unit_us": 0}, "microseconds"),
        (RecordSettings, {"key_every": -1}, "0 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: type, arguments: Mapping[str, object], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        make(**arguments)


def test_too_many_names_in_focus_are_refused() -> None:
    with pytest.raises(MisuseError, match="at most 512"):
        RecordWriter(COLUMNS).focus(f"a{n}" for n in range(513))
