"""The past events that a broker keeps: a log with a zone map for each of its files, searched by condition.

A search goes through the log in order and is continued where it stopped, so that whoever is answered in parts gets
each event once. It reads the events that may be what is wanted and skips the others (`zones`).

The zone map of a file that is complete lies beside it. One that is missing or damaged is made again from the events:
it is a shortcut and no more.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

import msgspec

from holdfast.language.subscription import Subscription, holds
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.settings import ProtocolSettings
from holdfast.store.log import GoneError, Log, Retention
from holdfast.store.logged import Logged, encode_row
from holdfast.store.zones import BLOCK, ZoneMap, opened

_SUFFIX = ".zones"
_REMEMBERED_BYTES = 64 * 2**20  # of the end whose events are recognised after a restart: read in half a second
_READ_MAX = 16_384  # events read in one go: some fifty milliseconds, then whoever appends has a turn
_READ_BYTES_MAX = 32 * 2**20  # of the log in one go: their checksums and borders take about as long
_BACK = 256  # candidates read at a time on the way back: a frame that holds two parts of them is read twice

_row: msgspec.msgpack.Decoder[Logged] = msgspec.msgpack.Decoder(Logged)


@dataclass(frozen=True)
class SearchResult:
    """Events that were searched for, and where to go on."""

    events: list[Logged]
    next: int  # all before this offset was looked at
    read: int = 0  # events that were read; those before them were skipped


class History:
    def __init__(self, folder: Path, id_: str, retention: Retention, now_us: int) -> None:
        """Open the history in a folder, or begin it; LogDamagedError when what is there cannot be used."""
        self.log = Log(folder, id_, retention, now_us)
        self._folder = folder
        self._zones: dict[int, ZoneMap] = {}  # by the first offset of a file
        settings = ProtocolSettings()
        self._seen = Seen(settings.dedup_window, settings.dedup_sources)
        for source, seq in self.log.recent_ids(_REMEMBERED_BYTES):
            self._seen.first_time(source, seq)
        self._swept_to = -1  # the offset below which zone maps were removed
        self._active = self.log.firsts[-1]
        self._zones[self._active] = self._made(self._active, self.log.end)

    def is_new(self, source: str, seq: int) -> bool:
        """Note an event that is about to be appended; False when it was before, in this process or the last."""
        return self._seen.first_time(source, seq)

    def has(self, source: str, seq: int) -> bool:
        """Whether an event was noted."""
        return self._seen.has(source, seq)

    def append(self, events: Sequence[Logged], now_us: int) -> None:
        """Behind all others, and on disk when this returns; after an OSError, the first of them may be."""
        before = self.log.end
        try:
            self.log.append([encode_row(each) for each in events], now_us)
        finally:
            self._note(events[: self.log.end - before], before)

    def _note(self, events: Sequence[Logged], first: int) -> None:
        begun = {each for each in self.log.firsts if each > self._active}
        for offset, each in enumerate(events, first):
            if offset in begun:
                self._begin_file(offset)
            self._zones[self._active].add(each.attributes, each.time_us)

    def drop_old(self, now_us: int) -> None:
        """Remove what is kept for longer, or takes more room, than it may."""
        self.log.drop_old(now_us)
        firsts = self.log.firsts
        if firsts[-1] != self._active and firsts[-1] == self.log.end:  # a new file without events
            self._begin_file(self.log.end)
        if firsts[0] == self._swept_to:  # as after most writes
            return
        self._swept_to = firsts[0]
        for first in [each for each in self._zones if each < firsts[0]]:
            del self._zones[first]
        for path in self._folder.glob(f"*{_SUFFIX}"):
            if int(path.stem) < firsts[0]:
                path.unlink(missing_ok=True)

    def _begin_file(self, first: int) -> None:
        """The log has begun a file: the one before it is complete."""
        self._seal(self._active)
        self._active = first
        self._zones[first] = ZoneMap()

    def close(self) -> None:
        self.log.close()

    # Searching -----------------------------------------------------------------------------------

    def search(
        self, wanted: Subscription, lo: int, hi: int, since_us: int, events_max: int, bytes_aim: int
    ) -> SearchResult:
        """Events from `lo` on, at most up to `hi`, of those published since then; GoneError when `lo` was dropped.

        It stops early when it has found or read enough: search again from `next`.
        """
        if lo < self.log.oldest:
            raise GoneError(f"event {lo} is no longer kept; {self.log.oldest} is the oldest", self.log.oldest)
        found: list[Logged] = []
        read = size = looked = 0
        for candidates in self._candidates(wanted, lo, hi, since_us):
            for rows, frame_bytes in self.log.pick(candidates):
                looked += frame_bytes
                for offset, row in rows:
                    event = _row.decode(row)
                    read += 1
                    if event.time_us >= since_us and _matches(wanted, event):
                        found.append(event)
                        size += len(row)
                        if len(found) == events_max or size >= bytes_aim:
                            return SearchResult(found, offset + 1, read)
                if read >= _READ_MAX or looked >= _READ_BYTES_MAX:
                    return SearchResult(found, offset + 1, read)
        return SearchResult(found, max(hi, lo), read)

    def search_back(self, wanted: Subscription, hi: int, count: int) -> tuple[int, int]:
        """Go back from an offset until so many events are found; where that is, and how many are still to be found.

        It stops early, too: search back from there for the rest, until the log's oldest event is reached.
        """
        read, looked, oldest = 0, 0, self.log.oldest
        for candidates in self._candidates(wanted, oldest, hi, 0, back=True):
            for end in range(len(candidates), 0, -_BACK):
                frames = list(self.log.pick(candidates[max(0, end - _BACK) : end]))
                looked += sum(frame_bytes for _, frame_bytes in frames)
                for offset, row in reversed([each for rows, _ in frames for each in rows]):
                    read += 1
                    if _matches(wanted, _row.decode(row)):
                        count -= 1
                        if not count:
                            return offset, 0
                if read >= _READ_MAX or looked >= _READ_BYTES_MAX:
                    return offset, count
        return oldest, count

    def _candidates(
        self, wanted: Subscription, lo: int, hi: int, since_us: int, back: bool = False
    ) -> Iterator[list[int]]:
        """For each file in order, or from the last back, the events that may be what is wanted."""
        firsts = self.log.firsts
        places = range(max(0, bisect_right(firsts, lo) - 1), bisect_left(firsts, hi))
        for place in reversed(places) if back else places:
            first = firsts[place]
            end = firsts[place + 1] if place + 1 < len(firsts) else self.log.end
            zones, part = self._zones_of(first, end), (max(lo, first) - first, min(hi, end) - first)
            if part[0] < part[1]:
                yield (zones.candidates(wanted, since_us, *part) + first).tolist()

    # Zone maps -----------------------------------------------------------------------------------

    def _zones_of(self, first: int, end: int) -> ZoneMap:
        known = self._zones.get(first)
        if known is None:
            known = self._opened(first, end) or self._made(first, end)
            self._zones[first] = known
        return known

    def _opened(self, first: int, end: int) -> ZoneMap | None:
        try:
            with open(self._path(first), "rb") as file:
                zones = opened(mmap(file.fileno(), 0, access=ACCESS_READ))
        except (OSError, ValueError):
            return None
        return zones if zones is not None and zones.blocks == -(-(end - first) // BLOCK) else None

    def _made(self, first: int, end: int) -> ZoneMap:
        """From the events themselves."""
        zones, at = ZoneMap(), first
        while at < end:
            rows = self.log.read(at, end, 2**20)
            at += len(rows)
            for row in rows:
                event = _row.decode(row)
                zones.add(event.attributes, event.time_us)
        return zones

    def _seal(self, first: int) -> None:
        """A file is complete, and so is what is known of it. Losing it in a crash costs time and nothing else."""
        unfinished = self._path(first).with_suffix(".unfinished")
        unfinished.write_bytes(self._zones[first].saved())
        unfinished.rename(self._path(first))
        del self._zones[first]  # from now on it is mapped where it is looked at

    def _path(self, first: int) -> Path:
        return self._folder / f"{first:020}{_SUFFIX}"


def _matches(wanted: Subscription, event: Logged) -> bool:
    """`wanted.matches` of an event whose attributes are known to be flat."""
    attributes = event.attributes
    return any(holds(each, attributes) for each in wanted.filters)
