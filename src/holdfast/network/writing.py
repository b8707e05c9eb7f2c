"""Write plain data as TOML, for network files that programs put together. Reading it back gives equal data."""

import re
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

from holdfast.model.errors import MisuseError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPECIAL = re.compile(r'["\\\x00-\x1f\x7f]')


def to_toml(data: Mapping[str, Any]) -> str:
    return "\n".join(_table(data, ())).lstrip("\n") + "\n"


def _table(data: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    """Values first, because what follows a table's header belongs to that table."""
    lines, later = [], []
    for key, value in data.items():
        below = (*path, key)
        if isinstance(value, Mapping):
            later += ["", f"[{_dotted(below)}]", *_table(value, below)]
        elif isinstance(value, list | tuple) and value and all(isinstance(each, Mapping) for each in value):
            for each in value:
                later += ["", f"[[{_dotted(below)}]]", *_table(each, below)]
        else:
            lines.append(f"{_key(key)} = {value_text(value)}")
    return lines + later


def value_text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case int() | float():
            return repr(value)  # inf and nan are spelled alike in TOML
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            return "{" + ", ".join(f"{_key(key)} = {value_text(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(value_text, value)) + "]"
    raise MisuseError(f"TOML has no {type(value).__name__}")


def _text(value: str) -> str:
    return '"' + _SPECIAL.sub(lambda found: _ESCAPES.get(found[0], f"\\u{ord(found[0]):04x}"), value) + '"'


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(map(_key, path))


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)
