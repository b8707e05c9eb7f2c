"""A network file as read but not yet understood: its data, its text for line numbers, and settings put on top.

`with_settings` changes single values by their dotted key, `links.loss` or `fault.0.at_s`; `--set` and sweeps use it.
A value from `--set` is TOML, and a bare word stands for itself, because shells take the quotes off.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.model.errors import InputError
from holdfast.network.keys.root import ROOT
from holdfast.network.limits import FILE_BYTES_MAX
from holdfast.network.positions import lines_of
from holdfast.network.problems import FileProblem, KeyPath, NetworkError, Place
from holdfast.network.tables import complaint_about
from holdfast.network.writing import to_toml

_WORD = re.compile(r"[A-Za-z][\w.-]*(?:(?:\+\w+)?://[^\s\"'\\]+)?")  # a name, or an address
_ERROR_LINE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


@dataclass(frozen=True)
class Document:
    name: str = "network"
    data: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    folder: Path = Path()  # where files that the document names are looked for
    settings: tuple[KeyPath, ...] = ()  # what was changed since the text was read

    @property
    def title(self) -> str:
        return Path(self.name).stem

    def toml(self) -> str:
        return to_toml(self.data) if self.settings else self.text

    def place(self, path: KeyPath) -> Place:
        """The line of a key, or of the nearest table around it that the text shows."""
        if any(path[: len(each)] == each or each[: len(path)] == path != () for each in self.settings):
            return Place(None, by_setting=True)
        for length in range(len(path), 0, -1):
            if path[:length] in self._lines:
                return Place(self._lines[path[:length]])
        return Place(None)

    @cached_property
    def _lines(self) -> dict[KeyPath, int]:
        try:
            return lines_of(self.text)
        except RecursionError:  # lists in lists in lists, which no key takes anyway
            return {}


def read(path: str | Path) -> Document:
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        hint = "; holdfast init writes one" if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"{path}: cannot be read ({error.strerror or error}){hint}") from None
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); TOML is written in UTF-8") from None
    return replace(document_of(text, str(path)), folder=path.parent)


def document_of(source: str | Mapping[str, Any] | Document, name: str = "network") -> Document:
    if isinstance(source, Document):
        return source
    if not isinstance(source, str):
        source = to_toml(source)  # and back, so that problems have lines in a text that can be looked at
    if len(source) > FILE_BYTES_MAX:
        size = f"{len(source):,} characters; the limit is {FILE_BYTES_MAX:,}"
        raise NetworkError(
            name, [FileProblem("", size, 'put events and conditions into files: workload.kind = "files"')]
        )
    source = source.replace("\r\n", "\n")
    try:
        return Document(name, tomllib.loads(source), source)
    except tomllib.TOMLDecodeError as error:
        raise NetworkError(name, [_not_toml(str(error), source)]) from None
    except RecursionError:
        raise NetworkError(name, [FileProblem("", "nested too deep")]) from None
    except ValueError as error:  # an integer with thousands of digits
        raise NetworkError(name, [FileProblem("", f"not TOML: {error}")]) from None


def _not_toml(message: str, text: str) -> FileProblem:
    found = _ERROR_LINE.fullmatch(message)
    if found is None:
        return FileProblem("", f"not TOML: {message}")
    line = int(found[2])
    shown = text.split("\n")[line - 1].strip()[:80]
    hint = 'texts stand in quotes, as in routing = "subscriptions"' if "Invalid value" in message else ""
    return FileProblem("", f"not TOML: {found[1]} at column {found[3]} of: {shown}", hint, line)


def with_settings(source: str | Mapping[str, Any] | Document, settings: Mapping[str, object]) -> Document:
    """The document with single values changed; the keys are dotted, as in `links.loss`."""
    document = document_of(source)
    data, changed, problems = deepcopy(dict(document.data)), [], []
    for key, value in settings.items():
        complaint = complaint_about(ROOT, key)
        if not complaint:
            path, complaint = _put(data, key, value)
            changed.append(path)
        if complaint:
            problems.append(FileProblem(key, complaint, by_setting=True))
    if problems:
        raise NetworkError(document.name, problems)
    return replace(document, data=data, settings=(*document.settings, *changed))


def _put(data: Any, key: str, value: object) -> tuple[KeyPath, str]:
    path: KeyPath = ()
    *tables, last = key.split(".")
    for name in tables:
        if isinstance(data, dict):
            path, data = (*path, name), data.setdefault(name, {})
        elif _is_position(data, name):
            path, data = (*path, int(name)), data[int(name)]
        else:
            return path, _not_there(path, data, name)
    if isinstance(data, dict):
        data[last] = value
        return (*path, last), ""
    if _is_position(data, last):
        data[int(last)] = value
        return (*path, int(last)), ""
    return path, _not_there(path, data, last)


def _is_position(data: object, name: str) -> bool:
    return isinstance(data, list) and name.isascii() and name.isdigit() and int(name) < len(data)


def _not_there(path: KeyPath, data: object, name: str) -> str:
    table = ".".join(map(str, path))
    if isinstance(data, list):
        return f"{table} is a list of {len(data)}, counted from 0; there is no {name} in it"
    return f"{table} is a single value; there is no {name} in it"


def settings_from(words: Iterable[str]) -> dict[str, object]:
    """What `--set key=value` says, given several times."""
    found: dict[str, object] = {}
    problems = []
    for word in words:
        key, equals, text = word.partition("=")
        key = key.strip()
        if not equals or not key:
            problems.append(FileProblem(word, "expected key=value", "such as links.loss=0.05", by_setting=True))
            continue
        try:
            found[key] = _setting(text.strip())
        except (ValueError, RecursionError):
            hint = "numbers, true, false, [lists] and texts in quotes are"
            problems.append(FileProblem(key, f"{text.strip()!r} is not a TOML value", hint, by_setting=True))
    if problems:
        raise NetworkError("command line", problems)
    return found


def _setting(text: str) -> object:
    if _WORD.fullmatch(text) and text not in ("true", "false", "inf", "nan"):
        return text
    if "\n" in text:
        raise ValueError(text)  # more than one value
    return tomllib.loads(f"value = {text}")["value"]
