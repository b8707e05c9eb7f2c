"""The texts of many conditions in little memory: compressed, a thousand together.

A compiled image answers without them. They are needed when a level is compiled anew, and to save a matcher; as Python
objects, filters of ten ranges take twenty times as much.
"""

from collections.abc import Iterator
from zlib import compress, decompress

_TOGETHER = 1_024  # texts of a piece: some 0.3 MB, which takes a millisecond to unpack
_SEPARATOR = "\0"  # in a condition it would stand in a string, which is checked
_LEVEL = 1  # the quickest: higher ones save a tenth more


class Archive:
    """Texts by number, in the order in which they came."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._open: list[str] = []
        self._unpacked: tuple[int, list[str]] = -1, []

    def __len__(self) -> int:
        return _TOGETHER * len(self._pieces) + len(self._open)

    def add(self, text: str) -> None:
        self._open.append(text.replace("\\", "\\\\").replace(_SEPARATOR, "\\0"))
        if len(self._open) == _TOGETHER:
            self._pieces.append(compress(_SEPARATOR.join(self._open).encode(), _LEVEL))
            self._open = []

    def __getitem__(self, number: int) -> str:
        return self._piece(number // _TOGETHER)[number % _TOGETHER]

    def __iter__(self) -> Iterator[str]:
        for at in range(len(self._pieces) + 1):
            yield from self._piece(at)

    def _piece(self, at: int) -> list[str]:
        if at == len(self._pieces):
            return [_plain(each) for each in self._open]
        if self._unpacked[0] != at:
            texts = decompress(self._pieces[at]).decode().split(_SEPARATOR)
            self._unpacked = at, [_plain(each) for each in texts]
        return self._unpacked[1]


def _plain(text: str) -> str:
    if "\\" not in text:
        return text
    return "\\".join(each.replace("\\0", _SEPARATOR) for each in text.split("\\\\"))
