"""The texts of many conditions in little memory: compressed, a thousand together.

A compiled image answers without them. They are needed when a level is compiled anew, and to save a matcher; as Python
objects, filters of ten ranges take twenty times as much. What texts do not share with each other are mostly their
numbers. So these are taken out and kept by their bytes, all lowest ones first, because a digit takes more than half of
what a byte of a number does.
"""

import re
from collections.abc import Iterator
from zlib import compress, decompress

import numpy as np

_TOGETHER = 1_024  # texts of a piece: some 0.3 MB, which takes a few milliseconds to unpack
_SEPARATOR, _NUMBER = "\0", "\1"  # in a condition they would stand in a string, which is checked
_MARKS = {"\\": "\\\\", _SEPARATOR: "\\0", _NUMBER: "\\1"}
_PLAIN = {escaped: mark for mark, escaped in _MARKS.items()}
_MARK, _ESCAPED = re.compile(r"[\\\0\1]"), re.compile(r"\\[\\01]")
_DIGITS = re.compile(r"(?<!\d)([1-9]\d{0,8})(?!\d)", re.ASCII)  # of four bytes, of which `str` makes them again
_LEVEL = 1  # the quickest: higher ones save a tenth more


class Archive:
    """Texts by number, in the order in which they came."""

    def __init__(self) -> None:
        self._pieces: list[tuple[bytes, bytes]] = []
        self._open: list[str] = []
        self._unpacked: tuple[int, list[str]] = -1, []

    def __len__(self) -> int:
        return _TOGETHER * len(self._pieces) + len(self._open)

    def add(self, text: str) -> None:
        self._open.append(text)
        if len(self._open) == _TOGETHER:
            self._pieces.append(_packed(self._open))
            self._open = []

    def __getitem__(self, number: int) -> str:
        return self._piece(number // _TOGETHER)[number % _TOGETHER]

    def __iter__(self) -> Iterator[str]:
        for at in range(len(self._pieces) + 1):
            yield from self._piece(at)

    def _piece(self, at: int) -> list[str]:
        if at == len(self._pieces):
            return self._open
        if self._unpacked[0] != at:
            self._unpacked = at, _unpacked(*self._pieces[at])
        return self._unpacked[1]


def _packed(texts: list[str]) -> tuple[bytes, bytes]:
    """The texts without their numbers, and these."""
    together = _SEPARATOR.join([_MARK.sub(lambda found: _MARKS[found[0]], each) for each in texts])
    parts = _DIGITS.split(together)
    numbers = np.array(list(map(int, parts[1::2])), "<u4")
    by_bytes = numbers.view(np.uint8).reshape(-1, 4).T.tobytes()
    return compress(_NUMBER.join(parts[::2]).encode(), _LEVEL), compress(by_bytes, _LEVEL)


def _unpacked(texts: bytes, numbers: bytes) -> list[str]:
    by_bytes = np.frombuffer(decompress(numbers), np.uint8).reshape(4, -1)
    digits = map(str, np.ascontiguousarray(by_bytes.T).view("<u4").reshape(-1).tolist())
    between = decompress(texts).decode().split(_NUMBER)
    together = between[0] + "".join([part for pair in zip(digits, between[1:], strict=True) for part in pair])
    return [_ESCAPED.sub(lambda found: _PLAIN[found[0]], each) for each in together.split(_SEPARATOR)]
