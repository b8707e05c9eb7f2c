"""Which events match which conditions, by DuckDB: the language is a subset of SQL, so it reads the texts as they are.

Where DuckDB reads a text otherwise than docs/language.md does (rule L22), it is not asked: attributes whose values are
of two kinds, names that differ in case alone, a division by anything but a literal other than 0, and EXISTS are refused
with an error. A literal with a point becomes a double, which to DuckDB would be a decimal.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_ID = "holdfast_event"  # no attribute of a workload
_NOTHING = "holdfast_nothing"
_WORD = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\""
    r"|[A-Za-z_][\w$]*(?!\s*\(|[\w$])"  # what stands before a parenthesis is a function
    r"|[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?"
)
_KEYWORDS = frozenset("and or not between in like escape is null true false timestamp".split())
_UNITS = re.compile(r"\bTIMESTAMPDIFF\s*\(\s*(\w+)", re.IGNORECASE)
_TEXTS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_DIVIDED = re.compile(r"[/%](?!\s*-?(?=[0-9.]*[1-9])[0-9.]+)|\bEXISTS\s*\(", re.IGNORECASE)


class CannotJudge(Exception):
    """The events or conditions are not of a form that DuckDB reads as the product does."""


def matches(events: Mapping[str, Mapping[str, Any]], conditions: Iterable[str]) -> dict[str, set[str]]:
    """For each condition the names of the events that it selects."""
    import duckdb  # noqa: PLC0415 - an extra, and slow to import

    structure = _structure(events.values())
    rows = [(id_, json.dumps(_plain(attributes))) for id_, attributes in events.items()]
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE arrived (id VARCHAR, event VARCHAR)")
        if rows:
            engine.executemany("INSERT INTO arrived VALUES (?, ?)", rows)
        columns = f"id AS {_ID}, unnest(from_json(event, ?))"
        engine.execute(f"CREATE TABLE events AS SELECT {columns} FROM arrived", [json.dumps(structure)])
        return {each: _selected(engine, each, structure) for each in dict.fromkeys(conditions)}


def _selected(engine: Any, condition: str, known: Mapping[str, Any]) -> set[str]:
    missing = [name for name in _names(condition) if name not in known]
    # An attribute that no event has is NULL everywhere, and of no type, so that it goes with every test.
    nulls = "".join([f', NULL AS "{name}"' for name in dict.fromkeys(missing)])
    found = engine.execute(f"SELECT {_ID} FROM (SELECT *{nulls} FROM events) WHERE {_quoted(condition)}").fetchall()
    return {id_ for (id_,) in found}


def _is_name(word: str) -> bool:
    return word[0] not in "'.0123456789" and word.lower() not in _KEYWORDS


def _names(condition: str) -> list[str]:
    """The first part of each attribute's name in a condition, without quotes."""
    condition = _UNITS.sub("(''", condition)
    found = [word for word in _WORD.finditer(condition) if _is_name(word[0])]
    firsts = [word for word in found if condition[: word.start()][-1:] != "."]
    return [word[0].strip('"') for word in firsts]


def _quoted(condition: str) -> str:
    """The same with every attribute in quotes: DuckDB has many more keywords than the product."""
    if _DIVIDED.search(_TEXTS.sub("", condition)):
        raise CannotJudge(f"the condition {condition} divides by what may be 0, or asks EXISTS")
    return _WORD.sub(lambda word: _spelt(word[0]), _UNITS.sub(r"date_sub('\1'", condition))


def _spelt(word: str) -> str:
    if _is_name(word) and word[0] != '"':
        return f'"{word}"'
    return f"{word}e0" if "." in word and word[0] in ".0123456789" and "e" not in word.lower() else word


def _structure(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The type of each attribute, for DuckDB's from_json; dotted names become structs."""
    kinds: dict[str, str] = {}
    for event in events:
        for name, value in event.items():
            kind = _kind(value)
            if kind is None or kinds.setdefault(name, kind) == kind:
                continue
            if {kind, kinds[name]} != {"BIGINT", "DOUBLE"}:
                raise CannotJudge(f"the attribute {name} is {kinds[name]} in one event and {kind} in another")
            kinds[name] = "DOUBLE"
    if len({name.lower() for name in kinds}) < len(kinds):
        raise CannotJudge("the names of two attributes differ in upper and lower case alone")
    nested: dict[str, Any] = {_NOTHING: "BOOLEAN"}  # a table has at least one column
    for name, kind in kinds.items():
        *parts, last = name.split(".")
        inner = nested
        for part in parts:
            inner = inner.setdefault(part, {})
        inner[last] = kind
    return nested


def _kind(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "BOOLEAN"
        case int():
            return "BIGINT"
        case float():
            return "DOUBLE"
        case str():
            return "VARCHAR"
        case {"$timestamp": _}:
            return "TIMESTAMP"
    raise CannotJudge(f"{value!r} is no value of an attribute")


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The event as DuckDB reads it: nested, and timestamps as texts in UTC."""
    plain: dict[str, Any] = {}
    for name, value in attributes.items():
        *parts, last = name.split(".")
        inner = plain
        for part in parts:
            inner = inner.setdefault(part, {})
        inner[last] = value["$timestamp"].removesuffix("+00:00") if isinstance(value, dict) else value
    return plain
