"""Kinds of values that people write: what each expects, in words, and what is wrong with a value.

Settings made in Python, keys of the network file and flags are checked by the same kinds, so that each bound holds
everywhere and is described everywhere in the same words.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from math import inf, isfinite
from typing import Any, Protocol


class ValueRule(Protocol):
    def words(self) -> str:
        """What is expected, such as "a whole number of bytes from 1 to 4,096"."""

    def refusal(self, found: Any) -> str | None:
        """None for a value that is accepted; otherwise what to write instead, or nothing when there is no guess."""


@dataclass(frozen=True)
class NumberRule:
    low: float
    high: float = inf
    unit: str = ""
    integer: bool = False
    above: bool = False  # `low` itself is too low
    below: bool = False  # `high` itself is too high

    def words(self) -> str:
        kind = f"a {'whole ' if self.integer else ''}number{f' of {self.unit}' if self.unit else ''}"
        if self.high == inf:
            return f"{kind} above {self.low:,}" if self.above else f"{kind}, {self.low:,} or more"
        if self.above or self.below:
            start = f"above {self.low:,}" if self.above else f"from {self.low:,}"
            return f"{kind} {start}, {'below' if self.below else 'up to'} {self.high:,}"
        return f"{kind} from {self.low:,} to {self.high:,}"

    def refusal(self, found: Any) -> str | None:
        if isinstance(found, bool) or not isinstance(found, int | float):
            return _unquoted(found)
        if self.integer and not isinstance(found, int):
            return ""
        inside = self.low <= found <= self.high and isfinite(found)
        if inside and not (self.above and found == self.low) and not (self.below and found == self.high):
            return None
        if (self.low, self.high, self.integer) == (0, 1, False) and 1 < found <= 100:
            return f"write {found:g} % as {found / 100:g}"
        return ""


def _unquoted(found: object) -> str:
    try:
        return "write it without quotes" if isinstance(found, str) and isfinite(float(found)) else ""
    except ValueError:
        return ""


@dataclass(frozen=True)
class FlagRule:
    def words(self) -> str:
        return "true or false"

    def refusal(self, found: Any) -> str | None:
        if isinstance(found, bool):
            return None
        plain = isinstance(found, str) and found.lower() in ("true", "false")
        return "write it without quotes, in small letters" if plain else ""


@dataclass(frozen=True)
class ChoiceRule:
    """One of a few words, or of a few numbers."""

    choices: tuple[str | int, ...]

    def words(self) -> str:
        if all(isinstance(each, str) for each in self.choices):
            return " or ".join(f'"{each}"' for each in self.choices)
        *others, last = (f"{each:,}" for each in self.choices)
        return f"{', '.join(others)} or {last}"

    def refusal(self, found: Any) -> str | None:
        if isinstance(found, str | int) and not isinstance(found, bool) and found in self.choices:
            return None
        words = [each for each in self.choices if isinstance(each, str)]
        return did_you_mean(found.lower(), words) if isinstance(found, str) else ""


@dataclass(frozen=True)
class TextRule:
    what: str = "a text in quotes"
    characters_max: int = 1_000  # a title, an address or a path

    def words(self) -> str:
        return self.what

    def refusal(self, found: Any) -> str | None:
        if not isinstance(found, str) or not found:
            return ""
        too_long = len(found) > self.characters_max or "\0" in found
        return f"at most {self.characters_max:,} characters" if too_long else None


@dataclass(frozen=True)
class Instance:
    """An object of a class; the network file has no such values."""

    types: tuple[type, ...]

    def words(self) -> str:
        return " or ".join(each.__name__ for each in self.types)

    def refusal(self, found: Any) -> str | None:
        return None if isinstance(found, self.types) else ""


@dataclass(frozen=True)
class AnyOf:
    kinds: tuple[ValueRule, ...]

    def words(self) -> str:
        return " or ".join(each.words() for each in self.kinds)

    def refusal(self, found: Any) -> str | None:
        return None if any(each.refusal(found) is None for each in self.kinds) else ""


def complaint(kind: ValueRule, found: object) -> str:
    """What is wrong with a value, to be put behind its name; empty when it is accepted."""
    if kind.refusal(found) is None:
        return ""
    listed = _listed(kind)
    return f"is {found!r}; it can be {listed}" if listed else f"must be {kind.words()}, found {found!r}"


def _listed(kind: ValueRule) -> str:
    """The choices of a kind that has some, as Python writes them."""
    match kind:
        case FlagRule():
            return "True or False"
        case ChoiceRule() if all(isinstance(each, str) for each in kind.choices):
            return ", ".join(map(str, kind.choices))
        case AnyOf():
            each_listed = ((_listed(each) or each.words()).replace(" or ", ", ") for each in kind.kinds)
            return ", ".join(each_listed)
    return ""


def did_you_mean(found: str, known: Any) -> str:
    """A suggestion for a misspelt name, or nothing when none is near."""
    near = get_close_matches(found, list(known), n=1)
    return f'did you mean "{near[0]}"?' if near else ""
