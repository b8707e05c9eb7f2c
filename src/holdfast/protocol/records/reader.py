"""The subscriber's half: from a record's bytes to which publications there were, when they left, and their entries.

A reader keeps the codebooks that publishers announced. A record whose book it has not heard yet tells only the
sequence numbers and times; the caller may wait for the book or ask for it.
"""

from collections.abc import Iterator
from typing import NamedTuple, cast

import msgspec

from holdfast.model.errors import PeerError
from holdfast.model.limits import TIME_US_MAX
from holdfast.protocol.records.block import entries_untrusted, head_untrusted
from holdfast.protocol.records.codebook_bytes import book_untrusted
from holdfast.protocol.records.digest import Codebook, Entry
from holdfast.protocol.records.learning import first_book
from holdfast.protocol.records.settings import RecordSettings
from holdfast.protocol.records.sharing import shared

_BOOKS_MAX = 4  # per publisher: the present one, and some that late records still use


class Sighting(NamedTuple):
    """What a record tells of one publication."""

    seq: int
    departure_us: int  # rounded down to the writer's unit
    code: Entry | None  # None when the codebook is not known


class Record(msgspec.Struct, frozen=True, gc=False):
    """Consecutive publications of one source; iterating gives each as a Sighting, oldest first."""

    book_id: int
    book: Codebook | None
    first_seq: int
    _last_time: int  # in units
    _unit_us: int
    _ago: tuple[int, ...]
    _codes: tuple[Entry, ...] | None

    def __len__(self) -> int:
        return len(self._ago)

    @property
    def unit_us(self) -> int:
        """To which departures are rounded down."""
        return self._unit_us

    @property
    def last_seq(self) -> int:
        return self.first_seq + len(self._ago) - 1

    @property
    def numbers(self) -> range:
        return range(self.first_seq, self.first_seq + len(self._ago))

    def departure_us(self, seq: int) -> int:
        return (self._last_time - self._ago[seq - self.first_seq]) * self._unit_us

    def sighting(self, seq: int) -> Sighting:
        code = None if self._codes is None else self._codes[seq - self.first_seq]
        return Sighting(seq, self.departure_us(seq), code)

    def codes(self, numbers: range) -> tuple[Entry, ...]:
        """Of these numbers, which it lists; it needs the codebook."""
        assert self._codes is not None
        return self._codes[numbers.start - self.first_seq : numbers.stop - self.first_seq]

    def __iter__(self) -> Iterator[Sighting]:
        return map(self.sighting, self.numbers)


NOTHING = Record(0, None, 1, 0, 1, (), None)  # what a message without a record tells


class RecordReader:
    def __init__(self, settings: RecordSettings, sources_max: int = 1_000) -> None:
        """Books of so many publishers are kept: 30 kB each at most; of the one heard longest ago they go first."""
        self._sources_max = sources_max
        self._first_book = first_book(settings.encoding)
        self._books: dict[str, dict[int, Codebook]] = {}  # both in the order in which they were last used
        self._latest_source, self._latest = "", cast(Codebook | None, None)

    def knows(self, source: str, book_id: int) -> bool:
        return book_id == self._first_book.id or book_id in self._books.get(source, {})

    def read_untrusted(self, source: str, data: bytes, seq: int, time_us: int) -> Record:
        """What the record says, carried by the publication with this number and time; raises only PeerError."""
        if not data:
            return NOTHING
        told = shared(data)
        head, body = head_untrusted(data) if told is None else (told.head, b"")
        book = self._book_untrusted(source, head.book_id, head.book_data)
        made = told.records if told is not None and told.book is book else {}
        if (seq, time_us) in made:
            return made[seq, time_us]  # type: ignore[return-value]
        if told is None:
            entries = entries_untrusted(head, body, book)
        elif book is None or told.book is book:
            entries = told.entries if book is not None else told.entries._replace(codes=None)
        else:
            entries = entries_untrusted(*head_untrusted(data), book)
        first_seq = seq - head.behind - head.entries + 1
        last_time = time_us // head.unit_us - head.ago
        earliest, latest = last_time - entries.most_ago, last_time - entries.least_ago
        if first_seq < 0 or earliest < 0 or latest * head.unit_us > TIME_US_MAX:
            raise PeerError("a record of impossible publications")
        record = Record(head.book_id, book, first_seq, last_time, head.unit_us, entries.ago, entries.codes)
        made[seq, time_us] = record
        return record

    def _book_untrusted(self, source: str, book_id: int, data: bytes | None) -> Codebook | None:
        if book_id == self._first_book.id:
            return self._first_book
        if self._latest is not None and self._latest.id == book_id and source == self._latest_source:
            return self._latest  # it is the last in both already
        books = self._books.get(source, {})
        book = books.pop(book_id, None)
        if book is None and data is not None:
            book = book_untrusted(data)
            if book.id != book_id:
                raise PeerError("a record with the wrong codebook")
        if book is not None:
            self._keep(source, book, books)
        return book

    def _keep(self, source: str, book: Codebook, books: dict[int, Codebook]) -> None:
        books[book.id] = book
        if len(books) > _BOOKS_MAX:
            del books[next(iter(books))]
        self._books.pop(source, None)
        self._books[source] = books
        self._latest_source, self._latest = source, book
        if len(self._books) > self._sources_max:
            del self._books[next(iter(self._books))]
