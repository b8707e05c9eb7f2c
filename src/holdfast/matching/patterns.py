"""Many LIKE patterns, one text: which of them match?

A pattern is filed under a piece of literal text that it needs, with the place where it needs it: its beginning,
its end, or the first three characters of its longest literal segment anywhere. A text looks up its
own beginnings, ends and windows and tests only what it finds there, so the cost follows the length of the
text and not the number of patterns. Where pieces are few, each is looked for in the text instead. A pattern without
any literal character is always tested.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Generic, TypeVar

from holdfast.language.like import Test, like_test, plain, prefix_text, segments

T = TypeVar("T")

_SOUGHT_MAX = 100  # pieces: to look for so many in a text takes as long as to cut it into windows, however long it is
_GRAM = 3  # characters a pattern is filed under when it floats: 3 tell words apart, more would miss short ones
_START, _END, _INSIDE = range(3)

_Shelf = tuple[int, int]  # the place in the text, and how many characters to look up there


class PatternMap(Generic[T]):
    """A map from patterns to values that is asked with a text."""

    def __init__(self) -> None:
        # Piece -> pattern -> its test and its value; empty when there is no pattern.
        self.shelves: dict[_Shelf, dict[str, dict[str, tuple[Test, T]]]] = {}

    def __bool__(self) -> bool:
        return bool(self.shelves)

    def get(self, pattern: str) -> T | None:
        shelf, piece = _filed_under(pattern)
        found = self.shelves.get(shelf, {}).get(piece, {}).get(pattern)
        return None if found is None else found[1]

    def put(self, pattern: str, value: T) -> None:
        shelf, piece = _filed_under(pattern)
        self.shelves.setdefault(shelf, {}).setdefault(piece, {})[pattern] = like_test(pattern), value

    def pop(self, pattern: str) -> None:
        shelf, piece = _filed_under(pattern)
        pieces = self.shelves[shelf]
        del pieces[piece][pattern]
        if not pieces[piece]:
            del pieces[piece]
        if not pieces:
            del self.shelves[shelf]

    def items(self) -> Iterator[tuple[str, T]]:
        for pieces in self.shelves.values():
            for patterns in pieces.values():
                yield from ((pattern, value) for pattern, (_, value) in patterns.items())

    def matching(self, text: str) -> list[T]:
        found: list[T] = []
        for (place, size), pieces in self.shelves.items():
            for piece in _pieces(text, place, size, pieces):
                candidates = pieces.get(piece)
                if candidates is not None:
                    found += [value for test, value in candidates.values() if test(text)]
        return found


def _pieces(text: str, place: int, size: int, known: Collection[str]) -> Iterable[str]:
    """Where the text has them, the pieces that patterns are filed under; and perhaps others."""
    if place == _START:
        return (text[:size],)
    if place == _END:
        return (text[-size:],)
    if size == 0:
        return ("",)
    if len(known) <= _SOUGHT_MAX:
        return [piece for piece in known if piece in text]
    # A dict, not a set: the order of the answer must not depend on the process's hash seed.
    return dict.fromkeys(text[i : i + size] for i in range(len(text) - size + 1))


def _filed_under(pattern: str) -> tuple[_Shelf, str]:
    start = prefix_text(pattern)
    if start:
        return (_START, len(start)), start
    parts = segments(pattern)
    end = plain(parts[-1])
    if len(parts) == 2 and not parts[0] and end:
        return (_END, len(end)), end
    pieces = [piece for part in parts for piece in "".join(c or "\0" for c in part).split("\0")]
    gram = max(pieces, key=len)[:_GRAM]
    return (_INSIDE, len(gram)), gram
