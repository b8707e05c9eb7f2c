"""LIKE patterns: their one spelling, matching without backtracking, and which pattern implies which.

A pattern is kept as text in which `%` and `_` are the wildcards and `!` escapes a literal `%`, `_` or `!`,
whatever escape character the author chose. It splits at `%` into segments. The first segment is anchored
at the start, the last at the end, and each one between is found at its leftmost place, which is never
worse than any other choice: so one pass over the text decides, and nothing is ever tried again.
"""

import re
from collections.abc import Callable
from typing import cast

from holdfast.language.bounded_cache import Remembering

ESCAPE = "!"
_ANY = None  # a `_` inside a segment

_WILD = re.compile("[%_!]")

Segment = tuple[str | None, ...]
Test = Callable[[str], bool]


def pattern_from(text: str, escape: str | None) -> str:
    """The canonical spelling of a pattern; raises ValueError on a dangling or useless escape."""
    out: list[str] = []
    characters = iter(text)
    for c in characters:
        if c == escape:
            c = next(characters, "")
            if c not in ("%", "_", escape):
                raise ValueError
            out.append(ESCAPE + c if c in ("%", "_", ESCAPE) else c)
        elif c == ESCAPE:
            out.append(ESCAPE + ESCAPE)
        elif c == "%" and out[-1:] == ["%"]:
            pass  # '%%' is '%'
        else:
            out.append(c)
    return "".join(out)


def pattern_text(pattern: str) -> tuple[str, bool]:
    """The pattern as it is printed, and whether it needs ESCAPE '!'."""
    if f"{ESCAPE}%" in pattern.replace(ESCAPE * 2, "") or f"{ESCAPE}_" in pattern.replace(ESCAPE * 2, ""):
        return pattern, True
    return pattern.replace(ESCAPE * 2, ESCAPE), False


def segments(pattern: str) -> list[Segment]:
    """The pattern split at `%`: one segment more than there are `%`."""
    if ESCAPE not in pattern:
        return [_segment(part) for part in pattern.split("%")]
    parts: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for c in characters:
        if c == "%":
            parts.append([])
        elif c == "_":
            parts[-1].append(_ANY)
        else:
            parts[-1].append(next(characters) if c == ESCAPE else c)
    return [tuple(part) for part in parts]


def _segment(text: str) -> Segment:
    return tuple([_ANY if c == "_" else c for c in text]) if "_" in text else tuple(text)


def plain(segment: Segment) -> str | None:
    """The segment as text, or None when it has a `_`."""
    return None if _ANY in segment else "".join(cast(tuple[str, ...], segment))


def exact_text(pattern: str) -> str | None:
    """The only text the pattern matches, when there is just one."""
    parts = segments(pattern)
    return plain(parts[0]) if len(parts) == 1 else None


def prefix_text(pattern: str) -> str | None:
    """'abc' for 'abc%', None for any other shape."""
    if pattern[-1:] != "%":
        return None
    if _WILD.search(pattern, 0, len(pattern) - 1) is None:  # nearly always
        return pattern[:-1] or None
    parts = segments(pattern)
    return plain(parts[0]) if len(parts) == 2 and not parts[1] and parts[0] else None


def longest_gapped(pattern: str) -> int:
    """The most characters between two `%` among which there is a `_`: what such a search takes time by."""
    if "_" not in pattern:
        return 0
    return max([len(part) for part in segments(pattern)[1:-1] if _ANY in part], default=0)


def _like_test(pattern: str) -> Test:
    prefix = prefix_text(pattern)
    if prefix is not None:
        return lambda text: text.startswith(prefix)
    parts = segments(pattern)
    first, last = plain(parts[0]), plain(parts[-1])
    middle = [plain(part) for part in parts[1:-1]]
    if len(parts) == 2 and first is not None and last is not None:
        if not first:
            return lambda text: text.endswith(last)
        shortest = len(first) + len(last)
        return lambda text: len(text) >= shortest and text.startswith(first) and text.endswith(last)
    if len(parts) == 3 and first == "" and last == "" and middle[0]:
        needle = middle[0]
        return lambda text: needle in text
    return lambda text: _fits(parts, text)


def _sized_test(pattern: str) -> tuple[Test, int]:
    return _like_test(pattern), 400 + 16 * len(pattern)


like_test = Remembering(_sized_test, bytes_max=2**26)
"""A function that says whether a text matches a pattern; its time is linear in the text.

The same patterns are asked for over and over; there is room for a hundred thousand short ones.
"""


def _fits(parts: list[Segment], text: str) -> bool:
    head, tail = parts[0], parts[-1]
    if len(parts) == 1:
        return len(text) == len(head) and _matches_at(head, text, 0)
    if len(text) < len(head) + len(tail) or not _matches_at(head, text, 0):
        return False
    end = len(text) - len(tail)
    if not _matches_at(tail, text, end):
        return False
    at = len(head)
    for part in parts[1:-1]:
        at = _find(part, text, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def _matches_at(segment: Segment, text: str, at: int) -> bool:
    return all(c is _ANY or c == text[at + i] for i, c in enumerate(segment))


def _find(segment: Segment, text: str, at: int, end: int) -> int:
    needle = plain(segment)
    if needle is not None:
        return text.find(needle, at, end)
    # Bit i of `begun` says that the characters read last are the segment's first i + 1 (Baeza-Yates and Gonnet).
    fits, fits_any = _places(segment)
    begun, complete = 0, 1 << (len(segment) - 1)
    for i in range(at, end):
        begun = (begun << 1 | 1) & fits.get(text[i], fits_any)
        if begun & complete:
            return i + 1 - len(segment)
    return -1


def _work_out_places(segment: Segment) -> tuple[tuple[dict[str, int], int], int]:
    fits_any = sum(1 << i for i, c in enumerate(segment) if c is _ANY)
    fits: dict[str, int] = {}
    for i, c in enumerate(segment):
        if c is not _ANY:
            fits[c] = fits.get(c, fits_any) | 1 << i
    return (fits, fits_any), (len(fits) + 2) * (100 + len(segment) // 8)


_places = Remembering(_work_out_places, bytes_max=2**24)
"""For each character the places in a segment where it may stand, one bit each; and those of any other one."""


def implies(narrow: str, wide: str) -> bool:
    """Whether every text that matches `narrow` surely matches `wide` (sound, not complete).

    `narrow` is read as a text whose wildcards are characters of their own: its `%` can only be swallowed by
    a `%` of `wide`, its `_` also by a `_`.
    """
    if narrow == wide:
        return True
    run, one = "\U000f0000", "\U000f0001"  # private-use: refused below if a pattern contains them itself
    if run in narrow + wide or one in narrow + wide:
        return False
    symbols = run.join("".join(one if c is _ANY else c for c in part) for part in segments(narrow))
    parts = segments(wide)
    if any(_ANY in part for part in parts) and run in symbols:
        return False  # `_` must not swallow the stand-in for a whole run
    return _fits(parts, symbols)
