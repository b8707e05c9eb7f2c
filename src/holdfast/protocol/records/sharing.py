"""Records as their writer knows them, for readers in the same process.

In a simulation all nodes live in one process, and a digest has as many readers as there are subscribers. Reading gives
what was written, so a writer leaves it here under the bytes that it sends, and whoever has the same codebook need not
decode them. Elsewhere nothing is left, and every reader decodes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from holdfast.protocol.records.block import Entries, Head
from holdfast.protocol.records.digest import Codebook, Entry

_ENTRIES_MAX = 512  # of a record that is shared
_RECORDS_MAX = 512  # those on their way at one time; 60 MB at the very worst


class Told(NamedTuple):
    """What reading a record gives to who knows its book."""

    head: Head
    book: Codebook
    entries: Entries
    records: dict[tuple[int, int], object]  # what was made of it for readers, by number and time of what carries it


class _Shelf:
    told: dict[bytes, Told] | None = None


@contextmanager
def shared_records() -> Iterator[None]:
    before, _Shelf.told = _Shelf.told, {}
    try:
        yield
    finally:
        _Shelf.told = before


def share(data: bytes, head: Head, book: Codebook, times: Sequence[int], codes: Sequence[Entry]) -> None:
    """`data` tells of these entries of this book; they left at these times, in units."""
    told = _Shelf.told
    if told is None or len(codes) > _ENTRIES_MAX:
        return
    if len(told) >= _RECORDS_MAX:
        del told[next(iter(told))]
    last = times[-1]
    ago = tuple([last - each for each in times])
    told[data] = Told(head, book, Entries(ago, tuple(codes), max(ago), min(ago)), {})


def shared(data: bytes) -> Told | None:
    return None if _Shelf.told is None else _Shelf.told.get(data)
