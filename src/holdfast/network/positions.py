"""On which line of a TOML text does a key stand? tomllib does not say.

The text has passed tomllib, so this only has to find its way, not to judge: it steps over strings, comments
and numbers and writes down the line where each key, table and item of a list begins.
"""

import re
import tomllib
from bisect import bisect_right

from holdfast.network.problems import KeyPath

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*""")
_VALUE = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'  # the text itself may end with one or two quotes
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|[^,\]}#\n]*",
    re.DOTALL,
)


def lines_of(text: str) -> dict[KeyPath, int]:
    """The line, counted from 1, of every key path of a valid TOML text."""
    return _Scanner(text).document()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._breaks = [found.start() for found in re.finditer("\n", text)]
        self._lines: dict[KeyPath, int] = {}
        self._entries: dict[KeyPath, int] = {}  # how many [[tables]] of each name there are so far

    def document(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self._space()
        while self._at < len(self._text):
            if self._took("[["):
                table = self._entry(self._keys())
                self._took("]]")
            elif self._took("["):
                table = self._inside(self._keys())
                self._took("]")
            else:
                self._pair(table)
            self._space()
        return self._lines

    def _entry(self, keys: list[str]) -> KeyPath:
        path = (*self._inside(keys[:-1]), keys[-1])
        number = self._entries.get(path, 0)
        self._entries[path] = number + 1
        return self._mark(path, (number,))

    def _inside(self, keys: list[str]) -> KeyPath:
        """The table of that name; in a list of tables it is the last one so far."""
        path: KeyPath = ()
        for key in keys:
            path = self._mark(path, (key,))
            if path in self._entries:
                path = (*path, self._entries[path] - 1)
        return path

    def _mark(self, path: KeyPath, more: KeyPath) -> KeyPath:
        line = bisect_right(self._breaks, self._at - 1) + 1
        for each in more:
            self._lines.setdefault(path, line)
            path = (*path, each)
        self._lines.setdefault(path, line)
        return path

    def _pair(self, table: KeyPath) -> None:
        self._space()
        path = self._mark(table, tuple(self._keys()))
        self._took("=")
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        self._space()
        if self._took("["):
            number = 0
            while not self._closed("]"):
                self._mark(path, (number,))
                self._value((*path, number))
                number += 1
        elif self._took("{"):
            while not self._closed("}"):
                self._pair(path)
        else:
            self._at = self._match(_VALUE).end()

    def _closed(self, bracket: str) -> bool:
        self._space()
        self._took(",")
        self._space()
        return self._took(bracket) or self._at >= len(self._text)

    def _keys(self) -> list[str]:
        keys = []
        while True:
            found = self._match(_KEY)
            self._at = found.end()
            key = found[1]
            keys.append(tomllib.loads(f"k = {key}")["k"] if key[0] in "\"'" else key)
            if not self._took("."):
                return keys

    def _space(self) -> None:
        self._at = self._match(_SPACE).end()

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        assert found is not None  # tomllib has read this text
        return found

    def _took(self, word: str) -> bool:
        if not self._text.startswith(word, self._at):
            return False
        self._at += len(word)
        return True
