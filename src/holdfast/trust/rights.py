"""The rights file: what clients may publish and subscribe to, in the language of subscriptions.

    [[right]]
    who = "desk-*"                       # names; "group:traders", "anonymous"; or a list of these
    publish = "class = 'order' AND desk = $name"
    subscribe = "class = 'stock' AND exchange IN ('NYSE', 'XETRA')"
    narrow = true                        # admit other subscriptions, narrowed, instead of refusing them
    digests = false                      # what recovery tells of all events of a publisher is kept from them

Who is meant by several entries may do what any of them allows. What no entry allows is refused. `$name` stands for the
name of whoever has the right. Nobody but `anonymous` means clients that have proved nothing.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from holdfast.language.covering import filter_covers
from holdfast.language.limits import FILTERS_MAX
from holdfast.language.parser import parse
from holdfast.language.problems import ConditionError
from holdfast.language.subscription import Filter, Subscription, canonical_filter, subscription_of
from holdfast.language.tokens import spans_of
from holdfast.model.errors import InputError
from holdfast.model.validation import did_you_mean
from holdfast.model.values import literal
from holdfast.trust.identity import Principal

_KEYS = ("who", "publish", "subscribe", "narrow", "digests")
_NAME = "$name"
_GROUP = "group:"
_NOBODY = "anonymous"
_KNOWN_MAX = 10_000  # rights of identities that are kept: as many as may be connected
_NOTHING = Subscription(())


@dataclass(frozen=True)
class Right:
    """What one identity may do."""

    publish: Subscription
    subscribe: Subscription
    narrows: bool
    sees_digests: bool

    def admitted(self, wanted: Subscription) -> Subscription:
        """As much of a subscription as is allowed: all of it, or narrowed, or nothing."""
        if all(any(_is_within(each, inner) for each in self.subscribe.filters) for inner in wanted.filters):
            return wanted
        if not self.narrows or len(wanted.filters) * len(self.subscribe.filters) > FILTERS_MAX:
            return _NOTHING
        return subscription_of([(*one, *other) for one in self.subscribe.filters for other in wanted.filters])


def _is_within(wide: Filter, narrow: Filter) -> bool:
    """Whether all that a filter matches is matched by the wide one; what we have narrowed ourselves always is."""
    return filter_covers(wide, narrow) or canonical_filter((*wide, *narrow)) == narrow


@dataclass(frozen=True)
class _Entry:
    who: tuple[str, ...]
    publish: str
    subscribe: str
    narrow: bool
    digests: bool

    def means(self, identity: Principal) -> bool:
        if not identity.name:
            return _NOBODY in self.who
        groups = {f"{_GROUP}{each}" for each in identity.groups}
        return any(each in groups if each.startswith(_GROUP) else self._names(each, identity) for each in self.who)

    @staticmethod
    def _names(pattern: str, identity: Principal) -> bool:
        return pattern != _NOBODY and fnmatchcase(identity.name, pattern)


class RightsFile:
    def __init__(self, entries: Iterable[_Entry]) -> None:
        self._entries = tuple(entries)
        self._known = lru_cache(_KNOWN_MAX)(self._right)

    def has_any(self, identity: Principal) -> bool:
        """Whether anything at all is allowed to it."""
        return any(each.means(identity) for each in self._entries)

    def of(self, identity: Principal) -> Right:
        """What it may do: nothing, if no entry means it."""
        return self._known(Principal(identity.name, identity.groups))

    def _right(self, identity: Principal) -> Right:
        meant = [each for each in self._entries if each.means(identity)]
        return Right(
            _any_of([each.publish for each in meant], identity.name),
            _any_of([each.subscribe for each in meant], identity.name),
            any(each.narrow for each in meant),
            any(each.digests for each in meant),
        )


def _any_of(conditions: Iterable[str], name: str) -> Subscription:
    filters = [filter_ for each in conditions if each for filter_ in parse(_with_name(each, name)).filters]
    return subscription_of(filters) if filters else _NOTHING


def _with_name(condition: str, name: str) -> str:
    """The condition with a name in place of `$name`, but not inside of quotes."""
    parts, done = [], 0
    for start, _ in spans_of(condition):
        if condition.startswith(_NAME, start):
            parts += [condition[done:start], literal(name)]
            done = start + len(_NAME)
    return "".join([*parts, condition[done:]])


# Reading -----------------------------------------------------------------------------------------


def read_rights(path: Path) -> RightsFile:
    """The rights in a file; an InputError with all that is wrong with it."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as problem:
        raise InputError(f"rights {path}: cannot be read: {problem}") from None
    return rights_of(given, f"rights {path}")


def rights_of(given: dict[str, Any], where: str) -> RightsFile:
    problems = [f"{each!r} is not known; write [[right]]" for each in given if each != "right"]
    tables = given.get("right", [])
    entries: list[_Entry] = []
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        problems.append("write [[right]], with two brackets, above each right")
        tables = []
    for number, table in enumerate(tables, 1):
        found = list(_problems(table))
        problems += [f"right {number}: {each}" for each in found]
        if not found:
            who = (table["who"],) if isinstance(table["who"], str) else tuple(table["who"])
            may = table.get("publish", ""), table.get("subscribe", "")
            entries.append(_Entry(who, *may, table.get("narrow", False), table.get("digests", True)))
    if problems:
        raise InputError("\n  ".join([f"{where}:", *problems]))
    return RightsFile(entries)


def _problems(table: dict[str, Any]) -> Iterable[str]:
    for key in table:
        if key not in _KEYS:
            near = did_you_mean(key, _KEYS)
            yield f"{key!r} is not known; {near or 'there are ' + ', '.join(_KEYS)}"
    who = table.get("who")
    names = [who] if isinstance(who, str) else who
    if not isinstance(names, list) or not names or not all(isinstance(each, str) and each for each in names):
        yield 'who: expected a name in quotes, such as "desk-*", or a list of names'
    for key in ("narrow", "digests"):
        if not isinstance(table.get(key, False), bool):
            yield f"{key}: expected true or false"
    for key in ("publish", "subscribe"):
        condition = table.get(key, "")
        if not isinstance(condition, str):
            yield f"{key}: expected a condition in quotes"
            continue
        try:
            if condition:
                parse(_with_name(condition, "x"))
        except ConditionError as problem:
            yield f"{key}: {problem}"
