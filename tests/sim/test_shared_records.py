"""In a simulation readers take what a writer knows of its record; elsewhere they decode the bytes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.protocol.records import BloomSettings, ColumnSettings, RecordReader, RecordSettings, RecordWriter
from holdfast.protocol.stack import in_one_process

_EVENTS = st.lists(
    st.tuples(st.dictionaries(st.sampled_from("abc"), st.integers(0, 9) | st.text(max_size=3)), st.integers(0, 90_000)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(_EVENTS, st.sampled_from([ColumnSettings(), BloomSettings()]), st.integers(0, 50), st.booleans())
def test_what_a_reader_is_handed_is_what_it_would_decode(events, encoding, last_n, with_book) -> None:
    chosen = RecordSettings(encoding=encoding)
    with in_one_process():
        writer, now_us = RecordWriter(chosen), 1_000_000
        for attributes, later_us in events:
            now_us += later_us - 10_000  # clocks are set back now and then
            writer.add(attributes, now_us)
        data = writer.record(last_n, writer.last_seq + 3, now_us + 5_000, with_book=with_book)
        handed = RecordReader(chosen).read_untrusted("p", data, writer.last_seq + 3, now_us + 5_000)
        knowing = RecordReader(chosen)
        book = writer.digest(1, writer.last_seq, now_us, with_book=True)
        knowing.read_untrusted("p", book, writer.last_seq, now_us)
        handed_to_knowing = knowing.read_untrusted("p", data, writer.last_seq + 3, now_us + 5_000)
    for reader, taken in ((RecordReader(chosen), handed), (knowing, handed_to_knowing)):
        decoded = reader.read_untrusted("p", data, writer.last_seq + 3, now_us + 5_000)
        assert list(taken) == list(decoded)
        assert (taken.first_seq, taken.book_id) == (decoded.first_seq, decoded.book_id)
        assert taken.book is decoded.book
