"""Lanes: the subjects of a bus that events travel on, and which of them a condition needs.

A template such as `plant.{site}.{kind}` makes an event's lane from its attributes; without one a space is one lane. A
condition becomes the narrowest patterns that cover it: exact tokens from equalities and IN, prefixes where the bus
knows them, any token otherwise. Never does an event match a condition and travel outside its patterns: that is all that
correctness asks, because the client matches again what comes.

A lane is a tuple of tokens. Tokens are escaped alike for every bus: letters, digits, `_` and `-` stay, all else
becomes %XX, so that no separator or wildcard of any bus is left. `~` marks what is not a plain value.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from itertools import product
from math import isfinite, prod
from typing import Literal, NamedTuple
from urllib.parse import quote

from holdfast.language.constraint import IS_TRUE, Constraint
from holdfast.language.domain import Domain
from holdfast.language.like import prefix_text
from holdfast.language.subscription import Filter, Subscription
from holdfast.model.errors import InputError
from holdfast.model.event import RESERVED
from holdfast.model.values import Value, utc

Lane = tuple[str, ...]

PATTERNS_MAX = 256  # lanes of one condition: beyond that a wildcard costs less than keeping so many subscriptions
_LANE_MAX = 240  # characters of a lane: AMQP takes 255 bytes
_TOKEN_MAX = 64  # characters of a value that stay readable, in a lane with few attributes; the rest is hashed
_HASHED = 18  # what that adds, and a separator
_PLACES_MAX = 8  # attributes in a template: with more, hardly anything of a value would stay readable
_MISSING = "~"
_EMPTY = "~0"
_LIST = "~l"  # any list: which elements a condition asks for is no matter of lanes
_PLACE = re.compile(r"\{([^{}]*)\}")
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


class Token(NamedTuple):
    """One part of a pattern."""

    kind: Literal["exact", "prefix", "any"]
    text: str = ""

    def matches(self, token: str) -> bool:
        if self.kind == "exact":
            return token == self.text
        return self.kind == "any" or token.startswith(self.text)

    def covers(self, other: "Token") -> bool:
        if self.kind == "any":
            return True
        if self.kind == "prefix":
            return other.kind != "any" and other.text.startswith(self.text)
        return self == other


Pattern = tuple[Token, ...]
ANY = Token("any")


def is_exact(pattern: Pattern) -> bool:
    return all(each.kind == "exact" for each in pattern)


def exactly(lane: Lane) -> Pattern:
    return tuple(Token("exact", each) for each in lane)


def pattern_matches(pattern: Pattern, lane: Lane) -> bool:
    return len(pattern) == len(lane) and all(map(Token.matches, pattern, lane))


def pattern_text(pattern: Pattern, separator: str = ".") -> str:
    """For people."""
    texts = {"exact": "{}", "prefix": "{}…", "any": "*"}
    return separator.join(texts[each.kind].format(each.text) for each in pattern)


class Covering(NamedTuple):
    """The lanes of a condition, and why they are not narrower."""

    patterns: tuple[Pattern, ...]
    reasons: tuple[str, ...]


class Template:
    def __init__(self, text: str, space: str) -> None:
        """An InputError when the text is no template."""
        self.text = text or space
        self._tokens: list[tuple[str, str]] = []  # ("literal" or "attribute", text)
        what = f"lanes {text!r}" if text else f"space {space!r}"
        for each in _tokens_of(self.text):
            self._tokens.append(_read_token(each, what))
        self.attributes = tuple(name for kind, name in self._tokens if kind == "attribute")
        if len(set(self.attributes)) < len(self.attributes):
            raise InputError(f"{what}: an attribute stands in it twice; once is enough")
        if len(self.attributes) > _PLACES_MAX:
            raise InputError(f"{what}: {len(self.attributes)} attributes; the limit is {_PLACES_MAX}")
        left = _LANE_MAX - sum(len(name) + 1 for kind, name in self._tokens if kind == "literal")
        self._token_max = min(_TOKEN_MAX, left // max(1, len(self.attributes)) - _HASHED)
        if self._token_max < 8:
            raise InputError(f"{what}: too long for {len(self.attributes)} values in {_LANE_MAX} characters")
        self._cache: dict[tuple[object, ...], Lane] = {}

    def lane(self, attributes: Mapping[str, Value | None]) -> Lane:
        """The lane of an event."""
        values = tuple([attributes.get(name) for name in self.attributes])
        kinds = tuple(map(type, values))
        key = (*(values if list not in kinds else map(token_of, values)), *kinds)  # 1 is True to Python
        found = self._cache.get(key)
        if found is None:
            tokens = [token_of(each, self._token_max) for each in values]
            texts = dict(zip(self.attributes, tokens, strict=True))
            found = tuple(name if kind == "literal" else texts[name] for kind, name in self._tokens)
            if len(self._cache) >= 10_000:  # a megabyte or two; a template with more lanes pays for escaping each time
                self._cache.clear()
            self._cache[key] = found
        return found

    def values_of(self, lane: Sequence[str]) -> dict[str, str]:
        """What a lane says of an event that somebody else has published; nothing where it cannot be read back."""
        if len(lane) != len(self._tokens):
            return {}
        named = zip(self._tokens, lane, strict=True)
        return {name: token for (kind, name), token in named if kind == "attribute" and _PLAIN.fullmatch(token)}

    def covering(self, condition: Subscription, prefixes: bool = True) -> Covering:
        """The lanes that every event travels on that the condition may match; `prefixes`: the bus knows those."""
        found: dict[Pattern, None] = {}
        reasons: dict[str, None] = {}
        for filter_ in condition.filters:
            found.update(dict.fromkeys(self._of_filter(filter_, prefixes, reasons)))
        patterns = without_covered(found)
        if len(patterns) > PATTERNS_MAX:
            reasons[f"more than {PATTERNS_MAX} lanes: all are subscribed to"] = None
            patterns = (self._pattern([[ANY]] * len(self.attributes))[0],)
        return Covering(patterns, tuple(reasons))

    def _of_filter(self, filter_: Filter, prefixes: bool, reasons: dict[str, None]) -> list[Pattern]:
        most = self._token_max
        choices = [_tokens_for(name, filter_, prefixes, most, reasons) for name in self.attributes]
        while prod(map(len, choices)) > PATTERNS_MAX:
            widest = max(range(len(choices)), key=lambda at: len(choices[at]))
            count = len(choices[widest])
            reasons[f"{self.attributes[widest]}: {count} values would make too many lanes: any"] = None
            choices[widest] = [ANY]
        return self._pattern(choices)

    def _pattern(self, choices: Sequence[Sequence[Token]]) -> list[Pattern]:
        patterns = []
        for chosen in product(*choices):
            by_name = dict(zip(self.attributes, chosen, strict=True))
            patterns.append(
                tuple(Token("exact", name) if kind == "literal" else by_name[name] for kind, name in self._tokens)
            )
        return patterns


def without_covered(patterns: Iterable[Pattern]) -> tuple[Pattern, ...]:
    """The same lanes by fewer patterns."""
    kept: list[Pattern] = []
    for each in sorted(patterns, key=lambda one: [token.kind == "exact" for token in one]):
        if not any(len(one) == len(each) and all(map(Token.covers, one, each)) for one in kept):
            kept.append(each)
    return tuple(kept)


def without_control(condition: Subscription) -> Subscription:
    """Without what only control messages meet, which have lanes of their own."""
    control = [
        any(each.attribute.startswith(RESERVED) and each.op != "IS NULL" for each in one) for one in condition.filters
    ]
    return Subscription(
        tuple(one for one, is_control in zip(condition.filters, control, strict=True) if not is_control)
    )


def token_of(value: Value | None, most: int = _TOKEN_MAX) -> str:
    """A value as a token, of so many characters and a hash. Values that are equal in a condition have equal tokens."""
    if value is None:
        return _MISSING
    if isinstance(value, list):
        return _LIST
    text = _text_of(value)
    return _cut(escaped(text), most) if text else _EMPTY


def escaped(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    text = quote(text, safe="", errors="surrogatepass")  # which leaves three more characters as they are
    return text.replace("~", "%7E").replace(".", "%2E")


def _cut(token: str, most: int) -> str:
    if len(token) <= most:
        return token
    return f"{_readable(token, most)}~{blake2b(token.encode(), digest_size=8).hexdigest()}"


def _readable(token: str, most: int) -> str:
    """Its beginning, so that prefixes still work."""
    cut = token[:most]
    return cut[: cut.rindex("%")] if "%" in cut[-2:] else cut


def _text_of(value: str | float | bool | datetime) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return utc(value).isoformat()
    if isinstance(value, float) and isfinite(value) and value == int(value):
        return str(int(value))  # 1.0 = 1 in a condition
    return repr(value)


def _tokens_for(name: str, filter_: Filter, prefixes: bool, most: int, reasons: dict[str, None]) -> list[Token]:
    """What a filter leaves of an attribute, as tokens."""
    about = [each for each in filter_ if each.op != IS_TRUE and each.attribute == name]
    if not about:
        tested = any(name in each.names for each in filter_)
        reasons[f"{name}: {'an expression tests it' if tested else 'not tested'}: any"] = None
        return [ANY]
    if any(each.op == "IS NULL" for each in about):
        reasons[f"{name}: missing"] = None
        return [Token("exact", _MISSING)]
    points = Domain(about).points
    if points is not None:
        reasons[f"{name}: {len(points)} value{'s' * (len(points) != 1)}"] = None
        return [Token("exact", each) for each in sorted({token_of(each, most) for each in points})]
    return [_prefix_token(name, about, most if prefixes else 0, reasons)]


def _prefix_token(name: str, about: Sequence[Constraint], most: int, reasons: dict[str, None]) -> Token:
    texts = [prefix_text(each.operand) for each in about if each.op == "LIKE"]
    longest = max((each for each in texts if each), key=len, default=None)
    if longest is None:
        reasons[f"{name}: {' AND '.join(map(str, about))} is neither an equality nor a prefix: any"] = None
        return ANY
    if not most:
        reasons[f"{name}: the bus has no wildcard for the beginning {longest!r}: any"] = None
        return ANY
    reasons[f"{name}: begins with {longest!r}"] = None
    token = escaped(longest)
    return Token("prefix", token if len(token) <= most else _readable(token, most))


def _tokens_of(text: str) -> list[str]:
    """Split at dots, or slashes where there are any, outside of braces: attributes may have dots in their names."""
    places: list[str] = []

    def kept(place: "re.Match[str]") -> str:
        places.append(place[0])
        return f"\0{len(places) - 1}\0"

    separator = "/" if "/" in _PLACE.sub("", text) else "."
    parts = _PLACE.sub(kept, text).split(separator)
    return [re.sub("\0([0-9]+)\0", lambda each: places[int(each[1])], part) for part in parts]


def _read_token(token: str, what: str) -> tuple[str, str]:
    place = _PLACE.fullmatch(token)
    example = "write it for instance as plant" + (".{site}.{kind}" if what.startswith("lanes") else "")
    if place is not None and place[1].strip():
        return "attribute", place[1].strip()
    if "{" in token or "}" in token:
        raise InputError(f"{what}: {token!r} is neither a word nor one attribute in braces; {example}")
    if not _PLAIN.fullmatch(token):
        raise InputError(f"{what}: {token!r} may have letters, digits, _ and - only; {example}")
    return "literal", token
