"""What each process writes down, one JSON object a line, and how it is read again.

A line is written with one system call, so it survives the process the moment the call returns: `kill -9` can lose the
line that was about to be written and nothing before it. Times are microseconds of the machine's monotonic clock, which
all processes share, whatever the clocks of the nodes under test say.
"""

import json
import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from time import monotonic_ns
from typing import Any
from zlib import crc32

Line = dict[str, Any]


def now_us() -> int:
    return monotonic_ns() // 1_000


class JournalWriter:
    """The journal of one process; a file of its own, because each life of a process has one."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, kind: str, /, **fields: Any) -> None:
        self.write_all([{"k": kind, "t": now_us(), **fields}])

    def write_all(self, lines: Iterable[Line]) -> None:
        os.write(self._file, "".join([json.dumps(line, default=_plain) + "\n" for line in lines]).encode())

    def close(self) -> None:
        os.close(self._file)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return {"$timestamp": value.isoformat()}
    raise TypeError(f"{type(value).__name__} does not go into a journal")


def fingerprint(event: object) -> int:
    """The same for equal attributes, whatever their order; what arrives is compared with what was published."""
    return crc32(json.dumps(event, sort_keys=True, default=_plain).encode())


def lines_of(path: Path) -> Iterator[Line]:
    """The lines of a journal; the last one may be cut short by a kill, and is then left out."""
    with open(path, encoding="utf-8") as file:
        for text in file:
            if text.endswith("\n"):
                yield json.loads(text)
