"""Publication records: what a publisher tells of its last publications, so that subscribers find out what they lost.

An *entry* is a few bits about one event, made with a *codebook*; a *pattern* is a condition under the same book. If the
event matches the condition, the pattern covers the entry: a loss is never overlooked. The other way round a pattern may
cover an entry whose event does not match, rarely. Two encodings: Bloom filters (paper 000, mended), columns of codes.

Publisher:   writer = RecordWriter(settings)
             data = writer.record(10, seq, time_us)         the last ten, carried by publication `seq`
             writer.add(attributes, time_us)                then the publication itself
             data = writer.digest(from_seq, seq, time_us)   all since then, for a channel of its own; a `seq` of its
                                                            own may be any number from `writer.last_seq` on
             with_book=True when `writer.book_id` is new, and every few seconds for those who come late
             writer.focus(names)                            tell only of attributes that somebody tests
Subscriber:  reader = RecordReader(settings); relevance = Relevance(subscriptions)
             record = reader.read_untrusted(source, data, seq, time_us)
             for seq, departure_us, code in record: lost if code is not None and relevance.covers(record.book, code)
Requests:    request_attributes(book, code), request_conditions(book, subscription)

By itself a codebook has `entry(attributes)` and `pattern(subscription)`, and `covers(entry, pattern)` compares.
"""

from holdfast.protocol.records.digest import Codebook, Entry, Pattern, covers
from holdfast.protocol.records.learning import first_book, learned_book
from holdfast.protocol.records.reader import Record, RecordReader, Sighting
from holdfast.protocol.records.relevance import Relevance
from holdfast.protocol.records.requests import request_attributes, request_conditions
from holdfast.protocol.records.settings import PAPER, BloomSettings, ColumnSettings, RecordSettings
from holdfast.protocol.records.writer import RecordWriter

__all__ = [
    "PAPER",
    "BloomSettings",
    "Codebook",
    "ColumnSettings",
    "Entry",
    "Pattern",
    "Record",
    "RecordReader",
    "RecordSettings",
    "RecordWriter",
    "Relevance",
    "Sighting",
    "covers",
    "first_book",
    "learned_book",
    "request_attributes",
    "request_conditions",
]
