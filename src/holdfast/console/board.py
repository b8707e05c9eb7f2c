"""What pages show, as small entries by key, and what has changed since a page last heard.

Each entry has the version at which it last changed. A page that asks for everything since the version it knows gets
each entry once, however often it has changed meanwhile. So a page that reads slowly is sampled, and nothing is kept
for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Entry = dict[str, Any]

_REMEMBERED = 300  # versions for which a removed entry is told: a page that is farther behind gets everything anew


@dataclass(frozen=True)
class Changes:
    version: int
    whole: bool  # what is not among the entries does not exist
    entries: dict[str, Entry | None]  # None: it is gone
    skipped: int  # versions that the page has not seen in between


class Board:
    def __init__(self) -> None:
        self.version = 0
        self._entries: dict[str, tuple[int, Entry]] = {}
        self._removed: dict[str, int] = {}  # the earliest first

    def advance(self) -> None:
        """What is put from now on is news to everybody."""
        self.version += 1
        while self._removed:
            key = next(iter(self._removed))
            if self._removed[key] > self.version - _REMEMBERED:
                break
            del self._removed[key]

    def put(self, key: str, entry: Entry) -> None:
        known = self._entries.get(key)
        if known is None or known[1] != entry:
            self._entries[key] = self.version, entry
            self._removed.pop(key, None)

    def remove(self, key: str) -> None:
        if self._entries.pop(key, None) is not None:
            self._removed[key] = self.version

    def get(self, key: str) -> Entry | None:
        found = self._entries.get(key)
        return None if found is None else found[1]

    def keys(self, prefix: str) -> Iterator[str]:
        return (key for key in list(self._entries) if key.startswith(prefix))

    def since(self, version: int | None) -> Changes:
        """What a page has to know that knows this version; without one, everything."""
        whole = version is None or version > self.version or version < self.version - _REMEMBERED
        known = -1 if whole or version is None else version
        entries: dict[str, Entry | None] = {key: entry for key, (at, entry) in self._entries.items() if at > known}
        if not whole:
            entries |= {key: None for key, at in self._removed.items() if at > known}
        return Changes(self.version, whole, entries, 0 if whole else max(0, self.version - known - 1))
