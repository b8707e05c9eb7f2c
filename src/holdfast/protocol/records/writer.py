"""The publisher's half: remembers what was published last and tells of it in few bytes.

`add` each publication in turn. `record` tells of the last few, to be carried by the next publication; `digest` of all
from a sequence number on, for a channel of its own. Both are told relative to the message that carries them. The
writer learns its codebook by itself; `book_id` changes when it has a new one, and readers then need it once:
`with_book=True`.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from itertools import islice
from operator import sub

from holdfast.model.errors import MisuseError
from holdfast.model.event import Attributes
from holdfast.model.limits import NAME_CHARACTERS_MAX, RECORD_BYTES_MAX
from holdfast.protocol.records.block import (
    Bits,
    Head,
    block_bytes,
    change_bits,
    gap_k_of,
    key_bits,
    plain_bits,
)
from holdfast.protocol.records.columnar import COLUMNS_MAX
from holdfast.protocol.records.digest import Codebook, Entry
from holdfast.protocol.records.learning import Focus, first_book, learned_book, worn
from holdfast.protocol.records.settings import LEARNED_FROM, RecordSettings
from holdfast.protocol.records.sharing import share

_LESSONS = (1, 8, 64, 128, 256, LEARNED_FROM)  # publications after which the book is learned again: soon, then better
_LESSON_EVERY = 4 * LEARNED_FROM  # and then so often, if it is worn: announcing it costs a byte or two a publication


class _Kept:
    __slots__ = ("attributes", "book", "code", "first", "next", "time")

    def __init__(self, attributes: Attributes, time: int) -> None:
        self.attributes = attributes
        self.time = time  # of departure, in units
        self.book: Codebook | None = None  # that the rest is written with

    def under(self, book: Codebook) -> "_Kept":
        """What depends on the codebook is worked out when it is first needed."""
        if self.book is not book:
            self.book = book
            self.code: Entry | None = None
            self.first: Bits | None = None  # as the first of a record
            self.next: Bits | None = None  # after the one before
        return self


class RecordWriter:
    def __init__(self, settings: RecordSettings, first_seq: int = 1, kept_max: int | None = None) -> None:
        self._settings = settings
        self._focus: Focus = None
        self._kept: deque[_Kept] = deque(maxlen=kept_max or settings.kept)
        self._first_seq = first_seq
        self.last_seq = first_seq - 1
        self.book: Codebook = first_book(settings.encoding)
        self._learned = 0  # publications after which the book was learned last

    @property
    def book_id(self) -> int:
        return self.book.id

    def __len__(self) -> int:
        """How many publications a record can go back."""
        return len(self._kept)

    def add(self, attributes: Attributes, departure_us: int, learns: bool = True) -> int:
        """Note the next publication; its sequence number. The attributes must not be changed afterwards.

        Who tells of it only when asked does without learning, and calls `learn` then.
        """
        self._kept.append(_Kept(attributes, departure_us // self._settings.time_unit_us))
        self.last_seq += 1
        if learns:
            count = self.last_seq - self._first_seq + 1
            if count in _LESSONS or count % _LESSON_EVERY == 0:
                self._learn(count == 1)
        return self.last_seq

    def learn(self) -> None:
        """Learn the book now, unless little has come since the last time."""
        count = self.last_seq - self._first_seq + 1
        if self._learned == 0 or count - self._learned >= LEARNED_FROM:
            self._learn(always=self._learned == 0)

    def forget(self, most: int) -> None:
        """Tell only of the last ones, so many."""
        while len(self._kept) > most:
            self._kept.popleft()

    def since(self, time_us: int) -> int:
        """The lowest number that can be told of and left at that time or later; the next one, when there is none."""
        at = bisect_left(self._kept, time_us // self._settings.time_unit_us, key=lambda each: each.time)
        return self.last_seq - len(self._kept) + 1 + at

    def focus(self, attributes: Iterable[str] | None) -> None:
        """Tell of these attributes alone, for instance those that subscribers test; None tells of all.

        Conditions on other attributes then pass, so whoever has such a condition asks in vain now and then.
        """
        names = None if attributes is None else sorted(set(attributes))
        if names is not None and (len(names) > COLUMNS_MAX or any(len(each) > NAME_CHARACTERS_MAX for each in names)):
            raise MisuseError(f"a record describes at most {COLUMNS_MAX} attributes, not {len(names)}")
        focus = None if names is None else tuple(names)
        if focus != self._focus:
            self._focus = focus
            self._learn(always=True)

    # Telling -------------------------------------------------------------------------------------

    def record(
        self, last_n: int, seq: int, time_us: int, *, with_book: bool = False, bytes_max: int = RECORD_BYTES_MAX
    ) -> bytes:
        """The last `last_n` publications, for a carrier with this number and time; nothing when there are none."""
        return self._record(last_n, self.last_seq, seq, time_us, with_book, bytes_max)

    def _record(self, last_n: int, last: int, seq: int, time_us: int, with_book: bool, bytes_max: int) -> bytes:
        if seq < last:
            raise MisuseError(f"a record of publication {last} cannot be carried by {seq}")
        after = self.last_seq - last
        described = list(islice(reversed(self._kept), after, after + max(0, last_n)))[::-1]
        most = min(bytes_max, RECORD_BYTES_MAX)
        while described:
            entries = self._entries(described, last)
            length = sum([bits for _, bits in entries]) // 8  # at least
            if length <= most:
                data = self._block(described, entries, seq - last, time_us, b"")
                length = len(data)
                if length <= most:
                    return (
                        self._block(described, entries, seq - last, time_us, self.book.to_bytes())
                        if with_book
                        else data
                    )
            del described[: 1 + len(described) * (length - most) // length]  # the oldest are left out
        return b""

    def digest(
        self,
        from_seq: int,
        seq: int,
        time_us: int,
        *,
        upto: int | None = None,
        with_book: bool = False,
        bytes_max: int = RECORD_BYTES_MAX,
    ) -> bytes:
        """All publications from a number on, or those up to another, as far back as they are kept."""
        last = self.last_seq if upto is None else min(upto, self.last_seq)
        return self._record(last - from_seq + 1, last, seq, time_us, with_book, bytes_max)

    def _block(self, described: list[_Kept], entries: list[Bits], behind: int, time_us: int, book_data: bytes) -> bytes:
        times = [each.time for each in described]
        gaps = list(map(sub, times[1:], times))
        unit_us, ago = self._settings.time_unit_us, time_us // self._settings.time_unit_us - times[-1]
        head = Head(self.book.id, book_data or None, behind, len(described), ago, unit_us, gap_k_of(gaps))
        data = block_bytes(head, gaps, entries)
        share(data, head, self.book, times, [each.code for each in described])  # type: ignore[misc]
        return data

    def _entries(self, described: list[_Kept], last: int) -> list[Bits]:
        book, every = self.book, self._settings.key_every
        if not self._settings.delta:
            return [plain_bits(book, self._code(each)) for each in described]
        oldest = described[0].under(book)
        if oldest.first is None:
            oldest.first = change_bits(book, self._code(oldest), book.reference)
        found = [each.next if each.book is book else None for each in described]
        found[0] = oldest.first
        if None in found:  # nearly always just the last: the others were told of before
            first = last - len(described) + 1
            for at in range(found.index(None), len(found)):
                if found[at] is None:
                    each = described[at]
                    if every and (first + at) % every == 0:  # it stands for itself
                        each.under(book).next = key_bits(book, self._code(each))
                    else:
                        each.under(book).next = change_bits(book, self._code(each), self._code(described[at - 1]))
                    found[at] = each.next
        return found  # type: ignore[return-value]

    def _code(self, each: _Kept) -> Entry:
        if each.under(self.book).code is None:
            each.code = self.book.entry(each.attributes)
        assert each.code is not None
        return each.code

    # Learning ------------------------------------------------------------------------------------

    def _learn(self, always: bool) -> None:
        self._learned = self.last_seq - self._first_seq + 1
        sample = [each.attributes for each in islice(reversed(self._kept), LEARNED_FROM)][::-1]
        fresh = learned_book(self._settings.encoding, sample, self._focus)
        if fresh.id != self.book.id and (always or worn(self.book, fresh, sample)):
            self.book = fresh
