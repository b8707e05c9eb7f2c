"""A log of events: append, read any range again exactly as it was, drop the oldest.

Events are numbered from 0 in the order in which they came; that number is their offset, and it never changes. They lie
in files of limited size. An append returns when its events are on disk (one `fdatasync` for all that had come), and
only then do they show in `end`: what a reader has once seen survives a crash.

The oldest files are dropped when the log is larger than it may be or their events are older than they may be, read or
not; with `drop_acknowledged` also as soon as every reader that has ever acknowledged anything is past them. What was
dropped is counted, and whoever asks for it is told where the log begins now.

Appending and dropping happen in one thread at a time; reading may happen in others meanwhile.
"""

import errno
import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import msgspec

from holdfast.model.errors import HoldfastError, MisuseError
from holdfast.model.settings import Settings, setting
from holdfast.store import segment
from holdfast.store.logged import RECORD_BYTES_MAX
from holdfast.store.segment import SUFFIX, Frame, LogDamagedError

SEGMENTS_MIN = 4  # files that the limit on bytes must have room for, so that dropping one does not drop nearly all
FRAME_BYTES_AIM = 4 * 2**20  # of events written at once: past this, larger writes gain nothing
_INDEX_STEP_BYTES = 64 * 1024  # of a file between places that the index knows: what is quick to walk through
_NEAR = 256  # events from one that is wanted to the next, over which frames are walked; beyond, the index is asked
_READERS_MAX = 1_000  # whose acknowledgements are remembered; of more, the one heard of longest ago is forgotten

_rows: msgspec.msgpack.Decoder[list[msgspec.Raw]] = msgspec.msgpack.Decoder(list[msgspec.Raw])


class _Id(msgspec.Struct, array_like=True, gc=False):
    """The beginning of a logged event."""

    source: str
    seq: int


_ids: msgspec.msgpack.Decoder[list[_Id]] = msgspec.msgpack.Decoder(list[_Id])


class GoneError(HoldfastError):
    """Events that retention has dropped were asked for."""

    def __init__(self, message: str, oldest: int) -> None:
        super().__init__(message)
        self.oldest = oldest  # the first offset that there still is


