"""Regular expressions, by RE2: its time is linear in the text, whatever the pattern.

Linear is not yet bounded: in the worst case each byte of the text meets each instruction of the compiled pattern, at
about 20 ns. So both have a limit, and a text past its own is unknown. A compiled pattern may also take memory while it
matches, so patterns are kept in a cache that is bounded by bytes, and found there by their text.

RE2 is a package of its own (`google-re2`, the extra `regex`). A broker without it still takes such conditions: it
passes on whatever meets the rest, and the subscriber, who has the package, asks again.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from holdfast.language.bounded_cache import Remembering
from holdfast.language.limits import REGEXP_CHARACTERS_MAX, REGEXP_PROGRAM_MAX, REGEXP_TEXT_BYTES_MAX

_MEMORY_BYTES = 2**18  # of one pattern, compiled and while it matches: ten times what the largest program takes
_CACHE_BYTES = 2**27  # 512 patterns at their most

Search = Callable[[str], bool | None]


@cache
def available() -> bool:
    try:
        import re2  # noqa: F401, PLC0415 - a package of the extra `regex`
    except ModuleNotFoundError:
        return False
    return True


def problem_with(pattern: str) -> str:
    """What is wrong with a pattern; nothing if it can be used."""
    import re2  # noqa: PLC0415

    if len(pattern) > REGEXP_CHARACTERS_MAX:
        return f"this pattern has {len(pattern):,} characters; the limit is {REGEXP_CHARACTERS_MAX:,}"
    try:
        size = _compiled(pattern).programsize
    except re2.error as problem:
        said = problem.args[0] if problem.args else ""
        said = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        return f"RE2 does not read this pattern: {said}"[:200]
    if size > REGEXP_PROGRAM_MAX:
        return f"this pattern compiles to {size:,} instructions; the limit is {REGEXP_PROGRAM_MAX}"
    return ""


def program_size(pattern: str) -> int:
    return int(_compiled(pattern).programsize)


def _compiled(pattern: str) -> Any:
    import re2  # noqa: PLC0415

    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    options.never_capture = True
    options.log_errors = False
    return re2.compile(pattern, options)


class _Searching:
    """One pattern. The last answer is kept: the filters of one condition ask the same of one event."""

    __slots__ = ("_answer", "_search", "_text")

    def __init__(self, search: Callable[[str], object]) -> None:
        self._search = search
        self._text: str | None = None
        self._answer: bool | None = None

    def __call__(self, text: str) -> bool | None:
        if text is self._text:
            return self._answer
        answer: bool | None = None
        if len(text) <= REGEXP_TEXT_BYTES_MAX and (
            text.isascii() or len(text.encode("utf-8", "surrogatepass")) <= REGEXP_TEXT_BYTES_MAX
        ):
            try:
                answer = self._search(text) is not None
            except UnicodeEncodeError:  # a lone surrogate is no text
                answer = None
        self._text, self._answer = text, answer
        return answer


def _remembered(pattern: str) -> tuple[Search, int]:
    return _Searching(_compiled(pattern).search), _MEMORY_BYTES


searching = Remembering(_remembered, bytes_max=_CACHE_BYTES)
"""A function that says whether a pattern occurs in a text; None for a text past its limit."""
