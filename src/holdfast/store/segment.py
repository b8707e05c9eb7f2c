"""One file of a log: a header, then frames of events, each with its length and a checksum.

A frame is what one write appended, and it is on disk before the next is written. So after a crash only the last frame
can be incomplete: whatever is broken at the very end is the torn tail of that write and may be cut off, since nobody
was ever told of it. A broken frame with a good one after it is damage, and then nothing is touched. A frame's head has
a checksum of its own, so that a damaged length is not taken for a frame that was cut short.

Why files of our own and not SQLite, which keeps the ledger of publications: here events are only ever appended, read
in order and dropped from the front. Dropping is the removal of a file, with no pages to collect, and a row costs no
key and no second copy in a journal.
"""

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from holdfast.model.errors import InputError

FORMAT = 1
SUFFIX = ".events"

_MAGIC = b"HOLDFLOG"
_HEADER = struct.Struct("<8sHH32sQQ")  # magic, format, nothing, id of the log, first offset, when it was made
_CHECK = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CHECK.size
_FRAME_MAGIC = b"HfE\x01"
_FRAME = struct.Struct("<4sIQIQI")  # magic, bytes of the body, first offset, events, when written, the body's checksum
FRAME_HEAD_BYTES = _FRAME.size + _CHECK.size  # and the head's own
BODY_BYTES_MAX = 16 * 2**20  # a length beyond this is no length


class LogDamagedError(InputError):
    """A file of the log does not hold what was written to it, or was written by a newer version."""


@dataclass(frozen=True)
class Header:
    log: str
    first: int
    made_us: int


@dataclass(frozen=True)
class Frame:
    at: int  # the position of its head in the file
    body_bytes: int
    first: int  # offset of its first event
    count: int
    written_us: int
    check: int  # of its body

    @property
    def end(self) -> int:
        """The offset behind its last event."""
        return self.first + self.count

    @property
    def next_at(self) -> int:
        return self.at + FRAME_HEAD_BYTES + self.body_bytes


def path_of(folder: Path, first: int) -> Path:
    return folder / f"{first:020}{SUFFIX}"


def make(folder: Path, log: str, first: int, now_us: int) -> Path:
    """A new file without events. It appears whole or not at all."""
    path = path_of(folder, first)
    unfinished = path.with_suffix(".unfinished")
    head = _HEADER.pack(_MAGIC, FORMAT, 0, log.encode(), first, now_us)
    with open(unfinished, "wb") as file:
        file.write(head + _CHECK.pack(crc32(head)))
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    sync_folder(folder)
    return path


def sync_folder(folder: Path) -> None:
    """What was made, renamed or removed in a folder is so even after a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_header(path: Path) -> Header:
    with open(path, "rb") as file:
        data = file.read(HEADER_BYTES)
    if len(data) < HEADER_BYTES or not data.startswith(_MAGIC):
        raise LogDamagedError(f"{path}: not a file of a log, or its beginning is damaged")
    _, version, _, log, first, made_us = _HEADER.unpack_from(data)
    if version > FORMAT:
        raise LogDamagedError(f"{path}: written in format {version}, this version reads {FORMAT}; use a newer Holdfast")
    if _CHECK.unpack_from(data, _HEADER.size)[0] != crc32(data[: _HEADER.size]) or version != FORMAT:
        raise LogDamagedError(f"{path}: the beginning of the file is damaged")
    return Header(log.rstrip(b"\0").decode(errors="replace"), first, made_us)


def frame_bytes(first: int, count: int, now_us: int, body: bytes) -> bytes:
    head = _FRAME.pack(_FRAME_MAGIC, len(body), first, count, now_us, crc32(body))
    return b"".join((head, _CHECK.pack(crc32(head)), body))


def heads(handle: int, at: int, until: int) -> Iterator[Frame]:
    """The frames from a position on, without a look at what is in them; the caller knows that they are there."""
    while at < until:
        frame = _head(os.pread(handle, FRAME_HEAD_BYTES, at), at)
        if frame is None or frame.next_at > until:
            raise LogDamagedError(f"damaged at byte {at}")
        yield frame
        at = frame.next_at


def read_body(handle: int, frame: Frame) -> bytes:
    """What is in a frame, checked."""
    body = os.pread(handle, frame.body_bytes, frame.at + FRAME_HEAD_BYTES)
    if crc32(body) != frame.check:
        raise LogDamagedError(f"damaged at byte {frame.at}")
    return body


@dataclass(frozen=True)
class SegmentCheck:
    """The good frames of a file, and how many bytes of a torn one lie behind them."""

    frames: list[Frame]
    end: int  # the position behind the last good frame
    torn_bytes: int


def check(path: Path, first: int) -> SegmentCheck:
    """Look at all of a file whose last write may have been cut short; LogDamagedError when more is wrong than that."""
    frames: list[Frame] = []
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at, size = HEADER_BYTES, len(data)
        while at < size:
            frame = _good_frame(data, at)
            if frame is None:
                break
            if frame.first != first:
                raise LogDamagedError(f"{path}: event {frame.first} at byte {at}, where {first} should be")
            frames.append(frame)
            at, first = frame.next_at, frame.end
        beyond = None if at == size or _reaches_the_end(data, at) else _next_good(data, at)
    if beyond is not None:
        raise LogDamagedError(f"{path}: damaged at byte {at}, with events behind it at byte {beyond}")
    return SegmentCheck(frames, at, size - at)


def _reaches_the_end(data: mmap.mmap, at: int) -> bool:
    """Whether a frame that is not good is the last write: its head is incomplete, or its body goes to the end."""
    frame = _head(data[at : at + FRAME_HEAD_BYTES], at)
    return len(data) - at < FRAME_HEAD_BYTES if frame is None else frame.next_at >= len(data)


def _next_good(data: mmap.mmap, at: int) -> int | None:
    """Where a good frame begins at or after a position."""
    while (at := data.find(_FRAME_MAGIC, at)) >= 0:
        if _good_frame(data, at) is not None:
            return at
        at += 1
    return None


def _good_frame(data: mmap.mmap, at: int) -> Frame | None:
    frame = _head(data[at : at + FRAME_HEAD_BYTES], at)
    if frame is None or frame.next_at > len(data):
        return None
    return frame if crc32(data[at + FRAME_HEAD_BYTES : frame.next_at]) == frame.check else None


def _head(data: bytes, at: int) -> Frame | None:
    """A frame's head; None when it is incomplete or not one."""
    if len(data) < FRAME_HEAD_BYTES or not data.startswith(_FRAME_MAGIC):
        return None
    if _CHECK.unpack_from(data, _FRAME.size)[0] != crc32(data[: _FRAME.size]):
        return None
    frame = Frame(at, *_FRAME.unpack_from(data)[1:])
    return frame if frame.body_bytes <= BODY_BYTES_MAX else None