@dataclass(frozen=True)
class Retention(Settings):
    keep_bytes: int = setting(2**30, "of each stream that are kept", "some 5 million small events")
    keep_s: float = setting(
        7 * 86_400.0, "how long events are kept", "a reader that was away for a long weekend finds everything"
    )
    segment_bytes: int = setting(
        16 * 2**20, "of a file of the log", "checked within a tenth of a second after a crash, and small against all"
    )
    drop_acknowledged: bool = setting(
        False, "drop events as soon as all readers have acknowledged them", "a reader to come may want them"
    )

    @property
    def file_bytes(self) -> int:
        return min(self.segment_bytes, self.keep_bytes // SEGMENTS_MIN)


class _Segment:
    """A file, and where in it some of its frames begin."""

    def __init__(self, path: Path, first: int, size: int) -> None:
        self.path = path
        self.first = first
        self.size = size
        self.newest_us = 0  # when its last frame was written, if we know
        self.offsets = array("Q")
        self.positions = array("Q")

    def note(self, frame: Frame) -> None:
        if not self.positions or frame.at - self.positions[-1] >= _INDEX_STEP_BYTES:
            self.offsets.append(frame.first)
            self.positions.append(frame.at)
        self.newest_us = frame.written_us

    def place_of(self, offset: int) -> int:
        """A position at or before the frame that holds an offset."""
        return self.positions[bisect_right(self.offsets, offset) - 1] if self.positions else segment.HEADER_BYTES


class Log:
    def __init__(self, folder: Path, id_: str, retention: Retention, now_us: int) -> None:
        """Open the log in a folder, or begin it; LogDamagedError when what is there cannot be used, and nothing is
        changed then."""
        self.id = id_
        self.torn_bytes = 0  # cut off when it was opened: the write that a crash interrupted
        self.removed = 0  # events whose files somebody else has removed
        self.dropped_unread = 0  # events that were dropped before any reader had acknowledged them
        self._folder = folder
        self._retention = retention
        self._lock = Lock()  # for the list of segments and what they know
        self._acknowledged: dict[str, int] = {}  # by reader, in the order in which they were last heard of
        self._segments = [_found(path, id_) for path in sorted(folder.glob(f"*{SUFFIX}"))]
        if self._segments:
            self.end = self._recover()
        else:
            path = segment.make(folder, id_, 0, now_us)
            self._segments = [_Segment(path, 0, segment.HEADER_BYTES)]
            self.end = 0
        for rest in folder.glob("*.unfinished"):  # of a crash while a file was made
            rest.unlink()
        self._handle = os.open(self._segments[-1].path, os.O_WRONLY)

    def _recover(self) -> int:
        """Look at the last file and cut off a torn tail; the offset behind the last event."""
        last = self._segments[-1]
        scanned = segment.check(last.path, last.first)
        for frame in scanned.frames:
            last.note(frame)
        if scanned.torn_bytes:
            os.truncate(last.path, scanned.end)
            last.size, self.torn_bytes = scanned.end, scanned.torn_bytes
        return scanned.frames[-1].end if scanned.frames else last.first

    @property
    def oldest(self) -> int:
        return self._segments[0].first

    @property
    def firsts(self) -> list[int]:
        """Where its files begin, oldest first."""
        with self._lock:
            return [each.first for each in self._segments]

    @property
    def size(self) -> int:
        with self._lock:
            return sum(each.size for each in self._segments)

    def close(self) -> None:
        os.close(self._handle)

    # Appending -----------------------------------------------------------------------------------

    def append(self, rows: list[bytes], now_us: int) -> None:
        """Encoded events, behind all others, and on disk when this returns; after an OSError, a part of them may be."""
        frame_rows: list[bytes] = []
        size = 0
        for row in rows:
            if len(row) > RECORD_BYTES_MAX:
                raise MisuseError(f"an event of {len(row)} bytes; {RECORD_BYTES_MAX} are allowed in a log")
            if frame_rows and size + len(row) > FRAME_BYTES_AIM:
                self._append(frame_rows, now_us)
                frame_rows, size = [], 0
            frame_rows.append(row)
            size += len(row)
        if frame_rows:
            self._append(frame_rows, now_us)

    def _append(self, rows: list[bytes], now_us: int) -> None:
        last = self._segments[-1]
        if os.fstat(self._handle).st_nlink == 0:
            last = self._begin_anew(now_us)
        elif last.size >= self._retention.file_bytes:
            last = self._begin_file(now_us)
        body = b"".join((_array_head(len(rows)), *rows))
        frame = Frame(last.size, len(body), self.end, len(rows), now_us, 0)
        try:
            _write_all(self._handle, segment.frame_bytes(self.end, len(rows), now_us, body), last.size)
            os.fdatasync(self._handle)
        except OSError:
            with suppress(OSError):  # else the next attempt overwrites what is there, or the next start cuts it off
                os.ftruncate(self._handle, last.size)
            raise
        with self._lock:
            last.note(frame)
            last.size = frame.next_at
            self.end = frame.end

    def _begin_file(self, now_us: int) -> _Segment:
        path = segment.make(self._folder, self.id, self.end, now_us)
        handle = os.open(path, os.O_WRONLY)
        os.close(self._handle)
        self._handle = handle
        with self._lock:
            self._segments.append(_Segment(path, self.end, segment.HEADER_BYTES))
        return self._segments[-1]

    def _begin_anew(self, now_us: int) -> _Segment:
        """Our file was removed: what we wrote to it would be gone when we close it."""
        if any(each.path.exists() for each in self._segments[:-1]):  # whoever wants the rest has to look at it
            raise FileNotFoundError(errno.ENOENT, f"{self._segments[-1].path.name} was removed")
        self._folder.mkdir(parents=True, exist_ok=True)
        last = self._begin_file(now_us)
        with self._lock:
            self.removed += last.first - self._segments[0].first
            self._segments = [last]
        return last

    # Reading -------------------------------------------------------------------------------------

    def read(self, lo: int, hi: int, bytes_aim: int) -> list[msgspec.Raw]:
        """Events from `lo` on, at most up to `hi`, as many as make up the bytes; GoneError when `lo` was dropped."""
        if not 0 <= lo <= hi <= self.end:
            raise MisuseError(f"events {lo} to {hi} of a log that ends at {self.end}")
        found: list[msgspec.Raw] = []
        size = 0
        for frame, body in self._frames(lo, hi):
            rows = _rows.decode(body)[max(0, lo - frame.first) : hi - frame.first]
            found += rows
            size += len(body)
            if size >= bytes_aim:
                break
        return found

    def pick(self, offsets: Sequence[int]) -> Iterator[tuple[list[tuple[int, msgspec.Raw]], int]]:
        """These events, in ascending order, frame by frame, with the bytes of each frame; GoneError as for `read`."""
        at = 0
        while at < len(offsets):
            near = at + 1
            while near < len(offsets) and offsets[near] - offsets[near - 1] <= _NEAR:
                near += 1
            for frame, body in self._frames(offsets[at], offsets[near - 1] + 1, offsets):
                rows, end = _rows.decode(body), bisect_left(offsets, frame.end, at)
                yield [(offset, rows[offset - frame.first]) for offset in offsets[at:end]], len(body)
                at = end

    def recent_ids(self, bytes_max: int) -> Iterator[tuple[str, int]]:
        """Source and number of the newest events, oldest first: those in the last files that make up so many bytes."""
        size, start = 0, self.end
        for each in reversed(self._segments):
            size += each.size
            if size > bytes_max and start < self.end:
                break
            start = each.first
        for _, body in self._frames(start, self.end):
            for row in _ids.decode(body):
                yield row.source, row.seq

    def _frames(self, lo: int, hi: int, among: Sequence[int] | None = None) -> Iterator[tuple[Frame, bytes]]:
        """The frames that hold events of a range, in order; `among` these alone, of others only the head is read."""
        while lo < hi:
            holder, place, until, next_first = self._place(lo)
            try:
                handle = os.open(holder.path, os.O_RDONLY)
            except FileNotFoundError:
                if holder in self._segments:
                    raise LogDamagedError(f"{holder.path}: the file is missing") from None
                continue  # dropped this very moment; the next look says so
            try:
                for frame in segment.heads(handle, place, until):
                    if frame.end > lo and frame.first < hi:
                        if among is None or bisect_left(among, frame.first) < bisect_left(among, frame.end):
                            yield frame, segment.read_body(handle, frame)
                        lo = frame.end
                    if lo >= hi:
                        return
            except LogDamagedError as problem:
                raise LogDamagedError(f"{holder.path}: {problem}") from None
            finally:
                os.close(handle)
            if lo < next_first:
                raise LogDamagedError(f"{holder.path}: ends before event {lo}; {next_first} begins the next file")

    def _place(self, offset: int) -> tuple[_Segment, int, int, int]:
        """The file that holds an offset, where to look in it, its size, and the first offset behind it."""
        with self._lock:
            at = bisect_right(self._segments, offset, key=lambda each: each.first) - 1
            if at < 0:
                oldest = self._segments[0].first
                raise GoneError(f"event {offset} is no longer in the log, which begins at {oldest}", oldest)
            holder = self._segments[at]
            next_first = self._segments[at + 1].first if at + 1 < len(self._segments) else self.end
            known = holder.place_of(offset)
            size = holder.size
        if not holder.positions:
            known = self._learn(holder, offset)
        return holder, known, size, next_first

    def _learn(self, holder: _Segment, offset: int) -> int:
        """Walk through a file that was written before we started, and remember where things are in it."""
        learnt = _Segment(holder.path, holder.first, holder.size)
        try:
            handle = os.open(holder.path, os.O_RDONLY)
        except FileNotFoundError:
            return segment.HEADER_BYTES
        try:
            for frame in segment.heads(handle, segment.HEADER_BYTES, holder.size):
                learnt.note(frame)
        except LogDamagedError:
            pass  # what comes before the damage can be read; who comes to it is told
        finally:
            os.close(handle)
        with self._lock:
            holder.offsets, holder.positions = learnt.offsets, learnt.positions
            return holder.place_of(offset)

    # Dropping ------------------------------------------------------------------------------------

    def acknowledge(self, reader: str, end: int) -> None:
        with self._lock:
            self._acknowledged[reader] = max(min(end, self.end), self._acknowledged.pop(reader, 0))
            if len(self._acknowledged) > _READERS_MAX:
                del self._acknowledged[next(iter(self._acknowledged))]

    def drop_old(self, now_us: int) -> None:
        """Remove the files that retention no longer allows. The one that is written to stays."""
        oldest_us = now_us - int(self._retention.keep_s * 1e6)
        if self._segments[-1].first < self.end and 0 < self._segments[-1].newest_us < oldest_us:
            self._begin_file(now_us)
        while len(self._segments) > 1 and self._may_go(self._segments[0], oldest_us):
            self._drop_first()

    def _may_go(self, first: _Segment, oldest_us: int) -> bool:
        if self.size > self._retention.keep_bytes:
            return True
        # A file ends, at the latest, when the next one is made.
        newest_us = first.newest_us or segment.read_header(self._segments[1].path).made_us
        if newest_us < oldest_us:
            return True
        with self._lock:
            known = self._acknowledged.values()
            return self._retention.drop_acknowledged and bool(known) and min(known) >= self._segments[1].first

    def _drop_first(self) -> None:
        with self._lock:
            gone = self._segments.pop(0)
            seen = max(self._acknowledged.values(), default=0)
            self.dropped_unread += max(0, self._segments[0].first - max(gone.first, seen))
        gone.path.unlink(missing_ok=True)
        segment.sync_folder(self._folder)


def id_in(folder: Path) -> str | None:
    """Of the log that a folder holds; None where there is none."""
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    return segment.read_header(paths[0]).log if paths else None


def _found(path: Path, id_: str) -> _Segment:
    header = segment.read_header(path)
    if header.log != id_:
        raise LogDamagedError(f"{path}: belongs to another log ({header.log}, this is {id_})")
    if path.name != segment.path_of(path.parent, header.first).name:
        raise LogDamagedError(f"{path}: begins with event {header.first}, which does not agree with its name")
    return _Segment(path, header.first, path.stat().st_size)


def _write_all(handle: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(handle, view, at)
        view, at = view[done:], at + done


def _array_head(length: int) -> bytes:
    return b"\xdd" + length.to_bytes(4, "big")
